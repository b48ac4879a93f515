"""What a permission request over ACP says of a call's arguments, where only what was streamed before has them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from acp_samples import SESSION, answer, hear
from kimi_samples import announced, asks_permission, started
from opask.launch import Endpoint, LaunchRequest
from opask.permissions import PermissionRequested
from opask_kimi import adapter

ENDPOINT = Endpoint(command=("relay",), folder=Path("/run/s"), wait=timedelta(minutes=1))
COMMAND = {"command": "touch one", "description": 'with {braces} and "quotes"'}


def opened() -> Any:
    """Begin a turn of Kimi Code's."""
    launch = LaunchRequest(("kimi", "acp"), {"HOME": "/home/agent"}, cwd="/srv")
    conversation: Any = adapter.conversation(adapter.plan_launch(launch, ENDPOINT))
    handshake: tuple[dict[str, Any], ...] = (
        {"protocolVersion": 1, "agentInfo": {"name": "Kimi Code CLI", "version": "2.1.0"}},
        {"sessionId": SESSION},
    )
    for result in handshake:
        (due,) = conversation.outgoing()
        hear(conversation, answer(due["id"], **result))
    conversation.prompt("Go.")
    return conversation


def requested(events: list[Any]) -> list[PermissionRequested]:
    """Give the permission requests among events."""
    return [event for event in events if isinstance(event, PermissionRequested)]


def test_what_was_streamed_is_what_is_asked_about() -> None:
    """The arguments that grew, piece by piece, before the request are those of the call; each call has its own."""
    conversation = opened()
    events = hear(
        conversation,
        *announced("0:a", "Bash", COMMAND),
        *announced("0:b", "Bash", {"command": "ls"}),
        asks_permission(1, "Bash", "0:a", COMMAND),
        asks_permission(2, "Bash", "0:b", {}),
    )
    assert [request.arguments for request in requested(events)] == [COMMAND, {"command": "ls"}]


def test_what_was_not_told_in_whole_is_not_told() -> None:
    """Of a call whose arguments had not come to their end, or that was never announced, nothing is made up."""
    conversation = opened()
    *some, _ = announced("0:a", "Bash", COMMAND)
    events = hear(
        conversation, *some, asks_permission(1, "Bash", "0:a", COMMAND), asks_permission(2, "Bash", "0:x", {})
    )
    assert [request.arguments for request in requested(events)] == [None, None]


def test_what_the_runtime_says_outright_goes_before() -> None:
    """Arguments in their own field are taken before what was streamed."""
    conversation = opened()
    other = {"command": "rm one"}
    events = hear(
        conversation,
        *announced("0:a", "Bash", COMMAND),
        started("0:a", "Bash", other),
        asks_permission(1, "Bash", "0:a", COMMAND),
    )
    assert [request.arguments for request in requested(events)] == [other]
