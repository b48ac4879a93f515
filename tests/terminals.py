"""A real terminal for tests: what a program shows there, and what stays."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from pathlib import Path
from typing import Final

__all__ = ["WITHIN", "Terminal"]

WITHIN: Final = 40.0  # seconds that something may take to show


class Terminal:
    """A terminal with a program in it, driven through tmux on a socket of its own.

    Args:
        folder: for its socket and settings.
        program: what runs in it, before its arguments.
    """

    def __init__(self, folder: Path, *program: str) -> None:
        self._program = program
        self._socket = folder / "tmux"
        self._settings = folder / "tmux.conf"
        self._settings.write_text("set -g remain-on-exit on\nset -g history-limit 20000\nset -g status off\n")

    def run(self, *arguments: str, columns: int = 80, rows: int = 24, **environment: str) -> None:
        """Start the program with these arguments."""
        command = [
            "env",
            *(f"{name}={value}" for name, value in environment.items()),
            *self._program,
        ]
        self._tmux(
            "-f", str(self._settings), "new-session", "-d", "-x", str(columns), "-y", str(rows),
            shlex.join([*command, *arguments]),
        )  # fmt: skip

    def keys(self, *keys: str) -> None:
        """Press keys, by tmux's names or as letters."""
        self._tmux("send-keys", *keys)

    def resize(self, columns: int, rows: int) -> None:
        """Change the terminal's size."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def pid(self) -> int:
        """Return the id of the program's process."""
        pid = self._shell()
        while children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            pid = children[0]
        return int(pid)

    def screen(self) -> str:
        """Return what is on the screen."""
        return self._tmux("capture-pane", "-p")

    def everything(self) -> list[str]:
        """Return all lines, those that scrolled away first; lines that the terminal wrapped are whole."""
        return [
            line.rstrip() for line in self._tmux("capture-pane", "-p", "-J", "-S", "-").rstrip().split("\n")
        ]

    def until(self, pattern: str, *, without: str | None = None) -> re.Match[str]:
        """Wait until the screen shows a pattern, and not another."""
        end = time.monotonic() + WITHIN
        while True:
            screen = self.screen()
            found = re.search(pattern, screen, re.MULTILINE)
            if found and not (without and re.search(without, screen, re.MULTILINE)):
                return found
            assert time.monotonic() < end, f"no {pattern!r} without {without!r} in\n{screen}"
            time.sleep(0.02)
            if self._ended():
                self._tmux("run-shell", "true")  # tmux misses a child's end at times, until another one ends

    def close(self) -> None:
        """End the terminal and what runs in it."""
        subprocess.run(["tmux", "-S", str(self._socket), "kill-server"], capture_output=True, check=False)

    def _shell(self) -> str:
        """Return the id of the shell that tmux starts the program by."""
        return self._tmux("display-message", "-p", "#{pane_pid}").strip()

    def _ended(self) -> bool:
        """Tell whether the program is over and tmux has not noticed it yet."""
        try:
            stat = Path(f"/proc/{self._shell()}/stat").read_text()
        except FileNotFoundError:
            return False
        return stat.rpartition(") ")[2].startswith("Z")

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=WITHIN,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "SHELL": "/bin/sh"},
        )
        return done.stdout
