"""What the inbox's tests share: stores of either kind, asks, and a clock in hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, TypeAlias

from opask import Answer, Answered, Ask, Option, Question
from opask.inbox import MemoryStore, SqliteStore

__all__ = ["KINDS", "Clock", "Kind", "ask_of", "first", "opened", "second"]

Kind: TypeAlias = Literal["memory", "sqlite"]
KINDS: tuple[Kind, ...] = ("memory", "sqlite")
WHICH = Question("Which?", "Pick", (Option("a"), Option("b", "the other")))


def utc_now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


class Clock:
    """A clock that stands until it is put forward."""

    def __init__(self) -> None:
        self.now = datetime(2026, 9, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Return the time that it was put to."""
        return self.now

    def forward(self, seconds: float) -> None:
        """Put it forward."""
        self.now += timedelta(seconds=seconds)


@asynccontextmanager
async def opened(
    kind: Kind, folder: Path, clock: Callable[[], datetime] = utc_now
) -> AsyncIterator[MemoryStore | SqliteStore]:
    """Open a store of a kind."""
    if kind == "memory":
        yield MemoryStore(clock=clock)
    else:
        async with SqliteStore(folder / "inbox.db", clock=clock) as store:
            yield store


def ask_of(
    id_: str = "q1",
    session_id: str = "s1",
    *questions: Question,
    wait: float | None = 60,
    now: datetime | None = None,
    call: str | None = None,
) -> Ask:
    """Return an ask."""
    now = now or utc_now()
    deadline = None if wait is None else now + timedelta(seconds=wait)
    return Ask(id_, session_id, questions or (WHICH,), now, deadline, call)


def first(by: str = "test") -> Answered:
    """Answer with the first option."""
    return Answered((Answer((0,)),), by)


def second(by: str = "test") -> Answered:
    """Answer with the second option."""
    return Answered((Answer((1,)),), by)
