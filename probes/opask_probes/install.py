"""Install a pinned runtime into a folder of the project's own."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

from opask.errors import OpaskError

from .runtimes import NpmPackage, Package, PyPackage, probed_runtime

__all__ = ["InstallError", "default_folder", "install", "installed"]

_TIMEOUT: Final = 600.0  # seconds; the largest runtime is over a gigabyte
_ASK_S: Final = 30.0  # how long a Python may take to tell its version, or a package's
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NPM_ERROR: Final = "npm error "
_LINES: Final = 4  # of what npm or pip says, and characters of each
_LONG: Final = 300
_PYTHONS: Final = tuple(f"python3.{minor}" for minor in range(19, 8, -1))
_Argv: TypeAlias = list[
    str | Path
]  # what starts a program; paths lie below the folder that it is installed in


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
    program = _program(runtime, place, package)
    if not _is_program(program):
        which = "" if version == probed_runtime(runtime).version else f" --version {version}"
        raise InstallError(
            f"{runtime} {version} is not installed in {place.parent}; `opask probe {runtime}{which} --install`"
        )
    return program


def install(
    runtime: str, version: str | None = None, *, folder: Path | None = None, timeout: float = _TIMEOUT
) -> Path:
    """Install a runtime with npm or pip, unless it is there, and give its program.

    The folder has either the whole runtime or nothing of it, whatever interrupts this. No script of a package
    is run, but for those that `opask_probes.runtimes` says are built. What a runtime needs to run, but for Python,
    is installed with it.

    Args:
        runtime: its name in `opask_probes.runtimes`.
        version: exactly which version; the pinned one by default.
        folder: where to install; see `default_folder`.
        timeout: how long npm or pip may take, in seconds.

    Raises:
        InstallError: there is no npm or no Python for it, or it failed, took too long, or installed something
            else.
    """
    package, version, place = _place(runtime, version, folder)
    with suppress(InstallError):
        return installed(runtime, version, folder=folder)
    fetch = _fetcher(runtime, version, package)
    place.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    try:
        starts = fetch(part, timeout)
        if starts:
            _write_launcher(part / runtime, place, starts)
        with suppress(OSError):  # another process was first, with the same
            part.rename(place)
        return installed(runtime, version, folder=folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _place(runtime: str, version: str | None, folder: Path | None) -> tuple[Package, str, Path]:
    known = probed_runtime(runtime)
    version = version or known.version
    folder = (folder or default_folder()).absolute()
    return known.package_of(version), version, folder / f"{runtime}-{version}"


def _fetcher(runtime: str, version: str, package: Package) -> Callable[[Path, float], _Argv]:
    """Give what installs a package into a folder, within so many seconds, and tells what starts it."""
    if isinstance(package, PyPackage):
        python = _python(runtime, version, package)
        return lambda folder, timeout: _from_pypi(python, package, version, folder, timeout)
    npm = shutil.which("npm")
    if npm is None:
        raise InstallError(
            f"{runtime} {version} comes from the npm registry and there is no npm on PATH: install Node.js with npm, "
            "or name an executable of your own with --bin"
        )
    return lambda folder, timeout: _from_npm(npm, package, version, folder, timeout)


def _program(runtime: str, place: Path, package: Package) -> Path:
    if isinstance(package, NpmPackage) and package.runner is None:
        return place / "node_modules" / package.name / package.program
    return place / runtime


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


# -- npm -------------------------------------------------------------------------------------------------------------


def _from_npm(npm: str, package: NpmPackage, version: str, folder: Path, timeout: float) -> _Argv:
    """Install a package and its runner; give what starts the program, nothing where it starts by itself."""
    runner = package.runner
    wanted = [f"{package.name}@{version}"]
    wanted += [f"{runner.name}@{runner.version}"] if runner else []
    options = ["--ignore-scripts", "--no-save", "--no-package-lock", "--no-audit", "--no-fund"]
    quiet = ["--no-update-notifier", "--loglevel=error"]
    command = ["install", *wanted, "--prefix", str(folder), *options, *quiet]
    _run([npm, *command], f"npm install {' '.join(wanted)}", folder, timeout)
    modules = Path("node_modules")
    _check_manifest(folder / modules / package.name, package.name, version)
    program = modules / package.name / package.program
    if runner is None:
        _check_program(folder / program, f"{package.name} {version}", package.program)
        return []
    _check_manifest(folder / modules / runner.name, runner.name, runner.version)
    starter = modules / runner.name / runner.program
    _check_program(folder / starter, f"{runner.name} {runner.version}", runner.program)
    if not (folder / program).is_file():
        raise InstallError(f"{package.name} {version} has no program {package.program}")
    return [starter, program]


def _check_manifest(folder: Path, name: str, version: str) -> None:
    try:
        found = json.loads((folder / "package.json").read_text(encoding="utf-8")).get("version")
    except (OSError, ValueError) as error:
        raise InstallError(f"npm did not install {name}: {error}") from error
    if found != version:
        raise InstallError(f"npm installed {name} {found}, and {version} was asked for")


def _check_program(path: Path, of: str, name: str) -> None:
    if not _is_program(path):
        raise InstallError(f"{of} has no program {name} for {sys.platform}")


# -- pip -------------------------------------------------------------------------------------------------------------


def _from_pypi(python: str, package: PyPackage, version: str, folder: Path, timeout: float) -> _Argv:
    """Install a package into an environment of its own; give what starts it."""
    environment = Path("environment")
    own = environment / "bin" / "python"
    _run([python, "-m", "venv", str(folder / environment)], f"{python} -m venv", folder, timeout)
    wanted = f"{package.name}=={version}"
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check"]
    source = ["--only-binary=:all:", *(f"--no-binary={name}" for name in package.built)]
    pip = [str(folder / own), "-I", "-m", "pip", "install", *quiet, *source, wanted]
    _run(pip, f"pip install {wanted}", folder, timeout)
    ask = f"from importlib.metadata import version; print(version({package.name!r}))"
    found = _ask([str(folder / own), "-I", "-c", ask])
    if found != version:
        raise InstallError(f"pip installed {package.name} {found}, and {version} was asked for")
    # Not the environment's own script: that names the folder that it was made in.
    return [own, "-I", "-m", package.module]


def _python(runtime: str, version: str, package: PyPackage) -> str:
    for candidate in _pythons():
        found = _ask([candidate, "-I", "-S", "-c", "import sys; print(*sys.version_info[:2])"])
        if found is not None and tuple(map(int, found.split())) >= package.python:
            return candidate
    oldest = ".".join(map(str, package.python))
    raise InstallError(
        f"{runtime} {version} needs Python {oldest} or newer and none was found on PATH or below pyenv: "
        "install one, or name an executable of your own with --bin"
    )


def _pythons() -> Iterator[str]:
    """Give what may be a Python: this one, those on PATH, those that pyenv keeps."""
    yield sys.executable
    yield from filter(None, map(shutil.which, _PYTHONS))
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(root.glob("versions/*/bin/python3")))


def _ask(argv: Sequence[str]) -> str | None:
    """Give what a program says, None where it fails: a pyenv shim of a version that is not selected does."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_ASK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


# -- both ------------------------------------------------------------------------------------------------------------


def _write_launcher(path: Path, place: Path, starts: _Argv) -> None:
    argv = [str(place / one) if isinstance(one, Path) else one for one in starts]
    path.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


def _run(argv: Sequence[str], what: str, folder: Path, timeout: float) -> None:
    process: subprocess.Popen[str] | None = None
    try:
        with _signals_later():  # what is begun has to be known here before it can be ended
            process = subprocess.Popen(
                argv,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        output, _ = process.communicate(timeout=timeout)
    except BaseException as error:
        if process is not None:
            # It starts processes of its own; they are of its process group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with process:
                pass
        if isinstance(error, subprocess.TimeoutExpired):
            raise InstallError(f"{what} took longer than {timeout:g} s") from None
        raise
    if process.returncode:
        raise InstallError(f"{what} failed with exit code {process.returncode}: {_gist(output)}")


@contextmanager
def _signals_later() -> Iterator[None]:
    """Run Python's own handlers of signals that come in the block behind it; handlers may raise."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    numbers = [number for number in _SIGNALS if callable(signal.getsignal(number))]
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for caught in came:
        signal.raise_signal(caught)


def _gist(output: str) -> str:
    """Give the lines that say why: npm's first ones, above where in npm it was, and pip's last ones."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    npm = [line.removeprefix(_NPM_ERROR) for line in lines if line.startswith(_NPM_ERROR)]
    return "; ".join(line[:_LONG] for line in (npm[:_LINES] if npm else lines[-_LINES:])) or "it said nothing"
