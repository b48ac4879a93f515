"""Questions in their place: behind what the agent said before it asked, though they come by another way."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Protocol

import anyio

from opask.cli.output import Feed, Teller
from opask.events import Event, ToolAnnounced
from opask.outcomes import Answered, Outcome, Reply
from opask.questions import Ask
from opask.surfaces.wording import answer_parts, ending
from opask.testing import Scripted

__all__ = ["InOrder", "ShownScript"]

_ANNOUNCED_S: Final = 0.5
_ANSWER: Final = "→"


class _Surface(Protocol):
    async def ask(self, ask: Ask, /) -> Reply: ...
    def settled(self, ask: Ask, outcome: Outcome, /) -> None: ...
    def available(self, session_id: str, /) -> bool: ...


class InOrder:
    """A prompter that waits for what was said before a question to be shown, and then lets another one ask.

    A question reaches the bridge by a socket, often before the runtime's own output is read. Where its call is
    known, an ask waits a moment until that is announced in the output.

    Args:
        surface: who asks.
        feed: what the turn is shown by.
        teller: shows it.
    """

    def __init__(self, surface: _Surface, feed: Feed, teller: Teller) -> None:
        self._surface = surface
        self._feed = feed
        self._teller = teller
        self._loop = asyncio.get_running_loop()
        self._announced: set[str] = set()
        self._more = anyio.Event()

    def hear(self, event: Event) -> None:
        """Hear of an event of the session, from any thread."""
        if isinstance(event, ToolAnnounced) and event.tool_call_id is not None:
            self._loop.call_soon_threadsafe(self._hear, event.tool_call_id)

    def _hear(self, call_id: str) -> None:
        self._announced.add(call_id)
        self._more.set()
        self._more = anyio.Event()

    async def ask(self, ask: Ask, /) -> Reply:
        """Ask, once it is an ask's turn."""
        with anyio.move_on_after(_ANNOUNCED_S):
            while ask.tool_call_id is not None and ask.tool_call_id not in self._announced:
                await self._more.wait()
            shown = anyio.Event()
            self._feed.put(self._teller.end_line)
            self._feed.put(lambda: self._loop.call_soon_threadsafe(shown.set))
            await shown.wait()
        return await self._surface.ask(ask)

    def settled(self, ask: Ask, outcome: Outcome, /) -> None:
        """Pass on how an ask ended."""
        self._surface.settled(ask, outcome)

    def available(self, session_id: str, /) -> bool:
        """Tell whether the surface has an operator."""
        return self._surface.available(session_id)


class ShownScript(Scripted):
    """Answers from a script, and shows what was asked and answered as a surface would.

    Args:
        answers: from question text to answer; see `Scripted`.
        feed: what the turn is shown by.
        teller: shows it.
    """

    def __init__(self, answers: Mapping[str, Any], feed: Feed, teller: Teller) -> None:
        super().__init__(answers, by="script")
        self._feed = feed
        self._teller = teller
        self._replies: dict[str, Reply] = {}

    async def ask(self, ask: Ask, /) -> Reply:
        """Answer from the script, and show it."""
        reply = await super().ask(ask)
        self._replies[ask.id] = reply
        self._feed.put(lambda: self._tell(ask, reply))
        return reply

    def settled(self, ask: Ask, outcome: Outcome, /) -> None:
        """Hear how an ask ended; show it where it is not what was answered."""
        super().settled(ask, outcome)
        reply = self._replies.pop(ask.id, None)
        line = None if outcome == reply else ending(ask, outcome, reply)
        if line is not None:
            self._feed.put(lambda: self._teller.line(line, "dim"))

    def _tell(self, ask: Ask, reply: Reply) -> None:
        answers = reply.answers if isinstance(reply, Answered) else (None,) * len(ask.questions)
        for question, answer in zip(ask.questions, answers, strict=True):
            self._teller.line(f"? {question.text}", "strong")
            if answer is not None:
                self._teller.line(f"{_ANSWER} {' + '.join(answer_parts(question, answer))}")
            elif reply.kind == "unavailable":
                self._teller.line(f"{_ANSWER} not answered", "warning")
            else:
                self._teller.line(f"{_ANSWER} skipped", "dim")
