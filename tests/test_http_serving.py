"""The HTTP server of bridge and surfaces: who is slow, who sends nonsense and who stays at the end holds nothing up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import ByteReceiveStream
from anyio.lowlevel import checkpoint
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from opask import http_serving
from opask.errors import SurfaceError
from opask.http_faults import read_body
from opask.http_serving import HttpServer, listen, serving

PIECE = b"x" * 64 * 1024


@pytest.fixture
def anyio_backend() -> str:
    """Use asyncio alone: it is what uvicorn serves on."""
    return "asyncio"


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with what was sent."""
    body = await read_body(receive, 1000)
    if body is not None:
        await Response(body)(scope, receive, send)


@asynccontextmanager
async def at_port(app: ASGIApp) -> AsyncIterator[int]:
    """Serve an application at a port of its own."""

    async def nothing() -> None:
        pass

    with listen("127.0.0.1", 0) as listener:
        async with serving(HttpServer(app, end_s=1), listener, before_end=nothing):
            yield listener.getsockname()[1]


async def rest_of(stream: ByteReceiveStream) -> bytes:
    """Read until the other side ends the connection."""
    read = b""
    try:
        async for piece in stream:
            read += piece
    except anyio.BrokenResourceError:
        pass
    return read


@pytest.mark.parametrize(
    "begun", [b"", b"GET / HT", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"]
)
async def test_a_request_that_does_not_come_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    """A connection that sends nothing, or half a request, is closed after a while."""
    monkeypatch.setattr(http_serving, "_REQUEST_S", 0.2)
    async with at_port(echo) as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        if begun:
            await stream.send(begun)
        with anyio.fail_after(30):
            assert await rest_of(stream) == b""


async def test_a_request_that_comes_slowly_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is for the request, not for what is done with it."""
    monkeypatch.setattr(http_serving, "_REQUEST_S", 0.2)
    is_over = anyio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await is_over.wait()
        await Response("late")(scope, receive, send)

    async with at_port(app) as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        async with await anyio.connect_tcp(
            "127.0.0.1", port
        ) as other:  # gone once its time, the same, is over
            with anyio.fail_after(30):
                await rest_of(other)
        is_over.set()
        with anyio.fail_after(30):
            assert (await rest_of(stream)).endswith(b"late")


async def test_a_peer_that_takes_nothing_is_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent to it does not pile up, and what serves it ends."""
    monkeypatch.setattr(http_serving, "_STALL_S", 0.2)
    is_let_go = anyio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async with anyio.create_task_group() as tasks:

            async def pour() -> None:
                await send({"type": "http.response.start", "status": 200})
                while True:
                    await send({"type": "http.response.body", "body": PIECE, "more_body": True})
                    await checkpoint()  # of one that is gone, `send` takes whatever it is given at once

            tasks.start_soon(pour)
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()
        is_let_go.set()

    async with at_port(app) as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        with anyio.fail_after(30):
            await is_let_go.wait()


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01 what is this\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_a_malformed_request_is_refused_without_noise(
    caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    """What is no HTTP is answered with 400, is logged nowhere that an operator would see, and harms nobody else."""
    async with at_port(echo) as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(sent)
            assert (await stream.receive()).startswith(b"HTTP/1.1 400")
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
            assert (await stream.receive()).startswith(b"HTTP/1.1 200")
    assert caplog.records == []


async def test_a_body_that_turns_out_to_be_nonsense_is_refused_without_noise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The refusal is the answer, and what the application answers before it knows goes nowhere."""
    has_answered = anyio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Response("in vain")(scope, receive, send)
        has_answered.set()

    with anyio.fail_after(30):
        async with at_port(app) as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
            said = await rest_of(stream)
            await has_answered.wait()
    assert said.startswith(b"HTTP/1.1 400")
    assert b"in vain" not in said
    assert caplog.records == []


async def test_the_end_waits_for_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """A request that is still served, or still coming, is cut at the end, and nothing is said of it."""
    has_begun = anyio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        has_begun.set()
        await read_body(receive, 1000)

    with anyio.fail_after(30):
        async with at_port(app) as port:
            stream = await anyio.connect_tcp("127.0.0.1", port)
            await stream.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
            await has_begun.wait()
        async with stream:
            assert await rest_of(stream) == b""
    assert caplog.records == []


def test_a_port_that_is_taken() -> None:
    """It is said so, with what to do."""
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(
            SurfaceError, match=f"port {port} of 127.0.0.1 is taken; choose another with --port"
        ):
            listen("127.0.0.1", port)
