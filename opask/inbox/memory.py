"""An inbox in memory, for one process: a host and its surfaces in the same program, and tests."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from attrs import evolve

from opask.inbox.entries import (
    Change,
    Entry,
    EntryChanged,
    InboxSession,
    Lease,
    LoggedEvent,
    SessionChanged,
    SessionCleared,
    State,
)
from opask.inbox.hub import Hub
from opask.inbox.ledger import Ledger, last_of, new_id, utc_now
from opask.inbox.ledger_store import LedgerStore
from opask.inbox.tables import News

__all__ = ["MemoryStore"]

T = TypeVar("T")
_KEPT_CHANGES = 20_000


class MemoryStore(LedgerStore):
    """An inbox that lasts as long as the object.

    Args:
        clock: gives the time (aware, UTC).
    """

    def __init__(self, *, clock: Callable[[], datetime] = utc_now) -> None:
        self.id = new_id("inbox")
        self._lock = threading.RLock()
        self._tables = _MemoryTables()
        self._held: set[str] = set()
        self._hub = Hub(clock)
        self._hub.start(0, ())
        self._ledger = Ledger(self._tables, clock, self._held.__contains__)

    async def join(self) -> MemoryHost:
        """Take a host's place."""
        host_id = new_id("host")
        self._held.add(host_id)
        self._run(Ledger.join, host_id)
        return MemoryHost(host_id, self._lost)

    def _lost(self, host_id: str) -> None:
        self._held.discard(host_id)
        self._run(Ledger.sweep)

    async def _read(self, operation: Callable[..., T], *args: Any) -> T:
        with self._lock:
            return operation(self._ledger, *args)

    async def _write(self, operation: Callable[..., T], *args: Any) -> T:
        return self._run(operation, *args)

    def _write_soon(
        self,
        operation: Callable[..., object],
        *args: Any,
        done: Callable[[Exception | None], object],
        insists: bool = False,
    ) -> None:
        try:
            self._run(operation, *args)
        except Exception as error:
            done(error)
        else:
            done(None)

    def _run(self, operation: Callable[..., T], *args: Any) -> T:
        with self._lock:
            tables = self._tables
            result = operation(self._ledger, *args)
            news, tables.news = tables.news, News()
            self._hub.told(news.changes, news.logged, tables.find_leases() if news.leases else None)
            return result


class MemoryHost:
    """A host's place in a store in memory."""

    def __init__(self, host_id: str, lost: Callable[[str], object]) -> None:
        self.id = host_id
        self._lost = lost
        self._is_held = True

    def release(self) -> None:
        """Give the place up; see `Host.release`."""
        if self._is_held:
            self._is_held = False
            self._lost(self.id)


class _MemoryTables:
    """The tables; implements `Tables`."""

    def __init__(self) -> None:
        self._hosts: dict[str, None] = {}
        self._entries: dict[str, Entry] = {}
        self._open: dict[str, None] = {}
        self._sessions: dict[str, InboxSession] = {}
        self._changes: list[Change] = []
        self._events: dict[str, list[LoggedEvent]] = {}
        self._leases: dict[str, Lease] = {}
        self._seq = self._floor = self._number = self._position = 0
        self.news = News()

    def add_host(self, host_id: str, /) -> None:
        self._hosts[host_id] = None

    def remove_host(self, host_id: str, /) -> None:
        self._hosts.pop(host_id, None)

    def hosts(self) -> tuple[str, ...]:
        return tuple(self._hosts)

    def find_entry(self, ask_id: str, /) -> Entry | None:
        return self._entries.get(ask_id)

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
        found = map(self._entries.__getitem__, self._open) if is_open else iter(self._entries.values())
        chosen = [
            entry
            for entry in found
            if (session_id is None or entry.session_id == session_id)
            and (host_id is None or entry.host_id == host_id)
            and (states is None or entry.state in states)
            and (is_open is None or entry.is_open == is_open)
            and (before is None or entry.number < before)
        ]
        return tuple(last_of(chosen, limit))

    def save_entry(self, entry: Entry, /) -> Entry:
        if not entry.number:
            self._number += 1
            entry = evolve(entry, number=self._number)
        entry = evolve(entry, seq=self._next_seq())
        self._entries[entry.id] = entry
        if entry.is_open:
            self._open[entry.id] = None
        else:
            self._open.pop(entry.id, None)
        self._changed(EntryChanged(entry.seq, entry))
        return entry

    def find_session(self, session_id: str, /) -> InboxSession | None:
        return self._sessions.get(session_id)

    def find_sessions(
        self, *, host_id: str | None = None, is_running: bool | None = None
    ) -> tuple[InboxSession, ...]:
        return tuple(
            session
            for session in self._sessions.values()
            if (host_id is None or session.host_id == host_id)
            and (is_running is None or session.is_running == is_running)
        )

    def save_session(self, session: InboxSession, /) -> InboxSession:
        session = evolve(session, seq=self._next_seq())
        self._sessions[session.id] = session
        self._changed(SessionChanged(session.seq, session))
        return session

    def clear_session(self, session_id: str, /, *, forget: bool) -> int:
        for entry in self.find_entries(session_id=session_id):
            del self._entries[entry.id]
        self._events.pop(session_id, None)
        if forget:
            self._sessions.pop(session_id, None)
        seq = self._next_seq()
        self._changed(SessionCleared(seq, session_id))
        return seq

    def prune(self, before: datetime, /) -> int:
        gone = [entry for entry in self._entries.values() if entry.settled_at and entry.settled_at < before]
        for entry in gone:
            del self._entries[entry.id]
        asking = {entry.session_id for entry in self._entries.values()}
        for session in list(self._sessions.values()):
            if session.ended_at and session.ended_at < before and session.id not in asking:
                del self._sessions[session.id]
                self._events.pop(session.id, None)
        if gone:
            self._forget_changes(self._seq)
        return len(gone)

    def last_seq(self) -> int:
        return self._seq

    def find_changes(self, since: int, limit: int, /) -> tuple[Change, ...] | None:
        if since < self._floor:
            return None
        start = bisect_right(self._changes, since, key=lambda change: change.seq)
        return tuple(self._changes[start : start + limit])

    def add_events(self, session_id: str, events: Sequence[Mapping[str, Any]], /) -> None:
        log = self._events.setdefault(session_id, [])
        for event in events:
            self._position += 1
            log.append(LoggedEvent(self._position, session_id, dict(event)))
        self.news.logged.add(session_id)

    def find_events(self, session_id: str, after: int, limit: int | None, /) -> tuple[LoggedEvent, ...]:
        log = self._events.get(session_id, [])
        start = bisect_right(log, after, key=lambda logged: logged.position)
        return tuple(log[start:] if limit is None else log[start : start + limit])

    def save_lease(self, lease: Lease, /) -> None:
        self._leases[lease.id] = lease
        self.news.leases = True

    def remove_lease(self, lease_id: str, /) -> None:
        if self._leases.pop(lease_id, None) is not None:
            self.news.leases = True

    def find_leases(self) -> tuple[Lease, ...]:
        return tuple(self._leases.values())

    def _changed(self, change: Change) -> None:
        self._changes.append(change)
        self.news.changes.append(change)

    def _next_seq(self) -> int:
        self._seq += 1
        if len(self._changes) > 2 * _KEPT_CHANGES:
            self._forget_changes(self._changes[_KEPT_CHANGES].seq)
        return self._seq

    def _forget_changes(self, floor: int) -> None:
        self._floor = floor
        self._changes = [change for change in self._changes if change.seq > floor]
