// @ts-check
/** The HTTP API of one inbox. */

/** @typedef {import("./types.js").Ask} Ask */
/** @typedef {import("./types.js").Answer} Answer */
/** @typedef {import("./types.js").Session} Session */

const PATIENCE_MS = 30_000; // a connection that is lost on the way may never break
const STALE_MS = 3000;

/** A request that was refused or did not get through. */
export class ApiError extends Error {
  /**
   * @param {string} message one sentence for a person
   * @param {string} code the API's own, or `unreachable`
   * @param {Ask | null} ask the ask as it is by now, where the API tells
   */
  constructor(message, code, ask = null) {
    super(message);
    this.name = "ApiError";
    this.code = code;
    this.ask = ask;
  }
}

export class Api {
  /** @param {string | URL} base where the surface is mounted, ending in a slash */
  constructor(base) {
    this.base = new URL(base, document.baseURI);
    /** Milliseconds that the server's clock is ahead of this one; deadlines are the server's. */
    this.ahead = 0;
  }

  /** @param {string} path */
  url(path) {
    return new URL(path, this.base);
  }

  /** The time by the server's clock, in milliseconds. */
  now() {
    return Date.now() + this.ahead;
  }

  /** @param {string} id @returns {Promise<Ask>} */
  async ask(id) {
    return (await this.#get(`api/asks/${encodeURIComponent(id)}`)).ask;
  }

  /** @param {Record<string, string | number>} filters @returns {Promise<Ask[]>} */
  async asks(filters) {
    const query = new URLSearchParams(Object.entries(filters).map(([name, value]) => [name, String(value)]));
    return (await this.#get(`api/asks?${query}`)).asks;
  }

  /** @returns {Promise<Session[]>} */
  async sessions() {
    return (await this.#get("api/sessions?limit=200")).sessions;
  }

  /** @param {string} id @returns {Promise<Session>} */
  async session(id) {
    return (await this.#get(`api/sessions/${encodeURIComponent(id)}`)).session;
  }

  /**
   * Read the end of a conversation, or the part before a position.
   * @param {string} id
   * @param {number | null} [before]
   * @returns {Promise<import("./types.js").Conversation>}
   */
  conversation(id, before = null) {
    const query = before === null ? "" : `?before=${before}`;
    return this.#get(`api/sessions/${encodeURIComponent(id)}/conversation${query}`);
  }

  /** Forget an ended session, its cards included. @param {string} id */
  async clear(id) {
    await this.#post(`api/sessions/${encodeURIComponent(id)}/clear`, {});
  }

  /** @param {Ask} ask @param {Answer[]} answers */
  answer(ask, answers) {
    return this.#act(ask, "answer", { session_id: ask.session_id, answers });
  }

  /** @param {Ask} ask */
  skip(ask) {
    return this.#act(ask, "skip", { session_id: ask.session_id });
  }

  /** @param {Ask} ask */
  cancel(ask) {
    return this.#act(ask, "cancel", { session_id: ask.session_id });
  }

  /** Say that the operator is at it. @param {Ask} ask */
  typing(ask) {
    return this.#act(ask, "typing", { session_id: ask.session_id });
  }

  /** Return a late answer as the text of the agent's next prompt. @param {Ask} ask @param {Answer[]} answers */
  async followUp(ask, answers) {
    return /** @type {string} */ (
      (await this.#post(`api/asks/${encodeURIComponent(ask.id)}/follow-up`, { answers })).text
    );
  }

  /** @param {Ask} ask @param {string} what @param {object} body @returns {Promise<Ask>} */
  async #act(ask, what, body) {
    return (await this.#post(`api/asks/${encodeURIComponent(ask.id)}/${what}`, body)).ask;
  }

  /** @param {string} path */
  #get(path) {
    return this.#request(path, { headers: { Accept: "application/json" } });
  }

  /** @param {string} path @param {object} body */
  #post(path, body) {
    return this.#request(path, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: JSON.stringify(body),
    });
  }

  /** @param {string} path @param {RequestInit} init */
  async #request(path, init) {
    const asked = Date.now();
    const giveUp = new AbortController();
    const timer = setTimeout(() => giveUp.abort(), PATIENCE_MS);
    let response;
    let body = null;
    try {
      response = await fetch(this.url(path), { credentials: "same-origin", cache: "no-store", signal: giveUp.signal, ...init });
      this.#compareClocks(response, asked);
      if (response.status === 204) return null;
      body = await response.json();
    } catch {
      if (!response) throw new ApiError("The server cannot be reached.", "unreachable");
      if (response.ok) throw new ApiError("The server's answer could not be read.", "unreadable");
    } finally {
      clearTimeout(timer);
    }
    if (response.ok) return body;
    const error = body?.error;
    const code = response.status === 401 ? "unauthorized" : (error?.code ?? `http_${response.status}`);
    throw new ApiError(error?.message ?? `The server refused this (${response.status}).`, code, error?.ask ?? null);
  }

  /** @param {Response} response @param {number} asked */
  #compareClocks(response, asked) {
    const date = Date.parse(response.headers.get("Date") ?? "");
    if (!Number.isFinite(date)) return;
    // It was written in between, is in whole seconds and, of a busy server, some more old: what fits with that is kept.
    this.ahead = Math.max(date - Date.now(), Math.min(this.ahead, date + STALE_MS - asked));
  }
}
