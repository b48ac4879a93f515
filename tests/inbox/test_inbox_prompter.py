"""Asks on their way from an agent through the bridge into an inbox, and the answers' way back."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve

from bridge_peers import ONE, PlainAdapter
from inbox_peers import KINDS, Kind, ask_of, first, opened, second, utc_now
from opask import Ask, Cancelled, LaunchRequest, Prompter, Reply, Skipped
from opask.bridge import Bridge, Session
from opask.events import QuestionAsked
from opask.inbox import (
    Entry,
    EntryChanged,
    InboxError,
    InboxPrompter,
    MemoryStore,
    SqliteStore,
    Store,
    TooLateError,
    WhenAbsent,
    attend,
)
from opask.testing import Agent

MINUTE = timedelta(minutes=1)


@asynccontextmanager
async def hosted(
    store: Store, *, when_absent: WhenAbsent = "attach", wait: timedelta | None = MINUTE, **settings: Any
) -> AsyncIterator[Session]:
    """Run a session whose asks go into the store."""
    async with (
        InboxPrompter(store, when_absent=when_absent, **settings) as prompter,
        Bridge() as bridge,
        prompter.session("s1", runtime="plain", title="Set up") as recorder,
        await bridge.attach("s1", PlainAdapter(), prompter, wait=wait, allow_unverified=True) as session,
    ):
        session.subscribe(recorder)
        session.plan_launch(LaunchRequest(["x"], {}))
        yield session


async def pending(store: Store) -> Entry:
    """Wait for an ask."""
    with anyio.fail_after(40):
        async for update in store.watch(0):
            if isinstance(update, EntryChanged) and update.entry.state == "pending":
                return update.entry
    raise AssertionError


async def settled(store: Store, ask_id: str) -> Entry:
    """Wait until an ask is over, and its agent has been told."""
    with anyio.fail_after(40):
        async for entry in store.watch_ask(ask_id):
            if entry.told is not None:
                return entry
    raise AssertionError


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MemoryStore | SqliteStore]:
    """Open a store of each kind."""
    kind: Kind = request.param
    async with opened(kind, tmp_path) as found:
        yield found


async def test_it_is_a_prompter(store: Store) -> None:
    """It has what a bridge asks for, and is used open."""
    prompter = InboxPrompter(store)
    assert isinstance(prompter, Prompter)
    with pytest.raises(InboxError, match="open the prompter"):
        _ = prompter.host_id


async def test_an_answer_reaches_the_agent_and_is_delivered(store: Store) -> None:
    """The agent gets what was resolved in the inbox, and the inbox hears that it did; the conversation is kept."""
    async with hosted(store) as session, anyio.create_task_group() as tasks:
        results = []

        async def ask() -> None:
            results.append(await Agent(session).ask(ONE, meta={"test/call": "c1"}))

        tasks.start_soon(ask)
        entry = await pending(store)
        assert (entry.runtime, entry.ask.tool_call_id) == ("plain", "c1")
        await store.resolve(entry.id, second("web:alice"), session_id="s1")
        over = await settled(store, entry.id)
        assert (over.state, over.told, over.by) == ("delivered", "answered", "web:alice")
    assert results[0].structured == {"answers": {"Which?": "b"}}
    names = [logged.event["event"] for logged in await store.events("s1")]
    assert names == ["question_asked", "question_resolved"]
    session_ = await store.session("s1")
    assert (session_.runtime, session_.title, session_.ending) == ("plain", "Set up", "ended")


async def test_a_busy_host_keeps_neither_a_question_nor_an_answer_waiting(tmp_path: Path) -> None:
    """Its loop may stand still: the question comes into the inbox, and the answer gets to the agent."""

    async def answer() -> None:
        async with SqliteStore(tmp_path / "inbox.db") as other:
            await other.resolve((await pending(other)).id, second("web"))

    async with opened("sqlite", tmp_path) as store, hosted(store) as session:
        with ThreadPoolExecutor(1) as operator:
            call = session.call(ONE, {})
            answered = operator.submit(anyio.run, answer)
            answered.result(40)  # blocks this loop
            told = call.result()
    assert told.structured == {"answers": {"Which?": "b"}}


async def test_a_prompter_of_a_subclass_runs_on_the_hosts_loop(tmp_path: Path) -> None:
    """What a host adds may need its own loop."""
    threads = []

    class Own(InboxPrompter):
        async def ask(self, ask: Ask, /) -> Reply:
            threads.append(threading.current_thread())
            return first()

    async with Own(MemoryStore(), when_absent="attach") as prompter, Bridge() as bridge:
        session = await bridge.attach("s1", PlainAdapter(), prompter, allow_unverified=True)
        session.plan_launch(LaunchRequest(["x"], {}))
        await Agent(session).ask(ONE)
    assert threads == [threading.current_thread()]


@pytest.mark.parametrize("reply", [Skipped("web"), Cancelled("operator")])
async def test_a_skip_and_a_cancel_reach_the_agent(store: Store, reply: Skipped | Cancelled) -> None:
    """Each by its own name."""
    async with hosted(store) as session, anyio.create_task_group() as tasks:
        tasks.start_soon(Agent(session).ask, ONE)
        entry = await pending(store)
        await store.resolve(entry.id, reply, by="web")
        over = await settled(store, entry.id)
        assert (over.state, over.told, over.by) == (reply.kind, reply.kind, "web")


async def test_an_agent_that_gives_up_withdraws_its_ask(store: Store) -> None:
    """Its cancel ends the ask in the inbox, and an answer after that is refused."""
    async with hosted(store) as session, anyio.create_task_group() as tasks:
        tasks.start_soon(Agent(session).ask, ONE)
        entry = await pending(store)
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            over = await settled(store, entry.id)
            assert (over.state, over.by) == ("abandoned", "agent")
            with pytest.raises(TooLateError, match="no longer waits"):
                await store.resolve(entry.id, first())


async def test_a_host_that_shuts_down_says_so(store: Store) -> None:
    """What is pending at the end is cancelled, and not orphaned: the host lived to tell."""
    async with anyio.create_task_group() as tasks:
        async with hosted(store) as session:
            tasks.start_soon(Agent(session).ask, ONE)
            entry = await pending(store)
        over = await store.entry(entry.id)
    assert (over.state, over.by) == ("cancelled", "shutdown")


async def test_an_ask_runs_out_of_time(store: Store) -> None:
    """The bridge's own deadline is the inbox's."""
    async with hosted(store, wait=timedelta(seconds=1.5)) as session, anyio.create_task_group() as tasks:
        tasks.start_soon(Agent(session).ask, ONE)
        entry = await pending(store)
        assert entry.deadline == entry.ask.deadline
        over = await settled(store, entry.id)
        assert (over.state, over.told) == ("timed_out", "timed_out")


async def test_the_wait_grows_while_the_operator_types(store: Store) -> None:
    """An extension in the inbox moves the bridge's deadline: an answer after the first one reaches the agent."""
    async with hosted(store, wait=timedelta(seconds=3)) as session, anyio.create_task_group() as tasks:
        tasks.start_soon(Agent(session).ask, ONE)
        entry = await pending(store)
        assert entry.deadline is not None
        assert entry.latest is None
        await store.extend(entry.id, datetime.now(UTC) + MINUTE)
        await anyio.sleep_until(
            anyio.current_time() + (entry.deadline - datetime.now(UTC)).total_seconds() + 0.2
        )
        await store.resolve(entry.id, first())
        assert (await settled(store, entry.id)).state == "delivered"


# -- presence ------------------------------------------------------------------------------------------------------


async def test_with_nobody_watching_no_tool_is_attached(store: Store) -> None:
    """Neither where questions would end as unavailable nor where they would be held; the inbox alone can be enough."""
    for rule, expected in (("unavailable", False), ("hold", False), ("attach", True)):
        async with hosted(store, when_absent=rule) as session:  # type: ignore[arg-type]
            assert session.plan is not None
            assert session.plan.questions is expected
            assert session.plan.reason == (None if expected else "no operator is there")


async def test_with_somebody_watching_the_tool_is_attached(store: Store) -> None:
    """A lease that covers the session is an operator."""
    async with attend(store, "web", session_ids=["s1"]), hosted(store, when_absent="unavailable") as session:
        assert session.plan is not None
        assert session.plan.questions


async def test_a_question_that_nobody_sees_any_more_ends_as_unavailable(store: Store) -> None:
    """When the last surface leaves while it waits, and stays away for the grace, the agent goes on."""
    async with anyio.create_task_group() as tasks:
        await store.renew("l1", "web")
        async with hosted(store, when_absent="unavailable", grace=timedelta(0)) as session:
            tasks.start_soon(Agent(session).ask, ONE)
            entry = await pending(store)
            # Known to be there until the lease would have lapsed, unless it is ended: then at once.
            await store.renew("l1", "web", lasts=timedelta(seconds=0.1))
            await store.leave("l1")
            over = await settled(store, entry.id)
            assert (over.state, over.told) == ("unavailable", "unavailable")


async def test_a_question_is_held_where_the_host_chose_so(store: Store) -> None:
    """When the last surface leaves, it waits on, and a later one can answer it; a new question is asked, too."""
    await store.renew("l1", "web")
    async with hosted(store, when_absent="hold") as session, anyio.create_task_group() as tasks:
        await store.leave("l1")
        tasks.start_soon(Agent(session).ask, ONE)
        entry = await pending(store)
        await store.resolve(entry.id, first())
        assert (await settled(store, entry.id)).state == "delivered"


async def test_an_ask_says_what_else_the_agent_does(store: Store) -> None:
    """How many other calls ran on when it asked is in the inbox, from the event that told of the ask."""
    async with (
        InboxPrompter(store, when_absent="attach") as prompter,
        prompter.session("s1") as recorder,
        anyio.create_task_group() as tasks,
    ):
        for ask_id, siblings in (("q1", 2), ("q2", 0)):
            asked = QuestionAsked(questions=ask_of().questions, asked_at=utc_now(), siblings_running=siblings)
            recorder(evolve(asked, question_id=ask_id))
        for ask_id in ("q1", "q2", "q3"):
            tasks.start_soon(prompter.ask, ask_of(ask_id))
            with anyio.fail_after(40):
                async for _ in store.watch(0):
                    if any(entry.id == ask_id for entry in await store.entries()):
                        break
        assert [entry.siblings_running for entry in await store.entries()] == [2, 0, None]
        decided = await store.resolve("q1", Skipped("test"))
        assert decided.siblings_running == 2
        tasks.cancel_scope.cancel()


async def test_an_ask_over_the_bridge_says_what_else_the_agent_does(store: Store) -> None:
    """The event that tells of an ask comes before the ask itself."""
    async with hosted(store) as session, anyio.create_task_group() as tasks:
        tasks.start_soon(Agent(session).ask, ONE)
        assert (await pending(store)).siblings_running == 0
        tasks.cancel_scope.cancel()
