from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import opask.adapters
from opask.cli import main
from opask.cli.demo_adapter import DemoAdapter

HEADER = {
    "runtime": "demo",
    "version": "1",
    "route": "mcp-stdio",
    "date": "2026-03-04",
    "command": ["demo", "--", "go"],
}
QUESTION = {
    "question": "Which?",
    "header": "H",
    "options": [{"label": "A"}, {"label": "B"}],
    "multiSelect": False,
}


def line(t: float, source: str, **message: Any) -> dict[str, Any]:
    """Give a line of a recording."""
    return {"t": t, "from": source, "message": message}


LINES = [
    line(0.1, "bridge", served={"method": "tools/list", "client": None}),
    line(0.2, "runtime", type="ready", tools=["ask_user_question"]),
    line(0.3, "runtime", type="turn_started"),
    line(0.4, "runtime", type="text", text="Let me ask\x9b."),
    line(0.5, "runtime", type="tool_call", id="call-1", tool="ask_user_question"),
    line(
        1.0,
        "bridge",
        ask={"question_id": "q", "questions": [QUESTION], "meta": {"opask-demo/call": "call-1"}},
    ),
    line(1.5, "host", type="anything"),
    line(
        3.25,
        "bridge",
        outcome={"question_id": "q", "outcome": "answered", "answers": {"Which?": "B"}, "by": "terminal"},
    ),
    {"t": 3.5, "from": "runtime", "message": "garbage"},
    line(4.0, "runtime", type="turn_ended", reason="done", is_error=False),
    line(5.0, "runtime", type="turn_started"),
]


@pytest.fixture(autouse=True)
def _demo_is_a_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    known: Callable[[str], Any] = opask.adapters.adapter
    monkeypatch.setattr(
        opask.adapters, "adapter", lambda name: DemoAdapter() if name == "demo" else known(name)
    )


def written(folder: Path, *lines: object) -> str:
    """Write a recording; give its path."""
    path = folder / "recording.jsonl"
    path.write_text(
        "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in lines),
        encoding="utf-8",
    )
    return str(path)


def test_a_recording_is_printed_as_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each event has its place, the time that it was recorded at, its turn, and what the adapter makes of it."""
    assert main(["replay", "demo", written(tmp_path, HEADER, *LINES)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.isascii()
    seen = [json.loads(each) for each in out.splitlines()]
    assert [(event["seq"], event["event"], event["turn_id"]) for event in seen] == [
        (1, "session_ready", None),
        (2, "turn_started", "turn-1"),
        (3, "text", "turn-1"),
        (4, "tool_announced", "turn-1"),
        (5, "question_asked", "turn-1"),
        (6, "question_resolved", "turn-1"),
        (7, "message_unreadable", "turn-1"),
        (8, "turn_ended", "turn-1"),
        (9, "turn_started", "turn-2"),
    ]
    assert {event["session_id"] for event in seen} == {"replay"}
    assert seen[1]["time"] == "2026-03-04T00:00:00.300000+00:00"
    assert seen[4]["tool_call_id"] == "call-1"
    resolved = seen[5]
    assert (resolved["outcome"], resolved["answers"], resolved["by"]) == (
        "answered",
        {"Which?": "B"},
        "terminal",
    )
    assert (resolved["question_id"], resolved["duration_ms"]) == ("q", 2250)


def test_a_recording_is_read_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``-`` reads the recording from a pipe."""
    data = Path(written(tmp_path, HEADER, LINES[2])).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert main(["replay", "demo", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["event"] == "turn_started"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], "the recording is empty"),
        (["garbage"], "line 1 of the recording is no JSON object"),
        ([{"runtime": "demo"}], "line 1 of the recording is the header and has no version"),
        ([HEADER, LINES[0], "{"], "line 3 of the recording is no JSON object"),
        (
            [HEADER, "", {"t": 1, "from": "moon", "message": {}}],
            "line 3 of the recording has to be from one of",
        ),
        ([HEADER, LINES[7]], "line 2 of the recording settles an ask that was never there"),
        ([{**HEADER, "runtime": "claude"}], "line 1 of the recording says that it is of 'claude'"),
    ],
)
def test_a_bad_recording_names_the_line(
    tmp_path: Path, lines: list[object], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is no recording is unusable: one line says which file, which line, and what is wrong with it."""
    path = written(tmp_path, *lines)
    assert main(["replay", "demo", path]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"opask replay: {path}: {told}")
    assert err.count("\n") == 1


def test_a_file_that_is_no_text_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A binary file is named, and so is a folder."""
    path = tmp_path / "binary"
    path.write_bytes(b"\xff\xfe")
    assert main(["replay", "demo", str(path)]) == 2
    assert "is not UTF-8" in capsys.readouterr().err
    assert main(["replay", "demo", str(tmp_path)]) == 2
    assert (
        capsys.readouterr().err
        == f"opask replay: {tmp_path}: cannot be read (Is a directory); name a recording\n"
    )
