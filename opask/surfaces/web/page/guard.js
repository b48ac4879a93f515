// @ts-check
/**
 * Tells a click or key that answers what is on the screen from one that was meant for what was there before.
 *
 * Nobody reads a card in a third of a second: what comes that soon after a card came up, moved or got the focus does
 * not count, and neither does what follows without a pause. A key goes where the focus is: where the card went does not
 * matter to it.
 */

/** @typedef {{ at: number, onlyMoved: boolean, timer: ReturnType<typeof setTimeout> }} Stir */

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
      if (top === undefined) this.stir(card);
      else if (Math.abs(card.getBoundingClientRect().top - top) > STILL_PX) this.#note(card, performance.now(), true);
    }
  }

  /** Hear that a card is new to whoever looks at it. @param {Element} card */
  stir(card) {
    this.#note(card, performance.now(), false);
  }

  /** Tell whether a click or key in this card counts. @param {Element} card @param {Event} event */
  allows(card, event) {
    const stir = this.#stirs.get(card);
    if (!stir || event.timeStamp >= stir.at + QUIET_MS) return true;
    if (stir.onlyMoved && isOfKey(event)) return true;
    this.#note(card, event.timeStamp, stir.onlyMoved);
    return false;
  }

  /** @param {Element} card @param {number} at @param {boolean} moved */
  #note(card, at, moved) {
    const last = this.#stirs.get(card);
    clearTimeout(last?.timer);
    card.setAttribute("data-stirred", "");
    const onlyMoved = moved && !(last && !last.onlyMoved && at < last.at + QUIET_MS);
    const timer = setTimeout(() => card.removeAttribute("data-stirred"), QUIET_MS);
    this.#stirs.set(card, { at, onlyMoved, timer });
  }
}

/** Tell a key, and a form that a key sends: it names no button that sent it. @param {Event} event */
function isOfKey(event) {
  return event instanceof KeyboardEvent || (event instanceof SubmitEvent && event.submitter === null);
}
