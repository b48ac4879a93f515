"""What omp sends, in samples, and the cases in which its adapter is held to the contract."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from acp_samples import answer, content, permission, prompted, update
from opask.adapters import Message
from opask.launch import LaunchPlan
from opask.testing.conformance import AdapterCase

PROMPT_ID = 7
ASK = "mcp__opask_ask_user_question"
DEVICE = f"xd://{ASK}"
NATIVE = "ask"
PHRASE = "Asking the operator about the colour"
OPTIONS = tuple(
    {"optionId": kind, "name": kind, "kind": kind}
    for kind in ("allow_once", "allow_always", "reject_once", "reject_always")
)
ENV = {"PATH": "/usr/bin", "HOME": "/home/agent"}


def announced(call_id: str, tool: str, arguments: Mapping[str, Any], **more: Any) -> list[Message]:
    """Give what omp says of a call as it starts: its title is the tool's name, unless the model was let say more."""
    call = {"toolCallId": call_id, "title": tool, "kind": "other", "status": "pending", "rawInput": arguments}
    return [update("tool_call", **call | more)]


def device_announced(call_id: str, tool: str, arguments: Mapping[str, Any]) -> list[Message]:
    """Give what omp says of a call where MCP tools are devices, that are written to; its own tools are none."""
    if not tool.startswith("mcp__"):
        return announced(call_id, tool, arguments)
    raw = {"path": f"xd://{tool}", "content": json.dumps(arguments)}
    return announced(call_id, PHRASE, raw, kind="execute")


def phrase_announced(call_id: str, tool: str, arguments: Mapping[str, Any]) -> list[Message]:
    """Give what omp says of a call whose title is the model's own phrase: nothing names the tool."""
    return announced(call_id, PHRASE, arguments)


def details(tool: str, failed: bool = False) -> dict[str, Any]:
    """Give what the result of an MCP tool says of itself."""
    server, _, name = tool.removeprefix("mcp__").partition("_")
    return {"serverName": server, "mcpToolName": name, "isError": failed, "provider": "acp"}


def finished(call_id: str, tool: str, failed: bool) -> list[Message]:
    """Give what omp says of a call that ended."""
    return [
        update(
            "tool_call_update",
            toolCallId=call_id,
            status="failed" if failed else "completed",
            rawOutput={"content": [{"type": "text", "text": "…"}], "details": details(tool, failed)},
            content=content("…"),
        )
    ]


def device_finished(call_id: str, tool: str, failed: bool) -> list[Message]:
    """Give what omp says of a device's call that ended."""
    told = {"xdev": {"tool": tool, "mode": "execute", "inner": details(tool, failed)}}
    raw = {"content": [{"type": "text", "text": "…"}], "details": told}
    status = "failed" if failed else "completed"
    return [
        update("tool_call_update", toolCallId=call_id, status=status, rawOutput=raw, content=content("…"))
    ]


def asks_permission(request_id: Any, tool: str, call_id: str, arguments: Mapping[str, Any]) -> Message:
    """Give a permission request; omp makes none for an MCP tool, and its title is a command of the model's."""
    return permission(
        request_id,
        {"toolCallId": call_id, "title": tool, "kind": "execute", "status": "pending", "rawInput": arguments},
        OPTIONS,
    )


def made(plan: LaunchPlan, name: str, own: str | None = None) -> str:
    """Give a file that is made for a launch, from the user's own; empty where there is none."""
    texts = (file.make(own) for overlay in plan.overlays for file in overlay.files if file.name == name)
    return next(texts, "")


def settings(plan: LaunchPlan) -> dict[str, Any]:
    """Give the settings of a launch."""
    found: dict[str, Any] = json.loads(made(plan, "settings.yml") or "{}")
    return found


def case(name: str, *argv: str, **more: Any) -> AdapterCase:
    """Give a case of omp."""
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
        "native_denied": lambda plan: settings(plan)["ask"] == {"enabled": False},
    }
    return AdapterCase(name=name, **(given | more))


CASES: Sequence[AdapterCase] = (
    case("titles", "omp", "acp", "--model", "m"),
    case("devices", "bun", "cli.js", "acp", announce=device_announced, finish=device_finished),
)
