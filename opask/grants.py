"""Which write actions the operator has allowed, and for how long: pure bookkeeping.

A grant for a turn is one agent's and ends with its turn; one for a session ends with the session; one for an action is
never kept. An external effect is covered by none.
"""

from __future__ import annotations

from attrs import define, field, frozen

from opask.proposals import Effect, Scope

__all__ = ["Grants", "Step"]


@frozen
class Step:
    """What is about to happen.

    Args:
        session_id: the session.
        turn_id: the turn; None between turns, where no grant for a turn holds or can be given.
        agent_id: the sub-agent; None for the main agent.
        effect: what it changes.
    """

    session_id: str
    turn_id: str | None
    agent_id: str | None
    effect: Effect


@define
class Grants:
    """The grants that hold now."""

    _turns: set[tuple[str, str, str | None]] = field(factory=set, init=False)
    _sessions: set[str] = field(factory=set, init=False)
    _ended: set[tuple[str, str | None]] = field(
        factory=set, init=False
    )  # a late yes must not open them again
    _lives: dict[str, int] = field(factory=dict, init=False)  # how often a session of an id has ended

    def life(self, session_id: str) -> int:
        """Return which of the sessions of an id this is; to be kept while the operator is asked, for `grant`."""
        return self._lives.get(session_id, 0)

    def covers(self, step: Step) -> Scope | None:
        """Return the scope of the grant that a step falls under; None where it has to be asked about."""
        if step.effect != "write":
            return None
        if step.session_id in self._sessions:
            return "session"
        if step.turn_id is not None and (step.session_id, step.turn_id, step.agent_id) in self._turns:
            return "turn"
        return None

    def grant(self, step: Step, scope: Scope, life: int) -> Scope:
        """Take in what the operator allowed; return the scope that it has.

        That of an external step, for a turn where there is none, or for a session that ended since its `life` was asked
        for, is the action alone.
        """
        if step.effect != "write" or life != self.life(step.session_id):
            return "action"
        if scope == "session" and step.session_id:
            self._sessions.add(step.session_id)
            return "session"
        is_over = (step.session_id, step.turn_id) in self._ended
        if scope == "turn" and step.turn_id is not None and not is_over:
            self._turns.add((step.session_id, step.turn_id, step.agent_id))
            return "turn"
        return "action"

    def turn_ended(self, session_id: str, turn_id: str | None) -> None:
        """Take in that a turn of a session is over, for its main agent and all others."""
        self._ended.add((session_id, turn_id))
        self._turns = {kept for kept in self._turns if kept[:2] != (session_id, turn_id)}

    def session_ended(self, session_id: str) -> None:
        """Take in that a session is over."""
        self._turns = {kept for kept in self._turns if kept[0] != session_id}
        self._ended = {over for over in self._ended if over[0] != session_id}
        self._sessions.discard(session_id)
        self._lives[session_id] = self.life(session_id) + 1
