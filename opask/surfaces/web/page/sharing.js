// @ts-check
/**
 * One feed for all tabs of a browser, which opens only about six connections to one server: the tab that holds a lock
 * reads the feed and passes on what it reads; once it is gone, another one has the lock.
 */

import { Feed } from "./feed.js";

/** @typedef {import("./feed.js").Connection} Connection */
/** @typedef {{ data?: any, id?: string, connection?: Connection, hello?: true }} Passed `id` of what was read last */

export class SharedFeed {
  #name;
  #onMessage;
  #onConnection;
  #catchUp;
  #feed;
  /** @type {Connection} */
  #connection = "connecting";
  #leads = false;
  /** Whether what there is was read once. */
  #knows = false;
  #isBehind = false;
  /** The id of what was read or passed on last. */
  #last = "";
  /** @type {BroadcastChannel | null} */
  #channel = null;
  #closing = new AbortController();

  /**
   * @param {object} options
   * @param {URL} options.url
   * @param {string[]} options.kinds the events to hear of
   * @param {(data: any, id: string) => void} options.onMessage may be told the same twice; no data with the id of what
   *   another tab had read before
   * @param {(connection: Connection) => void} options.onConnection
   * @param {() => Promise<boolean>} options.check tells whether the server still takes this page's cookie
   * @param {() => Promise<boolean>} options.catchUp reads what there is by now, in a tab that is passed only what changes;
   *   tells whether that could be read
   */
  constructor({ url, kinds, onMessage, onConnection, check, catchUp }) {
    this.#name = `opask-feed ${url.href}`;
    this.#onMessage = onMessage;
    this.#onConnection = onConnection;
    this.#catchUp = catchUp;
    this.#feed = new Feed({
      url,
      kinds,
      check,
      onMessage: (data, id) => {
        this.#last = id;
        this.#channel?.postMessage({ data, id });
        onMessage(data, id);
      },
      onConnection: (connection) => {
        this.#connection = connection;
        this.#channel?.postMessage({ connection });
        onConnection(connection);
      },
    });
  }

  /** Begin to listen. */
  async open() {
    const { locks } = navigator; // only where the page came over https or from this machine
    if (!locks) {
      this.#feed.open();
      return;
    }
    const { signal } = this.#closing;
    this.#channel = new BroadcastChannel(this.#name);
    this.#channel.onmessage = (event) => this.#hear(event.data);
    const closed = new Promise((resolve) => signal.addEventListener("abort", resolve));
    locks.request(this.#name, { signal }, () => this.#lead(closed)).catch(() => {}); // closed while waiting for it
    document.addEventListener("visibilitychange", () => this.#look(), { signal });
    const { held = [] } = await locks.query();
    if (this.#leads || !held.some((lock) => lock.name === this.#name)) return;
    this.#channel?.postMessage({ hello: true });
    await this.#follow();
  }

  /** Stop listening for good. */
  close() {
    this.#closing.abort();
    this.#channel?.close();
    this.#channel = null;
    this.#feed.close();
  }

  /** @param {Promise<unknown>} closed */
  #lead(closed) {
    this.#leads = true;
    this.#feed.open(this.#knows ? this.#last : ""); // from where the tab before was: nothing is missed in between
    return closed;
  }

  /** @param {Passed} passed */
  #hear({ data, id, connection, hello }) {
    if (!this.#leads) {
      if (connection) this.#onConnection(connection);
      if (this.#isBehind && (data || connection === "open")) this.#follow();
      if (!id) return;
      this.#last = id;
      this.#onMessage(data, id);
    } else if (hello) {
      this.#feed.open(); // who signed in anew in another tab signed this one in too
      if (this.#connection !== "unauthorized") this.#channel?.postMessage({ connection: this.#connection, id: this.#last });
    }
  }

  /** A tab that comes to the front may have slept, and heard nothing meanwhile. */
  #look() {
    if (!this.#leads && document.visibilityState === "visible") this.#follow();
  }

  /** Read what was not passed on; where the server is away, once it is back. */
  async #follow() {
    this.#isBehind = false;
    this.#knows = await this.#catchUp();
    this.#isBehind = !this.#knows;
  }
}
