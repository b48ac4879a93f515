"""The same tool over streamable HTTP: the token, the checks, both eras, and an end for every call."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import anyio
import httpx2
import pytest
from attrs import evolve

from bridge_peers import ONE, Held, PlainAdapter, attach
from opask import Abandoned, Cancelled, LaunchPlan, LaunchRequest
from opask.bridge import Bridge, Session, serving
from opask.errors import BridgeError
from opask.launch import Endpoint

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "peer", "version": "0"},
}


@pytest.fixture
def held() -> Held:
    """An operator who answers when the test says so."""
    return Held()


@pytest.fixture
async def session(anyio_backend: Any, held: Held) -> AsyncIterator[Session]:
    """A session over HTTP, its launch planned."""
    grace, heartbeat = timedelta(milliseconds=100), timedelta(milliseconds=20)
    async with (
        Bridge(grace=grace, heartbeat=heartbeat) as bridge,
        await attach(bridge, "s", PlainAdapter(), held, transport="http") as session,
    ):
        session.plan_launch(LaunchRequest(["runtime"]))
        yield session


def endpoint_of(session: Session) -> Endpoint:
    """Return where the tool is served."""
    assert session.plan is not None
    assert session.plan.endpoint is not None
    return session.plan.endpoint


def client_of(session: Session, **headers: str) -> httpx2.AsyncClient:
    """Return a client that carries the token, and whatever else."""
    given = {
        "Authorization": f"Bearer {endpoint_of(session).token}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
    }
    return httpx2.AsyncClient(headers=given | headers, timeout=30)


def message(method: str, number: int = 1, **params: Any) -> dict[str, Any]:
    """Return a request."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


HELLO = message(
    "initialize",
    protocolVersion="2025-11-25",
    capabilities={},
    clientInfo={"name": "peer", "version": "0"},
)


def result_of(response: httpx2.Response) -> dict[str, Any]:
    """Return the result in a response, be it JSON or a stream of events."""
    text = response.text
    for line in text.splitlines():
        if line.startswith("data:") and '"result"' in line:
            text = line.removeprefix("data:")
    result: dict[str, Any] = json.loads(text)["result"]
    return result


async def test_the_endpoint_has_no_command(session: Session) -> None:
    """A plan for HTTP names URL and token, on loopback, and no relay."""
    endpoint = endpoint_of(session)
    assert endpoint.command == ()
    assert endpoint.url is not None
    assert endpoint.url.startswith("http://127.0.0.1:")
    assert len(endpoint.token or "") > 30
    assert str(endpoint.token) not in repr(endpoint)


async def test_http_is_not_for_runtimes_of_another_user(held: Held) -> None:
    """Their plan's files are for every user to read, and over HTTP there is a token in them."""
    async with Bridge(peer_uids=frozenset({os.getuid(), os.getuid() + 1})) as bridge:
        with pytest.raises(BridgeError, match="HTTP is not for runtimes of another user"):
            await attach(bridge, "s", PlainAdapter(), held, transport="http")
        async with await attach(bridge, "s", PlainAdapter(), held):
            pass


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1:1"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
async def test_a_stranger_gets_nothing(session: Session, headers: dict[str, str], status: int) -> None:
    """No token, a foreign Host (a name bound anew by DNS) or a foreign Origin is refused."""
    async with client_of(session, **headers) as client:
        response = await client.post(str(endpoint_of(session).url), json=HELLO)
        assert response.status_code == status


async def test_another_session_s_token_does_not_fit(session: Session) -> None:
    """A path and a token belong together."""
    url = str(endpoint_of(session).url)
    async with client_of(session) as client:
        for path in ("/", "/mcp", "/0123456789abcdef/mcp", "/x/y/z"):
            response = await client.post(url[: url.index("/", 8)] + path, json=HELLO)
            assert response.status_code == 401


async def test_a_body_without_measure_is_refused(session: Session) -> None:
    """Nothing is parsed of it, and the session goes on."""
    async with client_of(session) as client:
        url = str(endpoint_of(session).url)
        response = await client.post(url, content=b"[" * (9 << 20))
        assert response.status_code == 413
        assert (await client.post(url, json=HELLO)).status_code == 200


async def open_legacy(client: httpx2.AsyncClient, url: str) -> dict[str, str]:
    """Shake hands; return the headers of the MCP session."""
    response = await client.post(url, json=HELLO)
    assert response.status_code == 200
    return {"Mcp-Session-Id": response.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}


class HoldingAdapter(PlainAdapter):
    """Has its first prompt wait for the list."""

    def plan_launch(self, request: LaunchRequest, endpoint: Endpoint | None, /) -> LaunchPlan:
        """Hold it."""
        return evolve(super().plan_launch(request, endpoint), hold_prompt=True)


async def test_a_list_is_given_time_where_the_first_prompt_waits_for_it(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over HTTP nothing tells whether a list was read: it counts a while later, where a prompt is held for it."""
    monkeypatch.setattr(serving, "_UNASKED_S", 4.0)  # much more than a busy machine takes to ask in between
    async with (
        Bridge() as bridge,
        await attach(bridge, "s", HoldingAdapter(), held, transport="http") as session,
    ):
        session.plan_launch(LaunchRequest(["runtime"]))
        url = str(endpoint_of(session).url)
        async with client_of(session) as client:
            await client.post(url, json=message("tools/list", 2), headers=await open_legacy(client, url))
            assert not await session.listed(timedelta(milliseconds=400))
            assert await session.listed(timedelta(seconds=30))


async def test_a_handshake_client_asks(session: Session, held: Held) -> None:
    """Listed, asked with progress, answered, delivered."""
    url = str(endpoint_of(session).url)
    async with client_of(session) as client, anyio.create_task_group() as tasks:
        headers = await open_legacy(client, url)
        listed = await client.post(url, json=message("tools/list", 2), headers=headers)
        assert result_of(listed)["tools"][0]["name"] == "ask_user_question"
        assert await session.listed(timedelta(seconds=30))
        responses: list[httpx2.Response] = []

        async def call() -> None:
            params = {"name": "ask_user_question", "arguments": ONE, "_meta": {"progressToken": 7}}
            responses.append(await client.post(url, json=message("tools/call", 3, **params), headers=headers))

        tasks.start_soon(call)
        held.reply(await held.next())
        assert [outcome.kind for outcome in await held.outcome()] == ["answered"]
    assert result_of(responses[0])["structuredContent"] == {"answers": {"Which?": "a"}}


async def test_a_modern_client_asks_without_a_handshake(session: Session, held: Held) -> None:
    """Revision 2026-07-28: one request, one answer."""
    url = str(endpoint_of(session).url)
    headers = {
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "ask_user_question",
    }
    responses: list[httpx2.Response] = []
    async with client_of(session) as client, anyio.create_task_group() as tasks:

        async def call() -> None:
            params = {"name": "ask_user_question", "arguments": ONE, "_meta": ENVELOPE}
            responses.append(await client.post(url, json=message("tools/call", 3, **params), headers=headers))

        tasks.start_soon(call)
        held.reply(await held.next())
        assert [outcome.kind for outcome in await held.outcome()] == ["answered"]
    assert result_of(responses[0])["structuredContent"] == {"answers": {"Which?": "a"}}


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_client_that_goes_away_abandons(session: Session, held: Held, era: str) -> None:
    """The operator is not left with a question that nobody waits for."""
    url = str(endpoint_of(session).url)
    async with client_of(session) as client:
        if era == "legacy":
            headers, meta = await open_legacy(client, url), {}
        else:
            headers, meta = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}, ENVELOPE
            headers["Mcp-Name"] = "ask_user_question"
        params = {"name": "ask_user_question", "arguments": ONE, "_meta": meta}
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                await client.post(url, json=message("tools/call", 3, **params), headers=headers)

            tasks.start_soon(call)
            await held.next()
            tasks.cancel_scope.cancel()
        # In neither era can it be told from a client that died.
        assert await held.outcome() == [Abandoned("disconnect")]


async def test_a_legacy_client_cancels(session: Session, held: Held) -> None:
    """A cancel notification is a request of its own, and ends the ask."""
    url = str(endpoint_of(session).url)
    async with client_of(session) as client, anyio.create_task_group() as tasks:
        headers = await open_legacy(client, url)
        params = {"name": "ask_user_question", "arguments": ONE}

        async def call() -> None:
            await client.post(url, json=message("tools/call", 3, **params), headers=headers)

        tasks.start_soon(call)
        await held.next()
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}}
        assert (await client.post(url, json=cancel, headers=headers)).status_code == 202
        assert await held.outcome() == [Abandoned("agent")]
        tasks.cancel_scope.cancel()


async def test_closing_ends_what_waits(held: Held) -> None:
    """A call that waits when the bridge closes has its outcome, and the close does not hang."""
    async with anyio.create_task_group() as tasks:
        async with Bridge() as bridge:
            session = await attach(bridge, "s", PlainAdapter(), held, transport="http")
            session.plan_launch(LaunchRequest(["runtime"]))
            url, client = str(endpoint_of(session).url), client_of(session)
            headers = await open_legacy(client, url)
            params = {"name": "ask_user_question", "arguments": ONE}
            responses: list[httpx2.Response] = []

            async def call() -> None:
                responses.append(
                    await client.post(url, json=message("tools/call", 3, **params), headers=headers)
                )

            tasks.start_soon(call)
            await held.next()
        assert await held.outcome() == [Cancelled("shutdown")]
    assert result_of(responses[0])["isError"] is True
    with pytest.raises(httpx2.ConnectError):
        await client.post(url, json=HELLO)
    await client.aclose()
