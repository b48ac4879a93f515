"""Several stores on one file, as processes have it: whatever one of them keeps in mind is what the file holds."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup
from anyio.from_thread import BlockingPortal, start_blocking_portal
from attrs import Factory, define
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from inbox_peers import Clock, ask_of, first, second
from opask import Abandoned, Cancelled, OpaskError, Outcome, Skipped
from opask.inbox import Change, Host, LoggedEvent, OperatorReply, Snapshot, SqliteStore, UnknownSessionError
from opask.inbox.ledger import Ledger
from opask.inbox.sqlite_tables import SqliteTables

T = TypeVar("T")
STORES = 3
ASKS = [f"q{number}" for number in range(6)]
SESSIONS = ["s1", "s2"]
ACTIONS = [
    *("put", "resolve", "settle", "extend", "begin", "end", "append"),
    *("renew", "leave", "clear", "prune", "wait", "die"),
]
ENDS: list[Outcome] = [first(), Skipped("op"), Cancelled("host"), Abandoned("agent")]
DECISIONS: list[OperatorReply] = [first(), second(), Skipped("op"), Cancelled("operator")]


@define(eq=False)
class Seat:
    """One of the stores, with its hosts and what was heard there."""

    store: SqliteStore
    hosts: list[Host] = Factory(list)
    begun: int = 0
    seen: list[Change] = Factory(list)
    logged: dict[str, list[LoggedEvent]] = Factory(lambda: {session_id: [] for session_id in SESSIONS})
    more: anyio.Event = Factory(anyio.Event)

    def heard(self) -> None:
        """Wake whoever waits for more to be heard."""
        self.more.set()
        self.more = anyio.Event()


@asynccontextmanager
async def _cancelled_at_end() -> AsyncIterator[TaskGroup]:
    async with anyio.create_task_group() as tasks:
        yield tasks
        tasks.cancel_scope.cancel()


def _view(ledger: Ledger) -> tuple[object, ...]:
    """Return what is to be seen, by every way that there is to it."""
    found = {entry.id: entry for entry in ledger.entries(None, None, None, None)}
    assert all(ledger.entry(ask_id) == entry for ask_id, entry in found.items())
    sessions = ledger.sessions()
    for session_id in SESSIONS:
        with suppress(UnknownSessionError):
            assert ledger.session(session_id) in sessions
    events = [ledger.events(session_id, 0, None) for session_id in SESSIONS]
    return found, sessions, events, ledger.snapshot(), ledger.changes(0, 10_000), ledger.leases()


class SharedFile(RuleBasedStateMachine):
    """Does anything through any of the stores, one after the other or at once."""

    @initialize()
    def open(self) -> None:
        """Open the stores, and a connection of no store's."""
        self.stack = ExitStack()
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="opask-test-")))
        self.portal: BlockingPortal = self.stack.enter_context(start_blocking_portal("asyncio"))
        self.tasks: TaskGroup = self.stack.enter_context(
            self.portal.wrap_async_context_manager(_cancelled_at_end())
        )
        self.clock = Clock()
        self.file = folder / "inbox.db"
        self.seats: list[Seat] = [self._seat() for _ in range(STORES)]
        self.raw = sqlite3.connect(self.file, isolation_level=None)
        self.stack.callback(self.raw.close)

    def _seat(self) -> Seat:
        seat = Seat(SqliteStore(self.file, clock=self.clock))
        seat.store.open()

        async def begin() -> None:
            seat.begun = (await seat.store.snapshot()).seq
            self.tasks.start_soon(self._watch, seat)
            for session_id in SESSIONS:
                self.tasks.start_soon(self._watch_events, seat, session_id)
            seat.hosts.append(await seat.store.join())

        self.portal.call(begin)
        return seat

    async def _watch(self, seat: Seat) -> None:
        with suppress(OpaskError):  # closed
            async for update in seat.store.watch(seat.begun):
                if isinstance(update, Snapshot):  # the changes up to there were pruned
                    seat.begun = update.seq
                    seat.seen.clear()
                else:
                    seat.seen.append(update)
                seat.heard()

    async def _watch_events(self, seat: Seat, session_id: str) -> None:
        with suppress(OpaskError):
            async for logged in seat.store.watch_events(session_id):
                seat.logged[session_id].append(logged)
                seat.heard()

    def do(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Do something on the loop."""
        return self.portal.call(function, *args)

    # -- what happens ------------------------------------------------------------------------------------------------

    actions = st.tuples(
        st.integers(0, STORES - 1),
        st.sampled_from(ACTIONS),
        st.sampled_from(ASKS),
        st.sampled_from(SESSIONS),
        st.integers(0, 3),
    )

    @rule(action=actions)
    def one(self, action: tuple[int, str, str, str, int]) -> None:
        """Do one thing."""
        self.do(self._act, *action)

    @rule(several=st.lists(actions, min_size=2, max_size=12))
    def at_once(self, several: list[tuple[int, str, str, str, int]]) -> None:
        """Do several things at once."""

        async def act() -> None:
            async with anyio.create_task_group() as tasks:
                for action in several:
                    tasks.start_soon(self._act, *action)

        self.do(act)

    @rule(at=st.integers(0, STORES - 1))
    def reopen(self, at: int) -> None:
        """Let a process end, and another one come."""
        self.seats[at].store.close()
        self.seats[at] = self._seat()

    async def _act(self, at: int, what: str, ask_id: str, session_id: str, pick: int) -> None:
        seat = self.seats[at]
        store, host_id = seat.store, seat.hosts[-1].id
        with suppress(OpaskError):  # that it is over, is open, is not there
            match what:
                case "put":
                    await store.put(ask_of(ask_id, session_id, now=self.clock.now), host_id)
                case "resolve":
                    await store.resolve(ask_id, DECISIONS[pick])
                case "settle":
                    await store.settle(ask_id, ENDS[pick])
                case "extend":
                    await store.extend(ask_id, self.clock.now + timedelta(seconds=60 + pick))
                case "begin":
                    await store.begin_session(session_id, host_id, title=f"Title {pick}")
                case "end":
                    await store.end_session(session_id)
                case "append":
                    await store.append(session_id, [{"event": "text", "text": str(n)} for n in range(pick)])
                case "renew":
                    await store.renew(f"lease{pick}", "web")
                case "leave":
                    await store.leave(f"lease{pick}")
                case "clear":
                    await store.clear_session(session_id)
                case "prune":
                    await store.prune(self.clock.now + timedelta(seconds=pick))
                case "wait":
                    self.clock.forward(pick * 10)
                case "die":
                    seat.hosts.append(await store.join())
                    seat.hosts.pop(0).release()

    # -- what must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def all_see_the_same(self) -> None:
        """Each store gives what a fresh look into the file gives."""
        if not hasattr(self, "raw"):
            return
        before: tuple[object, ...] | None = None
        views: list[object] = []
        while before != (fresh := self._fresh()):  # a store may just have taken in that a host is gone
            before = fresh
            views = [self.do(seat.store._read, _view) for seat in self.seats]
        assert views == [fresh] * STORES

    def _fresh(self) -> tuple[object, ...]:
        self.raw.execute("BEGIN")
        try:
            return _view(Ledger(SqliteTables(self.raw), self.clock, lambda _: True))
        finally:
            self.raw.execute("COMMIT")

    def teardown(self) -> None:
        """Whoever watched has seen every change that is in the file, in order and once."""
        if not hasattr(self, "raw"):
            return
        try:
            fresh = SqliteTables(self.raw)
            floor = int(self.raw.execute("SELECT value FROM meta WHERE key = 'floor'").fetchone()[0])
            changes = fresh.find_changes(floor, 10_000)
            assert changes is not None
            events = {session_id: fresh.find_events(session_id, 0, None) for session_id in SESSIONS}
            last = fresh.last_seq()

            async def caught_up(seat: Seat) -> None:
                with anyio.fail_after(30):
                    while not (
                        max(seat.begun, seat.seen[-1].seq if seat.seen else 0) >= last
                        and all(set(events[each]) <= set(seat.logged[each]) for each in SESSIONS)
                    ):
                        await seat.more.wait()

            for seat in self.seats:
                self.do(caught_up, seat)
                numbers = [change.seq for change in seat.seen]
                assert numbers == sorted(set(numbers))
                seen = {change.seq: change for change in seat.seen}
                for change in changes:
                    assert change.seq <= seat.begun or seen[change.seq] == change
                for logged in seat.logged.values():
                    positions = [each.position for each in logged]
                    assert positions == sorted(set(positions))
        finally:
            for seat in self.seats:
                seat.store.close()
            self.stack.close()


TestSharedFile = SharedFile.TestCase
TestSharedFile.settings = settings(
    max_examples=min(settings().max_examples * 2 // 5, 400), stateful_step_count=25
)
