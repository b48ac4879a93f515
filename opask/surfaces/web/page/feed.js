// @ts-check
/** A server-sent stream that comes back by itself, from where it was. */

/** @typedef {"connecting" | "open" | "reconnecting" | "unauthorized"} Connection */

const PAUSES = [500, 1000, 2000, 4000];
const BEAT_MS = 15_000; // as long as the server has not said how often it beats
const MISSED = 2.5;

/**
 * Keeps an EventSource open. The browser resumes a broken one by itself; one that the server refused (it is being
 * restarted behind a proxy, the token has expired) is opened anew, from the last event that was read. So is one on which
 * not even the server's beats are heard any more: a connection that is lost on the way may never break.
 */
export class Feed {
  #url;
  #kinds;
  #onMessage;
  #onConnection;
  #check;
  #last;
  #resume;
  #attempts = 0;
  #isClosed = true;
  /** @type {EventSource | null} */
  #source = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #beat = BEAT_MS;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #watch;

  /**
   * @param {object} options
   * @param {URL} options.url
   * @param {string[]} options.kinds the events to hear of
   * @param {string} [options.last] the id to go on from
   * @param {string} [options.resume] the query parameter that takes it
   * @param {(data: any, id: string) => void} options.onMessage
   * @param {(connection: Connection) => void} [options.onConnection]
   * @param {() => Promise<boolean>} [options.check] tells whether the server still takes this page's cookie
   */
  constructor({ url, kinds, last = "", resume = "last", onMessage, onConnection = () => {}, check = async () => true }) {
    this.#url = url;
    this.#kinds = kinds;
    this.#last = last;
    this.#resume = resume;
    this.#onMessage = onMessage;
    this.#onConnection = onConnection;
    this.#check = check;
  }

  /** Open the stream, unless it is open. @param {string} [last] the id to go on from, in place of what was read last */
  open(last = "") {
    this.#isClosed = false;
    if (this.#source) return;
    if (last) this.#last = last;
    const url = new URL(this.#url);
    if (this.#last) url.searchParams.set(this.#resume, this.#last);
    const source = new EventSource(url);
    this.#source = source;
    this.#heard(source);
    source.onopen = () => {
      this.#attempts = 0;
      this.#heard(source);
      this.#onConnection("open");
    };
    source.onerror = () => this.#broke(source);
    source.addEventListener("beat", (event) => {
      this.#beat = JSON.parse(event.data).every_s * 1000;
      this.#heard(source);
    });
    for (const kind of this.#kinds) {
      source.addEventListener(kind, (event) => {
        this.#heard(source);
        this.#last = event.lastEventId || this.#last;
        this.#onMessage(JSON.parse(event.data), event.lastEventId);
      });
    }
  }

  /** Close the stream for good, or until it is opened again. */
  close() {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#watch);
    this.#source?.close();
    this.#source = null;
  }

  /**
   * Begin to wait anew for a sign of life.
   * @param {EventSource} source
   */
  #heard(source) {
    if (source !== this.#source) return;
    clearTimeout(this.#watch);
    this.#watch = setTimeout(() => {
      this.#onConnection("reconnecting");
      this.close();
      this.open();
    }, this.#beat * MISSED);
  }

  /** @param {EventSource} source */
  async #broke(source) {
    if (source !== this.#source) return;
    this.#onConnection("reconnecting");
    if (source.readyState !== EventSource.CLOSED) return;
    clearTimeout(this.#watch);
    this.#source = null;
    const welcome = await this.#check();
    if (this.#source || this.#isClosed) return;
    if (!welcome) {
      this.#onConnection("unauthorized");
      return;
    }
    const pause = PAUSES[Math.min(this.#attempts, PAUSES.length - 1)];
    this.#attempts += 1;
    this.#timer = setTimeout(() => this.open(), pause);
  }
}
