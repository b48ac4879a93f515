"""Surfaces on an inbox: what is decided on one of them, and what the others hear of it."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from inbox_peers import KINDS, Kind, ask_of, first, opened, second
from opask import Abandoned, Ask, Cancelled, Outcome, Reply, Skipped, TimedOut, Unavailable
from opask.inbox import InboxPrompter, MemoryStore, Store, show

WITHIN_S = 30.0


class Surface:
    """A surface whose operator is a test.

    Attributes:
        shown: the asks that were put, in order.
        ended: how they ended, by id.
        taken_back: the asks whose card was taken away before anything was decided on it.
    """

    def __init__(self) -> None:
        self.shown: list[Ask] = []
        self.ended: list[tuple[str, Outcome]] = []
        self.taken_back: list[str] = []
        self.is_there = True
        self._replies: dict[str, Reply] = {}
        self._changed = anyio.Event()

    async def ask(self, ask: Ask, /) -> Reply:
        """Wait for what the test decides."""
        self.shown.append(ask)
        self._tell()
        try:
            while ask.id not in self._replies:
                await self._changed.wait()
        except BaseException:
            self.taken_back.append(ask.id)
            raise
        return self._replies[ask.id]

    def settled(self, ask: Ask, outcome: Outcome, /) -> None:
        """Take note."""
        self.ended.append((ask.id, outcome))
        self._tell()

    def available(self, session_id: str, /) -> bool:
        """Tell whether the operator is there."""
        return self.is_there

    def decide(self, ask_id: str, reply: Reply) -> None:
        """Decide an ask, as the operator."""
        self._replies[ask_id] = reply
        self._tell()

    async def until_shown(self, *ask_ids: str) -> None:
        """Wait until these asks were put."""
        while not {ask.id for ask in self.shown} >= set(ask_ids):
            await self._changed.wait()

    async def until_ended(self, count: int = 1) -> None:
        """Wait until so many have ended."""
        while len(self.ended) < count:
            await self._changed.wait()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """Open a store of each kind."""
    kind: Kind = request.param
    async with opened(kind, tmp_path) as found:
        yield found


@asynccontextmanager
async def showing(store: Store, **surfaces: Surface) -> AsyncIterator[None]:
    """Show the store on surfaces, for the length of a block."""
    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tasks:
            for name, surface in surfaces.items():
                tasks.start_soon(show, store, surface, name)
            while len(await store.leases()) < len(surfaces):
                await anyio.lowlevel.checkpoint()
            yield
            tasks.cancel_scope.cancel()


async def test_a_decision_reaches_the_agent(store: Store) -> None:
    """What is decided on a surface is what the agent gets, and the surface hears that it did."""
    surface = Surface()
    async with (
        showing(store, near=surface),
        InboxPrompter(store) as prompter,
        anyio.create_task_group() as tasks,
    ):
        replies: list[Reply] = []

        async def agent() -> None:
            ask = ask_of()
            reply = await prompter.ask(ask)
            replies.append(reply)
            prompter.settled(ask, reply)

        assert prompter.available("s1")
        tasks.start_soon(agent)
        await surface.until_shown("q1")
        surface.decide("q1", first("near"))
        await surface.until_ended()
    assert replies == [first("near")]
    assert surface.ended == [("q1", first("near"))]
    assert (await store.entry("q1")).state == "delivered"
    assert surface.taken_back == []


async def test_the_first_of_two_surfaces_wins(store: Store) -> None:
    """The other one's card is taken away, and it is told what was answered and where."""
    near, far = Surface(), Surface()
    host = await store.join()
    async with showing(store, near=near, far=far):
        await store.put(ask_of(), host.id)
        await near.until_shown("q1")
        await far.until_shown("q1")
        far.decide("q1", second("far"))
        await near.until_ended()
        assert near.ended == [("q1", second("far"))]
        assert far.ended == []  # nobody knows yet whether the agent got it
        await store.settle("q1", second("far"))
        await far.until_ended()
    assert far.ended == [("q1", second("far"))]
    assert near.taken_back == ["q1"]
    host.release()


async def test_two_decisions_at_once(store: Store) -> None:
    """One is taken; the surface of the other hears once, and of the one that was."""
    near, far = Surface(), Surface()
    host = await store.join()
    async with showing(store, near=near, far=far):
        await store.put(ask_of(), host.id)
        await near.until_shown("q1")
        await far.until_shown("q1")
        near.decide("q1", first("near"))
        far.decide("q1", second("far"))
        while (entry := await store.entry("q1")).state == "pending":
            await anyio.lowlevel.checkpoint()
        assert entry.reply is not None
        await store.settle("q1", entry.reply)
        await near.until_ended()
        await far.until_ended()
    assert near.ended == far.ended == [("q1", entry.reply)]
    host.release()


@pytest.mark.parametrize(
    ("reply", "state"), [(Skipped("near"), "skipped"), (Cancelled("operator"), "cancelled")]
)
async def test_what_is_no_answer(store: Store, reply: Reply, state: str) -> None:
    """A skip and a cancel are handed in by their names, and heard back once."""
    surface = Surface()
    host = await store.join()
    async with showing(store, near=surface):
        await store.put(ask_of(), host.id)
        surface.decide("q1", reply)
        await surface.until_ended()
        entry = await store.entry("q1")
    assert (entry.state, entry.by) == (state, "near")
    assert surface.ended == [("q1", reply)]
    host.release()


@pytest.mark.parametrize(
    "outcome",
    [
        TimedOut(timedelta(seconds=60)),
        Cancelled("host"),
        Abandoned("agent"),
        Abandoned("turn_end"),
        Unavailable("x"),
    ],
)
async def test_an_ask_that_ends_otherwise(store: Store, outcome: Outcome) -> None:
    """Its card is taken away, and the surface hears why."""
    surface = Surface()
    host = await store.join()
    async with showing(store, near=surface):
        await store.put(ask_of(), host.id)
        await surface.until_shown("q1")
        await store.settle("q1", outcome)
        await surface.until_ended()
    ((_, seen),) = surface.ended
    assert seen == outcome
    assert surface.taken_back == ["q1"]
    host.release()


async def test_an_answer_that_came_too_late(store: Store) -> None:
    """A surface whose answer did not reach the agent hears what the agent was told instead."""
    surface = Surface()
    host = await store.join()
    async with showing(store, near=surface):
        await store.put(ask_of(), host.id)
        surface.decide("q1", first("near"))
        while (await store.entry("q1")).state == "pending":
            await anyio.lowlevel.checkpoint()
        await store.settle("q1", Abandoned("agent"))
        await surface.until_ended()
        assert (await store.entry("q1")).state == "undelivered"
    ((_, seen),) = surface.ended
    assert seen.kind == "abandoned"
    host.release()


async def test_what_waited_before_is_shown(store: Store) -> None:
    """A surface that comes later shows what is open, and nothing that is over."""
    surface = Surface()
    host = await store.join()
    await store.put(ask_of("q1"), host.id)
    await store.put(ask_of("q2"), host.id)
    await store.resolve("q1", first())
    async with showing(store, near=surface):
        await surface.until_shown("q2")
        surface.decide("q2", first("near"))
        while (await store.entry("q2")).state == "pending":
            await anyio.lowlevel.checkpoint()
    assert [ask.id for ask in surface.shown] == ["q2"]
    # Nobody said before the end that the agent got it; what was committed is what is told.
    assert surface.ended == [("q2", first("near"))]
    host.release()


async def test_a_surface_that_cannot_show_it(store: Store) -> None:
    """It leaves an ask to the others, which the inbox keeps open, and goes on with the next one."""

    class Picky(Surface):
        async def ask(self, ask: Ask, /) -> Reply:
            if ask.id == "q1":
                raise RuntimeError("no room")
            return await super().ask(ask)

    picky, other = Picky(), Surface()
    host = await store.join()
    async with showing(store, picky=picky, other=other):
        await store.put(ask_of("q1"), host.id)
        await store.put(ask_of("q2"), host.id)
        await other.until_shown("q1", "q2")
        await picky.until_shown("q2")
        assert (await store.entry("q1")).state == "pending"
        other.decide("q1", first("other"))
        await picky.until_ended()
    assert ("q1", first("other")) in picky.ended
    host.release()


async def test_a_surface_whose_operator_goes(store: Store) -> None:
    """With its terminal gone a surface gives its lease up: nobody is there any more."""
    surface = Surface()
    host = await store.join()
    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tasks:
            await store.put(ask_of(), host.id)
            surface.is_there = False
            surface.decide("q1", Unavailable("the terminal is gone"))
            tasks.start_soon(show, store, surface, "near")
    assert await store.leases() == ()
    assert (await store.entry("q1")).state == "pending"
    assert surface.ended == [("q1", Cancelled("shutdown"))]
    host.release()


async def test_sessions_of_others_are_not_shown(store: Store) -> None:
    """A surface of one session shows that one's asks alone, and its lease covers no other."""
    surface = Surface()
    host = await store.join()
    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tasks:

            async def shown() -> None:
                await show(store, surface, "near", session_ids=["s2"])

            tasks.start_soon(shown)
            await store.put(ask_of("q1", "s1"), host.id)
            await store.put(ask_of("q2", "s2"), host.id)
            await surface.until_shown("q2")
            assert store.present_until("s1") is None
            tasks.cancel_scope.cancel()
    assert [ask.id for ask in surface.shown] == ["q2"]
    host.release()


async def test_a_plain_function_may_show_it() -> None:
    """A prompter that blocks is called in a thread."""
    store, threads = MemoryStore(), set[int]()

    class Plain(Surface):
        def ask(self, ask: Ask, /) -> Reply:  # type: ignore[override]
            threads.add(threading.get_ident())
            return first("near")

    host = await store.join()
    async with showing(store, near=Plain()):
        await store.put(ask_of(), host.id)
        while (await store.entry("q1")).state == "pending":
            await anyio.lowlevel.checkpoint()
    assert threads
    assert threading.get_ident() not in threads
    host.release()
