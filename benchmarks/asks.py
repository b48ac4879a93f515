"""The way of one ask, from the call to its result, with an operator who answers at once."""

from __future__ import annotations

import contextlib
import functools
import tempfile
import time
from collections.abc import Iterator

from measuring import Figure, Interleaved, Target
from programs import CALL, Client, Controlled, connected, sdk_server, spawned, typescript_server

__all__ = ["round_trip"]

_BLOCK = 20  # round trips in a sample


def round_trip(host: Controlled, rounds: int) -> Iterator[Figure]:
    """Measure tools/call to result, over the relay and on the bare socket."""
    numbers = iter(range(100, 1 << 30))
    echoed = CALL(100)

    def asks(client: Client) -> float:
        calls = [CALL(next(numbers)) for _ in range(_BLOCK)]
        begin = time.perf_counter()
        for call in calls:
            answer = client.ask(call)
            if b'"PostgreSQL"' not in answer:
                raise RuntimeError(f"not answered: {answer[:300]!r}")
        return (time.perf_counter() - begin) * 1000 / _BLOCK

    def echo(client: Client) -> float:
        begin = time.perf_counter()
        for _ in range(_BLOCK):
            client.ask(echoed)
        return (time.perf_counter() - begin) * 1000 / _BLOCK

    relays = host.do("attach", count=2)["commands"]
    relays += host.do("attach", count=1, any_loop=True)["commands"]
    typescript = typescript_server()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="opask-bench-"))
        turns = Interleaved()
        for kind in ("echo", "loop"):
            stack.enter_context(Controlled("bare_host.py", f"{folder}/{kind}", kind))
            bare = stack.enter_context(connected(f"{folder}/{kind}"))
            turns.add(kind, functools.partial(echo, bare))

        def add(name: str, client: Client) -> None:
            client.list_tools()
            turns.add(name, lambda: asks(client))

        add("relay", stack.enter_context(spawned(relays[0]))[0])
        add("any loop", stack.enter_context(spawned(relays[2]))[0])
        add("socket", stack.enter_context(connected(relays[1][-1])))
        add("python", stack.enter_context(spawned(sdk_server()))[0])
        if typescript:
            add("typescript", stack.enter_context(spawned(typescript))[0])
        turns.run(rounds)
    host.do("detach")
    name, limit = "ask, tools/call to result, over the relay", Target("ratio", 12)
    yield Figure.of_pairs(
        name, "ms", turns.pairs("relay", "loop"), against="echo on a unix socket, event loop", target=limit
    )
    yield Figure.of_pairs(
        name, "ms", turns.pairs("relay", "echo"), against="echo on a unix socket, blocking", target=limit
    )
    yield Figure.of_pairs(
        name,
        "ms",
        turns.pairs("relay", "python"),
        against="Python SDK stdio server",
        target=Target("ratio", 1),
    )
    yield Figure.of_pairs(
        "the same, by a prompter for any loop",
        "ms",
        turns.pairs("any loop", "python"),
        against="Python SDK stdio server",
        target=Target("ratio", 1),
    )
    if "typescript" in turns:
        yield Figure.of_pairs(
            name, "ms", turns.pairs("relay", "typescript"), against="TypeScript SDK stdio server"
        )
    yield Figure.of_pairs(
        "ask, tools/call to result, on the socket",
        "ms",
        turns.pairs("socket", "loop"),
        against="echo on a unix socket, event loop",
    )
