"""What an inbox does where a file, a process or a surface fails it."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from inbox_peers import KINDS, Kind, ask_of, first, opened
from opask import Abandoned, Answered, Ask, Cancelled, Outcome, Reply, Skipped
from opask.inbox import (
    AlreadyResolvedError,
    InboxError,
    InboxPrompter,
    MemoryStore,
    SqliteStore,
    attend,
    show,
)
from opask.inbox.places import is_held

WITHIN_S = 30.0


@pytest.fixture
def attentive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for what others did much more often."""
    monkeypatch.setattr("opask.inbox.engine._TICK_S", 0.05)


@pytest.fixture
def impatient(attentive: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for other processes no longer than a moment; two stores may have to for longer on a busy disk."""
    monkeypatch.setattr("opask.inbox.sqlite._BUSY_MS", 50)


def holding(file: Path) -> sqlite3.Connection:
    """Hold the file's lock as a process does that is stopped in the middle of a transaction."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    return connection


# -- the file --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["removed", "replaced"])
async def test_a_file_that_is_gone_is_told_to_all(tmp_path: Path, attentive: None, how: str) -> None:
    """Nobody goes on with a file that no other process finds: watchers, a waiting host and whoever answers hear it."""
    file = tmp_path / "inbox.db"
    faults: list[InboxError] = []
    waiting: list[str] = []

    async def hears(name: str, watch: Callable[[], Awaitable[object]]) -> None:
        try:
            while True:
                await watch()
                waiting.append(name)
        except InboxError as error:
            faults.append(error)

    async with SqliteStore(file) as store, InboxPrompter(store, when_absent="attach") as prompter:
        await store.begin_session("s1", prompter.host_id)
        await store.put(ask_of(), prompter.host_id)
        with anyio.fail_after(WITHIN_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hears, "all", store.watch().__anext__)
                tasks.start_soon(hears, "ask", store.watch_ask("q1").__anext__)
                tasks.start_soon(hears, "log", store.watch_events("s1").__anext__)
                tasks.start_soon(hears, "host", lambda: prompter.ask(ask_of("q2")))
                while {"all", "ask"} - set(waiting) or not await store.entries(states=["pending"], before=3):
                    await anyio.lowlevel.checkpoint()
                file.unlink()
                shutil.rmtree(store.folder)
                if how == "replaced":
                    file.touch()
        assert [str(fault).count("removed or replaced") for fault in faults] == [1] * 4
        with pytest.raises(InboxError, match="removed or replaced"):
            await store.resolve("q1", first())
    if how == "replaced":
        assert file.stat().st_size == 0


async def test_no_answer_is_taken_into_a_file_that_is_gone(tmp_path: Path) -> None:
    """It is refused at once, and not only after the next look at the file."""
    async with SqliteStore(tmp_path / "inbox.db") as store:
        host = await store.join()
        await store.put(ask_of(), host.id)
        (tmp_path / "inbox.db").unlink()
        with pytest.raises(InboxError, match="removed or replaced"):
            await store.resolve("q1", first())
        host.release()


async def test_whoever_watches_a_store_that_is_closed_is_told(tmp_path: Path) -> None:
    """A watcher that outlives its store does not wait for ever."""
    store = SqliteStore(tmp_path / "inbox.db")
    store.open()
    watch = store.watch()
    await anext(watch)
    ended = anyio.Event()

    async def hear() -> None:
        with pytest.raises(InboxError, match="not open"):
            await anext(watch)
        ended.set()

    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hear)
            await anyio.lowlevel.checkpoint()
            await anyio.to_thread.run_sync(store.close)
    assert ended.is_set()


async def test_a_stopped_writer_is_told_of(tmp_path: Path, impatient: None) -> None:
    """A write that has to wait for another process too long says so; a read goes on, and so does all once it is let go."""
    async with SqliteStore(tmp_path / "inbox.db") as store:
        host = await store.join()
        await store.put(ask_of(), host.id)
        other = holding(tmp_path / "inbox.db")
        with pytest.raises(InboxError, match="another process has been in the middle"):
            await store.resolve("q1", first())
        assert (await store.entry("q1")).state == "pending"
        other.close()
        assert (await store.resolve("q1", first())).state == "answered"
        host.release()


async def test_a_read_does_not_fail_with_what_is_to_be_written_beside_it(
    tmp_path: Path, impatient: None
) -> None:
    """Whoever only looks, as watchers do, is given what is there, though a write at the same time fails."""
    goes_on = threading.Event()
    refused: list[InboxError] = []

    async def resolve() -> None:
        try:
            await store.resolve("q1", first())
        except InboxError as error:
            refused.append(error)

    async def wait() -> None:
        async for entry in store.watch_ask("q1"):
            assert entry.state == "pending"
            break

    async with SqliteStore(tmp_path / "inbox.db") as store:
        host = await store.join()
        await store.put(ask_of(), host.id)
        other = holding(tmp_path / "inbox.db")
        async with anyio.create_task_group() as tasks:
            for task in (lambda: store._read(lambda _: goes_on.wait(60)), resolve, wait):
                tasks.start_soon(task)
                await anyio.wait_all_tasks_blocked()
            goes_on.set()
        assert len(refused) == 1
        other.close()
        host.release()


async def test_how_an_ask_ended_is_stored_once_it_can_be(tmp_path: Path, impatient: None) -> None:
    """An ask that the agent no longer waits for does not stay open because the file was held at that moment."""
    async with SqliteStore(tmp_path / "inbox.db") as store, InboxPrompter(store) as prompter:
        ask = ask_of()
        await store.put(ask, prompter.host_id)
        prompter._put.add(ask.id)
        other = holding(tmp_path / "inbox.db")
        prompter.settled(ask, Abandoned("agent"))
        with pytest.raises(InboxError):
            await store.renew("lease", "web")  # behind it
        assert (await store.entry("q1")).state == "pending"
        other.close()
        with anyio.fail_after(WITHIN_S):
            async for entry in store.watch_ask("q1"):
                if not entry.is_open:
                    break
        assert entry.state == "abandoned"


async def test_what_could_not_be_stored_is_tried_at_the_end(
    tmp_path: Path, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that is closed tries once more."""
    monkeypatch.setattr("opask.inbox.engine._TICK_S", 3600.0)
    async with SqliteStore(tmp_path / "inbox.db") as store:
        host = await store.join()
        await store.put(ask_of(), host.id)
        other = holding(tmp_path / "inbox.db")
        store.settle_soon("q1", Abandoned("agent"))
        with pytest.raises(InboxError):
            await store.renew("lease", "web")
        other.close()
    async with SqliteStore(tmp_path / "inbox.db") as store:
        assert (await store.entry("q1")).state == "abandoned"


async def test_a_read_can_be_left_alone(tmp_path: Path) -> None:
    """Whoever only looks does not wait for a writer that another process holds up."""
    async with SqliteStore(tmp_path / "inbox.db") as store:
        other = holding(tmp_path / "inbox.db")
        store.settle_soon("q1", Abandoned("agent"))  # holds the store's thread up
        with anyio.fail_after(WITHIN_S), anyio.move_on_after(0.05) as scope:
            await store.snapshot()
        other.close()
    assert scope.cancelled_caught


async def test_a_lease_outlives_a_disturbance(
    tmp_path: Path, impatient: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A surface goes on where its lease cannot be renewed or given up, and renews it as soon as it can."""
    async with SqliteStore(tmp_path / "inbox.db") as store:
        with anyio.fail_after(WITHIN_S):
            async with attend(store, "web", lasts=timedelta(seconds=3)):
                (before,) = await store.leases()
                other = holding(tmp_path / "inbox.db")
                while "operator is at web" not in caplog.text:
                    await anyio.lowlevel.checkpoint()
                other.close()
                while not [lease for lease in await store.leases() if lease.expires_at > before.expires_at]:
                    await anyio.lowlevel.checkpoint()
                other = holding(tmp_path / "inbox.db")
        other.close()
    assert "nobody is at web" in caplog.text


async def test_a_run_ends_well_where_its_end_cannot_be_stored(
    tmp_path: Path, impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    """A session is over all the same, its host's place is given up, and whoever looks next sees that it has ended."""
    file = tmp_path / "inbox.db"
    async with SqliteStore(file) as store:
        async with InboxPrompter(store) as prompter, prompter.session("s1"):
            other = holding(file)
        other.close()
        assert not is_held(store.folder, prompter.host_id)
    assert "the end of session s1" in caplog.text
    async with SqliteStore(file) as store:
        assert not (await store.session("s1")).is_running


async def test_nobody_waits_for_a_store_that_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its thread meets, whoever waits for it and whoever comes after hears that it has failed."""

    def broken(said: object) -> None:
        raise RuntimeError("no idea")

    async with SqliteStore(tmp_path / "inbox.db") as store:
        assert store._engine is not None
        monkeypatch.setattr(store._engine._ringer, "ring", broken)
        with anyio.fail_after(WITHIN_S):
            with pytest.raises(InboxError, match="no idea"):
                await store.renew("lease", "web")
            with pytest.raises(InboxError, match="no idea"):
                await store.leases()


async def test_a_change_that_cannot_be_read_holds_up_nothing_else(
    tmp_path: Path, attentive: None, caplog: pytest.LogCaptureFixture
) -> None:
    """What is done goes by what the file holds, a host's death is taken in, and it is complained of once, not for ever."""
    file = tmp_path / "inbox.db"
    async with SqliteStore(file) as store, SqliteStore(file) as other:
        host, lost = await store.join(), await other.join()
        await store.put(ask_of("q1"), host.id)
        await other.put(ask_of("q2", "s2"), lost.id)
        raw = sqlite3.connect(file, isolation_level=None)
        raw.execute("INSERT INTO changes (kind, key, body) VALUES ('entry', 'q1', '{')")
        await other.resolve("q1", first())
        with pytest.raises(AlreadyResolvedError):
            await store.resolve("q1", Skipped("late"))
        other._places.clear()
        lost.let_go()
        with anyio.fail_after(WITHIN_S):
            while (await store.entry("q2")).state != "orphaned":
                await anyio.lowlevel.checkpoint()
        for _ in range(20):
            await store.entry("q1")
        host.release()
        raw.close()
    complaints = [record for record in caplog.records if "cannot be read" in record.message]
    assert len(complaints) == 2  # one of each store


async def test_nothing_is_written_outside_of_a_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the disk's fault ends a transaction while others' changes are read, nothing of what was to be done is."""
    file = tmp_path / "inbox.db"
    async with SqliteStore(file) as store, SqliteStore(file) as other:
        host = await store.join()
        await store.put(ask_of(), host.id)
        engine = store._engine
        assert engine is not None

        def broken(since: int, limit: int) -> None:
            if engine._connection.in_transaction:
                engine._connection.execute("ROLLBACK")
            raise sqlite3.OperationalError("disk I/O error")

        with monkeypatch.context() as broken_disk:
            broken_disk.setattr(engine._tables, "catch_up", broken)
            await other.renew("lease", "web")
            with pytest.raises(InboxError, match="cannot be written"):
                await store.resolve("q1", first())
        assert (await other.entry("q1")).state == (await store.entry("q1")).state == "pending"
        host.release()


# -- hosts -----------------------------------------------------------------------------------------------------------


async def test_a_host_does_not_die_of_another_process_without_descriptors(tmp_path: Path) -> None:
    """Where it cannot be found out whether a host lives, nothing of it is given up."""
    async with SqliteStore(tmp_path / "inbox.db") as store:
        host = await store.join()
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        taken = os.open(os.devnull, os.O_RDONLY)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (taken + 1, before[1]))
            while True:
                try:
                    os.open(os.devnull, os.O_RDONLY)
                except OSError:
                    break
            held = is_held(store.folder, host.id)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            os.close(taken)
        assert held
        host.release()


# -- what is asked of a store ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["\udcff", "nul\0"], ids=["half a character", "NUL"])
async def test_an_id_that_cannot_be_kept_is_refused(tmp_path: Path, kind: Kind, text: str) -> None:
    """An id or a name that could not be looked up again is refused before anything is stored, by our own error."""
    async with opened(kind, tmp_path) as store:
        host = await store.join()
        for refused in (
            lambda: store.begin_session(text, host.id),
            lambda: store.begin_session("s1", host.id, runtime=text),
            lambda: store.put(ask_of(f"q{text}"), host.id),
            lambda: store.put(ask_of("q1", text), host.id),
            lambda: store.renew(text, "web"),
            lambda: store.renew("lease", text),
        ):
            with pytest.raises(InboxError, match="cannot be kept"):
                await refused()
        assert await store.entries() == ()
        assert await store.sessions() == ()
        host.release()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [2**70, -(2**70)])
async def test_numbers_without_bounds_are_taken(tmp_path: Path, kind: Kind, number: int) -> None:
    """A number that a client makes up is compared and harms nothing."""
    async with opened(kind, tmp_path) as store:
        host = await store.join()
        await store.begin_session("s1", host.id)
        await store.put(ask_of(), host.id)
        await store.append("s1", [{"event": "text"}])
        assert len(await store.entries(before=number)) == (number > 0)
        assert len(await store.entries(limit=number)) == (number > 0)
        assert len(await store.events("s1", after=number)) == (number < 0)
        assert len(await store.events("s1", limit=number)) == (number > 0)
        assert await store.changes(number) is None
        host.release()


# -- surfaces --------------------------------------------------------------------------------------------------------


class Odd:
    """A surface that gives what it was made with."""

    def __init__(self, *replies: object) -> None:
        self.replies = list(replies)
        self.settlements: list[Outcome] = []
        self.asked = anyio.Event()

    async def ask(self, ask: Ask, /) -> Reply:
        """Give it."""
        reply = self.replies.pop(0)
        if not self.replies:
            self.asked.set()
        return reply  # type: ignore[return-value]

    def settled(self, ask: Ask, outcome: Outcome, /) -> None:
        """Take note."""
        self.settlements.append(outcome)

    def available(self, session_id: str, /) -> bool:
        """Fail, as a surface should not."""
        raise RuntimeError("no idea")


@pytest.mark.parametrize(
    "reply",
    [None, "yes", Answered(("x",), "odd"), Cancelled("host"), Cancelled("shutdown")],  # type: ignore[arg-type]
)
async def test_a_surface_that_gives_nonsense_decides_nothing(reply: object) -> None:
    """The ask stays open for the others, the surface is told how it ends, and nobody else is harmed."""
    store, surface = MemoryStore(), Odd(reply)
    host = await store.join()
    await store.put(ask_of(), host.id)
    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(show, store, surface, "odd")
            await surface.asked.wait()
            await store.leases()
            assert (await store.entry("q1")).state == "pending"
            await store.resolve("q1", first("web"))
            tasks.cancel_scope.cancel()
    assert len(surface.settlements) == 1
    host.release()


async def test_a_decision_that_cannot_be_stored_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is neither lost in silence nor the end of the surface."""
    monkeypatch.setattr("opask.inbox.showing._AGAIN_S", 0.0)
    store, surface = MemoryStore(), Odd(first("odd"), first("odd"))
    host = await store.join()
    await store.put(ask_of(), host.id)
    resolve = store.resolve
    faults = [InboxError("disk is full")]

    async def failing(*args: object, **more: object) -> object:
        if faults:
            raise faults.pop()
        return await resolve(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "resolve", failing)
    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(show, store, surface, "odd")
            async for entry in store.watch_ask("q1"):
                if entry.state == "answered":
                    break
            tasks.cancel_scope.cancel()
    assert "disk is full" in caplog.text
    host.release()


async def test_showing_an_inbox_that_is_gone_ends(tmp_path: Path, attentive: None) -> None:
    """With the inbox's own error, and the surface is told that it is over."""
    async with SqliteStore(tmp_path / "inbox.db") as store:
        surface = Odd(None)
        host = await store.join()
        await store.put(ask_of(), host.id)
        (tmp_path / "inbox.db").rename(tmp_path / "elsewhere.db")
        with pytest.raises(InboxError, match="removed or replaced"):
            await show(store, surface, "odd")
        host.release()
