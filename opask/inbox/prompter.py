"""The prompter that puts asks into an inbox and waits there for the operator."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

import anyio
import anyio.lowlevel

from opask.inbox.entries import Entry
from opask.inbox.ledger import utc_now
from opask.inbox.recorder import Recorder
from opask.inbox.refusals import InboxError
from opask.inbox.store import Host, Store
from opask.inert import shorten
from opask.outcomes import Outcome, Reply, Unavailable
from opask.prompter import current_wait
from opask.questions import Ask

__all__ = ["InboxPrompter", "WhenAbsent"]

WhenAbsent: TypeAlias = Literal["unavailable", "hold", "attach"]
"""What to do where no surface is watching:

- ``unavailable``: a session that is launched then gets no ask tool, and a question ends as unavailable;
- ``hold``: a session that is launched then gets no ask tool, but one that was launched before holds its questions
  until their deadline;
- ``attach``: the inbox itself is enough: the tool is attached and questions are held until their deadline.
"""

_logger = logging.getLogger("opask.inbox")
_NAME_LENGTH: Final = 60


class InboxPrompter:
    """Puts asks into a store; implements `opask.Prompter`.

    Open it in the host, around the bridge, so that it hears how the last asks ended::

        async with SqliteStore(path) as store, InboxPrompter(store) as prompter, Bridge() as bridge:
            async with prompter.session("s1", runtime="claude", title=prompt) as recorder:
                session = await bridge.attach("s1", adapter("claude"), prompter)
                session.subscribe(recorder)

    Args:
        store: the inbox.
        when_absent: what to do where no surface is watching.
        grace: how long after the last surface left its operator counts as there: a page may be reloaded.
        clock: gives the time (aware, UTC).
    """

    def __init__(
        self,
        store: Store,
        *,
        when_absent: WhenAbsent = "unavailable",
        grace: timedelta = timedelta(seconds=10),
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._store = store
        self._when_absent = when_absent
        self._grace = grace
        self._clock = clock
        self._host: Host | None = None
        self._seen: dict[str, datetime] = {}  # until when somebody is known to have seen a session
        self._put: set[str] = set()
        self._recorders: dict[str, Recorder] = {}

    async def __aenter__(self) -> Self:
        self._host = await self._store.join()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._host is not None:
            try:
                with anyio.CancelScope(shield=True):
                    await self._store.leases()  # behind whatever `settled` has left to be done
            except InboxError as fault:
                _logger.warning("how the last asks ended may not be in the inbox: %s", fault)
            finally:
                self._host.release()

    @property
    def any_loop(self) -> bool:
        """Whether `ask` may run on any event loop; see `opask.Prompter`. A subclass runs on the host's."""
        return type(self) is InboxPrompter

    @property
    def host_id(self) -> str:
        """The host's place in the store.

        Raises:
            InboxError: the prompter is not open.
        """
        if self._host is None:
            raise InboxError("open the prompter first: async with InboxPrompter(store) as prompter")
        return self._host.id

    @asynccontextmanager
    async def session(
        self, session_id: str, *, runtime: str = "", title: str = "", limit: int = 10_000
    ) -> AsyncIterator[Recorder]:
        """Enter a session in the inbox while the block lasts.

        Args:
            session_id: the host's id of it.
            runtime: the runtime's name.
            title: what it is about, its first prompt as a rule.
            limit: how many events may wait to be stored; see `Recorder`.

        Returns:
            What records its events: ``session.subscribe(recorder)``.

        Raises:
            InboxError: another host runs a session of this id.
        """
        await self._store.begin_session(session_id, self.host_id, runtime=runtime, title=title)
        recorder = self._recorders[session_id] = Recorder(self._store, session_id, limit=limit)
        try:
            yield recorder
        finally:
            if self._recorders.get(session_id) is recorder:  # and not a session's that took the id up again
                del self._recorders[session_id]
            try:
                with anyio.CancelScope(shield=True):
                    await recorder.flush()
                    await self._store.end_session(session_id)
            except InboxError as error:  # what the session did is done all the same
                _logger.warning(
                    "the end of session %s is not in the inbox: %s", shorten(session_id, _NAME_LENGTH), error
                )
            self._seen.pop(session_id, None)

    # -- the prompter ------------------------------------------------------------------------------------------------

    async def ask(self, ask: Ask, /) -> Reply:
        """Put the ask into the inbox and wait for an operator's decision, which is durable by then."""
        wait = current_wait()
        host_id = self.host_id
        recorder = self._recorders.get(ask.session_id)
        await anyio.lowlevel.checkpoint_if_cancelled()
        self._put.add(ask.id)
        try:
            entry = await self._store.put(
                ask,
                host_id,
                latest=ask.deadline if wait is None else wait.latest,
                siblings_running=None if recorder is None else recorder.siblings_of(ask.id),
            )
        except Exception:
            self._put.discard(ask.id)
            raise
        seen = self._last_seen(ask.session_id) or self._clock()
        deadline = entry.deadline
        updates = self._store.watch_ask(ask.id)
        while True:
            seen = self._last_seen(ask.session_id) or seen
            with anyio.move_on_after(self._patience(seen)) as scope:
                entry = await anext(updates)
            if scope.cancelled_caught:
                if self._is_absent(ask.session_id, seen):
                    return Unavailable("nobody is watching the inbox any more")
                continue
            reply = _reply(entry)
            if reply is not None:
                return reply
            if wait is not None and entry.deadline is not None and entry.deadline != deadline:
                wait.extend(deadline := entry.deadline)

    def settled(self, ask: Ask, outcome: Outcome, /) -> None:
        """Store how the ask ended: an answer as delivered where it reached the agent, else as undelivered."""
        if ask.id in self._put:
            self._put.discard(ask.id)
            self._store.settle_soon(ask.id, outcome)

    def available(self, session_id: str, /) -> bool:
        """Tell whether an operator is watching, or need not be."""
        if self._when_absent == "attach":
            return True
        seen = self._last_seen(session_id)
        if seen is None:
            return False
        return self._when_absent == "hold" or self._clock() < seen + self._grace

    def _last_seen(self, session_id: str) -> datetime | None:
        """Return until when somebody can see a session's questions, or when the last one was seen to be gone."""
        present = self._store.present_until(session_id)
        seen = self._seen.get(session_id)
        if present is None and seen is not None:
            present = min(seen, self._clock())  # lapsed, or ended before it did
        if present is not None:
            self._seen[session_id] = present
        return present

    def _patience(self, seen: datetime) -> float:
        """Return how many seconds an ask waits before it looks whether anybody is watching."""
        if self._when_absent != "unavailable":
            return math.inf
        return max(0.0, (seen + self._grace - self._clock()).total_seconds())

    def _is_absent(self, session_id: str, seen: datetime) -> bool:
        present = self._store.present_until(session_id)
        return present is None and self._clock() >= seen + self._grace


def _reply(entry: Entry) -> Reply | None:
    """Return what the agent is to be told of an entry; None while it waits."""
    if entry.reply is not None:
        return entry.reply
    if entry.is_open:
        return None
    return Unavailable(entry.reason or f"the ask is {entry.state} in the inbox")
