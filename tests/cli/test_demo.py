from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli_runtimes import ANSWERS, DATABASE, PARTS, SECONDS, Command, child_of, wait_for_end
from quickness import tries

TEXT = "I was asked to: set up a small web service. Two things are not mine to decide, so I ask. \n"


def test_the_demo_runs_unattended(tmp_path: Path) -> None:
    """With answers given beforehand the demo prints what was asked and answered, and the agent quotes it exactly."""
    code, out, err = Command(tmp_path, "demo", "--answers", ANSWERS, stdin=subprocess.DEVNULL).ends()
    assert (code, err) == (0, "")
    assert out == (
        f"{TEXT}? {DATABASE}\n→ SQLite\n? {PARTS}\n→ API + Docs\n"
        "The service will use “SQLite”. I will do first: “API”, “Docs”. \n"
        "demo is done: asked once, 1 answered\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_an_operator_behind_a_pipe_answers(tmp_path: Path) -> None:
    """Without a terminal the questions are plain lines, and lines of input answer them."""
    code, out, err = Command(tmp_path, "demo").ends("2\nwith tests first\n")
    assert (code, err) == (0, "")
    assert out.startswith(f"{TEXT}[Database] agent, 1 of 2")
    assert "The service will use “SQLite”. I will do first: “with tests first”. \n" in out


def test_a_skipped_question_is_left_open(tmp_path: Path) -> None:
    """A null skips its question: the agent hears that, and makes no choice of it."""
    answers = json.dumps({DATABASE: None, PARTS: ["Web page"]})
    code, out, err = Command(tmp_path, "demo", "--answers", answers).ends()
    assert (code, err) == (0, "")
    assert f"? {DATABASE}\n→ skipped\n? {PARTS}\n→ Web page\n" in out
    assert "You left the database open. I will do first: “Web page”. \n" in out


def test_a_question_that_the_script_does_not_name_is_told(tmp_path: Path) -> None:
    """An ask that the script cannot answer is unavailable: the agent goes on, and stderr says what is missing."""
    code, out, err = Command(
        tmp_path, "demo", "--answers", json.dumps({DATABASE: "SQLite", "Who?": "me"})
    ).ends()
    assert code == 0
    assert f"? {DATABASE}\n→ not answered\n" in out
    assert "I got no answer and was told: “The operator did not answer." in out
    assert out.endswith("demo is done: asked once, 1 unavailable\n")
    assert err == (
        f"opask demo: not answered: the scripted answers name no {PARTS!r}; add it, or null to skip it\n"
        "opask demo: --answers names 'Who?', which was not asked\n"
    )


def test_with_nobody_there_nothing_is_asked(tmp_path: Path) -> None:
    """Where no answer can come in, the agent gets no ask tool, and says so."""
    code, out, err = Command(tmp_path, "demo", stdin=subprocess.DEVNULL).ends()
    assert code == 0
    assert out == "Nobody is there to ask, so I leave open what only a person can decide. \ndemo is done\n"
    assert err.count("\n") == 1
    assert "the agent runs without the ask tool" in err


def test_the_trace_is_written(tmp_path: Path) -> None:
    """OPASK_TRACE names a file that gets a line for the question and a line for its answer."""
    file = tmp_path / "trace"
    assert Command(tmp_path, "demo", "--answers", ANSWERS, env={"OPASK_TRACE": str(file)}).ends()[0] == 0
    asked, answered = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert (asked["event"], answered["event"]) == ("operator.question.asked", "operator.question.answered")
    assert asked["question_id"] == answered["question_id"]
    assert answered["headers"] == ["Database", "First parts"]
    assert answered["outcome"] == "answered"
    assert answered["duration_ms"] >= 0
    assert DATABASE not in file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_while_a_question_waits_ends_all(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """The question is cancelled by name, the agent is ended, one line says so, and nothing is left."""
    command = Command(tmp_path, "demo")
    command.until("Answer with a number")
    command.process.send_signal(number)
    ended, out, err = command.ends()
    assert ended == code
    assert "Database (and 1 more): cancelled by the host\n" in out
    assert err == f"opask demo: ended by {number.name}; demo is ended; asked once, 1 cancelled\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of processes that are not one's own")
def test_a_killed_demo_leaves_nothing(tmp_path: Path) -> None:
    """After SIGKILL the agent, its relay, the guard and the folder of the sockets are gone within two seconds."""
    for timed in tries(2.0):
        command = Command(tmp_path, "demo")
        command.until("Answer with a number")
        guard = child_of(command.process.pid)
        agent = child_of(guard)
        handles = [os.pidfd_open(pid) for pid in (child_of(agent), agent, guard)]
        with timed:
            command.process.kill()
            for handle in handles:
                wait_for_end(handle, SECONDS)
        assert list(tmp_path.iterdir()) == []
        command.ends()
