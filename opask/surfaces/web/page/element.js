// @ts-check
/** The cards as custom elements, for pages of a host's own; docs/web-component.md is their documentation. */

import { arrange, h, say, setAttribute } from "./dom.js";
import { borrow, giveBack } from "./inbox.js";
import { Cards } from "./stage.js";
import { Waiting } from "./waiting.js";
import { announcement, sentence, standing } from "./wording.js";

/** @typedef {import("./types.js").Ask} Ask */
/** @typedef {import("./inbox.js").Inbox} Inbox */

const HERE = new URL("../", import.meta.url);
const CONNECTION = {
  connecting: "",
  open: "",
  reconnecting: "Reconnecting…",
  unauthorized: "You are signed out; sign in again to see what your agents ask.",
};

/** What both elements are made of: a shadow root with the cards' styles, and an inbox while it is on the page. */
class AskElement extends HTMLElement {
  static observedAttributes = ["base", "session", "ask"];

  /** @type {Inbox | null} */
  inbox = null;
  /** @type {{ end: () => void } | null} */
  #shown = null;

  constructor() {
    super();
    this.attachShadow({ mode: "open" });
  }

  /** How many asks wait here. */
  get count() {
    return this.inbox?.pending(this.getAttribute("session")).length ?? 0;
  }

  connectedCallback() {
    this.#show();
  }

  disconnectedCallback() {
    this.#hide();
  }

  /** @param {string} _name @param {string | null} before @param {string | null} now */
  attributeChangedCallback(_name, before, now) {
    if (!this.isConnected || !this.#shown || before === now) return;
    const shown = this.#shown;
    this.#show(); // before the other ends, so that the inbox they may have in common stays open
    shown.end();
  }

  /** Show the cards. @param {Cards} _cards @param {HTMLElement} _place @returns {() => void} what ends it */
  render(_cards, _place) {
    return () => {};
  }

  /** Whether an ask is one of those shown here. @param {Ask} _ask */
  covers(_ask) {
    return false;
  }

  #show() {
    const inbox = borrow(new URL(this.getAttribute("base") ?? HERE, document.baseURI));
    this.inbox = inbox;
    const live = h("div", { class: "unseen", role: "status", "aria-live": "polite" });
    const connection = h("p", { class: "note", role: "status" });
    const place = h("div", { hidden: true });
    const styles = ["theme.css", "card.css"].map(stylesheet);
    this.shadowRoot?.replaceChildren(...styles.map(({ link }) => link), connection, place, live);
    const cards = new Cards({
      inbox,
      root: place,
      decided: (ask, kind) => this.#tell(`opask-${kind}`, ask),
    });
    // Nothing is shown before it stands where it will stand.
    Promise.all(styles.map(({ loaded }) => loaded)).then(() => cards.change(() => setAttribute(place, "hidden", null)));
    const listening = new AbortController();
    const { signal } = listening;
    const connected = () => say(connection, CONNECTION[inbox.connection]);
    inbox.addEventListener("connection", connected, { signal });
    connected();
    for (const type of ["asked", "closed", "settled"]) {
      inbox.addEventListener(
        type,
        (event) => {
          const { detail: ask } = /** @type {CustomEvent<Ask>} */ (event);
          if (!this.covers(ask)) return;
          const { label, detail } = standing(ask, inbox.isMine(ask));
          say(live, type === "asked" ? announcement(ask, inbox.sessions.get(ask.session_id)) : `${label}. ${detail}`);
          this.#tell(`opask-${type}`, ask);
        },
        { signal },
      );
    }
    const endView = this.render(cards, place);
    this.#shown = {
      end: () => {
        listening.abort();
        endView();
        cards.close();
        giveBack(inbox);
      },
    };
  }

  #hide() {
    this.#shown?.end();
    this.#shown = null;
    this.inbox = null;
  }

  /** @param {string} type @param {Ask} ask */
  #tell(type, ask) {
    this.dispatchEvent(new CustomEvent(type, { detail: { ask }, bubbles: true, composed: true }));
  }
}

/** `<opask-inbox base="…" session="…">`: the asks that wait, of one session or of all. */
export class OpaskInbox extends AskElement {
  /** @param {Cards} cards @param {HTMLElement} place */
  render(cards, place) {
    const waiting = new Waiting(cards, {
      sessionId: this.getAttribute("session"),
      lately: this.hasAttribute("lately"),
    });
    place.append(waiting.element);
    return () => waiting.close();
  }

  /** @param {Ask} ask */
  covers(ask) {
    const session = this.getAttribute("session");
    return session === null || ask.session_id === session;
  }
}

/** `<opask-card base="…" ask="…">`: one ask, whatever became of it. */
export class OpaskCard extends AskElement {
  get count() {
    return this.inbox?.asks.get(this.getAttribute("ask") ?? "")?.state === "pending" ? 1 : 0;
  }

  /** @param {Cards} cards @param {HTMLElement} place */
  render(cards, place) {
    const id = this.getAttribute("ask") ?? "";
    const { inbox } = cards;
    const { api } = inbox;
    const listening = new AbortController();
    const { signal } = listening;
    let why = "";
    /** @type {(() => void) | undefined} */
    let release;
    const draw = () => {
      const ask = inbox.asks.get(id);
      if (ask) release ??= inbox.hold(ask.session_id);
      cards.change(() => {
        cards.refresh();
        arrange(place, ask ? [cards.of(ask).element] : why ? [h("p", { class: "note" }, why)] : []);
      });
    };
    const read = () => {
      api.ask(id).then(
        (ask) => {
          why = "";
          inbox.learn([ask]);
        },
        (error) => {
          why = sentence(error.message);
          if (!signal.aborted) draw();
        },
      );
    };
    inbox.addEventListener("change", draw, { signal });
    inbox.addEventListener("connection", () => why && inbox.connection === "open" && read(), { signal });
    inbox.addEventListener("cleared", (event) => /** @type {CustomEvent} */ (event).detail === null && read(), { signal });
    draw();
    read();
    return () => {
      listening.abort();
      release?.();
    };
  }

  /** @param {Ask} ask */
  covers(ask) {
    return ask.id === this.getAttribute("ask");
  }
}

/** @param {string} file @returns {{ link: HTMLLinkElement, loaded: Promise<unknown> }} */
function stylesheet(file) {
  const link = h("link", { rel: "stylesheet", href: new URL(file, import.meta.url).href });
  const loaded = new Promise((resolve) => {
    link.onload = link.onerror = resolve;
  });
  return { link, loaded };
}

if (!customElements.get("opask-inbox")) customElements.define("opask-inbox", OpaskInbox);
if (!customElements.get("opask-card")) customElements.define("opask-card", OpaskCard);
