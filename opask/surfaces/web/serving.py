"""The web surface served by itself, on a socket that was bound before."""

from __future__ import annotations

import socket
from contextlib import AbstractAsyncContextManager
from typing import Final

from starlette.applications import Starlette

from opask.http_serving import HttpServer, serving

__all__ = ["served"]

_END_S: Final = 3
_CONNECTIONS: Final = 8000


def served(app: Starlette, listener: socket.socket) -> AbstractAsyncContextManager[None]:
    """Serve an application of `application` while the block lasts; on asyncio.

    At the end its feeds are ended and requests under way are finished, within seconds. No signal handler is installed.
    """
    server = HttpServer(app, end_s=_END_S, connections=_CONNECTIONS)
    return serving(server, listener, before_end=app.state.feeds.finish)
