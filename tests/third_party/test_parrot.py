"""Parrot's adapter under the suite that every adapter has to pass, with samples of what parrot sends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opask.adapters import Message
from opask.testing.conformance import AdapterCase, AdapterConformance
from opask_parrot import adapter

SESSION = "s-1"


def update(sort: str, **more: Any) -> Message:
    """Give an update of a turn."""
    params = {"sessionId": SESSION, "update": {"sessionUpdate": sort, **more}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def announced(call_id: str, tool: str, arguments: Mapping[str, Any]) -> Sequence[Message]:
    """Give what parrot says of a call as it starts."""
    named = {"title": "Asking the operator", "_meta": {"toolName": tool}}
    return [
        update("tool_call", toolCallId=call_id, status="pending", **named),
        update("tool_call_update", toolCallId=call_id, rawInput=arguments),
    ]


def finished(call_id: str, tool: str, failed: bool) -> Sequence[Message]:
    """Give what parrot says of a call that ended."""
    return [update("tool_call_update", toolCallId=call_id, status="failed" if failed else "completed")]


def permission(request_id: str, tool: str, call_id: str, arguments: Mapping[str, Any]) -> Message:
    """Give how parrot asks whether a tool may run."""
    options = [{"optionId": id_, "name": id_, "kind": f"{id_}_once"} for id_ in ("allow", "reject")]
    call = {"toolCallId": call_id, "title": "Asking the operator", "_meta": {"toolName": tool}}
    params = {"sessionId": SESSION, "toolCall": call, "options": options}
    return {"jsonrpc": "2.0", "id": request_id, "method": "session/request_permission", "params": params}


CASE = AdapterCase(
    name="acp",
    argv=("parrot", "--acp"),
    supplied="mcp__opask__ask_user_question",
    native=("AskUserQuestion",),
    sent=[
        {
            "jsonrpc": "2.0",
            "id": 3,
            "method": "session/prompt",
            "params": {"sessionId": SESSION, "prompt": [{"type": "text", "text": "Polly."}]},
        }
    ],
    begin_turn=[update("agent_thought_chunk", content={"type": "text", "text": "Hm."})],
    end_turn=[{"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn"}}],
    announce=announced,
    finish=finished,
    native_denied=lambda plan: True,  # nothing at launch does; the permission channel has to
    permission=permission,
    denies=lambda reply: reply["result"]["outcome"].get("optionId") != "allow",
)


class TestParrot(AdapterConformance):
    adapter = adapter
    cases = (CASE,)
