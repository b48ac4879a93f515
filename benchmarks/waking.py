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

__all__ = ["CLICK_S", "commit_and_wake", "figures", "pending", "raw_database"]

CLICK_S = 0.02  # an operator is no faster; the host has stored the question's event by then


def raw_database(file: Path) -> sqlite3.Connection:
    """Open a database as an inbox's file is opened, with the least that an ask could be."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS asks (id INTEGER PRIMARY KEY, ask TEXT, reply TEXT)")
    return connection


def commit_and_wake(raw: sqlite3.Connection, rings: socket.socket, bell: str, answer: str) -> None:
    """Commit an answer, and ring."""
    raw.execute("BEGIN IMMEDIATE")
    raw.execute("UPDATE asks SET reply = ? WHERE id = 1", (answer,))
    raw.execute("COMMIT")
    rings.sendto(b"!", bell)


async def pending(watch: AsyncIterator[Update]) -> Entry:
    """Wait for the next ask."""
    async for update in watch:
        if isinstance(update, EntryChanged) and update.entry.state == "pending":
            return update.entry
    raise AssertionError


def figures(
    name: str, folder: Path, ours: Callable[[], float], rounds: int, *, by_request: bool
) -> Iterator[Figure]:
    """Measure something in turn with the baseline, which it may take three times as long as.

    Args:
        name: what is measured.
        folder: for the baseline's files.
        ours: measures it once, in milliseconds.
        rounds: how often.
        by_request: whether the answer comes to the process that commits it as a request. The baseline's then does, too,
            and a second figure, without a target, has the baseline without.
    """
    turns = Interleaved()
    with _bare(folder) as (commit, request):
        turns.add("ours", ours)
        turns.add("bare", request if by_request else commit)
        turns.run(rounds)
    against = "commit, wake another process by a datagram, read there"
    target = Target("ratio", 3)
    if by_request:
        against = f"a request, {against}"
    yield Figure.of_pairs(name, "ms", turns.pairs("ours", "bare"), against=against, target=target)


@contextmanager
def _bare(folder: Path) -> Iterator[tuple[Callable[[], float], Callable[[], float]]]:
    file, bell, numbers = folder / "raw.db", f"{folder}/bell", itertools.count()
    with ExitStack() as stack:
        raw = stack.enter_context(closing(raw_database(file)))
        raw.execute("INSERT OR REPLACE INTO asks VALUES (1, 'x', NULL)")
        waiting = stack.enter_context(Controlled("inbox_host.py", "waits", str(file), bell))
        rings = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        stack.callback(rings.sendto, b".", bell)
        serving = stack.enter_context(Controlled("inbox_host.py", "serves", str(file), bell))
        click = stack.enter_context(socket.create_connection(("127.0.0.1", serving.ready["port"])))
        click.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def commit() -> float:
            time.sleep(CLICK_S)  # all that waits has fallen asleep, as there
            begin = time.perf_counter()
            commit_and_wake(raw, rings, bell, str(next(numbers)))
            waiting.heard()
            return (time.perf_counter() - begin) * 1000

        def request() -> float:
            time.sleep(CLICK_S)
            begin = time.perf_counter()
            click.sendall(str(next(numbers)).encode())
            waiting.heard()
            return (time.perf_counter() - begin) * 1000

        yield commit, request
