"""HTTP on a socket that was bound before: uvicorn on asyncio, without signals, and with bounds for who is slow.

A client that begins a request and does not end it, or does not take what it is sent, would hold its connection, and
what serves it, for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import anyio
import h11
import uvicorn
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from opask.errors import SurfaceError

__all__ = ["Application", "HttpServer", "Sending", "listen", "serving"]

_REQUEST_S: Final = 20.0
_STALL_S: Final = 20.0
_BACKLOG: Final = 2048
_LAST_WORDS: Final = 0.8  # of the time for the end: then what is left is cut, before uvicorn complains of it
_BUSY: Final = frozenset({errno.EADDRINUSE, errno.EACCES})

Application: TypeAlias = Callable[[Scope, Receive, "Sending"], Awaitable[None]]
"""An ASGI application that may look at how far its response is."""

# What uvicorn says of a client's malformed requests is not for the operator's terminal, and not for a host's log.
_quiet = logging.getLogger("opask.http")
_quiet.setLevel(logging.ERROR)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; a client that comes from now on waits for the server.

    Args:
        host: the address, or a name of one.
        port: the port; 0 for any that is free.

    Raises:
        SurfaceError: it cannot be had.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise SurfaceError(
            f"--host {host}: there is no such address ({error}); name one of this machine"
        ) from None
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # Accepted sockets have it too: a peer that vanished is given up once a heartbeat is not taken for so long.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(_STALL_S * 1000))
        listener.bind(address)
        listener.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        code = getattr(error, "errno", None)
        if code in _BUSY:
            why = "is taken" if code == errno.EADDRINUSE else "is not allowed to this user"
            raise SurfaceError(f"port {port} of {host} {why}; choose another with --port") from None
        raise SurfaceError(f"{host}, port {port}: cannot be listened on ({error}); choose another") from None
    return listener


class Sending:
    """Sends one response, whatever the SDK does; stands in for a request's ``send``.

    Attributes:
        started: whether its head has been sent.
        complete: whether all of it has.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self.started = False
        self.complete = False
        self._is_second = False
        self._receive = receive
        self._send = send

    async def __call__(self, message: Message) -> None:
        """Send a part of it; of a second response, which has no place on the connection, only that it has ended."""
        if message["type"] == "http.response.start":
            if self.started:
                self._is_second = True
                return
            self.started = True
        elif self.complete:
            return
        else:
            self.complete = not message.get("more_body", False)
            if self._is_second:
                message = {**message, "body": b""}
        try:
            await self._send(message)
        except h11.LocalProtocolError:
            # What came behind the request was no HTTP: the server has answered that at once, and closed.
            self.started = self.complete = True
            while (await self._receive())["type"] != "http.disconnect":
                pass

    async def finish(self) -> None:
        """End a response that the SDK has left open."""
        if self.started and not self.complete:
            await self({"type": "http.response.body", "body": b"", "more_body": False})


class HttpServer:
    """Serves an application to whoever connects; on asyncio.

    Args:
        app: the application; its ``send`` is a `Sending`.
        end_s: how long requests under way may take at the end, in seconds.
        connections: how many there may be at once; more are answered with 503.
    """

    def __init__(self, app: Application, *, end_s: int, connections: int | None = None) -> None:
        self._end_s = end_s

        async def whole(scope: Scope, receive: Receive, send: Send) -> None:
            sending = Sending(receive, send)
            await app(scope, receive, sending)
            await sending.finish()

        config = uvicorn.Config(
            whole,
            http=_Connection,
            ws="none",
            interface="asgi3",
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            log_config=None,
            access_log=False,
            backlog=_BACKLOG,
            limit_concurrency=connections,
            timeout_graceful_shutdown=end_s,
        )
        self._server = _Server(config)

    async def serve(self, listener: socket.socket) -> None:
        """Serve until `stop`, then until what is under way has ended or its time has passed."""
        listener.setblocking(False)
        await self._server.serve(sockets=[listener])

    def stop(self) -> None:
        """Take no more requests; called on the server's loop."""
        self._server.should_exit = True
        asyncio.get_running_loop().call_later(self._end_s * _LAST_WORDS, self.cut)

    def cut(self, path: str = "") -> None:
        """Cut connections: a client that does not read holds one for ever.

        Args:
            path: what the path of a connection's request begins with; by default all are cut.
        """
        for connection in list(self._server.server_state.connections):
            scope = getattr(connection, "scope", None)
            if not path or (scope and scope["path"].startswith(path)):
                connection.transport.abort()


@asynccontextmanager
async def serving(
    server: HttpServer, listener: socket.socket, *, before_end: Callable[[], Awaitable[object]]
) -> AsyncIterator[None]:
    """Serve while the block lasts; no signal handler is installed.

    Args:
        server: what serves.
        listener: where; not closed.
        before_end: called at the end, before requests under way are given their last seconds.
    """

    async def serve() -> None:
        with anyio.CancelScope(shield=True):  # ended below, in good order
            await server.serve(listener)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await before_end()
            server.stop()


class _Server(uvicorn.Server):
    """Leaves signals to whoever serves."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Connection(H11Protocol):
    """A connection whose request has to come within a time, and whose peer has to take what it is sent."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.logger = _quiet
        self._request_due: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._mind_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._mind_request()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._request_due, self._stalled):
            if timer is not None:
                timer.cancel()

    def _mind_request(self) -> None:
        """Start the time of a request that has begun, and stop it once the request is here."""
        is_coming = self.conn.their_state in {h11.IDLE, h11.SEND_BODY}
        if is_coming and self._request_due is None:
            self._request_due = self.loop.call_later(_REQUEST_S, self.transport.abort)
        elif not is_coming and self._request_due is not None:
            self._request_due.cancel()
            self._request_due = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(_STALL_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
