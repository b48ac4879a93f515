// @ts-check
/** What is chosen and written so far for one ask; kept for this tab, so that a reload loses nothing. */

/** @typedef {import("./types.js").Ask} Ask */
/** @typedef {import("./types.js").Answer} Answer */

const KEY = "opask-draft:";

export class Draft {
  /** @param {Ask} ask */
  constructor(ask) {
    this.ask = ask;
    /** @type {{ selected: number[], text: string }[]} */
    this.parts = ask.questions.map(() => ({ selected: [], text: "" }));
    this.#restore();
  }

  /** Choose an option; where several may be chosen, take it back if it is chosen. @param {number} at @param {number} option */
  choose(at, option) {
    const part = this.parts[at];
    if (!this.ask.questions[at].multiSelect) part.selected = [option];
    else if (part.selected.includes(option)) part.selected = part.selected.filter((chosen) => chosen !== option);
    else part.selected = [...part.selected, option];
    this.#keep();
  }

  /** @param {number} at @param {string} text */
  write(at, text) {
    this.parts[at].text = text;
    this.#keep();
  }

  /** Take back what was chosen for a question. @param {number} at */
  clear(at) {
    this.parts[at].selected = [];
    this.#keep();
  }

  /** The answers as the API takes them; empty is never an answer. @returns {Answer[]} */
  answers() {
    return this.parts.map(({ selected, text }) => {
      if (!selected.length && !text.trim()) return null;
      return text.trim() ? { selected, text } : { selected };
    });
  }

  /** How many questions have an answer. */
  get answered() {
    return this.answers().filter(Boolean).length;
  }

  /** Forget it. */
  discard() {
    storage()?.removeItem(KEY + this.ask.id);
  }

  #keep() {
    try {
      storage()?.setItem(KEY + this.ask.id, JSON.stringify(this.parts));
    } catch {
      // Full, or refused: then a reload begins anew.
    }
  }

  #restore() {
    try {
      const kept = JSON.parse(storage()?.getItem(KEY + this.ask.id) ?? "[]");
      this.ask.questions.forEach((question, at) => {
        const { selected = [], text = "" } = kept[at] ?? {};
        this.parts[at] = {
          selected: selected.filter((/** @type {unknown} */ option) => Number.isInteger(option) && question.options[Number(option)]),
          text: String(text),
        };
      });
    } catch {
      // Not of this version: begin anew.
    }
  }
}

function storage() {
  try {
    return window.sessionStorage;
  } catch {
    return null;
  }
}
