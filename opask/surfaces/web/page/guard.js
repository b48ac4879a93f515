// @ts-check
/**
 * Tells a click or key that answers what is on the screen from one that was meant for what was there before.
 *
 * Nobody reads a card in a third of a second: what comes that soon after a card came up, moved or got the focus does
 * not count, and neither does what follows without a pause.
 */

/** @typedef {{ at: number, timer: ReturnType<typeof setTimeout> }} Stir */

const QUIET_MS = 350;
const STILL_PX = 4;

export class Guard {
  /** When a card was last seen to come up or move, and what ends its being marked so. @type {WeakMap<Element, Stir>} */
  #stirs = new WeakMap();

  /**
   * Make a change to the page, and notice which cards it put somewhere else.
   * @param {ParentNode} root
   * @param {() => void} change
   */
  around(root, change) {
    const before = new Map([...root.querySelectorAll(".card")].map((card) => [card, card.getBoundingClientRect().top]));
    change();
    for (const card of root.querySelectorAll(".card")) {
      const top = before.get(card);
      if (top === undefined || Math.abs(card.getBoundingClientRect().top - top) > STILL_PX) this.stir(card);
    }
  }

  /** Hear that a card is new to whoever looks at it. @param {Element} card */
  stir(card) {
    this.#note(card, performance.now());
  }

  /** Tell whether a click or key in this card counts. @param {Element} card @param {Event} event */
  allows(card, event) {
    const stir = this.#stirs.get(card);
    if (!stir || event.timeStamp >= stir.at + QUIET_MS) return true;
    this.#note(card, event.timeStamp);
    return false;
  }

  /** @param {Element} card @param {number} at */
  #note(card, at) {
    clearTimeout(this.#stirs.get(card)?.timer);
    card.setAttribute("data-stirred", "");
    this.#stirs.set(card, { at, timer: setTimeout(() => card.removeAttribute("data-stirred"), QUIET_MS) });
  }
}
