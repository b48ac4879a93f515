"""The processes that an answer goes through: a host with an inbox on the real path, and two as bare as they can be.

Usage: inbox_host.py opask FILE | waits FILE BELL | serves FILE BELL. The first prints the command of a session's relay.
The second prints a line each time it was rung and has read the answer. The third prints a port, and for each line that
is sent there commits an answer and rings.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

import waking
from opask import LaunchRequest
from opask.bridge import Bridge
from opask.inbox import InboxPrompter, SqliteStore
from opask_claude import adapter


def say(what: Any) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def opask(file: str) -> None:
    """Put the asks of one session into an inbox until the input ends."""
    async with (
        SqliteStore(file) as store,
        InboxPrompter(store, when_absent="attach") as prompter,
        Bridge() as bridge,
        prompter.session("bench", runtime="claude") as recorder,
        await bridge.attach(
            "bench", adapter, prompter, wait=timedelta(hours=1), allow_unverified=True
        ) as session,
    ):
        session.subscribe(recorder)
        plan = session.plan_launch(LaunchRequest(["claude", "-p", "hello"], dict(os.environ)))
        assert plan.endpoint is not None
        say({"command": list(plan.endpoint.command)})
        await anyio.to_thread.run_sync(sys.stdin.read)


def waits(file: str, bell: str) -> None:
    """Wait for the bell, read what was committed, say so."""
    connection = sqlite3.connect(file, isolation_level=None)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as rung:
        rung.bind(bell)
        say({"ready": True})
        while rung.recv(16) == b"!":
            say(connection.execute("SELECT reply FROM asks WHERE id = 1").fetchone())
    connection.close()
    Path(bell).unlink()


def serves(file: str, bell: str) -> None:
    """Take a request, commit the answer that it has, ring, until the connection ends."""
    raw = waking.raw_database(Path(file))
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as rings,
    ):
        say({"port": listener.getsockname()[1]})
        connection, _ = listener.accept()
        with connection:
            while request := connection.recv(1 << 16):
                waking.commit_and_wake(raw, rings, bell, request.decode())
    raw.close()


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "opask":
        anyio.run(opask, arguments[0])
    else:
        {"waits": waits, "serves": serves}[what](*arguments)
