"""The web surface as an ASGI application."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from opask.inbox import Store
from opask.surfaces.web.api import routes
from opask.surfaces.web.auth import Auth
from opask.surfaces.web.feed import Feeds
from opask.surfaces.web.guards import LOOPBACK, Gate
from opask.surfaces.web.handlers import Backend
from opask.surfaces.web.refusals import refusal_of

__all__ = ["application"]

_PAGE: Final = Path(__file__).parent / "page"


def application(
    store: Store,
    *,
    auth: Auth,
    hosts: Collection[str] | None = LOOPBACK,
    surface: str = "web",
    feeds: Feeds | None = None,
) -> Starlette:
    """Make the web surface of an inbox, to be served by itself or mounted in another application.

    All its addresses are relative, so it can be mounted under any prefix, as ``Mount("/ask", application(…))``.
    It has no lifespan of its own. Where a server waits for open connections at its end, as uvicorn does, end the
    feeds first: ``await app.state.feeds.finish()``, on their event loop.

    Args:
        store: the inbox; open by the time the first request comes.
        auth: tells who makes a request, and whether it is let in: `TokenAuth`, or a host's own.
        hosts: the host names that it is reached by, without port; others are refused, since any name can be made to
            point here. None where whatever stands before it sees to that.
        surface: what answers are recorded as coming from, and the name of its presence lease.
        feeds: its feeds, where their limits are to be others.
    """
    feeds = feeds or Feeds(store, surface=surface)
    app = Starlette(
        routes=[
            Route("/", _index),
            *routes(Backend(store, feeds, surface)),
            Mount("/page", _Assets(directory=_PAGE, check_dir=False)),
        ],
        middleware=[Middleware(Gate, auth=auth, hosts=hosts)],
        exception_handlers={HTTPException: _http_error},
    )
    app.router.redirect_slashes = False
    app.state.feeds = feeds
    return app


async def _index(request: Request) -> Response:
    return FileResponse(_PAGE / "index.html", headers={"Cache-Control": "no-store"})


class _Assets(StaticFiles):
    """The page's files; a browser asks each time whether they are still the same."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


async def _http_error(request: Request, error: Exception) -> Response:
    refusal = refusal_of(error)
    assert refusal is not None
    return refusal.response()
