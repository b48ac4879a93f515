"""Recordings of a real runtime: how they are written, read, and played to an adapter.

JSON lines. The first is a header; every other one is
``{"t": seconds since start, "from": "runtime" | "host" | "bridge", "message": …}``: a line that crossed the
runtime's stdio, or what the bridge saw (an ask, its outcome, an MCP request that it served).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypeAlias

from attrs import Factory, field, frozen

from opask.adapters import Adapter, DuplexConversation
from opask.errors import AnswerError, RecordingError
from opask.events import Event
from opask.intake import Rejected, parse
from opask.launch import Endpoint, LaunchPlan
from opask.outcomes import Abandoned, Answered, Cancelled, Outcome, Skipped, TimedOut, Unavailable
from opask.questions import Ask
from opask.wire import answers_from_wire

__all__ = ["Entry", "Recording", "RecordingHeader", "Source", "read_recording", "replay"]

Source: TypeAlias = Literal["runtime", "host", "bridge"]

_SOURCES = ("runtime", "host", "bridge")


@frozen
class RecordingHeader:
    """What a recording is of.

    Args:
        runtime: the registry's id of the runtime.
        version: the version that ran, as it says itself.
        route: the registry's id of the route.
        date: the day of the recording, UTC.
        command: the runtime's command line, with placeholders for paths.
        more: any further fields, such as the platform; ``questions`` is False where nobody was there to ask.
    """

    runtime: str
    version: str
    route: str
    date: date
    command: tuple[str, ...]
    more: Mapping[str, Any] = Factory(dict)

    def to_json(self) -> dict[str, Any]:
        """Return the header as a recording's first line has it."""
        return {
            "runtime": self.runtime,
            "version": self.version,
            "route": self.route,
            "date": self.date.isoformat(),
            "command": list(self.command),
            **self.more,
        }


@frozen
class Entry:
    """One line of a recording.

    Args:
        line: its number in the file, from 1.
        t: seconds since the start.
        source: where it came from.
        message: what it was: a JSON object, or the text of a line that is none.
    """

    line: int
    t: float
    source: Source
    message: Mapping[str, Any] | str

    def part(self, name: str) -> Mapping[str, Any] | None:
        """Return what the bridge says under a name (``ask``, ``outcome``, ``served``), if this is such an entry."""
        if self.source != "bridge" or isinstance(self.message, str):
            return None
        found = self.message.get(name)
        return found if isinstance(found, Mapping) else None


@frozen
class Recording:
    """A whole recording."""

    header: RecordingHeader
    entries: Sequence[Entry] = field(repr=False)


def read_recording(data: bytes | str) -> Recording:
    """Read a recording.

    Args:
        data: the file's content.

    Raises:
        RecordingError: it is empty, or a line is not of the form that recordings have.
    """
    try:
        text = data if isinstance(data, str) else data.decode()
    except UnicodeDecodeError as error:
        raise RecordingError(
            f"the recording is not UTF-8 ({error.reason} at byte {error.start}); record it anew"
        ) from None
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise RecordingError("the recording is empty; record it anew")
    (first, head), *rest = lines
    return Recording(
        _header(_object(first, head), first), tuple(_entry(_object(*line), line[0]) for line in rest)
    )


def _object(number: int, line: str) -> Mapping[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise _fault(number, "is no JSON object")
    return value


def _fault(number: int, what: str) -> RecordingError:
    return RecordingError(f"line {number} of the recording {what}; record it anew", line=number)


def _header(value: Mapping[str, Any], number: int) -> RecordingHeader:
    value = dict(value)
    words = {name: value.pop(name, None) for name in ("runtime", "version", "route", "date")}
    command = value.pop("command", None)
    for name, word in words.items():
        if not isinstance(word, str) or not word:
            raise _fault(number, f"is the header and has no {name}")
    if not isinstance(command, list) or not all(isinstance(part, str) for part in command):
        raise _fault(number, "is the header and has no command, a list of strings")
    try:
        day = date.fromisoformat(words["date"])
    except ValueError:
        raise _fault(number, f"is the header and has a date that is none: {words['date']!r}") from None
    return RecordingHeader(words["runtime"], words["version"], words["route"], day, tuple(command), value)


def _entry(value: Mapping[str, Any], number: int) -> Entry:
    t, source, message = value.get("t"), value.get("from"), value.get("message")
    if not isinstance(t, int | float) or isinstance(t, bool):
        raise _fault(number, "has no t, the seconds since the start")
    if source not in _SOURCES:
        raise _fault(number, f"has to be from one of {', '.join(_SOURCES)}, not {source!r}")
    if not isinstance(message, dict | str):
        raise _fault(number, "has no message")
    return Entry(number, float(t), source, message)


def replay(adapter: Adapter, recording: Recording) -> Iterator[tuple[Entry, Sequence[Event]]]:
    """Play a recording to an adapter's conversation, as the session would.

    Args:
        adapter: the runtime's adapter.
        recording: what was seen.

    Yields:
        Each entry that the adapter is told of, with the events that it makes of it (not stamped).

    Raises:
        RecordingError: an ask or an outcome of the bridge cannot be read.
    """
    header = recording.header
    there = header.more.get("questions") is not False
    conversation = adapter.conversation(
        LaunchPlan(
            argv=header.command,
            env={},
            questions=there,
            reason=None if there else "nobody was there to ask",
            endpoint=Endpoint(command=("relay",), folder=Path("session"), wait=None) if there else None,
        )
    )
    duplex = conversation if isinstance(conversation, DuplexConversation) else None
    asks: dict[str, Ask] = {}
    start = datetime(header.date.year, header.date.month, header.date.day, tzinfo=UTC)
    for entry in recording.entries:
        if entry.source == "runtime":
            yield entry, conversation.receive(entry.message)
        elif duplex is not None and entry.source == "host":
            yield entry, duplex.sent(entry.message)
        elif duplex is not None and (entry.part("served") or {}).get("method") == "tools/list":
            yield entry, duplex.tool_listed()
        elif (told := entry.part("ask")) is not None:
            ask = _ask(told, entry, start)
            asks[ask.id] = ask
            yield entry, conversation.ask_arrived(ask)
        elif (told := entry.part("outcome")) is not None:
            settled = asks.get(str(told.get("question_id")))
            if settled is None:
                raise _fault(entry.line, "settles an ask that was never there")
            yield entry, conversation.ask_settled(settled, _outcome(told, settled, entry, start))


def _ask(told: Mapping[str, Any], entry: Entry, start: datetime) -> Ask:
    questions = parse(told)
    if isinstance(questions, Rejected) or not isinstance(told.get("question_id"), str):
        raise _fault(entry.line, "is an ask without an id or without questions")
    meta = told.get("meta")
    return Ask(
        id=told["question_id"],
        session_id="replay",
        questions=questions,
        asked_at=start + timedelta(seconds=entry.t),
        meta=meta if isinstance(meta, Mapping) else {},
    )


def _outcome(told: Mapping[str, Any], ask: Ask, entry: Entry, start: datetime) -> Outcome:
    by, reason = str(told.get("by") or "unknown"), str(told.get("reason") or "unknown")
    kind = told.get("outcome")
    try:
        if kind == "answered":
            return Answered(answers_from_wire(ask.questions, told.get("answers") or {}), by)
        if kind == "skipped":
            return Skipped(by)
        if kind == "unavailable":
            return Unavailable(reason)
        if kind == "timed_out":
            return TimedOut(start + timedelta(seconds=entry.t) - ask.asked_at)
        if kind == "cancelled":
            return Cancelled(by)  # type: ignore[arg-type] # attrs checks it
        if kind == "abandoned":
            return Abandoned(reason)  # type: ignore[arg-type] # the same
    except (AnswerError, ValueError, AttributeError) as error:
        raise _fault(entry.line, f"is an outcome that does not fit its ask ({error})") from None
    raise _fault(entry.line, f"has an outcome that is none: {kind!r}")
