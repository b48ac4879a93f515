"""The programs that are measured, and a client that speaks as little as it can to them."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import opask

__all__ = [
    "BARE",
    "CALL",
    "HANDSHAKE",
    "MODERN",
    "Client",
    "Controlled",
    "environment",
    "memory_mib",
    "more_descriptors",
    "sdk_server",
    "spawn_to_list",
    "typescript_server",
]

HERE = Path(__file__).resolve().parent
RELAY = Path(opask.__file__).with_name("relay.py")
BARE = (sys.executable, "-I", "-S", "-c", "pass")
ECHO_SIZE = 65536


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


_CLIENT = {"name": "bench", "version": "0"}
_INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": _CLIENT}
_ENVELOPE = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": _CLIENT,
    }
}
# What a client sends up to the tool list: one entry is sent at once, and its answer waited for.
HANDSHAKE = (
    _line({"id": 1, "method": "initialize", "params": _INITIALIZE}),
    _line({"method": "notifications/initialized"}) + _line({"id": 2, "method": "tools/list"}),
)
MODERN = (
    _line({"id": 1, "method": "server/discover", "params": _ENVELOPE}),
    _line({"id": 2, "method": "tools/list", "params": _ENVELOPE}),
)
_ASK = {
    "questions": [
        {
            "question": "Which database should the service use?",
            "header": "Database",
            "options": [
                {"label": "PostgreSQL", "description": "A server of its own"},
                {"label": "SQLite", "description": "A file"},
            ],
            "multiSelect": False,
        }
    ]
}


def CALL(request_id: int, *, about: str = "") -> bytes:  # noqa: N802 - a line, as those above
    """Return the line that calls the ask tool."""
    asked = json.loads(json.dumps(_ASK))
    asked["questions"][0]["question"] += about
    return _line(
        {
            "id": request_id,
            "method": "tools/call",
            "params": {"name": "ask_user_question", "arguments": asked},
        }
    )


def environment() -> dict[str, str]:
    """Return what the programs run under: enough to find themselves, no settings of the caller's."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}


class Client:
    """Writes lines to a descriptor and reads lines from another, blocking."""

    def __init__(self, source: int, target: int) -> None:
        self._source = source
        self._target = target
        self._buffer = b""

    def send(self, data: bytes) -> None:
        """Write all of it."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._target, view) :]

    def line(self) -> bytes:
        """Read the next line."""
        while (end := self._buffer.find(b"\n")) < 0:
            received = os.read(self._source, 65536)
            if not received:
                raise RuntimeError(f"the server has gone: {self._buffer[-200:]!r}")
            self._buffer += received
        line, self._buffer = self._buffer[:end], self._buffer[end + 1 :]
        return line

    def ask(self, data: bytes) -> bytes:
        """Write a request and read its response; a request of the server's that comes before it is answered."""
        self.send(data)
        while b'"method":' in (line := self.line())[:120]:
            if (request_id := json.loads(line).get("id")) is not None:
                self.send(_line({"id": request_id, "result": {}}))
        return line

    def list_tools(self, requests: Sequence[bytes] = HANDSHAKE) -> None:
        """Go through a handshake up to the tool list."""
        answer = b""
        for request in requests:
            answer = self.ask(request)
        if b'"ask_user_question"' not in answer:
            raise RuntimeError(f"no ask tool in {answer[:300]!r}")


@contextlib.contextmanager
def spawned(command: Sequence[str]) -> Iterator[tuple[Client, subprocess.Popen[bytes]]]:
    """Start a stdio server; it ends when its standard input does."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environment()
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Client(process.stdout.fileno(), process.stdin.fileno()), process
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def spawn_to_list(command: Sequence[str], requests: Sequence[bytes] = HANDSHAKE) -> float:
    """Return the milliseconds from before a server is spawned until it has listed its tools."""
    begin = time.perf_counter()
    with spawned(command) as (client, _):
        client.list_tools(requests)
        return (time.perf_counter() - begin) * 1000


def run_to_end(command: Sequence[str]) -> float:
    """Return the milliseconds that a command takes from spawn to exit."""
    begin = time.perf_counter()
    subprocess.run(command, stdin=subprocess.DEVNULL, env=environment(), check=True)
    return (time.perf_counter() - begin) * 1000


@contextlib.contextmanager
def connected(path: str) -> Iterator[Client]:
    """Connect to a unix socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        yield Client(connection.fileno(), connection.fileno())


def memory_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        said = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True
        )
        return int(said.stdout) / 1024
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) / 1024


def more_descriptors() -> int:
    """Raise this process's limit of file descriptors as far as it may, for its children too; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 65536) if hard != resource.RLIM_INFINITY else 65536
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def sdk_server() -> tuple[str, ...]:
    """Return the command of the Python SDK's stdio server with the same tool."""
    return (sys.executable, "-I", str(HERE / "sdk_server.py"))


def typescript_server() -> tuple[str, ...] | None:
    """Return the command of the TypeScript SDK's stdio server with the same tool; None where it is not installed."""
    found = subprocess.run(
        [sys.executable, "-c", "import json, node_packages as n; print(json.dumps(vars(n.installed())))"],
        cwd=HERE.parent / "tests",
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        return None
    where = json.loads(found.stdout)
    return (where["node"], str(HERE / "sdk_server.mjs"), where["modules"])


class Controlled:
    """A child process that obeys commands, one JSON object a line each way."""

    def __init__(self, script: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / script), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to: IO[bytes] = self._process.stdin
        self._from: IO[bytes] = self._process.stdout
        self.pid = self._process.pid
        self.ready = self.heard()

    def do(self, command: str, **parameters: Any) -> Any:
        """Have a command carried out; return what it gives."""
        self.begin(command, **parameters)
        return self.heard()

    def begin(self, command: str, **parameters: Any) -> None:
        """Give a command, and do not wait for it."""
        self._to.write(json.dumps({"do": command} | parameters).encode() + b"\n")
        self._to.flush()

    def heard(self) -> Any:
        """Wait for the next thing it says."""
        line = self._from.readline()
        if not line:
            raise RuntimeError(f"{self._process.args!r} ended with {self._process.wait()}")
        return json.loads(line)

    def __enter__(self) -> Controlled:
        return self

    def __exit__(self, *_: object) -> None:
        self._to.close()
        self._process.wait()
        self._from.close()
