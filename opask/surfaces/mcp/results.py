"""What a client is told: bounded, inert, as text and as structured content."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import mcp_types as types

from opask.inbox import Entry, entry_to_json
from opask.inert import inert, inert_line, shorten
from opask.outcomes import Answered
from opask.surfaces.mcp.driving import Driven, TurnEnd
from opask.surfaces.mcp.forms import shown
from opask.wire import answers_to_wire, questions_to_wire

__all__ = [
    "TEXT_MAX",
    "awaiting",
    "ended",
    "failed",
    "given",
    "resolved_of",
    "running",
    "standing",
]

TEXT_MAX: Final = 20_000
_LINE_MAX: Final = 200
_REASON_MAX: Final = 500


def given(content: Mapping[str, Any]) -> types.CallToolResult:
    """Return a result: the same as text and as structured content, since some clients pass on only one of them."""
    text = json.dumps(content, ensure_ascii=False)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=dict(content)
    )


def failed(message: str) -> types.CallToolResult:
    """Return an error that the one who drives can act on."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=inert(message))], is_error=True)


def awaiting(session: Driven, entry: Entry, form: str | None) -> dict[str, Any]:
    """Return that an agent waits for an answer.

    Args:
        session: the agent's.
        entry: what it asks.
        form: why no form could be had of it, where one was tried.
    """
    told = entry_to_json(entry)
    content: dict[str, Any] = {
        "awaiting_operator": True,
        "session_id": session.id,
        "question_id": entry.id,
        "questions": questions_to_wire(shown(entry.ask.questions)),
        "next": "call session_answer with this question_id; the agent waits meanwhile",
    }
    if told["deadline"] is not None:
        content["deadline"] = told["deadline"]
    if form is not None:
        content["form"] = inert_line(form)
    return content


def running(session: Driven) -> dict[str, Any]:
    """Return that the turn runs on."""
    content: dict[str, Any] = {
        "running": True,
        "session_id": session.id,
        "next": "call session_status with max_wait_s to wait on, or session_cancel",
    }
    if session.said.strip():
        content["text"] = bounded(session.said)
    return content | _unable(session)


def ended(session: Driven, end: TurnEnd) -> dict[str, Any]:
    """Return how a turn ended."""
    content: dict[str, Any] = {
        "session_id": session.id,
        "outcome": end.outcome,
        "text": bounded(end.text),
    }
    if end.reason:
        content["reason"] = shorten(end.reason, _REASON_MAX)
    content["next"] = (
        "session_drive with this session_id gives it a further prompt; session_cancel ends it"
        if session.state == "idle"
        else "the session has ended; session_drive with a runtime starts another"
    )
    return content | _unable(session)


def standing(session: Driven) -> dict[str, Any]:
    """Return how a session stands."""
    content: dict[str, Any] = {
        "session_id": session.id,
        "runtime": session.runtime,
        "state": session.state,
        "title": shorten(session.title, _LINE_MAX),
        "cwd": inert_line(str(session.cwd)),
        "started_at": session.started_at.isoformat(timespec="seconds"),
        "turns": session.turns,
    }
    if session.last is not None and session.state != "working":
        content["outcome"] = session.last.outcome
    return content


def _unable(session: Driven) -> dict[str, Any]:
    """Say why the agent cannot ask, where it cannot."""
    return {} if session.cannot_ask is None else {"cannot_ask": shorten(session.cannot_ask, _REASON_MAX)}


def resolved_of(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Return who decided what."""
    return [_resolved(entry) for entry in entries]


def _resolved(entry: Entry) -> dict[str, Any]:
    content: dict[str, Any] = {"question_id": entry.id, "state": entry.state}
    if entry.by is not None:
        content["by"] = inert_line(entry.by)
    if isinstance(entry.reply, Answered):
        content["answers"] = answers_to_wire(shown(entry.ask.questions), entry.reply.answers)
    return content


def bounded(text: str) -> str:
    """Return the end of a text, inert, and say where the beginning is left out."""
    text = inert(text).strip()
    if len(text) <= TEXT_MAX:
        return text
    return f"[{len(text) - TEXT_MAX} characters left out] {text[-TEXT_MAX:]}"
