"""Keep a runtime under probe away from the machine: a fresh home, a bare environment, no network."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from attrs import frozen

from . import loopback

__all__ = [
    "Isolation",
    "Namespace",
    "NoNamespace",
    "Sandbox",
    "fresh_sandbox",
    "is_loopback_only",
    "loopback_namespace",
]

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@frozen
class Sandbox:
    """A folder that a runtime has for itself.

    Args:
        root: the folder; gone when the sandbox closes.
        home: its HOME.
        tmp: its TMPDIR.
        work: the folder to run it in, empty.
    """

    root: Path
    home: Path
    tmp: Path
    work: Path

    def environment(self, *more: Mapping[str, str], path: str = _PATH) -> dict[str, str]:
        """Give a whole environment: nothing of this process's own, and what is added, later before earlier.

        Args:
            more: what the runtime needs besides.
            path: its PATH.
        """
        environment = {
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PATH": path,
            "TMPDIR": str(self.tmp),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_DATA_HOME": str(self.home / ".local" / "share"),
            "XDG_RUNTIME_DIR": str(self.tmp),
            "XDG_STATE_HOME": str(self.home / ".local" / "state"),
        }
        for variables in more:
            environment.update(variables)
        return environment


@contextmanager
def fresh_sandbox(parent: Path | None = None) -> Iterator[Sandbox]:
    """Make a sandbox for the length of a block.

    Args:
        parent: where; the system's folder for temporary files by default. Keep it short: runtimes put unix
            sockets below TMPDIR, and the path of one has 104 bytes at most.
    """
    with tempfile.TemporaryDirectory(prefix="opask-", dir=parent, ignore_cleanup_errors=True) as folder:
        root = Path(folder).resolve()
        sandbox = Sandbox(root, root / "home", root / "tmp", root / "work")
        for place in (sandbox.home, sandbox.tmp, sandbox.work):
            place.mkdir(mode=0o700)
        yield sandbox


@frozen
class Namespace:
    """A network namespace with nothing but loopback can be had.

    Args:
        prefix: what to put before a command so that it runs in a namespace of its own, in the same process.
    """

    prefix: tuple[str, ...]

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """Give the command that runs another in a namespace of its own."""
        return [*self.prefix, *argv]

    @staticmethod
    def enter(pid: int) -> tuple[str, ...]:
        """Give what to put before a command so that it runs, in the same process, in that of another process.

        Args:
            pid: of a process that was started by a command that `wrap` gave.
        """
        return ("nsenter", f"--target={pid}", "--user", "--net", "--preserve-credentials", "--")


@frozen
class NoNamespace:
    """No network namespace can be had here.

    Args:
        reason: what the system said.
    """

    reason: str


Isolation: TypeAlias = Namespace | NoNamespace


def loopback_namespace(timeout: float = 30.0) -> Isolation:
    """Find out whether this system gives a network namespace with nothing but loopback, by making one.

    The runtime and its scripted model must be in the same namespace: wrap the program that starts both.

    Args:
        timeout: how long the attempt may take, in seconds.
    """
    if sys.platform != "linux":
        return NoNamespace(f"network namespaces are Linux's, and this is {sys.platform}")
    python = sys.executable
    prefix = ("unshare", "--map-root-user", "--net", "--", python, "-I", "-S", str(Path(loopback.__file__)))
    check = (python, "-I", "-S", "-c", "print(open('/proc/self/net/dev').read())")
    try:
        done = subprocess.run(
            [*prefix, *check],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError:
        return NoNamespace("the program unshare is not there; it comes with util-linux")
    except subprocess.TimeoutExpired:
        return NoNamespace(f"unshare did not answer within {timeout:g} s")
    except OSError as error:
        return NoNamespace(f"unshare cannot be run: {error}")
    if done.returncode:
        return NoNamespace(done.stderr.strip() or f"unshare ended with exit code {done.returncode}")
    if others := loopback.interfaces(done.stdout) - {"lo"}:
        return NoNamespace(f"the namespace has more than loopback: {', '.join(sorted(others))}")
    return Namespace(prefix)


def is_loopback_only() -> bool:
    """Tell whether this process itself is where nothing but loopback is to be had."""
    table = Path("/proc/self/net/dev")
    return table.is_file() and loopback.interfaces(table.read_text(encoding="ascii")) == {"lo"}
