"""The surface over streamable HTTP: on loopback, for whoever has the bearer token."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Final

import anyio
import uvicorn
from attrs import field, frozen
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from opask.errors import SurfaceError
from opask.surfaces.mcp.server import McpSurface
from opask.tokens import bearer_of, is_token, new_token

__all__ = ["HttpAddress", "serve_http"]

_HOST: Final = "127.0.0.1"
_PATH: Final = "/mcp"
_BODY_MAX: Final = 8 * 1024 * 1024
_SESSIONS_MAX: Final = 256
_CONNECTIONS_MAX: Final = 512
_END_S: Final = 1


@frozen
class HttpAddress:
    """Where the surface is served: its listening socket, its port, and the token that lets a client in."""

    listener: socket.socket = field(repr=False)
    port: int
    token: str = field(repr=False)

    @classmethod
    def listen(cls, port: int, token: str | None = None) -> HttpAddress:
        """Listen on loopback; a client that comes from now on waits for the server.

        Args:
            port: the port; 0 for any that is free.
            token: the bearer token; by default a new one.

        Raises:
            SurfaceError: the port cannot be had.
        """
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((_HOST, port))
            listener.listen(128)
        except (OSError, OverflowError) as error:
            listener.close()
            why = getattr(error, "strerror", None) or str(error)
            raise SurfaceError(f"port {port} of {_HOST} cannot be had ({why}); choose another") from None
        return cls(listener, listener.getsockname()[1], token or new_token())

    @property
    def url(self) -> str:
        """The address that a client is given."""
        return f"http://{_HOST}:{self.port}{_PATH}"


async def serve_http(surface: McpSurface, address: HttpAddress) -> None:
    """Serve until cancelled; on asyncio. No signal handler is installed.

    A request needs the bearer token, and a Host and Origin of this machine: a page that was made to resolve to
    loopback gets nowhere.

    Args:
        surface: what is served.
        address: where; its socket is closed at the end.
    """
    names = (f"{_HOST}:{address.port}", f"localhost:{address.port}")
    manager = StreamableHTTPSessionManager(
        surface.mcp,
        max_request_body_size=_BODY_MAX,
        max_sessions=_SESSIONS_MAX,
        security_settings=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=list(names),
            allowed_origins=[f"http://{name}" for name in names],
        ),
    )
    config = uvicorn.Config(
        _guarded(manager, address.token),
        interface="asgi3",
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        log_config=None,
        access_log=False,
        limit_concurrency=_CONNECTIONS_MAX,
        timeout_graceful_shutdown=_END_S,
    )
    server = _Server(config)

    stop = anyio.Event()

    async def serve() -> None:
        # Ended in good order: the SDK would wait seconds for clients that it cannot reach any more.
        with anyio.CancelScope(shield=True):
            async with manager.run(), anyio.create_task_group() as serving:
                serving.start_soon(_serve_sockets, server, address.listener)
                await stop.wait()
                await surface.close()
                server.should_exit = True

    with address.listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            try:
                await anyio.sleep_forever()
            finally:
                stop.set()


async def _serve_sockets(server: uvicorn.Server, listener: socket.socket) -> None:
    await server.serve(sockets=[listener])


def _guarded(manager: StreamableHTTPSessionManager, token: str) -> ASGIApp:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if not is_token(bearer_of(scope["headers"]), token):
            await _refused(scope, receive, send)
        elif scope["path"] != _PATH:
            await _elsewhere(scope, receive, send)
        else:
            await manager.handle_request(scope, receive, send)

    return serve


_refused: Final[ASGIApp] = Response(
    "This server drives agents and needs the bearer token that it was started with.\n",
    status_code=401,
    headers={"WWW-Authenticate": "Bearer"},
    media_type="text/plain",
)
_elsewhere: Final[ASGIApp] = Response(
    f"The MCP endpoint is {_PATH}.\n", status_code=404, media_type="text/plain"
)


class _Server(uvicorn.Server):
    """Leaves signals to whoever serves."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
