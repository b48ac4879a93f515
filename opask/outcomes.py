"""How an ask ends: exactly one outcome each, and what the agent is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar, Literal, TypeAlias

from attrs import field, frozen
from attrs.validators import in_

from opask.errors import AnswerError
from opask.questions import Answer

__all__ = [
    "Abandoned",
    "Answered",
    "Cancelled",
    "Outcome",
    "OutcomeKind",
    "Reply",
    "Sentences",
    "Skipped",
    "TimedOut",
    "Unavailable",
    "reason_and_by",
]

OutcomeKind: TypeAlias = Literal["answered", "skipped", "timed_out", "cancelled", "abandoned", "unavailable"]


@frozen
class Answered:
    """The operator answered.

    Args:
        answers: one a question, by position; None for a question that the operator skipped.
        by: the surface that the answer came from, with whoever gave it where that is known
            (``terminal``, ``web:alice``).

    Raises:
        AnswerError: not one question is answered.
    """

    kind: ClassVar[OutcomeKind] = "answered"
    answers: tuple[Answer | None, ...] = field(converter=tuple[Answer | None, ...])
    by: str

    def __attrs_post_init__(self) -> None:
        if not any(answer is not None for answer in self.answers):
            raise AnswerError("answered with no answer at all; an ask that nobody answered is Skipped")


@frozen
class Skipped:
    """The operator saw the ask and chose not to answer."""

    kind: ClassVar[OutcomeKind] = "skipped"
    by: str


@frozen
class Unavailable:
    """Nobody could be asked.

    Args:
        reason: why, for a person to read.
    """

    kind: ClassVar[OutcomeKind] = "unavailable"
    reason: str


@frozen
class Cancelled:
    """The ask was taken back by the operator, the host, or the host's shutdown."""

    kind: ClassVar[OutcomeKind] = "cancelled"
    by: Literal["operator", "host", "shutdown"] = field(validator=in_(("operator", "host", "shutdown")))


@frozen
class TimedOut:
    """The wait ran out.

    Args:
        after: how long was waited.
    """

    kind: ClassVar[OutcomeKind] = "timed_out"
    after: timedelta


@frozen
class Abandoned:
    """The agent no longer waits.

    Args:
        reason: ``agent``, it cancelled the call; ``disconnect``, its connection ended and did not come back;
            ``turn_end``, its turn ended.
    """

    kind: ClassVar[OutcomeKind] = "abandoned"
    reason: Literal["agent", "disconnect", "turn_end"] = field(
        validator=in_(("agent", "disconnect", "turn_end"))
    )


Reply: TypeAlias = Answered | Skipped | Unavailable | Cancelled
"""What a prompter may give back."""

Outcome: TypeAlias = Reply | TimedOut | Abandoned
"""How an ask ended."""

_PROCEED = "The operator did not answer. Proceed without this input."


@frozen
class Sentences:
    """What the agent is told when it gets no answer; a host may set its own.

    Args:
        skipped: the operator skipped (not an error).
        timed_out: the wait ran out.
        unavailable: nobody is there to ask.
        cancelled_by_operator: the operator took the ask back.
        cancelled: the host or its shutdown did.
        abandoned: only seen by a runtime that still listens after it let go of the call.
    """

    skipped: str = "The operator chose not to answer. Proceed without this input."
    timed_out: str = _PROCEED
    unavailable: str = _PROCEED
    cancelled_by_operator: str = (
        "The operator cancelled this question. Do nothing that depends on its answer; "
        "go on with what does not, or stop and say what is open."
    )
    cancelled: str = _PROCEED
    abandoned: str = _PROCEED

    def for_outcome(self, outcome: Outcome) -> str:
        """Return the sentence for an outcome without an answer.

        Raises:
            ValueError: the outcome is an answer.
        """
        if isinstance(outcome, Answered):
            raise ValueError("an answer speaks for itself")
        if isinstance(outcome, Cancelled):
            return self.cancelled_by_operator if outcome.by == "operator" else self.cancelled
        sentences: Mapping[OutcomeKind, str] = {
            "skipped": self.skipped,
            "timed_out": self.timed_out,
            "unavailable": self.unavailable,
            "abandoned": self.abandoned,
        }
        return sentences[outcome.kind]


def reason_and_by(outcome: Outcome) -> tuple[str | None, str | None]:
    """Return why an ask ended without an answer, and who ended it; None where there is nothing to say."""
    match outcome:
        case Answered(by=by) | Skipped(by=by):
            return None, by
        case Unavailable(reason=reason):
            return reason, None
        case Cancelled(by=by):
            return None, by
        case TimedOut(after=after):
            return f"no answer within {after.total_seconds():g} s", None
        case Abandoned(reason=reason):
            return reason, "agent" if reason == "agent" else None
