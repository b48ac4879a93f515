// @ts-check
/** One session: its conversation with the cards where they were asked, followed as it goes on. */

import { ApiError } from "./api.js";
import { arrange, h, say, setAttribute } from "./dom.js";
import { Feed } from "./feed.js";
import { oncePerFrame } from "./frames.js";
import { shorten } from "./inert.js";
import { lines } from "./log.js";
import { place } from "./place.js";
import { everySecond } from "./ticker.js";
import { isOpen } from "./types.js";
import { sentence, sessionName, span } from "./wording.js";

/** @typedef {import("./types.js").Ask} Ask */
/** @typedef {import("./types.js").Logged} Logged */
/** @typedef {import("./types.js").Session} Session */

const SHOWN = 300; // items of a long conversation that are shown until more are asked for
const NEAR_END_PX = 120;

export class SessionView {
  #cards;
  #id;
  /** @type {Logged[]} */
  #events = [];
  /** @type {Map<string, "done" | "failed">} */
  #finished = new Map();
  /** @type {Map<string, { signature: string, element: HTMLElement }>} */
  #lines = new Map();
  /** Asks whose card was shown here. @type {Set<string>} */
  #seen = new Set();
  /** Asks that the server says belong to no call. @type {Set<string>} */
  #unplaced = new Set();
  /** What gives the part of the conversation before the one that was read. @type {number | null} */
  #before = null;
  #shown = SHOWN;
  /** Counts the beginnings: what was asked for before the last one is not taken any more. */
  #begun = 0;
  #soon;
  #placed = false;
  #wasCleared = false;
  /** What was known of the session when the server had none of its id. @type {{ session: Session | undefined } | null} */
  #missing = null;
  /** @type {Feed | null} */
  #feed = null;
  #listening = new AbortController();
  #title = h("h1", { dir: "auto" });
  #facts = h("p", { class: "facts" });
  #note = h("p", { class: "note", role: "alert" });
  #clear = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.#askToClear(true) }, "Clear…");
  #confirm = h(
    "div",
    { class: "confirm", role: "group", hidden: true },
    h("p", {}, "Clear this session? Its conversation and its cards are removed for good."),
    h("button", { type: "button", class: "danger", onclick: () => this.#clearAll() }, "Clear the session"),
    h("button", { type: "button", onclick: () => this.#askToClear(false) }, "Keep it"),
  );
  #earlier = h("button", { type: "button", class: "earlier", hidden: true, onclick: () => this.#showEarlier() }, "Show earlier");
  #log = h("div", { class: "log" });
  #pinned = h("div", { class: "list" });
  #pinnedSection = h(
    "section",
    { class: "pinned", hidden: true },
    h("p", { class: "hint" }, "Not tied to a call in the conversation:"),
    this.#pinned,
  );

  /**
   * @param {import("./stage.js").Cards} cards
   * @param {string} id
   */
  constructor(cards, id) {
    this.#cards = cards;
    this.#id = id;
    this.element = h(
      "div",
      { class: "session" },
      h("header", { class: "view-head" }, h("div", {}, this.#title, this.#facts), this.#clear),
      this.#confirm,
      this.#note,
      this.#earlier,
      this.#log,
      this.#pinnedSection,
    );
    const { signal } = this.#listening;
    this.#soon = oncePerFrame(() => signal.aborted || this.#draw());
    signal.addEventListener("abort", cards.inbox.hold(id));
    cards.inbox.addEventListener(
      "change",
      () => {
        this.#soon();
        this.#notice();
      },
      { signal },
    );
    cards.inbox.addEventListener(
      "cleared",
      (event) => [id, null].includes(/** @type {CustomEvent<string | null>} */ (event).detail) && this.#beginAnew(),
      { signal },
    );
    cards.inbox.addEventListener("connection", () => this.#reread(), { signal });
    document.addEventListener(
      "visibilitychange",
      () => {
        this.#follow();
        this.#reread();
      },
      { signal },
    );
    signal.addEventListener("abort", everySecond(() => this.#head()));
    this.#head();
    this.#read();
  }

  /** Stop following the session. */
  close() {
    this.#listening.abort();
    this.#feed?.close();
  }

  async #read() {
    const { inbox } = this.#cards;
    const begun = ++this.#begun;
    const session = inbox.sessions.get(this.#id);
    this.#missing = null;
    try {
      const { items, pinned, position, before } = await inbox.api.conversation(this.#id);
      if (this.#isPast(begun)) return;
      this.#before = before;
      this.#seen.clear(); // until now all cards stood apart
      for (const ask of pinned) this.#unplaced.add(ask.id);
      for (const item of items) if (item.kind === "event") this.#take({ position: item.position, event: item.event });
      inbox.learn([...cardsOf(items), ...pinned]);
      this.#feed = new Feed({
        url: inbox.api.url(`api/sessions/${encodeURIComponent(this.#id)}/feed`),
        kinds: ["log"],
        last: String(position),
        resume: "after",
        onMessage: (logged) => {
          this.#take(logged);
          this.#soon();
        },
      });
      this.#follow();
      this.#draw();
      this.#showNow();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (this.#isPast(begun)) return;
      const isMissing = error.code === "unknown_session";
      if (isMissing) this.#missing = { session };
      const isGone = isMissing && this.#wasCleared;
      say(this.#note, isGone ? "This session was cleared; its conversation and its cards are gone." : sentence(error.message));
      this.#notice();
    }
  }

  /** Read a session that was not there, once it has begun. */
  #notice() {
    const session = this.#cards.inbox.sessions.get(this.#id);
    if (this.#missing && session && session !== this.#missing.session) this.#reread();
  }

  /** Tell whether the view has begun anew since, or is closed. @param {number} begun */
  #isPast(begun) {
    return this.#listening.signal.aborted || begun !== this.#begun;
  }

  /** Show what there is of a session that was cleared meanwhile. */
  #beginAnew() {
    this.#wasCleared = true;
    this.#feed?.close();
    this.#feed = null;
    this.#events = [];
    this.#finished.clear();
    this.#lines.clear();
    this.#before = null;
    this.#shown = SHOWN;
    setAttribute(this.#confirm, "hidden", true);
    setAttribute(this.#clear, "hidden", true);
    this.#draw();
    this.#read();
  }

  /** Read what could not be read before. */
  #reread() {
    if (this.#feed || this.#cards.inbox.connection !== "open") return;
    say(this.#note, "");
    this.#read();
  }

  /** Follow the log while somebody looks: a browser has few connections to one server. */
  #follow() {
    if (document.visibilityState === "visible") this.#feed?.open();
    else this.#feed?.close();
  }

  /** @param {Logged} logged */
  #take(logged) {
    if (logged.position <= (this.#events.at(-1)?.position ?? -1)) return;
    this.#events.push(logged);
    this.#noticeEnd(logged.event);
  }

  /** @param {Record<string, any>} event */
  #noticeEnd(event) {
    if (event.event === "tool_finished" && event.tool_call_id) {
      this.#finished.set(event.tool_call_id, event.is_error ? "failed" : "done");
    }
  }

  #draw() {
    const scroller = document.scrollingElement ?? document.documentElement;
    const atEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR_END_PX;
    this.#cards.change(() => {
      this.#cards.prune();
      this.#cards.refresh();
      this.#head();
      const { items, pinned } = place(this.#events, this.#cards.inbox.listed(this.#id));
      const apart = pinned.filter((ask) => this.#standsApart(ask));
      arrange(this.#log, this.#elements(items));
      arrange(this.#pinned, apart.map((ask) => this.#card(ask)));
      setAttribute(this.#pinnedSection, "hidden", apart.length === 0);
    });
    if (atEnd && this.#placed && !this.#log.matches(":focus-within")) scroller.scrollTop = scroller.scrollHeight;
  }

  /** Tell of an ask at no call that is known here whether it is shown: its call may be in a part that was not read. @param {Ask} ask */
  #standsApart(ask) {
    return this.#before === null || isOpen(ask) || this.#unplaced.has(ask.id) || this.#seen.has(ask.id);
  }

  /** @param {(Logged | Ask)[]} items */
  #elements(items) {
    setAttribute(this.#earlier, "hidden", items.length <= this.#shown && this.#before === null);
    /** @type {HTMLElement[]} */
    const elements = [];
    /** @type {Logged[]} */
    let run = [];
    const flush = () => {
      for (const line of lines(run, this.#finished)) elements.push(this.#line(line));
      run = [];
    };
    for (const item of items.slice(-this.#shown)) {
      if ("event" in item) run.push(item);
      else {
        flush();
        elements.push(this.#card(item));
      }
    }
    flush();
    return elements;
  }

  /** Give the card of an ask: whole at first, however it was shown elsewhere. @param {Ask} ask */
  #card(ask) {
    const card = this.#cards.of(ask);
    if (!this.#seen.has(ask.id)) card.fold(false);
    this.#seen.add(ask.id);
    return card.element;
  }

  /** @param {{ key: string, signature: string, make: () => HTMLElement }} line */
  #line({ key, signature, make }) {
    const known = this.#lines.get(key);
    if (known?.signature === signature) return known.element;
    const element = make();
    this.#lines.set(key, { signature, element });
    return element;
  }

  #head() {
    const { inbox } = this.#cards;
    const session = inbox.sessions.get(this.#id);
    say(this.#title, sessionName(session, this.#id));
    if (!session) return;
    const now = inbox.api.now();
    const state = session.running
      ? `running for ${span(now - Date.parse(session.started_at))}`
      : session.ending === "host_died"
        ? "its host is gone"
        : "ended";
    say(this.#facts, [shorten(session.runtime, 40), state].filter(Boolean).join(" · "));
    setAttribute(this.#clear, "hidden", session.running);
  }

  /** Show what matters now: the first question that waits, else the end. */
  #showNow() {
    this.#placed = true;
    const waiting = this.#cards.inbox.listed(this.#id).find(isOpen);
    const element = waiting ? this.#cards.of(waiting).element : this.element.lastElementChild;
    this.#cards.change(() => element?.scrollIntoView({ block: waiting ? "center" : "end" }));
  }

  async #showEarlier() {
    const begun = this.#begun;
    if (this.#before !== null && this.#events.length < this.#shown + SHOWN) await this.#readEarlier();
    if (this.#isPast(begun)) return;
    this.#shown += SHOWN;
    this.#draw();
  }

  async #readEarlier() {
    if (this.#earlier.disabled) return;
    this.#earlier.disabled = true;
    const begun = this.#begun;
    try {
      const { items, before } = await this.#cards.inbox.api.conversation(this.#id, this.#before);
      if (this.#isPast(begun)) return;
      const events = items.flatMap((item) => (item.kind === "event" ? [{ position: item.position, event: item.event }] : []));
      for (const { event } of events) this.#noticeEnd(event);
      this.#events.unshift(...events);
      this.#before = before;
      this.#cards.inbox.learn(cardsOf(items));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (!this.#isPast(begun)) say(this.#note, sentence(error.message));
    } finally {
      this.#earlier.disabled = false;
    }
  }

  /** @param {boolean} asking */
  #askToClear(asking) {
    this.#cards.change(() => setAttribute(this.#confirm, "hidden", !asking));
    (asking ? this.#confirm.querySelector("button") : this.#clear)?.focus();
  }

  async #clearAll() {
    try {
      await this.#cards.inbox.api.clear(this.#id);
      if (!this.#listening.signal.aborted) location.hash = "#/";
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      say(this.#note, sentence(error.message));
    }
  }
}

/** @param {import("./types.js").Conversation["items"]} items @returns {Ask[]} */
function cardsOf(items) {
  return items.flatMap((item) => (item.kind === "card" ? [item.ask] : []));
}
