"""One connection of a runtime: JSON-RPC lines on a socket, spoken by the MCP SDK's server.

The SDK decides the protocol's era from the first request. What it would leave unanswered, a line that is no
JSON-RPC message, is answered here, since a client would wait for it for ever.
"""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final

import anyio
import anyio.lowlevel
import mcp_types as types
from anyio.abc import SocketAttribute, SocketStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage

__all__ = ["serve_lines"]

_logger = logging.getLogger("opask.bridge")
_LINE_MAX: Final = 8 * 1024 * 1024
_IN_FLIGHT_MAX: Final = 512
_CHUNK: Final = 65536
_ENDED = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)


class _ProtocolError(Exception):
    """The connection has to be closed: its peer does not keep to the protocol."""


async def serve_lines(
    stream: SocketStream,
    server: Server[Any],
    *,
    lost: Callable[[], object],
    written: Callable[[object], object],
    cancelled: Callable[[object], object],
) -> None:
    """Serve one connection until either side ends it.

    Args:
        stream: the connection; closed at the end.
        server: the SDK's server, this connection's own.
        lost: called when the peer is gone, before what it waits for is cancelled.
        written: called with a request's id when its response has been written to the socket.
        cancelled: called with the id that a ``notifications/cancelled`` names.
    """
    incoming, to_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    from_server, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    sending = anyio.Lock(fast_acquire=True)
    in_flight: set[object] = set()
    raw: socket.socket = stream.extra(SocketAttribute.raw_socket)

    async def send(line: str) -> None:
        data = line.encode() + b"\n"
        async with sending:
            sent = 0
            with suppress(BlockingIOError):
                sent = raw.send(data)  # at once, as a rule: an agent would wait for each turn of the loop
            if sent < len(data):
                await stream.send(data[sent:])

    async def take(line: bytes) -> None:
        message = _parsed(line)
        if isinstance(message, str):
            await send(message)
            await anyio.lowlevel.checkpoint()  # a flood of nonsense must not keep the loop from the others
            return
        if isinstance(message, types.JSONRPCRequest):
            in_flight.add(message.id)
            if len(in_flight) > _IN_FLIGHT_MAX:
                raise _ProtocolError(f"more than {_IN_FLIGHT_MAX} requests wait for their responses")
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            request_id = (message.params or {}).get("requestId")
            if isinstance(request_id, str | int):
                in_flight.discard(request_id)
                cancelled(request_id)
        await incoming.send(SessionMessage(message))

    async def read() -> None:
        async with incoming:
            try:
                async for line in _lines(raw):
                    await take(line)
            except _ProtocolError as ended:
                _logger.warning("closed a connection of the runtime: %s", ended)
            except _ENDED:
                pass
            finally:
                lost()  # before the server hears of it and cancels what waits

    async def write() -> None:
        async with outgoing:
            async for message in outgoing:
                await send(message.message.model_dump_json(by_alias=True, exclude_unset=True))
                if isinstance(message.message, types.JSONRPCResponse | types.JSONRPCError):
                    in_flight.discard(message.message.id)
                    written(message.message.id)

    async def write_until_lost(scope: anyio.CancelScope) -> None:
        try:
            await write()
        except _ENDED:
            lost()
            scope.cancel()

    async with stream, anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write_until_lost, tasks.cancel_scope)
        await server.run(to_server, from_server, server.create_initialization_options())
        tasks.cancel_scope.cancel()


async def _lines(raw: socket.socket) -> AsyncIterator[bytes]:
    """Yield whole lines, without their ends; a last line without one is no message."""
    buffer = bytearray()
    searched = 0
    while True:
        end = buffer.find(b"\n", searched)
        if end >= 0:
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            searched = 0
            if line.strip():
                yield line
            continue
        searched = len(buffer)
        if searched > _LINE_MAX:
            raise _ProtocolError(f"a message of more than {_LINE_MAX} bytes")
        received = await _received(raw)
        if not received:
            return
        buffer += received


async def _received(raw: socket.socket) -> bytes:
    """Return what there is to read, nothing at the end; a turn of the loop less than anyio's stream takes."""
    with suppress(BlockingIOError):
        received = raw.recv(_CHUNK)
        await (
            anyio.lowlevel.checkpoint()
        )  # who always has something to say must not keep the loop from the others
        return received
    while True:
        await anyio.wait_readable(raw)
        with suppress(BlockingIOError):
            return raw.recv(_CHUNK)


def _parsed(line: bytes) -> types.JSONRPCMessage | str:
    """Return a line's message, or the error response that it has to be answered with."""
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        pass
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        return _error(None, types.PARSE_ERROR, "Parse error: a line has to be one JSON-RPC message")
    request_id = value.get("id") if isinstance(value, dict) else None
    if not isinstance(request_id, str | int) or isinstance(request_id, bool):
        request_id = None
    return _error(request_id, types.INVALID_REQUEST, "Invalid Request: not a JSON-RPC 2.0 message")


def _error(request_id: str | int | None, code: int, message: str) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}})
