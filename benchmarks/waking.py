"""What the time to an answer is held against: a bare commit that wakes a process, which reads it."""

from __future__ import annotations

import itertools
import socket
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from measuring import Figure, Interleaved, Target
from opask.inbox import Entry, EntryChanged, Update
from programs import Controlled

__all__ = ["CLICK_S", "figure", "pending", "raw_database"]

CLICK_S = 0.02  # an operator is no faster; the host has stored the question's event by then


def raw_database(file: Path) -> sqlite3.Connection:
    """Open a database as an inbox's file is opened, with the least that an ask could be."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS asks (id INTEGER PRIMARY KEY, ask TEXT, reply TEXT)")
    return connection


async def pending(watch: AsyncIterator[Update]) -> Entry:
    """Wait for the next ask."""
    async for update in watch:
        if isinstance(update, EntryChanged) and update.entry.state == "pending":
            return update.entry
    raise AssertionError


def figure(name: str, folder: Path, ours: Callable[[], float], rounds: int) -> Figure:
    """Measure something in turn with the baseline, which it may take three times as long as."""
    turns = Interleaved()
    with _bare(folder) as bare:
        turns.add("ours", ours)
        turns.add("bare", bare)
        turns.run(rounds)
    return Figure.of_pairs(
        name,
        "ms",
        turns.pairs("ours", "bare"),
        against="commit, wake another process by a datagram, read there",
        target=Target("ratio", 3),
    )


@contextmanager
def _bare(folder: Path) -> Iterator[Callable[[], float]]:
    bell, numbers = f"{folder}/bell", itertools.count()
    with ExitStack() as stack:
        raw = stack.enter_context(closing(raw_database(folder / "raw.db")))
        raw.execute("INSERT OR REPLACE INTO asks VALUES (1, 'x', NULL)")
        waiting = stack.enter_context(Controlled("inbox_host.py", "bare", str(folder / "raw.db"), bell))
        rings = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        stack.callback(rings.sendto, b".", bell)

        def bare() -> float:
            time.sleep(CLICK_S)  # all that waits has fallen asleep, as there
            begin = time.perf_counter()
            raw.execute("BEGIN IMMEDIATE")
            raw.execute("UPDATE asks SET reply = ? WHERE id = 1", (str(next(numbers)),))
            raw.execute("COMMIT")
            rings.sendto(b"!", bell)
            waiting.heard()
            return (time.perf_counter() - begin) * 1000

        yield bare
