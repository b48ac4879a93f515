"""What the tests of the command line run in place of a real runtime, and how they run the command line."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from opask.adapters import Conversation
from opask.cli.demo_adapter import DemoAdapter
from opask.launch import Endpoint, LaunchPlan, LaunchRequest

__all__ = [
    "ANSWERS",
    "DATABASE",
    "PARTS",
    "SECONDS",
    "Command",
    "ScriptedRuntime",
    "child_of",
    "events",
    "main_of",
    "read_line",
    "wait_for_end",
]

SECONDS: Final = 120  # far more than anything takes, on a machine that is busy too
DATABASE: Final = "Which database should the service use?"
PARTS: Final = "Which parts should be done first?"
ANSWERS: Final = json.dumps({DATABASE: "SQLite", PARTS: ["API", "Docs"]})

_PRELUDE = """
import json, os, signal, sys, time
def say(type, **more): print(json.dumps({"type": type, **more}), flush=True)
def end(reason="done", is_error=False): say("turn_ended", reason=reason, is_error=is_error)
"""
_MAIN = """
import sys
from opask.cli import main
{more}
sys.exit(main(sys.argv[1:]))
"""
_MAIN_WITH_RUNTIME = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import opask.adapters
from cli_runtimes import ScriptedRuntime
from opask.cli import main
opask.adapters.adapter = lambda name: ScriptedRuntime(sys.argv[2])
{more}
sys.exit(main(sys.argv[3:]))
"""


class ScriptedRuntime:
    """A runtime of a few lines, with ``say`` and ``end`` at hand; it speaks as the demo's agent does.

    Args:
        script: what it does.
    """

    runtime: str = "demo"
    program: str = sys.executable

    def __init__(self, script: str) -> None:
        self._script = script

    def default_argv(self, program: str, prompt: str, arguments: Sequence[str], /) -> Sequence[str]:
        """Return the launch of the script."""
        return (program, "-I", "-S", "-c", _PRELUDE + self._script, *arguments, "--", prompt)

    def plan_launch(self, request: LaunchRequest, endpoint: Endpoint | None, /) -> LaunchPlan:
        """Launch it as the demo's agent is launched."""
        return DemoAdapter().plan_launch(request, endpoint)

    def conversation(self, plan: LaunchPlan, /) -> Conversation:
        """Return the demo's conversation."""
        return DemoAdapter().conversation(plan)


class Command:
    """The command line in a process of its own, with a temporary folder of its own.

    Args:
        folder: that folder; what is left in it, the command left behind.
        arguments: the command's.
        runtime: the script of a runtime that stands in for any that is named.
        more: Python that runs in the process before.
        env: more for its environment.
        stdin: what it reads; a pipe that stays open unless told.
    """

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        runtime: str | None = None,
        more: str = "",
        env: Mapping[str, str] | None = None,
        stdin: int = subprocess.PIPE,
    ) -> None:
        outside = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", *main_of(runtime, more), *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**outside, "TMPDIR": str(folder), "PYTHONUTF8": "1", **(env or {})},
            text=True,
        )

    def until(self, part: str) -> str:
        """Read its output until a part of a line comes; return that line."""
        assert self.process.stdout is not None
        while line := read_line(self.process.stdout.fileno()):
            if part in line:
                return line
        raise AssertionError(f"{part!r} never came; stderr: {self.ends()[2]}")

    def ends(self, text: str | None = None) -> tuple[int, str, str]:
        """Wait for its end, and that of all that holds its pipes; return exit code, stdout and stderr.

        Args:
            text: given to it before its input ends; without any, its input ends after it.
        """
        held = self.process.stdin
        if text is None:
            self.process.stdin = None
        out, err = self.process.communicate(text, timeout=SECONDS)
        if held is not None:
            held.close()
        return self.process.returncode, out, err


def main_of(runtime: str | None = None, more: str = "") -> Sequence[str]:
    """Return the command line's program, and its first arguments; see `Command`."""
    if runtime is None:
        return [_MAIN.format(more=more)]
    return [_MAIN_WITH_RUNTIME.format(more=more), str(Path(__file__).parent), runtime]


def read_line(handle: int) -> str:
    """Read a line and no more: what follows is for `subprocess.Popen.communicate`; give nothing at the end."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(handle, 1)):
        line += byte
    return line.decode()


def child_of(pid: int) -> int:
    """Find a process's only child, on Linux."""
    children = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                status = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            if int(status.rpartition(")")[2].split()[1]) == pid:
                children.append(int(folder.name))
    (child,) = children
    return child


def wait_for_end(handle: int, seconds: float) -> None:
    """Wait for the end of a process, by its pidfd."""
    assert select.select([handle], [], [], seconds)[0]
    os.close(handle)


def events(output: str) -> list[dict[str, Any]]:
    """Read the events that a command printed."""
    return [json.loads(line) for line in output.splitlines()]
