"""Every figure of opask's speed and size, each a ratio to a baseline that was measured in turn with it.

Prints a table; ``--json FILE`` also writes the figures with their quartiles. ``--check`` exits with 1 where a
target is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import asks
import imports
import parked
import sessions
import startup
from measuring import Figure
from programs import Controlled, typescript_server
from reporting import command

GROUPS: dict[str, Callable[[Controlled, int], Iterator[Figure]]] = {
    "spawn": startup.spawn,
    "memory": startup.memory,
    "blocked": startup.blocked,
    "ask": asks.round_trip,
    "sessions": sessions.at_once,
    "parked": parked.parked,
    "imports": imports.imports,
}


def with_host(group: Callable[[Controlled, int], Iterator[Figure]]) -> Callable[[int], Iterator[Figure]]:
    """Give a group that has a host of its own while it is measured."""

    def measured(rounds: int) -> Iterator[Figure]:
        with Controlled("host.py") as host:
            yield from group(host, rounds)

    return measured


if __name__ == "__main__":
    code = command(__doc__ or "", {name: with_host(group) for name, group in GROUPS.items()})
    if typescript_server() is None:
        print("without the TypeScript SDK; install it with: python tests/node_packages.py")
    sys.exit(code)
