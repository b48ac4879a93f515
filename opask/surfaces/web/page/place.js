// @ts-check
/** A session's log with its asks in it: the browser's twin of `opask.inbox.place`. */

/** @typedef {import("./types.js").Ask} Ask */
/** @typedef {import("./types.js").Logged} Logged */

/**
 * Put each ask behind the announcement of the call that it came with; what belongs to no announced call is pinned.
 * @param {Logged[]} events in order
 * @param {Ask[]} asks in order
 * @returns {{ items: (Logged | Ask)[], pinned: Ask[] }}
 */
export function place(events, asks) {
  /** @type {Map<string, string>} */
  const calls = new Map();
  for (const ask of asks) if (ask.tool_call_id) calls.set(ask.id, ask.tool_call_id);
  /** @type {Map<string, number>} */
  const announced = new Map();
  for (const { position, event } of events) {
    const call = event.tool_call_id;
    if (typeof call !== "string") continue;
    if (event.event === "tool_announced" && !announced.has(call)) announced.set(call, position);
    else if (event.event === "question_asked" || event.event === "question_correlated") calls.set(event.question_id, call);
  }
  /** @type {Map<number, Ask[]>} */
  const at = new Map();
  /** @type {Ask[]} */
  const pinned = [];
  for (const ask of asks) {
    const position = announced.get(calls.get(ask.id) ?? "");
    if (position === undefined) pinned.push(ask);
    else at.set(position, [...(at.get(position) ?? []), ask]);
  }
  return { items: events.flatMap((logged) => [logged, ...(at.get(logged.position) ?? [])]), pinned };
}
