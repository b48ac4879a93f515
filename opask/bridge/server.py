"""The MCP server with its one tool. Imported only in the bridge's own thread: the SDK takes most of a second."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias

import anyio
import mcp_types as types
from anyio.abc import SocketStream
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from opask.bridge.desk import AskDesk, Link, OpenAsk
from opask.bridge.lines import serve_lines
from opask.wire import INSTRUCTIONS, SERVER_NAME, TOOL_DESCRIPTION, TOOL_NAME, ToolResult, input_schema

__all__ = ["Context", "RuntimeConnection", "Served", "ToolServer", "tool", "warm_up"]

Served: TypeAlias = Callable[[str, Mapping[str, Any]], object]
Context: TypeAlias = ServerRequestContext[Any, Any]

_PINGS: Final = 2  # the second is read in another round of the client's loop than the list
_PING_S: Final = 10.0


def tool() -> types.Tool:
    """Return the ask tool as it is listed.

    ``readOnlyHint`` and ``anthropic/alwaysLoad`` clear approval and deferral in several runtimes.
    """
    return types.Tool(
        name=TOOL_NAME,
        title="Ask the operator",
        description=TOOL_DESCRIPTION,
        input_schema=input_schema(),
        annotations=types.ToolAnnotations(
            title="Ask the operator",
            read_only_hint=True,
            destructive_hint=False,
            idempotent_hint=False,
            open_world_hint=False,
        ),
        _meta={"anthropic/alwaysLoad": True},
    )


def call_result(result: ToolResult) -> types.CallToolResult:
    """Return a tool result in the protocol's form."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=result.text)],
        structured_content=None if result.structured is None else dict(result.structured),
        is_error=result.is_error,
    )


class ToolServer:
    """The MCP server of one connection, or of one HTTP endpoint: its one tool, served from a session's desk.

    Args:
        desk: the session's asks.
        version: opask's own version, told to clients.
        served: told the method and parameters of each request that says what the runtime knows of the server.
        link_of: gives the link that a call came over.
        returned: told the call's context and its ask when the result is handed to the SDK, before it is written.
        listed: called with the list's request when the client is about to be given the tool list.
    """

    def __init__(
        self,
        desk: AskDesk,
        version: str,
        *,
        served: Served,
        link_of: Callable[[Context], Link],
        returned: Callable[[Context, OpenAsk], object],
        listed: Callable[[Context], object],
    ) -> None:
        self.mcp: Server[Any] = Server(
            SERVER_NAME,
            version=version,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        self.mcp.middleware.append(self._watch)
        self._desk = desk
        self._served = served
        self._link_of = link_of
        self._returned = returned
        self._listed = listed

    async def _watch(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.method in ("initialize", "server/discover", "tools/list"):
            self._served(ctx.method, ctx.params or {})
        if (
            ctx.method == "tools/call"
            and ctx.params is not None
            and not isinstance(ctx.params.get("arguments"), dict)
        ):
            # The SDK would refuse what the generous parser can read, a JSON string for instance.
            ctx = replace(ctx, params={**ctx.params, "arguments": {"questions": ctx.params.get("arguments")}})
        result = await call_next(ctx)
        if ctx.method == "tools/list":
            self._listed(ctx)
        return result

    async def _list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool()])

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name != TOOL_NAME:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool {params.name!r}; this server has {TOOL_NAME}")
        meta = (ctx.params or {}).get("_meta")
        meta = meta if isinstance(meta, Mapping) else {}
        result, entry = await self._desk.call(
            params.arguments, meta, self._link_of(ctx), _progress(ctx, meta)
        )
        if entry is not None:
            self._returned(ctx, entry)
        return call_result(result)


class RuntimeConnection:
    """One connection of a runtime to a session's socket.

    Args:
        desk: the session's asks.
        version: opask's own version, told to clients.
        served: told the method and parameters of each request that says what the runtime knows of the server.
        listing: called once, when the client is about to be given the tool list for the first time.
    """

    def __init__(
        self, desk: AskDesk, version: str, served: Served, listing: Callable[[], object] = lambda: None
    ) -> None:
        self.link = Link()
        self.ended = anyio.Event()
        self._listing = listing
        self._client: ServerSession | None = None  # who has been given the list
        self._listed_or_ended = anyio.Event()
        self._changed = anyio.Event()
        self._desk = desk
        self._in_flight: set[object] = set()
        self._unwritten: dict[object, OpenAsk] = {}
        self._server = ToolServer(
            desk,
            version,
            served=served,
            link_of=self._calling,
            returned=self._result_returned,
            listed=self._given_list,
        )

    async def serve(self, stream: SocketStream) -> None:
        """Serve the connection until it ends; nothing of it is left then."""
        try:
            await serve_lines(
                stream,
                self._server.mcp,
                lost=self._lost,
                written=self._written,
                cancelled=self._cancelled,
            )
        finally:
            self._lost()
            for entry in self._unwritten.values():
                self._desk.undelivered(entry, self.link)
            self._unwritten.clear()
            self.ended.set()
            self._listed_or_ended.set()
            self._changed.set()

    @property
    def is_listed(self) -> bool:
        """Whether the client has been given the tool list."""
        return self._client is not None

    async def listed_or_ended(self) -> None:
        """Wait until the client has been given the tool list, or the connection has ended."""
        await self._listed_or_ended.wait()

    @property
    def can_be_asked(self) -> bool:
        """Whether the client takes requests: from revision 2026-07-28 on a server makes none."""
        return self._client is not None and self._client.protocol_version not in MODERN_PROTOCOL_VERSIONS

    async def read(self) -> None:
        """Wait until the client has read the tool list that it was given, or the connection has ended.

        A list that was written may be under way for long on a busy machine. A client that answers pings has read what
        was written before them; one that answers none is given up after 10 s.
        """
        if self._client is None:
            return
        with (
            anyio.move_on_after(_PING_S),
            # An error is an answer, too.
            suppress(MCPError, anyio.BrokenResourceError, anyio.ClosedResourceError),
        ):
            for _ in range(_PINGS):
                await self._client.send_ping()

    async def idle(self) -> None:
        """Wait until every call has its result written, or the connection has ended."""
        while self._in_flight and not self.ended.is_set():
            self._changed = anyio.Event()
            await self._changed.wait()

    def _given_list(self, ctx: Context) -> None:
        if self._client is None:
            self._client = ctx.session
            self._listing()
            self._listed_or_ended.set()

    def _calling(self, ctx: Context) -> Link:
        self._in_flight.add(ctx.request_id)
        return self.link

    def _result_returned(self, ctx: Context, entry: OpenAsk) -> None:
        self._unwritten[ctx.request_id] = entry

    def _lost(self) -> None:
        if not self.link.lost:
            self._desk.lost(self.link)

    def _written(self, request_id: object) -> None:
        if (entry := self._unwritten.pop(request_id, None)) is not None:
            self._desk.delivered(entry)
        self._done(request_id)

    def _cancelled(self, request_id: object) -> None:
        # The call's own task is cancelled by the SDK; this is for a result that it has already returned.
        if (entry := self._unwritten.pop(request_id, None)) is not None:
            self._desk.undelivered(entry, self.link)
        self._done(request_id)

    def _done(self, request_id: object) -> None:
        self._in_flight.discard(request_id)
        self._changed.set()


def _progress(ctx: Context, meta: Mapping[str, Any]) -> Callable[[float, str], Awaitable[object]] | None:
    if meta.get("progressToken") is None:
        return None

    async def report(seconds: float, message: str) -> None:
        await ctx.session.report_progress(seconds, None, message)

    return report


_CLIENT = {"name": "warm-up", "version": "0"}
_ENVELOPE = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": _CLIENT,
    }
}
_HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": _CLIENT}
_NOTHING_ASKED = {"name": TOOL_NAME, "arguments": {}}
_WARM_UP: tuple[tuple[tuple[str, dict[str, Any]], ...], ...] = (
    (("initialize", _HANDSHAKE), ("tools/list", {}), ("tools/call", _NOTHING_ASKED)),
    (
        ("server/discover", _ENVELOPE),
        ("tools/list", _ENVELOPE),
        ("tools/call", _NOTHING_ASKED | _ENVELOPE),
    ),
)


async def warm_up(connect: Callable[[], Awaitable[SocketStream]]) -> None:
    """Serve one client of each protocol era, so that the first real one does not pay for what is built lazily.

    Args:
        connect: opens a connection to a running session.
    """
    for requests in _WARM_UP:
        async with await connect() as stream:
            for number, (method, params) in enumerate(requests):
                request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                await stream.send(json.dumps(request).encode() + b"\n")
                while b"\n" not in await stream.receive():
                    pass
