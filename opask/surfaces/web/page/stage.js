// @ts-check
/** What the cards of one view share, and the cards themselves. */

import { Card } from "./card.js";
import { Guard } from "./guard.js";
import { everySecond } from "./ticker.js";

/** @typedef {import("./types.js").Ask} Ask */

/** All cards under one root: each ask has one card there, wherever the view puts it. */
export class Cards {
  /** @type {Map<string, Card>} */
  #cards = new Map();
  #stage;
  #endTicks;

  /**
   * @param {object} options
   * @param {import("./inbox.js").Inbox} options.inbox
   * @param {ParentNode} options.root what holds the cards
   * @param {import("./card.js").Stage["decided"]} [options.decided]
   * @param {import("./card.js").Stage["sessionHref"]} [options.sessionHref]
   * @param {() => boolean} [options.keysOn]
   */
  constructor({ inbox, root, decided = () => {}, sessionHref = null, keysOn = () => true }) {
    this.inbox = inbox;
    this.root = root;
    const guard = new Guard();
    /** Make a change to the view that may move cards; what has the focus keeps it. @param {() => void} change */
    this.change = (change) => {
      const tree = /** @type {Document | ShadowRoot} */ (root.getRootNode());
      const held = /** @type {HTMLElement | null} */ (tree.activeElement);
      guard.around(root, change);
      const isLost = [null, document.body].includes(/** @type {HTMLElement | null} */ (tree.activeElement));
      if (isLost && held?.isConnected) held.focus({ preventScroll: true });
    };
    this.#stage = { inbox, guard, change: this.change, decided, sessionHref, keysOn };
    this.#endTicks = everySecond(() => this.#cards.forEach((card) => card.tick()));
  }

  /** Give the card of an ask, drawn as the ask is now. @param {Ask} ask */
  of(ask) {
    let card = this.#cards.get(ask.id);
    if (!card) this.#cards.set(ask.id, (card = new Card(ask, this.#stage)));
    else if (card.ask !== ask) card.update(ask);
    return card;
  }

  /** Draw again what depends on more than the asks: the names of sessions, and what was decided here. */
  refresh() {
    for (const card of this.#cards.values()) card.update(this.inbox.asks.get(card.ask.id) ?? card.ask);
  }

  /** Forget the cards of asks that are gone, and those that are not shown: they are made again where they are needed. */
  prune() {
    for (const [id, card] of this.#cards) {
      if (!this.inbox.asks.has(id) || !(card.element.isConnected || card.begun)) this.#cards.delete(id);
    }
  }

  /** Move the focus to the card after or before the one that has it. @param {number} step 1 or -1 */
  move(step) {
    const elements = [...this.root.querySelectorAll(".card")].map((found) => /** @type {HTMLElement} */ (found));
    const at = elements.findIndex((element) => element.matches(":focus-within"));
    const next = at < 0 ? (step > 0 ? 0 : elements.length - 1) : at + step;
    const id = elements[next]?.dataset.ask;
    if (id) this.#cards.get(id)?.focus();
  }

  /** Stop the clock of the cards. */
  close() {
    this.#endTicks();
  }
}
