// @ts-check
/** The inbox: what waits for the operator, the longest waiting on top, and below what was closed lately. */

import { ApiError } from "./api.js";
import { arrange, h, setAttribute } from "./dom.js";
import { oncePerFrame } from "./frames.js";

/** @typedef {import("./types.js").Ask} Ask */

const LINGER_MS = 6000; // how long a closed card stays where it was, so that one sees what became of it
const OPEN_CARDS = 3; // with more asks than that, those further down are one line each
const CLOSED_CARDS = 10;

export class Waiting {
  #cards;
  #sessionId;
  /** Closed asks that are still shown where they were. @type {Map<string, ReturnType<typeof setTimeout>>} */
  #lingering = new Map();
  /** Asks whose card was unfolded once. @type {Set<string>} */
  #unfolded = new Set();
  #hasRead = false;
  #listening = new AbortController();
  #list = h("div", { class: "list" });
  #empty = h(
    "div",
    { class: "empty", hidden: true },
    h("p", { class: "headline" }, "Nothing waits for you."),
    h("p", {}, "Questions of your agents appear here; this page may stay open."),
  );
  #closed = h("div", { class: "list closed" });
  #closedSection = h("section", { class: "lately", hidden: true }, h("h2", {}, "Closed lately"), this.#closed);

  /**
   * @param {import("./stage.js").Cards} cards
   * @param {object} [options]
   * @param {string | null} [options.sessionId] only the asks of this session
   * @param {boolean} [options.lately] whether to show what was closed before
   */
  constructor(cards, { sessionId = null, lately = true } = {}) {
    this.#cards = cards;
    this.#sessionId = sessionId;
    this.lately = lately;
    this.element = h("div", { class: "waiting" }, this.#list, this.#empty, this.#closedSection);
    const { signal } = this.#listening;
    const soon = oncePerFrame(() => signal.aborted || this.draw());
    cards.inbox.addEventListener("change", soon, { signal });
    cards.inbox.addEventListener("connection", soon, { signal });
    cards.inbox.addEventListener(
      "cleared",
      (event) => {
        if (/** @type {CustomEvent<string | null>} */ (event).detail === null) this.#hasRead = false;
      },
      { signal },
    );
    cards.inbox.addEventListener(
      "closed",
      (event) => this.#linger(/** @type {CustomEvent<Ask>} */ (event).detail.id),
      { signal },
    );
    this.draw();
  }

  /** Stop following the inbox. */
  close() {
    this.#listening.abort();
    for (const timer of this.#lingering.values()) clearTimeout(timer);
  }

  /** Draw what there is now. */
  draw() {
    const { inbox } = this.#cards;
    if (this.lately && inbox.ready && !this.#hasRead) this.#readClosed(); // what the feed will not tell any more
    const asks = inbox.listed(this.#sessionId);
    const here = asks.filter((ask) => ask.state === "pending" || ask.state === "answered" || this.#lingering.has(ask.id));
    const closed = this.lately ? asks.filter((ask) => !here.includes(ask)).slice(-CLOSED_CARDS).reverse() : [];
    this.#cards.change(() => {
      this.#cards.prune();
      this.#cards.refresh();
      this.#place(here, closed);
      setAttribute(this.#empty, "hidden", here.length > 0 || !inbox.ready);
      setAttribute(this.#closedSection, "hidden", closed.length === 0);
    });
  }

  /** @param {Ask[]} here @param {Ask[]} closed */
  #place(here, closed) {
    const cards = here.map((ask) => this.#cards.of(ask));
    let open = 0;
    for (const card of cards) {
      if (card.ask.state !== "pending") continue;
      open += 1;
      const seen = this.#unfolded.has(card.ask.id);
      if (open <= OPEN_CARDS && !seen) {
        this.#unfolded.add(card.ask.id);
        card.fold(false);
      } else if (!seen && !card.element.isConnected) card.fold(true);
    }
    arrange(this.#list, cards.map((card) => card.element));
    arrange(
      this.#closed,
      closed.map((ask) => {
        const card = this.#cards.of(ask);
        if (card.element.parentElement !== this.#closed) card.fold(true);
        return card.element;
      }),
    );
  }

  /** @param {string} id */
  #linger(id) {
    clearTimeout(this.#lingering.get(id));
    this.#lingering.set(id, setTimeout(() => this.#leave(id), LINGER_MS));
  }

  /** @param {string} id */
  #leave(id) {
    const ask = this.#cards.inbox.asks.get(id);
    const busy = ask && this.#cards.of(ask).element.matches(":hover, :focus-within");
    if (busy) this.#linger(id);
    else {
      this.#lingering.delete(id);
      this.draw();
    }
  }

  async #readClosed() {
    this.#hasRead = true;
    const { inbox } = this.#cards;
    /** @type {Record<string, string | number>} */
    const filters = { state: "all", limit: 2 * CLOSED_CARDS };
    if (this.#sessionId !== null) filters.session = this.#sessionId;
    try {
      const asks = await inbox.api.asks(filters);
      inbox.learn(asks.filter((ask) => ask.state !== "pending" && ask.state !== "answered"));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // the connection line tells
      this.#hasRead = false;
    }
  }
}
