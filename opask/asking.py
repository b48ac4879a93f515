"""Put a question of the host's own to the operator: a permission, a write action, a clarification.

What an agent asks comes by the bridge; this is for what the host has to ask. The prompter is the same, and so are its
guarantees: one outcome each, `settled` exactly once, a fault in it is an outcome and no error.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

import anyio
from anyio.lowlevel import EventLoopToken, current_token
from attrs import define, evolve, field

from opask.calling import called
from opask.errors import AnswerError
from opask.outcomes import Answered, Cancelled, Outcome, Skipped, TimedOut, Unavailable
from opask.prompter import Prompter, use_wait
from opask.questions import Ask, AskKind, Question, check_answers
from opask.trace import trace_asked, trace_settled

__all__ = ["DEFAULT_WAIT", "Asked", "put"]

_logger = logging.getLogger("opask.asking")

DEFAULT_WAIT: Final = timedelta(minutes=5)


@define
class _Wait:
    """The wait of an ask; implements `opask.prompter.Wait`."""

    _scope: anyio.CancelScope
    _deadline: datetime
    latest: datetime | None = None
    _loop: EventLoopToken = field(factory=current_token, init=False)

    def extend(self, until: datetime, /) -> None:
        """Let it last until then, from any thread."""
        with suppress(RuntimeError):  # the loop has ended, and the wait with it
            self._loop.backend_class.run_sync_soon(self._extend, (until,), self._loop.native_token)

    def _extend(self, until: datetime) -> None:
        if until > self._deadline and self._scope.deadline > anyio.current_time():
            self._scope.deadline += (until - self._deadline).total_seconds()
            self._deadline = until


@define
class Asked:
    """An ask of the host's and how it ended.

    Args:
        ask: what was asked.
        outcome: how it ended.
        duration: how long that took.
    """

    ask: Ask
    outcome: Outcome
    duration: timedelta


async def put(
    prompter: Prompter | None,
    questions: Sequence[Question],
    *,
    session_id: str,
    kind: AskKind = "question",
    wait: timedelta | None = DEFAULT_WAIT,
    tool_call_id: str | None = None,
    agent_id: str | None = None,
) -> Asked:
    """Put questions to the operator and wait.

    Args:
        prompter: whoever can ask; None for nobody.
        questions: what is asked.
        session_id: the session that it is about.
        kind: what it is about.
        wait: how long the operator may take; None for as long as it takes.
        tool_call_id: the call that it is about.
        agent_id: the sub-agent that it is about.

    Returns:
        The ask and its outcome; an operator who is not there is an outcome, at once. Cancelled, the ask settles as
        cancelled by the host.
    """
    now = datetime.now(UTC)
    ask = Ask(
        secrets.token_hex(16),
        session_id,
        tuple(questions),
        now,
        None if wait is None else now + wait,
        tool_call_id,
        agent_id,
        kind=kind,
    )
    if prompter is None:
        return Asked(ask, Unavailable("no prompter: nobody is asked here"), timedelta(0))
    started = anyio.current_time()
    outcome: Outcome = Cancelled("host")
    trace_asked(ask)
    try:
        outcome = await _replied(prompter, ask, wait)
    finally:
        duration = timedelta(seconds=anyio.current_time() - started)
        trace_settled(ask, outcome, round(duration.total_seconds() * 1000))
        try:
            prompter.settled(ask, outcome)
        except Exception:
            _logger.exception("prompter.settled failed on ask %s", ask.id)
    return Asked(ask, outcome, duration)


async def _replied(prompter: Prompter, ask: Ask, wait: timedelta | None) -> Outcome:
    reply: object = None
    scope = anyio.CancelScope()
    if wait is not None:
        scope.deadline = anyio.current_time() + wait.total_seconds()
    try:
        with scope, use_wait(None if ask.deadline is None else _Wait(scope, ask.deadline)):
            if not prompter.available(ask.session_id):
                return Unavailable("no operator is there now")
            reply = await called(prompter.ask, ask)
    except Exception as error:
        _logger.exception("the prompter failed on ask %s of session %s", ask.id, ask.session_id)
        return Unavailable(f"the prompter failed ({type(error).__name__})")
    if scope.cancelled_caught:
        return TimedOut(wait or timedelta(0))
    return _checked(ask, reply)


def _checked(ask: Ask, reply: object) -> Outcome:
    if isinstance(reply, Answered):
        try:
            check_answers(ask.questions, reply.answers)
        except AnswerError as error:
            return Unavailable(f"the answer does not fit: {error}")
        return evolve(reply)
    if isinstance(reply, Skipped | Unavailable | Cancelled):
        return reply
    return Unavailable("the prompter gave back what is no reply")
