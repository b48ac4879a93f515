"""Recordings of real runtimes, replayed to their adapters: the events are the ones that are kept."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import opask
from golden import EVENTS, GOLDEN, ROOT, Retold, events, events_file, read, recordings, stored
from opask.adapters import Message
from opask.permissions import PermissionRequested
from opask.recording import replay

ALL = recordings()
FORMS: dict[str, Callable[[Message], Message | str | bytes]] = {
    "message": dict,
    "text": json.dumps,
    "bytes": lambda message: json.dumps(message, ensure_ascii=False).encode(),
}
# What a recording that is kept must not give away: where it was made, by whom, and the vendor's own prompts.
PRIVATE = re.compile(
    r"(?<!>)/(?:home|root|tmp|usr|opt|work|Users)\b|127\.0\.0\.1|localhost|@[a-z]+\.|sk-ant|system-reminder"
)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("recording", ALL, ids=str)
def test_a_recording_gives_its_events(
    recording: Path, form: Callable[[Message], Message | str | bytes]
) -> None:
    """Each recorded conversation gives the events that are kept for it, in whatever form its messages come."""
    path = events_file(recording)
    assert path.is_file(), "no events are kept for it: run python tests/golden.py, and read what it writes"
    assert events(recording, form) == stored(recording)


def test_every_golden_file_is_used() -> None:
    """No file of events is left without its recording."""
    kept = set(GOLDEN.rglob(f"*{EVENTS}"))
    assert kept == {events_file(recording) for recording in ALL}


@pytest.mark.parametrize("recording", ALL, ids=str)
def test_a_recording_gives_nothing_away(recording: Path) -> None:
    """A recording that is kept names no place, address or person of the machine that it was made on."""
    text = (ROOT / recording).read_text(encoding="utf-8")
    assert PRIVATE.findall(text) == []


@pytest.mark.parametrize("recording", ALL, ids=str)
def test_permissions_are_decided_as_they_were(recording: Path) -> None:
    """What opask decided on the ask tools when it was recorded is what it decides now, word for word."""
    told = read(recording)
    adapter = Retold(opask.adapter(told.header.runtime), dict)
    sent = [entry.message for entry in told.entries if entry.source == "host"]
    for _, heard in replay(adapter, told):
        for request in heard:
            if not isinstance(request, PermissionRequested) or request.ask is None:
                continue
            assert adapter.told is not None
            assert adapter.told.reply(request, adapter.told.decide(request)) in sent


def test_the_golden_recordings_show_what_matters() -> None:
    """Between them the recordings have every kind of event that an adapter makes of a real runtime's output."""
    kinds = {event["event"] for recording in ALL for event in stored(recording)}
    assert kinds >= {
        "ask_tool_missing",
        "native_ask_refused",
        "permission_requested",
        "question_asked",
        "session_ready",
        "text",
        "tool_announced",
        "tool_finished",
        "turn_ended",
        "turn_started",
    }
