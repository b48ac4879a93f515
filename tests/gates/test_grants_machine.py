"""No sequence of grants, turns, sessions and effects lets an action through outside of a granted scope."""

from __future__ import annotations

import itertools

import anyio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gate_operator import request
from opask.effects import ShellTool, Tools
from opask.events import SessionReady, TurnEnded
from opask.outcomes import Answered, Outcome, Reply, Skipped
from opask.permissions import Allow, PermissionRequested
from opask.questions import Answer, Ask
from opask.write_gate import WriteGate

TOOLS = Tools(reads=("Read",), writes=("Edit",), external=("Send",), shells={"Bash": ShellTool()})
SESSIONS = st.sampled_from(["s1", "s2"])
AGENTS = st.sampled_from([None, "a1", "a2"])
STEPS = st.sampled_from(
    [
        ("Read", {}, "read"),
        ("Bash", {"command": "git log"}, "read"),
        ("Edit", {"path": "x"}, "write"),
        ("Bash", {"command": "touch x"}, "write"),
        ("Send", {}, "external"),
        ("Bash", {"command": "git push"}, "external"),
    ]
)
DECISIONS = st.sampled_from(["turn", "action", "session", "deny", "words", "skip", "away"])
LABELS = {"turn": "Allow for this turn", "action": "Allow this action", "session": "Allow for this session"}


class Decided:
    """An operator who gives the next decision, and remembers that there was a proposal."""

    def __init__(self) -> None:
        self.decision = "deny"
        self.asked: list[Ask] = []

    async def ask(self, ask: Ask, /) -> Reply:
        """Decide."""
        self.asked.append(ask)
        labels = [option.label for option in ask.questions[0].options]
        label = LABELS.get(self.decision)
        if self.decision == "words":
            return Answered((Answer((), "turn"),), "x")
        if self.decision == "skip":
            return Skipped("x")
        return Answered((Answer((labels.index(label) if label in labels else len(labels) - 1,)),), "x")

    def settled(self, ask: Ask, outcome: Outcome, /) -> None:
        """Hear of it."""

    def available(self, session_id: str, /) -> bool:
        """Tell whether the operator is there."""
        return self.decision != "away"


class GrantsMachine(RuleBasedStateMachine):
    """The gate beside a model of it that keeps every grant as a fact of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.operator = Decided()
        self.gate = WriteGate(TOOLS, self.operator)
        self.turns: dict[str, str | None] = {"s1": "t0", "s2": "t0"}
        self.numbers = itertools.count(1)
        self.turn_grants: set[tuple[str, str, str | None]] = set()
        self.session_grants: set[str] = set()

    def decide(self, each: PermissionRequested) -> bool:
        """Ask the gate."""

        async def run() -> bool:
            return isinstance(await self.gate(each), Allow)

        return anyio.run(run)

    @rule(session=SESSIONS, agent=AGENTS, step=STEPS, decision=DECISIONS)
    def act(
        self, session: str, agent: str | None, step: tuple[str, dict[str, str], str], decision: str
    ) -> None:
        """An agent wants to do something; it is allowed exactly as the facts say."""
        tool, arguments, effect = step
        turn = self.turns[session]
        self.operator.decision, before = decision, len(self.operator.asked)
        allowed = self.decide(request(tool, arguments, session_id=session, turn_id=turn, agent_id=agent))
        covered = effect == "write" and (
            session in self.session_grants
            or (turn is not None and (session, turn, agent) in self.turn_grants)
        )
        if effect == "read" or covered:
            assert allowed
            assert len(self.operator.asked) == before
            return
        assert len(self.operator.asked) - before == (decision != "away")
        offered = {"action"} if effect == "external" else {"turn", "action", "session"}
        assert allowed == (decision in offered)
        if allowed and decision == "turn" and turn is not None:
            self.turn_grants.add((session, turn, agent))
        if allowed and decision == "session":
            self.session_grants.add(session)

    @rule(session=SESSIONS)
    def end_turn(self, session: str) -> None:
        """A turn ends; sub-agents may go on between turns."""
        self.gate.hear(TurnEnded(session_id=session, turn_id=self.turns[session], stop_reason="x"))
        self.turns[session] = None

    @rule(session=SESSIONS)
    def begin_turn(self, session: str) -> None:
        """A new turn begins, whether or not the gate heard of the last one's end."""
        self.turns[session] = f"t{next(self.numbers)}"

    @rule(session=SESSIONS, by_event=st.booleans())
    def new_session(self, session: str, by_event: bool) -> None:
        """A session ends, and one of the same id begins, with turns of the same names."""
        if by_event:
            self.gate.hear(SessionReady(session_id=session, questions=True))
        else:
            self.gate.end_session(session)
        self.turns[session] = "t0"
        self.turn_grants = {kept for kept in self.turn_grants if kept[0] != session}
        self.session_grants.discard(session)

    @invariant()
    def no_external_step_is_covered(self) -> None:
        """Whatever was granted, a push with nobody there is denied."""
        self.operator.decision = "away"
        for session, turn in self.turns.items():
            assert not self.decide(request("Bash", {"command": "git push"}, session_id=session, turn_id=turn))


TestGrants = GrantsMachine.TestCase
TestGrants.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
