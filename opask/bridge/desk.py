"""The asks of one session, from the call of the tool to their one outcome.

Everything here runs on the bridge's loop, so that there is one order of things and no lock. An ask goes
open → decided → settled. Between decided and settled lies the delivery of an answer: an answer that the agent
never got is no answer. An ask whose connection ended is an orphan for a short grace, in which the runtime may
respawn the relay and send the same call again, over one connection or over several: then it is joined, or told
what was decided already, and the operator sees nothing of it.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Literal, Protocol

import anyio
from anyio.abc import TaskGroup
from attrs import Factory, define, field

from opask.errors import AnswerError
from opask.intake import Rejected, parse
from opask.outcomes import (
    Abandoned,
    Answered,
    Cancelled,
    Outcome,
    Sentences,
    Skipped,
    TimedOut,
    Unavailable,
)
from opask.questions import Ask, Question, check_answers
from opask.wire import ToolResult, tool_result

__all__ = ["AskDesk", "DeskListener", "Link", "OpenAsk"]

_logger = logging.getLogger("opask.bridge")
_REPLIES = (Answered, Skipped, Unavailable, Cancelled)


@define(eq=False)
class Link:
    """One connection of the runtime.

    Attributes:
        lost: whether it has ended; what it waited for may come again over another.
    """

    lost: bool = False


class DeskListener(Protocol):
    """The session, as the desk sees it."""

    def arrived(self, ask: Ask, /) -> Ask:
        """Take in a new ask; return it with what is known of its call."""
        ...

    def put(self, ask: Ask, on_reply: Callable[[object], object], /) -> Callable[[Outcome], object]:
        """Put the ask to the prompter; return what has to be told its outcome."""
        ...

    def refused(self, ask: Ask, reason: str, by: str | None, /) -> None:
        """Hear of an answer that was not taken."""
        ...

    def settled(self, ask: Ask, outcome: Outcome, duration_ms: int, /) -> None:
        """Hear of an ask's one outcome."""
        ...


@define(eq=False)
class OpenAsk:
    """An ask that has not settled yet, or whose call may still come again.

    Attributes:
        links: the connections that wait for it; none while it is an orphan.
        outcome: what was decided; delivered or not.
        decided: set when the outcome is.
        left: set when it is settled.
        tell: tells the prompter the outcome.
        started: when it was opened, on the loop's clock.
        told_at: when its result was last written, or was lost with a connection.
        losses: how often a connection that waited for it has ended.
        wait: how long the operator may take, None for unbounded.
    """

    ask: Ask
    links: set[Link]
    outcome: Outcome | None = None
    decided: anyio.Event = Factory(anyio.Event)
    left: anyio.Event = Factory(anyio.Event)
    tell: Callable[[Outcome], object] | None = None
    started: float = field(factory=anyio.current_time)
    told_at: float | None = None
    losses: int = 0
    wait: timedelta | None = None


class AskDesk:
    """Opens, joins, decides and settles the asks of a session.

    Args:
        session_id: the session.
        tasks: the session's task group on the bridge's loop.
        listener: the session.
        wait: how long an operator may take, None for unbounded.
        grace: how long an orphan waits for its call to come again.
        heartbeat: how often progress is sent to a call that waits.
        max_pending: how many asks may be open at once.
        sentences: what the agent is told.
    """

    def __init__(
        self,
        session_id: str,
        tasks: TaskGroup,
        listener: DeskListener,
        *,
        wait: timedelta | None,
        grace: timedelta,
        heartbeat: timedelta,
        max_pending: int,
        sentences: Sentences,
    ) -> None:
        self._session_id = session_id
        self._tasks = tasks
        self._listener = listener
        self._wait = wait
        self._grace = grace.total_seconds()
        self._heartbeat = heartbeat.total_seconds()
        self._max_pending = max_pending
        self._sentences = sentences
        self._open: dict[str, OpenAsk] = {}
        # Settled, in the order in which they were told:
        self._untold: dict[str, OpenAsk] = {}  # the result is on its way
        self._recent: dict[str, OpenAsk] = {}  # the operator's reply was written a moment ago
        self._resendable: dict[
            str, OpenAsk
        ] = {}  # a connection ended that waited for it: the call may come again
        self._closed = False

    @property
    def open_asks(self) -> tuple[Ask, ...]:
        """The asks that have not settled yet, oldest first."""
        return tuple(entry.ask for entry in self._open.values())

    async def call(
        self,
        arguments: object,
        meta: Mapping[str, Any],
        link: Link,
        progress: Callable[[float, str], Awaitable[object]] | None = None,
    ) -> tuple[ToolResult, OpenAsk | None]:
        """Serve one call of the tool: wait for its outcome.

        Args:
            arguments: what the model sent.
            meta: the call's ``_meta``.
            link: the connection that it came over.
            progress: sends progress (seconds waited, message), where the call carries a token.

        Returns:
            What the model is told, and the ask, for `delivered` or `undelivered` to be called with; None where
            nothing was asked.

        A cancelled call is taken as the agent's own cancel, unless its link is lost.
        """
        questions = parse(arguments)
        if isinstance(questions, Rejected):
            return ToolResult(questions.message, None, is_error=True), None
        entry = self._join(questions, meta, link)
        if entry is None:
            if self._closed:
                return tool_result(questions, Cancelled("shutdown"), self._sentences), None
            if len(self._open) >= self._max_pending:
                return (
                    ToolResult(
                        f"{len(self._open)} questions wait for the operator already, which is the limit. "
                        "Wait for one of them to be answered before you ask the next.",
                        None,
                        is_error=True,
                    ),
                    None,
                )
            entry = self._opened(questions, meta, link)
        try:
            await self._waited(entry, progress)
        except anyio.get_cancelled_exc_class():
            self._let_go(entry, link)
            raise
        assert entry.outcome is not None
        return tool_result(questions, entry.outcome, self._sentences), entry

    def delivered(self, entry: OpenAsk) -> None:
        """Take in that the result of an ask was written to the agent."""
        now = anyio.current_time()
        key = entry.ask.id
        if entry.outcome is not None and key in self._open:
            self._settle(entry, entry.outcome)
        self._untold.pop(key, None)
        if not entry.losses and not _is_operators(entry.outcome):
            return  # an agent that asks again after a timeout means it
        entry.told_at = now
        if entry.losses:
            self._resendable[key] = entry
            return
        self._recent.pop(key, None)  # given again: the youngest now
        self._forget_recent(now)
        self._recent[key] = entry

    def undelivered(self, entry: OpenAsk, link: Link) -> None:
        """Take in that a decided result could not be written over this link."""
        self._let_go(entry, link)

    def lost(self, link: Link) -> None:
        """Take in that a connection has ended; what it waited for may come again over another."""
        link.lost = True
        for entries in (self._open, self._untold, self._recent, self._resendable):
            for entry in [entry for entry in entries.values() if link in entry.links]:
                self._let_go(entry, link)

    def cancel(self, ask_id: str | None, by: Literal["host", "shutdown"]) -> None:
        """Cancel one open ask, or all of them."""
        for entry in list(self._open.values()):
            if ask_id is None or entry.ask.id == ask_id:
                self._decide(entry, Cancelled(by))

    def extend(self, ask_id: str, until: datetime) -> None:
        """Let an open ask wait until then; never shorter than it would."""
        entry = self._open.get(ask_id)
        if entry is not None and entry.wait is not None:
            entry.wait = max(entry.wait, until - entry.ask.asked_at)

    def turn_ended(self, ask_ids: tuple[str, ...]) -> None:
        """Take in that the turn of these asks is over."""
        for ask_id in ask_ids:
            if (entry := self._open.get(ask_id)) is not None:
                self._decide(entry, Abandoned("turn_end"), final=True)

    def close(self) -> None:
        """Take no more asks; what is open is cancelled by the shutdown."""
        self._closed = True
        self.cancel(None, "shutdown")

    def settle_all(self) -> None:
        """Settle what is still undelivered, at the end of the session."""
        for entry in list(self._open.values()):
            self._settle(
                entry, Abandoned("disconnect") if isinstance(entry.outcome, Answered) else entry.outcome
            )

    def _forget_recent(self, now: float) -> None:
        """Forget what is too old, oldest first, a few for each that is added."""
        for key, entry in list(islice(self._recent.items(), 8)):
            if self._is_recent(entry, now):
                return
            del self._recent[key]

    def _is_recent(self, entry: OpenAsk, now: float) -> bool:
        return entry.told_at is not None and now - entry.told_at <= self._grace

    def _join(self, questions: tuple[Question, ...], meta: Mapping[str, Any], link: Link) -> OpenAsk | None:
        now = anyio.current_time()
        for key, entry in list(self._resendable.items()):
            if not self._is_recent(entry, now):
                del self._resendable[key]
        for entries in (self._open, self._resendable):
            fitting = [
                entry
                for entry in entries.values()
                if _same_call(entry.ask, questions, meta) and _may_come_over(entry, meta, link)
            ]
            if fitting:
                entry = min(fitting, key=lambda entry: len(entry.links))  # an orphan first
                # A call may have been read together with the end of its connection: then it may come once more.
                if entry.ask.id in self._open or not link.lost:
                    entry.links.add(link)
                return entry
        return None

    def _opened(self, questions: tuple[Question, ...], meta: Mapping[str, Any], link: Link) -> OpenAsk:
        now = datetime.now(UTC)
        ask = Ask(
            id=f"q_{secrets.token_urlsafe(12)}",
            session_id=self._session_id,
            questions=questions,
            asked_at=now,
            deadline=None if self._wait is None else now + self._wait,
            meta=dict(meta),
        )
        ask = self._listener.arrived(ask)
        entry = OpenAsk(ask, {link}, wait=self._wait)
        self._open[ask.id] = entry
        entry.tell = self._listener.put(ask, lambda reply: self._replied(entry, reply))
        return entry

    async def _waited(
        self, entry: OpenAsk, progress: Callable[[float, str], Awaitable[object]] | None
    ) -> None:
        while not entry.decided.is_set():
            beat = math.inf if progress is None else anyio.current_time() + self._heartbeat
            with anyio.CancelScope(deadline=min(self._deadline(entry), beat)):
                await entry.decided.wait()
            if entry.decided.is_set():
                return
            if anyio.current_time() >= self._deadline(entry):  # it may be later by now
                self._time_out(entry)
            elif progress is not None:
                await progress(anyio.current_time() - entry.started, "waiting for the operator")

    def _deadline(self, entry: OpenAsk) -> float:
        return math.inf if entry.wait is None else entry.started + entry.wait.total_seconds()

    def _time_out(self, entry: OpenAsk) -> None:
        assert entry.wait is not None
        self._decide(entry, TimedOut(entry.wait))

    def _replied(self, entry: OpenAsk, reply: object) -> None:
        """Take in what the prompter gave back; called on the bridge's loop."""
        by = getattr(reply, "by", None)
        if entry.outcome is not None:
            if isinstance(reply, Answered | Skipped):
                self._listener.refused(entry.ask, f"too late: {entry.outcome.kind}", by)
            return
        if not isinstance(reply, _REPLIES):
            _logger.error(
                "the prompter gave %s for ask %s, which is no reply", type(reply).__name__, entry.ask.id
            )
            reply = Unavailable(f"the prompter gave no reply but {type(reply).__name__}")
        if isinstance(reply, Answered):
            try:
                check_answers(entry.ask.questions, reply.answers)
            except AnswerError as error:
                self._listener.refused(entry.ask, str(error), by)
                reply = Unavailable(f"the answer does not fit: {error}")
        self._decide(entry, reply)

    def _decide(self, entry: OpenAsk, outcome: Outcome, *, final: bool = False) -> None:
        if entry.left.is_set() or (entry.outcome is not None and not final):
            return
        entry.outcome = outcome
        entry.decided.set()
        if not isinstance(outcome, Answered):
            self._settle(entry, outcome)

    def _let_go(self, entry: OpenAsk, link: Link) -> None:
        if link not in entry.links:
            return
        entry.links.remove(link)
        if link.lost:
            entry.losses += 1
        if entry.ask.id not in self._open:
            self._let_go_settled(entry, link)
        elif entry.links:
            return  # it was sent again over another connection, which waits on
        elif self._closed:
            self._decide(entry, Abandoned("disconnect"), final=True)
        elif link.lost:
            self._tasks.start_soon(self._orphan, entry, entry.losses)
        else:
            self._decide(entry, Abandoned("agent"), final=True)

    def _let_go_settled(self, entry: OpenAsk, link: Link) -> None:
        key, now = entry.ask.id, anyio.current_time()
        if link.lost and (key in self._untold or self._is_recent(entry, now)):
            # The relay may have died with the result in its hands.
            self._untold.pop(key, None)
            self._recent.pop(key, None)
            entry.told_at = now
            self._resendable[key] = entry
        elif not entry.links:
            self._untold.pop(key, None)

    async def _orphan(self, entry: OpenAsk, loss: int) -> None:
        until = anyio.current_time() + self._grace

        def is_undecided() -> bool:
            return entry.outcome is None and not entry.links and entry.losses == loss

        while is_undecided() and self._deadline(entry) < until:
            with anyio.CancelScope(deadline=self._deadline(entry)):
                await entry.decided.wait()
            if is_undecided() and anyio.current_time() >= self._deadline(entry):
                self._time_out(entry)
        with anyio.CancelScope(deadline=until):
            await entry.left.wait()
        if not entry.links and entry.losses == loss:
            self._decide(entry, Abandoned("disconnect"), final=True)

    def _settle(self, entry: OpenAsk, outcome: Outcome | None) -> None:
        if self._open.pop(entry.ask.id, None) is None or outcome is None:
            return
        entry.left.set()
        if not isinstance(outcome, Answered | Abandoned):  # an answer settles once it is told
            if entry.links:
                self._untold[entry.ask.id] = entry
            else:
                entry.told_at = anyio.current_time()
                self._resendable[entry.ask.id] = entry
        duration_ms = round((anyio.current_time() - entry.started) * 1000)
        self._listener.settled(entry.ask, outcome, duration_ms)
        if entry.tell is not None:
            entry.tell(outcome)


_PER_SENDING = frozenset({"progressToken", "traceparent", "tracestate", "baggage"})
_OF_THE_CLIENT = "io.modelcontextprotocol/"


def _is_operators(outcome: Outcome | None) -> bool:
    """Tell whether it is what the operator decided, which nobody asks a second time."""
    return isinstance(outcome, Answered | Skipped) or outcome == Cancelled("operator")


def _same_call(ask: Ask, questions: tuple[Question, ...], meta: Mapping[str, Any]) -> bool:
    """Tell whether a call is the ask's own, sent again: the same questions, and no id that says otherwise."""
    return ask.questions == questions and all(
        meta.get(key, value) == value for key, value in ask.meta.items() if key not in _PER_SENDING
    )


def _may_come_over(entry: OpenAsk, meta: Mapping[str, Any], link: Link) -> bool:
    """Tell whether the same call may be a second sending of it, and is not an agent's second call.

    Where another connection waits for it, only its own id tells, or that it was sent again before.
    """
    if not entry.links:
        return True
    return link not in entry.links and (
        entry.losses > 0 or (_marks(meta) != {} and _marks(meta) == _marks(entry.ask.meta))
    )


def _marks(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a call's ``_meta`` may tell it from another call of the same client."""
    return {
        key: value
        for key, value in meta.items()
        if key not in _PER_SENDING and not key.startswith(_OF_THE_CLIENT)
    }
