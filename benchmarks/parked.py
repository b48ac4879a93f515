"""Thousands of asks that wait at once for an operator, each over a real connection."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence

from measuring import Figure, Target
from programs import CALL, HANDSHAKE, Controlled, memory_mib, more_descriptors

__all__ = ["parked"]

_EACH = 10  # asks on a connection
_CONNECTIONS = 1000
_SPARE = 200  # descriptors a host needs beside its two per session
_PING = b'{"jsonrpc":"2.0","id":9,"method":"ping"}\n'


def parked(_: Controlled, rounds: int) -> Iterator[Figure]:
    """Park 10,000 asks over 1,000 connections, answer all, and see what is left."""
    connections = min(_CONNECTIONS, (more_descriptors() - _SPARE) // 2)
    asks = connections * _EACH
    ours: list[_Run] = []
    bare: list[_Run] = []
    for _number in range(1 if rounds < 50 else 3):
        bare.append(_bare(connections))
        ours.append(_opask(connections))
    name, against = f"{asks} parked asks over {connections} connections", "bare asyncio tasks, the same"

    def figure(what: str, unit: str, attribute: str, target: Target | None = None) -> Figure:
        pairs = [
            (getattr(one, attribute), getattr(other, attribute))
            for one, other in zip(ours, bare, strict=True)
        ]
        return Figure.of_pairs(f"{name}: {what}", unit, pairs, against=against, target=target)  # type: ignore[arg-type]

    yield figure("memory an ask", "KiB", "memory_kib")
    yield figure("until all wait", "ms", "park_ms")
    yield figure("a ping meanwhile", "ms", "ping_ms")
    yield figure("until all are answered", "ms", "answer_ms")
    yield Figure.of_pairs(
        f"{name}: file descriptors afterwards",
        "fds",
        [(run.fds_after, run.fds_before) for run in ours],
        against="before",
        target=Target("ratio", 1),
    )


class _Run:
    memory_kib: float
    park_ms: float
    ping_ms: float
    answer_ms: float
    fds_before: int
    fds_after: int


def _bare(connections: int) -> _Run:
    with tempfile.TemporaryDirectory(prefix="opask-bench-") as folder:
        path = f"{folder}/s"
        with Controlled("bare_host.py", path, "park") as host:
            return _run(host, [path] * connections)


def _opask(connections: int) -> _Run:
    with Controlled("host.py") as host:
        host.do("park")
        before = host.do("state")["fds"]
        paths = [command[-1] for command in host.do("attach", count=connections)["commands"]]
        run = _run(host, paths, shake_hands=True)
        outcomes = host.do("settled", count=connections * _EACH)
        if outcomes != {"answered": connections * _EACH}:
            raise RuntimeError(f"not every ask was answered: {outcomes}")
        host.do("detach")
        run.fds_before, run.fds_after = before, host.do("state")["fds"]
        return run


def _run(host: Controlled, paths: Sequence[str], *, shake_hands: bool = False) -> _Run:
    run = _Run()
    asks = len(paths) * _EACH
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in paths]
        for connection, path in zip(sockets, paths, strict=True):
            connection.connect(path)
        if shake_hands:
            for connection in sockets:
                connection.sendall(HANDSHAKE[0])
            _responses(sockets, len(sockets))
        before = memory_mib(host.pid)
        begin = time.perf_counter()
        for number, connection in enumerate(sockets):
            connection.sendall(
                b"".join(CALL(each, about=f" {number}.{each}") for each in range(100, 100 + _EACH))
            )
        host.do("parked", count=asks)
        run.park_ms = (time.perf_counter() - begin) * 1000
        run.memory_kib = (memory_mib(host.pid) - before) * 1024 / asks
        pings = []
        for connection in sockets[:: max(1, len(sockets) // 20)]:
            begin = time.perf_counter()
            connection.sendall(_PING)
            if json.loads(connection.recv(65536)).get("id") != 9:
                raise RuntimeError("a ping was not answered")
            pings.append((time.perf_counter() - begin) * 1000)
        run.ping_ms = sorted(pings)[len(pings) // 2]
        begin = time.perf_counter()
        host.begin("answer")
        _responses(sockets, asks)
        run.answer_ms = (time.perf_counter() - begin) * 1000
        host.heard()
    return run


def _responses(sockets: Sequence[socket.socket], count: int) -> None:
    """Wait until so many lines have come over the connections together."""
    with selectors.DefaultSelector() as selector:
        for connection in sockets:
            selector.register(connection, selectors.EVENT_READ)
        while count > 0:
            for key, _ in selector.select():
                received = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                if not received:
                    raise RuntimeError("a connection has ended")
                count -= received.count(b"\n")
