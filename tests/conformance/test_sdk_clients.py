"""The official SDKs' clients, in each way that they have of agreeing on a revision, over the relay and over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import anyio
import mcp.client.session as sdk_session
import pytest
from anyio.streams.text import TextReceiveStream
from httpx2 import AsyncClient
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from bridge_peers import PlainAdapter, attach
from node_packages import NodePackages
from opask import Answer, Answered, Ask, LaunchRequest, Outcome, Reply
from opask.bridge import Bridge
from opask.launch import Endpoint

HERE = Path(__file__).parent
TRANSPORTS = ("stdio", "http")
NEWEST_HANDSHAKE = HANDSHAKE_PROTOCOL_VERSIONS[-1]
(MODERN,) = MODERN_PROTOCOL_VERSIONS
BEAT = timedelta(milliseconds=20)


class Slow:
    """An operator who answers only once the client has heard a heartbeat."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.beaten = anyio.Event()

    async def ask(self, ask: Ask, /) -> Reply:
        """Take the first option."""
        with anyio.fail_after(40):
            await self.beaten.wait()
        return Answered((Answer((0,)),), "test")

    def settled(self, ask: Ask, outcome: Outcome, /) -> None:
        """Remember it."""
        self.outcomes.append(outcome)

    def available(self, session_id: str, /) -> bool:
        """Be there."""
        return True


@pytest.fixture
def operator() -> Slow:
    """The operator."""
    return Slow()


@pytest.fixture(params=TRANSPORTS)
async def endpoint(request: pytest.FixtureRequest, operator: Slow) -> AsyncIterator[Endpoint]:
    """A session's endpoint, over each transport."""
    transport: Literal["stdio", "http"] = request.param
    async with (
        Bridge(heartbeat=BEAT) as bridge,
        await attach(bridge, "s", PlainAdapter(), operator, transport=transport) as session,
    ):
        found = session.plan_launch(LaunchRequest(["runtime"])).endpoint
        assert found is not None
        yield found


def check(said: dict[str, Any], operator: Slow, version: str, *, discovered: bool = True) -> None:
    """Hold what a client saw to what it has to see in every revision."""
    assert said["version"] == version
    assert said["server"] == ("opask" if discovered else None)
    assert said["tools"] == ["ask_user_question"]
    assert said["answers"] == {"answers": {"Which?": "a"}}
    assert json.loads(said["text"]) == said["answers"]
    assert said["is_error"] is False
    assert said["progress"] >= 1
    assert said["refused"] is True
    assert said["unknown"] == -32602
    assert operator.outcomes == [Answered((Answer((0,)),), "test")]


async def converse(endpoint: Endpoint, operator: Slow, mode: str) -> dict[str, Any]:
    """Have the Python SDK's client list, ask, and do two things wrong."""
    beats: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        beats.append(progress)
        operator.beaten.set()

    async with AsyncExitStack() as stack:
        server: Any
        if endpoint.command:
            program, *rest = endpoint.command
            server = StdioServerParameters(command=program, args=rest)
        else:
            headers = {"Authorization": f"Bearer {endpoint.token}"}
            http = await stack.enter_async_context(AsyncClient(headers=headers, timeout=None))
            server = streamable_http_client(endpoint.url or "", http_client=http)
        client = await stack.enter_async_context(Client(server, mode=mode))
        tools = (await client.list_tools()).tools
        arguments = {"questions": [{"question": "Which?", "options": ["a", "b"]}]}
        result = await client.call_tool("ask_user_question", arguments, progress_callback=on_progress)
        refused = await client.call_tool("ask_user_question", {})
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("no_such_tool", {})
        return {
            "version": client.protocol_version,
            "server": client.server_info.name if client.server_info else None,
            "tools": [tool.name for tool in tools],
            "answers": result.structured_content,
            "text": result.content[0].text,  # type: ignore[union-attr]
            "is_error": result.is_error,
            "progress": len(beats),
            "refused": refused.is_error,
            "unknown": unknown.value.error.code,
        }


@pytest.mark.parametrize(
    ("mode", "version"), [("legacy", NEWEST_HANDSHAKE), ("auto", MODERN), (MODERN, MODERN)], ids=str
)
async def test_the_python_client_agrees_on_a_revision_and_asks(
    endpoint: Endpoint, operator: Slow, mode: str, version: str
) -> None:
    """A client that shakes hands, one that probes first and one that is pinned each get what they asked for."""
    # The pinned client begins with its first request and so never hears the server's name.
    check(await converse(endpoint, operator, mode), operator, version, discovered=mode != MODERN)


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_the_python_client_of_each_handshake_revision_asks(
    endpoint: Endpoint, operator: Slow, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that knows no newer revision than its own is served in that one."""
    monkeypatch.setattr(sdk_session, "LATEST_HANDSHAKE_VERSION", version)
    check(await converse(endpoint, operator, "legacy"), operator, version)


@pytest.mark.live
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("negotiation", "version"),
    [
        *(({"mode": "legacy", "versions": [version]}, version) for version in HANDSHAKE_PROTOCOL_VERSIONS),
        ({"mode": "auto"}, MODERN),
        ({"mode": {"pin": MODERN}}, MODERN),
    ],
    ids=str,
)
async def test_the_typescript_client_agrees_on_a_revision_and_asks(
    packages: NodePackages,
    endpoint: Endpoint,
    operator: Slow,
    negotiation: dict[str, Any],
    version: str,
) -> None:
    """The other official SDK's client gets the revision that it asks for too."""
    wanted: dict[str, Any] = {"modules": packages.modules, **negotiation}
    if endpoint.command:
        wanted["stdio"] = {"command": endpoint.command[0], "args": endpoint.command[1:]}
    else:
        wanted["http"] = {"url": endpoint.url, "token": endpoint.token}
    script = str(HERE / "sdk_client.mjs")
    said: list[str] = []
    async with await anyio.open_process([packages.node, script, json.dumps(wanted)], stderr=None) as client:
        assert client.stdout is not None
        async for text in TextReceiveStream(client.stdout):
            said.append(text)
            if "".join(said).startswith("progress\n"):
                operator.beaten.set()
    assert client.returncode == 0
    check(json.loads("".join(said).removeprefix("progress\n")), operator, version)
