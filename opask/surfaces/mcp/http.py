"""The surface over streamable HTTP: on loopback, for whoever has the bearer token."""

from __future__ import annotations

import socket
from typing import Final

import anyio
from attrs import field, frozen
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope

from opask.http_faults import quiet_sdk, read_body, serve_read
from opask.http_serving import Application, HttpServer, Sending, listen, serving
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
        listener = listen(_HOST, port)
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
    server = HttpServer(_guarded(manager, address.token), end_s=_END_S, connections=_CONNECTIONS_MAX)
    stop = anyio.Event()

    async def serve() -> None:
        # Ended in good order: the SDK would wait seconds for clients that it cannot reach any more.
        with anyio.CancelScope(shield=True), quiet_sdk():
            async with manager.run(), serving(server, address.listener, before_end=surface.close):
                await stop.wait()

    with address.listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            try:
                await anyio.sleep_forever()
            finally:
                stop.set()


def _guarded(manager: StreamableHTTPSessionManager, token: str) -> Application:
    async def serve(scope: Scope, receive: Receive, sending: Sending) -> None:
        if scope["type"] != "http":
            return
        if not is_token(bearer_of(scope["headers"]), token):
            await _refused(scope, receive, sending)
        elif scope["path"] != _PATH:
            await _elsewhere(scope, receive, sending)
        elif scope["method"] != "POST":
            await manager.handle_request(scope, receive, sending)
        elif (body := await read_body(receive, _BODY_MAX)) is not None:
            await serve_read(manager.handle_request, scope, body, receive, sending)

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
