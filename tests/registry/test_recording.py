"""Recordings: what they look like, what is refused, and how they are played to an adapter."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opask.errors import RecordingError
from opask.events import Event, QuestionAsked
from opask.launch import Endpoint, LaunchPlan, LaunchRequest
from opask.outcomes import Abandoned, Answered, Cancelled, Outcome, Skipped, TimedOut, Unavailable
from opask.questions import Answer, Ask
from opask.recording import RecordingHeader, read_recording, replay

HEADER = {
    "runtime": "acme",
    "version": "1.0.0",
    "route": "mcp-stdio",
    "date": "2026-11-30",
    "command": ["acme", "-p"],
}
QUESTION = {"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}


class Listener:
    """An adapter and its conversation in one, that keeps what it is told."""

    runtime: str = "acme"

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.plan: LaunchPlan | None = None

    def plan_launch(self, request: LaunchRequest, endpoint: Endpoint | None, /) -> LaunchPlan:
        raise NotImplementedError

    def conversation(self, plan: LaunchPlan, /) -> Any:
        self.plan = plan
        return self

    def receive(self, message: Any, /) -> Sequence[Event]:
        self.told.append(message)
        return []

    def ask_arrived(self, ask: Ask, /) -> Sequence[Event]:
        self.told.append(ask)
        return [QuestionAsked(question_id=ask.id, questions=ask.questions, asked_at=ask.asked_at)]

    def ask_settled(self, ask: Ask, outcome: Outcome, /) -> Sequence[Event]:
        self.told.append((ask.id, outcome))
        return []


def text(*entries: tuple[str, Any], header: Any = HEADER) -> str:
    """Give a recording's text."""
    lines = [
        header,
        *({"t": at, "from": source, "message": message} for at, (source, message) in enumerate(entries)),
    ]
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def ask(id_: str = "q1", **meta: Any) -> tuple[str, Any]:
    """Give an ask that reached the bridge."""
    return "bridge", {"ask": {"question_id": id_, "questions": [QUESTION], "meta": meta}}


def outcome(kind: str, **more: Any) -> tuple[str, Any]:
    """Give the outcome of an ask."""
    return "bridge", {
        "outcome": {"question_id": "q1", "outcome": kind, "answers": None, "reason": None, "by": None, **more}
    }


def test_a_header_reads_back() -> None:
    """What a header writes is what is read from it, with the fields that it does not know."""
    header = RecordingHeader(
        "acme", "1.0.0", "mcp-stdio", date(2026, 11, 30), ("acme", "-p"), {"platform": "linux"}
    )
    assert read_recording(json.dumps(header.to_json())).header == header


def test_entries_keep_their_lines() -> None:
    """Entries know their line in the file, blank lines counted, so that a finding can name it."""
    recording = read_recording("\n" + text(("runtime", {"a": 1}), ("host", "plain\u2028text")) + "\n\n")
    assert [(entry.line, entry.t, entry.source) for entry in recording.entries] == [
        (3, 0, "runtime"),
        (4, 1, "host"),
    ]
    assert recording.entries[1].message == "plain\u2028text"


@pytest.mark.parametrize(
    ("data", "words", "line"),
    [
        (b"", "empty", None),
        (b"\xff\n", "UTF-8", None),
        (b"[]\n", "line 1 .* no JSON object", 1),
        (b"[" * 100_000, "no JSON object", 1),
        (text(header={**HEADER, "version": ""}).encode(), "no version", 1),
        (text(header={**HEADER, "command": "acme -p"}).encode(), "no command", 1),
        (text(header={**HEADER, "date": "yesterday"}).encode(), "date", 1),
        (text(("elsewhere", {})).encode(), "elsewhere", 2),
        (text(("host", None)).encode(), "no message", 2),
        (text().encode() + b'{"from": "host", "message": {}}\n', "no t", 2),
    ],
)
def test_what_is_no_recording_is_refused(data: bytes, words: str, line: int | None) -> None:
    """A file of another form is refused with the line at fault and what to do."""
    with pytest.raises(RecordingError, match=words) as caught:
        read_recording(data)
    assert caught.value.line == line
    assert "record it anew" in str(caught.value)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_reading_raises_nothing_else(data: bytes) -> None:
    """Whatever a file holds, reading it gives a recording or an error of its own."""
    for content in (data, json.dumps(HEADER).encode() + b"\n" + data):
        try:
            read_recording(content)
        except RecordingError:
            continue


def test_an_adapter_is_told_what_the_session_would_tell_it() -> None:
    """The runtime's lines, asks and outcomes reach the conversation in order; the host's and the served do not."""
    listener = Listener()
    entries = [
        ("runtime", {"n": 1}),
        ("host", {"n": 2}),
        ("bridge", {"served": {"method": "tools/list"}}),
        ask(call="c1"),
        outcome("answered", answers={"Which?": "B"}, by="terminal"),
        ("runtime", "last words"),
    ]
    played = list(replay(listener, read_recording(text(*entries))))
    first, asked, settled, last = listener.told
    assert (first, last) == ({"n": 1}, "last words")
    assert (asked.id, asked.meta, asked.questions[0].text) == ("q1", {"call": "c1"}, "Which?")
    assert settled == ("q1", Answered((Answer((1,)),), "terminal"))
    assert [entry.line for entry, _ in played] == [2, 5, 6, 7]
    assert listener.plan is not None
    assert listener.plan.argv == ("acme", "-p")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (outcome("skipped", by="web:ada"), Skipped("web:ada")),
        (outcome("unavailable", reason="nobody"), Unavailable("nobody")),
        (outcome("cancelled", by="operator"), Cancelled("operator")),
        (outcome("abandoned", reason="turn_end"), Abandoned("turn_end")),
    ],
)
def test_every_outcome_reads_back(entry: tuple[str, Any], expected: Outcome) -> None:
    """Each kind of outcome is told as what it was."""
    listener = Listener()
    list(replay(listener, read_recording(text(ask(), entry))))
    assert listener.told[-1] == ("q1", expected)


def test_a_timeout_lasted_as_long_as_it_did() -> None:
    """A wait that ran out is told with the time that passed since the ask."""
    listener = Listener()
    list(replay(listener, read_recording(text(ask(), ("host", {}), outcome("timed_out")))))
    _, told = listener.told[-1]
    assert isinstance(told, TimedOut)
    assert told.after.total_seconds() == 2


@pytest.mark.parametrize(
    "entries",
    [
        [("bridge", {"ask": {"question_id": "q1", "questions": []}})],
        [("bridge", {"ask": {"questions": [QUESTION]}})],
        [outcome("skipped", by="terminal")],
        [ask(), outcome("answered", answers={"Other?": "B"})],
        [ask(), outcome("answered", answers={})],
        [ask(), outcome("answered", answers=["B"])],
        [ask(), outcome("fine")],
        [ask(), outcome("cancelled", by="nobody")],
        [ask(), outcome("abandoned", reason="boredom")],
    ],
)
def test_an_ask_that_makes_no_sense_is_refused(entries: list[tuple[str, Any]]) -> None:
    """Asks and outcomes that do not fit together are an error with their line, not a guess."""
    with pytest.raises(RecordingError) as caught:
        list(replay(Listener(), read_recording(text(*entries))))
    assert caught.value.line == len(entries) + 1
