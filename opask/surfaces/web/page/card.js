// @ts-check
/** One ask on the page: its questions while it waits, and what became of it. */

import { ApiError } from "./api.js";
import { Draft } from "./draft.js";
import { fill, freshId, h, say, setAttribute } from "./dom.js";
import { followUp } from "./followup.js";
import { Form } from "./form.js";
import { inertLine, prose, shorten } from "./inert.js";
import { isWriting } from "./keys.js";
import { askLine, askName, countdown, sentence, sessionName, span, standing } from "./wording.js";

/** @typedef {import("./types.js").Ask} Ask */

/**
 * What all cards of one view share.
 * @typedef {object} Stage
 * @property {import("./inbox.js").Inbox} inbox
 * @property {import("./guard.js").Guard} guard
 * @property {(change: () => void) => void} change makes a change that may move cards
 * @property {(ask: Ask, kind: "answered" | "skipped" | "cancelled") => void} decided hears what the operator did here
 * @property {((sessionId: string) => string) | null} sessionHref where a session is shown; null where it is not
 * @property {() => boolean} keysOn whether single keys are shortcuts
 */

const HURRY_MS = 60_000;
const LAST_MS = 15_000;
const CAN_FOLLOW_UP = new Set(["undelivered", "timed_out", "abandoned", "unavailable", "orphaned", "cancelled"]);

export class Card {
  #stage;
  #ask;
  /** @type {Form | null} */
  #form = null;
  #folded = false;
  #shown = "";
  #title = h("span", { class: "title", dir: "auto" });
  #fold = h("button", { type: "button", class: "fold", onclick: () => this.#toggle() }, this.#title);
  #who = h("p", { class: "who" });
  #age = h("span", { class: "age" });
  #left = h("span", { class: "left" });
  #bar = h("div", { class: "bar", "aria-hidden": "true" });
  #badge = h("span", { class: "badge" });
  #body = h("div", { class: "body", id: freshId() });

  /** @param {Ask} ask @param {Stage} stage */
  constructor(ask, stage) {
    this.#ask = ask;
    this.#stage = stage;
    setAttribute(this.#fold, "aria-controls", this.#body.id);
    this.element = h(
      "article",
      { class: "card", tabindex: -1, "data-ask": ask.id, onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event) },
      this.#bar,
      h(
        "header",
        { class: "head" },
        h("h2", {}, this.#fold),
        this.#who,
        h("p", { class: "times" }, this.#badge, this.#age, this.#left),
      ),
      this.#body,
    );
    stage.guard.stir(this.element);
    this.update(ask);
  }

  get ask() {
    return this.#ask;
  }

  get folded() {
    return this.#folded;
  }

  /** Whether the operator has begun to answer here. */
  get begun() {
    return Boolean(this.#form?.begun);
  }

  /** Show the card as one line, or whole. @param {boolean} folded */
  fold(folded) {
    if (folded === this.#folded) return;
    this.#folded = folded;
    this.update(this.#ask);
  }

  #toggle() {
    this.#stage.change(() => this.fold(!this.#folded));
  }

  /** Draw the ask as it is now. @param {Ask} ask */
  update(ask) {
    this.#ask = ask;
    const { inbox } = this.#stage;
    const { tone, label } = standing(ask, inbox.isMine(ask));
    setAttribute(this.element, "data-state", ask.state);
    setAttribute(this.element, "data-tone", tone);
    setAttribute(this.element, "aria-label", `${label}: ${askLine(ask)}`);
    setAttribute(this.element, "data-folded", this.#folded);
    setAttribute(this.#fold, "aria-expanded", String(!this.#folded));
    setAttribute(this.#body, "hidden", this.#folded);
    say(this.#title, this.#folded ? askLine(ask) : ask.questions[0].header ? askName(ask) : "Question");
    say(this.#badge, label);
    this.#nameAsker();
    const shown = ask.state === "pending" ? "pending" : `${ask.state} ${ask.seq}`;
    if (shown !== this.#shown) {
      this.#shown = shown;
      if (ask.state === "pending") this.#showForm();
      else this.#showEnd();
    }
    this.tick();
  }

  /** Write the times anew. */
  tick() {
    const ask = this.#ask;
    const now = this.#stage.inbox.api.now();
    const waiting = ask.state === "pending";
    const end = ask.settled_at ?? ask.resolved_at;
    say(
      this.#age,
      waiting || !end ? `asked ${span(now - Date.parse(ask.asked_at))} ago` : `${span(now - Date.parse(end))} ago`,
    );
    const deadline = waiting && ask.deadline ? Date.parse(ask.deadline) : null;
    const left = deadline === null ? null : deadline - now;
    say(this.#left, !waiting ? "" : left === null ? "no time limit" : left > 0 ? `${countdown(left)} left` : "time is up");
    const urgency = left === null ? null : left <= LAST_MS ? "last" : left <= HURRY_MS ? "hurry" : "calm";
    setAttribute(this.element, "data-urgency", urgency);
    const whole = deadline === null ? 1 : deadline - Date.parse(ask.asked_at);
    this.#bar.style.setProperty("--left", String(left === null ? 0 : Math.min(1, Math.max(0, left / whole))));
  }

  /** Put the focus on the card, as the keys do that move among cards. */
  focus() {
    this.#stage.guard.stir(this.element);
    this.element.focus({ preventScroll: true });
    this.element.scrollIntoView({ block: "nearest" });
  }

  // -- while it waits ------------------------------------------------------------------------------------------------

  #confirm = h("div", { class: "confirm", role: "group", hidden: true });

  #showForm() {
    const form = new Form({
      ask: this.#ask,
      send: (answers) => this.#decide("answered", () => this.#stage.inbox.answer(this.#ask, answers)),
      touch: () => this.#stage.inbox.touch(this.#ask),
      allowed: (event) => this.#allowed(event),
      actions: [
        h("button", { type: "button", class: "skip", onclick: (/** @type {Event} */ event) => this.#skip(event) }, "Skip"),
        h(
          "button",
          { type: "button", class: "quiet cancel", "aria-expanded": "false", onclick: () => this.#askToCancel(true) },
          "Cancel…",
        ),
      ],
    });
    fill(
      this.#confirm,
      h("p", {}, "Cancel this question? The agent is told to do nothing that depends on it."),
      h(
        "button",
        {
          type: "button",
          class: "danger",
          onclick: (/** @type {Event} */ event) => {
            if (this.#allowed(event)) this.#decide("cancelled", () => this.#stage.inbox.cancel(this.#ask));
          },
        },
        "Cancel the question",
      ),
      h("button", { type: "button", onclick: () => this.#askToCancel(false) }, "Keep it open"),
    );
    this.#form = form;
    fill(this.#body, form.element, this.#confirm, this.#siblingsLine());
  }

  #nameAsker() {
    const { inbox, sessionHref } = this.#stage;
    const ask = this.#ask;
    const name = sessionName(inbox.sessions.get(ask.session_id), ask.session_id);
    const agent = ask.agent_id === null ? "" : `sub-agent ${shorten(ask.agent_id, 32)}`;
    const session = sessionHref
      ? h("a", { href: sessionHref(ask.session_id), dir: "auto" }, name)
      : h("span", { dir: "auto" }, name);
    setAttribute(this.#who, "data-sub-agent", agent !== "");
    const text = [agent, shorten(ask.runtime, 32)].filter(Boolean).join(" · ");
    if (this.#who.textContent !== `${name}${text}`) fill(this.#who, session, h("span", { class: "agent" }, text));
  }

  #siblingsLine() {
    const running = this.#ask.siblings_running;
    if (running === null) return null;
    return h(
      "p",
      { class: "siblings" },
      running === 0
        ? "The agent ran nothing else when it asked."
        : `Meanwhile ${running === 1 ? "1 other call" : `${running} other calls`} of the agent ran on when it asked.`,
    );
  }

  /** @param {Event} event */
  #skip(event) {
    if (this.#allowed(event)) this.#decide("skipped", () => this.#stage.inbox.skip(this.#ask));
  }

  /** @param {boolean} asking */
  #askToCancel(asking) {
    const button = this.#body.querySelector(".cancel");
    if (button) setAttribute(button, "aria-expanded", String(asking));
    this.#stage.change(() => setAttribute(this.#confirm, "hidden", !asking));
    if (asking) this.#confirm.querySelector("button")?.focus();
    else /** @type {HTMLElement | null} */ (button)?.focus();
  }

  /** @param {"answered" | "skipped" | "cancelled"} kind @param {() => Promise<void>} act */
  async #decide(kind, act) {
    const form = this.#form;
    if (!form || form.busy) return;
    form.busy = true;
    form.tell("");
    try {
      await act();
      this.#redraw();
      if (kind !== "answered") form.draft.discard();
      this.#stage.decided(this.#stage.inbox.asks.get(this.#ask.id) ?? this.#ask, kind);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.#redraw();
      if (this.#ask.state === "pending") form.retract();
      form.tell(
        this.#ask.state === "pending" && error.code === "unreachable"
          ? "The server cannot be reached, so nobody knows yet whether this was taken. Try again once it is back."
          : sentence(error.message),
      );
    } finally {
      form.busy = false;
    }
  }

  /** Show at once what was learnt of the ask, so that nothing is pressed in between. */
  #redraw() {
    const ask = this.#stage.inbox.asks.get(this.#ask.id);
    if (ask && ask !== this.#ask) this.#stage.change(() => this.update(ask));
  }

  /** @param {Event} event */
  #allowed(event) {
    if (this.#stage.guard.allows(this.element, event)) return true;
    this.#form?.tell("The card came up or moved just then, so that did not count.");
    return false;
  }

  // -- keys ----------------------------------------------------------------------------------------------------------

  /** @param {KeyboardEvent} event */
  #key(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (isWriting(target)) {
      if (event.key === "Escape") this.element.focus();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || !this.#form || this.#folded) return;
    if (!this.#stage.keysOn()) return;
    if (/^[0-9]$/u.test(event.key)) this.#form.press(event.key);
    else if (event.key === "s") this.#skip(event);
    else if (event.key === "t") this.#form.focusText();
    else if (event.key === "Enter" && target === this.element) this.#form.element.requestSubmit();
    else if (event.key === "ArrowDown" && !isRadio(target)) this.#form.move(1);
    else if (event.key === "ArrowUp" && !isRadio(target)) this.#form.move(-1);
    else return;
    event.preventDefault();
  }

  // -- once it is over -----------------------------------------------------------------------------------------------

  #showEnd() {
    const ask = this.#ask;
    const held = this.element.matches(":focus-within");
    const draft = this.#form?.draft ?? new Draft(ask);
    this.#form = null;
    const { detail } = standing(ask, this.#stage.inbox.isMine(ask));
    fill(
      this.#body,
      h("dl", { class: "answers" }, ...ask.questions.flatMap((question, at) => this.#answered(question, at))),
      h("p", { class: "standing" }, detail),
      CAN_FOLLOW_UP.has(ask.state) && followUp({ ask, draft, api: this.#stage.inbox.api, change: this.#stage.change }),
    );
    if (ask.state === "delivered") draft.discard();
    if (held) this.focus();
  }

  /** @param {import("./types.js").Question} question @param {number} at */
  #answered(question, at) {
    const answer = this.#ask.selections?.[at] ?? null;
    const header = inertLine(question.header);
    /** @type {(Node | string)[]} */
    const given = (answer?.selected ?? []).map((index) =>
      h("span", { class: "chosen", dir: "auto" }, ...prose(question.options[index]?.label ?? `option ${index + 1}`)),
    );
    if (answer?.text) given.push(h("q", { class: "own", dir: "auto" }, ...prose(answer.text)));
    if (!given.length) given.push(h("span", { class: "none" }, this.#ask.selections ? "skipped" : "no answer"));
    return [
      h("dt", { dir: "auto" }, header && h("span", { class: "tag" }, header), h("span", { class: "text" }, ...prose(question.question))),
      h("dd", {}, ...given),
    ];
  }
}

/** @param {HTMLElement} element */
function isRadio(element) {
  return element instanceof HTMLInputElement && element.type === "radio";
}
