"""A proxy on loopback that adds a bearer token to each request, for clients that can send none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, SocketAttribute, SocketStream

__all__ = ["token_proxy"]

_HEAD_MAX = 65536
_ENDED = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


@asynccontextmanager
async def token_proxy(url: str, token: str) -> AsyncIterator[str]:
    """Serve an endpoint under another URL that needs no token.

    A request goes through as it came but for its headers: the token is added, a Host or an Origin that names the
    proxy names the endpoint, and the connection is closed after the response, so that each carries one request.
    Bodies are passed on piece by piece, streams too.

    Args:
        url: the endpoint.
        token: its bearer token.

    Returns:
        The endpoint's URL on the proxy.
    """
    target = urlsplit(url)
    assert target.hostname is not None
    assert target.port is not None
    authority = f"{target.hostname}:{target.port}"
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    own = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def carry(client: SocketStream) -> None:
        async with client:
            head, rest = await _head(client)
            if not head:
                return
            async with (
                await anyio.connect_tcp(target.hostname or "", target.port or 0) as server,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(_copy, client, server, rewritten(head) + rest)
                await _copy(server, client)
                tasks.cancel_scope.cancel()

    def rewritten(head: bytes) -> bytes:
        first, *lines = head.decode("latin-1").split("\r\n")
        kept = []
        for line in lines:
            name, _, value = line.partition(":")
            if name.lower() in ("connection", "authorization"):
                continue
            if name.lower() in ("host", "origin") and value.strip().removeprefix("http://") in own:
                line = line.replace(value.strip().removeprefix("http://"), authority)  # noqa: PLW2901
            kept.append(line)
        added = [f"Authorization: Bearer {token}", "Connection: close", "", ""]
        return "\r\n".join([first, *kept, *added]).encode("latin-1")

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, carry)
        yield target._replace(netloc=f"127.0.0.1:{port}").geturl()
        tasks.cancel_scope.cancel()


async def _head(stream: ByteReceiveStream) -> tuple[bytes, bytes]:
    """Read up to the empty line; return the head without it, and what came behind it. Nothing where it ended before."""
    received = b""
    while (end := received.find(b"\r\n\r\n")) < 0:
        try:
            received += await stream.receive()
        except _ENDED:
            return b"", b""
        if len(received) > _HEAD_MAX:
            raise ValueError("a request head without end")
    return received[:end], received[end + 4 :]


async def _copy(source: ByteReceiveStream, target: ByteSendStream, begin: bytes = b"") -> None:
    try:
        if begin:
            await target.send(begin)
        async for piece in source:
            await target.send(piece)
    except _ENDED:
        pass
