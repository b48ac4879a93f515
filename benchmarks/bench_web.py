"""The web surface's figures, each a ratio to a baseline that was measured in turn with it.

A page's click is an HTTP request on a kept connection, and a page that watches is a bare socket that reads its feed:
no browser takes part. Prints a table; ``--json FILE`` also writes the figures with their quartiles. ``--check`` exits
with 1 where a target is missed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import resource
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from anyio.from_thread import BlockingPortal

import waking
from measuring import Figure, Interleaved
from opask import Ask, Option, Question
from opask.inbox import SqliteStore
from programs import CALL, Controlled, spawned
from reporting import command, in_a_folder

_PAGES = 1000
_FILES = 4 * _PAGES
_WAIT_S = 30.0
_SHOWN = re.compile(rb'"id":"([^"]+)","session_id":"bench"')
_QUESTION = Question(
    "Which database should the service use?", "Database", (Option("PostgreSQL"), Option("SQLite"))
)


class Server:
    """A process of `opask serve` on an inbox."""

    def __init__(self, inbox: Path) -> None:
        self._process = subprocess.Popen(
            [Path(sys.executable).with_name("opask"), "serve", "--port", "0", "--inbox", inbox],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        url, _, token = self._process.stdout.readline().strip().partition("/?token=")
        self.port = int(url.rpartition(":")[2])
        self.head = f"Host: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {token}\r\n"

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def connected(self) -> socket.socket:
        """Open a connection."""
        opened = socket.create_connection(("127.0.0.1", self.port), timeout=_WAIT_S)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened

    def memory(self) -> float:
        """Return what memory it uses, in MiB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024


class Pages:
    """So many open feeds of a server."""

    def __init__(self, server: Server, count: int) -> None:
        self._sockets: list[socket.socket] = []
        self._selector = selectors.DefaultSelector()
        for _ in range(count):
            page = server.connected()
            page.sendall(f"GET /api/feed HTTP/1.1\r\n{server.head}\r\n".encode())
            self._sockets.append(page)
            self._selector.register(page, selectors.EVENT_READ)
        self.hear(b"event: snapshot")

    def hear(self, what: bytes) -> bytes:
        """Read until each of them has been sent something; return the last of what one was sent up to there."""
        seen = dict.fromkeys(self._sockets, b"")
        last = b""
        while seen:
            ready = self._selector.select(_WAIT_S)
            if not ready:
                raise RuntimeError(f"{len(seen)} pages were not told")
            for key, _ in ready:
                page = key.fileobj
                assert isinstance(page, socket.socket)
                data = page.recv(1 << 16)
                if not data:
                    raise RuntimeError("a feed has ended")
                if page in seen:
                    last = seen[page] = seen[page][-4096:] + data
                    if what in last:
                        del seen[page]
        return last

    def close(self) -> None:
        """Close them."""
        self._selector.close()
        for page in self._sockets:
            page.close()


def _response(connection: socket.socket) -> bytes:
    """Read one response whole; return its head."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 16)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(1 << 16)
    return head


def answers(folder: Path, portal: BlockingPortal, rounds: int) -> Iterator[Figure]:
    """Measure from an answer's request to the tool result that the agent of another process reads."""
    numbers = itertools.count(100)

    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Server(folder / "shared.db"))
        host = stack.enter_context(Controlled("inbox_host.py", "opask", str(folder / "shared.db")))
        client = stack.enter_context(spawned(host.ready["command"]))[0]
        client.list_tools()
        page = Pages(server, 1)
        stack.callback(page.close)
        click = stack.enter_context(server.connected())

        def ours() -> float:
            client.send(CALL(next(numbers)))
            shown = _SHOWN.findall(page.hear(b'"state":"pending"'))
            time.sleep(waking.CLICK_S)
            body = json.dumps({"session_id": "bench", "answers": [{"selected": [0]}]})
            request = (
                f"POST /api/asks/{shown[-1].decode()}/answer HTTP/1.1\r\n{server.head}"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
            )
            begin = time.perf_counter()
            click.sendall(request.encode())
            line = client.line()
            took = (time.perf_counter() - begin) * 1000
            if b'"PostgreSQL"' not in line or b" 200 " not in _response(click):
                raise RuntimeError(f"not answered: {line[:300]!r}")
            page.hear(b'"state":"delivered"')
            return took

        yield from waking.figures(
            "an answer, from its request to the agent's tool result", folder, ours, rounds, by_request=True
        )


def pages(folder: Path, portal: BlockingPortal, rounds: int) -> Iterator[Figure]:
    """Measure how long a change takes to reach all who watch a server, and what memory they take there."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, hard), hard))
    numbers = itertools.count()
    turns = Interleaved()
    rounds = max(10, rounds // 5)
    memory: list[float] = []
    with contextlib.ExitStack() as stack:
        for count in (_PAGES, 1):
            inbox = folder / f"{count}.db"
            server = stack.enter_context(Server(inbox))
            store = stack.enter_context(portal.wrap_async_context_manager(SqliteStore(inbox)))
            host = portal.call(store.join)
            watching = Pages(server, count)
            stack.callback(watching.close)

            def told(watching: Pages, store: SqliteStore, host_id: str) -> float:
                number = next(numbers)
                now = datetime.now(UTC)
                ask = Ask(f"ask{number}-", "bench", (_QUESTION,), now, now + timedelta(hours=1))
                begin = time.perf_counter()
                portal.call(store.put, ask, host_id)
                watching.hear(ask.id.encode())
                return (time.perf_counter() - begin) * 1000

            turns.add(str(count), partial(told, watching, store, host.id))
            memory.append(server.memory())
        turns.run(rounds)
    yield Figure.of_pairs(
        f"a change, from its commit to {_PAGES} open pages",
        "ms",
        turns.pairs(str(_PAGES), "1"),
        against="to one page",
        note="the reader of all pages is one process on the same cores",
    )
    yield Figure.of_pairs(
        f"memory of a server with {_PAGES} open pages", "MiB", [(memory[0], memory[1])], against="with one"
    )


if __name__ == "__main__":
    sys.exit(command(__doc__ or "", {"answers": in_a_folder(answers), "pages": in_a_folder(pages)}))
