// @ts-check
/** The page around the views: where one is, what waits, how things stand with the server. */

import { ApiError } from "./api.js";
import { showCount } from "./badge.js";
import { arrange, fill, h, say, setAttribute } from "./dom.js";
import { oncePerFrame } from "./frames.js";
import { shorten } from "./inert.js";
import { borrow } from "./inbox.js";
import { Keys } from "./keys.js";
import { Notifier } from "./notify.js";
import { SessionView } from "./session.js";
import { Cards } from "./stage.js";
import { everySecond } from "./ticker.js";
import { Waiting } from "./waiting.js";
import { announcement, sentence, sessionName, span, standing } from "./wording.js";

/** @typedef {import("./types.js").Ask} Ask */
/** @typedef {import("./types.js").Session} Session */
/** @typedef {{ element: HTMLElement, close: () => void }} View */

const SESSION = "#/session/";
const ENDED_SHOWN = 20;
const CONNECTION = {
  connecting: "Connecting…",
  open: "Connected",
  reconnecting: "Reconnecting… What you see may be old; time limits run on.",
  unauthorized: "",
};

export class App {
  #inbox;
  #cards;
  #keys;
  #notifier;
  /** @type {View | null} */
  #view = null;
  #hasRead = false;
  /** @type {Map<string, { element: HTMLLIElement, link: HTMLAnchorElement, count: HTMLElement, facts: HTMLElement, name: HTMLElement }>} */
  #links = new Map();
  #main = h("main", { id: "main", tabindex: -1 });
  #live = h("div", { class: "unseen", role: "status", "aria-live": "polite" });
  #connection = h("p", { class: "connection", role: "status" });
  #count = h("span", { class: "count", hidden: true });
  #inboxLink = h("a", { href: "#/" }, h("span", { class: "name" }, "Inbox"), this.#count);
  #running = h("ul", { class: "sessions" });
  #ended = h("ul", { class: "sessions" });
  #endedPart = h("details", { hidden: true }, h("summary", {}, "Ended"), this.#ended);
  #noSessions = h("p", { class: "hint" }, "No session runs.");
  #notify = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.#toggleNotifications() });
  #locked = h("dialog", { class: "locked", role: "alertdialog", "aria-labelledby": "locked-title" });

  /** @param {URL} base @param {HTMLElement} root */
  constructor(base, root) {
    this.#inbox = borrow(base);
    this.#keys = new Keys({ move: (step) => this.#cards.move(step), toInbox: () => (location.hash = "#/") });
    this.#cards = new Cards({
      inbox: this.#inbox,
      root: this.#main,
      sessionHref: (id) => SESSION + encodeURIComponent(id),
      keysOn: () => this.#keys.on(),
    });
    this.#notifier = new Notifier(this.#inbox, (ask) => this.#show(ask));
    fill(
      this.#locked,
      h("h2", { id: "locked-title" }, "This page is signed out"),
      h("p", {}, "Its token is no longer taken: the server was started with another, or the cookie is gone."),
      h("p", {}, "Open the newest link that ", h("code", {}, "opask serve"), " or the run printed. What you wrote stays; time limits run on."),
      h("div", { class: "actions" }, h("button", { type: "button", class: "primary", onclick: () => location.reload() }, "Try again")),
    );
    root.append(
      h("a", { class: "to-main", href: "#main", onclick: (/** @type {Event} */ event) => this.#toMain(event) }, "Skip to the questions"),
      h(
        "header",
        { class: "top" },
        h("a", { class: "brand", href: "#/" }, h("img", { src: new URL("page/icon.svg", base).href, alt: "", width: 24, height: 24 }), "opask"),
        this.#connection,
        h("div", { class: "tools" }, this.#notify, h("button", { type: "button", class: "quiet", onclick: () => this.#keys.show() }, "Keys")),
      ),
      h(
        "div",
        { class: "columns" },
        h(
          "nav",
          { "aria-label": "Inbox and sessions" },
          this.#inboxLink,
          h("h2", {}, "Sessions"),
          this.#noSessions,
          this.#running,
          this.#endedPart,
        ),
        this.#main,
      ),
      this.#live,
      this.#keys.element,
      this.#locked,
    );
  }

  /** Show the view that the address names, and follow the inbox. */
  start() {
    const inbox = this.#inbox;
    const drawn = () => {
      this.#readSessions();
      this.#draw();
    };
    inbox.addEventListener("change", oncePerFrame(drawn));
    inbox.addEventListener("connection", drawn);
    inbox.addEventListener("cleared", (event) => {
      if (/** @type {CustomEvent<string | null>} */ (event).detail === null) this.#hasRead = false;
    });
    const hear = (/** @type {string} */ type, /** @type {(ask: Ask) => void} */ tell) =>
      inbox.addEventListener(type, (event) => tell(/** @type {CustomEvent<Ask>} */ (event).detail));
    hear("asked", (ask) => say(this.#live, announcement(ask, inbox.sessions.get(ask.session_id))));
    hear("closed", (ask) => this.#tellStanding(ask));
    hear("settled", (ask) => this.#tellStanding(ask));
    window.addEventListener("hashchange", () => this.#go());
    everySecond(() => this.#draw()); // ages
    this.#go();
  }

  #go() {
    this.#view?.close();
    const id = location.hash.startsWith(SESSION) ? decoded(location.hash.slice(SESSION.length)) : "";
    this.#view = id ? new SessionView(this.#cards, id) : new Waiting(this.#cards);
    const title = id ? null : h("header", { class: "view-head" }, h("h1", {}, "Inbox"));
    this.#cards.change(() => fill(this.#main, title, this.#view?.element));
    window.scrollTo(0, 0);
    this.#draw();
  }

  /** Go where an ask is shown. @param {Ask} ask */
  #show(ask) {
    location.hash = SESSION + encodeURIComponent(ask.session_id);
  }

  /** @param {Event} event */
  #toMain(event) {
    event.preventDefault();
    this.#main.focus();
  }

  // -- drawing -------------------------------------------------------------------------------------------------------

  #draw() {
    const { connection } = this.#inbox;
    const pending = this.#inbox.pending();
    showCount(pending.length, connection === "open" || connection === "connecting");
    say(this.#count, String(pending.length));
    setAttribute(this.#count, "hidden", pending.length === 0);
    setAttribute(this.#count, "aria-label", `${pending.length} waiting`);
    const { trouble } = this.#inbox;
    say(this.#connection, trouble ? `The inbox cannot be used: ${sentence(trouble)}` : CONNECTION[connection]);
    setAttribute(this.#connection, "data-connection", connection);
    if (connection === "unauthorized" && !this.#locked.open) this.#locked.showModal();
    else if (connection === "open") this.#locked.close();
    this.#drawSessions(pending);
    this.#drawNotify();
  }

  /** @param {Ask[]} pending */
  #drawSessions(pending) {
    /** @type {Map<string, number>} */
    const waits = new Map();
    for (const ask of pending) waits.set(ask.session_id, (waits.get(ask.session_id) ?? 0) + 1);
    const sessions = [...this.#inbox.sessions.values()].sort(
      (one, other) => Date.parse(other.started_at) - Date.parse(one.started_at),
    );
    const order = (/** @type {Session} */ session) => pending.findIndex((ask) => ask.session_id === session.id);
    const first = sessions.filter((session) => waits.has(session.id)).sort((one, other) => order(one) - order(other));
    const running = sessions.filter((session) => session.running && !waits.has(session.id));
    const ended = sessions.filter((session) => !session.running && !waits.has(session.id)).slice(0, ENDED_SHOWN);
    arrange(this.#running, [...first, ...running].map((session) => this.#link(session, waits.get(session.id) ?? 0)));
    arrange(this.#ended, ended.map((session) => this.#link(session, 0)));
    setAttribute(this.#endedPart, "hidden", ended.length === 0);
    setAttribute(this.#noSessions, "hidden", first.length + running.length > 0);
    const here = location.hash.startsWith(SESSION) ? decoded(location.hash.slice(SESSION.length)) : null;
    setAttribute(this.#inboxLink, "aria-current", here === null ? "page" : null);
    for (const [id, { link }] of this.#links) setAttribute(link, "aria-current", id === here ? "page" : null);
  }

  /** @param {Session} session @param {number} waits */
  #link(session, waits) {
    let made = this.#links.get(session.id);
    if (!made) {
      const name = h("span", { class: "name", dir: "auto" });
      const [facts, count] = [h("span", { class: "facts" }), h("span", { class: "count" })];
      const link = h("a", { href: SESSION + encodeURIComponent(session.id) }, h("span", { class: "names" }, name, facts), count);
      made = { element: h("li", {}, link), link, count, facts, name };
      this.#links.set(session.id, made);
    }
    say(made.name, sessionName(session, session.id));
    const age = span(this.#inbox.api.now() - Date.parse(session.ended_at ?? session.started_at));
    const state = session.running ? age : session.ending === "host_died" ? "host gone" : `ended ${age} ago`;
    say(made.facts, [shorten(session.runtime, 24), state].filter(Boolean).join(" · "));
    say(made.count, waits ? String(waits) : "");
    setAttribute(made.count, "hidden", waits === 0);
    setAttribute(made.count, "aria-label", waits ? `${waits} waiting` : null);
    return made.element;
  }

  #drawNotify() {
    const notifier = this.#notifier;
    setAttribute(this.#notify, "hidden", !notifier.possible);
    say(this.#notify, notifier.denied ? "Notifications are blocked" : notifier.on ? "Notifications: on" : "Notify me");
    setAttribute(this.#notify, "aria-pressed", String(notifier.on));
    setAttribute(this.#notify, "disabled", notifier.denied);
  }

  // -- what happens --------------------------------------------------------------------------------------------------

  async #toggleNotifications() {
    await this.#notifier.toggle();
    this.#drawNotify();
  }

  /** @param {Ask} ask */
  #tellStanding(ask) {
    const { label, detail } = standing(ask, this.#inbox.isMine(ask));
    say(this.#live, `${label}. ${detail}`);
  }

  /** Read the sessions that the feed does not tell of; not before it tells what comes after that. */
  async #readSessions() {
    if (this.#hasRead || !this.#inbox.ready) return;
    this.#hasRead = true;
    try {
      this.#inbox.learn([], await this.#inbox.api.sessions());
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // the connection line tells
      this.#hasRead = false;
    }
  }
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
