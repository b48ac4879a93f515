"""What a run shows of questions that are answered on another surface than its own terminal."""

from __future__ import annotations

from functools import partial

from opask.cli.output import Feed, Teller
from opask.inbox import InboxPrompter
from opask.outcomes import Outcome, Reply
from opask.questions import Ask
from opask.surfaces.wording import ending

__all__ = ["Elsewhere"]


class Elsewhere:
    """A prompter that tells what an inbox's prompter asks, and how that ended.

    Args:
        prompter: the inbox's.
        feed: what the turn is shown by.
        teller: shows it.
    """

    def __init__(self, prompter: InboxPrompter, feed: Feed, teller: Teller) -> None:
        self._prompter = prompter
        self._feed = feed
        self._teller = teller
        self._replies: dict[str, Reply] = {}

    async def ask(self, ask: Ask, /) -> Reply:
        """Tell what is asked, and ask it."""
        for question in ask.questions:
            self._feed.put(partial(self._teller.line, f"? {question.text}", "strong"))
        reply = await self._prompter.ask(ask)
        # Before the agent has it, so that what it says then stands behind.
        self._replies[ask.id] = reply
        self._tell(ending(ask, reply, None))
        return reply

    def settled(self, ask: Ask, outcome: Outcome, /) -> None:
        """Tell how an ask ended."""
        self._prompter.settled(ask, outcome)
        reply = self._replies.pop(ask.id, None)
        if outcome != reply:
            self._tell(ending(ask, outcome, reply))

    def available(self, session_id: str, /) -> bool:
        """Tell whether the inbox has an operator."""
        return self._prompter.available(session_id)

    def _tell(self, line: str | None) -> None:
        if line is not None:
            self._feed.put(partial(self._teller.line, f"→ {line}"))
