"""Many sessions at once: attached, and listed by as many runtimes."""

from __future__ import annotations

import functools
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from measuring import Figure, Interleaved
from programs import BARE, Controlled, connected, environment, spawn_to_list

__all__ = ["at_once"]


def at_once(host: Controlled, rounds: int) -> Iterator[Figure]:
    """Measure until the last of many sessions has its tool list."""
    for count in (20, 100):
        took: list[float] = []

        def relays(pool: ThreadPoolExecutor, count: int = count, took: list[float] = took) -> float:
            attached = host.do("attach", count=count)
            took.append(attached["ms"])
            begin = time.perf_counter()
            list(pool.map(spawn_to_list, attached["commands"]))
            sample = (time.perf_counter() - begin) * 1000
            host.do("detach")
            return sample

        def sockets(pool: ThreadPoolExecutor, count: int = count) -> float:
            paths = [command[-1] for command in host.do("attach", count=count)["commands"]]
            begin = time.perf_counter()
            list(pool.map(_listed, paths))
            sample = (time.perf_counter() - begin) * 1000
            host.do("detach")
            return sample

        def attach(count: int = count) -> float:
            sample: float = host.do("attach", count=count)["ms"]
            host.do("detach")
            return sample

        with ThreadPoolExecutor(count) as pool:
            turns = Interleaved()
            turns.add("bare", functools.partial(_all_at_once, [BARE] * count))
            turns.add("relays", functools.partial(relays, pool))
            turns.add("sockets", functools.partial(sockets, pool))
            turns.add("attach", attach)
            turns.run(max(3, rounds // 10))
        against = f"{count} bare Pythons at once"
        yield Figure.of_pairs(
            f"{count} sessions attached at once", "ms", turns.pairs("attach", "bare"), against=against
        )
        yield Figure.of_pairs(
            f"{count} relays at once, spawn to the last tools/list",
            "ms",
            turns.pairs("relays", "bare"),
            against=against,
        )
        yield Figure.of_pairs(
            f"{count} connections at once, to the last tools/list",
            "ms",
            turns.pairs("sockets", "bare"),
            against=against,
        )


def _listed(path: str) -> None:
    with connected(path) as client:
        client.list_tools()


def _all_at_once(commands: Sequence[Sequence[str]]) -> float:
    begin = time.perf_counter()
    processes = [
        subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment()) for command in commands
    ]
    for process in processes:
        process.wait()
    return (time.perf_counter() - begin) * 1000
