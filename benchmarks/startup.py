"""How long a runtime waits for the tool list, what the servers weigh, and what a blocked host changes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence

from measuring import Figure, Interleaved, Target
from programs import (
    BARE,
    HANDSHAKE,
    MODERN,
    Controlled,
    connected,
    memory_mib,
    run_to_end,
    sdk_server,
    spawn_to_list,
    spawned,
    typescript_server,
)

__all__ = ["blocked", "memory", "spawn"]

_BARE = "python -I -S -c pass"
_AT_REST = (
    sys.executable,
    "-I",
    "-S",
    "-c",
    "import sys; sys.stdout.write('\\n'); sys.stdout.flush(); sys.stdin.read()",
)
_BLOCK_MS = 400


def spawn(host: Controlled, rounds: int) -> Iterator[Figure]:
    """Measure from before the spawn to the tool list."""
    relay = host.do("attach", count=1)["commands"][0]
    typescript = typescript_server()
    turns = Interleaved()
    turns.add("bare", lambda: run_to_end(BARE))
    turns.add("relay", lambda: spawn_to_list(relay, HANDSHAKE))
    turns.add("modern", lambda: spawn_to_list(relay, MODERN))
    turns.add("python", lambda: spawn_to_list(sdk_server()), every=5)
    if typescript:
        turns.add("typescript", lambda: spawn_to_list(typescript), every=5)
    turns.run(rounds)
    host.do("detach")
    yield Figure.of_pairs(
        "relay, spawn to tools/list (2025-11-25)",
        "ms",
        turns.pairs("relay", "bare"),
        against=_BARE,
        target=Target("ratio", 2.5),
    )
    yield Figure.of_pairs(
        "relay, spawn to tools/list (2026-07-28)",
        "ms",
        turns.pairs("modern", "bare"),
        against=_BARE,
        target=Target("ratio", 2.5),
    )
    yield Figure.of_pairs(
        "relay, spawn to tools/list",
        "ms",
        turns.pairs("relay", "python"),
        against="Python SDK stdio server",
        target=Target("speedup", 20),
    )
    if "typescript" in turns:
        yield Figure.of_pairs(
            "relay, spawn to tools/list",
            "ms",
            turns.pairs("relay", "typescript"),
            against="TypeScript SDK stdio server",
        )


def memory(host: Controlled, rounds: int) -> Iterator[Figure]:
    """Measure what a server's process holds once it has listed its tools."""
    relay = host.do("attach", count=1)["commands"][0]
    typescript = typescript_server()

    def resident(command: Sequence[str]) -> float:
        with spawned(command) as (client, process):
            client.list_tools()
            return memory_mib(process.pid)

    def bare() -> float:
        with spawned(_AT_REST) as (client, process):
            client.line()
            return memory_mib(process.pid)

    turns = Interleaved()
    turns.add("bare", bare)
    turns.add("relay", lambda: resident(relay))
    turns.add("python", lambda: resident(sdk_server()))
    if typescript:
        turns.add("typescript", lambda: resident(typescript))
    turns.run(max(3, rounds // 10))
    host.do("detach")
    name, limit = "relay, resident memory", Target("value", 10)
    yield Figure.of_pairs(
        name, "MiB", turns.pairs("relay", "bare"), against="bare Python at rest", target=limit
    )
    yield Figure.of_pairs(name, "MiB", turns.pairs("relay", "python"), against="Python SDK stdio server")
    if "typescript" in turns:
        yield Figure.of_pairs(
            name, "MiB", turns.pairs("relay", "typescript"), against="TypeScript SDK stdio server"
        )


def blocked(host: Controlled, rounds: int) -> Iterator[Figure]:
    """Measure the tool list while the host's own loop does not run."""
    relay = host.do("attach", count=1)["commands"][0]

    def listing() -> float:
        begin = time.perf_counter()
        with connected(relay[-1]) as client:
            client.list_tools()
            return (time.perf_counter() - begin) * 1000

    def during(how: str, measure: object) -> float:
        assert callable(measure)
        host.begin("block", ms=_BLOCK_MS, how=how)
        host.heard()
        sample: float = measure()
        host.heard()
        return sample

    turns = Interleaved()
    turns.add("free", listing)
    turns.add("asleep", lambda: during("asleep", listing))
    turns.add("busy", lambda: during("busy", listing))
    turns.add("spawned free", lambda: spawn_to_list(relay))
    turns.add("spawned asleep", lambda: during("asleep", lambda: spawn_to_list(relay)))
    turns.add("spawned busy", lambda: during("busy", lambda: spawn_to_list(relay)))
    turns.run(max(3, rounds // 5))
    host.do("detach")
    for how in ("asleep", "busy"):
        yield Figure.of_pairs(
            f"connection to tools/list, host loop {how} {_BLOCK_MS} ms",
            "ms",
            turns.pairs(how, "free"),
            against="host loop free",
            target=Target("value", 100),
        )
        yield Figure.of_pairs(
            f"spawn to tools/list, host loop {how} {_BLOCK_MS} ms",
            "ms",
            turns.pairs(f"spawned {how}", "spawned free"),
            against="host loop free",
        )
