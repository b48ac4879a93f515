"""An adapter that is somebody else's package: installed, found by its runtime's name, held to the contract, and run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PACKAGE = HERE / "third_party"
ASK = {"questions": [{"question": "Which database?", "options": ["PostgreSQL", "SQLite"]}]}
SECONDS = 120

pytestmark = pytest.mark.timeout(200)


def run(*command: str | Path, code: int = 0, cwd: Path, path: str = os.environ["PATH"]) -> str:
    """Run a command that has to exit with a code, with nothing from outside; give what it printed."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={"PATH": path, "HOME": str(cwd), "PIP_CONFIG_FILE": os.devnull},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a copy of the package, so that nothing is built in the tree."""
    folder = tmp_path_factory.mktemp("third-party") / "opask-parrot"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    return folder


@pytest.fixture(scope="module")
def python(folder: Path) -> Path:
    """Give the Python of a fresh environment: this project and what it needs are there, and the package is installed."""
    where = folder.parent / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", where, cwd=folder)
    python = where / "bin" / "python"
    (site,) = where.glob("lib/python*/site-packages")
    ours = sysconfig.get_path("purelib")
    (site / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n", encoding="utf-8")
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *offline, folder, cwd=folder)
    assert (site / "opask_parrot" / "py.typed").is_file()
    return python


def test_it_is_found_by_the_name_of_its_runtime(python: Path, folder: Path) -> None:
    """`opask.adapter` gives it, beside ours; where it is not installed there is no such runtime."""
    script = (
        "import opask; from opask.adapters import installed_runtimes; found = opask.adapter('parrot'); "
        "print(found.runtime, type(found).__module__, {'claude', 'parrot'} <= set(installed_runtimes()))"
    )
    assert run(python, "-I", "-c", script, cwd=folder).split() == ["parrot", "opask_parrot", "True"]
    told = run(sys.executable, "-I", "-c", "import opask; opask.adapter('parrot')", cwd=folder, code=1)
    assert "UnknownRuntimeError" in told


def test_it_keeps_the_contract(python: Path, folder: Path) -> None:
    """The package's own tests, the conformance suite in one line, pass where it is installed."""
    told = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_parrot.py", cwd=folder)
    assert " passed" in told
    assert "failed" not in told


def test_its_agent_asks(python: Path, folder: Path) -> None:
    """`opask run` starts its program by its name and answers what it asks; its route is one that nobody has seen."""
    parrot = folder / "bin" / "parrot"
    parrot.parent.mkdir()
    parrot.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" "{HERE / "acp_agent.py"}" "$@"\n', encoding="utf-8"
    )
    parrot.chmod(0o755)
    main = "from opask.cli import main; raise SystemExit(main())"
    options = ("--answers", json.dumps({"Which database?": "SQLite"}))
    command = (python, "-I", "-c", main, "run", "parrot", "Set it up.", *options)
    path = f"{parrot.parent}:{os.environ['PATH']}"
    act = json.dumps({"ask": ASK, "permission": True})
    told = run(*command, "--allow-unverified", "--", act, cwd=folder, path=path)
    assert r"{\"answers\": {\"Which database?\": \"SQLite\"}}" in told
    assert "not known" not in told
    assert "--allow-unverified" in run(*command, "--", act, cwd=folder, code=2, path=path)
