"""The inbox's file: who may read it, whose it is, what it survives."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from inbox_peers import ask_of, first, utc_now
from opask import Abandoned, Skipped
from opask.inbox import (
    EntryChanged,
    InboxError,
    InboxPrompter,
    LoggedEvent,
    SessionCleared,
    Snapshot,
    SqliteStore,
    TooLateError,
    UnknownAskError,
    default_path,
)
from opask.inbox.bells import Bell, Ringer
from opask.inbox.ledger import Ledger
from opask.inbox.places import is_held
from opask.inbox.schema import APPLICATION_ID, VERSION


async def test_the_file_is_for_its_user_alone(tmp_path: Path) -> None:
    """File, folder and what lies in it are closed to others, whatever the umask says."""
    file = tmp_path / "new" / "inbox.db"
    before = os.umask(0)
    try:
        async with SqliteStore(file) as store:
            host = await store.join()
            await store.put(ask_of(), host.id)
            modes = {path.name: path.stat().st_mode & 0o777 for path in file.parent.iterdir()}
            inner = {path.stat().st_mode & 0o777 for path in store._folder.glob("*.lock")}
    finally:
        os.umask(before)
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert modes.pop("inbox.db.d") == 0o700
    assert set(modes.values()) == {0o600}
    assert inner == {0o600}


async def test_a_folder_that_others_reach_is_refused(tmp_path: Path) -> None:
    """Whoever can write there could make a dead host look alive."""
    (tmp_path / "inbox.db.d").mkdir(mode=0o755)
    with pytest.raises(InboxError, match="mode 0700"):
        async with SqliteStore(tmp_path / "inbox.db"):
            pass


async def test_what_was_committed_is_there_again(tmp_path: Path) -> None:
    """Asks, answers, events, the id and the numbers of changes go on where they were."""
    async with SqliteStore(tmp_path / "inbox.db") as store:
        inbox_id = store.id
        host = await store.join()
        await store.begin_session("s1", host.id, title="Set up")
        await store.append("s1", [{"event": "text", "text": "hello"}])
        await store.put(ask_of(), host.id)
        await store.resolve("q1", first("web:alice"))
        delivered = await store.settle("q1", first("web:alice"))
    async with SqliteStore(tmp_path / "inbox.db") as store:
        assert store.id == inbox_id
        assert await store.entry("q1") == delivered
        assert [logged.event["text"] for logged in await store.events("s1")] == ["hello"]
        changes = await store.changes(0)
        assert changes is not None
        assert [change.entry.state for change in changes if isinstance(change, EntryChanged)] == [
            "pending",
            "answered",
            "delivered",
        ]
        assert list(store._folder.glob("*.lock")) == []


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        (["CREATE TABLE notes (text)"], "another program"),
        (["PRAGMA application_id = 7", "PRAGMA user_version = 1"], "another program"),
        (
            [f"PRAGMA application_id = {APPLICATION_ID}", f"PRAGMA user_version = {VERSION + 1}"],
            f"of version {VERSION + 1}",
        ),
    ],
)
async def test_a_file_of_something_else_is_refused_untouched(
    tmp_path: Path, statements: list[str], told: str
) -> None:
    """Another program's database, and an inbox of a newer version, are told by name and not written to."""
    file = tmp_path / "other.db"
    connection = sqlite3.connect(file)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    before = connection.execute("SELECT * FROM sqlite_schema").fetchall()
    with pytest.raises(InboxError, match=told):
        async with SqliteStore(file):
            pass
    assert connection.execute("SELECT * FROM sqlite_schema").fetchall() == before
    connection.close()


async def test_an_inbox_of_an_older_version_is_brought_up_to_this_one(tmp_path: Path) -> None:
    """All that it held is there, its numbers go on, and its tables are those of a new inbox."""
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    connection = sqlite3.connect(old)
    connection.executescript((Path(__file__).parent / "inbox_v1.sql").read_text())
    connection.close()
    async with SqliteStore(old) as store, SqliteStore(new):
        assert store.id == "inbox_wnt-1kZMuhfPqyAA"
        assert [(entry.id, entry.state) for entry in await store.entries()] == [
            ("q1", "delivered"),
            ("q2", "orphaned"),  # as its host is not there
        ]
        assert [logged.event["text"] for logged in await store.events("s1")] == ["hello"]
        host = await store.join()
        entry = await store.put(ask_of("q3"), host.id)
        assert (entry.number, entry.seq) == (3, 8)  # behind what was taken in of the host
        assert _tables(old) == _tables(new)
        await store.resolve("q3", first("web:alice"))
    async with SqliteStore(old) as store:
        assert [entry.id for entry in await store.entries()] == ["q1", "q2", "q3"]


def _tables(file: Path) -> tuple[object, ...]:
    connection = sqlite3.connect(file)
    try:
        return (
            connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall(),
            connection.execute("PRAGMA user_version").fetchone(),
        )
    finally:
        connection.close()


async def test_many_processes_make_one_inbox(tmp_path: Path) -> None:
    """Stores that open the same new file at once agree on what it is."""
    stores = [SqliteStore(tmp_path / "inbox.db") for _ in range(8)]
    threads = [threading.Thread(target=store.open) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert len({store.id for store in stores}) == 1
        assert stores[0].id
    finally:
        for store in stores:
            store.close()


async def test_a_store_is_used_while_it_is_open(tmp_path: Path) -> None:
    """Before and after, it says so; it is not opened twice, and closing it twice is harmless."""
    store = SqliteStore(tmp_path / "inbox.db")
    with pytest.raises(InboxError, match="not open"):
        await store.snapshot()
    async with store:
        with pytest.raises(InboxError, match="open already"):
            store.open()
    store.close()
    with pytest.raises(InboxError, match="not open"):
        await store.snapshot()
    store.settle_soon("q1", first())  # is logged and harms nobody


async def test_a_name_that_cannot_be_is_told(tmp_path: Path) -> None:
    """A folder in place of a file, and a folder that cannot be made, in a sentence."""
    with pytest.raises(InboxError, match="is no file"):
        async with SqliteStore(tmp_path):
            pass
    (tmp_path / "file").touch()
    with pytest.raises(InboxError, match="cannot be opened"):
        async with SqliteStore(tmp_path / "file" / "inbox.db"):
            pass


async def test_an_inbox_is_the_same_by_a_link(tmp_path: Path) -> None:
    """Two names of one file share the hosts' places, so that neither takes the other's host for dead."""
    (tmp_path / "link.db").symlink_to(tmp_path / "inbox.db")
    async with SqliteStore(tmp_path / "inbox.db") as store:
        host = await store.join()
        await store.put(ask_of(), host.id)
        async with SqliteStore(tmp_path / "link.db") as other:
            assert (await other.entry("q1")).state == "pending"
            assert (await other.resolve("q1", first())).state == "answered"


def test_a_fork_of_a_host_does_not_keep_its_place(tmp_path: Path) -> None:
    """A process that a host forked, without more, and that outlives it, holds no lock of the host's."""
    script = """
import os, sys, anyio
from opask.inbox import SqliteStore
store = SqliteStore(sys.argv[1])
store.open()
async def join():
    print((await store.join()).id, flush=True)
anyio.run(join)
if os.fork() == 0:
    print("forked", flush=True)
    sys.stdin.read()
    os._exit(0)
sys.stdout.flush()
os._exit(0)
"""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script, str(tmp_path / "inbox.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    host_id = process.stdout.readline().strip()
    assert process.stdout.readline() == "forked\n"
    process.wait(20)
    assert not is_held(tmp_path / "inbox.db.d", host_id)
    assert process.stdin is not None
    process.stdin.close()
    process.stdout.close()


async def test_a_watcher_of_what_was_pruned_begins_anew(tmp_path: Path) -> None:
    """Changes that are forgotten are not passed over: a snapshot takes their place."""
    async with SqliteStore(tmp_path / "inbox.db") as store:
        host = await store.join()
        await store.put(ask_of(wait=None), host.id)
        over = await store.settle("q1", first())
        assert over.settled_at is not None
        await store.put(ask_of("q2", wait=None), host.id)
        seq = (await store.snapshot()).seq
    async with SqliteStore(tmp_path / "inbox.db") as store:
        assert await store.prune(over.settled_at.replace(year=over.settled_at.year + 1)) == 2
    async with SqliteStore(tmp_path / "inbox.db") as store:
        assert isinstance(await anext(store.watch(seq - 1)), Snapshot)


async def test_the_change_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old changes go by themselves, and whoever lags that far begins anew."""
    # A session begins, 1000 asks come, 1000 are orphaned, the session ends: the last cut is made at 2000.
    monkeypatch.setattr("opask.inbox.sqlite_tables._KEPT_CHANGES", 500)
    async with SqliteStore(tmp_path / "inbox.db") as store:
        host = await store.join()
        async with anyio.create_task_group() as tasks:
            for number in range(1000):
                tasks.start_soon(store.put, ask_of(f"q{number}", wait=None), host.id)
    async with SqliteStore(tmp_path / "inbox.db") as store:
        assert await store.changes(1499) is None
        changes = await store.changes(1500, limit=10_000)
        assert changes is not None
        assert changes[0].seq == 1501


async def test_a_full_disk_is_told_and_costs_no_other(tmp_path: Path) -> None:
    """What cannot be written is an error of the caller's; the store goes on once there is room."""
    async with SqliteStore(tmp_path / "inbox.db") as store:
        host = await store.join()
        await store.put(ask_of(), host.id)
        connection = store._engine._connection  # type: ignore[union-attr]

        async def limit(pages: int) -> None:
            await store._read(lambda _: connection.execute(f"PRAGMA max_page_count = {pages}").fetchone())

        await limit(1)
        with pytest.raises(InboxError, match="cannot be written"):
            await store.append("s1", [{"event": "text", "text": "x" * 1_000_000}])
        await limit(1_000_000)
        assert (await store.resolve("q1", first())).state == "answered"


async def test_a_host_of_the_same_process_that_has_gone_is_noticed_by_an_answer(tmp_path: Path) -> None:
    """An answer to an ask whose host has just died is refused, before anybody else has noticed."""
    async with SqliteStore(tmp_path / "inbox.db") as store, InboxPrompter(store) as prompter:
        await store.put(ask_of(), prompter.host_id)
        store._places.pop(prompter.host_id).let_go()
        with pytest.raises(TooLateError, match="gone"):
            await store.resolve("q1", first())
        assert (await store.entry("q1")).state == "orphaned"


def test_the_default_is_in_the_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As the XDG base directory specification has it, where a relative folder counts as none."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_path() == Path("/state/opask/inbox.db")
    for none in ("", "state"):
        monkeypatch.setenv("XDG_STATE_HOME", none)
        assert default_path() == tmp_path / ".local/state/opask/inbox.db"


async def test_without_a_doorbell_news_take_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A store that cannot be rung at looks by itself, and says why it is slow."""

    def no_bell(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    async with SqliteStore(tmp_path / "inbox.db") as other:
        monkeypatch.setattr("opask.inbox.engine.Bell", no_bell)
        async with SqliteStore(tmp_path / "inbox.db") as store:
            host = await other.join()
            watch = store.watch()
            await anext(watch)
            with anyio.fail_after(30):
                await other.put(ask_of(), host.id)
                while not isinstance(update := await anext(watch), EntryChanged):
                    pass
            assert update.entry.id == "q1"
    assert "takes a second" in caplog.text


async def test_what_is_taken_back_is_neither_told_nor_kept(tmp_path: Path) -> None:
    """Of an operation that fails once it has written nothing is left, here or where it would be heard of."""
    async with SqliteStore(tmp_path / "inbox.db") as other, SqliteStore(tmp_path / "inbox.db") as store:
        host = await store.join()
        before = await store.put(ask_of(), host.id)
        watches = [store.watch(before.seq), other.watch(before.seq)]
        heard: list[LoggedEvent] = []

        def fails(ledger: Ledger) -> None:
            ledger.append("s1", [{"event": "text", "text": "no"}])
            ledger.resolve("q1", first(), None, None)
            ledger.put(ask_of("q2"), host.id, None, None, None)
            raise RuntimeError("after all")

        async def alone() -> None:
            with pytest.raises(RuntimeError, match="after all"):
                await store._write(fails)

        async def hear() -> None:
            with anyio.fail_after(30):
                heard.append(await anext(store.watch_events("s1")))

        async with anyio.create_task_group() as listening:
            listening.start_soon(hear)
            await anyio.wait_all_tasks_blocked()
            await alone()
            async with anyio.create_task_group() as tasks:  # with others in one transaction, too
                for _ in range(3):
                    tasks.start_soon(alone)
                    tasks.start_soon(store.leave, "nobody")
            assert await store.entry("q1") == before
            assert await other.entry("q1") == before
            await other.append("s1", [{"event": "text", "text": "yes"}])
        assert heard[0].event["text"] == "yes"
        answered = await store.resolve("q1", first())
        with anyio.fail_after(30):
            for watch in watches:
                assert await anext(watch) == EntryChanged(answered.seq, answered)


async def test_events_of_two_processes_at_once_are_all_heard(tmp_path: Path) -> None:
    """Whoever stores events of its own does not pass over those that another one has stored just before."""
    async with SqliteStore(tmp_path / "inbox.db") as store, SqliteStore(tmp_path / "inbox.db") as other:
        host = await store.join()
        for session_id in ("s1", "s2"):
            await store.begin_session(session_id, host.id)
        heard: list[LoggedEvent] = []
        goes_on = threading.Event()

        async def hear() -> None:
            with anyio.fail_after(30):
                heard.append(await anext(store.watch_events("s1")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hear)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(store._read, lambda _: goes_on.wait(60))
            await anyio.wait_all_tasks_blocked()
            await other.append("s1", [{"event": "text", "text": "other's"}])
            store.append_soon("s2", [{"event": "text", "text": "own"}])
            goes_on.set()
        assert heard[0].event["text"] == "other's"


async def test_what_another_process_has_cleared_is_not_kept_in_mind(tmp_path: Path) -> None:
    """An ask that was over and cleared at once, before this process looked, is gone here too, and not open for ever."""
    goes_on = threading.Event()
    async with SqliteStore(tmp_path / "inbox.db") as store, SqliteStore(tmp_path / "inbox.db") as other:
        host = await store.join()
        await store.put(ask_of(), host.id)
        assert (await other.entry("q1")).is_open
        faults: list[Exception] = []

        async def settle() -> None:
            try:
                await other.settle("q1", Abandoned("agent"))
            except UnknownAskError as error:
                faults.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other._read, lambda _: goes_on.wait(60))
            await anyio.wait_all_tasks_blocked()
            await store.resolve("q1", Skipped("op"))
            await store.clear_session("s1")
            tasks.start_soon(settle)
            await anyio.wait_all_tasks_blocked()
            goes_on.set()
        assert len(faults) == 1
        assert await other.entries() == ()
        assert [type(change) for change in await store.changes(1) or ()][-1] is SessionCleared
        host.release()


async def test_nobody_waits_for_an_ask_that_is_cleared(tmp_path: Path) -> None:
    """Whoever waits for an ask that another process ended and cleared at once hears that it is gone."""
    goes_on = threading.Event()
    async with SqliteStore(tmp_path / "inbox.db") as store, SqliteStore(tmp_path / "inbox.db") as other:
        host = await other.join()
        await other.put(ask_of(), host.id)
        waiting = other.watch_ask("q1")
        await anext(waiting)
        await other.extend("q1", utc_now() + timedelta(seconds=100))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other._read, lambda _: goes_on.wait(60))
            await anyio.wait_all_tasks_blocked()
            await store.resolve("q1", Skipped("op"))
            await store.clear_session("s1")
            tasks.start_soon(other.leases)  # it catches up before it hears what rings say
            await anyio.wait_all_tasks_blocked()
            goes_on.set()

        async def wait() -> None:
            async for entry in waiting:
                assert entry.state == "pending"

        with anyio.fail_after(30), pytest.raises(UnknownAskError):
            await wait()
        host.release()


async def test_rings_that_say_anything_are_heard(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What a ring says counts only where it comes next and can be read; a look finds the rest."""
    async with SqliteStore(tmp_path / "inbox.db") as store, SqliteStore(tmp_path / "inbox.db") as other:
        host = await store.join()
        entry = await store.put(ask_of(), host.id)
        watch = other.watch(entry.seq)
        assert other._engine is not None
        ringing = Ringer(store._folder, store._engine._bell.name)  # type: ignore[union-attr]
        gone = [(entry.seq + 1, "entry", "q9", "{}")]  # an ask that was forgotten since
        for said in (
            b"",
            b"!",
            b"\xff\x00",
            b"[" * 16_000,
            b"{}",
            b"[[1]]",
            b"[[Infinity, 1, 2, 3]]",
            b'[["a", 1, 2, 3]]',
            b"x" * 20_000,
            json.dumps([(entry.seq + 9, "entry", "q1", "{}")]).encode(),
            json.dumps([(entry.seq, "entry", "q1", "{}")]).encode(),
            json.dumps(gone).encode(),
        ):
            ringing.ring(lambda said=said: said)  # type: ignore[misc]
        ringing.close()
        answered = await store.resolve("q1", first())
        with anyio.fail_after(30):
            assert await anext(watch) == EntryChanged(answered.seq, answered)
        assert await other.entry("q1") == answered
    assert not caplog.records


@pytest.fixture
def ringing(tmp_path: Path) -> Iterator[Ringer]:
    """A ringer with as small a buffer as there is, for a few kB."""
    ringer = Ringer(tmp_path, None)
    ringer._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    yield ringer
    ringer.close()


def test_a_bell_made_in_the_same_second_as_another_is_rung(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the folder's time tells whole seconds, a bell that came in between two rings is found all the same."""
    second_ns = 1_000_000_000
    made_ns = tmp_path.stat().st_mtime_ns // second_ns * second_ns
    monkeypatch.setattr("opask.inbox.bells.time.time_ns", lambda: made_ns + second_ns - 1)
    with closing(Ringer(tmp_path, None)) as ringer, closing(Bell(tmp_path)) as first_bell:
        os.utime(tmp_path, ns=(made_ns, made_ns))
        ringer.ring()
        with closing(Bell(tmp_path)) as second_bell:
            os.utime(tmp_path, ns=(made_ns, made_ns))
            ringer.ring()
            assert (len(first_bell.heard()), len(second_bell.heard())) == (2, 1)


def test_a_stopped_process_keeps_no_ring_from_the_others(tmp_path: Path, ringing: Ringer) -> None:
    """What a process does not hear, since it is stopped, takes no room from what the others are told."""
    with closing(Bell(tmp_path)), closing(Bell(tmp_path)) as heard:
        for number in range(100):
            said = f"{number:1000}".encode()
            ringing.ring(lambda said=said: said)  # type: ignore[misc]
            assert heard.heard() == [said]


def test_a_ring_that_is_too_long_for_the_system_only_rings(tmp_path: Path, ringing: Ringer) -> None:
    """What does not go into a datagram is left out, and the ring is heard all the same."""
    with closing(Bell(tmp_path)) as bell:
        ringing.ring(lambda: b"x" * 10_000)
        assert bell.heard() == [b""]


async def test_a_bell_that_nobody_hears_is_taken_away(tmp_path: Path) -> None:
    """What a killed process left goes with the next ring; the bells that are heard stay."""
    async with SqliteStore(tmp_path / "inbox.db") as store:
        gone = Bell(store._folder)
        gone.socket.close()
        ringing = Ringer(store._folder, None)
        before = set(store._folder.glob("*.bell"))
        ringing.ring()
        ringing.close()
        assert before - set(store._folder.glob("*.bell")) == {store._folder / gone.name}


def test_what_killed_processes_left_elsewhere_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of a bell that nobody hears goes when the next such bell is made; one that is heard stays."""
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    short = Path(tempfile.mkdtemp(prefix="o", dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    killed, heard = Bell(deep), Bell(deep)
    killed.socket.close()
    third = Bell(deep)
    assert len(list(short.iterdir())) == 2
    for bell in (killed, heard, third):
        bell.close()
    assert list(short.iterdir()) == []
    short.rmdir()
