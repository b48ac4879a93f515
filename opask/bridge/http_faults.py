"""What a client does wrong in the middle of a request, over HTTP: kept from the SDK, and from the host's log.

A client may leave before its request has come, end its MCP session while another request of it is read, or send
behind a request what is no HTTP. Neither the SDK nor the server below it take that for the client's fault, so that
each would be an error with a traceback in the log of a host that did nothing wrong.
"""

from __future__ import annotations

import logging
from typing import Final

import anyio
from h11 import LocalProtocolError
from starlette.types import Message, Receive, Send

__all__ = ["ENDED", "ClientsFault", "Sending", "read_body"]

ENDED: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError)
"""What the SDK raises where the MCP session of a request ends before the request is served."""


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


class Sending:
    """Sends one response, whatever the SDK does; stands in for a request's ``send``.

    Attributes:
        started: whether its head has been sent.
        complete: whether all of it has.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self.started = False
        self.complete = False
        self._is_second = False
        self._receive = receive
        self._send = send

    async def __call__(self, message: Message) -> None:
        """Send a part of it; of a second response, which has no place on the connection, only that it has ended."""
        if message["type"] == "http.response.start":
            if self.started:
                self._is_second = True
                return
            self.started = True
        elif self.complete:
            return
        else:
            self.complete = not message.get("more_body", False)
            if self._is_second:
                message = {**message, "body": b""}
        try:
            await self._send(message)
        except LocalProtocolError:
            # What came behind the request was no HTTP: the server has answered that at once, and closed.
            self.started = self.complete = True
            while (await self._receive())["type"] != "http.disconnect":
                pass

    async def finish(self) -> None:
        """End a response that the SDK has left open."""
        if self.started and not self.complete:
            await self({"type": "http.response.body", "body": b"", "more_body": False})


class ClientsFault(logging.Filter):
    """Passes over what the SDK logs as its own error where the MCP session of a request has ended meanwhile.

    Args:
        thread: the bridge's, so that a host's own use of the SDK is not touched.
    """

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
    return isinstance(error, ENDED)
