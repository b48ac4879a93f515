// @ts-check
/** What the operator is told in words; the terminal says the same (opask/surfaces/wording.py). */

import { inertLine, shorten } from "./inert.js";

/** @typedef {import("./types.js").Ask} Ask */
/** @typedef {import("./types.js").Session} Session */

const NAME = 48;
const SURFACES = new Map([
  ["web", "on a web page"],
  ["terminal", "in the terminal"],
  ["cli", "on the command line"],
]);

/** Write a length of time roughly, as `2 s`, `5 min` or `3 h`. @param {number} ms */
export function span(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  const hours = seconds / 3600;
  return hours < 48 ? `${Math.floor(hours * 10) / 10} h` : `${Math.floor(hours / 24)} days`;
}

/** Write the time that is left, as `4:59` or `1:04:59`; never below zero. @param {number} ms */
export function countdown(ms) {
  const left = Math.max(0, Math.ceil(ms / 1000));
  const [hours, minutes, seconds] = [Math.floor(left / 3600), Math.floor(left / 60) % 60, left % 60];
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(seconds)}` : `${minutes}:${two(seconds)}`;
}

/** Name a session by its title, else by its id. @param {Session | undefined} session @param {string} id */
export function sessionName(session, id) {
  return shorten(session?.title ?? "", 80) || shorten(id, NAME);
}

/** A short line that the ask is known by. @param {Ask} ask */
export function askName(ask) {
  const [first] = ask.questions;
  const name = shorten(first.header, 60) || shorten(first.question, 60) || "Question";
  return ask.questions.length > 1 ? `${name} (and ${ask.questions.length - 1} more)` : name;
}

/** The ask in one line, with its first question. @param {Ask} ask */
export function askLine(ask) {
  const [first] = ask.questions;
  const header = shorten(first.header, 60);
  const line = `${header}${header && ": "}${shorten(first.question, 140)}`;
  return ask.questions.length > 1 ? `${line} (and ${ask.questions.length - 1} more)` : line;
}

/** Say of a new ask what a screen reader reads out. @param {Ask} ask @param {Session | undefined} session */
export function announcement(ask, session) {
  return `New question from ${sessionName(session, ask.session_id)}: ${askName(ask)}`;
}

/** Say where a decision was made. @param {string | null} by @param {boolean} mine */
export function where(by, mine) {
  if (mine) return "here";
  const [surface, ...who] = inertLine(by ?? "").split(":");
  const place = SURFACES.get(surface) ?? (surface ? `by ${shorten(surface, NAME)}` : "elsewhere");
  return who.length ? `${place} by ${shorten(who.join(":"), NAME)}` : place;
}

/**
 * @typedef {"waiting" | "good" | "calm" | "bad"} Tone
 * @typedef {{ tone: Tone, label: string, detail: string }} Standing
 */

/**
 * Say where an ask stands.
 * @param {Ask} ask
 * @param {boolean} mine whether it was decided in this page
 * @returns {Standing}
 */
export function standing(ask, mine) {
  const reason = sentence(ask.reason);
  const decided = where(ask.by, mine);
  switch (ask.state) {
    case "pending":
      return { tone: "waiting", label: "Waiting for you", detail: "" };
    case "answered":
      return { tone: "waiting", label: "Sent", detail: `Answered ${decided}; not yet taken by the agent.` };
    case "delivered":
      return { tone: "good", label: "Delivered", detail: `Answered ${decided}; the agent has it.` };
    case "undelivered":
      return { tone: "bad", label: "Not delivered", detail: `Answered ${decided}, but it did not reach the agent. ${reason}` };
    case "skipped":
      return { tone: "calm", label: "Skipped", detail: `Skipped ${decided}; the agent goes on without it. ${reason}` };
    case "cancelled":
      return cancelled(ask, decided, reason);
    case "timed_out":
      return { tone: "bad", label: "Timed out", detail: `${reason || "No answer in time."} The agent was told to go on.` };
    case "abandoned":
      return { tone: "bad", label: "No longer asked", detail: `The agent stopped waiting. ${reason}` };
    case "unavailable":
      return { tone: "bad", label: "Could not be asked", detail: reason };
    case "orphaned":
      return { tone: "bad", label: "Host is gone", detail: `The program that ran the agent ended while it waited. ${reason}` };
    default:
      return { tone: "calm", label: shorten(String(ask.state), NAME), detail: reason };
  }
}

/** @param {Ask} ask @param {string} decided @param {string} reason @returns {Standing} */
function cancelled(ask, decided, reason) {
  if (ask.by === "host") return { tone: "bad", label: "Cancelled", detail: `The host took the question back. ${reason}` };
  if (ask.by === "shutdown") return { tone: "bad", label: "Cancelled", detail: `The host shut down. ${reason}` };
  return {
    tone: "calm",
    label: "Cancelled",
    detail: `Cancelled ${decided}; the agent is to do nothing that depends on it. ${reason}`,
  };
}

/** Make a sentence of what a server or a host says. @param {string | null} text */
export function sentence(text) {
  const line = inertLine(text ?? "");
  if (!line) return "";
  return `${line.charAt(0).toUpperCase()}${line.slice(1)}${/[.!?…]$/u.test(line) ? "" : "."}`;
}
