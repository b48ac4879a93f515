"""The one thread of a process that reads and writes an inbox's file, so that no event loop ever waits for it.

Whatever waits for it is carried out together: one transaction, one flush to the disk, and only then is anybody told.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import select
import socket
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from attrs import evolve, frozen

from opask.inbox.bells import Bell, Ringer
from opask.inbox.hub import Hub
from opask.inbox.ledger import Ledger
from opask.inbox.refusals import InboxError
from opask.inbox.sqlite_tables import SqliteTables
from opask.inbox.tables import News, Row
from opask.inert import inert_line

__all__ = ["Engine", "Job"]

_logger = logging.getLogger("opask.inbox")
_TICK_S: Final = 1.0
_SOON_S: Final = 0.005
_BATCH: Final = 256
_PAGE: Final = 1000


@frozen
class Job:
    """One operation of the ledger.

    Args:
        operation: what is to be done; a function of the ledger.
        args: with what.
        writes: whether it may write.
        done: told the result, or the error; called on the engine's thread, must not block or raise.
        insists: whether it is tried again, as long as the store is open, where the file cannot be written for now.
    """

    operation: Callable[..., Any]
    args: Sequence[Any]
    writes: bool
    done: Callable[[Any, Exception | None], object]
    insists: bool = False


class Engine:
    """Carries out jobs in order, and tells the hub what was committed, here or by another process.

    Args:
        path: the file, for messages.
        connect: opens the connection, on the engine's thread; in autocommit mode.
        make_ledger: makes the ledger on the tables.
        folder: the store's private folder.
        hub: whom to tell.
    """

    def __init__(
        self,
        path: Path,
        connect: Callable[[], sqlite3.Connection],
        make_ledger: Callable[[SqliteTables], Ledger],
        folder: Path,
        hub: Hub,
    ) -> None:
        self._path = path
        self._connect = connect
        self._make_ledger = make_ledger
        self._folder = folder
        self._hub = hub
        self._lock = threading.Lock()
        self._jobs: deque[Job] = deque()
        self._is_waiting = False
        self._state = "new"
        self._pid = os.getpid()
        self._opened = threading.Event()
        self._fault: InboxError | None = None
        self._thread = threading.Thread(target=self._run, name="opask-inbox", daemon=True)
        self._wake_from, self._wake_to = socket.socketpair()
        self._wake_from.setblocking(False)
        self._wake_to.setblocking(False)
        self.ledger: Ledger
        # These belong to the thread.
        self._connection: sqlite3.Connection
        self._tables: SqliteTables
        self._bell: Bell | None = None
        self._ringer: Ringer
        self._position = 0
        self._data_version = 0
        self._look_at = math.inf
        self._file: tuple[int, int] | None = None
        self._unreadable = ""
        self._in_hand: deque[Job] = deque()
        self._put_off: list[Job] = []

    # -- from any thread -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the file, blocking.

        Raises:
            InboxError: it cannot be opened.
        """
        self._state = "open"
        self._thread.start()
        self._opened.wait()
        if self._fault is not None:
            self._thread.join()
            raise self._fault

    def submit(self, job: Job) -> None:
        """Have a job done.

        Raises:
            InboxError: the store is not open, or this is a fork of the process that opened it.
        """
        with self._lock:
            if self._state != "open" or os.getpid() != self._pid:
                raise InboxError(
                    str(self._fault)
                    if self._fault is not None
                    else f"the inbox {self._path} is not open here; use it inside its `async with` block"
                )
            self._jobs.append(job)
            is_waiting, self._is_waiting = self._is_waiting, False
        if is_waiting:
            self._wake()

    def stop(self) -> None:
        """Do what is left to be done, and close the file; blocking."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._state != "open":
                return
            self._state = "closed"
            self._is_waiting = False
        self._wake()
        self._thread.join()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # it is awake already, or has just ended
            self._wake_to.send(b"!")

    # -- on the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._open()
        except Exception as error:
            self._fault = self._told(error, "opened")
            self._close()
            return
        finally:
            self._opened.set()
        try:
            self._work()
        except Exception as error:
            self._fault = self._told(error, "used")
            _logger.log(
                logging.ERROR, "%s", self._fault, exc_info=None if isinstance(error, InboxError) else error
            )
        finally:
            with self._lock:
                self._state = "closed"
                left, self._jobs = [*self._in_hand, *self._put_off, *self._jobs], deque()
            for job in left:
                job.done(None, self._fault or InboxError(f"the inbox {self._path} is closed"))
            self._close()
            self._hub.end()

    def _open(self) -> None:
        self._connection = self._connect()
        self._file = self._identity()
        self._tables = SqliteTables(self._connection)
        self.ledger = self._make_ledger(self._tables)
        try:
            self._bell = Bell(self._folder)
        except OSError as error:
            _logger.warning(
                "no doorbell for the inbox %s (%s): news from other processes takes a second",
                self._path,
                error,
            )
        self._ringer = Ringer(self._folder, self._bell.name if self._bell is not None else None)
        self._data_version = self._version()
        self._hub.start(self._tables.last_seq(), self._tables.find_leases())
        self._position = self._tables.last_position()
        self._sweep()

    def _close(self) -> None:
        for each in (self._bell, getattr(self, "_ringer", None), getattr(self, "_connection", None)):
            if each is not None:
                each.close()
        self._wake_from.close()
        self._wake_to.close()

    def _work(self) -> None:
        poll = select.poll()
        poll.register(self._wake_from, select.POLLIN)
        if self._bell is not None:
            poll.register(self._bell.socket, select.POLLIN)
        tick = time.monotonic() + _TICK_S
        while True:
            with self._lock:
                jobs = [self._jobs.popleft() for _ in range(min(len(self._jobs), _BATCH))]
                is_last = not jobs and self._state != "open"
                if is_last and not self._put_off:
                    return
                self._is_waiting = not jobs and not is_last
            if self._put_off and (is_last or any(job.writes for job in jobs)):  # in order
                put_off, self._put_off = self._put_off, []
                jobs = [*(evolve(job, insists=not is_last) for job in put_off), *jobs]
            if jobs:
                self._carry_out(jobs)
            else:
                wait = max(0.0, min(tick, self._look_at) - time.monotonic())
                ready = {ready for ready, _ in poll.poll(math.ceil(wait * 1000))}
                if self._wake_from.fileno() in ready:
                    self._wake_from.recv(64)
                is_rung = self._bell is not None and self._bell.socket.fileno() in ready
                if is_rung and not self._guarded(self._hear):
                    self._look_at = 0.0
            if time.monotonic() >= self._look_at:
                self._look_at = math.inf
                self._guarded(self._look)
            if time.monotonic() >= tick:
                tick = time.monotonic() + _TICK_S
                self._must_be_there()
                self._try_again()
                self._guarded(self._look)
                self._guarded(self._sweep)

    def _guarded(self, step: Callable[[], object]) -> bool:
        """Do what nobody waits for, and tell whether it was done; else it is tried again a second later."""
        try:
            step()
        except sqlite3.Error as error:
            _logger.warning("the inbox %s: %s", self._path, error)
        except Exception as error:
            if repr(error) != self._unreadable:  # once, and not every second
                self._unreadable = repr(error)
                _logger.exception("the inbox %s holds what cannot be read", self._path)
        else:
            return True
        return False

    def _try_again(self) -> None:
        put_off, self._put_off = self._put_off, []
        if put_off:
            self._carry_out(put_off)

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)  # noqa: PTH116 - at each commit
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _must_be_there(self) -> None:
        """Go on only while the file is the one that others open: SQLite would write to one that is gone, too."""
        if self._identity() != self._file:
            raise InboxError("was removed or replaced while it was in use; start this again")

    def _carry_out(self, jobs: Sequence[Job]) -> None:
        self._in_hand.extend(jobs)
        self._must_be_there()
        writes = any(job.writes for job in jobs)
        results: list[tuple[Any, Exception | None]] = []
        may_pass = is_behind = is_to_be_read_again = False
        try:
            self._connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            try:
                version = self._version()
                is_behind = version != self._data_version
                if is_behind:
                    self._keep_up()
                results.extend(self._outcome(job, alone=len(jobs) == 1) for job in jobs)
                self._connection.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise
        except Exception as error:
            fault = self._told(error, "written" if writes else "read")
            may_pass = isinstance(error, sqlite3.OperationalError)
            is_to_be_read_again = may_pass and writes and not all(job.writes for job in jobs)
            results = [(None, fault)] * len(jobs)
            writes = False
        if writes:
            self._ringer.ring(partial(_said, self._tables.news))
            # First: a caller finds what it did in the hub, too.
            self._guarded(lambda: self._tell_own(is_behind=is_behind))
        for job, (result, fault_) in zip(jobs, results, strict=True):
            if may_pass and job.insists:
                _logger.warning("%s; it is tried again", fault_)
                self._put_off.append(job)
            elif job.writes or not is_to_be_read_again:
                job.done(result, fault_)
            self._in_hand.popleft()
        if is_behind:
            self._look_soon()
        if is_to_be_read_again:  # what others cannot write is no reason not to read
            self._carry_out([job for job in jobs if not job.writes])

    def _outcome(self, job: Job, *, alone: bool) -> tuple[Any, Exception | None]:
        """Do a job; where it raises, what it wrote is taken back and the others' stays."""
        if not job.writes:
            return self._done(job)
        news = self._tables.news
        told, position = len(news.changes), news.position
        if alone:
            result, error = self._done(job)
            if error is not None:
                self._connection.execute("ROLLBACK")
                self._connection.execute("BEGIN")  # for the commit that follows
        else:
            self._connection.execute("SAVEPOINT job")
            result, error = self._done(job)
            if error is not None:
                self._connection.execute("ROLLBACK TO job")
            self._connection.execute("RELEASE job")
        if error is not None:
            self._tables.forget()
            del news.changes[told:]
            del news.rows[told:]
            news.position = position
        return result, error

    def _done(self, job: Job) -> tuple[Any, Exception | None]:
        try:
            return job.operation(self.ledger, *job.args), None
        except sqlite3.Error:
            raise  # the file's fault, and so everybody's
        except Exception as error:
            return None, error

    def _hear(self) -> None:
        """Tell the hub at once what rings say, where it comes next; the rest is for a look."""
        assert self._bell is not None
        for said in self._bell.heard():
            rows = _rows(said)
            if rows and rows[0][0] == self._hub.last + 1:
                with contextlib.suppress(LookupError):  # it is gone again
                    self._hub.told(self._tables.take(rows))
                    self._look_soon()
                    continue
            self._look_at = 0.0

    def _look_soon(self) -> None:
        """Look once those who were told have begun: nobody waits for the rest of the news."""
        self._look_at = min(self._look_at, time.monotonic() + _SOON_S)

    def _look(self) -> None:
        """Tell the hub where another process has committed something."""
        self._connection.execute("BEGIN")  # so that the version is that of what is read
        try:
            self._catch_up()  # before anything else: somebody may be waiting for it
            version = self._version()
            if version != self._data_version:
                position = self._tables.last_position()
                logged = self._tables.logged_after(self._position) if position != self._position else ()
                self._hub.told(logged=logged, leases=self._tables.find_leases())
                self._position, self._data_version = position, version
            self._unreadable = ""
        finally:
            if self._connection.in_transaction:
                self._connection.execute("COMMIT")

    def _catch_up(self) -> None:
        """Tell the hub, and have the tables keep in mind, what others have changed."""
        self._tables.forget_hosts()
        while True:
            changes = self._tables.catch_up(self._hub.last, _PAGE)
            if changes is None:
                self._tables.forget()
                self._hub.restart(self._tables.last_seq())
                return
            self._hub.told(changes)
            if len(changes) < _PAGE:
                return

    def _keep_up(self) -> None:
        """Catch up within a transaction; where that cannot be done, what is to be done there is read from the file."""
        if self._guarded(self._catch_up):
            return
        self._tables.forget()
        if not self._connection.in_transaction:  # as some faults of a disk's end it
            raise sqlite3.OperationalError("what has changed there cannot be read")

    def _tell_own(self, *, is_behind: bool) -> None:
        """Tell the hub what was committed here last.

        Args:
            is_behind: whether others' events, up to these, are still to be told.
        """
        news, self._tables.news = self._tables.news, News()
        if news.changes and news.changes[0].seq != self._hub.last + 1:  # what was before could not be told
            self._look()
        self._hub.told(news.changes)
        if news.logged:
            self._hub.told(logged=news.logged)
        if news.position is not None and not is_behind:
            self._position = news.position
        if news.leases:
            self._hub.told(leases=self._tables.find_leases())

    def _sweep(self) -> None:
        """Take in that hosts have died."""
        if not self.ledger.has_lost_hosts():
            return
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._keep_up()
            self.ledger.sweep()
            self._connection.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        self._ringer.ring(partial(_said, self._tables.news))
        self._tell_own(is_behind=True)

    def _roll_back(self) -> None:
        self._tables.forget()
        self._tables.news = News()
        if self._connection.in_transaction:  # a full disk has ended it already
            self._connection.execute("ROLLBACK")

    def _version(self) -> int:
        version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        return version

    def _told(self, error: Exception, verb: str) -> InboxError:
        """Return an error of the file's as what a caller is told."""
        if isinstance(error, InboxError):
            return InboxError(f"{self._path} {error}")
        if isinstance(error, sqlite3.Error) and _code(error) == sqlite3.SQLITE_BUSY:
            why = "another process has been in the middle of writing it for too long; try again, or end that one"
        else:
            why = error.strerror if isinstance(error, OSError) and error.strerror else inert_line(str(error))
        return InboxError(f"the inbox {self._path} cannot be {verb}: {why}")


def _said(news: News) -> bytes:
    """Return what a ring says of news."""
    return json.dumps(news.rows).encode() if news.rows else b""


def _rows(said: bytes) -> list[Row]:
    """Return what a ring says; nothing where it is cut off, or another's."""
    try:
        rows = json.loads(said)
        return [(int(seq), str(kind), str(key), str(body)) for seq, kind, key, body in rows]
    except (ValueError, TypeError, OverflowError, RecursionError):
        return []


def _code(error: Exception) -> int:
    """Return SQLite's primary result code, 0 where it is not SQLite that raised the error."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
