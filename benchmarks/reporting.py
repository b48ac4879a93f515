"""What every benchmark's command line does: choose groups of figures, print them, write them, hold them to targets."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from anyio.from_thread import BlockingPortal, start_blocking_portal

from measuring import Figure, table

__all__ = ["command", "in_a_folder"]


def command(what: str, groups: Mapping[str, Callable[[int], Iterator[Figure]]]) -> int:
    """Measure what the command line names; print and write it.

    Args:
        what: what the script says of itself.
        groups: by name, from how many pairs of samples are wanted to the figures.

    Returns:
        The exit code: 1 where a target is missed and ``--check`` was given.
    """
    parser = argparse.ArgumentParser(description=what, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=groups, help="this group; may be given again")
    parser.add_argument("--rounds", type=int, default=100, help="pairs of samples, where one is cheap (100)")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write the figures; into a folder, under the script's own name",
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target is missed")
    options = parser.parse_args()
    load = [os.getloadavg()[0]]
    figures: list[Figure] = []
    for name in options.only or groups:
        begin = time.monotonic()
        figures += groups[name](options.rounds)
        print(f"{name}: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    load.append(os.getloadavg()[0])
    print(table(figures))
    print(
        f"\n{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; "
        f"load at the start {load[0]:.2f}, at the end {load[1]:.2f}"
    )
    if options.json:
        report = {
            "machine": {
                "system": platform.system(),
                "machine": platform.machine(),
                "cores": os.cpu_count(),
                "python": platform.python_version(),
                "load": load,
            },
            "figures": [asdict(figure) | {"met": figure.met} for figure in figures],
        }
        file = options.json / f"{Path(sys.argv[0]).stem}.json" if options.json.is_dir() else options.json
        file.write_text(json.dumps(report, indent=1) + "\n")
    missed = [figure for figure in figures if figure.met is False]
    return 1 if options.check and missed else 0


def in_a_folder(
    group: Callable[[Path, BlockingPortal, int], Iterator[Figure]],
) -> Callable[[int], Iterator[Figure]]:
    """Give a group that has a folder and a loop of its own while it is measured."""

    def measured(rounds: int) -> Iterator[Figure]:
        with (
            tempfile.TemporaryDirectory(prefix="opask-bench-") as folder,
            start_blocking_portal("asyncio") as portal,
        ):
            yield from group(Path(folder), portal, rounds)

    return measured
