"""The surface over this process's own stdin and stdout: one JSON-RPC message a line.

The SDK's own stdio transport reads in a thread that nothing can cancel, so that a signal would wait for the client's
next line.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import anyio
import anyio.lowlevel
import mcp_types as types
from mcp.shared.message import SessionMessage

from opask.surfaces.mcp.server import McpSurface

__all__ = ["serve_stdio"]

_logger = logging.getLogger("opask.mcp")
_CHUNK: Final = 65536
_PIECE: Final = 4096  # what a pipe that is ready takes at once (PIPE_BUF)
_LAST_S: Final = 2.0
_LINE_MAX: Final = 8 * 1024 * 1024


async def serve_stdio(surface: McpSurface) -> None:
    """Serve the client at stdin and stdout until it closes its end.

    Meanwhile file descriptor 0 is the null device and 1 is stderr, so that nothing else reads or writes the protocol.

    Args:
        surface: what is served.
    """
    incoming, to_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    from_server, outgoing = anyio.create_memory_object_stream[SessionMessage](0)

    async def read(wire: int) -> None:
        async with incoming:
            with suppress(OSError, anyio.BrokenResourceError):
                async for line in _lines(wire):
                    try:
                        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError as error:
                        await incoming.send(error)
                        continue
                    await incoming.send(SessionMessage(message))

    written = anyio.Event()

    async def write(wire: int, scope: anyio.CancelScope) -> None:
        async with outgoing:
            try:
                async for message in outgoing:
                    line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await _write(wire, line.encode() + b"\n")
            except OSError:
                scope.cancel()
        written.set()

    with _claimed() as (stdin, stdout):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, stdin)
            tasks.start_soon(write, stdout, tasks.cancel_scope)
            await surface.mcp.run(to_server, from_server, surface.mcp.create_initialization_options())
            from_server.close()
            with anyio.move_on_after(_LAST_S):  # what a client that only closed its own end still reads
                await written.wait()
            tasks.cancel_scope.cancel()


@contextmanager
def _claimed() -> Iterator[tuple[int, int]]:
    """Give the protocol's own descriptors, and keep 0 and 1 from everybody else while the block lasts."""
    stdin, stdout = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(null, 0)
        os.dup2(2, 1)
        yield stdin, stdout
    finally:
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        for number in (stdin, stdout, null):
            os.close(number)


async def _lines(wire: int) -> AsyncIterator[bytes]:
    """Yield whole lines, without their ends; a last line without one is no message."""
    buffer = bytearray()
    while len(buffer) <= _LINE_MAX:
        *lines, rest = buffer.split(b"\n")
        for line in lines:
            if line.strip():
                yield bytes(line)
        buffer = bytearray(rest)
        received = await _received(wire)
        if not received:
            return
        buffer += received
    _logger.warning("the client sent a message of more than %d bytes; it is heard no longer", _LINE_MAX)


async def _received(wire: int) -> bytes:
    try:
        await anyio.wait_readable(wire)
    except PermissionError:  # a file, which is always readable
        await anyio.lowlevel.checkpoint()
    return os.read(wire, _CHUNK)


async def _write(wire: int, data: bytes) -> None:
    """Write without blocking the loop; in pieces, since the client may read slowly."""
    left = memoryview(data)
    while left:
        try:
            await anyio.wait_writable(wire)
        except PermissionError:
            await anyio.lowlevel.checkpoint()
        left = left[os.write(wire, left[:_PIECE]) :]
