"""The scripted model as a program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

SCENARIO = {"name": "hello", "conversations": [{"name": "main", "steps": [{"reply": {"text": "Hello."}}]}]}
BODY = {
    "model": "claude-x",
    "max_tokens": 9,
    "tools": [{"name": "T", "input_schema": {"type": "object"}}],
    "messages": [{"role": "user", "content": "Go."}],
}
HEADERS = {"anthropic-version": "2023-06-01", "x-api-key": "sk-test"}


@contextmanager
def program(folder: Path, *arguments: str, scenario: object = SCENARIO) -> Iterator[subprocess.Popen[str]]:
    """Start the program on a scenario; it is not there afterwards, whatever happened."""
    path = folder / "scenario.json"
    path.write_text(json.dumps(scenario), encoding="utf-8")
    argv = [sys.executable, "-m", "opask_probes.model", "--scenario", str(path), *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def ready(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for the line that says where the model listens."""
    assert process.stdout is not None
    said: dict[str, Any] = json.loads(process.stdout.readline())
    return said


def play(url: str) -> httpx2.Response:
    """Send the request that the scenario waits for."""
    return httpx2.post(f"{url}/v1/messages", json=BODY, headers=HEADERS, timeout=30, trust_env=False)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_scenario_that_is_played_ends_with_0(tmp_path: Path, how: signal.Signals) -> None:
    """It says where it listens, plays, logs each exchange and the verdict, and ends well on a signal."""
    log = tmp_path / "log.jsonl"
    with program(tmp_path, "--ready-file", str(tmp_path / "ready"), "--log", str(log)) as process:
        said = ready(process)
        assert said["pid"] == process.pid
        assert json.loads((tmp_path / "ready").read_text()) == said
        assert play(said["url"]).json()["content"] == [{"type": "text", "text": "Hello."}]
        (line,) = log.read_text().splitlines()
        assert json.loads(line)["kind"] == "scripted"
        assert "sk-test" not in line
        process.send_signal(how)
        _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")
    assert json.loads(log.read_text().splitlines()[-1]) == {"scenario": "hello", "failures": []}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.jsonl", "ready", "scenario.json"]


def test_a_scenario_that_is_left_early_ends_with_1(tmp_path: Path) -> None:
    """What was not played is on stderr and is the exit status."""
    with program(tmp_path) as process:
        ready(process)
        process.terminate()
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert errors == "conversation main, step 1: not played to its end: 0 of 1 steps\n"


def test_a_request_that_does_not_fit_ends_with_1(tmp_path: Path) -> None:
    """A request too many is on stderr and in the log, and is the exit status."""
    log = tmp_path / "log.jsonl"
    with program(tmp_path, "--log", str(log)) as process:
        url = ready(process)["url"]
        assert play(url).status_code == 200
        assert play(url).status_code == 400
        process.terminate()
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert errors.startswith("conversation main, step 2, request 2: step 1 was replied to")
    assert json.loads(log.read_text().splitlines()[-1])["failures"] == [errors.rstrip("\n")]


def test_it_ends_with_its_standard_input(tmp_path: Path) -> None:
    """With --until-eof it does not outlive the process that holds its standard input."""
    with program(tmp_path, "--until-eof") as process:
        play(ready(process)["url"])
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=120) == 0


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [({"name": "x"}, "scenario x: it has no conversations"), (None, "expected an object")],
)
def test_what_cannot_be_played_ends_with_2(tmp_path: Path, scenario: object, reason: str) -> None:
    """A scenario that is not right is named on stderr, and nothing listens."""
    with program(tmp_path, scenario=scenario) as process:
        output, errors = process.communicate(timeout=120)
    assert (process.returncode, output) == (2, "")
    assert reason in errors
    assert "scenario.json" in errors


def test_files_that_cannot_be_had_end_with_2(tmp_path: Path) -> None:
    """A scenario that is not there, and a log that cannot be written, are named without a traceback."""
    argv = [sys.executable, "-m", "opask_probes.model", "--scenario", str(tmp_path / "none.json")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2
    assert "none.json" in done.stderr
    with program(tmp_path, "--log", str(tmp_path / "none" / "log")) as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert f"{os.sep}none{os.sep}log" in errors
    assert "Traceback" not in errors
