"""Every figure of opask's speed and size, each a ratio to a baseline that was measured in turn with it.

Prints a table; ``--json FILE`` also writes the figures with their quartiles. ``--check`` exits with 1 where a
target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import asks
import imports
import parked
import sessions
import startup
from measuring import Figure, table
from programs import Controlled, typescript_server

GROUPS: dict[str, Callable[[Controlled, int], Iterator[Figure]]] = {
    "spawn": startup.spawn,
    "memory": startup.memory,
    "blocked": startup.blocked,
    "ask": asks.round_trip,
    "sessions": sessions.at_once,
    "parked": parked.parked,
    "imports": imports.imports,
}


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=GROUPS, help="this group; may be given again")
    parser.add_argument("--rounds", type=int, default=100, help="pairs of samples, where one is cheap (100)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target is missed")
    options = parser.parse_args()
    load = [os.getloadavg()[0]]
    figures: list[Figure] = []
    for name in options.only or GROUPS:
        begin = time.monotonic()
        with Controlled("host.py") as host:
            figures += GROUPS[name](host, options.rounds)
        print(f"{name}: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    load.append(os.getloadavg()[0])
    print(table(figures))
    print(
        f"\n{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; "
        f"load at the start {load[0]:.2f}, at the end {load[1]:.2f}"
    )
    if typescript_server() is None:
        print("without the TypeScript SDK; install it with: python tests/node_packages.py")
    if options.json:
        options.json.write_text(json.dumps(_report(figures, load), indent=1) + "\n")
    missed = [figure for figure in figures if figure.met is False]
    return 1 if options.check and missed else 0


def _report(figures: list[Figure], load: list[float]) -> dict[str, Any]:
    return {
        "machine": {
            "system": platform.system(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "load": load,
        },
        "figures": [asdict(figure) | {"met": figure.met} for figure in figures],
    }


if __name__ == "__main__":
    sys.exit(main())
