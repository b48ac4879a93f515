"""An operator for the tests of the gates, who waits to be told what to answer, and what a gate traces."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio

from opask.outcomes import Answered, Outcome, Reply
from opask.permissions import PermissionRequested
from opask.questions import Answer, Ask
from opask.trace import WRITE_FIELDS

__all__ = ["Operator", "answer", "request", "traced"]


def answer(ask: Ask, label: str, text: str | None = None) -> Answered:
    """Choose an option by its label."""
    labels = [option.label for option in ask.questions[0].options]
    return Answered((Answer((labels.index(label),), text),), "test")


class Operator:
    """A prompter that gives what it was told to, or waits until it is told.

    Args:
        label: what it answers at once; None to wait.
    """

    def __init__(self, label: str | None = None, *, there: bool = True) -> None:
        self.label = label
        self.there = there
        self.asks: list[Ask] = []
        self.outcomes: list[tuple[str, Outcome]] = []
        self._replies: dict[str, Reply] = {}
        self._changed = anyio.Event()
        self.heard = anyio.Event()  # once anything has settled

    async def ask(self, ask: Ask, /) -> Reply:
        """Answer."""
        self.asks.append(ask)
        self._tell()
        if self.label is not None:
            return answer(ask, self.label)
        while ask.id not in self._replies:
            await self._changed.wait()
        return self._replies.pop(ask.id)

    def settled(self, ask: Ask, outcome: Outcome, /) -> None:
        """Keep how it ended."""
        self.outcomes.append((ask.id, outcome))
        self.heard.set()

    def available(self, session_id: str, /) -> bool:
        """Tell whether somebody is there."""
        return self.there

    async def until(self, count: int) -> list[Ask]:
        """Wait until so many were asked."""
        with anyio.fail_after(30):
            while len(self.asks) < count:
                await self._changed.wait()
        return self.asks

    def reply(self, ask: Ask, reply: Reply) -> None:
        """Give a reply to one that waits."""
        self._replies[ask.id] = reply
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


def request(tool: str = "Edit", arguments: dict[str, Any] | None = None, **more: Any) -> PermissionRequested:
    """Make a permission request, stamped as a session stamps it."""
    given = {"session_id": "s", "turn_id": "turn-1", "request_id": "r", **more}
    return PermissionRequested(tool=tool, arguments=arguments or {"path": "a.txt"}, **given)


@contextmanager
def traced() -> Iterator[list[dict[str, Any]]]:
    """Collect what the write gate traces."""
    found: list[dict[str, Any]] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage() == "machine.write_mode_granted":
                found.append({name: getattr(record, name) for name in WRITE_FIELDS})

    logger, handler = logging.getLogger("opask.trace"), Collector()
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
