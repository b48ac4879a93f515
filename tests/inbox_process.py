"""A process that uses an inbox, for tests that need several; run as ``python inbox_process.py ROLE FILE …``.

``race NAME COUNT``: waits for a line on stdin, then answers ``q0``… and prints the ids of those that it won.
``host NAME COUNT``: puts asks without end, so many at a time, waits for each, and settles it as answered.
``wait ID``: never looks by itself; prints ``ready``, and ``answered`` once the doorbell has told it of the answer, and stays.
``answer``: answers whatever is pending, without end; prints the id of each once it is committed.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

import anyio

from inbox_peers import ask_of, first, second
from opask.inbox import EntryChanged, InboxPrompter, RefusedError, Snapshot, SqliteStore, engine


def say(what: object) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


async def race(store: SqliteStore, name: str, count: str) -> None:
    """Answer all, as fast as it goes."""
    say("ready")
    sys.stdin.readline()
    won = 0
    for number in range(int(count)):
        try:
            await store.resolve(f"q{number}", first(name) if name == "left" else second(name))
        except RefusedError:
            continue
        won += 1
        say(f"q{number}")
    say(f"won {won}")


async def host(store: SqliteStore, name: str, at_once: str) -> None:
    """Ask without end, so many at a time."""
    async with InboxPrompter(store, when_absent="attach") as prompter, anyio.create_task_group() as tasks:

        async def ask_on(line: int) -> None:
            for number in range(1_000_000):
                ask = ask_of(f"{name}-{line}-{number}", f"{name}-{line}", wait=600)
                reply = await prompter.ask(ask)
                prompter.settled(ask, reply)

        say("ready")
        for line in range(int(at_once)):
            tasks.start_soon(ask_on, line)


async def wait(store: SqliteStore, ask_id: str) -> None:
    """Wait for the answer to one ask."""
    watch = store.watch_ask(ask_id)
    await anext(watch)
    say("ready")
    while (await anext(watch)).state != "answered":
        pass
    say("answered")
    await anyio.sleep_forever()


async def answer(store: SqliteStore) -> None:
    """Answer all that comes."""
    say("ready")
    async with anyio.create_task_group() as tasks:
        async for update in store.watch():
            if isinstance(update, Snapshot):
                for entry in update.entries:
                    tasks.start_soon(_answer, store, entry.id)
            elif isinstance(update, EntryChanged) and update.entry.state == "pending":
                tasks.start_soon(_answer, store, update.entry.id)


async def _answer(store: SqliteStore, ask_id: str) -> None:
    try:
        await store.resolve(ask_id, first("web"))
    except RefusedError:
        return
    say(ask_id)


async def main(*words: str) -> None:
    """Play a role."""
    role, path, *arguments = words
    if role == "wait":
        engine._TICK_S = 3600.0  # type: ignore[misc]
    roles: dict[str, Callable[..., Awaitable[None]]] = {
        "race": race,
        "host": host,
        "wait": wait,
        "answer": answer,
    }
    async with SqliteStore(path) as store:
        await roles[role](store, *arguments)


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
