"""Rules about observations: whether their evidence is there, is what was observed, and bears what it is said to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from opask.errors import OpaskError
from opask.events import (
    AskToolMissing,
    NativeAskRefused,
    QuestionAsked,
    QuestionCorrelated,
    SessionReady,
    ToolAnnounced,
    ToolFinished,
)
from opask.permissions import PermissionRequested
from opask.recording import Entry, Recording
from opask.registry_lint.evidence import Evidence, RecordingFile, texts
from opask.registry_lint.rule import ObservationSubject, Problem, rule

__all__ = ["RULES"]

_ANEW = "record it anew with `opask probe --record`, or set the status to what the recording shows"


@rule()
def date_not_in_future(seen: ObservationSubject, evidence: Evidence) -> Iterator[Problem]:
    """An observation was made today or before."""
    if seen.row.date > evidence.today:
        yield Problem(f"its date, {seen.row.date}, is in the future", "write the day of the recording, UTC")


@rule()
def probe_exists(seen: ObservationSubject, evidence: Evidence) -> Iterator[Problem]:
    """The probe that made an observation is there, so that anyone can run it again."""
    if not evidence.exists(seen.row.probe):
        yield Problem(
            f"its probe {seen.row.probe} is not there", "name the probe's file, below the registry's folder"
        )


@rule()
def recording_exists(seen: ObservationSubject, evidence: Evidence) -> Iterator[Problem]:
    """An observation's recording is there."""
    if evidence.recording(seen.row.recording).data is None:
        yield Problem(
            f"its recording {seen.row.recording} is not there",
            "add it, or check the source tree: an installed opask comes without its evidence",
        )


@rule()
def digest_matches(seen: ObservationSubject, evidence: Evidence) -> Iterator[Problem]:
    """The recording is, byte for byte, the one that was looked at."""
    found = evidence.recording(seen.row.recording).sha256
    if found is not None and found != seen.row.sha256:
        yield Problem(
            f"its recording's digest is {found[:12]}…, and the row says {seen.row.sha256[:12]}…",
            "bring back the recording that was looked at, or look at this one and write its sha256",
        )


@rule()
def recording_is_readable(file: RecordingFile, _: Evidence) -> Iterator[Problem]:
    """A recording has the form that recordings have."""
    if isinstance(file.content, OpaskError):
        yield Problem(str(file.content), "record it anew", line=getattr(file.content, "line", None))


@rule()
def recording_is_of_this(seen: ObservationSubject, evidence: Evidence) -> Iterator[Problem]:
    """A recording is of the observation's own runtime, route, version and day."""
    recording = evidence.recording(seen.row.recording).content
    if not isinstance(recording, Recording):
        return
    header = recording.header
    expected = {
        "runtime": (header.runtime, seen.route.runtime.id),
        "route": (header.route, seen.route.row.id),
        "version": (header.version, seen.row.version),
        "date": (header.date.isoformat(), seen.row.date.isoformat()),
    }
    for name, (found, wanted) in expected.items():
        if found != wanted:
            yield Problem(
                f"its recording is of {name} {found}, not {wanted}",
                "name a recording of this very observation",
            )


@rule()
def recording_bears_status(seen: ObservationSubject, evidence: Evidence) -> Iterator[Problem]:
    """A recording shows what its observation says: that an ask was answered and delivered, or that none was."""
    played = _played(seen, evidence)
    if isinstance(played, OpaskError):
        yield Problem(f"its recording cannot be played to the adapter: {played}", _ANEW)
    elif played is not None and seen.route.row.is_native:
        if (against := _against_native(seen.row.status, played)) is not None:
            yield Problem(f"it is called {seen.row.status}, and {against}", _ANEW)
    elif played is not None:
        missing = _missing_from_round_trip(played)
        if seen.row.status == "verified" and missing:
            yield Problem(f"it is called verified, and its recording {missing}", _ANEW)
        if seen.row.status == "refuted" and not missing:
            yield Problem(
                "it is called refuted, and its recording shows an ask answered and delivered", _ANEW
            )


@rule()
def recording_shows_version(seen: ObservationSubject, evidence: Evidence) -> Iterator[Problem]:
    """Where the runtime says its own version, it is the observation's."""
    for _, event in _events(_played(seen, evidence)):
        if isinstance(event, SessionReady) and event.version not in (None, seen.row.version):
            yield Problem(
                f"the runtime in its recording says that it is version {event.version}",
                "write the version that was observed",
            )


@rule()
def recording_shows_spellings(seen: ObservationSubject, evidence: Evidence) -> Iterator[Problem]:
    """The runtime in a recording spells the tools as the row says."""
    row = seen.route.row
    found: dict[str, str] = {}
    for _, event in _events(_played(seen, evidence)):
        if isinstance(event, ToolAnnounced) and event.ask is not None:
            found.setdefault(event.tool, event.ask)
    for tool, ask in found.items():
        if ask == "supplied" and row.spellings.events not in (None, tool):
            yield Problem(
                f"spellings.events is {row.spellings.events!r}, and the runtime wrote {tool!r}",
                f"write {tool!r}",
            )
        if ask == "native" and row.native_ask.names and tool not in row.native_ask.names:
            yield Problem(f"native_ask.names lacks {tool!r}, which the runtime wrote", f"add {tool!r}")


@rule("warning")
def recording_is_claimed(file: RecordingFile, evidence: Evidence) -> Iterator[Problem]:
    """Every recording is an observation's."""
    rows = evidence.document.runtimes.values()
    if not any(
        seen.recording == file.path for row in rows for route in row.routes for seen in route.observations
    ):
        yield Problem(
            "no observation names it", "name it in the observation that it was made for, or delete it"
        )


def _played(seen: ObservationSubject, evidence: Evidence) -> Any:
    """Play an observation's recording to its adapter; None where one of them is not there or not readable."""
    file = evidence.recording(seen.row.recording)
    adapter = evidence.adapter(seen.route.runtime.row.adapter)
    if adapter is None or not isinstance(file.content, Recording):
        return None
    return file.replayed(adapter)


def _events(played: Any) -> Iterator[tuple[int, Any]]:
    """Give each event with its place."""
    if played is None or isinstance(played, OpaskError):
        return
    for place, (_, events) in enumerate(played):
        for event in events:
            yield place, event


def _against_native(status: str, played: Sequence[tuple[Entry, Sequence[Any]]]) -> str | None:
    """Say what is against the status of an observation of the runtime's own ask tool.

    It is refuted where the tool was called and the host was asked nothing. Where the host was asked, that shows no
    answer either: opask denies the tool, so that nothing verifies it.
    """
    if status == "untested":
        return None
    if status == "verified":
        return "opask denies the runtime's own ask tool, so that no recording shows it answered"
    events = [event for _, event in _events(played)]
    if not any(isinstance(event, ToolAnnounced) and event.ask == "native" for event in events):
        return "its recording has no call of the runtime's own ask tool"
    for event in events:
        if isinstance(event, PermissionRequested) and event.ask == "native":
            return "its recording shows the host asked, by a permission request"
        if isinstance(event, NativeAskRefused) and event.channel == "elicitation":
            return "its recording shows the host asked, by a form"
    return None


def _missing_from_round_trip(played: Sequence[tuple[Entry, Sequence[Any]]]) -> str | None:
    """Say what a recording lacks of a question that was asked, answered, and whose answer the agent got.

    That is one ask with a call that the runtime announced as the supplied tool's, an answer to it, and after
    that the call's own end without an error, and the answer's own words in what the runtime says.
    """
    answered = {
        str(told["question_id"]): place
        for place, (entry, _) in enumerate(played)
        if (told := entry.part("outcome")) is not None and told.get("outcome") == "answered"
    }
    asked: set[str] = set()
    announced: set[str] = set()
    call_of: dict[str, str] = {}
    delivered: dict[str, int] = {}
    for place, event in _events(played):
        if isinstance(event, AskToolMissing):
            return f"says that the ask tool was missing ({event.reason})"
        if isinstance(event, QuestionAsked) and event.question_id is not None:
            asked.add(event.question_id)
        if isinstance(event, QuestionAsked | QuestionCorrelated) and event.question_id and event.tool_call_id:
            call_of[event.question_id] = event.tool_call_id
        if isinstance(event, ToolAnnounced) and event.ask == "supplied" and event.tool_call_id:
            announced.add(event.tool_call_id)
        if isinstance(event, ToolFinished) and event.tool_call_id and not event.is_error:
            delivered[event.tool_call_id] = place
    if not asked:
        return "has no ask that reached the bridge"
    if not answered:
        return "has no ask that was answered"
    calls = {question: call_of[question] for question in answered if call_of.get(question) in announced}
    if not calls:
        return "has no answered ask whose call the runtime announced: nothing shows whose question it was"
    whole = [question for question, call in calls.items() if delivered.get(call, -1) > answered[question]]
    if not whole:
        return "does not show that an answered call ended well"
    if not any(_is_heard(played, answered[question]) for question in whole):
        return "does not show the answer's own words in what the runtime said after it"
    return None


def _is_heard(played: Sequence[tuple[Entry, Sequence[Any]]], place: int) -> bool:
    """Tell whether the runtime says every word of an answer after it was given."""
    answers = (played[place][0].part("outcome") or {}).get("answers")
    words = [word for value in (answers or {}).values() for word in texts(value)]
    said = [text for entry, _ in played[place:] if entry.source == "runtime" for text in texts(entry.message)]
    return all(any(form in text for form in _forms(word) for text in said) for word in words)


def _forms(word: str) -> set[str]:
    """Give a word as it is, and as it stands within a text that is JSON itself."""
    return {word, json.dumps(word)[1:-1], json.dumps(word, ensure_ascii=False)[1:-1]}


RULES = (
    date_not_in_future,
    probe_exists,
    recording_exists,
    digest_matches,
    recording_is_readable,
    recording_is_of_this,
    recording_bears_status,
    recording_shows_version,
    recording_shows_spellings,
    recording_is_claimed,
)
