"""Agents that are played: they talk, call tools and ask through an inbox's prompter, with no runtime behind them."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
from attrs import evolve

from opask.events import (
    Event,
    QuestionAsked,
    QuestionResolved,
    TextSaid,
    ToolAnnounced,
    ToolFinished,
    TurnEnded,
    TurnStarted,
)
from opask.inbox import InboxPrompter, Recorder
from opask.outcomes import Answered, Outcome, TimedOut
from opask.questions import Ask, Option, Question
from opask.wire import answers_to_wire

__all__ = ["Actor", "acting", "question"]


def question(text: str, *labels: str | tuple[str, str], header: str = "", several: bool = False) -> Question:
    """Make a question; an option is its label, or label and description."""
    options = [Option(label) if isinstance(label, str) else Option(*label) for label in labels]
    return Question(text, header, tuple(options), several)


class Actor:
    """One session's agent; made by `acting`."""

    def __init__(self, prompter: InboxPrompter, recorder: Recorder, session_id: str) -> None:
        self.session_id = session_id
        self._prompter = prompter
        self._recorder = recorder
        self._seq = 0

    def happens(self, event: Event) -> None:
        """Log an event."""
        self._seq += 1
        self._recorder(
            evolve(event, seq=self._seq, time=datetime.now(UTC), session_id=self.session_id, turn_id="1")
        )

    async def written(self) -> None:
        """Wait until all that happened is in the log."""
        await self._recorder.flush()

    def says(self, text: str) -> None:
        """Say something."""
        self.happens(TextSaid(text=text))

    def uses(self, tool: str) -> None:
        """Call some other tool, which is done at once."""
        call = f"toolu_{secrets.token_hex(6)}"
        self.happens(ToolAnnounced(tool=tool, tool_call_id=call))
        self.happens(ToolFinished(tool=tool, tool_call_id=call))

    async def asks(
        self,
        *questions: Question,
        wait: timedelta | None = timedelta(minutes=5),
        agent_id: str | None = None,
        siblings: int = 0,
        pinned: bool = False,
        ask_id: str | None = None,
    ) -> Outcome:
        """Ask, and wait for the outcome.

        Args:
            questions: what is asked.
            wait: how long; None for an unbounded wait.
            agent_id: the sub-agent that asks.
            siblings: how many other calls run on meanwhile.
            pinned: whether the ask belongs to no call that was announced.
            ask_id: the ask's id; a new one by default.
        """
        now = datetime.now(UTC)
        call = None if pinned else f"toolu_{secrets.token_hex(6)}"
        ask = Ask(
            ask_id or f"ask_{secrets.token_urlsafe(12)}",
            self.session_id,
            questions,
            now,
            None if wait is None else now + wait,
            call,
            agent_id,
        )
        about: dict[str, Any] = {"question_id": ask.id, "tool_call_id": call, "agent_id": agent_id}
        if call is not None:
            self.happens(
                ToolAnnounced(tool="ask_user_question", ask="supplied", tool_call_id=call, agent_id=agent_id)
            )
        self.happens(
            QuestionAsked(
                questions=ask.questions,
                asked_at=now,
                deadline=ask.deadline,
                siblings_running=siblings,
                **about,
            )
        )
        outcome: Outcome = TimedOut(wait or timedelta(0))
        with anyio.move_on_after(None if wait is None else wait.total_seconds()):
            outcome = await self._prompter.ask(ask)
        self._prompter.settled(ask, outcome)
        answers = answers_to_wire(questions, outcome.answers) if isinstance(outcome, Answered) else None
        self.happens(
            QuestionResolved(
                outcome=outcome.kind,
                answers=answers,
                by=getattr(outcome, "by", None),
                duration_ms=round((datetime.now(UTC) - now).total_seconds() * 1000),
                **about,
            )
        )
        if call is not None:
            self.happens(ToolFinished(tool="ask_user_question", tool_call_id=call, agent_id=agent_id))
        return outcome


@asynccontextmanager
async def acting(
    prompter: InboxPrompter, session_id: str | None = None, *, runtime: str = "claude", title: str = ""
) -> AsyncIterator[Actor]:
    """Enter a session with an agent in it, for the block."""
    session_id = session_id or f"run-{secrets.token_hex(4)}"
    async with prompter.session(session_id, runtime=runtime, title=title) as recorder:
        actor = Actor(prompter, recorder, session_id)
        actor.happens(TurnStarted())
        try:
            yield actor
        finally:
            actor.happens(TurnEnded(stop_reason="end_turn"))
