"""What a prompter, a surface and a command line ask of an inbox's store, and what is atomic about it.

Each operation that changes something is one transaction: it reads what it depends on, checks it, and writes what it
changes together with the numbered change, so that whoever reads the store, in whichever process, sees all of it or
none. Of two that meet, one comes wholly first. When it returns, what it did outlives the process and, in a store on
disk, the machine. Watchers are told after that and never before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, runtime_checkable

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
    Update,
)
from opask.outcomes import Outcome
from opask.questions import Ask

__all__ = ["Host", "Store"]


class Host(Protocol):
    """A host's place in a store: as long as it is held, what the host asked is waited for.

    Attributes:
        id: the store's name for it.
    """

    id: str

    def release(self) -> None:
        """Give the place up: whatever is still open there is orphaned or undelivered, for everybody. Idempotent.

        The death of the process does the same.
        """
        ...


@runtime_checkable
class Store(Protocol):
    """An inbox: its asks, sessions, events and leases. Async methods may be called on asyncio and trio, on any loop.

    Attributes:
        id: the inbox's own id, which a change's number is worth nothing without.
    """

    id: str

    # -- asks ------------------------------------------------------------------------------------------------------

    async def join(self) -> Host:
        """Take a host's place."""
        ...

    async def put(
        self,
        ask: Ask,
        host_id: str,
        *,
        runtime: str | None = None,
        latest: datetime | None = None,
        siblings_running: int | None = None,
    ) -> Entry:
        """Put an ask into the inbox, pending; the same id of the same session again gives what became of it.

        Args:
            ask: the ask; its session is made where there is none yet.
            host_id: the host that waits for the answer.
            runtime: the runtime's name; by default the session's.
            latest: the latest that the deadline may be moved to; None for no bound.
            siblings_running: how many other calls of the agent run on meanwhile; None where that is not known.

        Raises:
            WrongSessionError: another session has an ask of this id.
            InboxError: the host has no place here.
        """
        ...

    async def resolve(
        self,
        ask_id: str,
        reply: OperatorReply | ReadsReply,
        *,
        session_id: str | None = None,
        by: str | None = None,
    ) -> Entry:
        """Take an operator's decision: the first valid one wins, whichever processes they come from.

        Args:
            ask_id: the ask.
            reply: the answers, the skip, or the operator's cancel; or a function that reads it against the ask, which
                must not block, may run in another thread, and whose error is raised here.
            session_id: the session that the surface showed the ask in, to be held against the ask's.
            by: who decided; by default as the reply says.

        Returns:
            The entry: ``answered``, ``skipped`` or ``cancelled``; durable, so that nothing takes it back.

        Raises:
            UnknownAskError, WrongSessionError, AlreadyResolvedError, TooLateError, AnswerMisfitError: it was not
                taken, and the ask is as it was.
        """
        ...

    async def extend(self, ask_id: str, until: datetime) -> Entry:
        """Move an ask's deadline later, up to its ``latest``; see the entry's ``deadline`` for how far.

        Raises:
            UnknownAskError, AlreadyResolvedError, TooLateError: nobody waits for it any more.
        """
        ...

    async def settle(self, ask_id: str, outcome: Outcome) -> Entry:
        """Take in how an ask ended for its agent, from the host: the first outcome stands.

        Raises:
            UnknownAskError: there is none.
        """
        ...

    def settle_soon(self, ask_id: str, outcome: Outcome) -> None:
        """Do as `settle` without waiting, from any thread; in order, and done by the time the store is closed."""
        ...

    async def entry(self, ask_id: str) -> Entry:
        """Return one ask.

        Raises:
            UnknownAskError: there is none.
        """
        ...

    async def entries(
        self,
        *,
        session_id: str | None = None,
        states: Iterable[State] | None = None,
        limit: int | None = None,
        before: int | None = None,
    ) -> tuple[Entry, ...]:
        """Return asks, oldest first: the history.

        Args:
            session_id: of this session alone.
            states: in these states alone.
            limit: the youngest so many of them.
            before: of those with a lower `Entry.number`, to read on backwards.
        """
        ...

    # -- changes ---------------------------------------------------------------------------------------------------

    async def snapshot(self) -> Snapshot:
        """Return all that is open."""
        ...

    async def changes(self, since: int, *, limit: int = 1000) -> tuple[Change, ...] | None:
        """Return the changes after a number, oldest first; None where that is not known any more, or not yet."""
        ...

    def watch(self, since: int | None = None) -> AsyncIterator[Update]:
        """Give every change, without end and without a gap.

        Args:
            since: go on after this number. Where that cannot be, or it is None, a `Snapshot` comes first.

        It may be left at any time and needs no closing; each is for one task.
        """
        ...

    def watch_ask(self, ask_id: str) -> AsyncIterator[Entry]:
        """Give one ask as it is, and then as it becomes whenever it changes or the leases do; never ends by itself.

        Raises:
            UnknownAskError: there is none.
        """
        ...

    # -- presence --------------------------------------------------------------------------------------------------

    async def renew(
        self,
        lease_id: str,
        surface: str,
        *,
        lasts: timedelta = timedelta(seconds=30),
        session_ids: Iterable[str] | None = None,
    ) -> Lease:
        """Say that an operator can see questions on a surface for so long from now; `attend` keeps it up."""
        ...

    async def leave(self, lease_id: str) -> None:
        """End a lease, if it is there."""
        ...

    async def leases(self) -> tuple[Lease, ...]:
        """Return the leases that have not lapsed."""
        ...

    def present_until(self, session_id: str) -> datetime | None:
        """Return until when somebody can see a session's questions; None where nobody can now. Never blocks.

        Of another process's leases it is right within a second or so of what the store holds.
        """
        ...

    # -- sessions and their events -----------------------------------------------------------------------------------

    async def begin_session(
        self, session_id: str, host_id: str, *, runtime: str = "", title: str = ""
    ) -> InboxSession:
        """Enter a session, or take one up again that has ended; what was logged of it stays.

        Raises:
            InboxError: another host runs it.
        """
        ...

    async def end_session(self, session_id: str) -> InboxSession:
        """Take in that a session has ended, if it has not.

        Raises:
            UnknownSessionError: there is none.
        """
        ...

    async def session(self, session_id: str) -> InboxSession:
        """Return one session.

        Raises:
            UnknownSessionError: there is none.
        """
        ...

    async def sessions(self) -> tuple[InboxSession, ...]:
        """Return all sessions, oldest first."""
        ...

    async def clear_session(self, session_id: str) -> None:
        """Forget a conversation: its events and its cards.

        Raises:
            UnknownSessionError: there is none.
            OpenAsksError: some of its asks are open; decide them first.
        """
        ...

    async def append(self, session_id: str, events: Sequence[Mapping[str, Any]]) -> None:
        """Append events in their JSON form to a session's log.

        Raises:
            UnknownSessionError: there is none.
        """
        ...

    def append_soon(
        self,
        session_id: str,
        events: Sequence[Mapping[str, Any]],
        done: Callable[[Exception | None], object] | None = None,
    ) -> None:
        """Do as `append` without waiting, from any thread.

        Args:
            session_id: the session.
            events: the events.
            done: called when they are in the store or cannot be, from a thread of the store's; must not block.
        """
        ...

    async def events(
        self, session_id: str, *, after: int = 0, limit: int | None = None
    ) -> tuple[LoggedEvent, ...]:
        """Return a session's events behind a position, oldest first."""
        ...

    def watch_events(self, session_id: str, *, after: int = 0) -> AsyncIterator[LoggedEvent]:
        """Give a session's events behind a position, and then each that comes; never ends by itself."""
        ...

    async def prune(self, before: datetime) -> int:
        """Forget the asks that were over, and the conversations that had ended, before a time; return how many asks."""
        ...
