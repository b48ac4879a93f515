"""A relay that is slow to hand on what the bridge says: ``python slow_relay.py SECONDS INTERPRETER-OPTIONS relay.py …``."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path


def slow_interpreter(folder: Path, seconds: float) -> Path:
    """Write a Python that runs the relay so that each message of the bridge's takes its time; give its path."""
    program = folder / "slow-python"
    program.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" {seconds:g} "$@"\n', encoding="utf-8"
    )
    program.chmod(0o755)
    return program


def main(seconds: float, *arguments: str) -> int:
    """Run it; return its exit code."""
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE) as relay:
        assert relay.stdout is not None
        for line in relay.stdout:
            time.sleep(seconds)
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        return relay.wait()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), *sys.argv[2:]))
