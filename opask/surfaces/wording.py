"""What the operator is told in words, the same on every surface; agents' text in it is made inert."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Final, Literal, TypeAlias

from opask.inert import inert_line, shorten
from opask.outcomes import Abandoned, Answered, Cancelled, Outcome, Reply, Skipped, TimedOut
from opask.questions import Answer, Ask, Question

__all__ = ["Tone", "answer_parts", "asker", "countdown", "ending", "span", "title"]

Tone: TypeAlias = Literal["plain", "dim", "strong", "warning"]
"""How a line is to look, on a surface that can show it."""

_TITLE = 60
_NAME = 32
_WHY: Final = {
    "agent": "the agent took the question back",
    "disconnect": "the agent's connection ended",
    "turn_end": "the agent's turn ended",
}


def asker(ask: Ask, *, with_session: bool = False) -> str:
    """Name whoever asks: the agent or its sub-agent, with the session where there are several."""
    name = "agent" if ask.agent_id is None else f"sub-agent {shorten(ask.agent_id, _NAME)}"
    return f"{name} in {shorten(ask.session_id, _NAME)}" if with_session else name


def title(question: Question) -> str:
    """Return a short line that a question is known by."""
    return shorten(question.header, _TITLE) or shorten(question.text, _TITLE)


def countdown(left: timedelta) -> str:
    """Write the time that is left, as ``4:59`` or ``1:04:59``; never below zero."""
    minutes, seconds = divmod(max(0, math.ceil(left.total_seconds())), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def span(length: timedelta) -> str:
    """Write how long something took, roughly, as ``2 s``, ``5 min`` or ``3 h``."""
    seconds = length.total_seconds()
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{seconds:.1f}".removesuffix(".0") + " s"


def answer_parts(question: Question, answer: Answer) -> tuple[str, ...]:
    """Return an answer as lines to show: the chosen labels, then the operator's own words in quotes."""
    labels = (inert_line(question.options[position].label) for position in answer.selected)
    words = () if answer.text is None else (f"“{inert_line(answer.text)}”",)
    return (*labels, *words)


def ending(ask: Ask, outcome: Outcome, reply: Reply | None) -> str | None:
    """Say in a line how an ask ended, where the operator has not seen it.

    Args:
        ask: the ask.
        outcome: how it ended.
        reply: what this surface had given back for it; None for nothing.

    Returns:
        The line; None where the ask ended just as the operator decided here.
    """
    if reply is not None and reply == outcome and outcome.kind != "unavailable":
        return None
    name = title(ask.questions[0])
    if len(ask.questions) > 1:
        name += f" (and {len(ask.questions) - 1} more)"
    why = _why(ask, outcome)
    if isinstance(reply, Answered):
        return f"{name}: your answer came too late, {why}"
    return f"{name}: {why}"


def _why(ask: Ask, outcome: Outcome) -> str:
    if isinstance(outcome, Answered):
        given = [
            " + ".join(answer_parts(question, answer)) if answer else "skipped"
            for question, answer in zip(ask.questions, outcome.answers, strict=True)
        ]
        return f"answered by {shorten(outcome.by, _NAME)}: {'; '.join(given)}"
    if isinstance(outcome, Skipped):
        return f"skipped by {shorten(outcome.by, _NAME)}"
    if isinstance(outcome, TimedOut):
        return f"nobody answered within {span(outcome.after)}"
    if isinstance(outcome, Abandoned):
        return _WHY[outcome.reason]
    if isinstance(outcome, Cancelled):
        return {"operator": "cancelled", "host": "cancelled by the host", "shutdown": "the host shuts down"}[
            outcome.by
        ]
    return f"could not be asked: {inert_line(outcome.reason)}"
