"""The inbox's figures, each a ratio to a baseline that was measured in turn with it.

Prints a table; ``--json FILE`` also writes the figures with their quartiles. ``--check`` exits with 1 where a
target is missed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import anyio
from anyio.from_thread import BlockingPortal

import waking
from measuring import Figure, Interleaved, Target
from opask import Answer, Answered, Ask, Option, Question
from opask.inbox import MemoryStore, SqliteStore, Store
from programs import CALL, Controlled, spawned
from reporting import command, in_a_folder

_BLOCK = 20  # pairs of put and resolve in a sample
_CALLERS = (1, 2, 10, 200)
_WATCHERS = 1000
_QUESTION = Question(
    "Which database should the service use?", "Database", (Option("PostgreSQL"), Option("SQLite"))
)
_REPLY = Answered((Answer((0,)),), "bench")


def _ask(number: int) -> Ask:
    now = datetime.now(UTC)
    return Ask(f"q{number}", "bench", (_QUESTION,), now, now + timedelta(hours=1))


async def _joined(store: Store) -> str:
    return (await store.join()).id


def stores(folder: Path, portal: BlockingPortal, rounds: int) -> Iterator[Figure]:
    """Measure put and resolve against the two transactions that they are at the least."""
    numbers = itertools.count()
    raw = waking.raw_database(folder / "raw.db")
    body = json.dumps({"ask": "x" * 400})

    def bare() -> float:
        begin = time.perf_counter()
        for _ in range(_BLOCK):
            raw.execute("BEGIN IMMEDIATE")
            row = raw.execute("INSERT INTO asks (ask) VALUES (?)", (body,)).lastrowid
            raw.execute("COMMIT")
            raw.execute("BEGIN IMMEDIATE")
            raw.execute("SELECT ask FROM asks WHERE id = ? AND reply IS NULL", (row,)).fetchone()
            raw.execute("UPDATE asks SET reply = ? WHERE id = ?", (body, row))
            raw.execute("COMMIT")
        return (time.perf_counter() - begin) * 1000 / _BLOCK

    async def one(store: Store, host_id: str) -> None:
        ask = _ask(next(numbers))
        await store.put(ask, host_id)
        await store.resolve(ask.id, _REPLY)

    async def several(store: Store, host_id: str, count: int) -> None:
        for _ in range(count):
            await one(store, host_id)

    async def at_once(store: Store, host_id: str, callers: int) -> float:
        each = math.ceil(_BLOCK / callers)
        begin = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for _ in range(callers):
                tasks.start_soon(several, store, host_id, each)
        return (time.perf_counter() - begin) * 1000 / (callers * each)

    turns = Interleaved()
    turns.add("bare", bare)
    with portal.wrap_async_context_manager(SqliteStore(folder / "inbox.db")) as file:
        memory = MemoryStore()
        for name, store in (("file", file), ("memory", memory)):
            host_id = portal.call(_joined, store)
            for callers in _CALLERS:
                turns.add(f"{name} {callers}", partial(portal.call, at_once, store, host_id, callers))
        turns.run(rounds)
    raw.close()
    against = "two sqlite3 transactions, WAL, synchronous=FULL"
    for callers in _CALLERS:
        yield Figure.of_pairs(
            f"put and resolve, {callers} waiting at once"
            if callers > 1
            else "put and resolve, each waited for",
            "ms",
            turns.pairs(f"file {callers}", "bare"),
            against=against,
            target=Target("ratio", 2) if callers > 1 else None,
        )
    yield Figure.of_pairs("the same in memory", "ms", turns.pairs("memory 1", "bare"), against=against)


def answers(folder: Path, portal: BlockingPortal, rounds: int) -> Iterator[Figure]:
    """Measure from an answer's commit in one process to the tool result that another's agent reads."""
    numbers = itertools.count(100)

    async def resolve(ask_id: str) -> float:
        begin = time.perf_counter()  # on the loop of the surface, as a click comes there
        await store.resolve(ask_id, _REPLY)
        return begin

    with contextlib.ExitStack() as stack:
        store = stack.enter_context(portal.wrap_async_context_manager(SqliteStore(folder / "shared.db")))
        host = stack.enter_context(Controlled("inbox_host.py", "opask", str(folder / "shared.db")))
        client = stack.enter_context(spawned(host.ready["command"]))[0]
        client.list_tools()
        watch = store.watch()

        def ours() -> float:
            client.send(CALL(next(numbers)))
            entry = portal.call(waking.pending, watch)
            time.sleep(waking.CLICK_S)
            begun = portal.start_task_soon(resolve, entry.id)
            line = client.line()
            end = time.perf_counter()
            took = (end - begun.result()) * 1000
            if b'"PostgreSQL"' not in line:
                raise RuntimeError(f"not answered: {line[:300]!r}")
            return took

        yield from waking.figures(
            "an answer, from its commit to the agent's tool result", folder, ours, rounds, by_request=False
        )


def watchers(folder: Path, portal: BlockingPortal, rounds: int) -> Iterator[Figure]:
    """Measure how long a change takes to reach all who watch in one process."""
    numbers = itertools.count(1 << 20)

    async def told(store: Store, host_id: str, count: int) -> float:
        reached = 0
        done = anyio.Event()

        async def watch(since: int) -> None:
            nonlocal reached
            await anext(store.watch(since))
            reached += 1
            if reached == count:
                done.set()

        await store.put(_ask(next(numbers)), host_id)
        since = (await store.snapshot()).seq
        async with anyio.create_task_group() as tasks:
            for _ in range(count):
                tasks.start_soon(watch, since)
            await anyio.wait_all_tasks_blocked()
            begin = time.perf_counter()
            await store.put(_ask(next(numbers)), host_id)
            await done.wait()
            took = (time.perf_counter() - begin) * 1000
        return took  # noqa: RET504 - in the block, a checker would take the block for one that swallows errors

    turns = Interleaved()
    with portal.wrap_async_context_manager(SqliteStore(folder / "watched.db")) as store:
        host_id = portal.call(_joined, store)
        for count in (_WATCHERS, 1):
            turns.add(str(count), partial(portal.call, told, store, host_id, count))
        turns.run(max(10, rounds // 5))
    yield Figure.of_pairs(
        f"a change, from its commit to {_WATCHERS} watchers",
        "ms",
        turns.pairs(str(_WATCHERS), "1"),
        against="to one watcher",
    )


if __name__ == "__main__":
    sys.exit(
        command(
            __doc__ or "",
            {
                "stores": in_a_folder(stores),
                "answers": in_a_folder(answers),
                "watchers": in_a_folder(watchers),
            },
        )
    )
