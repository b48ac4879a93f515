"""The JSON forms of what an inbox holds: as stores keep it, and as surfaces, scripts and the command line see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from attrs import evolve

from opask.errors import AnswerError
from opask.inbox.entries import (
    Change,
    Entry,
    EntryChanged,
    InboxSession,
    OperatorReply,
    SessionChanged,
    Snapshot,
    Update,
)
from opask.inert import shorten
from opask.outcomes import Answered, Cancelled, Skipped
from opask.questions import Answer, Ask, Option, Question
from opask.wire import answers_to_wire, questions_to_wire

__all__ = [
    "answers_from_json",
    "answers_to_json",
    "ask_from_json",
    "ask_to_json",
    "entry_to_json",
    "session_from_json",
    "session_to_json",
    "status_from_json",
    "status_to_json",
    "time_from_json",
    "time_to_json",
    "update_to_json",
]

_SHOWN_LENGTH = 80


def time_to_json(time: datetime | None) -> str | None:
    """Return a time in UTC, always of the same length, so that text sorts as times do."""
    return None if time is None else time.astimezone(UTC).isoformat(timespec="microseconds")


def time_from_json(text: str | None) -> datetime | None:
    """Read a time."""
    return None if text is None else datetime.fromisoformat(text)


# -- as surfaces see it ----------------------------------------------------------------------------------------------


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """Return an entry for a surface or a script.

    ``answers`` is in both forms where there are any: by question text as the agent gets them (``answers``), and by
    position (``selections``). Texts are as the agent and the operator wrote them: not safe to show as they are.
    """
    reply = entry.reply
    answered = reply if isinstance(reply, Answered) else None
    return {
        "id": entry.id,
        "session_id": entry.session_id,
        "kind": entry.ask.kind,
        "runtime": entry.runtime,
        "agent_id": entry.ask.agent_id,
        "tool_call_id": entry.ask.tool_call_id,
        "questions": questions_to_wire(entry.ask.questions),
        "state": entry.state,
        "asked_at": time_to_json(entry.ask.asked_at),
        "deadline": time_to_json(entry.deadline),
        "latest": time_to_json(entry.latest),
        "siblings_running": entry.siblings_running,
        "answers": None if answered is None else answers_to_wire(entry.ask.questions, answered.answers),
        "selections": None if answered is None else answers_to_json(answered.answers),
        "by": entry.by,
        "reason": entry.reason,
        "told": entry.told,
        "resolved_at": time_to_json(entry.resolved_at),
        "settled_at": time_to_json(entry.settled_at),
        "number": entry.number,
        "seq": entry.seq,
    }


def session_to_json(session: InboxSession) -> dict[str, Any]:
    """Return a session for a surface or a script."""
    return {
        "id": session.id,
        "runtime": session.runtime,
        "title": session.title,
        "host_id": session.host_id,
        "started_at": time_to_json(session.started_at),
        "ended_at": time_to_json(session.ended_at),
        "ending": session.ending,
        "running": session.is_running,
        "seq": session.seq,
    }


def update_to_json(update: Update) -> dict[str, Any]:
    """Return what a watcher is given: ``kind`` is ``snapshot``, ``entry``, ``session`` or ``cleared``."""
    if isinstance(update, Snapshot):
        return {
            "kind": "snapshot",
            "seq": update.seq,
            "entries": [entry_to_json(entry) for entry in update.entries],
            "sessions": [session_to_json(session) for session in update.sessions],
        }
    return _change_to_json(update)


def _change_to_json(change: Change) -> dict[str, Any]:
    if isinstance(change, EntryChanged):
        return {"kind": "entry", "seq": change.seq, "entry": entry_to_json(change.entry)}
    if isinstance(change, SessionChanged):
        return {"kind": "session", "seq": change.seq, "session": session_to_json(change.session)}
    return {"kind": "cleared", "seq": change.seq, "session_id": change.session_id}


def answers_to_json(answers: Sequence[Answer | None]) -> list[dict[str, Any] | None]:
    """Return answers by position: ``{"selected": [0], "text": null}`` each, None for a skipped question."""
    return [
        None if answer is None else {"selected": list(answer.selected), "text": answer.text}
        for answer in answers
    ]


def answers_from_json(questions: Sequence[Question], answers: object) -> tuple[Answer | None, ...]:
    """Read answers by position, strictly, as a surface or a script sends them.

    Each is null for a skipped question, or an object with ``selected`` (positions from 0) or ``labels`` (exactly as
    the options have them), and ``text`` (the operator's own words); nothing else.

    Raises:
        AnswerError: another form, a label that no option has or that several have, an empty answer.
    """
    if not isinstance(answers, list) or len(answers) != len(questions):
        raise AnswerError(
            f"the answers have to be a list of {len(questions)}, one a question, null to skip it"
        )
    return tuple(
        None if answer is None else _answer(index, question, answer)
        for index, (question, answer) in enumerate(zip(questions, answers, strict=True))
    )


def _answer(index: int, question: Question, answer: object) -> Answer:
    if not isinstance(answer, dict) or not answer.keys() <= {"selected", "labels", "text"}:
        raise AnswerError(
            f"answer {index + 1} has to be null or an object with selected, labels or text and nothing else",
            question=index,
        )
    selected, labels, text = answer.get("selected"), answer.get("labels"), answer.get("text")
    if selected is not None and labels is not None:
        raise AnswerError(f"answer {index + 1} has selected and labels; give one of them", question=index)
    if text is not None and not isinstance(text, str):
        raise AnswerError(f"the text of answer {index + 1} has to be a string", question=index)
    if labels is not None:
        selected = [_position(index, question, label) for label in _list(index, "labels", labels)]
    try:
        return Answer(tuple(_list(index, "selected", selected or [])), text)
    except AnswerError as error:
        raise AnswerError(f"answer {index + 1}: {error}", question=index) from None


def _list(index: int, name: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        raise AnswerError(f"{name} of answer {index + 1} has to be a list", question=index)
    return value


def _position(index: int, question: Question, label: object) -> int:
    found = [at for at, option in enumerate(question.options) if option.label == label]
    if not found:
        shown = shorten(label, _SHOWN_LENGTH) if isinstance(label, str) else type(label).__name__
        raise AnswerError(f"question {index + 1} has no option {shown!r}", question=index)
    if len(found) > 1:
        raise AnswerError(
            f"question {index + 1} has {len(found)} options of this label; choose by position", question=index
        )
    return found[0]


# -- as stores keep it -----------------------------------------------------------------------------------------------


def ask_to_json(ask: Ask) -> dict[str, Any]:
    """Return an ask as it is kept, without its meta."""
    return {
        "id": ask.id,
        "session_id": ask.session_id,
        "questions": questions_to_wire(ask.questions),
        "asked_at": time_to_json(ask.asked_at),
        "deadline": time_to_json(ask.deadline),
        "tool_call_id": ask.tool_call_id,
        "agent_id": ask.agent_id,
        "kind": ask.kind,
    }


def ask_from_json(kept: Mapping[str, Any]) -> Ask:
    """Read a kept ask."""
    asked_at = time_from_json(kept["asked_at"])
    assert asked_at is not None
    questions = tuple(
        Question(
            question["question"],
            question["header"],
            tuple(Option(option["label"], option["description"]) for option in question["options"]),
            question["multiSelect"],
        )
        for question in kept["questions"]
    )
    return Ask(
        kept["id"],
        kept["session_id"],
        questions,
        asked_at,
        time_from_json(kept["deadline"]),
        kept["tool_call_id"],
        kept["agent_id"],
        kind=kept.get("kind", "question"),
    )


def status_to_json(entry: Entry) -> dict[str, Any]:
    """Return what of an entry changes, but for its number and seq; what is None is left out."""
    reply: dict[str, Any] | None = None
    if isinstance(entry.reply, Answered):
        reply = {"answered": answers_to_json(entry.reply.answers), "by": entry.reply.by}
    elif isinstance(entry.reply, Skipped):
        reply = {"skipped": True, "by": entry.reply.by}
    elif entry.reply is not None:
        reply = {"cancelled": True}
    status = {
        "state": entry.state,
        "reply": reply,
        "by": entry.by,
        "reason": entry.reason,
        "told": entry.told,
        "deadline": time_to_json(entry.deadline),
        "latest": time_to_json(entry.latest),
        "siblings_running": entry.siblings_running,
        "resolved_at": time_to_json(entry.resolved_at),
        "settled_at": time_to_json(entry.settled_at),
    }
    return {name: value for name, value in status.items() if value is not None}


def status_from_json(entry: Entry, kept: Mapping[str, Any]) -> Entry:
    """Return an entry with a kept status in place of its own."""
    return evolve(
        entry,
        state=kept["state"],
        reply=_reply(kept.get("reply")),
        by=kept.get("by"),
        reason=kept.get("reason"),
        told=kept.get("told"),
        deadline=time_from_json(kept.get("deadline")),
        latest=time_from_json(kept.get("latest")),
        siblings_running=kept.get("siblings_running"),
        resolved_at=time_from_json(kept.get("resolved_at")),
        settled_at=time_from_json(kept.get("settled_at")),
    )


def _reply(kept: Mapping[str, Any] | None) -> OperatorReply | None:
    if kept is None:
        return None
    if "answered" in kept:
        answers = tuple(
            None if answer is None else Answer(tuple(answer["selected"]), answer["text"])
            for answer in kept["answered"]
        )
        return Answered(answers, kept["by"])
    return Skipped(kept["by"]) if "skipped" in kept else Cancelled("operator")


def session_from_json(kept: Mapping[str, Any]) -> InboxSession:
    """Read a session that `session_to_json` wrote."""
    started_at = time_from_json(kept["started_at"])
    assert started_at is not None
    return InboxSession(
        kept["id"],
        kept["runtime"],
        kept["title"],
        kept["host_id"],
        started_at,
        time_from_json(kept["ended_at"]),
        kept["ending"],
        kept["seq"],
    )
