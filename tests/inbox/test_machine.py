"""Any interleaving of put, resolve, extend, settle, expiry, crash and reopening, against a model of the inbox."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from anyio.abc import TaskGroup
from anyio.from_thread import BlockingPortal, start_blocking_portal
from attrs import Factory, define
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from inbox_peers import Clock, Kind, ask_of, first, opened, second
from opask import Abandoned, Answer, Answered, Cancelled, Outcome, Skipped, TimedOut, Unavailable
from opask.inbox import (
    AlreadyResolvedError,
    AnswerMisfitError,
    Change,
    Entry,
    EntryChanged,
    Host,
    MemoryStore,
    OperatorReply,
    Snapshot,
    SqliteStore,
    State,
    TooLateError,
    WrongSessionError,
)
from opask.inbox.ledger import Ledger

T = TypeVar("T")
WAIT, CEILING = 60.0, 100.0
FITTING: list[OperatorReply] = [first(), second(), Skipped("op"), Cancelled("operator")]
MISFIT = Answered((Answer((9,)),), "op")
OUTCOMES: list[Outcome] = [
    first(),
    second(),
    Skipped("op"),
    Cancelled("operator"),
    Cancelled("host"),
    Abandoned("agent"),
    Unavailable("away"),
]


@define(eq=False)
class Known:
    """An ask as the model knows it."""

    id: str
    session_id: str
    host_id: str
    deadline: float
    latest: float
    state: State = "pending"
    reply: object = None
    told: str | None = None
    woken: list[Entry] = Factory(list)
    waits: bool = True

    @property
    def is_open(self) -> bool:
        """Whether the agent is still owed something."""
        return self.state in {"pending", "answered"}


@asynccontextmanager
async def _cancelled_at_end() -> AsyncIterator[TaskGroup]:
    async with anyio.create_task_group() as tasks:
        yield tasks
        tasks.cancel_scope.cancel()


class InboxMachine(RuleBasedStateMachine):
    """Drives a store on asyncio, with the clock in hand."""

    kind: Kind
    asks = Bundle("asks")

    @initialize()
    def open(self) -> None:
        """Make the store, and somebody who watches it from the start."""
        self.stack = ExitStack()
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="opask-test-")))
        self.portal: BlockingPortal = self.stack.enter_context(start_blocking_portal("asyncio"))
        self.clock = Clock()
        self.begun = self.clock.now
        self.known: dict[str, Known] = {}
        self.hosts: dict[str, Host] = {}
        self.seen: list[Change] = []
        self.more: anyio.Event = self.portal.call(anyio.Event)
        self.faults: list[str] = []
        self.store: MemoryStore | SqliteStore
        self._enter()

    def _enter(self) -> None:
        self.entered = ExitStack()
        self.store = self.entered.enter_context(
            self.portal.wrap_async_context_manager(opened(self.kind, self.folder, self.clock))
        )
        self.tasks: TaskGroup = self.entered.enter_context(
            self.portal.wrap_async_context_manager(_cancelled_at_end())
        )
        self._start(self._watch, self.seen[-1].seq if self.seen else 0)

    def _start(self, task: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        async def start() -> None:
            self.tasks.start_soon(task, *args)

        self.portal.call(start)

    async def _watch(self, since: int) -> None:
        async for update in self.store.watch(since):
            if isinstance(update, Snapshot):
                self.faults.append("a snapshot where the changes are known")
            else:
                self.seen.append(update)
            self.more.set()
            self.more = anyio.Event()

    async def _wait(self, known: Known) -> None:
        async for entry in self.store.watch_ask(known.id):
            if entry.state != "pending":
                known.woken.append(entry)
                self.more.set()
                self.more = anyio.Event()
                return

    def do(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Do something on the loop."""
        return self.portal.call(function, *args)

    @property
    def now(self) -> float:
        """The seconds since the beginning."""
        return (self.clock.now - self.begun).total_seconds()

    # -- what happens ------------------------------------------------------------------------------------------------

    @rule()
    def join(self) -> None:
        """Let a host come."""
        host = self.do(self._joined)
        self.hosts[host.id] = host

    async def _joined(self) -> Host:
        return await self.store.join()

    @precondition(lambda self: self.hosts)
    @rule(target=asks, pick=st.integers(0, 999), session_id=st.sampled_from(["s1", "s2"]))
    def put(self, pick: int, session_id: str) -> str:
        """Ask, and have a host wait for the decision."""
        host_id = list(self.hosts)[pick % len(self.hosts)]
        ask_id = f"q{len(self.known)}"
        ask = ask_of(ask_id, session_id, wait=WAIT, now=self.clock.now)

        async def put() -> Entry:
            return await self.store.put(ask, host_id, latest=ask.asked_at + timedelta(seconds=CEILING))

        entry = self.do(put)
        known = Known(ask_id, session_id, host_id, self.now + WAIT, self.now + CEILING)
        assert entry.state == "pending"
        self.known[ask_id] = known
        self._start(self._wait, known)
        return ask_id

    @rule(ask_id=asks, reply=st.sampled_from([*FITTING, MISFIT]), right=st.booleans())
    def resolve(self, ask_id: str, reply: OperatorReply, right: bool) -> None:
        """Decide, or try to."""
        known = self.known[ask_id]
        session_id = known.session_id if right else "elsewhere"

        async def resolve() -> Entry:
            return await self.store.resolve(ask_id, reply, session_id=session_id)

        expected: type[Exception] | None = None
        if known.is_open and known.host_id not in self.hosts and right:
            self._lose(known)
        if not right:
            expected = WrongSessionError
        elif known.state != "pending":
            expected = AlreadyResolvedError if known.reply is not None else TooLateError
        elif self.now >= known.deadline:
            expected = TooLateError
        elif reply is MISFIT:
            expected = AnswerMisfitError
        if expected is not None:
            with pytest.raises(expected) as caught:
                self.do(resolve)
            assert type(caught.value) is expected
        else:
            self.do(resolve)
            known.reply = reply
            known.state = "answered" if isinstance(reply, Answered) else reply.kind

    @rule(ask_id=asks, outcome=st.sampled_from(OUTCOMES))
    def settle(self, ask_id: str, outcome: Outcome) -> None:
        """Let the host tell how an ask ended for its agent."""
        self._settle(self.known[ask_id], outcome)

    @rule(ask_id=asks)
    def expire(self, ask_id: str) -> None:
        """Let the wait run out, and the host tell of it."""
        known = self.known[ask_id]
        if self.now < known.deadline:
            self.clock.forward(known.deadline - self.now)
        self._settle(known, TimedOut(timedelta(seconds=WAIT)))

    def _settle(self, known: Known, outcome: Outcome) -> None:
        if known.host_id not in self.hosts:
            return  # nobody is left to tell
        entry = self.do(self.store.settle, known.id, outcome)
        if known.told is None and known.state not in {"orphaned", "undelivered"}:
            known.told = outcome.kind
            if known.state == "pending":
                known.state = "delivered" if isinstance(outcome, Answered) else outcome.kind
                known.reply = outcome if isinstance(outcome, Answered | Skipped) else None
            elif known.state == "answered":
                known.state = "delivered" if isinstance(outcome, Answered) else "undelivered"
        assert entry.state == known.state

    @rule(ask_id=asks, seconds=st.floats(0, 120))
    def extend(self, ask_id: str, seconds: float) -> None:
        """Move the deadline, or try to."""
        known = self.known[ask_id]
        if known.is_open and known.host_id not in self.hosts:
            self._lose(known)
        over = known.state != "pending" or self.now >= known.deadline
        try:
            entry = self.do(self.store.extend, ask_id, self.clock.now + timedelta(seconds=seconds))
        except (AlreadyResolvedError, TooLateError):
            assert over
        else:
            assert not over
            known.deadline = max(known.deadline, min(self.now + round(seconds, 6), known.latest))
            assert entry.deadline is not None
            assert abs((entry.deadline - self.begun).total_seconds() - known.deadline) < 1e-5

    @rule(seconds=st.floats(0, 30))
    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.forward(round(seconds, 3))

    @precondition(lambda self: self.hosts)
    @rule(pick=st.integers(0, 999), tells=st.booleans())
    def crash(self, pick: int, tells: bool) -> None:
        """Let a host go: it gives up its place, or its lock is gone and nobody says so."""
        host = self.hosts.pop(list(self.hosts)[pick % len(self.hosts)])
        tells = tells or isinstance(self.store, MemoryStore)
        if isinstance(self.store, MemoryStore) or tells:
            host.release()
        else:
            self.store._places.pop(host.id).let_go()
        if tells:
            for known in self.known.values():
                if known.host_id == host.id and known.is_open:
                    self._lose(known)
            self.do(self.store.leases)  # behind the news

    @precondition(lambda self: self.kind == "sqlite")
    @rule()
    def reopen(self) -> None:
        """Let the process end, hosts and all, and another one come."""
        self._caught_up()
        self._all_woken()
        for known in self.known.values():
            known.waits = False
        self.entered.close()
        self.hosts.clear()
        for known in self.known.values():
            if known.is_open:
                self._lose(known)
        self._enter()

    @rule(pick=st.integers(0, 999))
    def resume(self, pick: int) -> None:
        """Watch from any number on: it misses nothing, and gives nothing twice."""
        self._caught_up()
        at = pick % (len(self.seen) + 1)
        since = self.seen[at - 1].seq if at else 0

        async def changes() -> list[object]:
            watch = self.store.watch(since)
            with anyio.fail_after(30):
                return [await anext(watch) for _ in self.seen[at:]]

        assert self.do(changes) == self.seen[at:]

    def _lose(self, known: Known) -> None:
        known.state = "orphaned" if known.state == "pending" else "undelivered"

    # -- what must hold ----------------------------------------------------------------------------------------------

    def _caught_up(self) -> None:
        """Wait until whoever watches from the start has seen all."""

        async def caught_up() -> None:
            last = (await self.store.snapshot()).seq
            with anyio.fail_after(30):
                while (self.seen[-1].seq if self.seen else 0) < last:
                    await self.more.wait()

        self.do(caught_up)

    @invariant()
    def nothing_is_lost(self) -> None:
        """Every ask is there, as the model knows it, but for what a host has lost without telling."""
        for entry in self.do(self.store.entries):
            known = self.known[entry.id]
            unknown_loss = known.is_open and known.host_id not in self.hosts
            assert entry.state == known.state or unknown_loss
            assert entry.reply == known.reply
            assert entry.told == known.told or unknown_loss
        assert self.faults == []

    def teardown(self) -> None:
        """Let all hosts go: then everything is over, each waiter was woken once, and each change was told once."""
        if not hasattr(self, "entered"):
            return
        try:
            for host_id in list(self.hosts):
                self.hosts.pop(host_id).release()
            for known in self.known.values():
                if known.is_open:
                    self._lose(known)
            self.do(self.store._write, Ledger.sweep)
            self._caught_up()
            entries = {entry.id: entry for entry in self.do(self.store.entries)}
            assert {id_: entry.state for id_, entry in entries.items()} == {
                id_: known.state for id_, known in self.known.items()
            }
            self._check_waiters()
            self._check_changes(entries)
        finally:
            self.entered.close()
            self.stack.close()

    def _all_woken(self) -> None:
        """Wait until whoever waited for a decision that was made has heard of it."""

        async def woken() -> None:
            with anyio.fail_after(30):
                while any(
                    known.waits and known.state != "pending" and not known.woken
                    for known in self.known.values()
                ):
                    await self.more.wait()

        self.do(woken)

    def _check_waiters(self) -> None:
        self._all_woken()
        for known in self.known.values():
            assert len(known.woken) <= 1
            assert all(entry.reply == known.reply for entry in known.woken)

    def _check_changes(self, entries: dict[str, Entry]) -> None:
        numbers = [change.seq for change in self.seen]
        assert numbers == sorted(set(numbers))
        decisions: dict[str, set[object]] = {}
        last: dict[str, Entry] = {}
        for change in self.seen:
            if not isinstance(change, EntryChanged):
                continue
            entry = change.entry
            before = last.get(entry.id)
            assert before is None or before.is_open or not entry.is_open, "what was over is open again"
            last[entry.id] = entry
            if entry.reply is not None:
                decisions.setdefault(entry.id, set()).add(entry.reply)
        assert last == entries
        assert all(len(replies) == 1 for replies in decisions.values()), "resolved twice"


class MemoryMachine(InboxMachine):
    """The same for the store in memory."""

    kind = "memory"


class SqliteMachine(InboxMachine):
    """The same for the store in a file."""

    kind = "sqlite"


TestMemory = MemoryMachine.TestCase
TestMemory.settings = settings(max_examples=min(settings().max_examples, 400), stateful_step_count=40)
TestSqlite = SqliteMachine.TestCase
TestSqlite.settings = settings(
    max_examples=min(settings().max_examples * 2 // 5, 400), stateful_step_count=30
)
