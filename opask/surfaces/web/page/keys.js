// @ts-check
/** The keys of the page, and the dialog that lists them. */

import { h } from "./dom.js";

const OFF = "opask-keys-off";

/** @type {[string[], string][]} */
const KEYS = [
  [["j", "k"], "next, previous card"],
  [["1", "…", "9"], "choose that option of the card in focus; with more than 9 options, go to it"],
  [["↑", "↓"], "move among the options"],
  [["Enter"], "choose the option in focus; send what is chosen and written"],
  [["t"], "write in your own words"],
  [["Shift", "Enter"], "a new line in what you write"],
  [["Esc"], "leave the writing; what you wrote stays"],
  [["s"], "skip the card in focus"],
  [["i"], "to the inbox"],
  [["?"], "this list"],
];

export class Keys {
  #off = h("input", { type: "checkbox", id: "single-keys", onchange: () => this.#switch() });
  element = h(
    "dialog",
    { class: "keys", "aria-labelledby": "keys-title" },
    h("h2", { id: "keys-title" }, "Keys"),
    h(
      "dl",
      {},
      ...KEYS.flatMap(([keys, what]) => [
        h("dt", {}, ...keys.map((key) => (key === "…" ? h("span", {}, "to") : h("kbd", {}, key)))),
        h("dd", {}, what),
      ]),
    ),
    h("p", { class: "switch" }, this.#off, h("label", { for: "single-keys" }, "Single keys are shortcuts")),
    h("form", { method: "dialog" }, h("button", { class: "primary" }, "Close")),
  );

  /**
   * @param {object} actions
   * @param {(step: number) => void} actions.move
   * @param {() => void} actions.toInbox
   */
  constructor({ move, toInbox }) {
    this.#off.checked = read() === null;
    document.addEventListener("keydown", (event) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
      if (!this.on() || this.element.open || isWriting(event.composedPath()[0])) return;
      if (event.key === "j") move(1);
      else if (event.key === "k") move(-1);
      else if (event.key === "i") toInbox();
      else if (event.key === "?") this.show();
      else return;
      event.preventDefault();
    });
  }

  /** Whether single keys are shortcuts; who dictates may want them off. */
  on() {
    return this.#off.checked;
  }

  show() {
    if (!this.element.open) this.element.showModal();
  }

  #switch() {
    try {
      if (this.#off.checked) localStorage.removeItem(OFF);
      else localStorage.setItem(OFF, "off");
    } catch {
      // Then it lasts as long as the page.
    }
  }
}

/** Whether keys pressed there are text. @param {EventTarget | null} target */
export function isWriting(target) {
  return target instanceof HTMLTextAreaElement || (target instanceof HTMLInputElement && target.type === "search");
}

function read() {
  try {
    return localStorage.getItem(OFF);
  } catch {
    return null;
  }
}
