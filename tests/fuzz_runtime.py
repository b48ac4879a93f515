"""A runtime that starts its relay, asks, and prints what it is told; made to be killed at any moment.

Usage: fuzz_runtime.py TIMES RELAY...: asks so many questions, each once the one before is answered.
"""

from __future__ import annotations

import subprocess
import sys

from fuzz_lines import Lines


def main(times: int, relay: list[str]) -> None:
    """Ask; end with the relay."""
    process = subprocess.Popen(relay, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    lines = Lines(pipes=(process.stdout.fileno(), process.stdin.fileno()))
    lines.shake_hands()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for number in range(times):
        lines.call(number, f"now {number}")
        lines.response(number)
    process.stdin.close()
    process.wait()


main(int(sys.argv[1]), sys.argv[2:])
