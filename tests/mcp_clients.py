"""The official SDK's client, as tests drive `opask mcp` by it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from httpx2 import AsyncClient
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, Implementation, TextContent

from opask.inbox import Entry, Store

__all__ = ["call", "over_http", "over_stdio", "pending", "refused", "tried"]


@asynccontextmanager
async def over_stdio(
    argv: Sequence[str], env: Mapping[str, str], *, name: str = "tester", era: str = "auto"
) -> AsyncIterator[Client]:
    """Start a server and connect to it; the SDK ends it afterwards."""
    server = StdioServerParameters(command=argv[0], args=list(argv[1:]), env=dict(env))
    async with Client(server, mode=era, client_info=Implementation(name=name, version="1")) as client:
        yield client


@asynccontextmanager
async def over_http(
    url: str, token: str, *, name: str = "tester", era: str = "auto"
) -> AsyncIterator[Client]:
    """Connect to a server that listens."""
    # A call may wait for as long as it says: by itself the client gives one up after 5 s of silence.
    async with AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=None) as http:
        server = streamable_http_client(url, http_client=http)
        async with Client(server, mode=era, client_info=Implementation(name=name, version="1")) as client:
            yield client


async def call(client: Client, tool: str, **given: Any) -> dict[str, Any]:
    """Call a tool; it has to do what it was called for."""
    result = await client.call_tool(tool, given)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result.content
    content: dict[str, Any] = result.structured_content
    return content


async def refused(client: Client, tool: str, **given: Any) -> str:
    """Call a tool that refuses; give what it says."""
    did_it, said = await tried(client, tool, **given)
    assert not did_it, said
    return said


async def tried(client: Client, tool: str, **given: Any) -> tuple[bool, str]:
    """Call a tool that may refuse; tell whether it did what it was called for, and what it says."""
    result = await client.call_tool(tool, given)
    assert isinstance(result, CallToolResult)
    (content,) = result.content
    assert isinstance(content, TextContent)
    return not result.is_error, content.text


async def pending(store: Store, session_id: str | None = None) -> Entry:
    """Wait for a question in an inbox, of one session or of any."""
    async for update in store.watch():
        entries: Any = getattr(update, "entries", None) or [getattr(update, "entry", None)]
        for entry in entries:
            if entry is not None and entry.state == "pending" and session_id in (None, entry.session_id):
                found: Entry = entry
                return found
    raise AssertionError
