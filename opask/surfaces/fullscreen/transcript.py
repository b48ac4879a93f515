"""A session's conversation as lines: what the agent said and did, and its questions where they were asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import evolve

from opask.inbox import Card, Conversation, Entry, LoggedEvent, outcome_of
from opask.inert import inert, inert_line, shorten
from opask.outcomes import Answered
from opask.surfaces.frame import Line
from opask.surfaces.wording import answer_parts, ending, title

__all__ = ["transcript"]

_TOOL: Final = 80
_SHOWN: Final = 40_000  # characters of what was said last; all of it would take the screen seconds to lay out
_OTHER: Final = 100  # characters that any other event counts as
_QUESTION: Final = 100  # the card has all of it


def transcript(conversation: Conversation, chosen: str | None = None) -> tuple[Line, ...]:
    """Give the last of the lines, unwrapped; agents' text in them is inert.

    Args:
        conversation: the session.
        chosen: the ask that is shown beside it, whose place is marked.
    """
    lines: list[Line] = []
    said = ""
    items, is_whole = _last(conversation)
    for card in conversation.pinned:
        lines += _asked(card.entry, is_chosen=card.entry.id == chosen)
    if not is_whole:
        lines.append((("dim", "· what came before is not shown here"),))
    for item in items:
        if isinstance(item, LoggedEvent):
            if item.event.get("event") == "text":
                said += _text(item.event, "text")
                continue
            lines += _said(said)
            said = ""
            lines += _told(item.event)
        else:
            lines += _said(said)
            said = ""
            lines += _asked(item.entry, is_chosen=item.entry.id == chosen)
    return (*lines, *_said(said))


def _last(conversation: Conversation) -> tuple[tuple[LoggedEvent | Card, ...], bool]:
    """Return what can be shown of the items, the first perhaps cut, and whether that is all."""
    room, shown = _SHOWN, list[LoggedEvent | Card]()
    for item in reversed(conversation.items):
        if room <= 0:
            return tuple(reversed(shown)), False
        text = _text(item.event, "text") if isinstance(item, LoggedEvent) else ""
        if isinstance(item, LoggedEvent) and len(text) > room:
            shown.append(evolve(item, event={**item.event, "text": text[-room:]}))
            return tuple(reversed(shown)), False
        shown.append(item)
        room -= max(len(text), _OTHER if not text else 1)
    return tuple(reversed(shown)), True


def _said(text: str) -> Iterator[Line]:
    if text.strip():
        for row in inert(text).strip("\n").split("\n"):
            yield (("plain", row),)


def _told(event: Mapping[str, Any]) -> Iterator[Line]:
    match event.get("event"):
        case "tool_announced" if event.get("ask") is None:
            yield (("dim", f"· {shorten(_text(event, 'tool'), _TOOL)}"),)
        case "tool_finished" if event.get("is_error"):
            yield (("dim", f"· {shorten(_text(event, 'tool'), _TOOL)} failed"),)
        case "native_ask_refused":
            yield (
                (
                    "dim",
                    f"· {shorten(_text(event, 'tool'), _TOOL)} refused: the agent has another way to ask",
                ),
            )
        case "ask_tool_missing":
            yield (
                ("warning", f"! the ask tool did not reach the agent ({inert_line(_text(event, 'reason'))})"),
            )
        case "log_gap":
            yield (("dim", "· some events are missing here"),)
        case "turn_ended":
            yield (("dim", "· the turn ended"),)
        case _:
            pass


def _asked(entry: Entry, *, is_chosen: bool) -> Iterator[Line]:
    mark = "❯ " if is_chosen else "│ "
    outcome = outcome_of(entry)
    for number, question in enumerate(entry.ask.questions):
        yield (
            ("edge", mark),
            ("tag", title(question)),
            ("", "  "),
            ("asked", shorten(question.text, _QUESTION)),
        )
        if isinstance(outcome, Answered):
            answer = outcome.answers[number]
            words = (
                "  ".join(f"✓ {part}" for part in answer_parts(question, answer)) if answer else "– skipped"
            )
            yield (("edge", mark), ("answer" if answer else "skipped", words))
    if outcome is None:
        yield (("edge", mark), ("note", "waits for an answer"))
    elif entry.state == "orphaned":
        yield (("edge", mark), ("skipped", f"– {inert_line(entry.reason or 'its host is gone')}"))
    elif not isinstance(outcome, Answered):
        yield (("edge", mark), ("skipped", f"– {ending(entry.ask, outcome, None) or entry.state}"))


def _text(event: Mapping[str, Any], name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""
