"""What Kimi Code and the older Kimi CLI send, in samples, and the cases in which their adapters are held to the contract."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from acp_samples import answer, content, permission, prompted, update
from opask.adapters import Message
from opask.launch import LaunchPlan
from opask.testing.conformance import AdapterCase

PROMPT_ID = 7
ASK = "mcp__opask__ask_user_question"
BARE = "ask_user_question"
NATIVE = "AskUserQuestion"
OPTIONS = (
    {"optionId": "approve_once", "name": "Approve once", "kind": "allow_once"},
    {"optionId": "approve_always", "name": "Approve for this session", "kind": "allow_always"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
)
BARE_OPTIONS = (
    {"optionId": "approve", "name": "Approve once", "kind": "allow_once"},
    {"optionId": "approve_for_session", "name": "Approve for this session", "kind": "allow_always"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
)
ANSWERS = (
    {"optionId": "q0_opt_0", "name": "PostgreSQL", "kind": "allow_once"},
    {"optionId": "q0_opt_1", "name": "SQLite", "kind": "allow_once"},
    {"optionId": "q0_skip", "name": "Skip", "kind": "reject_once"},
)
ENV = {"PATH": "/usr/bin", "HOME": "/home/agent"}


def grown(call_id: str, arguments: Mapping[str, Any], pieces: int = 3, **more: Any) -> list[Message]:
    """Give the updates of a call whose arguments come as text, each time all of it so far."""
    whole = json.dumps(arguments)
    ends = [len(whole) * piece // pieces for piece in range(1, pieces + 1)]
    return [
        update(
            "tool_call_update",
            toolCallId=call_id,
            status="in_progress",
            content=content(whole[:end]),
            **more,
        )
        for end in ends
    ]


def announced(call_id: str, tool: str, arguments: Mapping[str, Any]) -> list[Message]:
    """Give what Kimi Code says of a call before it runs."""
    opened = update(
        "tool_call", toolCallId=call_id, title=tool, kind="other", status="pending", content=content("")
    )
    return [opened, *grown(call_id, arguments)]


def started(call_id: str, tool: str, arguments: Mapping[str, Any]) -> Message:
    """Give what Kimi Code says of a call that it was allowed to run."""
    return update(
        "tool_call_update",
        toolCallId=call_id,
        title=tool,
        kind="other",
        status="in_progress",
        rawInput=arguments,
        content=content(json.dumps(arguments)),
    )


def finished(call_id: str, tool: str, failed: bool) -> list[Message]:
    """Give what either product says of a call that ended."""
    return [
        update(
            "tool_call_update",
            toolCallId=call_id,
            status="failed" if failed else "completed",
            content=content("…"),
        )
    ]


def asks_permission(request_id: Any, tool: str, call_id: str, arguments: Mapping[str, Any]) -> Message:
    """Give the permission request of a call; the native tool's is its first question, its answers as options."""
    call = {"toolCallId": call_id, "title": tool, "content": content(f"Requesting approval to Call {tool}")}
    return permission(request_id, call, ANSWERS if tool == NATIVE else OPTIONS)


def bare_title(tool: str, arguments: Mapping[str, Any]) -> str:
    """Give a call's title as the older CLI makes it: name, colon, arguments with their middle left out."""
    text = json.dumps(arguments)
    return f"{tool}: {text[:30]}...{text[-15:]}" if arguments else tool


def bare_announced(call_id: str, tool: str, arguments: Mapping[str, Any]) -> list[Message]:
    """Give what the older CLI says of a call before it runs."""
    opened = update("tool_call", toolCallId=call_id, title=tool, status="in_progress", content=content(""))
    return [opened, *grown(call_id, arguments, title=bare_title(tool, arguments))]


def asks_bare_permission(request_id: Any, tool: str, call_id: str, arguments: Mapping[str, Any]) -> Message:
    """Give the permission request of the older CLI."""
    action = f"Requesting approval to perform: Call MCP tool `{tool}`."
    call = {"toolCallId": call_id, "title": bare_title(tool, arguments), "content": content(action)}
    return permission(request_id, call, BARE_OPTIONS)


def is_denied(reply: Message) -> bool:
    """Tell whether the answer to a permission request lets nothing run."""
    outcome = reply["result"]["outcome"]
    return bool(outcome["outcome"] == "cancelled" or outcome["optionId"] in ("reject", "q0_skip"))


def settings(plan: LaunchPlan, name: str = "config.toml", own: str | None = None) -> str:
    """Give a file that a plan makes in the session's folder, from the user's own; empty where it makes none."""
    return next(
        (file.make(own) for overlay in plan.overlays for file in overlay.files if file.name == name), ""
    )


def printed_call(call_id: str, tool: str, arguments: Mapping[str, Any]) -> Sequence[Message]:
    """Give the line that a call is in, of a run for one prompt."""
    function = {"name": tool, "arguments": json.dumps(arguments, separators=(",", ":"))}
    return [{"role": "assistant", "tool_calls": [{"type": "function", "id": call_id, "function": function}]}]


def printed_result(call_id: str, tool: str, failed: bool) -> Sequence[Message]:
    """Give the line that a call's result is in."""
    told = {ASK: "The operator did not answer." if failed else '{"answers": {"Which database?": "SQLite"}}'}
    return [{"role": "tool", "tool_call_id": call_id, "content": told.get(tool, "done")}]


def _case(name: str, *argv: str, **more: Any) -> AdapterCase:
    given: dict[str, Any] = {
        "argv": argv,
        "env": ENV,
        "supplied": ASK,
        "native": (NATIVE,),
        "sent": [prompted()],
        "begin_turn": [update("agent_thought_chunk", content={"type": "text", "text": "Hm."})],
        "end_turn": [answer(PROMPT_ID, stopReason="end_turn")],
        "announce": announced,
        "finish": finished,
        "native_denied": lambda plan: f'disabled = ["{NATIVE}"]' in settings(plan),
        "permission": asks_permission,
        "denies": is_denied,
    }
    return AdapterCase(name=name, **(given | more))


CASES = (
    _case("acp", "kimi", "acp"),
    _case("acp-in-node", "node", "/opt/kimi/main.mjs", "acp", env={**ENV, "KIMI_CODE_HOME": "/srv/kimi"}),
    _case(
        "print",
        "kimi",
        "-p",
        "do it",
        "--output-format",
        "stream-json",
        sent=(),
        begin_turn=[{"role": "meta", "type": "system.version", "version": "2.1.0"}],
        end_turn=[{"role": "meta", "type": "session.resume_hint", "session_id": "s", "content": "…"}],
        announce=printed_call,
        finish=printed_result,
        permission=None,
    ),
)

LEGACY_CASES = (
    _case(
        "acp",
        "kimi-cli",
        "acp",
        supplied=BARE,
        announce=bare_announced,
        native_denied=lambda plan: f'matcher = "^{NATIVE}$"' in settings(plan),
        permission=asks_bare_permission,
    ),
)
