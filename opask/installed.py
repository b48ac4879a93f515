"""Which runtimes are installed here, and at which version: ask each program on the PATH for its version.

Only a registry's version command is ever run, which is a plain name and one version argument; a program that is
not on the PATH is not looked for. Each run is bounded in time and output, has no standard input, none of the
caller's secrets and an empty folder to stand in.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from opask.versions import find_version

if TYPE_CHECKING:
    from opask.registry_schema import RuntimeRow

__all__ = ["installed_version", "installed_versions", "told_version"]

_TIMEOUT = 10.0  # seconds; a cold start of a runtime on node or bun takes three
_MOST = 64 * 1024  # bytes of output that are looked at
# What a program, or the version manager that it is a shim of, needs to find itself; nothing that may be a secret.
_KEPT = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LC_\w+|TMPDIR|TEMP|TMP|SHELL|XDG_\w+_(?:HOME|DIR|DIRS)|SYSTEMROOT|USERPROFILE|"
    r"APPDATA|LOCALAPPDATA|PATHEXT|COMSPEC|(?:NVM|FNM|ASDF|MISE|VOLTA|PYENV|BUN|N|NODENV|PNPM|UV|PIPX)_(?:\w*_)?"
    r"(?:HOME|DIR|ROOT|INSTALL|PREFIX|VERSION|PATH)",
    re.ASCII,
)


def installed_versions(
    runtimes: Mapping[str, RuntimeRow], *, timeout: float = _TIMEOUT, env: Mapping[str, str] | None = None
) -> dict[str, str | None]:
    """Ask every runtime that is installed here for its version.

    Args:
        runtimes: the registry's rows by id.
        timeout: seconds that each may take; they run side by side.
        env: the environment to look in; the process's own by default.

    Returns:
        The version by runtime id, None for one that is there and does not say it in time; a runtime that is
        not there is left out.
    """
    env = os.environ if env is None else env
    there = {id_: row for id_, row in runtimes.items() if _program(row, env) is not None}
    if not there:
        return {}
    with ThreadPoolExecutor(max_workers=min(len(there), 4)) as pool:
        said = dict(zip(there, pool.map(lambda row: _ask(row, timeout, env), there.values()), strict=True))
    return {id_: version for id_, (version, other) in said.items() if not other}


def installed_version(
    row: RuntimeRow, *, timeout: float = _TIMEOUT, env: Mapping[str, str] | None = None
) -> str | None:
    """Ask one runtime for its version; None where it is not installed here or does not say it.

    Args:
        row: the registry's row.
        timeout: seconds that it may take.
        env: the environment to look in; the process's own by default.
    """
    return installed_versions({"": row}, timeout=timeout, env=env).get("")


def told_version(
    argv: Sequence[str], *, timeout: float = _TIMEOUT, env: Mapping[str, str] | None = None
) -> str | None:
    """Ask a program for its version; None where it is not there or does not say it.

    Args:
        argv: the program, as a path or a name on the PATH, and what makes it tell its version.
        timeout: seconds that it may take.
        env: the environment to look in; the process's own by default.
    """
    env = os.environ if env is None else env
    program = shutil.which(argv[0], path=env.get("PATH", os.defpath))
    if program is None:
        return None
    output = _run([str(Path(program).absolute()), *argv[1:]], timeout, env)
    return find_version(output) if output is not None else None


def _program(row: RuntimeRow, env: Mapping[str, str]) -> str | None:
    if row.version_command is None:
        return None
    return shutil.which(row.version_command[0], path=env.get("PATH", os.defpath))


def _ask(row: RuntimeRow, timeout: float, env: Mapping[str, str]) -> tuple[str | None, bool]:
    """Give the version that a program says, and whether the program is another product of the same name."""
    program, command = _program(row, env), row.version_command
    if program is None or command is None:
        return None, False
    output = _run([program, *command[1:]], timeout, env)
    if output is None:
        return None, False
    if row.version_pattern is None:
        return find_version(output), False
    found = re.search(row.version_pattern, output[:4096], re.MULTILINE)
    return (found.group(1), False) if found else (None, find_version(output) is not None)


def _run(argv: Sequence[str], timeout: float, env: Mapping[str, str]) -> str | None:
    """Run a program to its end; give what it printed, None where it failed, said too much or took too long."""
    kept = {name: value for name, value in env.items() if _KEPT.fullmatch(name.upper())}
    kept |= {"TERM": "dumb", "NO_COLOR": "1", "CI": "1"}
    deadline = time.monotonic() + timeout
    with tempfile.TemporaryDirectory(prefix="opask-") as folder:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=kept,
                start_new_session=True,
            )
        except OSError:
            return None
        with process:
            assert process.stdout is not None  # it was started with a pipe
            output = _read(process.stdout.fileno(), deadline)
            try:
                code = process.wait(max(deadline - time.monotonic(), 0)) if output is not None else None
            except subprocess.TimeoutExpired:
                code = None
            if process.returncode is None:
                # Not waited for yet, so that the number still means this group.
                os.killpg(process.pid, signal.SIGKILL)
    return output.decode(errors="replace") if output is not None and code == 0 else None


def _read(pipe: int, deadline: float) -> bytes | None:
    """Read what a program prints until it closes its output; None where that takes too long or is too much."""
    output = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(output) <= _MOST and selector.select(max(deadline - time.monotonic(), 0)):
            piece = os.read(pipe, _MOST)
            if not piece:
                return output
            output += piece
    return None
