"""The tables of an inbox in SQLite, their version, and how a file of an older one is brought up to it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from typing import Final

from opask.inbox.refusals import InboxError

__all__ = ["APPLICATION_ID", "VERSION", "prepare"]

APPLICATION_ID: Final = 0x0A5C1B0C
VERSION: Final = 2
_PATIENCE_S = 10.0

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE hosts (id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    host_id TEXT NOT NULL,
    is_running INTEGER NOT NULL,
    ended_at TEXT,
    seq INTEGER NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX sessions_running ON sessions (host_id) WHERE is_running;
CREATE TABLE entries (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    host_id TEXT NOT NULL,
    runtime TEXT NOT NULL,
    state TEXT NOT NULL,
    is_open INTEGER NOT NULL,
    settled_at TEXT,
    seq INTEGER NOT NULL,
    ask TEXT NOT NULL,
    status TEXT NOT NULL
);
CREATE INDEX entries_open ON entries (number) WHERE is_open;
CREATE INDEX entries_session ON entries (session_id, number);
CREATE INDEX entries_settled ON entries (settled_at) WHERE settled_at IS NOT NULL;
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE TABLE events (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX events_session ON events (session_id, position);
CREATE TABLE leases (
    id TEXT PRIMARY KEY,
    surface TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    session_ids TEXT
) WITHOUT ROWID;
"""

# From each older version to the next: statements, run in the transaction that writes the new number.
_STEPS: Mapping[int, str] = {
    1: "DROP INDEX changes_key",  # only clearing a conversation looked there, and each write paid for it
}


def prepare(connection: sqlite3.Connection, inbox_id: str) -> str:
    """Make the tables where there are none, bring older ones up, and return the inbox's id.

    Args:
        connection: in autocommit mode.
        inbox_id: the id that a new inbox gets.

    Raises:
        InboxError: the file is another program's database, or of a newer version.
    """
    _use_wal(connection)
    connection.execute("PRAGMA synchronous = FULL")
    if _is_current(connection):
        return _id(connection)
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _number(connection, "user_version")
        if not version:
            if (
                _number(connection, "application_id")
                or connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
            ):
                raise InboxError("is the database of another program; name another file")
            _run(connection, _TABLES)
            connection.execute("INSERT INTO meta VALUES ('id', ?), ('floor', '0')", (inbox_id,))
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        elif _number(connection, "application_id") != APPLICATION_ID:
            raise InboxError("is the database of another program; name another file")
        elif version > VERSION:
            raise InboxError(
                f"is an inbox of version {version}, and this opask knows {VERSION} at most; use the opask that made "
                "it, or name another file"
            )
        else:
            for step in range(version, VERSION):
                _run(connection, _STEPS[step])
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has ended it already
            connection.execute("ROLLBACK")
        raise
    return _id(connection)


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL; the switch itself does not wait for other processes that are just doing the same."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            if mode != "wal":
                raise InboxError(
                    "is on a file system on which processes cannot share a database; name a file on a local disk"
                )
            return


def _is_current(connection: sqlite3.Connection) -> bool:
    return (
        _number(connection, "application_id") == APPLICATION_ID
        and _number(connection, "user_version") == VERSION
    )


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    number: int = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
    return number


def _id(connection: sqlite3.Connection) -> str:
    inbox_id: str = connection.execute("SELECT value FROM meta WHERE key = 'id'").fetchone()[0]
    return inbox_id


def _run(connection: sqlite3.Connection, statements: str) -> None:
    for statement in statements.split(";"):
        if statement.strip():
            connection.execute(statement)
