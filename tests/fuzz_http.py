"""HTTP as the fuzz tests speak it: a client that keeps to the protocol, and requests that need not."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from attrs import evolve, frozen

from fuzz_lines import PATIENCE_S, ask, rpc
from opask.launch import Endpoint

__all__ = ["ENVELOPE", "HELLO", "Era", "Posts", "Request", "connected"]

Era: TypeAlias = Literal["handshake", "modern"]
_CLIENT = {"name": "fuzz", "version": "0"}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": _CLIENT}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": _CLIENT,
}
# What the headers of a sound request are made of; a test may leave one out or give another.
_SOUND = {
    "Host": "{host}",
    "Authorization": "Bearer {token}",
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}


def connected(endpoint: Endpoint) -> socket.socket:
    """Connect to the endpoint's listener."""
    where = urlsplit(str(endpoint.url))
    return socket.create_connection((str(where.hostname), int(where.port or 0)), PATIENCE_S)


@frozen
class Request:
    """One request, sound unless told otherwise.

    Args:
        body: what it carries.
        method: its method.
        path: in place of the endpoint's own.
        headers: more of them, or others; None leaves one out.
        era: which revision's headers it has.
        framing: how the body's length is told: rightly, in chunks, wrongly, or not at all.
    """

    body: bytes
    method: str = "POST"
    path: str | None = None
    headers: Mapping[str, str | None] = {}
    era: Era | None = "handshake"
    framing: Literal["length", "chunked", "short", "long", "bad chunk", "none"] = "length"

    def to_bytes(self, endpoint: Endpoint, mcp_session: str | None = None) -> bytes:
        """Return the request as it goes over the connection."""
        where = urlsplit(str(endpoint.url))
        headers: dict[str, str | None] = dict(_SOUND)
        if self.era == "handshake":
            headers |= {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": mcp_session}
        elif self.era == "modern":
            headers |= {"MCP-Protocol-Version": "2026-07-28", **_named(self.body)}
        headers |= self._framed()
        headers |= self.headers
        lines = [
            f"{name}: {value}".replace("{host}", where.netloc).replace("{token}", str(endpoint.token))
            for name, value in headers.items()
            if value is not None
        ]
        head = "\r\n".join([f"{self.method} {self.path or where.path} HTTP/1.1", *lines, "", ""])
        return head.encode("utf-8", "surrogateescape") + self._sent()

    def _framed(self) -> dict[str, str | None]:
        size = len(self.body)
        match self.framing:
            case "length":
                return {"Content-Length": str(size)}
            case "short":
                return {"Content-Length": str(size // 2)}
            case "long":
                return {"Content-Length": str(size + 10)}
            case "none":
                return {}
            case _:
                return {"Transfer-Encoding": "chunked"}

    def _sent(self) -> bytes:
        if self.framing == "chunked":
            size = max(100, len(self.body) // 50)
            pieces = [self.body[at : at + size] for at in range(0, len(self.body), size)]
            return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        if self.framing == "bad chunk":
            return b"-5\r\n" + self.body
        return self.body


def _named(body: bytes) -> dict[str, str | None]:
    """Return the headers that name what the body holds, as revision 2026-07-28 wants them."""
    try:
        message = json.loads(body)
        names = {"Mcp-Method": str(message["method"])}
        if message["method"] == "tools/call":
            names["Mcp-Name"] = str(message["params"]["name"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return {name: value for name, value in names.items() if value.isascii() and value.isprintable() and value}


class Posts:
    """A client that keeps to the protocol, blocking.

    Args:
        endpoint: where the tool is served.
        era: how it speaks.
    """

    def __init__(self, endpoint: Endpoint, era: Era = "handshake") -> None:
        self._endpoint = endpoint
        self._era = era
        self.mcp_session: str | None = None

    def shake_hands(self) -> None:
        """Initialize, where there is such a thing."""
        if self._era == "modern":
            return
        _, headers, _ = self.send(Request(rpc("initialize", HELLO, 0), era=None))
        self.mcp_session = headers["mcp-session-id"]
        self.send(Request(rpc("notifications/initialized")))

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and return its response."""
        if self._era == "modern":
            params = {"_meta": ENVELOPE} | dict(params or {})
        return self._answer(rpc(method, params, 1))

    def call(self, text: str) -> dict[str, Any]:
        """Ask a question and wait for the answer; return the response."""
        return self._answer(ask(2, text, ENVELOPE if self._era == "modern" else None))

    def send(self, request: Request) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request and return the response's status, headers and body."""
        with connected(self._endpoint) as connection:
            sent = evolve(request, headers={"Connection": "close", **request.headers})
            connection.sendall(sent.to_bytes(self._endpoint, self.mcp_session))
            response = http.client.HTTPResponse(connection)
            response.begin()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return response.status, headers, response.read()

    def _answer(self, message: bytes) -> dict[str, Any]:
        status, _, body = self.send(Request(message, era=self._era))
        assert status == 200, (status, body)
        for line in body.splitlines():
            data = line.removeprefix(b"data:").strip()
            if data.startswith(b"{") and "method" not in (found := json.loads(data)):
                answer: dict[str, Any] = found
                return answer
        raise AssertionError(f"no response in {body!r}")
