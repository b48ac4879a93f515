// @ts-check
/** What the page knows of an inbox, kept true by its feed. Views listen to it and draw what they find. */

import { Api, ApiError } from "./api.js";
import { SharedFeed } from "./sharing.js";
import { isOpen } from "./types.js";

/** @typedef {import("./types.js").Ask} Ask */
/** @typedef {import("./types.js").Answer} Answer */
/** @typedef {import("./types.js").Session} Session */
/** @typedef {import("./feed.js").Connection} Connection */

const KINDS = ["snapshot", "entry", "session", "cleared"];
const TYPING_EVERY_MS = 10_000;
const KEPT_CLOSED = 500; // asks that are over and in no session that is shown

/**
 * The asks and sessions of one inbox.
 *
 * Events: `change` after anything changed, and `connection`; with the ask as `detail`: `asked` when one came in while the
 * page was open, `closed` when one is no longer pending, `settled` when it is known whether an answer was delivered;
 * and `cleared` with the id of a session whose conversation was cleared, or null where that may be any of them.
 */
export class Inbox extends EventTarget {
  /** @type {Map<string, Ask>} */
  asks = new Map();
  /** @type {Map<string, Session>} */
  sessions = new Map();
  /** @type {Connection} */
  connection = "connecting";
  /** Whether the first snapshot has come. */
  ready = false;
  /** Why the server takes no feed, where it says so; empty otherwise. */
  trouble = "";
  #storeId = "";
  /** The last change that the feed told of. */
  #heard = 0;
  /** Asks of which nobody knows what became of them. @type {Set<string>} */
  #doubted = new Set();
  /** The change that cleared a session last, and whether the session went with it. @type {Map<string, { seq: number, whole: boolean }>} */
  #cleared = new Map();
  /** How many show a session. @type {Map<string, number>} */
  #held = new Map();
  #feed;
  /** Ids of asks that were decided in this page. @type {Set<string>} */
  #mine = new Set();
  /** @type {Map<string, number>} */
  #typed = new Map();

  /** @param {Api} api */
  constructor(api) {
    super();
    this.api = api;
    this.#feed = new SharedFeed({
      url: api.url("api/feed"),
      kinds: KINDS,
      onMessage: (update, id) => this.#take(update, id),
      onConnection: (connection) => this.#connected(connection),
      check: () => this.#isWelcome(),
      catchUp: () => this.#catchUp(),
    });
  }

  /** Begin to listen. */
  open() {
    this.#feed.open();
  }

  /** Stop listening. */
  close() {
    this.#feed.close();
  }

  /** The asks that wait for the operator, the longest waiting first. @param {string | null} [sessionId] */
  pending(sessionId = null) {
    return this.listed(sessionId).filter((ask) => ask.state === "pending");
  }

  /** All known asks in the order in which they were asked. @param {string | null} [sessionId] */
  listed(sessionId = null) {
    return [...this.asks.values()]
      .filter((ask) => sessionId === null || ask.session_id === sessionId)
      .sort((one, other) => one.number - other.number);
  }

  /** Whether the ask was decided here, not on another surface or tab. @param {Ask} ask */
  isMine(ask) {
    return this.#mine.has(ask.id);
  }

  /**
   * Take what was read elsewhere, unless something newer is known. What was open then and is not by what the feed has
   * told is asked after: it may have come late.
   * @param {Ask[]} asks
   * @param {Session[]} [sessions]
   */
  learn(asks, sessions = []) {
    for (const ask of asks) {
      if (isOpen(ask) && ask.seq <= this.#heard && !this.asks.has(ask.id)) this.#askAfter(ask.id);
      else this.#put(ask);
    }
    for (const session of sessions) this.#putSession(session);
    this.#changed();
  }

  /**
   * Keep what is known of a session's asks as long as it is shown.
   * @param {string} sessionId
   * @returns {() => void} what ends it
   */
  hold(sessionId) {
    this.#held.set(sessionId, (this.#held.get(sessionId) ?? 0) + 1);
    return () => {
      const left = (this.#held.get(sessionId) ?? 1) - 1;
      if (left) this.#held.set(sessionId, left);
      else this.#held.delete(sessionId);
    };
  }

  // -- what the operator does: each rejects with an ApiError, and then the ask stays as the server says -------------

  /** @param {Ask} ask @param {Answer[]} answers */
  answer(ask, answers) {
    return this.#decide(ask, () => this.api.answer(ask, answers));
  }

  /** @param {Ask} ask */
  skip(ask) {
    return this.#decide(ask, () => this.api.skip(ask));
  }

  /** @param {Ask} ask */
  cancel(ask) {
    return this.#decide(ask, () => this.api.cancel(ask));
  }

  /** Tell the server now and then that the operator is at it, which moves the deadline. @param {Ask} ask */
  async touch(ask) {
    const now = Date.now();
    if (now - (this.#typed.get(ask.id) ?? -Infinity) < TYPING_EVERY_MS) return;
    this.#typed.set(ask.id, now);
    try {
      this.learn([await this.api.typing(ask)]);
    } catch (error) {
      // It only extends the wait. What it tells of the ask counts all the same.
      if (error instanceof ApiError && error.ask) this.learn([error.ask]);
    }
  }

  // -- the feed ------------------------------------------------------------------------------------------------------

  /** @param {any} update none where it is only told which store it is @param {string} id */
  #take(update, id) {
    const storeId = id.slice(0, Math.max(0, id.lastIndexOf("-")));
    const isOther = this.#storeId !== "" && storeId !== this.#storeId;
    const hasGap = this.#storeId !== "" && update?.kind === "snapshot";
    if (isOther) {
      this.asks.clear(); // the numbers of the one before mean nothing in it
      this.sessions.clear();
      this.#cleared.clear();
      this.#doubted.clear();
      this.#heard = 0;
    }
    this.#storeId = storeId;
    if (hasGap) this.#forgetOver(update.seq);
    if (update) this.#takeUpdate(update);
    if (isOther || hasGap) this.dispatchEvent(new CustomEvent("cleared", { detail: null }));
    this.#changed();
  }

  /** @param {any} update */
  #takeUpdate(update) {
    this.#heard = update.seq;
    if (update.kind === "snapshot") this.#takeSnapshot(update);
    else if (update.kind === "entry") this.#put(update.entry);
    else if (update.kind === "session") this.#putSession(update.session);
    else if (update.kind === "cleared") this.#forget(update);
  }

  /** Forget what may have been cleared in changes that are not told any more. @param {number} seq */
  #forgetOver(seq) {
    for (const ask of this.asks.values()) if (!isOpen(ask) && ask.seq < seq) this.asks.delete(ask.id);
    for (const session of this.sessions.values()) if (session.seq < seq) this.sessions.delete(session.id);
  }

  /** @param {{ entries: Ask[], sessions: Session[] }} snapshot */
  #takeSnapshot(snapshot) {
    const open = new Set(snapshot.entries.map((ask) => ask.id));
    for (const ask of snapshot.entries) this.#put(ask);
    for (const session of snapshot.sessions) this.#putSession(session);
    this.ready = true;
    for (const ask of this.asks.values()) if (isOpen(ask) && !open.has(ask.id)) this.#askAfter(ask.id);
  }

  /** Read what there is by now; what another tab passes on meanwhile is newer or the same. */
  async #catchUp() {
    try {
      const [entries, sessions] = await Promise.all([this.api.asks({ state: "open", limit: 1000 }), this.api.sessions()]);
      this.#takeSnapshot({ entries, sessions });
      this.#changed();
      return true;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.code === "unauthorized") this.#connected("unauthorized");
      return false;
    }
  }

  /** @param {Session} session */
  #putSession(session) {
    const cleared = this.#cleared.get(session.id);
    if (cleared && session.seq < cleared.seq && (cleared.whole || !session.running)) return;
    const before = this.sessions.get(session.id);
    if (!before || before.seq < session.seq) this.sessions.set(session.id, session);
  }

  /** Find out what became of an ask while the page was not told. @param {string} id */
  async #askAfter(id) {
    const known = this.asks.get(id);
    this.#doubted.add(id);
    try {
      this.#put(await this.api.ask(id));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.code !== "unknown_ask") return; // once the feed is back
      if (this.asks.get(id) === known) this.asks.delete(id);
    }
    this.#doubted.delete(id);
    this.#changed();
  }

  /**
   * Forget what a session held, and the session itself unless it goes on. What was read before and comes in late is not
   * taken any more.
   * @param {{ session_id: string, seq: number }} cleared
   */
  #forget({ session_id: id, seq }) {
    if (seq <= (this.#cleared.get(id)?.seq ?? 0)) return;
    const session = this.sessions.get(id);
    const whole = session?.running === false && session.seq < seq;
    this.#cleared.set(id, { seq, whole });
    if (whole) this.sessions.delete(id);
    for (const ask of this.asks.values()) if (ask.session_id === id && ask.seq < seq) this.asks.delete(ask.id);
    this.dispatchEvent(new CustomEvent("cleared", { detail: id }));
  }

  /** @param {Ask} ask */
  #put(ask) {
    if (ask.seq < (this.#cleared.get(ask.session_id)?.seq ?? 0)) return;
    const before = this.asks.get(ask.id);
    if (before && before.seq >= ask.seq) return;
    this.asks.set(ask.id, ask);
    if (!before) this.#forgetOld();
    if (!before && ask.state === "pending" && this.ready) this.#tell("asked", ask);
    if (before?.state === "pending" && ask.state !== "pending") this.#tell("closed", ask);
    if (before?.state === "answered" && !isOpen(ask)) this.#tell("settled", ask);
  }

  /** Forget the oldest asks that are over, once there are many: the page may stay open for weeks. */
  #forgetOld() {
    if (this.asks.size < 2 * KEPT_CLOSED) return;
    const closed = this.listed().filter((ask) => !isOpen(ask) && !this.#held.has(ask.session_id));
    for (const { id } of closed.slice(0, -KEPT_CLOSED)) {
      this.asks.delete(id);
      this.#mine.delete(id);
      this.#typed.delete(id);
    }
  }

  /** @param {Connection} connection */
  #connected(connection) {
    this.connection = connection;
    if (connection === "open") {
      this.trouble = "";
      for (const id of this.#doubted) this.#askAfter(id);
    }
    this.#tell("connection");
  }

  async #isWelcome() {
    this.trouble = "";
    try {
      await this.api.sessions();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.code === "unauthorized") return false;
      if (error.code === "inbox_unavailable") this.trouble = error.message;
    }
    this.#tell("connection");
    return true;
  }

  /** @param {Ask} ask @param {() => Promise<Ask>} act */
  async #decide(ask, act) {
    this.#mine.add(ask.id); // before the feed tells of it
    try {
      this.learn([await act()]);
    } catch (error) {
      this.#mine.delete(ask.id); // where the server was not reached, nobody knows whose decision will stand
      if (error instanceof ApiError && error.ask) this.learn([error.ask]);
      if (error instanceof ApiError && error.code === "unauthorized") this.#connected("unauthorized");
      throw error;
    }
  }

  #changed() {
    this.#tell("change");
  }

  /** @param {string} type @param {Ask | null} [ask] */
  #tell(type, ask = null) {
    this.dispatchEvent(new CustomEvent(type, { detail: ask }));
  }
}

/** @type {Map<string, { inbox: Inbox, users: number }>} */
const shared = new Map();

/**
 * Give the one inbox of a base URL, so that all that shows it on a page holds one connection.
 * @param {URL} base
 */
export function borrow(base) {
  let held = shared.get(base.href);
  if (!held) {
    held = { inbox: new Inbox(new Api(base)), users: 0 };
    shared.set(base.href, held);
    held.inbox.open();
  }
  held.users += 1;
  return held.inbox;
}

/** Give an inbox back; the last one out closes it. @param {Inbox} inbox */
export function giveBack(inbox) {
  const held = shared.get(inbox.api.base.href);
  if (!held || held.inbox !== inbox) return;
  held.users -= 1;
  if (held.users === 0) {
    shared.delete(inbox.api.base.href);
    inbox.close();
  }
}
