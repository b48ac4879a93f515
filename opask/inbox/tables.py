"""Where a ledger keeps things: what a store on another database has to bring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeAlias

from attrs import define, field

from opask.inbox.entries import Change, Entry, InboxSession, Lease, LoggedEvent, State

__all__ = ["News", "Row", "Tables"]

Row: TypeAlias = tuple[int, str, str, str]
"""A change as it is stored: its number, its kind, the id of what it is of, and what it made of that, as JSON."""


@define
class News:
    """What was written since it was last told: what a store's watchers are to hear once it is committed.

    Args:
        changes: the changes, in order.
        rows: the same as they are stored, where the store keeps them as text.
        logged: the sessions whose log grew.
        position: the last event's position there; None where none did.
        leases: whether a lease may have changed.
    """

    changes: list[Change] = field(factory=list)
    rows: list[Row] = field(factory=list)
    logged: set[str] = field(factory=set)
    position: int | None = None
    leases: bool = False


class Tables(Protocol):
    """Where a store keeps things; every call is made inside a transaction of the store's.

    Attributes:
        news: what these calls have written; the store takes it, and puts a new one in its place.
    """

    news: News

    def add_host(self, host_id: str, /) -> None:
        """Enter a host."""
        ...

    def remove_host(self, host_id: str, /) -> None:
        """Forget a host."""
        ...

    def hosts(self) -> tuple[str, ...]:
        """Return the hosts."""
        ...

    def find_entry(self, ask_id: str, /) -> Entry | None:
        """Return an entry."""
        ...

    def find_entries(
        self,
        *,
        session_id: str | None = None,
        host_id: str | None = None,
        states: Iterable[State] | None = None,
        is_open: bool | None = None,
        limit: int | None = None,
        before: int | None = None,
    ) -> tuple[Entry, ...]:
        """Return entries, oldest first; of more than the limit the youngest."""
        ...

    def save_entry(self, entry: Entry, /) -> Entry:
        """Write an entry and its change; return it with the number and the seq that it got."""
        ...

    def find_session(self, session_id: str, /) -> InboxSession | None:
        """Return a session."""
        ...

    def find_sessions(
        self, *, host_id: str | None = None, is_running: bool | None = None
    ) -> tuple[InboxSession, ...]:
        """Return sessions, oldest first."""
        ...

    def save_session(self, session: InboxSession, /) -> InboxSession:
        """Write a session and its change; return it with the seq that it got."""
        ...

    def clear_session(self, session_id: str, /, *, forget: bool) -> int:
        """Delete a session's entries and events, and itself where it is to be forgotten; return the change's seq."""
        ...

    def prune(self, before: datetime, /) -> int:
        """Delete what was over before a time; return how many entries."""
        ...

    def last_seq(self) -> int:
        """Return the number of the last change, 0 before the first."""
        ...

    def find_changes(self, since: int, limit: int, /) -> tuple[Change, ...] | None:
        """Return the changes after a number; None where some were deleted."""
        ...

    def add_events(self, session_id: str, events: Sequence[Mapping[str, Any]], /) -> None:
        """Append to a session's log."""
        ...

    def find_events(self, session_id: str, after: int, limit: int | None, /) -> tuple[LoggedEvent, ...]:
        """Return a session's events behind a position."""
        ...

    def save_lease(self, lease: Lease, /) -> None:
        """Write a lease."""
        ...

    def remove_lease(self, lease_id: str, /) -> None:
        """Delete a lease."""
        ...

    def find_leases(self) -> tuple[Lease, ...]:
        """Return all leases, lapsed ones too."""
        ...
