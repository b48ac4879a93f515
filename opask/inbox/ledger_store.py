"""`Store` on a ledger: what the stores of this package share, whatever runs the ledger's transactions for them."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

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
from opask.inbox.hub import AskWatch, EventWatch, Hub, Watch
from opask.inbox.ledger import Ledger
from opask.inbox.refusals import RefusedError
from opask.inbox.store import Host
from opask.outcomes import Outcome
from opask.questions import Ask

__all__ = ["LedgerStore"]

T = TypeVar("T")
_logger = logging.getLogger("opask.inbox")


class LedgerStore(ABC):
    """Implements `Store`; a subclass opens its tables, runs transactions on them and tells the hub of each.

    Attributes:
        id: see `Store`.
    """

    id: str
    _hub: Hub

    @abstractmethod
    async def join(self) -> Host:
        """Take a host's place."""

    @abstractmethod
    async def _read(self, operation: Callable[..., T], *args: Any) -> T:
        """Run an operation of the ledger, a function of it, that writes nothing."""

    @abstractmethod
    async def _write(self, operation: Callable[..., T], *args: Any) -> T:
        """Run an operation of the ledger in a transaction; once begun, it is seen to its end."""

    @abstractmethod
    def _write_soon(
        self,
        operation: Callable[..., object],
        *args: Any,
        done: Callable[[Exception | None], object],
        insists: bool = False,
    ) -> None:
        """Do so without waiting, from any thread; one that insists is tried again where it cannot be stored for now."""

    # -- asks ------------------------------------------------------------------------------------------------------

    async def put(
        self,
        ask: Ask,
        host_id: str,
        *,
        runtime: str | None = None,
        latest: datetime | None = None,
        siblings_running: int | None = None,
    ) -> Entry:
        """See `Store.put`."""
        return await self._write(Ledger.put, ask, host_id, runtime, latest, siblings_running)

    async def resolve(
        self,
        ask_id: str,
        reply: OperatorReply | ReadsReply,
        *,
        session_id: str | None = None,
        by: str | None = None,
    ) -> Entry:
        """See `Store.resolve`."""
        if callable(reply):
            reply = partial(_read, reply)
        try:
            result = await self._write(Ledger.resolve, ask_id, reply, session_id, by)
        except _UnreadError as unread:
            error = unread.error
        else:
            return _taken(result)
        raise error

    async def extend(self, ask_id: str, until: datetime) -> Entry:
        """See `Store.extend`."""
        return _taken(await self._write(Ledger.extend, ask_id, until))

    async def settle(self, ask_id: str, outcome: Outcome) -> Entry:
        """See `Store.settle`."""
        return await self._write(Ledger.settle, ask_id, outcome)

    def settle_soon(self, ask_id: str, outcome: Outcome) -> None:
        """See `Store.settle_soon`."""

        def done(error: Exception | None) -> None:
            if error is not None:
                _logger.error("how ask %s ended could not be stored: %s", ask_id, error)

        self._write_soon(Ledger.settle, ask_id, outcome, done=done, insists=True)

    async def entry(self, ask_id: str) -> Entry:
        """See `Store.entry`."""
        return await self._read(Ledger.entry, ask_id)

    async def entries(
        self,
        *,
        session_id: str | None = None,
        states: Iterable[State] | None = None,
        limit: int | None = None,
        before: int | None = None,
    ) -> tuple[Entry, ...]:
        """See `Store.entries`."""
        chosen = None if states is None else frozenset(states)
        return await self._read(Ledger.entries, session_id, chosen, limit, before)

    # -- changes ---------------------------------------------------------------------------------------------------

    async def snapshot(self) -> Snapshot:
        """See `Store.snapshot`."""
        return await self._read(Ledger.snapshot)

    async def changes(self, since: int, *, limit: int = 1000) -> tuple[Change, ...] | None:
        """See `Store.changes`."""
        recent = self._hub.recent(since)
        return await self._read(Ledger.changes, since, limit) if recent is None else recent[:limit]

    def watch(self, since: int | None = None) -> Watch:
        """See `Store.watch`."""
        return Watch(self._hub, self.snapshot, lambda after, limit: self.changes(after, limit=limit), since)

    def watch_ask(self, ask_id: str) -> AskWatch:
        """See `Store.watch_ask`."""
        return AskWatch(self._hub, ask_id, self.entry)

    # -- presence --------------------------------------------------------------------------------------------------

    async def renew(
        self,
        lease_id: str,
        surface: str,
        *,
        lasts: timedelta = timedelta(seconds=30),
        session_ids: Iterable[str] | None = None,
    ) -> Lease:
        """See `Store.renew`."""
        covered = None if session_ids is None else frozenset(session_ids)
        return await self._write(Ledger.renew, lease_id, surface, lasts, covered)

    async def leave(self, lease_id: str) -> None:
        """See `Store.leave`."""
        await self._write(Ledger.leave, lease_id)

    async def leases(self) -> tuple[Lease, ...]:
        """See `Store.leases`."""
        return await self._read(Ledger.leases)

    def present_until(self, session_id: str) -> datetime | None:
        """See `Store.present_until`."""
        return self._hub.present_until(session_id)

    # -- sessions and their events -----------------------------------------------------------------------------------

    async def begin_session(
        self, session_id: str, host_id: str, *, runtime: str = "", title: str = ""
    ) -> InboxSession:
        """See `Store.begin_session`."""
        return await self._write(Ledger.begin_session, session_id, host_id, runtime, title)

    async def end_session(self, session_id: str) -> InboxSession:
        """See `Store.end_session`."""
        return await self._write(Ledger.end_session, session_id)

    async def session(self, session_id: str) -> InboxSession:
        """See `Store.session`."""
        return await self._read(Ledger.session, session_id)

    async def sessions(self) -> tuple[InboxSession, ...]:
        """See `Store.sessions`."""
        return await self._read(Ledger.sessions)

    async def clear_session(self, session_id: str) -> None:
        """See `Store.clear_session`."""
        await self._write(Ledger.clear_session, session_id)

    async def append(self, session_id: str, events: Sequence[Mapping[str, Any]]) -> None:
        """See `Store.append`."""
        await self._write(Ledger.append, session_id, events)

    def append_soon(
        self,
        session_id: str,
        events: Sequence[Mapping[str, Any]],
        done: Callable[[Exception | None], object] | None = None,
    ) -> None:
        """See `Store.append_soon`."""
        self._write_soon(Ledger.append, session_id, events, done=done or _ignored)

    async def events(
        self, session_id: str, *, after: int = 0, limit: int | None = None
    ) -> tuple[LoggedEvent, ...]:
        """See `Store.events`."""
        return await self._read(Ledger.events, session_id, after, limit)

    def watch_events(self, session_id: str, *, after: int = 0) -> EventWatch:
        """See `Store.watch_events`."""
        return EventWatch(
            self._hub,
            session_id,
            after,
            lambda of, behind, limit: self.events(of, after=behind, limit=limit),
        )

    async def prune(self, before: datetime) -> int:
        """See `Store.prune`."""
        return await self._write(Ledger.prune, before)


class _UnreadError(Exception):
    """Brings what the reader of a reply raised to whoever gave it, past what would take it for the store's own."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


def _read(reads: ReadsReply, ask: Ask) -> OperatorReply:
    try:
        return reads(ask)
    except BaseException as error:  # not even an exit ends the store's thread
        raise _UnreadError(error) from None


def _taken(result: Entry | RefusedError) -> Entry:
    if isinstance(result, RefusedError):
        raise result
    return result


def _ignored(error: Exception | None) -> None:
    if error is not None:
        _logger.error("events could not be stored: %s", error)
