"""`opask replay`: what an adapter makes of a recording, as events."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from opask.cli import UsageError
from opask.errors import RecordingError

if TYPE_CHECKING:
    from opask.adapters import Adapter
    from opask.events import Event
    from opask.recording import Entry, Recording

__all__ = ["configure", "run"]

HELP = "print the events that a recording of a runtime gives"
EXAMPLE = "opask replay claude probes/recordings/claude/2.1.332/mcp-stdio.jsonl"

_SESSION: Final = "replay"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("runtime", metavar="RUNTIME", help="the runtime that was recorded")
    parser.add_argument(
        "recording", type=Path, metavar="RECORDING", help="a file of JSON lines; - for standard input"
    )


def run(args: argparse.Namespace) -> int:
    """Print the events as JSON lines.

    Raises:
        OpaskError: the file is no recording of this runtime, or there is no adapter for it.
    """
    from opask.adapters import adapter
    from opask.events import event_to_json
    from opask.recording import read_recording

    name = str(args.recording)
    try:
        data = sys.stdin.buffer.read() if name == "-" else args.recording.read_bytes()
    except OSError as error:
        raise UsageError(f"{name}: cannot be read ({error.strerror}); name a recording") from None
    found = adapter(args.runtime)
    try:
        recording = read_recording(data)
        if recording.header.runtime != args.runtime:
            raise RecordingError(
                f"line 1 of the recording says that it is of {recording.header.runtime!r}; replay it as that",
                line=1,
            )
        for event in _stamped(found, recording):
            sys.stdout.write(json.dumps(event_to_json(event)) + "\n")
    except RecordingError as error:
        raise RecordingError(f"{name}: {error}", line=error.line) from None
    return 0


def _stamped(adapter: Adapter, recording: Recording) -> Iterator[Event]:
    """Give the events with their place and time, as a session stamps them."""
    from attrs import evolve

    from opask.events import TurnEnded, TurnStarted
    from opask.recording import replay

    day = recording.header.date
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    seq = turns = 0
    turn_id: str | None = None
    for entry, events in replay(adapter, recording):
        for event in (*_resolved(entry, recording), *events):
            seq += 1
            if isinstance(event, TurnStarted):
                turns += 1
                turn_id = f"turn-{turns}"
            yield evolve(
                event,
                seq=seq,
                time=start + timedelta(seconds=entry.t),
                session_id=_SESSION,
                turn_id=event.turn_id or turn_id,
            )
            if isinstance(event, TurnEnded):
                turn_id = None


def _resolved(entry: Entry, recording: Recording) -> list[Event]:
    """Give the event that the session makes of an outcome."""
    from opask.events import QuestionResolved

    told = entry.part("outcome")
    if told is None:
        return []
    question_id = told["question_id"]
    asked = [
        one.t
        for one in recording.entries
        if (ask := one.part("ask")) and ask.get("question_id") == question_id
    ]
    known: dict[str, Any] = {name: told.get(name) for name in ("outcome", "answers", "reason", "by")}
    return [
        QuestionResolved(question_id=question_id, duration_ms=round((entry.t - asked[0]) * 1000), **known)
    ]
