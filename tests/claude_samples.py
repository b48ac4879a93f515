"""Samples of what the claude CLI sends (2.1.332), and the launches that the adapter is tested with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opask.adapters import Message
from opask.launch import LaunchPlan
from opask.testing.conformance import AdapterCase

ASK = "mcp__opask__ask_user_question"
NATIVE = "AskUserQuestion"
STREAM = ("--output-format", "stream-json", "--verbose")
CONTROL = ("--input-format", "stream-json", "--permission-prompt-tool", "stdio")


def announce(call_id: str, tool: str, arguments: Mapping[str, Any]) -> list[Message]:
    """Give the line that announces a call."""
    block = {"type": "tool_use", "id": call_id, "name": tool, "input": arguments}
    message = {"id": "msg_1", "role": "assistant", "content": [block], "stop_reason": None}
    return [{"type": "assistant", "message": message, "parent_tool_use_id": None}]


def finish(call_id: str, tool: str, failed: bool) -> list[Message]:
    """Give the line that has a call's result; ``is_error`` is absent where all is well."""
    block = {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": "…",
        **({"is_error": True} if failed else {}),
    }
    return [{"type": "user", "message": {"role": "user", "content": [block]}, "parent_tool_use_id": None}]


def permission(request_id: str, tool: str, call_id: str, arguments: Mapping[str, Any]) -> Message:
    """Give a ``can_use_tool`` request."""
    request = {"subtype": "can_use_tool", "tool_name": tool, "input": arguments, "tool_use_id": call_id}
    if tool.startswith("mcp__opask__"):
        request["mcp_server"] = {"name": "opask", "source": "dynamic"}
    return {"type": "control_request", "request_id": request_id, "request": request}


def denies(reply: Message) -> bool:
    """Tell whether a ``control_response`` denies."""
    return bool(reply["response"]["response"].get("behavior") == "deny")


def native_denied(plan: LaunchPlan) -> bool:
    """Tell whether the native ask tool is taken from the model."""
    return f"--disallowedTools={NATIVE}" in plan.argv


INIT: Message = {
    "type": "system",
    "subtype": "init",
    "tools": ["Task", "Bash", ASK],
    "mcp_servers": [{"name": "opask", "status": "connected", "source": "dynamic"}],
    "claude_code_version": "2.1.332",
}
RESULT: Message = {"type": "result", "subtype": "success", "is_error": False, "stop_reason": "end_turn"}


def case(name: str, *argv: str, asks: bool = False) -> AdapterCase:
    """Give a case of the suite."""
    return AdapterCase(
        name=name,
        argv=argv,
        env={"PATH": "/usr/bin", "HOME": "/home/agent"},
        supplied=ASK,
        native=[NATIVE],
        begin_turn=[INIT],
        end_turn=[RESULT],
        announce=announce,
        finish=finish,
        meta=lambda call_id: {"claudecode/toolUseId": call_id, "progressToken": 2},
        native_denied=native_denied,
        permission=permission if asks else None,
        denies=denies,
    )


CASES = (
    case("text", "claude", "-p", "Do the thing.", *STREAM),
    case("text-with-options", "claude", "-p", "--allowedTools", "Bash", *STREAM, "--", "Do the thing."),
    case("interactive", "claude"),
    case("resumed", "claude", "-p", "Go on.", "--resume", "3f1c", *STREAM),
    case("control", "claude", "-p", *CONTROL, *STREAM, asks=True),
    case("through-node", "node", "/opt/claude-code/cli.js", "-p", *CONTROL, *STREAM, asks=True),
)
