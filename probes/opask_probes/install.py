"""Install a pinned runtime into a folder of the project's own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from opask.errors import OpaskError

from .runtimes import NpmPackage, probed_runtime

__all__ = ["InstallError", "default_folder", "install", "installed"]

_TIMEOUT: Final = 600.0  # seconds; the largest package is over a hundred megabytes


class InstallError(OpaskError):
    """A runtime could not be installed."""


def default_folder() -> Path:
    """Give the folder that runtimes are installed into.

    It is the one that the variable ``OPASK_RUNTIMES`` names; else ``.cache/runtimes`` in the checkout that this
    module lies in; else ``opask/runtimes`` in the user's cache.
    """
    if named := os.environ.get("OPASK_RUNTIMES"):
        return Path(named).absolute()
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file() and (checkout / "registry.toml").is_file():
        return checkout / ".cache" / "runtimes"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "opask" / "runtimes"


def installed(runtime: str, version: str | None = None, *, folder: Path | None = None) -> Path:
    """Give the program of a runtime that was installed before.

    Args:
        runtime: its name in `opask_probes.runtimes`.
        version: which version; the pinned one by default.
        folder: where to look; see `default_folder`.

    Raises:
        InstallError: it is not there.
    """
    package, version, place = _place(runtime, version, folder)
    program = _program(place, package)
    if not _is_program(program):
        raise InstallError(
            f"{runtime} {version} is not installed in {place.parent}; `opask probe {runtime} --install`"
        )
    return program


def install(
    runtime: str, version: str | None = None, *, folder: Path | None = None, timeout: float = _TIMEOUT
) -> Path:
    """Install a runtime with npm, unless it is there, and give its program.

    The folder has either the whole runtime or nothing of it, whatever interrupts this. No script of a package
    is run.

    Args:
        runtime: its name in `opask_probes.runtimes`.
        version: exactly which version; the pinned one by default.
        folder: where to install; see `default_folder`.
        timeout: how long npm may take, in seconds.

    Raises:
        InstallError: there is no npm, or it failed, took too long, or installed something else.
    """
    package, version, place = _place(runtime, version, folder)
    with suppress(InstallError):
        return installed(runtime, version, folder=folder)
    npm = shutil.which("npm")
    if npm is None:
        raise InstallError(
            f"{runtime} {version} comes from the npm registry and there is no npm on PATH: install Node.js with npm, "
            f"or name an executable of your own with --bin"
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    try:
        _npm(npm, ["install", f"{package.name}@{version}"], part, timeout)
        _check(part, package, version)
        with suppress(OSError):  # another process was first, with the same
            part.rename(place)
        return installed(runtime, version, folder=folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _place(runtime: str, version: str | None, folder: Path | None) -> tuple[NpmPackage, str, Path]:
    known = probed_runtime(runtime)
    version = version or known.version
    return known.package(), version, (folder or default_folder()) / f"{runtime}-{version}"


def _program(place: Path, package: NpmPackage) -> Path:
    return place / "node_modules" / package.name / package.program


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _npm(npm: str, command: Sequence[str], folder: Path, timeout: float) -> None:
    options = [
        "--prefix",
        str(folder),
        "--ignore-scripts",
        "--no-save",
        "--no-package-lock",
        "--no-audit",
        "--no-fund",
    ]
    argv = [npm, *command, *options, "--no-update-notifier", "--loglevel=error"]
    with subprocess.Popen(
        argv,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except BaseException as error:
            # npm starts processes of its own; they are of its process group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise InstallError(f"npm {' '.join(command)} took longer than {timeout:g} s") from None
            raise
    if process.returncode:
        last = "\n".join(output.strip().splitlines()[-15:])
        raise InstallError(f"npm {' '.join(command)} failed with exit code {process.returncode}:\n{last}")


def _check(folder: Path, package: NpmPackage, version: str) -> None:
    manifest = folder / "node_modules" / package.name / "package.json"
    try:
        found = json.loads(manifest.read_text(encoding="utf-8")).get("version")
    except (OSError, ValueError) as error:
        raise InstallError(f"npm did not install {package.name}: {error}") from error
    if found != version:
        raise InstallError(f"npm installed {package.name} {found}, and {version} was asked for")
    program = _program(folder, package)
    if not _is_program(program):
        raise InstallError(f"{package.name} {version} has no program {package.program} for {sys.platform}")
