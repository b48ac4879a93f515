"""Installing a pinned runtime, with an npm that is made up."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from opask.errors import OpaskError
from opask_probes import install as module
from opask_probes.install import InstallError, default_folder, install, installed
from opask_probes.runtimes import RUNTIMES, UnknownPlatformError

CLAUDE = RUNTIMES["claude"]
PACKAGE = CLAUDE.package()

# Does what npm does with `install PACKAGE@VERSION --prefix FOLDER`, and notes how it was called.
NPM = f"""#!{sys.executable}
import json, os, pathlib, sys
notes = pathlib.Path(os.environ["NPM_NOTES"])
name, _, version = sys.argv[2].rpartition("@")
prefix = pathlib.Path(sys.argv[sys.argv.index("--prefix") + 1])
with notes.open("a") as file:
    print(json.dumps(sys.argv[1:]), file=file)
mode = os.environ.get("NPM_MODE")
if mode == "fail":
    print("npm error code ETARGET")
    sys.exit(1)
package = prefix / "node_modules" / name
package.mkdir(parents=True)
(package / "claude").write_text("#!/bin/sh\\n")
if mode == "hang":
    os.system(f"sleep 60 > {{os.environ['NPM_FIFO']}}")
if mode == "nothing":
    sys.exit(0)
(package / "package.json").write_text(json.dumps({{"version": "1.0.0" if mode == "older" else version}}))
if mode != "no program":
    (package / "claude").chmod(0o755)
if mode == "second":
    os.environ["NPM_MODE"] = ""
    place = pathlib.Path(os.environ["NPM_PLACE"])
    os.system(f"cp -r {{prefix}} {{place}}")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give an empty folder for runtimes, with the made-up npm on PATH."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    npm = bin_folder / "npm"
    npm.write_text(NPM)
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}:/usr/bin:/bin")
    monkeypatch.setenv("NPM_NOTES", str(tmp_path / "notes"))
    return tmp_path / "runtimes"


def calls(folder: Path) -> list[list[str]]:
    """Give the arguments of each call of npm."""
    notes = folder.parent / "notes"
    return [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []


def test_the_pinned_version_is_installed_once(folder: Path) -> None:
    """Npm is asked for the exact version, without scripts, and not again when the runtime is there."""
    with pytest.raises(
        InstallError, match=r"claude 2\.1\.332 is not installed in .*opask probe claude --install"
    ):
        installed("claude", folder=folder)
    program = install("claude", folder=folder)
    assert program == folder / "claude-2.1.332" / "node_modules" / PACKAGE.name / "claude"
    assert os.access(program, os.X_OK)
    assert install("claude", folder=folder) == installed("claude", folder=folder) == program
    (call,) = calls(folder)
    assert call[:2] == ["install", f"{PACKAGE.name}@2.1.332"]
    assert "--ignore-scripts" in call
    assert [path.name for path in folder.iterdir()] == ["claude-2.1.332"]


def test_another_version_has_a_place_of_its_own(folder: Path) -> None:
    """A version that is asked for is installed beside the pinned one."""
    assert install("claude", "2.1.197", folder=folder) != install("claude", folder=folder)
    assert sorted(path.name for path in folder.iterdir()) == ["claude-2.1.197", "claude-2.1.332"]


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("fail", "failed with exit code 1:\nnpm error code ETARGET"),
        ("nothing", f"npm did not install {PACKAGE.name}"),
        ("older", f"npm installed {PACKAGE.name} 1.0.0, and 2.1.332 was asked for"),
        ("no program", "has no program claude"),
    ],
)
def test_a_failed_install_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str, reason: str
) -> None:
    """Whatever npm got wrong is named, and no half of a runtime is left to be taken for a whole."""
    monkeypatch.setenv("NPM_MODE", mode)
    with pytest.raises(InstallError) as raised:
        install("claude", folder=folder)
    assert reason in str(raised.value)
    assert list(folder.iterdir()) == []


def test_an_install_that_takes_too_long_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time that it has, npm is killed with what it started, and nothing of it is left."""
    fifo = folder.parent / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    monkeypatch.setenv("NPM_MODE", "hang")
    monkeypatch.setenv("NPM_FIFO", str(fifo))
    with pytest.raises(InstallError, match=r"npm install .* took longer than 1\.5 s"):
        install("claude", folder=folder, timeout=1.5)
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""  # the end of what npm's own child held open: it is gone
    os.close(reader)
    assert list(folder.iterdir()) == []


def test_two_installs_at_once_give_one_runtime(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes second takes what is there, and leaves nothing of its own."""
    monkeypatch.setenv("NPM_MODE", "second")
    monkeypatch.setenv("NPM_PLACE", str(folder / "claude-2.1.332"))
    assert install("claude", folder=folder) == installed("claude", folder=folder)
    assert [path.name for path in folder.iterdir()] == ["claude-2.1.332"]


def test_without_npm_the_error_says_what_to_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without npm is told what is missing and what else would do, and nothing is made."""
    monkeypatch.setenv("PATH", str(folder.parent))
    with pytest.raises(InstallError, match=r"no npm on PATH: install Node\.js with npm, .*--bin"):
        install("claude", folder=folder)
    assert not folder.exists()


def test_a_runtime_that_is_not_probed_is_refused(folder: Path) -> None:
    """An unknown name is an error that lists the known ones."""
    with pytest.raises(OpaskError, match="no probe for runtime 'clade'; there is one for: claude"):
        install("clade", folder=folder)


def test_the_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what OPASK_RUNTIMES names, else in the checkout, else in the user's cache."""
    checkout = Path(__file__).resolve().parents[2]
    assert default_folder() == checkout / ".cache" / "runtimes"
    monkeypatch.setattr(
        module, "__file__", str(tmp_path / "lib" / "site-packages" / "opask_probes" / "install.py")
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert default_folder() == tmp_path / "cache" / "opask" / "runtimes"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / ".cache" / "opask" / "runtimes"
    monkeypatch.setenv("OPASK_RUNTIMES", str(tmp_path / "named"))
    assert default_folder() == tmp_path / "named"


@pytest.mark.parametrize(
    ("system", "machine", "package"),
    [
        ("linux", "x86_64", "linux-x64"),
        ("linux", "aarch64", "linux-arm64"),
        ("darwin", "arm64", "darwin-arm64"),
        ("darwin", "x86_64", "darwin-x64"),
    ],
)
def test_the_package_is_that_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str, package: str
) -> None:
    """Each machine gets the package with the binary that runs on it."""
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("pathlib.Path.glob", lambda *_: iter(()))
    assert CLAUDE.package().name == f"@anthropic-ai/claude-code-{package}"
    monkeypatch.setattr("pathlib.Path.glob", lambda *_: iter([Path("/lib/ld-musl-x.so.1")]))
    musl = "-musl" if system == "linux" else ""
    assert CLAUDE.package().name == f"@anthropic-ai/claude-code-{package}{musl}"


@pytest.mark.parametrize(("system", "machine"), [("linux", "riscv64"), ("freebsd14", "amd64")])
def test_a_machine_without_a_package_is_told(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str
) -> None:
    """A machine that claude is not published for is named."""
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    with pytest.raises(UnknownPlatformError, match=f"for {system} on {machine}"):
        CLAUDE.package()
