// @ts-check
/** An answer for an agent that waits no longer, as the text of its next prompt. */

import { ApiError } from "./api.js";
import { fill, h, say } from "./dom.js";
import { Form } from "./form.js";
import { sentence } from "./wording.js";

/** @typedef {import("./types.js").Answer} Answer */

/**
 * Offer to turn what was answered, or what is answered now, into a prompt that can be copied.
 * @param {object} options
 * @param {import("./types.js").Ask} options.ask
 * @param {import("./draft.js").Draft} options.draft what was chosen and written before the ask was over
 * @param {import("./api.js").Api} options.api
 * @param {(change: () => void) => void} options.change makes a change that may move cards
 */
export function followUp({ ask, draft, api, change }) {
  const known = ask.selections ?? (draft.answered ? draft.answers() : null);
  const note = h("p", { class: "note", role: "alert" });
  const place = h("div", { class: "late" });
  const make = async (/** @type {Answer[]} */ answers) => {
    say(note, "");
    try {
      showPrompt(await api.followUp(ask, answers));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      say(note, sentence(error.message));
    }
  };
  const showPrompt = (/** @type {string} */ text) => {
    const box = h("textarea", { readonly: true, rows: 6, "aria-label": "The follow-up prompt" });
    box.value = text;
    const copied = h("span", { class: "copied", role: "status" });
    const copy = async () => say(copied, (await copyText(box)) ? "Copied." : "Select the text and copy it.");
    const button = h("button", { type: "button", class: "primary", onclick: copy }, "Copy");
    const hint = h("p", {}, "Give this to the agent as its next prompt:");
    change(() => fill(place, hint, box, h("div", { class: "actions" }, button, copied)));
    button.focus();
    copy();
  };
  const begin = () => {
    if (known) return make(known);
    const form = new Form({ ask, send: make, touch: () => {}, allowed: () => true, verb: "Make the prompt" });
    change(() => fill(place, form.element, note));
    /** @type {HTMLElement | null} */ (form.element.querySelector("button, input, textarea"))?.focus();
  };
  const label = known ? "Copy the answer as a follow-up prompt" : "Answer with a follow-up prompt";
  fill(place, h("button", { type: "button", onclick: begin }, label), note);
  return place;
}

/** @param {HTMLTextAreaElement} box */
async function copyText(box) {
  try {
    await navigator.clipboard.writeText(box.value);
    return true;
  } catch {
    box.select();
    return false;
  }
}
