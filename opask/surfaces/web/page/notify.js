// @ts-check
/** Desktop notifications of new questions: only once the operator asked for them, and while the page is not in front. */

import { inertLine, shorten } from "./inert.js";
import { askName, sessionName } from "./wording.js";

/** @typedef {import("./types.js").Ask} Ask */

const WANTED = "opask-notify";

export class Notifier {
  /** Notifications that are up, by ask. @type {Map<string, Notification>} */
  #shown = new Map();

  /** @param {import("./inbox.js").Inbox} inbox @param {(ask: Ask) => void} open shows an ask */
  constructor(inbox, open) {
    this.inbox = inbox;
    inbox.addEventListener("asked", (event) => this.#show(/** @type {CustomEvent<Ask>} */ (event).detail, open));
    inbox.addEventListener("change", () => this.#hide());
  }

  /** Whether the browser can show any here. */
  get possible() {
    return "Notification" in window && window.isSecureContext;
  }

  get on() {
    return this.possible && Notification.permission === "granted" && read() === "on";
  }

  /** Whether the operator, or the browser's settings, forbid them. */
  get denied() {
    return this.possible && Notification.permission === "denied";
  }

  /** Turn them on, asking for permission where that is needed, or off. */
  async toggle() {
    if (this.on) return write("off");
    if ((await Notification.requestPermission()) === "granted") write("on");
  }

  /** @param {Ask} ask @param {(ask: Ask) => void} open */
  #show(ask, open) {
    if (!this.on || document.hasFocus()) return;
    const session = sessionName(this.inbox.sessions.get(ask.session_id), ask.session_id);
    try {
      const notification = new Notification(askName(ask), {
        body: `${session}\n${shorten(inertLine(ask.questions[0].question), 200)}`,
        tag: ask.id, // several tabs show one
      });
      notification.onclick = () => {
        window.focus();
        open(ask);
        notification.close();
      };
      this.#shown.set(ask.id, notification);
    } catch {
      // Browsers on phones show them by a service worker alone.
    }
  }

  /** Take away those of asks that do not wait any more, or are not there. */
  #hide() {
    for (const [id, notification] of this.#shown) {
      if (this.inbox.asks.get(id)?.state === "pending") continue;
      notification.close();
      this.#shown.delete(id);
    }
  }
}

function read() {
  try {
    return localStorage.getItem(WANTED);
  } catch {
    return null;
  }
}

/** @param {string} value */
function write(value) {
  try {
    localStorage.setItem(WANTED, value);
  } catch {
    // Then it lasts as long as the page.
  }
}
