"""A served inbox, and clients for it: what the tests of the web surface stand on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from attrs import field, frozen
from starlette.applications import Starlette

from opask.http_serving import listen
from opask.inbox import Store
from opask.surfaces.web import Auth, TokenAuth, application
from opask.surfaces.web.feed import Feeds
from opask.surfaces.web.serving import served

__all__ = ["Line", "Site", "lines_of", "reading", "sited"]


@frozen
class Site:
    """A served inbox.

    Args:
        url: the page's address, without the slash at its end.
        token: the token.
        store: the inbox.
        app: the application.
        client: sends the token as a bearer.
    """

    url: str
    token: str
    store: Store
    app: Starlette
    client: httpx2.AsyncClient

    @property
    def feeds(self) -> Feeds:
        """The open feeds."""
        feeds: Feeds = self.app.state.feeds
        return feeds

    @property
    def port(self) -> int:
        """The port."""
        return int(self.url.rpartition(":")[2])

    async def get(self, path: str, **params: Any) -> Any:
        """Return what an address gives, which has to be granted."""
        response = await self.client.get(path, params=params)
        assert response.status_code == 200, response.text
        return response.json()

    async def post(self, path: str, body: object, **headers: str) -> httpx2.Response:
        """Post JSON."""
        content = json.dumps(body).encode()
        return await self.client.post(
            path, content=content, headers={"Content-Type": "application/json", **headers}
        )

    async def answer(self, ask: Mapping[str, Any], *answers: object) -> httpx2.Response:
        """Answer an ask as the page does."""
        return await self.post(
            f"/api/asks/{ask['id']}/answer", {"session_id": ask["session_id"], "answers": list(answers)}
        )


@asynccontextmanager
async def sited(
    store: Store, *, auth: Auth | None = None, port: int = 0, token: str = "t" * 43, **options: Any
) -> AsyncIterator[Site]:
    """Serve a store, for the block."""
    app = application(store, auth=auth or TokenAuth(token), **options)
    listener = listen("127.0.0.1", port)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with (
        httpx2.AsyncClient(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=20
        ) as client,
        served(app, listener),
    ):
        yield Site(url, token, store, app, client)


@frozen
class Line:
    """One server-sent event."""

    id: str
    event: str
    data: dict[str, Any] = field(factory=dict)


@asynccontextmanager
async def reading(
    site: Site, path: str = "/api/feed", *, last: str | None = None, beats: bool = False, **params: str
) -> AsyncIterator[AsyncIterator[Line]]:
    """Read a feed, for the block; its beats are passed over, but for where they are wanted."""
    headers = {} if last is None else {"Last-Event-ID": last}
    async with site.client.stream("GET", path, params=params or None, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield lines_of(response, beats=beats)


async def lines_of(response: httpx2.Response, *, beats: bool = False) -> AsyncIterator[Line]:
    """Give the server-sent events of a response, without its beats where these are not wanted."""
    found: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            found[name] = value
        elif "data" in found:
            if beats or found["event"] != "beat":
                yield Line(found.get("id", ""), found["event"], json.loads(found["data"]))
            found = {}
