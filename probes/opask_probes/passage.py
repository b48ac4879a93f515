"""The way of a runtime in a network namespace to a server on this process's own loopback, and how to cut it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import ByteStream, Process, SocketStream
from attrs import define, field

from opask.errors import OpaskError

from . import doorway

__all__ = ["Passage", "passage"]

_START_S: Final = 30.0
_GONE: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)


@define(eq=False)
class Passage:
    """What passes; made by `passage`.

    Attributes:
        opened: how many connections there were so far.
    """

    opened: int = 0
    _open: set[anyio.CancelScope] = field(factory=set, repr=False)
    _changed: anyio.Event = field(factory=anyio.Event, repr=False)

    async def idle(self) -> None:
        """Wait until no connection is open."""
        while self._open:
            self._changed = anyio.Event()
            await self._changed.wait()

    def cut(self) -> int:
        """Cut every connection that is open; return how many those were."""
        for scope in self._open:
            scope.cancel()
        return len(self._open)

    async def carry(self, runtime: SocketStream, port: int) -> None:
        """Carry one connection, until either side ends it or it is cut."""
        self.opened += 1
        with anyio.CancelScope() as scope, suppress(*_GONE):
            self._open.add(scope)
            try:
                async with (
                    runtime,
                    await anyio.connect_tcp("127.0.0.1", port) as server,
                    anyio.create_task_group() as tasks,
                ):

                    async def copy(source: ByteStream, target: ByteStream) -> None:
                        with suppress(*_GONE):
                            async for data in source:
                                await target.send(data)
                        tasks.cancel_scope.cancel()

                    tasks.start_soon(copy, runtime, server)
                    tasks.start_soon(copy, server, runtime)
            finally:
                self._open.discard(scope)
                self._changed.set()


async def _ready(process: Process, port: int) -> None:
    assert process.stdout is not None
    said = b""
    with suppress(anyio.EndOfStream), anyio.move_on_after(_START_S):
        said = await process.stdout.receive()
    if not said.startswith(b"ready"):
        raise OpaskError(f"port {port} cannot be opened in the namespace of the runtime")


@asynccontextmanager
async def passage(enter: Sequence[str], port: int, path: Path) -> AsyncIterator[Passage]:
    """Open a port in a namespace that leads to the same port out here, for the length of a block.

    Args:
        enter: what to put before a command so that it runs in the namespace.
        port: the port.
        path: where to put the unix socket that leads out.

    Raises:
        OpaskError: it cannot be opened in there.
    """
    found = Passage()
    command = [*enter, sys.executable, "-I", "-S", str(doorway.__file__), str(port), str(path)]
    failure: Exception | None = None
    async with (
        await anyio.create_unix_listener(path) as listener,
        anyio.create_task_group() as tasks,
        await anyio.open_process(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process,
    ):
        tasks.start_soon(listener.serve, lambda stream: found.carry(stream, port))
        try:
            await _ready(process, port)
            yield found
        except Exception as error:  # raised below: the task group would wrap it
            failure = error
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
