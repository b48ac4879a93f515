"""The ledger's tables in SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
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
from opask.inbox.forms import (
    ask_from_json,
    ask_to_json,
    session_from_json,
    session_to_json,
    status_from_json,
    status_to_json,
    time_from_json,
    time_to_json,
)
from opask.inbox.tables import News, Row

__all__ = ["SqliteTables"]

T = TypeVar("T")
_KEPT_CHANGES = 20_000
_FIND_ENTRY = "SELECT number, seq, host_id, runtime, ask, status FROM entries WHERE "
_NO_LIMIT = -1
_KEPT_IN_MIND = 1000
_encode = json.JSONEncoder(separators=(",", ":")).encode


class SqliteTables:
    """Implements `opask.inbox.tables.Tables` on one connection, in whichever transaction is open there.

    What is open and what runs is kept in mind and not read again. Whoever calls has it `catch_up` with what another
    connection has changed before anything else is called, or `forget` it all.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.news = News()
        self._connection = connection
        self._run = connection.execute
        self._hosts: tuple[str, ...] | None = None
        self._entries: dict[str, Entry] = {}  # open ones
        self._sessions: dict[str, InboxSession] = {}

    def forget_hosts(self) -> None:
        """Read the hosts anew: another connection may have changed them."""
        self._hosts = None

    def forget(self) -> None:
        """Read everything anew, since what was written here is taken back, or it is not known what others wrote."""
        self._hosts = None
        self._entries.clear()
        self._sessions.clear()

    def _keep(self, change: Change) -> None:
        """Keep in mind what the last change of something has made of it, while it is open."""
        if isinstance(change, SessionChanged):
            _put(self._sessions, change.session.id, change.session, change.session.is_running)
        elif isinstance(change, EntryChanged):
            _put(self._entries, change.entry.id, change.entry, change.entry.is_open)
        else:  # what says that its asks were over may have been deleted with them
            self._entries = {
                ask_id: entry
                for ask_id, entry in self._entries.items()
                if entry.session_id != change.session_id
            }

    def _wrote(self, change: Change) -> None:
        self._keep(change)
        self.news.changes.append(change)

    def add_host(self, host_id: str, /) -> None:
        """Enter a host."""
        self._run("INSERT INTO hosts VALUES (?)", (host_id,))
        self._hosts = None

    def remove_host(self, host_id: str, /) -> None:
        """Forget a host."""
        self._run("DELETE FROM hosts WHERE id = ?", (host_id,))
        self._hosts = None

    def hosts(self) -> tuple[str, ...]:
        """Return the hosts."""
        if self._hosts is None:
            self._hosts = tuple(host_id for (host_id,) in self._run("SELECT id FROM hosts"))
        return self._hosts

    # -- entries -----------------------------------------------------------------------------------------------------

    def find_entry(self, ask_id: str, /) -> Entry | None:
        """Return an entry."""
        known = self._entries.get(ask_id)
        if known is not None:
            return known
        row = self._run(_FIND_ENTRY + "id = ?", (ask_id,)).fetchone()
        return None if row is None else _entry(row)

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
        conditions, values = ["1"], list[Any]()
        for condition, value in (
            ("session_id = ?", session_id),
            ("host_id = ?", host_id),
            ("number < ?", before),
        ):
            if value is not None:
                conditions.append(condition)
                values.append(value)
        if is_open is not None:
            conditions.append("is_open" if is_open else "NOT is_open")
        if states is not None:
            states = tuple(states)
            conditions.append(f"state IN ({', '.join('?' * len(states))})")
            values += states
        rows = self._run(
            f"{_FIND_ENTRY} {' AND '.join(conditions)} ORDER BY number DESC LIMIT ?",
            (*values, _NO_LIMIT if limit is None else max(limit, 0)),
        ).fetchall()
        return tuple(_entry(row) for row in reversed(rows))

    def save_entry(self, entry: Entry, /) -> Entry:
        """Write an entry and its change."""
        status = _encode(status_to_json(entry))
        seq = self._changed("entry", entry.id, status)
        number = entry.number or None
        if number is None:
            number = self._insert(entry, seq, status)
        elif entry.is_open:  # as it was: no index is touched
            self._run(
                "UPDATE entries SET seq = ?, state = ?, status = ? WHERE number = ?",
                (seq, entry.state, status, number),
            )
        else:
            self._run(
                "UPDATE entries SET seq = ?, state = ?, is_open = 0, settled_at = ?, status = ? WHERE number = ?",
                (seq, entry.state, time_to_json(entry.settled_at), status, number),
            )
        entry = evolve(entry, number=number, seq=seq)
        self._wrote(EntryChanged(seq, entry))
        return entry

    def _insert(self, entry: Entry, seq: int, status: str) -> int:
        number = self._run(
            "INSERT INTO entries (id, session_id, host_id, runtime, seq, state, is_open, settled_at, ask, status) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                entry.id,
                entry.session_id,
                entry.host_id,
                entry.runtime,
                seq,
                entry.state,
                entry.is_open,
                time_to_json(entry.settled_at),
                _encode(ask_to_json(entry.ask)),
                status,
            ),
        ).lastrowid
        assert number is not None
        return number

    # -- sessions ----------------------------------------------------------------------------------------------------

    def find_session(self, session_id: str, /) -> InboxSession | None:
        """Return a session."""
        known = self._sessions.get(session_id)
        if known is not None:
            return known
        row = self._run("SELECT body, seq FROM sessions WHERE id = ?", (session_id,)).fetchone()
        if row is None:
            return None
        session = _session(*row)
        _put(self._sessions, session_id, session, session.is_running)
        return session

    def find_sessions(
        self, *, host_id: str | None = None, is_running: bool | None = None
    ) -> tuple[InboxSession, ...]:
        """Return sessions, oldest first."""
        rows = self._run(
            "SELECT body, seq FROM sessions WHERE (?1 IS NULL OR host_id = ?1) AND (?2 IS NULL OR is_running = ?2) "
            "ORDER BY number",
            (host_id, is_running),
        )
        return tuple(_session(*row) for row in rows)

    def save_session(self, session: InboxSession, /) -> InboxSession:
        """Write a session and its change."""
        body = _encode(session_to_json(session))
        seq = self._changed("session", session.id, body)
        self._run(
            "INSERT INTO sessions (id, host_id, is_running, ended_at, seq, body) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET host_id = excluded.host_id, is_running = excluded.is_running, "
            "ended_at = excluded.ended_at, seq = excluded.seq, body = excluded.body",
            (session.id, session.host_id, session.is_running, time_to_json(session.ended_at), seq, body),
        )
        session = evolve(session, seq=seq)
        self._wrote(SessionChanged(seq, session))
        return session

    def clear_session(self, session_id: str, /, *, forget: bool) -> int:
        """Delete a session's entries and events."""
        self._run(
            "DELETE FROM changes WHERE kind = 'entry' AND key IN (SELECT id FROM entries WHERE session_id = ?)",
            (session_id,),
        )
        self._run("DELETE FROM entries WHERE session_id = ?", (session_id,))
        self._run("DELETE FROM events WHERE session_id = ?", (session_id,))
        if forget:
            self._run("DELETE FROM sessions WHERE id = ?", (session_id,))
        seq = self._changed("cleared", session_id, "null")
        self._wrote(SessionCleared(seq, session_id))
        return seq

    def prune(self, before: datetime, /) -> int:
        """Delete what was over before a time."""
        self.forget()
        at = (time_to_json(before),)
        gone = self._run("DELETE FROM entries WHERE settled_at < ?", at).rowcount
        self._run(
            "DELETE FROM events WHERE session_id IN (SELECT id FROM sessions WHERE ended_at < ? "
            "AND id NOT IN (SELECT session_id FROM entries))",
            at,
        )
        self._run(
            "DELETE FROM sessions WHERE ended_at < ? AND id NOT IN (SELECT session_id FROM entries)", at
        )
        if gone:
            self._forget_changes(self.last_seq())
        return gone

    # -- changes -----------------------------------------------------------------------------------------------------

    def last_seq(self) -> int:
        """Return the number of the last change."""
        row = self._run("SELECT seq FROM sqlite_sequence WHERE name = 'changes'").fetchone()
        return row[0] if row is not None else 0

    def find_changes(self, since: int, limit: int, /) -> tuple[Change, ...] | None:
        """Return the changes after a number."""
        rows = self._run(
            "SELECT changes.seq, kind, key, body, entries.number, host_id, runtime, ask FROM changes "
            "LEFT JOIN entries ON kind = 'entry' AND entries.id = key WHERE changes.seq > ? "
            "ORDER BY changes.seq LIMIT ?",
            (since, limit),
        ).fetchall()
        if self._has_gap(since, rows):
            return None
        return tuple(
            _change(seq, key, body, kind, _entry((number, seq, host_id, runtime, ask, body)) if ask else None)
            for seq, kind, key, body, number, host_id, runtime, ask in rows
        )

    def catch_up(self, since: int, limit: int) -> tuple[Change, ...] | None:
        """Return the changes after a number that no other call has returned, and keep in mind what they made.

        The asks that are kept in mind are not read again.
        """
        rows = self._run(
            "SELECT seq, kind, key, body FROM changes WHERE seq > ? ORDER BY seq LIMIT ?", (since, limit)
        ).fetchall()
        return None if self._has_gap(since, rows) else self.take(rows)

    def take(self, rows: Iterable[Row]) -> tuple[Change, ...]:
        """Return changes that come next, given as they are stored, and keep in mind what they made.

        Raises:
            LookupError: an ask is not there any more: it was forgotten since.
        """
        changes: list[Change] = []
        for seq, kind, key, body in rows:
            entry = self._entry_as_of(key, seq, body) if kind == "entry" else None
            change = _change(seq, key, body, kind, entry)
            self._keep(change)
            changes.append(change)
        return tuple(changes)

    def _entry_as_of(self, ask_id: str, seq: int, status: str) -> Entry:
        entry = self.find_entry(ask_id)
        if entry is None:
            raise LookupError(ask_id)
        return status_from_json(evolve(entry, seq=seq), json.loads(status))

    def _has_gap(self, since: int, rows: Sequence[tuple[Any, ...]]) -> bool:
        """Tell whether a change right after a number is not there any more."""
        if rows and rows[0][0] == since + 1:
            return False
        (floor,) = self._run("SELECT value FROM meta WHERE key = 'floor'").fetchone()
        return since < int(floor)

    def _changed(self, kind: str, key: str, body: str) -> int:
        seq = self._run("INSERT INTO changes (kind, key, body) VALUES (?, ?, ?)", (kind, key, body)).lastrowid
        assert seq is not None
        self.news.rows.append((seq, kind, key, body))
        if seq % 1000 == 0 and seq > _KEPT_CHANGES:
            self._forget_changes(seq - _KEPT_CHANGES)
        return seq

    def _forget_changes(self, floor: int) -> None:
        self._run("DELETE FROM changes WHERE seq <= ?", (floor,))
        self._run("UPDATE meta SET value = ? WHERE key = 'floor'", (str(floor),))

    # -- events and leases -------------------------------------------------------------------------------------------

    def add_events(self, session_id: str, events: Sequence[Mapping[str, Any]], /) -> None:
        """Append to a session's log."""
        for event in events:
            self.news.position = self._run(
                "INSERT INTO events (session_id, body) VALUES (?, ?)", (session_id, _encode(event))
            ).lastrowid
        self.news.logged.add(session_id)

    def find_events(self, session_id: str, after: int, limit: int | None, /) -> tuple[LoggedEvent, ...]:
        """Return a session's events behind a position."""
        rows = self._run(
            "SELECT position, body FROM events WHERE session_id = ? AND position > ? ORDER BY position LIMIT ?",
            (session_id, after, _NO_LIMIT if limit is None else max(limit, 0)),
        )
        return tuple(LoggedEvent(position, session_id, json.loads(body)) for position, body in rows)

    def last_position(self) -> int:
        """Return the position of the last event of all."""
        row = self._run("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
        return row[0] if row is not None else 0

    def logged_after(self, position: int) -> tuple[str, ...]:
        """Return the sessions that have events behind a position."""
        return tuple(
            session_id
            for (session_id,) in self._run(
                "SELECT DISTINCT session_id FROM events WHERE position > ?", (position,)
            )
        )

    def save_lease(self, lease: Lease, /) -> None:
        """Write a lease."""
        covered = None if lease.session_ids is None else _encode(sorted(lease.session_ids))
        self._run(
            "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?)",
            (lease.id, lease.surface, time_to_json(lease.expires_at), covered),
        )
        self.news.leases = True

    def remove_lease(self, lease_id: str, /) -> None:
        """Delete a lease."""
        if self._run("DELETE FROM leases WHERE id = ?", (lease_id,)).rowcount:
            self.news.leases = True

    def find_leases(self) -> tuple[Lease, ...]:
        """Return all leases, lapsed ones too."""
        return tuple(
            Lease(
                id_, surface, _time(expires_at), None if covered is None else frozenset(json.loads(covered))
            )
            for id_, surface, expires_at, covered in self._run("SELECT * FROM leases")
        )


def _put(kept: dict[str, T], key: str, value: T, is_open: bool) -> None:
    """Keep something that is open, and not ever more of its kind; what is over may be pruned without a change."""
    if not is_open:
        kept.pop(key, None)
        return
    if len(kept) >= _KEPT_IN_MIND:
        kept.clear()
    kept[key] = value


def _time(text: str) -> datetime:
    time = time_from_json(text)
    assert time is not None
    return time


def _entry(row: tuple[int, int, str, str, str, str]) -> Entry:
    number, seq, host_id, runtime, ask, status = row
    bare = Entry(ask_from_json(json.loads(ask)), runtime, host_id, number, seq)
    return status_from_json(bare, json.loads(status))


def _session(body: str, seq: int) -> InboxSession:
    return evolve(session_from_json(json.loads(body)), seq=seq)


def _change(seq: int, key: str, body: str, kind: str, entry: Entry | None) -> Change:
    if entry is not None:
        return EntryChanged(seq, entry)
    if kind == "session":
        return SessionChanged(seq, _session(body, seq))
    return SessionCleared(seq, key)
