"""Which announced call an ask belongs to."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from opask.correlation import (
    ASK_TABLE,
    CALL_TABLE,
    AskEvent,
    AskState,
    CallEvent,
    CallState,
    Correlated,
    Correlation,
)
from opask.questions import Question

DB = (Question("Which database?"),)
PORT = (Question("Which port?"),)

# -- the tables ------------------------------------------------------------------------------------------------------


def test_the_tables_are_whole() -> None:
    """Every state says what every event makes of it, so that none is left to chance."""
    assert {state: set(row) for state, row in CALL_TABLE.items()} == {
        key: set(CallEvent) for key in CallState
    }
    assert {state: set(row) for state, row in ASK_TABLE.items()} == {key: set(AskEvent) for key in AskState}


def test_what_is_over_stays_over() -> None:
    """No event leads out of the last state of a call or an ask."""
    assert set(CALL_TABLE[CallState.CLOSED].values()) == {CallState.CLOSED}
    assert set(ASK_TABLE[AskState.OVER].values()) == {AskState.OVER}


def test_a_call_is_claimed_only_while_it_is_open() -> None:
    """An open call is the only one that can become claimed."""
    ways = {state for state, row in CALL_TABLE.items() if CallState.CLAIMED in row.values()}
    assert ways == {CallState.OPEN, CallState.CLAIMED}


# -- one step after another ------------------------------------------------------------------------------------------

Step = Callable[[Correlation], object]


def announce(call: str, questions: tuple[Question, ...] | None = DB, agent: str | None = None) -> Step:
    """Announce a call."""
    return lambda correlation: correlation.announced(call, agent, questions)


def arrive(ask: str, questions: tuple[Question, ...] = DB, call: str | None = None) -> Step:
    """Let an ask arrive."""
    return lambda correlation: correlation.arrived(ask, questions, call)


def finish(call: str) -> Step:
    """Finish a call."""
    return lambda correlation: correlation.finished(call)


def settle(ask: str) -> Step:
    """Settle an ask."""
    return lambda correlation: correlation.settled(ask)


def pass_by() -> Step:
    """Let some call end."""
    return lambda correlation: correlation.passed()


def drain(agent: str | None = None) -> Step:
    """End an agent's turn."""
    return lambda correlation: correlation.drained(agent)


def pair(ask: str, call: str, agent: str | None = None) -> Correlated:
    """Give what a match is told as."""
    return Correlated(ask, call, agent)


# What is done, and what the last step gives.
CASES: dict[str, tuple[list[Step], object]] = {
    "by its exact id": ([announce("a"), announce("b"), arrive("1", DB, "a")], pair("1", "a")),
    "by its id though the text differs": ([announce("a", PORT), arrive("1", DB, "a")], pair("1", "a")),
    "by its id though the runtime tells no text": (
        [announce("a", None), arrive("1", DB, "a")],
        pair("1", "a"),
    ),
    "an id that is not there takes no other": ([announce("a"), arrive("1", DB, "z")], None),
    "by text": ([announce("a", PORT), announce("b"), arrive("1")], pair("1", "b")),
    "by text, the newest": ([announce("a"), announce("b"), arrive("1")], pair("1", "b")),
    "by text, the newest that is free": (
        [announce("a"), announce("b"), arrive("1"), arrive("2")],
        pair("2", "a"),
    ),
    "no text that fits": ([announce("a", PORT), arrive("1")], None),
    "no order unless the runtime tells no arguments": ([announce("a", None), arrive("1")], None),
    "one call, one ask": ([announce("a"), arrive("1"), arrive("2")], None),
    "an ask again": ([announce("a"), arrive("1"), announce("b"), arrive("1")], None),
    "a call again": ([announce("a"), arrive("1"), arrive("2"), announce("a")], None),
    "a call that is over": ([announce("a"), finish("a"), arrive("1")], None),
    "a call that is over, by id": ([announce("a"), finish("a"), arrive("1", DB, "a")], None),
    "a call that ended before it was announced": ([arrive("1"), finish("a"), announce("a")], None),
    "after a failed try": ([announce("a"), finish("a"), announce("b"), arrive("1")], pair("1", "b")),
    "later, by id": ([arrive("1", DB, "a"), announce("b"), announce("a")], pair("1", "a")),
    "later, by text": ([arrive("1"), arrive("2", PORT), announce("b", PORT)], pair("2", "b")),
    "later, the one that waits longest": ([arrive("1"), arrive("2"), announce("a")], pair("1", "a")),
    "later, the one that names it": ([arrive("1"), arrive("2", DB, "a"), announce("a")], pair("2", "a")),
    "when the arguments become known": ([announce("a", None), arrive("1"), announce("a")], pair("1", "a")),
    "of a sub-agent": ([announce("a", DB, "sub"), arrive("1", DB, "a")], pair("1", "a", "sub")),
    "a settled ask": ([arrive("1"), settle("1"), announce("a")], pair("1", "a")),
    "a settled ask, when the arguments become known": (
        [arrive("1"), settle("1"), announce("a", None), announce("a")],
        pair("1", "a"),
    ),
    "a settled ask, before one that waits": (
        [arrive("1"), settle("1"), arrive("2"), announce("a")],
        pair("1", "a"),
    ),
    "a settled ask, once": ([arrive("1"), settle("1"), announce("a"), announce("b")], None),
    "a settled ask, whose text does not fit": ([arrive("1"), settle("1"), announce("a", PORT)], None),
    "a settled ask, after a call has ended": ([arrive("1"), settle("1"), pass_by(), announce("a")], None),
    "a settled ask that names its call, even then": (
        [arrive("1", DB, "a"), settle("1"), pass_by(), announce("a")],
        pair("1", "a"),
    ),
    "a settled ask, in another turn": ([arrive("1"), settle("1"), drain(), announce("a", DB, "sub")], None),
    "an ask that waits, after a call has ended": ([arrive("1"), pass_by(), announce("a")], pair("1", "a")),
    "an ask whose call ended before the news that it settled": (
        [announce("a"), arrive("1"), finish("a"), settle("1"), announce("b")],
        None,
    ),
    "a settled ask is not dropped": ([arrive("1"), settle("1"), drain()], ()),
    "an ask that settled before it arrived": ([announce("a"), settle("1"), arrive("1")], None),
    "late news of a failed try takes its ask back": (
        [arrive("1"), announce("a"), finish("a"), announce("b")],
        pair("1", "b"),
    ),
    "and gives it to the call that is there": (
        [arrive("1"), announce("a"), announce("b"), finish("a")],
        pair("1", "b"),
    ),
    "but not what its id says": ([arrive("1", DB, "a"), announce("a"), announce("b"), finish("a")], None),
    "and not what was answered": (
        [arrive("1"), announce("a"), settle("1"), announce("b"), finish("a")],
        None,
    ),
    "the end of a turn drops its ask": ([announce("a"), arrive("1", DB, "a"), drain()], ("1",)),
    "and one that belongs nowhere": ([arrive("1"), drain()], ("1",)),
    "but not one that names a call yet to come": ([arrive("1", DB, "a"), drain()], ()),
    "nor a sub-agent's": ([announce("a", DB, "sub"), arrive("1", DB, "a"), drain()], ()),
    "which ends with its own agent": (
        [announce("a", DB, "sub"), arrive("1", DB, "a"), drain(), drain("sub")],
        ("1",),
    ),
    "nor one that is settled": ([announce("a"), arrive("1"), settle("1"), drain()], ()),
    "a sub-agent's end leaves the loose alone": ([arrive("1"), drain("sub")], ()),
    "no claim crosses turns": ([announce("a"), drain(), arrive("1")], None),
    "nor the other way": ([arrive("1"), drain(), announce("a")], None),
    "nor by way of a sub-agent": (
        [announce("a", DB, "sub"), arrive("1"), drain(), finish("a"), announce("b")],
        None,
    ),
    "no claim crosses turns by id": ([announce("a"), drain(), arrive("1", DB, "a")], None),
    "a sub-agent's call comes after the main agent's turn": (
        [arrive("1", DB, "a"), drain(), announce("a", DB, "sub")],
        pair("1", "a", "sub"),
    ),
}


@pytest.mark.parametrize(("steps", "last"), CASES.values(), ids=CASES)
def test_an_ask_gets_its_call(steps: list[Step], last: object) -> None:
    """The last step of each case gives the match, or the dropped asks, that it has to."""
    correlation = Correlation()
    results = [step(correlation) for step in steps]
    assert results[-1] == last


ORDERED: dict[str, tuple[list[Step], object]] = {
    "the oldest": ([announce("a", None), announce("b", None), arrive("1")], pair("1", "a")),
    "the oldest that is free": (
        [announce("a", None), announce("b", None), arrive("1"), arrive("2", PORT)],
        pair("2", "b"),
    ),
    "the text first": ([announce("a", None), announce("b"), arrive("1")], pair("1", "b")),
    "later": ([arrive("1"), arrive("2"), announce("a", None)], pair("1", "a")),
    "not one that is over": (
        [announce("a", None), finish("a"), announce("b", None), arrive("1")],
        pair("1", "b"),
    ),
    "taken back": ([announce("a", None), arrive("1"), announce("b", None), finish("a")], pair("1", "b")),
}


@pytest.mark.parametrize(("steps", "last"), ORDERED.values(), ids=ORDERED)
def test_where_no_arguments_are_told_the_order_counts(steps: list[Step], last: object) -> None:
    """For a runtime that tells no arguments, calls are claimed in the order of their announcement."""
    correlation = Correlation(by_order=True)
    results = [step(correlation) for step in steps]
    assert results[-1] == last


def test_everything_ends_with_the_process() -> None:
    """The end of the process drops every open ask, whosesoever, once."""
    correlation = Correlation()
    correlation.announced("a", "sub", DB)
    for step in (arrive("1", DB, "a"), arrive("2", DB, "z"), arrive("3"), arrive("4"), settle("4")):
        step(correlation)
    assert correlation.drained_all() == ("1", "2", "3")
    assert correlation.drained_all() == ()
    assert correlation.arrived("5", DB, "a") is None


@pytest.mark.parametrize("order", [*itertools.permutations(["announce", "arrive", "settle", "finish"])])
def test_in_whatever_order_they_come_nothing_is_left(order: tuple[str, ...]) -> None:
    """One call and its one ask, in any order of what is seen of them, leave nothing for the turn's end to drop."""
    correlation = Correlation()
    steps = {
        "announce": announce("a"),
        "arrive": arrive("1", DB, "a"),
        "settle": settle("1"),
        "finish": finish("a"),
    }
    for name in order:
        steps[name](correlation)
    assert correlation.drained() == ()
    assert correlation.drained_all() == ()


# -- whatever comes --------------------------------------------------------------------------------------------------

AGENTS = st.sampled_from([None, "sub-1", "sub-2"])
TEXTS = st.sampled_from([DB, PORT])


class AnySequence(RuleBasedStateMachine):
    """Whatever is seen in whatever order, the claims stay within their bounds."""

    calls = Bundle("calls")
    asks = Bundle("asks")

    def __init__(self) -> None:
        super().__init__()
        self.correlation = Correlation()
        self.count = 0
        self.agent: dict[str, str | None] = {}
        self.turn = 0
        self.over: dict[str, int] = {}  # call -> the turn that it ended in
        self.arrived_in: dict[str, int] = {}
        self.names: dict[str, str | None] = {}
        self.gone: set[str] = set()  # asks that are settled or dropped
        self.late: set[str] = set()  # those that may get their call all the same
        self.claims: dict[str, str] = {}  # ask -> its call, now
        self.freed: set[str] = set()  # asks whose call ended without them

    def matched(
        self, found: Correlated | None, *, from_call: str | None = None, ask: str | None = None
    ) -> None:
        """Hold a match to the rules."""
        if found is None:
            return
        assert ask in (None, found.ask_id)
        assert from_call in (None, found.call_id)
        assert found.ask_id not in self.gone or found.ask_id in self.late
        self.late.discard(found.ask_id)
        assert found.call_id not in self.over
        assert found.agent_id == self.agent[found.call_id]
        assert found.ask_id not in self.claims
        assert found.call_id not in self.claims.values()
        if self.names[found.ask_id] is not None:
            assert self.names[found.ask_id] == found.call_id
        elif found.agent_id is None:
            assert self.arrived_in[found.ask_id] == self.turn
        self.claims[found.ask_id] = found.call_id

    @rule(target=calls, agent=AGENTS, questions=st.none() | TEXTS)
    def new_call(self, agent: str | None, questions: tuple[Question, ...] | None) -> str:
        self.count += 1
        call = f"call-{self.count}"
        self.agent[call] = agent
        self.matched(self.correlation.announced(call, agent, questions), from_call=call)
        return call

    @rule(call=calls, agent=AGENTS, questions=TEXTS)
    def call_again(self, call: str, agent: str | None, questions: tuple[Question, ...]) -> None:
        self.matched(self.correlation.announced(call, agent, questions), from_call=call)

    @rule(target=asks, questions=TEXTS, call=st.none() | calls)
    def new_ask(self, questions: tuple[Question, ...], call: str | None) -> str:
        self.count += 1
        ask = f"ask-{self.count}"
        self.names[ask], self.arrived_in[ask] = call, self.turn
        self.matched(self.correlation.arrived(ask, questions, call), ask=ask)
        return ask

    @rule(questions=TEXTS, agent=AGENTS)
    def ask_ahead_of_its_call(self, questions: tuple[Question, ...], agent: str | None) -> None:
        self.count += 1
        ask, call = f"ask-{self.count}", f"call-{self.count}"
        self.names[ask], self.arrived_in[ask], self.agent[call] = call, self.turn, agent
        assert self.correlation.arrived(ask, questions, call) is None
        found = self.correlation.announced(call, agent, questions)
        assert found == Correlated(ask, call, agent)
        self.matched(found)

    @rule(ask=asks, questions=TEXTS)
    def ask_again(self, ask: str, questions: tuple[Question, ...]) -> None:
        assert self.correlation.arrived(ask, questions, None) is None

    @rule(call=calls)
    def finish(self, call: str) -> None:
        for ask, claimed in list(self.claims.items()):
            if claimed == call and self.names[ask] is None and ask not in self.gone:
                del self.claims[ask]
                self.freed.add(ask)
        self.over.setdefault(call, self.turn)
        self.matched(self.correlation.finished(call))

    @rule(ask=asks)
    def settle(self, ask: str) -> None:
        if ask not in self.gone | self.freed and ask not in self.claims:
            self.late.add(ask)
        self.gone.add(ask)
        self.correlation.settled(ask)

    @rule()
    def some_call_ends(self) -> None:
        self.late -= {ask for ask in self.late if self.names[ask] is None}
        self.correlation.passed()

    @rule(agent=AGENTS)
    def end_turn(self, agent: str | None) -> None:
        dropped = self.correlation.drained(agent)
        assert len(set(dropped)) == len(dropped)
        for ask in dropped:
            assert ask not in self.gone
            claimed = self.claims.get(ask)
            assert (
                self.agent[claimed] == agent
                if claimed is not None
                else (agent is None and not self.names[ask])
            )
        for ask, claimed in self.claims.items():
            if self.agent[claimed] == agent:
                assert ask in dropped or ask in self.gone
        self.gone.update(dropped)
        if agent is None:
            self.late -= {ask for ask in self.late if self.names[ask] is None}
        for call, owner in self.agent.items():
            if owner == agent:
                self.over.setdefault(call, self.turn)
        if agent is None:
            self.turn += 1

    @rule()
    def exit(self) -> None:
        dropped = self.correlation.drained_all()
        assert not self.gone & set(dropped)
        assert set(self.names) - self.gone == set(dropped)
        self.gone.update(dropped)
        self.late.clear()
        for call in self.agent:
            self.over.setdefault(call, self.turn)

    @invariant()
    def no_call_has_two_asks(self) -> None:
        assert len(set(self.claims.values())) == len(self.claims)


TestAnySequence = AnySequence.TestCase
