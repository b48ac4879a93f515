"""The baselines of the host: a socket that echoes, and one that parks requests, each as bare as it can be.

Usage: bare_host.py SOCKET echo | loop | park. Commands as `host.py` takes them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
import threading
from typing import Any

import anyio
from anyio.abc import SocketStream


def say(what: Any) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def echo(path: str) -> None:
    """Send back what comes over each connection, one after the other."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        say({"ready": True})
        while True:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                while received := connection.recv(65536):
                    connection.sendall(received)


async def echo_on_a_loop(path: str) -> None:
    """Do the same on an event loop, over the streams that the bridge's connections are made of."""

    async def carry(stream: SocketStream) -> None:
        async with stream:
            async for received in stream:
                await stream.send(received)

    listener = await anyio.create_unix_listener(path)
    say({"ready": True})
    await listener.serve(carry)


class Parking:
    """Keeps each request as a task that waits, and answers all when told to."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.count = 0
        self.changed = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Park each line of a connection."""
        tasks: set[asyncio.Task[None]] = set()
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                request = json.loads(line)
                if request["method"] != "tools/call":
                    writer.write(json.dumps({"id": request["id"], "result": {}}).encode() + b"\n")
                    continue
                tasks.add(asyncio.create_task(self._park(request, writer)))
        for task in tasks:
            task.cancel()
        writer.close()

    async def _park(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        self.count += 1
        self.changed.set()
        await self.gate.wait()
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": {"answers": {}}}
        writer.write(json.dumps(answer).encode() + b"\n")


async def park(path: str) -> None:
    """Park requests, and obey."""
    parking = Parking()
    async with await asyncio.start_unix_server(parking.serve, path, backlog=1024):
        say({"ready": True})
        while line := await asyncio.to_thread(sys.stdin.readline):
            command = json.loads(line)
            if command["do"] == "parked":
                while parking.count < command["count"]:
                    parking.changed.clear()
                    await parking.changed.wait()
            elif command["do"] == "answer":
                parking.gate.set()
            say({})


def end_with_input() -> None:
    """End the process when its standard input ends."""
    sys.stdin.read()
    os._exit(0)


if sys.argv[2] == "echo":
    threading.Thread(target=end_with_input, daemon=True).start()
    echo(sys.argv[1])
elif sys.argv[2] == "loop":
    threading.Thread(target=end_with_input, daemon=True).start()
    anyio.run(echo_on_a_loop, sys.argv[1])
else:
    asyncio.run(park(sys.argv[1]))
