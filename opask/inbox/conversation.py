"""A session's log with its asks in it: each question where it was asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from attrs import frozen

from opask.inbox.entries import Entry, LoggedEvent

__all__ = ["Card", "Conversation", "Item", "place"]


@frozen
class Card:
    """An ask in its place.

    Args:
        entry: the ask.
        position: the position of the event that it stands at; None where it is pinned.
    """

    entry: Entry
    position: int | None = None


Item: TypeAlias = LoggedEvent | Card


@frozen
class Conversation:
    """A session as it is to be shown.

    Args:
        items: events and cards, in order; a card stands right behind the announcement of its call.
        pinned: the cards of asks that belong to no call that was announced, oldest first.
    """

    items: tuple[Item, ...]
    pinned: tuple[Card, ...]


def place(events: Iterable[LoggedEvent], entries: Iterable[Entry]) -> Conversation:
    """Put each ask of a session into its conversation.

    An ask belongs to the call that it came with, or that a later ``question_correlated`` names. Where such a call was
    announced, its card stands behind the announcement; else it is pinned.
    """
    events, entries = tuple(events), tuple(entries)
    calls = {entry.id: entry.ask.tool_call_id for entry in entries if entry.ask.tool_call_id}
    announced: dict[str, int] = {}
    for logged in events:
        name, call = logged.event.get("event"), logged.event.get("tool_call_id")
        if not isinstance(call, str):
            continue
        if name == "tool_announced":
            announced.setdefault(call, logged.position)
        elif name in {"question_asked", "question_correlated"}:
            calls[_text(logged.event, "question_id")] = call
    at: dict[int, list[Card]] = {}
    pinned: list[Card] = []
    for entry in entries:
        position = announced.get(calls.get(entry.id, ""))
        if position is None:
            pinned.append(Card(entry))
        else:
            at.setdefault(position, []).append(Card(entry, position))
    items: list[Item] = []
    for logged in events:
        items.append(logged)
        items += at.get(logged.position, ())
    return Conversation(tuple(items), tuple(pinned))


def _text(event: Mapping[str, Any], name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""
