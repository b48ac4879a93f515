"""``opask run --permissions``: how the runtime is launched for it, and who decides."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, get_args

import pytest

from gate_operator import Operator, request
from opask.cli.gating import Permissions, add_permissions, argv_for, policy_for
from opask.effects import Tools
from opask.events import TurnEnded
from opask.permissions import Allow, Deny
from opask.permitting import OperatorPermits
from opask.write_gate import WriteGate


class OneShot:
    """An adapter that is launched for one prompt."""

    runtime = "fake"

    def default_argv(self, program: str, prompt: str, arguments: Any, /) -> Any:
        """Launch for one prompt."""
        return (program, prompt, *arguments)


class Both(OneShot):
    """One that can be launched for messages, too."""

    tools = Tools(reads=("Read",), writes=("Edit",))

    def conversation_argv(self, program: str, arguments: Any, /) -> Any:
        """Launch for messages."""
        return (program, "--messages", *arguments)


class Session:
    """What a policy needs of a session."""

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter
        self.listeners: list[Any] = []

    def subscribe(self, listener: Any) -> None:
        """Keep a listener."""
        self.listeners.append(listener)


def test_the_default_is_to_deny() -> None:
    """Who says nothing gets what there was before: nobody decides, and the launch is for one prompt."""
    parser = argparse.ArgumentParser()
    add_permissions(parser)
    assert parser.parse_args([]).permissions == "deny"
    for choice in get_args(Permissions):
        assert parser.parse_args(["--permissions", choice]).permissions == choice


@pytest.mark.parametrize(
    ("adapter", "permissions", "argv"),
    [
        (Both(), "deny", ("p", "Go.", "-x")),
        (Both(), "ask", ("p", "--messages", "-x")),
        (Both(), "gate", ("p", "--messages", "-x")),
        (OneShot(), "ask", ("p", "Go.", "-x")),
    ],
)
def test_a_launch_brings_permission_requests_where_they_are_decided(
    adapter: Any, permissions: Permissions, argv: tuple[str, ...]
) -> None:
    """A runtime that can be prompted by messages is, where requests are to be put to somebody."""
    assert argv_for(adapter, "p", "Go.", ["-x"], permissions) == argv


async def test_ask_puts_requests_to_the_operator() -> None:
    """With ask a policy asks; with deny there is none."""
    session: Any = Session(Both())
    assert policy_for("deny", session, Operator("Allow once"), wait=None) is None
    policy = policy_for("ask", session, Operator("Allow once"), wait=None)
    assert isinstance(policy, OperatorPermits)
    assert await policy(request()) == Allow("allowed once")


async def test_gate_knows_the_runtimes_tools_and_turns() -> None:
    """With gate the adapter's table counts, a turn's grants end with it, and the inbox is protected."""
    session: Any = Session(Both())
    operator = Operator("Allow for this turn")
    policy = policy_for("gate", session, operator, wait=None, protects=[Path("/state/inbox.db")])
    assert isinstance(policy, WriteGate)
    assert await policy(request("Read")) == Allow("read-only")
    assert await policy(request("Edit")) == Allow("write gate: turn")
    operator.label = "Deny"
    assert isinstance(await policy(request("Edit", {"path": "inbox.db"})), Deny)
    (hear,) = session.listeners
    hear(TurnEnded(session_id="s", turn_id="turn-1", stop_reason="done"))
    assert isinstance(await policy(request("Edit")), Deny)


async def test_gate_takes_all_for_unknown_where_an_adapter_says_nothing() -> None:
    """An adapter without a table of tools leaves every call to the operator."""
    policy = policy_for("gate", Session(OneShot()), None, wait=None)  # type: ignore[arg-type]
    assert policy is not None
    assert isinstance(await policy(request("Read")), Deny)  # type: ignore[misc]
