"""What may become of an entry: pure functions from an entry to the next, for every store alike.

`TRANSITIONS` is the table that the functions keep to, that docs/inbox.md shows and the tests hold both to.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, Literal

from attrs import evolve

from opask.errors import AnswerError
from opask.inbox.entries import Entry, OperatorReply, ReadsReply, State
from opask.inbox.refusals import (
    AlreadyResolvedError,
    AnswerMisfitError,
    TooLateError,
    WrongSessionError,
)
from opask.inert import shorten
from opask.outcomes import (
    Abandoned,
    Answered,
    Cancelled,
    Outcome,
    Skipped,
    TimedOut,
    Unavailable,
    reason_and_by,
)
from opask.questions import check_answers

__all__ = ["TRANSITIONS", "extended", "lost", "outcome_of", "resolved", "settled"]

TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    "pending": frozenset(
        {
            "answered",
            "delivered",
            "skipped",
            "cancelled",
            "timed_out",
            "abandoned",
            "unavailable",
            "orphaned",
        }
    ),
    "answered": frozenset({"delivered", "undelivered"}),
    "delivered": frozenset(),
    "undelivered": frozenset(),
    "skipped": frozenset(),
    "timed_out": frozenset(),
    "cancelled": frozenset(),
    "abandoned": frozenset(),
    "unavailable": frozenset(),
    "orphaned": frozenset(),
}
"""The states that each state can become."""

_NAME_LENGTH = 60
_ABANDONED: Final[Mapping[Literal["agent", "disconnect", "turn_end"], str]] = {
    "agent": "the agent cancelled the call",
    "disconnect": "the agent's connection ended",
    "turn_end": "the agent's turn ended",
}
_WHY_ABANDONED: Final = {reason: why for why, reason in _ABANDONED.items()}
_ENDED = {
    "timed_out": "the wait ran out",
    "abandoned": "the agent no longer waits",
    "unavailable": "the agent was told that nobody is there",
    "cancelled": "the ask was taken back",
    "orphaned": "the host that waited for the answer is gone",
}


def resolved(
    entry: Entry, reply: OperatorReply | ReadsReply, *, session_id: str | None, by: str | None, now: datetime
) -> Entry:
    """Take an operator's decision.

    Args:
        entry: the ask.
        reply: the decision, or what reads it against the ask.
        session_id: the session that the operator meant; None where the surface does not tell.
        by: who decided; by default as the reply says.
        now: the time.

    Raises:
        WrongSessionError: the ask is of another session.
        AlreadyResolvedError: an operator decided before.
        TooLateError: the agent no longer waits.
        AnswerMisfitError: the answer does not fit; the ask stays open.
        ValueError: a reply that is not an operator's.
    """
    if session_id is not None and session_id != entry.session_id:
        raise WrongSessionError(
            f"ask {entry.id} is not of session {shorten(session_id, _NAME_LENGTH)}; nothing was changed",
            ask_id=entry.id,
        )
    if callable(reply):
        reply = reply(entry.ask)
    if not isinstance(reply, Answered | Skipped) and not (
        isinstance(reply, Cancelled) and reply.by == "operator"
    ):
        raise ValueError(f"an operator answers, skips or cancels; {reply!r} is none of these")
    _must_be_pending(entry, now)
    if isinstance(reply, Answered):
        try:
            check_answers(entry.ask.questions, reply.answers)
        except AnswerError as error:
            raise AnswerMisfitError(
                f"{error}; the question stays open", ask_id=entry.id, entry=entry, question=error.question
            ) from None
    by = by or (reply.by if not isinstance(reply, Cancelled) else "operator")
    if isinstance(reply, Answered):
        return evolve(entry, state="answered", reply=reply, by=by, resolved_at=now)
    return evolve(entry, state=reply.kind, reply=reply, by=by, resolved_at=now, settled_at=now)


def extended(entry: Entry, until: datetime, *, now: datetime) -> Entry:
    """Move the deadline later, as far as the route allows; an earlier one or an unbounded wait stays.

    Raises:
        AlreadyResolvedError: an operator decided before.
        TooLateError: the agent no longer waits.
    """
    _must_be_pending(entry, now)
    if entry.deadline is None:
        return entry
    if entry.latest is not None:
        until = min(until, entry.latest)
    return entry if until <= entry.deadline else evolve(entry, deadline=until)


def settled(entry: Entry, outcome: Outcome, *, now: datetime) -> Entry:
    """Take in how the host's ask ended; the entry itself where it was over before.

    Of a decision that did not get to the agent in time, `told` and `reason` say what did.
    """
    if entry.told is not None or entry.state in {"orphaned", "undelivered"}:
        return entry
    reason, by = _why(outcome)
    if entry.state == "pending":
        if isinstance(outcome, Answered):
            return evolve(
                entry,
                state="delivered",
                reply=outcome,
                by=outcome.by,
                told="answered",
                resolved_at=now,
                settled_at=now,
            )
        reply = outcome if isinstance(outcome, Skipped) else None
        return evolve(
            entry, state=outcome.kind, reply=reply, by=by, reason=reason, told=outcome.kind, settled_at=now
        )
    if entry.state == "answered":
        if isinstance(outcome, Answered):
            return evolve(entry, state="delivered", told="answered", settled_at=now)
        return evolve(
            entry,
            state="undelivered",
            reason=reason or _ENDED.get(outcome.kind),
            told=outcome.kind,
            settled_at=now,
        )
    assert entry.reply is not None
    late = None if outcome.kind == entry.reply.kind else f"the agent was told otherwise: {outcome.kind}"
    return evolve(entry, told=outcome.kind, reason=late)


def lost(entry: Entry, *, now: datetime) -> Entry:
    """Take in that the entry's host is gone."""
    if entry.state == "pending":
        return evolve(entry, state="orphaned", reason=_ENDED["orphaned"], settled_at=now)
    if entry.state == "answered":
        return evolve(
            entry,
            state="undelivered",
            reason="the host was gone before it was known that the agent had the answer",
            settled_at=now,
        )
    return entry


def outcome_of(entry: Entry) -> Outcome | None:
    """Return how an ask ended, as whoever did not answer it is to hear; None while nobody has decided.

    An answer that is committed counts; one that did not reach the agent is what the agent was told instead.
    """
    by = entry.by or "operator"
    kind = entry.told if entry.state == "undelivered" else entry.state
    match kind:
        case "pending":
            return None
        case "answered" | "delivered":
            assert isinstance(entry.reply, Answered)
            return evolve(entry.reply, by=by)
        case "skipped":
            return Skipped(by)
        case "cancelled":
            return Cancelled("operator" if entry.reply is not None else "host")
        case "timed_out":
            waited = timedelta(0) if entry.deadline is None else entry.deadline - entry.ask.asked_at
            return TimedOut(max(waited, timedelta(0)))
        case "unavailable":
            return Unavailable(entry.reason or "nobody could be asked")
        case _:
            return Abandoned(_WHY_ABANDONED.get(entry.reason or "", "disconnect"))


def _must_be_pending(entry: Entry, now: datetime) -> None:
    if entry.state == "pending":
        if entry.deadline is None or now < entry.deadline:
            return
        raise TooLateError(
            f"too late for ask {entry.id}: {_ENDED['timed_out']}", ask_id=entry.id, entry=entry
        )
    if entry.reply is not None:
        done = {"skipped": "skipped", "cancelled": "cancelled"}.get(entry.reply.kind, "answered")
        raise AlreadyResolvedError(
            f"ask {entry.id} is {done} already, by {shorten(entry.by or 'an operator', _NAME_LENGTH)}",
            ask_id=entry.id,
            entry=entry,
        )
    why = _ENDED.get(entry.state, entry.state)
    raise TooLateError(f"too late for ask {entry.id}: {why}", ask_id=entry.id, entry=entry)


def _why(outcome: Outcome) -> tuple[str | None, str | None]:
    """Give the reason, in words for a person, and who, of an outcome."""
    reason, by = reason_and_by(outcome)
    return (_ABANDONED[outcome.reason] if isinstance(outcome, Abandoned) else reason), by
