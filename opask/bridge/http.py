"""The same server over streamable HTTP on loopback, for a runtime that takes only a URL.

One listener a bridge, one path and one bearer token a session. What the transport cannot tell is left open: a
client of a handshake revision that drops its connection is noticed here, at the socket, and not by a cancel
(specification 2025-11-25, transports: a disconnection is no cancellation); a stream that was dropped is not
resumed, and a call that is sent again within the grace is joined.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from opask.bridge.desk import AskDesk, Link, OpenAsk
from opask.bridge.server import Context, Served, ToolServer
from opask.http_faults import quiet_sdk, read_body, serve_read
from opask.http_serving import HttpServer, Sending
from opask.tokens import bearer_of, is_token, new_token

__all__ = ["HttpEndpoint", "HttpListener"]

_logger = logging.getLogger("opask.bridge")
_BODY_MAX: Final = 8 * 1024 * 1024
_HOST: Final = "127.0.0.1"
_SHUTDOWN_S: Final = 1
_SESSION_S: Final = 2.0  # to cancel what waits, and to write the last answers in
_LINK: Final = "opask.link"


class HttpEndpoint:
    """One session's endpoint: its path, its token and its server.

    Args:
        desk: the session's asks.
        version: opask's own version, told to clients.
        served: told of each request that says what the runtime knows of the server.
        listed: called when a client has been given the tool list.
        port: the listener's port, for the Host and Origin checks.
    """

    def __init__(
        self, desk: AskDesk, version: str, *, served: Served, listed: Callable[[], object], port: int
    ) -> None:
        self._desk = desk
        self._returned: dict[Link, list[OpenAsk]] = {}
        self._calls: set[Link] = set()
        self._changed = anyio.Event()
        server = ToolServer(
            desk,
            version,
            served=served,
            link_of=_link_of,
            returned=self._result_returned,
            listed=lambda _: listed(),
        )
        names = (_HOST, "localhost")
        self._manager = StreamableHTTPSessionManager(
            server.mcp,
            max_request_body_size=_BODY_MAX,
            session_idle_timeout=None,  # the session's end is the end of it
            security_settings=TransportSecuritySettings(
                enable_dns_rebinding_protection=True,
                allowed_hosts=[f"{name}:{port}" for name in names],
                allowed_origins=[f"http://{name}:{port}" for name in names],
            ),
        )

    async def run(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Serve until cancelled."""
        async with self._manager.run():
            task_status.started()
            await anyio.sleep_forever()

    async def idle(self) -> None:
        """Wait until no request is being served."""
        while self._calls:
            self._changed = anyio.Event()
            await self._changed.wait()

    async def handle(self, scope: Scope, receive: Receive, sending: Sending) -> None:
        """Serve one request whose token is the session's."""
        if scope["method"] != "POST":
            await self._manager.handle_request(scope, receive, sending)
            return
        # Read here: the SDK would log a client that leaves in the middle as an error of its own.
        body = await read_body(receive, _BODY_MAX)
        if body is None:
            return
        link = Link()
        self._calls.add(link)

        def lost() -> None:
            if not link.lost:
                self._desk.lost(link)

        try:
            await serve_read(
                self._manager.handle_request, {**scope, _LINK: link}, body, receive, sending, lost=lost
            )
        finally:
            for entry in self._returned.pop(link, []):
                if link.lost:
                    self._desk.undelivered(entry, link)
                else:
                    self._desk.delivered(entry)
            lost()
            self._calls.discard(link)
            self._changed.set()

    def _result_returned(self, ctx: Context, entry: OpenAsk) -> None:
        if (link := _link_of(ctx)) in self._calls:
            self._returned.setdefault(link, []).append(entry)


def _link_of(ctx: Context) -> Link:
    request: Any = ctx.request  # starlette's, put there by the SDK
    link: Link = request.scope[_LINK]
    return link


class HttpListener:
    """The bridge's one listener; sends each request to the session whose path and token it carries."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.bind((_HOST, 0))
        self._socket.listen(128)
        self.port: int = self._socket.getsockname()[1]
        self._endpoints: dict[str, tuple[str, HttpEndpoint]] = {}
        self._server = HttpServer(self._serve, end_s=_SHUTDOWN_S)

    async def run(self) -> None:
        """Serve until `stop`, then until what is being served has ended or a second has passed."""
        with quiet_sdk(), self._socket:
            await self._server.serve(self._socket)

    def stop(self) -> None:
        """Stop serving; called on the bridge's loop."""
        self._server.stop()

    def add(self, make: Callable[[int], HttpEndpoint]) -> tuple[str, str, HttpEndpoint]:
        """Give a session its endpoint.

        Args:
            make: makes it, given the port.

        Returns:
            The URL, the bearer token, and the endpoint.
        """
        name, token = secrets.token_hex(8), new_token()
        endpoint = make(self.port)
        self._endpoints[name] = (token, endpoint)
        return f"http://{_HOST}:{self.port}/{name}/mcp", token, endpoint

    def remove(self, url: str) -> None:
        """Take a session's endpoint away; what is connected to it is cut soon after."""
        name = url.rsplit("/", 2)[1]
        if self._endpoints.pop(name, None) is not None:
            asyncio.get_running_loop().call_later(_SESSION_S, self._server.cut, f"/{name}/")

    async def _serve(self, scope: Scope, receive: Receive, sending: Sending) -> None:
        if scope["type"] != "http":
            return
        parts = scope["path"].split("/")
        token, endpoint = self._endpoints.get(
            parts[1] if len(parts) == 3 and parts[2] == "mcp" else "", ("", None)
        )
        # Compared even where there is no such session, so that time tells nothing.
        fits = is_token(bearer_of(scope["headers"]), token)
        if endpoint is None or not fits:
            await _refused(scope, receive, sending)
        else:
            await endpoint.handle(scope, receive, sending)


_refused: Callable[[Scope, Receive, Send], Awaitable[Any]] = Response(
    "This endpoint serves one agent's session and needs its bearer token.\n",
    status_code=401,
    headers={"WWW-Authenticate": "Bearer"},
    media_type="text/plain",
)
