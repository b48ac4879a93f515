// @ts-check
/** A session's events as lines: the agent's text, its calls, and what else a person wants to know. */

import { fill, h } from "./dom.js";
import { inertLine, prose, shorten } from "./inert.js";

/** @typedef {import("./types.js").Logged} Logged */

const NAME = 80;
const REASON = 300;

/**
 * Turn a run of events into lines; pieces of one text become one line, and the end of a call is shown at the call.
 * @param {Logged[]} events
 * @param {Map<string, "done" | "failed">} finished how the calls ended, by the id of the call
 * @returns {{ key: string, signature: string, make: () => HTMLElement }[]}
 */
export function lines(events, finished) {
  /** @type {{ key: string, signature: string, make: () => HTMLElement }[]} */
  const found = [];
  let said = { agent: "", text: "", key: "" };
  const flush = () => {
    const { agent, text, key } = said;
    if (text.trim()) found.push({ key, signature: `${text.length}`, make: () => textLine(agent, text) });
    said = { agent: "", text: "", key: "" };
  };
  for (const { position, event } of events) {
    const agent = typeof event.agent_id === "string" ? event.agent_id : "";
    if (event.event === "text" && typeof event.text === "string") {
      if (said.agent !== agent) flush();
      said = { agent, text: said.text + event.text, key: said.key || `text-${position}` };
      continue;
    }
    const line = eventLine(event, finished);
    if (!line) continue;
    flush();
    const name = agent && `sub-agent ${shorten(agent, NAME)}`;
    found.push({
      key: `event-${position}`,
      signature: line.text + line.kind,
      make: () =>
        h("p", { class: `line ${line.kind}` }, name && h("span", { class: "agent" }, name), h("span", { dir: "auto" }, line.text)),
    });
  }
  flush();
  return found;
}

/** @param {string} agent @param {string} text */
function textLine(agent, text) {
  const element = h("div", { class: "said", dir: "auto" });
  fill(element, agent && h("span", { class: "agent" }, `sub-agent ${shorten(agent, NAME)}`), ...prose(text.trim()));
  return element;
}

/**
 * @param {Record<string, any>} event
 * @param {Map<string, "done" | "failed">} finished
 * @returns {{ kind: string, text: string } | null}
 */
function eventLine(event, finished) {
  const tool = shorten(String(event.tool ?? ""), NAME);
  const reason = shorten(String(event.reason ?? ""), REASON);
  switch (event.event) {
    case "tool_announced": {
      if (event.ask) return null; // its card, or its refusal, stands here
      const end = finished.get(event.tool_call_id);
      return { kind: `tool ${end ?? "running"}`, text: end === "failed" ? `${tool} failed` : tool };
    }
    case "native_ask_refused":
      return { kind: "info", text: `The runtime's own ask tool (${tool}) was refused` };
    case "ask_tool_missing":
      return { kind: "warning", text: `The agent did not get the ask tool: ${inertLine(String(event.reason)).replaceAll("_", " ")}` };
    case "session_ready":
      return event.questions
        ? { kind: "info", text: "The agent can ask" }
        : { kind: "warning", text: `The agent cannot ask${reason && `: ${reason}`}` };
    case "turn_ended":
      return event.is_error
        ? { kind: "turn warning", text: `The turn ended in an error: ${shorten(String(event.stop_reason), NAME)}` }
        : { kind: "turn", text: "End of the turn" };
    case "permission_decided":
      return event.verdict === "deny" ? { kind: "info", text: `Denied by rule: ${shorten(String(event.rule), NAME)}` } : null;
    case "answer_refused":
      return { kind: "warning", text: `An answer was refused: ${reason}` };
    case "message_unreadable":
      return { kind: "info", text: `A message of the runtime could not be read: ${reason}` };
    case "log_gap":
      return { kind: "warning", text: `${event.missed} events were not kept` };
    default:
      return null;
  }
}
