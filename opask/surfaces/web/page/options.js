// @ts-check
/** What one reads of options, and how one finds one among many. */

import { fill, freshId, h, setAttribute } from "./dom.js";
import { inert, prose } from "./inert.js";

/** @typedef {import("./types.js").Question} Question */

const LONG_TEXT = 600; // characters from which on an option is shown in part, and whole on demand

/**
 * Make the texts of an option.
 * @param {import("./types.js").Option} option
 * @param {number} index
 * @returns {{ texts: HTMLElement, described: Record<string, string | null>, expand: HTMLElement | false }} the texts, the
 *   attributes of the control that they describe, and the button that shows the rest of very long ones
 */
export function optionTexts({ label, description }, index) {
  const name = h("span", { class: "label", id: freshId(), dir: "auto" });
  const more = h("span", { class: "description", id: freshId(), dir: "auto" });
  const show = (/** @type {number} */ limit) => {
    fill(name, ...prose(cut(label, limit), { scrolls: false }));
    fill(more, ...prose(cut(description, limit), { scrolls: false }));
  };
  const isLong = inert(label).length + inert(description).length > LONG_TEXT;
  const expand = h("button", { type: "button", class: "quiet whole", onclick: () => (show(Infinity), expand.remove()) });
  expand.textContent = `Show all of option ${index + 1}`;
  show(isLong ? LONG_TEXT / 2 : Infinity);
  return {
    texts: h("span", { class: "texts" }, name, description !== "" && more),
    described: { "aria-labelledby": name.id, "aria-describedby": description ? more.id : null },
    expand: isLong && expand,
  };
}

/**
 * Make the box that shows only those of a question's options that have a text in them.
 * @param {Question} question
 * @param {HTMLElement} list one child an option
 */
export function searchBox(question, list) {
  const label = `Search the ${question.options.length} options`;
  const find = () => {
    const wanted = box.value.trim().toLowerCase();
    question.options.forEach((option, index) => {
      const found = `${index + 1} ${option.label} ${option.description}`.toLowerCase().includes(wanted);
      setAttribute(list.children[index], "hidden", !found);
    });
  };
  const box = h("input", {
    type: "search",
    class: "search",
    placeholder: label,
    "aria-label": label,
    autocomplete: "off",
    oninput: find,
    // Enter would press the form's button, which here sends something else.
    onkeydown: (/** @type {KeyboardEvent} */ event) => event.key === "Enter" && event.preventDefault(),
  });
  return box;
}

/** @param {string} text @param {number} limit */
function cut(text, limit) {
  return text.length <= limit ? text : `${text.slice(0, limit)}…`;
}
