// @ts-check
/** An agent's text made safe to show: the browser's twin of opask/inert.py; a test holds both to the same results. */

import { h } from "./dom.js";

const UNSAFE = new RegExp(
  "[\\u{0}-\\u{8}\\u{b}-\\u{1f}\\u{7f}-\\u{9f}\\u{ad}\\u{34f}\\u{61c}\\u{115f}\\u{1160}\\u{17b4}\\u{17b5}\\u{180e}" +
    "\\u{200b}\\u{200e}\\u{200f}\\u{2028}-\\u{202e}\\u{2060}-\\u{206f}\\u{3164}\\u{feff}\\u{ffa0}\\u{fff9}-\\u{fffb}" +
    "\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}\\u{d800}-\\u{dfff}]",
  "gu",
);

/**
 * Replace every control and invisible formatting character by something that can be seen; newlines and tabs stay.
 * @param {string} text
 */
export function inert(text) {
  return text.replaceAll("\r\n", "\n").replace(UNSAFE, (found) => {
    const point = found.codePointAt(0) ?? 0;
    if (point < 0x20) return String.fromCodePoint(0x2400 + point);
    if (point === 0x7f) return "\u2421";
    return `<U+${point.toString(16).toUpperCase().padStart(4, "0")}>`;
  });
}

/**
 * Return the text made inert and on one line.
 * @param {string} text
 */
export function inertLine(text) {
  return inert(text).split(/\s+/u).filter(Boolean).join(" ");
}

/**
 * Return one inert line of at most `limit` characters, with an ellipsis where it was cut.
 * @param {string} text
 * @param {number} limit
 */
export function shorten(text, limit) {
  const letters = [...inertLine(text)];
  return letters.length <= limit ? letters.join("") : `${letters.slice(0, limit - 1).join("").trimEnd()}…`;
}

const FENCED = /^```[^\n`]*\n(?<block>[\s\S]*?)(?:\n```[ \t]*$|$(?![\s\S]))/mu;
const CODE = /(?<ticks>`+)(?<code>(?:[^`]|(?!\k<ticks>)`)+?)\k<ticks>(?!`)/u;

/**
 * Return an agent's text as nodes: what stands in backticks as code, everything else as it is.
 * @param {string} text
 * @param {object} [options]
 * @param {boolean} [options.scrolls] whether a block of code may be scrolled by keys, so not within a button
 * @returns {(Node | string)[]}
 */
export function prose(text, { scrolls = true } = {}) {
  const block = (/** @type {string} */ code) => h("pre", { tabindex: scrolls ? 0 : null }, h("code", {}, code));
  return split(inert(text), FENCED, "block", block, (rest) =>
    split(rest, CODE, "code", (code) => h("code", {}, code), (plain) => [plain]),
  );
}

/**
 * @param {string} text
 * @param {RegExp} pattern
 * @param {string} group
 * @param {(code: string) => Node} code
 * @param {(text: string) => (Node | string)[]} plain
 * @returns {(Node | string)[]}
 */
function split(text, pattern, group, code, plain) {
  /** @type {(Node | string)[]} */
  const nodes = [];
  let rest = text;
  for (let found = pattern.exec(rest); found?.groups; found = pattern.exec(rest)) {
    if (found.index > 0) nodes.push(...plain(rest.slice(0, found.index)));
    nodes.push(code(found.groups[group]));
    rest = rest.slice(found.index + found[0].length);
  }
  if (rest) nodes.push(...plain(rest));
  return nodes;
}
