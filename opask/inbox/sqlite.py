"""An inbox in a file, for several processes: hosts, web servers, command lines."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from opask.inbox.engine import Engine, Job
from opask.inbox.hub import Hub
from opask.inbox.ledger import Ledger, new_id, utc_now
from opask.inbox.ledger_store import LedgerStore
from opask.inbox.places import Place, forget_place, is_held
from opask.inbox.refusals import InboxError
from opask.inbox.schema import prepare
from opask.inbox.sqlite_tables import SqliteTables

__all__ = ["SqliteStore", "default_path"]

T = TypeVar("T")
_MAGIC: Final = b"SQLite format 3\0"  # what every SQLite file begins with
_FOLDER_SUFFIX: Final = ".d"
_BUSY_MS: Final = 10_000


def default_path() -> Path:
    """Return the user's own inbox: ``opask/inbox.db`` in the state folder of the XDG base directory specification.

    Raises:
        InboxError: this user has no home folder.
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    try:
        base = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        raise InboxError("this user has no home folder for an inbox; name a file for it") from None
    return base / "opask" / "inbox.db"


class SqliteStore(LedgerStore):
    """An inbox in an SQLite file, open while its ``async with`` block lasts.

    The file is made with mode 0600, and beside it a folder of its name and ``.d`` with mode 0700, for the locks of
    hosts and the doorbells of whoever watches.

    Args:
        path: the file; its folder is made, with mode 0700, where there is none.
        clock: gives the time (aware, UTC); the same for all processes, so only a test has a reason to give one.

    Raises:
        InboxError: (on entering) the file or the folder cannot be used.
    """

    def __init__(self, path: str | os.PathLike[str], *, clock: Callable[[], datetime] = utc_now) -> None:
        self.path = Path(path)
        self.id = ""
        self._clock = clock
        self._hub = Hub(clock)
        self._engine: Engine | None = None
        self._folder = self.path
        self._places: dict[str, Place] = {}

    @property
    def folder(self) -> Path:
        """The private folder beside the file, with mode 0700, once the inbox is open."""
        return self._folder

    # -- opening and closing -----------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.open, limiter=anyio.CapacityLimiter(1))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.close, limiter=anyio.CapacityLimiter(1))

    def open(self) -> None:
        """Open the file, blocking.

        Raises:
            InboxError: it cannot be used.
        """
        if self._engine is not None:
            raise InboxError(f"the inbox {self.path} is open already")
        try:
            self._make()
        except OSError as error:
            raise InboxError(
                f"the inbox {self.path} cannot be opened: {error.strerror or error}; name another file"
            ) from None
        engine = Engine(self.path, self._connect, self._make_ledger, self._folder, self._hub)
        engine.start()
        self._engine = engine

    def close(self) -> None:
        """Do what is left to be done and close the file, blocking; places that are still held are given up."""
        engine, self._engine = self._engine, None
        if engine is None:
            return
        places = list(self._places.values())
        self._places.clear()  # first, so that the sweep finds nobody there
        for place in places:
            place.let_go()
        if places:
            with contextlib.suppress(InboxError):  # it has failed before
                engine.submit(Job(Ledger.sweep, (), writes=True, done=lambda *_: None))
        engine.stop()

    def _make(self) -> None:
        self.path = self.path.absolute()
        if not self.path.parent.is_dir():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self.path = self.path.resolve()  # so that all processes find the same folder beside it
        except RuntimeError:  # as Python 3.11 and 3.12 tell of links that go round in a circle
            raise InboxError(f"the inbox {self.path} is a link to itself; name another file") from None
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            if not self.path.is_file():
                raise InboxError(f"the inbox {self.path} is no file; name another") from None
            with self.path.open("rb") as file:
                begins = file.read(len(_MAGIC))
            if begins and begins != _MAGIC:
                raise InboxError(f"the inbox {self.path} is no database; name another file") from None
        self._folder = self.path.with_name(self.path.name + _FOLDER_SUFFIX)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        found = self._folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise InboxError(
                f"{self._folder} has to be a folder of this user with mode 0700, since it says which hosts are alive; "
                "remove it, or name another inbox"
            )

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=_BUSY_MS / 1000
        )
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            self.id = prepare(connection, new_id("inbox"))
        except BaseException:
            connection.close()
            raise
        return connection

    def _make_ledger(self, tables: SqliteTables) -> Ledger:
        return Ledger(tables, self._clock, self._is_alive, self._forget)

    def _is_alive(self, host_id: str) -> bool:
        return host_id in self._places or is_held(self._folder, host_id)

    def _forget(self, host_id: str) -> None:
        forget_place(self._folder, host_id)

    # -- what the ledger is run by -----------------------------------------------------------------------------------

    async def join(self) -> Place:
        """Take a host's place."""
        place = Place(self._folder, new_id("host"), lambda: self._released(place))
        self._places[place.id] = place
        try:
            await self._write(Ledger.join, place.id)
        except BaseException:
            place.release()
            raise
        return place

    def _released(self, place: Place) -> None:
        self._places.pop(place.id, None)
        if self._engine is not None:
            self._write_soon(Ledger.sweep, done=lambda _: None)

    async def _read(self, operation: Callable[..., T], *args: Any) -> T:
        return await self._call(operation, args, writes=False)

    async def _write(self, operation: Callable[..., T], *args: Any) -> T:
        return await self._call(operation, args, writes=True)

    async def _call(self, operation: Callable[..., T], args: tuple[Any, ...], *, writes: bool) -> T:
        await anyio.lowlevel.checkpoint_if_cancelled()
        caller = _Caller()
        self._opened().submit(Job(operation, args, writes, caller.done))
        if writes:
            with anyio.CancelScope(shield=True):
                await caller.finished.wait()
        else:  # can be left alone
            await caller.finished.wait()
        if caller.error is not None:
            raise caller.error
        result: T = caller.result
        return result

    def _write_soon(
        self,
        operation: Callable[..., object],
        *args: Any,
        done: Callable[[Exception | None], object],
        insists: bool = False,
    ) -> None:
        try:
            job = Job(operation, args, writes=True, done=lambda _, error: done(error), insists=insists)
            self._opened().submit(job)
        except InboxError as error:
            done(error)

    def _opened(self) -> Engine:
        if self._engine is None:
            raise InboxError(f"the inbox {self.path} is not open; use it inside its `async with` block")
        return self._engine


class _Caller:
    """Whoever waits for a job, on its own loop."""

    __slots__ = ("_token", "error", "finished", "result")

    def __init__(self) -> None:
        self._token = anyio.lowlevel.current_token()
        self.finished = anyio.Event()
        self.result: Any = None
        self.error: Exception | None = None

    def done(self, result: Any, error: Exception | None) -> None:
        self.result, self.error = result, error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._token.backend_class.run_sync_soon(self.finished.set, (), self._token.native_token)
