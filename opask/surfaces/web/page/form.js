// @ts-check
/** The questions of one ask with everything they are answered with. */

import { Draft } from "./draft.js";
import { freshId, h, say, setAttribute } from "./dom.js";
import { inertLine, prose } from "./inert.js";
import { optionTexts, searchBox } from "./options.js";

/** @typedef {import("./types.js").Ask} Ask */
/** @typedef {import("./types.js").Answer} Answer */
/** @typedef {import("./types.js").Question} Question */

const DIRECT_DIGITS = 9; // up to so many options, one digit names an option
const SHORT_LABEL = 32;
const MANY_OPTIONS = 12; // with more than that, one can search among them

/**
 * One question with options of which one is chosen is answered by a click; everything else is sent with a button.
 */
export class Form {
  #ask;
  #send;
  #touch;
  #allowed;
  #direct;
  #busy = false;
  #digits = "";
  #note = h("p", { class: "note", role: "alert" });
  #submit = h("button", { type: "submit", class: "primary send" });
  /** @type {HTMLElement[]} */
  #sections;

  /**
   * @param {object} options
   * @param {Ask} options.ask
   * @param {(answers: Answer[]) => void} options.send
   * @param {() => void} options.touch called whenever the operator does something here
   * @param {(event: Event) => boolean} options.allowed tells whether a click or key counts
   * @param {string} [options.verb] what the button does
   * @param {HTMLElement[]} [options.actions] buttons beside it
   */
  constructor({ ask, send, touch, allowed, verb = "Send", actions = [] }) {
    this.#ask = ask;
    this.#send = send;
    this.#touch = touch;
    this.#allowed = allowed;
    this.verb = verb;
    this.draft = new Draft(ask);
    this.#direct = ask.questions.length === 1 && ask.questions[0].options.length > 0 && !ask.questions[0].multiSelect;
    this.#sections = ask.questions.map((question, at) => this.#section(question, at));
    this.element = h(
      "form",
      { class: ask.questions.length > 1 ? "answering" : "answering single", novalidate: true, onsubmit: (/** @type {Event} */ event) => this.#submitted(event) },
      ...this.#sections,
      this.#note,
      h("div", { class: "actions" }, this.#submit, ...actions),
    );
    this.#refresh();
  }

  /** Tell something about the last action; an empty text takes it away. @param {string} text */
  tell(text) {
    say(this.#note, text);
  }

  /** Let nothing be pressed while an answer is on its way. @param {boolean} busy */
  set busy(busy) {
    this.#busy = busy;
    setAttribute(this.element, "aria-busy", busy ? "true" : null);
  }

  get busy() {
    return this.#busy;
  }

  /** Whether anything is chosen or written. */
  get begun() {
    return this.draft.answered > 0;
  }

  /** Move to where own words are written, for the question that has the focus. */
  focusText() {
    this.#current().querySelector("textarea")?.focus();
  }

  /** Move the focus among the options. @param {number} step */
  move(step) {
    const options = this.#options(this.#current()).filter((option) => !option.closest("li")?.hidden);
    const from = options.findIndex((option) => option === this.#focused());
    options.at(from < 0 ? (step > 0 ? 0 : -1) : Math.min(Math.max(from + step, 0), options.length - 1))?.focus();
  }

  /** Choose the option of this number; with many options, move to it, one digit after the other. @param {string} digit */
  press(digit) {
    const options = this.#options(this.#current());
    const pick = (/** @type {string} */ digits) => options[Number(digits) - 1];
    if (options.length <= DIRECT_DIGITS) {
      if (!pick(digit)) return this.tell(`There is no option ${digit}.`);
      pick(digit).focus();
      return pick(digit).click();
    }
    this.#digits = [this.#digits + digit, digit].find(pick) ?? "";
    if (this.#digits) pick(this.#digits).focus();
    else this.tell(`There is no option ${digit}.`);
  }

  /** Send what is chosen and written. */
  submit() {
    if (this.#busy) return;
    const answers = this.draft.answers();
    if (answers.some(Boolean)) this.#send(answers);
    else this.tell(this.#nothing());
  }

  /** Take back an option that was sent by a click and not taken: it is no longer seen to be chosen. */
  retract() {
    if (this.#direct) this.draft.clear(0);
  }

  // -- making it -----------------------------------------------------------------------------------------------------

  /** @param {Question} question @param {number} at */
  #section(question, at) {
    const [textId, wordsId] = [freshId(), freshId()];
    const several = this.#ask.questions.length > 1;
    const name = inertLine(question.header) || (several ? `Question ${at + 1}` : "Question");
    const words = h("textarea", {
      id: wordsId,
      rows: question.options.length ? 1 : 3,
      dir: "auto",
      autocomplete: "off",
      "aria-describedby": textId,
      oninput: () => this.#wrote(at, words.value),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.#keyInWords(event, at),
    });
    words.value = this.draft.parts[at].text;
    const clear = h("button", { type: "button", class: "quiet clear", onclick: () => this.#clear(at) }, "Clear");
    setAttribute(clear, "aria-label", `Clear the choice for ${name}`);
    return h(
      "div",
      { class: "question", role: "group", "aria-labelledby": textId },
      h(
        "header",
        {},
        h("h3", { class: "tag", dir: "auto" }, name),
        several && h("span", { class: "place" }, `${at + 1} of ${this.#ask.questions.length}`),
        question.multiSelect && question.options.length > 0 && h("span", { class: "place" }, "Choose any number"),
        several && question.options.length > 0 && clear,
      ),
      h("div", { class: "text", id: textId, dir: "auto" }, ...prose(question.question)),
      ...(question.options.length > 0 ? this.#choices(question, at, textId) : []),
      h(
        "div",
        { class: "words" },
        h("label", { for: wordsId }, question.options.length ? "Or in your own words" : "In your own words"),
        words,
      ),
    );
  }

  /** @param {Question} question @param {number} at @param {string} labelId */
  #choices(question, at, labelId) {
    const many = question.options.length > MANY_OPTIONS;
    const short =
      question.options.length > 4 &&
      question.options.every(({ label, description }) => !description && label.length <= SHORT_LABEL);
    const group = freshId();
    const list = h(
      "ul",
      {
        class: `options${short ? " short" : ""}${many ? " many" : ""}`,
        role: this.#direct || question.multiSelect ? null : "radiogroup",
        "aria-labelledby": labelId,
      },
      ...question.options.map((option, index) => this.#option(option, question, at, index, group)),
    );
    return many ? [searchBox(question, list), list] : [list];
  }

  /**
   * @param {import("./types.js").Option} option
   * @param {Question} question
   * @param {number} at
   * @param {number} index
   * @param {string} group
   */
  #option(option, question, at, index, group) {
    const { texts, described, expand } = optionTexts(option, index);
    const number = h("kbd", { "aria-hidden": "true" }, String(index + 1));
    const inList = question.multiSelect || this.#direct ? {} : { role: "presentation" };
    return h(
      "li",
      inList,
      this.#direct
        ? h(
            "button",
            {
              type: "button",
              class: "option",
              ...described,
              onclick: (/** @type {Event} */ event) => this.#clicked(event, index),
            },
            number,
            texts,
          )
        : h(
            "label",
            { class: "option" },
            this.#box(question, at, index, group, described),
            number,
            texts,
          ),
      expand,
    );
  }

  /**
   * @param {Question} question
   * @param {number} at
   * @param {number} index
   * @param {string} group
   * @param {Record<string, any>} described
   */
  #box(question, at, index, group, described) {
    const box = h("input", {
      type: question.multiSelect ? "checkbox" : "radio",
      name: group,
      ...described,
      onclick: (/** @type {Event} */ event) => {
        if (!this.#busy && this.#allowed(event)) return;
        event.preventDefault();
      },
      onchange: () => this.#chose(at, index),
    });
    box.checked = this.draft.parts[at].selected.includes(index);
    return box;
  }

  // -- what is done with it ------------------------------------------------------------------------------------------

  /** @param {Event} event @param {number} index */
  #clicked(event, index) {
    if (this.#busy || !this.#allowed(event)) return;
    this.draft.choose(0, index);
    this.submit();
  }

  /** @param {Event} event */
  #submitted(event) {
    event.preventDefault();
    if (this.#direct) this.draft.clear(0); // the button sends the words; an option is sent by pressing it
    if (this.#allowed(event)) this.submit();
  }

  /** @param {number} at @param {number} index */
  #chose(at, index) {
    this.draft.choose(at, index);
    this.#done();
  }

  /** @param {number} at @param {string} text */
  #wrote(at, text) {
    this.draft.write(at, text);
    this.#done();
  }

  /** @param {number} at */
  #clear(at) {
    this.draft.clear(at);
    for (const box of this.#sections[at].querySelectorAll("input")) box.checked = false;
    this.#done();
  }

  #done() {
    this.tell("");
    this.#digits = "";
    this.#refresh();
    this.#touch();
  }

  /** @param {KeyboardEvent} event @param {number} at */
  #keyInWords(event, at) {
    if (event.key !== "Enter" || event.shiftKey || event.altKey || event.isComposing) return;
    event.preventDefault();
    if (event.repeat) return;
    const next = this.#sections[at + 1];
    if (next && !event.ctrlKey && !event.metaKey) /** @type {HTMLElement} */ (next.querySelector("input, textarea")).focus();
    else this.element.requestSubmit();
  }

  #refresh() {
    const [questions, answered] = [this.#ask.questions.length, this.draft.answered];
    const rest = questions - answered;
    say(this.#submit, answered > 0 && rest > 0 ? `${this.verb} ${answered}, skip ${rest}` : this.verb);
    setAttribute(this.#submit, "data-ready", answered > 0);
    this.#sections.forEach((section, at) => {
      const clear = section.querySelector(".clear");
      if (clear) setAttribute(clear, "hidden", this.draft.parts[at].selected.length === 0);
    });
  }

  #nothing() {
    if (this.#direct) return "Nothing is written yet: press an option, write something, or skip.";
    const [first] = this.#ask.questions;
    return first.options.length || this.#ask.questions.length > 1
      ? "Nothing is chosen or written yet: choose, write something, or skip."
      : "Nothing is written yet: write something, or skip.";
  }

  /** The question that has the focus, else the first without an answer. */
  #current() {
    const focused = this.#focused();
    const answers = this.draft.answers();
    return (
      this.#sections.find((section) => section.contains(focused)) ??
      this.#sections.find((_, at) => !answers[at]) ??
      this.#sections[0]
    );
  }

  /** @param {HTMLElement} section @returns {HTMLElement[]} */
  #options(section) {
    return [...section.querySelectorAll(".option input, button.option")].map((found) => /** @type {HTMLElement} */ (found));
  }

  #focused() {
    return /** @type {Document | ShadowRoot} */ (this.element.getRootNode()).activeElement;
  }
}
