"""The operations of an inbox, each to be run in one transaction over tables that some store keeps.

An operation reads and checks before it writes, so that one that raises has written nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from attrs import evolve

from opask.inbox.entries import (
    Change,
    Entry,
    InboxSession,
    Lease,
    LoggedEvent,
    OperatorReply,
    ReadsReply,
    Snapshot,
    State,
)
from opask.inbox.refusals import (
    InboxError,
    OpenAsksError,
    RefusedError,
    UnknownAskError,
    UnknownSessionError,
    WrongSessionError,
)
from opask.inbox.rules import extended, lost, resolved, settled
from opask.inbox.tables import Tables
from opask.inert import shorten
from opask.outcomes import Outcome
from opask.questions import Ask

__all__ = ["Ledger", "last_of", "new_id", "utc_now"]

T = TypeVar("T")
_NAME_LENGTH = 60
_LARGEST = 2**63 - 1  # SQLite's integers


class Ledger:
    """What every store does, on its own tables.

    Args:
        tables: the store's.
        clock: gives the time (aware, UTC).
        is_alive: tells whether a host that is entered still holds its place.
        forget: called for a host that is gone, once all that it left open is over.
    """

    def __init__(
        self,
        tables: Tables,
        clock: Callable[[], datetime],
        is_alive: Callable[[str], bool],
        forget: Callable[[str], object] = lambda host_id: None,
    ) -> None:
        self._tables = tables
        self._clock = clock
        self._is_alive = is_alive
        self._forget = forget

    # -- asks ------------------------------------------------------------------------------------------------------

    def join(self, host_id: str) -> None:
        """Enter a host."""
        self._tables.add_host(host_id)

    def put(
        self, ask: Ask, host_id: str, runtime: str | None, latest: datetime | None, siblings: int | None
    ) -> Entry:
        """See `Store.put`."""
        _must_be_storable(ask.id, ask.session_id, runtime or "")
        found = self._tables.find_entry(ask.id)
        if found is not None:
            if found.session_id != ask.session_id:
                raise WrongSessionError(f"ask {ask.id} is another session's already", ask_id=ask.id)
            return found
        self._must_be_host(host_id)
        session = self._tables.find_session(ask.session_id)
        if session is None:
            session = self._tables.save_session(
                InboxSession(ask.session_id, runtime or "", "", host_id, self._clock())
            )
        return self._tables.save_entry(
            Entry(
                evolve(ask, meta={}),
                session.runtime if runtime is None else runtime,
                host_id,
                number=0,
                seq=0,
                deadline=ask.deadline,
                latest=latest,
                siblings_running=siblings,
            )
        )

    def resolve(
        self, ask_id: str, reply: OperatorReply | ReadsReply, session_id: str | None, by: str | None
    ) -> Entry | RefusedError:
        """See `Store.resolve`; a refusal that wrote something comes back and is not raised."""
        return self._decided(
            ask_id,
            lambda entry: resolved(entry, reply, session_id=session_id, by=by, now=self._clock()),
            session_id,
        )

    def extend(self, ask_id: str, until: datetime) -> Entry | RefusedError:
        """See `Store.extend`; a refusal that wrote something comes back and is not raised."""
        return self._decided(ask_id, lambda entry: extended(entry, until, now=self._clock()))

    def _decided(
        self, ask_id: str, decide: Callable[[Entry], Entry], session_id: str | None = None
    ) -> Entry | RefusedError:
        entry = self.entry(ask_id)
        orphaned = entry.is_open and not self._is_alive(entry.host_id)
        if orphaned and session_id in {None, entry.session_id}:
            entry = self._tables.save_entry(lost(entry, now=self._clock()))
        try:
            return self._saved(entry, decide(entry))
        except RefusedError as refusal:
            if orphaned:
                return refusal
            raise

    def settle(self, ask_id: str, outcome: Outcome) -> Entry:
        """See `Store.settle`."""
        entry = self.entry(ask_id)
        return self._saved(entry, settled(entry, outcome, now=self._clock()))

    def entry(self, ask_id: str) -> Entry:
        """See `Store.entry`."""
        found = self._tables.find_entry(ask_id) if _is_storable(ask_id) else None
        if found is None:
            raise UnknownAskError(f"there is no ask {shorten(ask_id, _NAME_LENGTH)!r}", ask_id=ask_id)
        return found

    def entries(
        self,
        session_id: str | None,
        states: frozenset[State] | None,
        limit: int | None,
        before: int | None,
    ) -> tuple[Entry, ...]:
        """See `Store.entries`."""
        if session_id is not None and not _is_storable(session_id):
            return ()
        return self._tables.find_entries(
            session_id=session_id, states=states, limit=_bounded(limit), before=_bounded(before)
        )

    def _saved(self, before: Entry, after: Entry) -> Entry:
        return before if after is before else self._tables.save_entry(after)

    # -- hosts -----------------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Take in that hosts are gone: what was open there is over, and so are their sessions."""
        for host_id in self._tables.hosts():
            if self._is_alive(host_id):
                continue
            now = self._clock()
            for entry in self._tables.find_entries(host_id=host_id, is_open=True):
                self._tables.save_entry(lost(entry, now=now))
            for session in self._tables.find_sessions(host_id=host_id, is_running=True):
                self._tables.save_session(evolve(session, ended_at=now, ending="host_died"))
            self._tables.remove_host(host_id)
            self._forget(host_id)

    def has_lost_hosts(self) -> bool:
        """Tell whether there is something to sweep."""
        return not all(self._is_alive(host_id) for host_id in self._tables.hosts())

    def _must_be_host(self, host_id: str) -> None:
        if host_id not in self._tables.hosts():
            raise InboxError("this host has no place in the inbox, or gave it up; join the store first")

    # -- changes ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """See `Store.snapshot`."""
        entries = self._tables.find_entries(is_open=True)
        sessions = {session.id: session for session in self._tables.find_sessions(is_running=True)}
        for entry in entries:
            if entry.session_id not in sessions:
                found = self._tables.find_session(entry.session_id)
                if found is not None:
                    sessions[found.id] = found
        return Snapshot(self._tables.last_seq(), entries, tuple(sessions.values()))

    def changes(self, since: int, limit: int) -> tuple[Change, ...] | None:
        """See `Store.changes`."""
        if since < 0 or since > self._tables.last_seq():
            return None
        return self._tables.find_changes(since, limit)

    # -- presence --------------------------------------------------------------------------------------------------

    def renew(
        self, lease_id: str, surface: str, lasts: timedelta, session_ids: frozenset[str] | None
    ) -> Lease:
        """See `Store.renew`."""
        _must_be_storable(lease_id, surface)
        now = self._clock()
        for lapsed in self._tables.find_leases():
            if lapsed.expires_at <= now:
                self._tables.remove_lease(lapsed.id)
        lease = Lease(lease_id, surface, now + lasts, session_ids)
        self._tables.save_lease(lease)
        return lease

    def leave(self, lease_id: str) -> None:
        """See `Store.leave`."""
        self._tables.remove_lease(lease_id)

    def leases(self) -> tuple[Lease, ...]:
        """See `Store.leases`."""
        now = self._clock()
        return tuple(lease for lease in self._tables.find_leases() if now < lease.expires_at)

    # -- sessions and their events -----------------------------------------------------------------------------------

    def begin_session(self, session_id: str, host_id: str, runtime: str, title: str) -> InboxSession:
        """See `Store.begin_session`."""
        _must_be_storable(session_id, runtime)
        self._must_be_host(host_id)
        found = self._tables.find_session(session_id)
        now = self._clock()
        if found is None:
            return self._tables.save_session(InboxSession(session_id, runtime, title, host_id, now))
        if found.is_running and found.host_id != host_id and self._is_alive(found.host_id):
            raise InboxError(
                f"session {shorten(session_id, _NAME_LENGTH)} is run by another host; give this one another id"
            )
        for entry in self._tables.find_entries(session_id=session_id, is_open=True):
            if not self._is_alive(entry.host_id):
                self._tables.save_entry(lost(entry, now=now))
        again = evolve(
            found,
            runtime=runtime or found.runtime,
            title=title or found.title,
            host_id=host_id,
            ended_at=None,
            ending=None,
        )
        return found if again == found else self._tables.save_session(again)

    def end_session(self, session_id: str) -> InboxSession:
        """See `Store.end_session`."""
        found = self.session(session_id)
        if not found.is_running:
            return found
        return self._tables.save_session(evolve(found, ended_at=self._clock(), ending="ended"))

    def session(self, session_id: str) -> InboxSession:
        """See `Store.session`."""
        found = self._tables.find_session(session_id) if _is_storable(session_id) else None
        if found is None:
            raise UnknownSessionError(f"there is no session {shorten(session_id, _NAME_LENGTH)!r}")
        return found

    def sessions(self) -> tuple[InboxSession, ...]:
        """See `Store.sessions`."""
        return self._tables.find_sessions()

    def clear_session(self, session_id: str) -> None:
        """See `Store.clear_session`."""
        session = self.session(session_id)
        open_ids = tuple(entry.id for entry in self._tables.find_entries(session_id=session_id, is_open=True))
        if open_ids:
            raise OpenAsksError(
                f"{len(open_ids)} questions of this conversation are open; answer, skip or cancel them first",
                ask_ids=open_ids,
            )
        self._tables.clear_session(session_id, forget=not session.is_running)

    def append(self, session_id: str, events: Sequence[Mapping[str, Any]]) -> None:
        """See `Store.append`."""
        self.session(session_id)
        self._tables.add_events(session_id, events)

    def events(self, session_id: str, after: int, limit: int | None) -> tuple[LoggedEvent, ...]:
        """See `Store.events`."""
        if not _is_storable(session_id):
            return ()
        return self._tables.find_events(session_id, _bounded(after) or 0, _bounded(limit))

    def prune(self, before: datetime) -> int:
        """See `Store.prune`."""
        return self._tables.prune(before)


def _is_storable(text: str) -> bool:
    """Tell whether a text, which may be anybody's, can be looked up at all: no lone surrogate, no NUL."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _must_be_storable(*texts: str) -> None:
    """Refuse an id or a name that could never be looked up again."""
    for text in texts:
        if not _is_storable(text):
            raise InboxError(
                f"{shorten(text, _NAME_LENGTH)!r} cannot be kept in an inbox, since it has a NUL or half a character "
                "in it; give another id or name"
            )


def _bounded(number: int | None) -> int | None:
    """Return the nearest number that tables can be asked with."""
    return None if number is None else min(max(number, -_LARGEST), _LARGEST)


def new_id(prefix: str) -> str:
    """Return an id that nobody can guess."""
    return f"{prefix}_{secrets.token_urlsafe(12)}"


def utc_now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


def last_of(items: Sequence[T], limit: int | None) -> Iterator[T]:
    """Give the last so many."""
    return iter(items if limit is None else items[max(0, len(items) - limit) :])
