"""An inbox that several processes use, some of which are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import anyio
import pytest
from hypothesis import settings

from inbox_peers import ask_of, first
from opask.inbox import Entry, EntryChanged, Snapshot, SqliteStore

PROGRAM = Path(__file__).resolve().parents[1] / "inbox_process.py"
KILLS = min(max(settings().max_examples // 12, 4), 60)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder of this test's own, with a path short enough for a socket, as pytest's own need not be."""
    with tempfile.TemporaryDirectory(prefix="o", dir="/tmp") as name:
        yield Path(name)


class Peer:
    """A process of `inbox_process`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.out: IO[str] = process.stdout

    def line(self) -> str:
        """Read what it says next."""
        line = self.out.readline()
        assert line, f"it ended with {self.process.wait(30)}"
        return line.strip()

    def go(self) -> None:
        """Let it begin."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill(self) -> list[str]:
        """Kill it; return what it had said and nobody had read."""
        self.process.send_signal(signal.SIGKILL)
        rest = self.out.read().splitlines()
        self.process.wait(30)
        return rest


@contextmanager
def peer(role: str, file: Path, *arguments: str) -> Iterator[Peer]:
    """Start a process and wait until it is ready; at the end it is gone."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), role, str(file), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PROGRAM.parent)},
    )
    with process:
        try:
            found = Peer(process)
            assert found.line() == "ready"
            yield found
        finally:
            process.kill()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_of_two_processes_exactly_one_wins_each_answer(tmp_path: Path, anyio_backend: str) -> None:
    """Two race a thousand answers: each is taken once, and what each was told is what is kept."""
    file, count = tmp_path / "inbox.db", 1000
    async with SqliteStore(file) as store:
        host = await store.join()
        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(store.put, ask_of(f"q{number}", wait=None), host.id)
        with peer("race", file, "left", str(count)) as left, peer("race", file, "right", str(count)) as right:
            left.go()
            right.go()
            won = {}
            for name, racer in (("left", left), ("right", right)):
                while not (line := racer.line()).startswith("won "):
                    assert line not in won, "taken twice"
                    won[line] = name
        kept = {entry.id: entry.by for entry in await store.entries(states=["answered"])}
    assert kept == won
    assert len(won) == count


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("deep", [False, True], ids=["short path", "long path"])
async def test_a_waiting_process_hears_of_an_answer_at_once(
    short_path: Path, deep: bool, anyio_backend: str
) -> None:
    """An answer that one process commits rings at another, which need not look by itself, whatever the path."""
    folder = short_path / ("x" * 120) / ("y" * 120) if deep else short_path
    async with SqliteStore(folder / "inbox.db") as store:
        host = await store.join()
        await store.put(ask_of(), host.id)
        with peer("wait", folder / "inbox.db", "q1") as waiting:
            links = [bell for bell in store._folder.glob("*.bell") if bell.is_symlink()]
            targets = [link.resolve().parent for link in links]
            assert len(targets) == (2 if deep else 0)
            await store.resolve("q1", first())
            assert await anyio.to_thread.run_sync(waiting.line) == "answered"
            assert len(list(store._folder.glob("*.bell"))) == 2
            waiting.kill()
        # A killed watcher's bell is taken away by whoever rings next.
        await store.settle("q1", first())
        assert len(list(store._folder.glob("*.bell"))) == 1
        assert sum(target.exists() for target in targets) == (1 if deep else 0)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_committed_answer_outlives_its_host(tmp_path: Path, anyio_backend: str) -> None:
    """However a host or an answering process is killed under load: what was committed is delivered or undelivered.

    Nothing is pending or answered once the hosts are gone, nothing that was over is ever open again, and a watcher
    sees each of the changes.
    """
    file = tmp_path / "inbox.db"
    committed: set[str] = set()
    seen: list[Entry] = []
    async with SqliteStore(file) as store, anyio.create_task_group() as tasks:
        more = anyio.Event()

        async def watch() -> None:
            nonlocal more
            async for update in store.watch(0):
                assert not isinstance(update, Snapshot)
                if isinstance(update, EntryChanged):
                    seen.append(update.entry)
                more.set()
                more = anyio.Event()

        tasks.start_soon(watch)
        for kill in range(KILLS):
            with ExitStack() as stack:
                host = stack.enter_context(peer("host", file, f"h{kill}", "8"))
                web = stack.enter_context(peer("answer", file))
                await anyio.sleep(0.02 * (kill % 7))
                if kill % 4 == 3:  # once something is answered; the other kills may come before
                    committed.add(await anyio.to_thread.run_sync(web.line))
                for victim in ((host, web), (web, host))[kill % 2]:
                    lines = victim.kill()
                    if victim is web:
                        committed.update(lines)
        with anyio.fail_after(30):
            while any(entry.is_open for entry in {entry.id: entry for entry in seen}.values()) or (
                seen[-1].seq < max(entry.seq for entry in await store.entries())
            ):
                await more.wait()
        entries = {entry.id: entry for entry in await store.entries()}
        tasks.cancel_scope.cancel()
    assert len(committed) >= KILLS // 4
    assert {entries[id_].state for id_ in committed} <= {"delivered", "undelivered"}
    assert {entry.state for entry in entries.values()} <= {"delivered", "undelivered", "orphaned"}
    last: dict[str, Entry] = {}
    for entry in seen:
        assert entry.id not in last or last[entry.id].is_open, "what was over is open again"
        last[entry.id] = entry
    assert last == entries
