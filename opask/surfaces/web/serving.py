"""The web surface served by itself: uvicorn inside a task group, on a socket that was bound before."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from opask.errors import SurfaceError

__all__ = ["listen", "served"]

_REQUEST_S: Final = 20.0
_STALL_S: Final = 20.0
_END_S: Final = 3
_BACKLOG: Final = 2048
_CONNECTIONS: Final = 8000
_BUSY: Final = frozenset({errno.EADDRINUSE, errno.EACCES})


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


@asynccontextmanager
async def served(app: Starlette, listener: socket.socket) -> AsyncIterator[None]:
    """Serve an application of `application` while the block lasts; on asyncio.

    At the end its feeds are ended and requests under way are finished, within seconds. No signal handler is installed.
    """
    listener.setblocking(False)
    config = uvicorn.Config(
        app,
        http=_Connection,
        ws="none",
        interface="asgi3",
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        log_config=None,
        access_log=False,
        backlog=_BACKLOG,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=_END_S,
    )
    server = _Server(config)

    async def serve() -> None:
        with anyio.CancelScope(shield=True):  # ended below, in good order
            await server.serve(sockets=[listener])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await app.state.feeds.finish()
            server.should_exit = True


class _Server(uvicorn.Server):
    """Leaves signals to whoever serves."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


# What uvicorn says of a client's malformed requests is not for the operator's terminal.
_quiet = logging.getLogger("opask.web.http")
_quiet.setLevel(logging.ERROR)


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
