"""Which announced tool call an ask belongs to.

The runtime announces tool calls in its own event stream; asks arrive at the bridge over MCP. Either may be seen
first. Two tables, `CALL_TABLE` and `ASK_TABLE`, say what becomes of a call and of an ask; the rule that brings
the two together is, in this order:

1. the exact id, where the ask carries the id of its call: no other call will do;
2. the question text, where the runtime tells a call's arguments: the newest unclaimed call that asks the same;
3. the order of announcement, only for a runtime, or a call, whose arguments are never told: the oldest such call
   that is unclaimed.

An ask is in one call at most and a call has one ask at most. A call that is over claims nothing, so neither does
one that failed or only printed help. An ask may even be answered before its call is announced, and then still gets
it; but not one that was made later, as each is that is announced after another call has ended. At the end of an agent's turn its calls are closed: no claim crosses turns,
agents or (there is one `Correlation` each) sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final

from attrs import define, field, frozen

from opask.questions import Question

__all__ = [
    "ASK_TABLE",
    "CALL_TABLE",
    "AskEvent",
    "AskState",
    "CallEvent",
    "CallState",
    "Correlated",
    "Correlation",
]


class CallState(Enum):
    """What is known of a tool call."""

    UNSEEN = "unseen"
    OPEN = "open"  # announced, and no ask has it yet
    CLAIMED = "claimed"  # an ask belongs to it
    CLOSED = "closed"  # over, for good


class CallEvent(Enum):
    """What can happen to a tool call."""

    ANNOUNCED = "announced"
    CLAIMED = "claimed"
    FINISHED = "finished"
    DRAINED = "drained"


class AskState(Enum):
    """What is known of an ask."""

    UNSEEN = "unseen"
    LOOSE = "loose"  # arrived, its call is not known
    BOUND = "bound"  # its call is known
    FREE = "free"  # its call ended without it: that was another's, or the news of its outcome is behind
    LATE = "late"  # settled, its call is not known: the news of that may be behind
    OVER = "over"  # settled or dropped, for good


class AskEvent(Enum):
    """What can happen to an ask."""

    ARRIVED = "arrived"
    BOUND = "bound"
    RELEASED = "released"  # its call ended without it: that was another's
    SETTLED = "settled"
    PASSED = "passed"  # a call ended: what is announced from now on was made later
    DROPPED = "dropped"


_C, _CE, _A, _AE = CallState, CallEvent, AskState, AskEvent

CALL_TABLE: Final[Mapping[CallState, Mapping[CallEvent, CallState]]] = {
    _C.UNSEEN: {
        _CE.ANNOUNCED: _C.OPEN,
        _CE.CLAIMED: _C.UNSEEN,
        _CE.FINISHED: _C.CLOSED,  # its announcement may still come, and claims nothing then
        _CE.DRAINED: _C.UNSEEN,
    },
    _C.OPEN: {
        _CE.ANNOUNCED: _C.OPEN,
        _CE.CLAIMED: _C.CLAIMED,
        _CE.FINISHED: _C.CLOSED,
        _CE.DRAINED: _C.CLOSED,
    },
    _C.CLAIMED: {
        _CE.ANNOUNCED: _C.CLAIMED,
        _CE.CLAIMED: _C.CLAIMED,
        _CE.FINISHED: _C.CLOSED,
        _CE.DRAINED: _C.CLOSED,
    },
    _C.CLOSED: dict.fromkeys(CallEvent, _C.CLOSED),
}
"""What a call is after an event, for each state and each event."""

ASK_TABLE: Final[Mapping[AskState, Mapping[AskEvent, AskState]]] = {
    _A.UNSEEN: {
        _AE.ARRIVED: _A.LOOSE,
        _AE.BOUND: _A.UNSEEN,
        _AE.RELEASED: _A.UNSEEN,
        _AE.SETTLED: _A.OVER,
        _AE.PASSED: _A.UNSEEN,
        _AE.DROPPED: _A.OVER,
    },
    _A.LOOSE: {
        _AE.ARRIVED: _A.LOOSE,
        _AE.BOUND: _A.BOUND,
        _AE.RELEASED: _A.LOOSE,
        _AE.SETTLED: _A.LATE,
        _AE.PASSED: _A.LOOSE,
        _AE.DROPPED: _A.OVER,
    },
    _A.BOUND: {
        _AE.ARRIVED: _A.BOUND,
        _AE.BOUND: _A.BOUND,
        _AE.RELEASED: _A.FREE,
        _AE.SETTLED: _A.OVER,
        _AE.PASSED: _A.BOUND,
        _AE.DROPPED: _A.OVER,
    },
    _A.FREE: {
        _AE.ARRIVED: _A.FREE,
        _AE.BOUND: _A.BOUND,
        _AE.RELEASED: _A.FREE,
        _AE.SETTLED: _A.OVER,
        _AE.PASSED: _A.FREE,
        _AE.DROPPED: _A.OVER,
    },
    _A.LATE: {
        _AE.ARRIVED: _A.LATE,
        _AE.BOUND: _A.OVER,
        _AE.RELEASED: _A.LATE,
        _AE.SETTLED: _A.LATE,
        _AE.PASSED: _A.OVER,
        _AE.DROPPED: _A.OVER,
    },
    _A.OVER: dict.fromkeys(AskEvent, _A.OVER),
}
"""What an ask is after an event, for each state and each event."""


_WAITING: Final = (AskState.LOOSE, AskState.BOUND, AskState.FREE)


@frozen
class Correlated:
    """An ask and the call that it belongs to.

    Args:
        ask_id: opask's id of the ask.
        call_id: the runtime's id of the call.
        agent_id: the sub-agent that made the call, None for the main agent.
    """

    ask_id: str
    call_id: str
    agent_id: str | None


@define
class _Call:
    id: str
    agent_id: str | None = None
    questions: tuple[Question, ...] | None = None
    is_untold: bool = False  # its arguments never will be
    state: CallState = CallState.UNSEEN
    ask: _Ask | None = field(default=None, repr=False)

    def sees(self, event: CallEvent) -> None:
        self.state = CALL_TABLE[self.state][event]


@define
class _Ask:
    id: str
    call_id: str | None = None
    questions: tuple[Question, ...] = ()
    turn: int = 0  # the main agent's turn that it arrived in
    state: AskState = AskState.UNSEEN
    call: _Call | None = field(default=None, repr=False)

    def sees(self, event: AskEvent) -> None:
        self.state = ASK_TABLE[self.state][event]


class Correlation:
    """The calls and asks of one session.

    Only calls of opask's own tool are to be announced here. Questions have to come from `opask.intake.parse`,
    on both sides, so that equal arguments are equal.

    Args:
        by_order: whether the runtime tells no arguments, so that calls may be claimed in the order of their
            announcement.
    """

    def __init__(self, *, by_order: bool = False) -> None:
        self._by_order = by_order
        self._calls: dict[str, _Call] = {}
        self._asks: dict[str, _Ask] = {}
        self._turn = 0

    # -- the runtime's side ---------------------------------------------------------------------------------------

    def announced(
        self,
        call_id: str,
        agent_id: str | None = None,
        questions: Sequence[Question] | None = None,
        *,
        untold: bool = False,
    ) -> Correlated | None:
        """Take in an announced call, or more of one: arguments that became known only later.

        Args:
            call_id: the runtime's id.
            agent_id: the sub-agent that calls, None for the main agent.
            questions: what it asks; None while the runtime has not told.
            untold: whether it never will of this call.

        Returns:
            The ask that is this call's, if it was there before; it may be settled by now.
        """
        call = self._calls.setdefault(call_id, _Call(call_id))
        if call.state is CallState.UNSEEN:
            call.agent_id = agent_id
        call.is_untold = call.is_untold or untold
        if questions is not None and call.questions is None:
            call.questions = tuple(questions)
        call.sees(CallEvent.ANNOUNCED)
        waiting = [
            ask
            for ask in self._asks.values()
            if ask.state in (AskState.LOOSE, AskState.FREE, AskState.LATE) and self._fits(ask, call)
        ]
        if not waiting:
            return None
        named = (ask for ask in waiting if ask.call_id is not None)
        return self._bind(next(named, waiting[0]), call)  # else the one that has waited longest

    def finished(self, call_id: str) -> Correlated | None:
        """Take in that a call is over, well or badly; it claims nothing any more.

        An ask that was taken for this call's by its text or its place, and still waits, is free again: what this
        call did was something else.

        Returns:
            The other call that such an ask belongs to, where that is known already.
        """
        call = self._calls.setdefault(call_id, _Call(call_id))
        call.sees(CallEvent.FINISHED)
        ask = call.ask
        if ask is None or ask.state is not AskState.BOUND or ask.call_id is not None:
            return None
        ask.sees(AskEvent.RELEASED)
        ask.call = call.ask = None
        return self._find(ask)

    def passed(self) -> None:
        """Take in that some call ended, whatever its tool: a settled ask that names no call gets none from now on."""
        for ask in self._asks.values():
            if ask.call_id is None:
                ask.sees(AskEvent.PASSED)

    def drained(self, agent_id: str | None = None) -> tuple[str, ...]:
        """Take in that the turn of one agent ended: close its calls.

        Returns:
            The ids of the asks that ended with it. At the main agent's end those are also the ones that belong to
            no call, unless they name theirs: that may be a sub-agent's, which outlives the turn.
        """
        self._turn += agent_id is None
        for call in self._calls.values():
            if call.agent_id == agent_id:
                call.sees(CallEvent.DRAINED)
        return self._dropped(
            ask
            for ask in self._asks.values()
            if (ask.call is not None and ask.call.agent_id == agent_id)
            or (agent_id is None and ask.call is None and ask.call_id is None)
        )

    def drained_all(self) -> tuple[str, ...]:
        """Take in that everything ended, the process as a rule; return the ids of the asks that ended with it."""
        for call in self._calls.values():
            call.sees(CallEvent.DRAINED)
        return self._dropped(self._asks.values())

    # -- the bridge's side ----------------------------------------------------------------------------------------

    def arrived(
        self, ask_id: str, questions: Sequence[Question], call_id: str | None = None
    ) -> Correlated | None:
        """Take in an ask that reached the bridge.

        Args:
            ask_id: opask's id.
            questions: what it asks.
            call_id: the runtime's id of its call, where the ask carries it.

        Returns:
            The call that it belongs to, if that is known already.
        """
        ask = self._asks.setdefault(ask_id, _Ask(ask_id))
        if ask.state is not AskState.UNSEEN:
            return None
        ask.call_id, ask.questions, ask.turn = call_id, tuple(questions), self._turn
        ask.sees(AskEvent.ARRIVED)
        return self._find(ask)

    def settled(self, ask_id: str) -> None:
        """Take in that an ask is settled, in whatever way."""
        self._asks.setdefault(ask_id, _Ask(ask_id)).sees(AskEvent.SETTLED)

    # -- the rule -------------------------------------------------------------------------------------------------

    def _find(self, ask: _Ask) -> Correlated | None:
        candidates = [call for call in self._calls.values() if self._fits(ask, call)]
        if not candidates:
            return None
        told = [call for call in candidates if call.questions is not None]
        return self._bind(ask, told[-1] if told else candidates[0])

    def _fits(self, ask: _Ask, call: _Call) -> bool:
        if call.state is not CallState.OPEN:
            return False
        if ask.call_id is not None:
            return call.id == ask.call_id
        if call.agent_id is None and ask.turn != self._turn:
            return False
        if call.questions is not None:
            return call.questions == ask.questions
        return self._by_order or call.is_untold

    def _bind(self, ask: _Ask, call: _Call) -> Correlated:
        call.sees(CallEvent.CLAIMED)
        ask.sees(AskEvent.BOUND)
        ask.call, call.ask = call, ask
        return Correlated(ask.id, call.id, call.agent_id)

    def _dropped(self, asks: Iterable[_Ask]) -> tuple[str, ...]:
        ended = list(asks)
        open_asks = [ask.id for ask in ended if ask.state in _WAITING]
        for ask in ended:
            ask.sees(AskEvent.DROPPED)
        return tuple(open_asks)
