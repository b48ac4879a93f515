"""Who decides on a run's permission requests: nobody, the operator, or the write gate."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from opask.adapters import CommandLineAdapter
    from opask.bridge import Session
    from opask.driver import Policy
    from opask.prompter import Prompter

__all__ = ["Permissions", "add_permissions", "argv_for", "policy_for"]

Permissions: TypeAlias = Literal["deny", "ask", "gate"]
"""What becomes of a permission request that opask has no opinion on: see `add_permissions`."""

_CHOICES: Final[tuple[str, ...]] = get_args(Permissions)


def add_permissions(parser: argparse.ArgumentParser) -> None:
    """Add the argument that chooses."""
    parser.add_argument(
        "--permissions",
        choices=_CHOICES,
        default="deny",
        help="what the runtime asks permission for: denied (deny, the default); put to you (ask); or the agent starts "
        "read-only, and whatever it wants to change is put to you, whether the runtime would ask or not (gate)",
    )


def argv_for(
    adapter: CommandLineAdapter, program: str, prompt: str, arguments: Sequence[str], permissions: Permissions
) -> Sequence[str]:
    """Return the launch of a run: one over which permission requests come, where they are to be decided on."""
    conversation = getattr(adapter, "conversation_argv", None)
    if permissions == "deny" or conversation is None:
        return adapter.default_argv(program, prompt, arguments)
    argv: Sequence[str] = conversation(program, arguments)
    return argv


def policy_for(
    permissions: Permissions,
    session: Session,
    prompter: Prompter | None,
    *,
    wait: timedelta | None,
    protects: Collection[Path] = (),
) -> Policy | None:
    """Return what decides on a session's permission requests; None where they are denied.

    Args:
        permissions: what was chosen.
        session: whose requests they are.
        prompter: who asks; None where nobody is there, and all that has to be asked about is denied.
        wait: how long the operator may take.
        protects: the files of the inbox, if there is one.

    Raises:
        GateError: what reads shell commands is not installed.
    """
    if permissions == "deny":
        return None
    if permissions == "ask":
        from opask.permitting import OperatorPermits

        return OperatorPermits(prompter, wait=wait)
    from opask.effects import Tools
    from opask.write_gate import WriteGate

    tools = getattr(session.adapter, "tools", None)
    gate = WriteGate(tools if isinstance(tools, Tools) else Tools(), prompter, wait=wait, protects=protects)
    session.subscribe(gate.hear)
    return gate
