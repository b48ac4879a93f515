from __future__ import annotations

import importlib
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli_runtimes import ANSWERS
from opask.cli import COMMANDS, main
from opask.errors import BridgeError, LaunchError, OpaskError, RecordingError, UnknownRuntimeError

THERE = [name for name in COMMANDS if find_spec(f"opask.cli.{name}") is not None]


def test_help_lists_the_commands_and_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    """`opask --help` names every command that is there, says what it does, and gives an example."""
    assert main(["--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name in THERE:
        assert f"{name} {COMMANDS[name]}" in shown
    assert "example: opask demo" in shown


@pytest.mark.parametrize("name", THERE)
def test_every_command_has_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`opask COMMAND --help` says what the command does and gives an example that begins with it."""
    module = importlib.import_module(f"opask.cli.{name}")
    assert COMMANDS[name] == module.HELP
    assert module.EXAMPLE.startswith(f"opask {name}")
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"usage: opask {name}" in shown
    assert f"example: {module.EXAMPLE}" in shown


def test_help_is_quick() -> None:
    """Help loads neither the libraries that a run needs nor the modules of the commands."""
    script = "import sys; from opask.cli import main; main(['--help']); print(sorted(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    loaded = set(eval(run.stdout.splitlines()[-1]))  # noqa: S307 - a list that was printed here
    assert not loaded & {"anyio", "mcp", "pydantic", "prompt_toolkit", "pluggy", "asyncio", "opask.cli.run"}


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """`opask --version` prints the name and the version."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("opask 0.")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "opask: the following arguments are required: COMMAND; see `opask --help`"),
        (["dance"], "opask: argument COMMAND: invalid choice: 'dance'"),
        (["--dance"], "opask: the following arguments are required: COMMAND"),
        (["run"], "opask run: the following arguments are required: RUNTIME; see `opask run --help`"),
        (["run", "claude"], "opask run: there is no PROMPT"),
        (["run", "claude", "--", "--model", "m"], "opask run: there is no PROMPT"),
        (
            ["run", "claude", "go", "--wait", "0"],
            "opask run: argument --wait: '0' is no number of seconds above 0",
        ),
        (["run", "claude", "go", "--wait", "nan"], "opask run: argument --wait: 'nan'"),
        (["run", "claude", "go", "--wait", "1e300"], "opask run: argument --wait: '1e300'"),
        (["run", "claude", "go", "--wait", "1e12"], "opask run: argument --wait: '1e12'"),
        (["run", "claude", "go", "--wait", "1e-9"], "opask run: argument --wait: '1e-9'"),
        (["run", "claude", "go", "more"], "opask run: unrecognized arguments: more; see `opask run --help`"),
        (
            ["run", "claude", "go", "--surface", "paper"],
            "opask run: argument --surface: invalid choice: 'paper'",
        ),
        (["run", "claude", "go", "--even"], "opask run: unrecognized arguments: --even"),
        (["run", "claude", "go", "--when-absent", "hold"], "opask run: --when-absent goes with --inbox FILE"),
        (["run", "claude", "go", "--cwd", "/nowhere"], "opask run: --cwd /nowhere: there is no such folder"),
        (["run", "abacus", "go"], "opask run: no adapter for runtime 'abacus' is installed"),
        (["demo", "--surface", "none"], "opask demo: argument --surface: invalid choice: 'none'"),
        (["demo", "--answers", "{"], "opask demo: --answers: no JSON"),
        (["demo", "--", "more"], "opask demo: unrecognized arguments: -- more"),
        (
            ["replay", "claude", "/nowhere"],
            "opask replay: /nowhere: cannot be read (No such file or directory)",
        ),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong is told on stderr in one line that begins with the command, and the exit code is 2."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(told)
    assert err.count("\n") == 1


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a function that makes a command raise something."""

    def fail(error: BaseException) -> None:
        def run(args: object) -> int:
            raise error

        command = SimpleNamespace(EXAMPLE="opask demo", configure=lambda parser: None, run=run)
        monkeypatch.setattr(importlib, "import_module", lambda name: command)

    return fail


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (LaunchError("it cannot start", runtime="r", what="w"), 2, "opask demo: it cannot start\n"),
        (RecordingError("line 3 is wrong", line=3), 2, "opask demo: line 3 is wrong\n"),
        (UnknownRuntimeError("x", ()), 2, "opask demo: no adapter for runtime 'x' is installed"),
        (BridgeError("no folder"), 1, "opask demo: no folder\n"),
        (OpaskError("two\nlines \x1b[31m"), 2, "opask demo: two lines ␛[31m\n"),
        (FileNotFoundError(2, "No such file", "here"), 1, "opask demo: No such file: here\n"),
        (FileNotFoundError(2, "No such file"), 1, "opask demo: the folder that this was started in is gone"),
        (
            KeyError("x"),
            1,
            "opask demo: an error that should not be: KeyError: 'x'; OPASK_DEBUG=1 shows where\n",
        ),
        (
            ExceptionGroup("g", [ValueError(), ExceptionGroup("h", [BridgeError("deep")])]),
            1,
            "opask demo: deep\n",
        ),
        (KeyboardInterrupt(), 130, ""),
        (BaseExceptionGroup("g", [KeyboardInterrupt()]), 130, ""),
    ],
)
def test_no_traceback_reaches_a_user(
    failing: Any, error: BaseException, code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever a command raises becomes an exit code and one line, with nothing in it that a terminal obeys."""
    failing(error)
    assert main(["demo"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(told)
    assert err.count("\n") == bool(told)


def test_whoever_looks_for_a_fault_gets_the_traceback(
    failing: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With OPASK_DEBUG set, the traceback stands before the line."""
    monkeypatch.setenv("OPASK_DEBUG", "1")
    failing(KeyError("x"))
    assert main(["demo"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["-I"], ["-I", "-u"]], ids=["buffered", "unbuffered"])
def test_a_reader_that_goes_away_is_no_error(options: list[str]) -> None:
    """A command whose output is cut off (`| head`) ends with 1 and says nothing."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    script = "import sys; from opask.cli import main; sys.exit(main(['routes', '--no-versions']))"
    run = subprocess.run(
        [sys.executable, *options, "-c", script],
        stdout=write_end,
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
    )
    os.close(write_end)
    assert (run.returncode, run.stderr) == (1, b"")


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_a_standard_stream_may_be_missing(closed: tuple[int, ...], tmp_path: Path) -> None:
    """A process that was started without one runs as if the null device were there, and fails at nothing."""
    script = f"""
import os, sys
for number in {closed}:
    os.close(number)
os.execv(sys.executable, [sys.executable, "-m", "opask_main", *sys.argv[1:]])
"""
    (tmp_path / "opask_main.py").write_text("import sys; from opask.cli import main; sys.exit(main())")
    run = subprocess.run(
        [sys.executable, "-c", script, "demo", "--answers", ANSWERS],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path)},
        timeout=120,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, b"")
    assert (b"demo is done" in run.stdout) == (1 not in closed)


def test_the_module_is_the_command() -> None:
    """``python -m opask`` is the command line."""
    done = subprocess.run(
        [sys.executable, "-m", "opask", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("opask ")
