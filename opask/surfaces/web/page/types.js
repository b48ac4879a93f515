// @ts-check
/**
 * What the API gives, as far as the page reads it; `opask.inbox.entry_to_json` and its siblings are the source.
 *
 * @typedef {"pending" | "answered" | "delivered" | "undelivered" | "skipped" | "timed_out" | "cancelled" | "abandoned"
 *   | "unavailable" | "orphaned"} State
 *
 * @typedef {{ label: string, description: string }} Option
 * @typedef {{ question: string, header: string, options: Option[], multiSelect: boolean }} Question
 * @typedef {{ selected?: number[], text?: string | null } | null} Answer one question's; null where it is skipped
 *
 * @typedef {object} Ask
 * @property {string} id
 * @property {string} session_id
 * @property {string} runtime
 * @property {string | null} agent_id the sub-agent that asks
 * @property {string | null} tool_call_id
 * @property {Question[]} questions
 * @property {State} state
 * @property {string} asked_at
 * @property {string | null} deadline
 * @property {string | null} latest how far the deadline can be moved
 * @property {number | null} siblings_running how many other calls of the agent ran on when it asked, where that is known
 * @property {Answer[] | null} selections
 * @property {string | null} by
 * @property {string | null} reason
 * @property {string | null} told
 * @property {string | null} resolved_at
 * @property {string | null} settled_at
 * @property {number} number
 * @property {number} seq
 *
 * @typedef {object} Session
 * @property {string} id
 * @property {string} runtime
 * @property {string} title
 * @property {string} started_at
 * @property {string | null} ended_at
 * @property {"ended" | "host_died" | null} ending
 * @property {boolean} running
 * @property {number} seq
 *
 * @typedef {{ position: number, event: Record<string, any> }} Logged
 * @typedef {{ items: ({ kind: "event", position: number, event: Record<string, any> } | { kind: "card", ask: Ask })[],
 *   pinned: Ask[], position: number, before: number | null }} Conversation `before` gives what is earlier
 */

/** Whether the agent is still owed something. @param {Ask} ask */
export function isOpen(ask) {
  return ask.state === "pending" || ask.state === "answered";
}
