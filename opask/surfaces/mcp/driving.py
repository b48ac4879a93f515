"""What this surface asks of whoever runs agents: the contract, without a bridge or a process in it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from attrs import frozen

from opask.errors import OpaskError

__all__ = ["Driven", "Driver", "DrivingError", "SessionState", "TurnEnd"]

SessionState: TypeAlias = Literal["working", "idle", "ended"]
"""``working``: a turn runs; ``idle``: it waits for a further prompt; ``ended``: it takes none."""


class DrivingError(OpaskError):
    """A session cannot be started or driven as asked; the message tells the one who drives what to do."""


@frozen
class TurnEnd:
    """How a turn ended.

    Args:
        outcome: ``done``; ``failed``; ``cancelled``, by whoever drives or by the end of the server.
        text: what the agent said last, as it was, not inert.
        reason: the runtime's own word for the end, or why it failed.
    """

    outcome: Literal["done", "failed", "cancelled"]
    text: str
    reason: str | None = None


class Driven(Protocol):
    """One session: one run of a runtime, driven turn by turn.

    Attributes:
        id: its id, in the inbox too.
        runtime: the runtime's name.
        title: its first prompt; a client's text, so not safe to show as it is.
        cwd: where it works.
        started_at: when it began (aware, UTC).
        turns: how many prompts it was given.
        cannot_ask: why the agent cannot ask, where that is known; it works alone then.
    """

    id: str
    runtime: str
    title: str
    cwd: Path
    started_at: datetime
    turns: int
    cannot_ask: str | None

    @property
    def state(self) -> SessionState:
        """Whether it works, waits for a prompt, or has ended."""
        ...

    @property
    def last(self) -> TurnEnd | None:
        """How the last turn ended; None while the first one runs."""
        ...

    @property
    def said(self) -> str:
        """What the agent said last in the turn that runs, as it was."""
        ...

    def prompt(self, text: str, /) -> None:
        """Give an idle session its next prompt.

        Raises:
            DrivingError: it is not idle.
        """
        ...

    async def turn_over(self) -> TurnEnd:
        """Wait until no turn runs; return how the last one ended."""
        ...

    async def cancel(self, *, keep: bool) -> None:
        """Interrupt the turn, whose open questions are cancelled, and wait for that; end the session unless it is kept."""
        ...


class Driver(Protocol):
    """Runs sessions, in tasks of its own: none of them ends with the call that started it.

    Attributes:
        runtimes: the names of those that can be started.
    """

    runtimes: tuple[str, ...]

    async def start(self, runtime: str, prompt: str, cwd: str | None) -> Driven:
        """Start a session with its first prompt.

        Args:
            runtime: one of `runtimes`.
            prompt: what the agent is to do.
            cwd: where it works; by default where the server does.

        Raises:
            OpaskError: it cannot be started; the message says what to do.
        """
        ...

    def session(self, session_id: str) -> Driven:
        """Return a session.

        Raises:
            DrivingError: there is none of this id.
        """
        ...

    def sessions(self) -> tuple[Driven, ...]:
        """Return the sessions that run, and the last ones that have ended, oldest first."""
        ...
