"""What every store does alike."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from inbox_peers import KINDS, Clock, Kind, ask_of, first, opened, second
from opask import (
    Abandoned,
    Answer,
    Answered,
    Ask,
    Cancelled,
    Option,
    Question,
    Skipped,
    TimedOut,
    Unavailable,
)
from opask.inbox import (
    AlreadyResolvedError,
    AnswerMisfitError,
    Change,
    EntryChanged,
    InboxError,
    MemoryStore,
    OpenAsksError,
    RefusedError,
    SessionChanged,
    SessionCleared,
    Snapshot,
    SqliteStore,
    Store,
    TooLateError,
    UnknownAskError,
    UnknownSessionError,
    WrongSessionError,
    attend,
)

AnyStore = MemoryStore | SqliteStore


@pytest.fixture
def clock() -> Clock:
    """Give a clock in hand."""
    return Clock()


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> AsyncIterator[AnyStore]:
    """Open a store of each kind."""
    kind: Kind = request.param
    async with opened(kind, tmp_path, clock) as found:
        yield found


async def test_a_store_is_one(store: AnyStore) -> None:
    """Each store has all that the protocol asks for, and an id of its own."""
    assert isinstance(store, Store)
    assert store.id.startswith("inbox_")


# -- asks ----------------------------------------------------------------------------------------------------------


async def test_an_ask_goes_from_pending_to_delivered(store: AnyStore, clock: Clock) -> None:
    """What is put is pending, an answer is kept with who gave it, and the host's news makes it delivered."""
    host = await store.join()
    ask = ask_of(now=clock(), call="c1")
    entry = await store.put(ask, host.id, runtime="claude")
    assert (entry.state, entry.number, entry.runtime, entry.ask) == ("pending", 1, "claude", ask)
    clock.forward(5)
    answered = await store.resolve("q1", second("web:alice"), session_id="s1")
    assert (answered.state, answered.by, answered.surface) == ("answered", "web:alice", "web")
    assert answered.reply == second("web:alice")
    assert answered.is_open
    delivered = await store.settle("q1", second("web:alice"))
    assert (delivered.state, delivered.told, delivered.is_open) == ("delivered", "answered", False)
    assert await store.entry("q1") == delivered
    assert await store.entries() == (delivered,)


@pytest.mark.parametrize(
    "outcome", [TimedOut(timedelta(minutes=1)), Abandoned("agent"), Cancelled("shutdown")]
)
async def test_an_answer_that_did_not_reach_the_agent_is_undelivered(
    store: AnyStore, outcome: TimedOut | Abandoned | Cancelled
) -> None:
    """An answer is committed, the agent was told otherwise: it is shown as undelivered, with the reason."""
    host = await store.join()
    await store.put(ask_of(), host.id)
    await store.resolve("q1", first())
    entry = await store.settle("q1", outcome)
    assert (entry.state, entry.told, entry.reply) == ("undelivered", outcome.kind, first())
    assert entry.reason


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (TimedOut(timedelta(minutes=1)), "timed_out"),
        (Abandoned("turn_end"), "abandoned"),
        (Cancelled("host"), "cancelled"),
        (Unavailable("nobody"), "unavailable"),
        (Skipped("terminal"), "skipped"),
        (first("terminal"), "delivered"),
    ],
)
async def test_a_host_settles_what_nobody_resolved(store: AnyStore, outcome: TimedOut, state: str) -> None:
    """How an ask ended for its agent is how it ends in the inbox, once."""
    host = await store.join()
    await store.put(ask_of(), host.id)
    entry = await store.settle("q1", outcome)
    assert (entry.state, entry.told) == (state, outcome.kind)
    assert await store.settle("q1", Abandoned("agent")) == entry
    with pytest.raises(RefusedError) as caught:
        await store.resolve("q1", second())
    assert type(caught.value) is (AlreadyResolvedError if entry.reply else TooLateError)


@pytest.mark.parametrize("reply", [Skipped("web"), Cancelled("operator")])
async def test_a_skip_and_a_cancel_end_an_ask(store: AnyStore, reply: Skipped | Cancelled) -> None:
    """They are final at once; what the agent was told is noted when it is known, and when it is something else."""
    host = await store.join()
    await store.put(ask_of(), host.id)
    entry = await store.resolve("q1", reply, by="web:bob")
    assert (entry.state, entry.by, entry.told) == (reply.kind, "web:bob", None)
    later = await store.settle("q1", TimedOut(timedelta(minutes=1)))
    assert (later.state, later.told) == (reply.kind, "timed_out")
    assert "timed_out" in (later.reason or "")


async def test_what_is_refused_says_why_and_changes_nothing(store: AnyStore, clock: Clock) -> None:
    """Unknown ids, other sessions' asks, answers that do not fit: each a typed refusal, and the ask stays open."""
    host = await store.join()
    await store.put(ask_of(now=clock()), host.id)
    before = await store.entry("q1")
    for unknown in ("q2", "", "\ud800", "q1\0", "x" * 100_000):
        with pytest.raises(UnknownAskError) as unknown_error:
            await store.resolve(unknown, first())
        assert len(str(unknown_error.value)) < 200
    with pytest.raises(WrongSessionError, match="not of session s2"):
        await store.resolve("q1", first(), session_id="s2")
    for misfit in (
        Answered((Answer((2,)),), "x"),
        Answered((Answer((0, 1)),), "x"),
        Answered((Answer((0,)),) * 2, "x"),
    ):
        with pytest.raises(AnswerMisfitError, match="stays open"):
            await store.resolve("q1", misfit)
    with pytest.raises(ValueError, match="operator"):
        await store.resolve("q1", Cancelled("host"))
    assert await store.entry("q1") == before
    assert (await store.resolve("q1", first())).state == "answered"


@pytest.mark.parametrize("error", [KeyError("x"), sqlite3.OperationalError("no such table"), SystemExit(3)])
async def test_what_reads_a_reply_may_fail_for_whoever_gave_it_alone(
    store: AnyStore, clock: Clock, error: BaseException
) -> None:
    """Its error is raised there as it is, whatever it is; the question stays open and the store goes on."""
    host = await store.join()
    await store.put(ask_of(now=clock()), host.id)
    read: list[str] = []

    def fail(ask: Ask) -> Answered:
        read.append(ask.id)
        raise error

    with pytest.raises(type(error)) as raised:
        await store.resolve("q1", fail)
    assert raised.value is error
    assert read == ["q1"]
    assert (await store.entry("q1")).state == "pending"
    assert (await store.resolve("q1", lambda ask: first())).state == "answered"


async def test_the_first_answer_wins(store: AnyStore) -> None:
    """A second answer is refused by name, however it comes, and the first stands."""
    host = await store.join()
    await store.put(ask_of(), host.id)
    await store.resolve("q1", first("web:alice"))
    for reply in (second("terminal"), Skipped("terminal"), first("web:alice")):
        with pytest.raises(AlreadyResolvedError, match="by web:alice") as caught:
            await store.resolve("q1", reply)
        assert caught.value.code == "already_resolved"
        assert caught.value.entry is not None
        assert caught.value.entry.reply == first("web:alice")


async def test_an_answer_after_the_deadline_is_too_late(store: AnyStore, clock: Clock) -> None:
    """The time counts even before the host says so."""
    host = await store.join()
    await store.put(ask_of(now=clock(), wait=10), host.id)
    clock.forward(10)
    with pytest.raises(TooLateError, match="the wait ran out"):
        await store.resolve("q1", first())


async def test_an_ask_is_put_once(store: AnyStore) -> None:
    """Putting it again gives what became of it; its id in another session is refused."""
    host = await store.join()
    await store.put(ask_of(), host.id)
    answered = await store.resolve("q1", first())
    assert await store.put(ask_of(), host.id) == answered
    with pytest.raises(WrongSessionError):
        await store.put(ask_of("q1", "s2"), host.id)


async def test_only_a_host_with_a_place_can_put(store: AnyStore) -> None:
    """Without one, or once it is given up, nobody would wait for the answer."""
    with pytest.raises(InboxError, match="no place"):
        await store.put(ask_of(), "host_unknown")
    host = await store.join()
    host.release()
    host.release()
    with pytest.raises(InboxError, match="no place"):
        await store.put(ask_of(), host.id)


async def test_history_is_read_in_pages(store: AnyStore) -> None:
    """Entries come oldest first, by session and state, the youngest of more than the limit, and backwards from there."""
    host = await store.join()
    for number in range(6):
        await store.put(ask_of(f"q{number}", f"s{number % 2}"), host.id)
    await store.resolve("q0", Skipped("x"))
    assert [entry.id for entry in await store.entries(limit=2)] == ["q4", "q5"]
    page = await store.entries(limit=2)
    assert [entry.id for entry in await store.entries(limit=2, before=page[0].number)] == ["q2", "q3"]
    assert [entry.id for entry in await store.entries(session_id="s1")] == ["q1", "q3", "q5"]
    assert [entry.id for entry in await store.entries(states=["skipped"])] == ["q0"]
    assert await store.entries(states=[]) == ()
    assert await store.entries(session_id="\ud800") == ()


# -- the deadline --------------------------------------------------------------------------------------------------


async def test_a_deadline_is_extended_up_to_what_the_route_allows(store: AnyStore, clock: Clock) -> None:
    """It moves later, never earlier, and never beyond the latest; then an answer is taken until then."""
    host = await store.join()
    ask = ask_of(now=clock(), wait=10)
    assert ask.deadline is not None
    await store.put(ask, host.id, latest=ask.deadline + timedelta(seconds=20))
    clock.forward(9)
    entry = await store.extend("q1", ask.deadline + timedelta(seconds=5))
    assert entry.deadline == ask.deadline + timedelta(seconds=5)
    assert entry.ask.deadline == ask.deadline
    assert (await store.extend("q1", ask.deadline)).seq == entry.seq
    assert (await store.extend("q1", ask.deadline + timedelta(hours=1))).deadline == entry.latest
    clock.forward(20)
    assert (await store.resolve("q1", first())).state == "answered"
    with pytest.raises(AlreadyResolvedError):
        await store.extend("q1", ask.deadline + timedelta(hours=1))


async def test_what_is_over_is_not_extended(store: AnyStore, clock: Clock) -> None:
    """An extension that comes too late is refused; an unbounded wait needs none."""
    host = await store.join()
    await store.put(ask_of(now=clock(), wait=10), host.id)
    await store.put(ask_of("q2", wait=None), host.id)
    clock.forward(10)
    with pytest.raises(TooLateError):
        await store.extend("q1", clock() + timedelta(seconds=10))
    assert (await store.extend("q2", clock())).deadline is None


# -- hosts ---------------------------------------------------------------------------------------------------------


async def test_the_end_of_a_host_is_an_end_of_what_it_asked(store: AnyStore) -> None:
    """What was pending is orphaned, what was answered is undelivered, and its sessions have ended."""
    host, other = await store.join(), await store.join()
    await store.begin_session("s1", host.id, title="first")
    for number in range(3):
        await store.put(ask_of(f"q{number}"), host.id)
    await store.put(ask_of("q3", "s2"), other.id)
    await store.resolve("q1", first("web"))
    await store.resolve("q2", Skipped("web"))
    host.release()
    states = [entry.state for entry in await store.entries()]
    assert states == ["orphaned", "undelivered", "skipped", "pending"]
    assert [entry.id for entry in (await store.snapshot()).entries] == ["q3"]
    session = await store.session("s1")
    assert (session.ending, session.is_running) == ("host_died", False)
    with pytest.raises(TooLateError, match="gone"):
        await store.resolve("q0", first())
    assert (await store.settle("q0", first())).state == "orphaned"


# -- watching ------------------------------------------------------------------------------------------------------


async def test_a_watcher_gets_what_is_open_and_then_every_change(store: AnyStore) -> None:
    """First a snapshot, then one update a change, in order."""
    host = await store.join()
    await store.put(ask_of(), host.id)
    watch = store.watch()
    with anyio.fail_after(30):
        snapshot = await anext(watch)
        assert isinstance(snapshot, Snapshot)
        assert [entry.id for entry in snapshot.entries] == ["q1"]
        assert [session.id for session in snapshot.sessions] == ["s1"]
        await store.put(ask_of("q2"), host.id)
        await store.resolve("q1", first())
        await store.settle("q1", first())
        await store.end_session("s1")
        states = []
        for _ in range(4):
            change = await anext(watch)
            assert not isinstance(change, Snapshot | SessionCleared)
            states.append(
                (change.entry.id, change.entry.state)
                if isinstance(change, EntryChanged)
                else (change.session.id, change.session.ending)
            )
    assert states == [("q2", "pending"), ("q1", "answered"), ("q1", "delivered"), ("s1", "ended")]


async def test_a_watcher_sleeps_until_something_changes(store: AnyStore) -> None:
    """It is woken by a change that is made while it waits."""
    host = await store.join()
    watch = store.watch()
    await anext(watch)
    got: list[object] = []

    async def wait() -> None:
        async for update in watch:
            got.append(update)
            if isinstance(update, EntryChanged):
                return

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await checkpoint()
            assert got == []
            await store.put(ask_of(), host.id)
    assert [type(update) for update in got] == [SessionChanged, EntryChanged]


async def test_a_watch_goes_on_after_any_number(store: AnyStore) -> None:
    """From each number on, a watcher gets exactly the changes after it, a cancelled wait in between or not."""
    host = await store.join()
    changes: list[Change] = []
    watch = store.watch()
    start = await anext(watch)
    for number in range(20):
        await store.put(ask_of(f"q{number}"), host.id)
        if number % 3 == 0:
            await store.resolve(f"q{number}", first())
    with anyio.fail_after(30):
        while not changes or changes[-1].seq < (await store.snapshot()).seq:
            update = await anext(watch)
            assert not isinstance(update, Snapshot)
            changes.append(update)
        with anyio.move_on_after(0.01):
            await anext(watch)
        for at in (start.seq, *(change.seq for change in changes[:-1])):
            again = store.watch(at)
            expected = [change for change in changes if change.seq > at]
            assert [await anext(again) for _ in expected] == expected


@pytest.mark.parametrize("since", [-1, 1_000_000])
async def test_a_number_that_the_inbox_does_not_know_gives_a_snapshot(store: AnyStore, since: int) -> None:
    """Whoever comes with a number of another inbox, or of before a restart, begins anew."""
    assert await store.changes(since) is None
    assert isinstance(await anext(store.watch(since)), Snapshot)


async def test_one_ask_is_watched(store: AnyStore) -> None:
    """Its watcher gets it as it is, and as it becomes; another's change does not wake it."""
    host = await store.join()
    await store.put(ask_of(), host.id)
    await store.put(ask_of("q2"), host.id)
    watch = store.watch_ask("q1")
    with anyio.fail_after(30):
        assert (await anext(watch)).state == "pending"
        await store.resolve("q2", first())
        with anyio.move_on_after(0.05) as scope:
            await anext(watch)
        assert scope.cancelled_caught
        await store.resolve("q1", first())
        assert (await anext(watch)).state == "answered"
    with pytest.raises(UnknownAskError):
        await anext(store.watch_ask("q3"))


# -- presence ------------------------------------------------------------------------------------------------------


async def test_a_lease_covers_sessions_until_it_lapses(store: AnyStore, clock: Clock) -> None:
    """Somebody is there as long as a lease that covers the session is renewed, and no longer."""
    assert store.present_until("s1") is None
    await store.renew("l1", "web", lasts=timedelta(seconds=10), session_ids=["s1"])
    assert store.present_until("s1") == clock() + timedelta(seconds=10)
    assert store.present_until("s2") is None
    clock.forward(8)
    await store.renew("l1", "web", lasts=timedelta(seconds=10), session_ids=["s1"])
    await store.renew("l2", "terminal", lasts=timedelta(seconds=1))
    assert store.present_until("s2") == clock() + timedelta(seconds=1)
    clock.forward(9)
    assert [lease.id for lease in await store.leases()] == ["l1"]
    assert store.present_until("s1") is not None
    await store.leave("l1")
    await store.leave("l1")
    assert store.present_until("s1") is None


async def test_a_surface_attends_while_its_block_lasts(tmp_path: Path) -> None:
    """Its lease is renewed before it lapses, and is gone with the block."""
    async with opened("sqlite", tmp_path) as store:
        host = await store.join()
        await store.put(ask_of(), host.id)
        async with attend(store, "web", lasts=timedelta(seconds=3)) as lease_id:
            (lease,) = await store.leases()
            assert (lease.id, lease.surface) == (lease_id, "web")
            watch = store.watch_ask("q1")  # hears of leases, too
            with anyio.fail_after(30):
                while (await store.leases())[0].expires_at == lease.expires_at:
                    await anext(watch)
        assert await store.leases() == ()


# -- sessions ------------------------------------------------------------------------------------------------------


async def test_a_session_keeps_its_events(store: AnyStore) -> None:
    """They are read from any position on, and watched as they come."""
    host = await store.join()
    await store.begin_session("s1", host.id, runtime="claude", title="Set up")
    await store.append("s1", [{"event": "text", "text": f"{number}"} for number in range(3)])
    await store.begin_session("s2", host.id)
    await store.append("s2", [{"event": "text", "text": "other"}])
    events = await store.events("s1")
    assert [logged.event["text"] for logged in events] == ["0", "1", "2"]
    assert await store.events("s1", after=events[0].position) == events[1:]
    assert await store.events("s1", limit=1) == events[:1]
    watch = store.watch_events("s1", after=events[1].position)
    with anyio.fail_after(30):
        assert await anext(watch) == events[2]
        await store.append("s1", [{"event": "turn_started"}])
        assert (await anext(watch)).event == {"event": "turn_started"}
    with pytest.raises(UnknownSessionError):
        await store.append("s3", [{}])


async def test_a_session_is_taken_up_again(store: AnyStore) -> None:
    """After an end it may begin anew, by any host; what was logged and asked of it stays."""
    host = await store.join()
    begun = await store.begin_session("s1", host.id, runtime="claude", title="Set up")
    await store.append("s1", [{"event": "text", "text": "before"}])
    await store.put(ask_of(), host.id)
    other = await store.join()
    with pytest.raises(InboxError, match="another host"):
        await store.begin_session("s1", other.id)
    host.release()
    again = await store.begin_session("s1", other.id)
    assert (again.title, again.runtime, again.host_id) == ("Set up", "claude", other.id)
    assert again.is_running
    assert again.started_at == begun.started_at
    assert (await store.entry("q1")).state == "orphaned"
    assert len(await store.events("s1")) == 1
    assert [session.id for session in await store.sessions()] == ["s1"]


async def test_a_cleared_conversation_takes_its_cards_along(store: AnyStore) -> None:
    """Events and cards are gone and watchers are told; while an ask is open it is refused."""
    host = await store.join()
    await store.begin_session("s1", host.id)
    await store.append("s1", [{"event": "turn_started"}])
    await store.put(ask_of(), host.id)
    with pytest.raises(OpenAsksError) as caught:
        await store.clear_session("s1")
    assert caught.value.ask_ids == ("q1",)
    await store.resolve("q1", Skipped("web"))
    watch = store.watch()
    await anext(watch)
    await store.clear_session("s1")
    assert await anext(watch) == SessionCleared((await store.snapshot()).seq, "s1")
    assert await store.entries() == ()
    assert await store.events("s1") == ()
    assert (await store.session("s1")).is_running
    await store.end_session("s1")
    await store.clear_session("s1")
    assert await store.sessions() == ()
    with pytest.raises(UnknownSessionError):
        await store.clear_session("s1")


async def test_what_is_old_is_pruned(store: AnyStore, clock: Clock) -> None:
    """What was over before the time goes, what is open stays, and a watcher that lags begins anew."""
    host = await store.join()
    for number in range(3):
        await store.put(ask_of(f"q{number}", f"s{number}", now=clock(), wait=None), host.id)
    await store.resolve("q0", Skipped("x"))
    await store.end_session("s0")
    clock.forward(60)
    await store.resolve("q1", Skipped("x"))
    assert await store.prune(clock()) == 1
    assert [entry.id for entry in await store.entries()] == ["q1", "q2"]
    assert [session.id for session in await store.sessions()] == ["s1", "s2"]


async def test_hostile_text_is_kept_as_it_is(store: AnyStore) -> None:
    """Escapes, markup, NULs and surrogates neither break a store nor change in it."""
    nasty = "\x1b[2J<script>\0'; DROP TABLE entries; --\u202e\ud800"
    host = await store.join()
    question = Question(nasty, nasty, (Option(nasty, nasty), Option("b")), multi_select=True)
    await store.begin_session("s1", host.id, title=nasty)
    await store.append("s1", [{"event": "text", "text": nasty}])
    await store.put(ask_of("q1", "s1", question), host.id)
    reply = Answered((Answer((0, 1), nasty),), nasty)
    await store.resolve("q1", reply)
    found = await store.entry("q1")
    assert found.ask.questions == (question,)
    assert found.reply == reply
    assert (await store.events("s1"))[0].event["text"] == nasty
    assert (await store.session("s1")).title == nasty


async def test_many_waiters_are_each_woken(store: AnyStore) -> None:
    """A hundred tasks that wait for an ask each wake for their own answer."""
    host = await store.join()
    woken: list[str] = []

    async def wait(ask_id: str) -> None:
        watch = store.watch_ask(ask_id)
        while (await anext(watch)).state != "answered":
            pass
        woken.append(ask_id)

    ids = [f"q{number}" for number in range(100)]
    for ask_id in ids:
        await store.put(ask_of(ask_id, wait=None), host.id)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for ask_id in ids:
                tasks.start_soon(wait, ask_id)
            for ask_id in reversed(ids):
                await store.resolve(ask_id, first())
    assert sorted(woken) == sorted(ids)
