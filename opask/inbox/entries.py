"""What an inbox holds: asks with what became of them, sessions with their events, and the leases of surfaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from attrs import field, frozen

from opask.outcomes import Answered, Cancelled, OutcomeKind, Skipped
from opask.questions import Ask

__all__ = [
    "OPEN_STATES",
    "Change",
    "Entry",
    "EntryChanged",
    "InboxSession",
    "Lease",
    "LoggedEvent",
    "OperatorReply",
    "ReadsReply",
    "SessionChanged",
    "SessionCleared",
    "Snapshot",
    "State",
    "Update",
]

State: TypeAlias = Literal[
    "pending",
    "answered",
    "delivered",
    "undelivered",
    "skipped",
    "timed_out",
    "cancelled",
    "abandoned",
    "unavailable",
    "orphaned",
]
"""Where an ask stands; docs/inbox.md has the table of who moves it from which to which."""

OPEN_STATES: Final[frozenset[State]] = frozenset({"pending", "answered"})
"""The states in which the agent is still owed something; no other one ever becomes one of these."""

OperatorReply: TypeAlias = Answered | Skipped | Cancelled
"""What an operator can do with an ask; of `Cancelled` only the operator's own."""

ReadsReply: TypeAlias = Callable[[Ask], OperatorReply]
"""Reads what an operator sent against the ask that it is for; what it raises is what the operator is told."""


@frozen
class Entry:
    """One ask in the inbox.

    Args:
        ask: what is asked; without ``meta``, and its ``deadline`` is that of when it was asked.
        runtime: the runtime of the session that asks, empty where the host did not say.
        host_id: the host that waits for the answer.
        number: its place in the order of asks, from 1.
        seq: the change that made it what it is here.
        state: where it stands.
        deadline: when the wait runs out, extensions included (aware, UTC); None for an unbounded wait.
        latest: the latest that the deadline can be moved to; None where nothing bounds it.
        reply: what the operator decided, None while nobody has.
        by: who decided: a surface, with whoever used it where that is known (``web:alice``); ``host``, ``agent``,
            ``shutdown`` where it was one of these.
        reason: why it ended without an answer, or why an answer did not reach the agent; for a person to read.
        told: the kind of outcome that the agent was given, None while it was given none.
        resolved_at: when the operator decided.
        settled_at: when it was over.
        siblings_running: how many other calls of the agent ran on when it asked; None where the host did not say.
    """

    ask: Ask
    runtime: str
    host_id: str
    number: int
    seq: int
    state: State = "pending"
    deadline: datetime | None = None
    latest: datetime | None = None
    reply: OperatorReply | None = None
    by: str | None = None
    reason: str | None = None
    told: OutcomeKind | None = None
    resolved_at: datetime | None = None
    settled_at: datetime | None = None
    siblings_running: int | None = None

    @property
    def id(self) -> str:
        """The ask's id."""
        return self.ask.id

    @property
    def session_id(self) -> str:
        """The session that asks."""
        return self.ask.session_id

    @property
    def is_open(self) -> bool:
        """Whether the agent is still owed something."""
        return self.state in OPEN_STATES

    @property
    def surface(self) -> str | None:
        """The surface that decided, without whoever used it."""
        return None if self.by is None else self.by.partition(":")[0]


@frozen
class InboxSession:
    """One session whose events or asks are in the inbox.

    Args:
        id: the host's id of it.
        runtime: the runtime's name, empty where the host did not say.
        title: what it is about, its first prompt as a rule; an agent's or a host's text, so not safe to show as it is.
        host_id: the host that runs it.
        started_at: when it began.
        ended_at: when it ended; None while it runs.
        ending: how it ended: ``ended``, or ``host_died``; None while it runs.
        seq: the change that made it what it is here.
    """

    id: str
    runtime: str
    title: str
    host_id: str
    started_at: datetime
    ended_at: datetime | None = None
    ending: Literal["ended", "host_died"] | None = None
    seq: int = 0

    @property
    def is_running(self) -> bool:
        """Whether its host is there and has not ended it."""
        return self.ended_at is None


@frozen
class LoggedEvent:
    """One event of a session's log.

    Args:
        position: its place in the log of all sessions; rises, and has gaps.
        session_id: the session.
        event: its JSON form, as `opask.events.event_to_json` gives it.
    """

    position: int
    session_id: str
    event: Mapping[str, Any] = field(hash=False)


@frozen
class Lease:
    """A surface says that an operator can see questions there.

    Args:
        id: the surface's own id of it, unguessable.
        surface: its name.
        expires_at: when it lapses unless it is renewed.
        session_ids: the sessions whose questions are seen; None for all.
    """

    id: str
    surface: str
    expires_at: datetime
    session_ids: frozenset[str] | None = None

    def covers(self, session_id: str, at: datetime) -> bool:
        """Tell whether questions of a session are seen at that time."""
        return at < self.expires_at and (self.session_ids is None or session_id in self.session_ids)


@frozen
class EntryChanged:
    """An ask came, or something became of it; `entry` is it right after."""

    seq: int
    entry: Entry


@frozen
class SessionChanged:
    """A session began or ended; `session` is it right after."""

    seq: int
    session: InboxSession


@frozen
class SessionCleared:
    """A conversation was cleared: its events and its cards are gone."""

    seq: int
    session_id: str


Change: TypeAlias = EntryChanged | SessionChanged | SessionCleared
"""One change of the inbox, numbered without gaps of meaning: what is between two numbers was never a change."""


@frozen
class Snapshot:
    """All that is open.

    Args:
        seq: the last change that it takes in.
        entries: the open entries, oldest first.
        sessions: the sessions that run, and those of the entries, oldest first.
    """

    seq: int
    entries: tuple[Entry, ...]
    sessions: tuple[InboxSession, ...]


Update: TypeAlias = Snapshot | Change
"""What a watcher is given."""
