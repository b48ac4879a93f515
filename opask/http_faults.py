"""What a client does wrong in the middle of a request, over HTTP: kept from the SDK, and from the host's log.

A client may leave before its request has come, or end its MCP session while another request of it is read. The SDK
does not take that for the client's fault, so that each would be an error with a traceback in the log of a host that
did nothing wrong.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope

from opask.http_serving import Sending

__all__ = ["quiet_sdk", "read_body", "serve_read"]

_SDK: Final = "mcp.server.streamable_http"  # its logger
# What the SDK raises where the MCP session of a request ends before the request is served.
_ENDED: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError)
_gone: Final[ASGIApp] = Response("This MCP session has ended.\n", status_code=404, media_type="text/plain")


async def read_body(receive: Receive, limit: int) -> bytes | None:
    """Read a request's body.

    Args:
        receive: the request's.
        limit: how many bytes it may have; of more no more is read than tells that they are too many.

    Returns:
        The body, None where the client leaves before all of it has come.
    """
    body = bytearray()
    while len(body) <= limit:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    return bytes(body)


async def serve_read(
    sdk: ASGIApp,
    scope: Scope,
    body: bytes,
    receive: Receive,
    sending: Sending,
    *,
    lost: Callable[[], object] = lambda: None,
) -> None:
    """Have the SDK serve a request whose body has been read.

    Args:
        sdk: the SDK's application.
        scope: the request's.
        body: its body.
        receive: what tells that the client has left.
        sending: its response.
        lost: called where the client leaves before it has the whole response; may be called again.
    """
    read = False

    async def watched() -> Message:
        nonlocal read
        if not read:
            read = True
            return {"type": "http.request", "body": body, "more_body": False}
        message = await receive()
        # The server tells the end of a whole response in the same way.
        if message["type"] == "http.disconnect" and not sending.complete:
            lost()
        return message

    try:
        await sdk(scope, watched, sending)
    except _ENDED:
        if not sending.started:
            await _gone(scope, receive, sending)


@contextmanager
def quiet_sdk() -> Iterator[None]:
    """Keep out of the log, for the block, what the SDK says in this thread of requests whose MCP session has ended."""
    sdk, quiet = logging.getLogger(_SDK), _Quiet(threading.get_ident())
    sdk.addFilter(quiet)
    try:
        yield
    finally:
        sdk.removeFilter(quiet)


class _Quiet(logging.Filter):
    """Passes over what the SDK logs as its own error in one thread: a host's own use of it is not touched."""

    def __init__(self, thread: int) -> None:
        super().__init__()
        self._thread = thread

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether to log it."""
        error = record.exc_info[1] if record.exc_info else None
        return record.thread != self._thread or not _has_ended(error)


def _has_ended(error: BaseException | None) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_has_ended(each) for each in error.exceptions)
    return isinstance(error, _ENDED)
