"""``opask probe``: what it prints, its exit codes, and that it ends cleanly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fake_claude import fake_claude_at

OPASK = Path(sys.executable).with_name("opask")


def probe(*arguments: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Run the command to its end; give exit code, stdout and stderr."""
    done = subprocess.run(
        [str(OPASK), "probe", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, **(env or {})},
        timeout=150,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_what_held_is_printed(tmp_path: Path) -> None:
    """Each claim has its line with the verdict, and the end says what was probed, how, and what the registry says."""
    program = fake_claude_at(tmp_path)
    code, out, err = probe("claude", f"--bin={program}", "--claim=single", "--claim=long-wait")
    assert (code, err) == (0, "")
    first, last, reason, blank, *rest = out.splitlines()
    assert first.startswith("held ")
    assert " s  single       A question with one choice is answered" in first
    assert last.startswith("not applicable ")
    assert reason.strip() == "it takes minutes and was not asked for; --long tries it"
    assert blank == ""
    assert rest[0].startswith("claude 2.1.332 by mcp-stdio on ")
    assert rest[0].endswith(": 1 held, 1 not applicable")
    assert rest[1].startswith("network: ")
    assert rest[2].startswith("registry: Claude Code 2.1.332: route mcp-stdio verified at 2.1.332")


def test_a_claim_of_a_verified_row_that_does_not_hold(tmp_path: Path) -> None:
    """It is printed with its reasons, and the exit code is 1."""
    program = fake_claude_at(tmp_path, "dies")
    code, out, err = probe("claude", f"--bin={program}", "--claim=multi")
    assert (code, err) == (1, "")
    first, *reasons = out.splitlines()
    assert first.startswith("not held ")
    assert "the runtime ended with no end of its turn, exit code 3" in [line.strip() for line in reasons]


def test_what_another_version_does_otherwise_is_printed(tmp_path: Path) -> None:
    """Against the verified version each claim that changed has its line, and the others are counted."""
    program = fake_claude_at(tmp_path, "dies")
    program.write_text(program.read_text("utf-8").replace("2.1.332", "2.1.300"), encoding="utf-8")
    code, out, err = probe("claude", f"--bin={program}", "--claim=multi", "--claim=single")
    assert (code, err) == (1, "")
    assert out.splitlines()[-3:] == [
        "against 2.1.332: 0 claims as there, 2 otherwise",
        "  single: held there, not held here",
        "  multi: held there, not held here",
    ]


def test_a_report_for_programs(tmp_path: Path) -> None:
    """With --json one object is printed, at the end, and nothing else."""
    code, out, err = probe("claude", f"--bin={fake_claude_at(tmp_path)}", "--claim=bypass", "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    (claim,) = report.pop("claims")
    assert (claim["claim"], claim["verdict"], claim["reasons"]) == ("bypass", "held", [])
    assert (report["runtime"], report["route"], report["version"]) == ("claude", "mcp-stdio", "2.1.332")
    assert (report["status"], report["drift"], report["recording"]) == ("verified", "same", None)
    assert report["registry_changed"] is False
    assert set(report) >= {"platform", "isolation", "seen_version", "date"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("emacs",), "opask probe: there is no probe for emacs; there is one for "),
        (
            ("claude", "--route=telegraph"),
            "opask probe: there is no probe for claude by telegraph; there is one for ",
        ),
        (("claude", "--claim=moon"), "opask probe: there is no claim 'moon'; there is single, multi, "),
        (("claude", "--bin=/nowhere/claude"), "opask probe: --bin /nowhere/claude: there is no such program"),
        (("claude", "--record", "--claim=single"), "opask probe: a recording stands for all claims"),
        (
            ("claude", "--live-model", "--long"),
            "opask probe: --long is about the scripted model: leave it out",
        ),
        (
            ("claude", "--live-model", "--bin=/nowhere"),
            "opask probe: --bin /nowhere: there is no such program",
        ),
        (("claude",), "opask probe: claude 2.1.332 is not installed in "),
        (("claude", "--version=2.1.63"), "opask probe: claude 2.1.63 is not installed in "),
        (("claude", "--version=latest"), "opask probe: --version 'latest' is no version; name it exactly"),
        (
            ("claude", "--version=2.1.63", "--bin=claude"),
            "opask probe: a program has the version that it has",
        ),
        ((), "opask probe: the following arguments are required: RUNTIME"),
    ],
)
def test_what_cannot_be_probed(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    """A runtime, route, claim or program that is not there is named in one line, with exit code 2."""
    code, out, err = probe(*arguments, env={"OPASK_RUNTIMES": str(tmp_path)})
    assert (code, out) == (2, "")
    assert err.startswith(message)
    assert err.count("\n") == 1


def test_help_has_an_example() -> None:
    """--help names the options and an example."""
    code, out, _ = probe("--help")
    assert code == 0
    for word in (
        "--route",
        "--bin",
        "--install",
        "--record",
        "--long",
        "--live-model",
        "--json",
        "opask probe claude --install",
    ):
        assert word in out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(number: signal.Signals, tmp_path: Path) -> None:
    """A signal ends what is under way: no process and no folder is left, and the exit code says so."""
    program = fake_claude_at(tmp_path, "hangs")
    argv = [str(OPASK), "probe", "claude", f"--bin={program}", "--claim=single", "--claim=multi"]
    # A socket's path has 104 bytes at most: not in pytest's own folder.
    with tempfile.TemporaryDirectory(prefix="p-") as name:
        folder = Path(name)
        with subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(folder)},
        ) as process:
            try:
                while not any(folder.glob("opask-*/work")) or not mentions(str(program), "-p"):
                    assert process.poll() is None, process.stderr
                process.send_signal(number)
                out, err = process.communicate(timeout=120)
            finally:
                process.kill()
        assert (process.returncode, out, err) == (128 + number, "", f"opask probe: ended by {number.name}\n")
        assert list(folder.iterdir()) == []
        assert not mentions(str(folder), "")


def npm_at(folder: Path, script: str) -> dict[str, str]:
    """Put an npm on the PATH that is a shell script; give the environment in which runtimes are installed by it."""
    (folder / "bin").mkdir()
    npm = folder / "bin" / "npm"
    npm.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    npm.chmod(0o755)
    return {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "OPASK_RUNTIMES": str(folder / "runtimes")}


def test_an_install_that_fails_is_told_in_a_line(tmp_path: Path) -> None:
    """What npm says of its failure is the end of one line, the exit code is 1, and nothing is left of it."""
    env = npm_at(tmp_path, "echo 'npm error code E404'; echo 'npm error 404 Not Found'; exit 1")
    code, out, err = probe("claude", "--install", env=env)
    assert (code, out) == (1, "")
    assert err.startswith("opask probe: npm install @anthropic-ai/claude-code-")
    assert err.endswith("@2.1.332 failed with exit code 1: code E404; 404 Not Found\n")
    assert err.count("\n") == 1
    assert list((tmp_path / "runtimes").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_an_install(number: signal.Signals, tmp_path: Path) -> None:
    """A signal while npm is at work ends npm and what it started, and nothing is left of it."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    env = npm_at(tmp_path, f"touch half; sleep 60 >{fifo}; exit 1")
    with subprocess.Popen(
        [str(OPASK), "probe", "claude", "--install"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    ) as process:
        try:
            with fifo.open("rb") as held:  # opens once npm's own child has it
                (part,) = (tmp_path / "runtimes").iterdir()
                assert (part / "half").exists()
                process.send_signal(number)
                out, err = process.communicate(timeout=120)
                assert held.read() == b""  # npm's child is gone
        finally:
            process.kill()
    assert (process.returncode, out, err) == (128 + number, "", f"opask probe: ended by {number.name}\n")
    assert list((tmp_path / "runtimes").iterdir()) == []


def mentions(*words: str) -> bool:
    """Tell whether a process runs whose command line has all of these words."""
    return any(
        all(word in line for word in words)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if (line := _read(path))
    )


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace").replace("\0", " ")
    except OSError:
        return ""
