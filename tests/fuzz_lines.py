"""A client that keeps to the protocol, of the standard library alone: a process that uses it starts at once."""

from __future__ import annotations

import json
import os
import select
import socket
from typing import Any

__all__ = ["PATIENCE_S", "Lines", "ask", "drained", "rpc"]

PATIENCE_S = 40.0  # far more than anything here takes; a test that needs it has found a hang


def rpc(method: str, params: Any = None, request_id: Any = None) -> bytes:
    """Return the line of a request, or of a notification."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if request_id is not None:
        message["id"] = request_id
    if params is not None:
        message["params"] = params
    return json.dumps(message).encode() + b"\n"


def ask(request_id: Any, text: str, meta: Any = None) -> bytes:
    """Return the line that asks a question."""
    arguments = {"questions": [{"question": text, "options": ["a", "b"]}]}
    params: dict[str, Any] = {"name": "ask_user_question", "arguments": arguments}
    return rpc("tools/call", params if meta is None else params | {"_meta": meta}, request_id)


def drained(connection: socket.socket) -> bytes:
    """Read what still comes until the server closes, which it has to; return it."""
    received = bytearray()
    while select.select([connection], [], [], PATIENCE_S)[0]:
        piece = connection.recv(1 << 16)
        if not piece:
            return bytes(received)
        received += piece
    raise AssertionError("the server keeps a connection whose client has ended")


class Lines:
    """A client that keeps to the protocol, blocking, on a socket or a pair of pipes."""

    def __init__(self, path: str | None = None, *, pipes: tuple[int, int] | None = None) -> None:
        self._socket: socket.socket | None = None
        if path is not None:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.connect(path)
            pipes = (self._socket.fileno(),) * 2
        assert pipes is not None
        self._from, self._to = pipes
        self._buffer = b""
        self._answers: dict[Any, Any] = {}

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()

    def send(self, data: bytes) -> None:
        """Write all of it."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._to, view) :]

    def response(self, request_id: Any) -> dict[str, Any]:
        """Read until the response to a request.

        Raises:
            EOFError: the connection has ended.
        """
        while request_id not in self._answers:
            assert select.select([self._from], [], [], PATIENCE_S)[0], "no response came"
            received = os.read(self._from, 65536)
            if not received:
                raise EOFError(request_id)
            *lines, self._buffer = (self._buffer + received).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if "method" not in message:
                    self._answers[message["id"]] = message
        found: dict[str, Any] = self._answers.pop(request_id)
        return found

    def shake_hands(self) -> None:
        """Initialize."""
        client = {"name": "fuzz", "version": "0"}
        wanted = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        self.send(rpc("initialize", wanted, "hello"))
        self.response("hello")
        self.send(rpc("notifications/initialized"))

    def call(self, request_id: Any, text: str, meta: Any = None) -> None:
        """Ask a question."""
        self.send(ask(request_id, text, meta))
