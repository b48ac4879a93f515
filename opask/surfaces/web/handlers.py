"""What each operation of the API does, given a request that has the right form."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, TypeAlias, TypeVar

from attrs import frozen
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from opask.inbox import (
    OPEN_STATES,
    Card,
    Entry,
    Item,
    OperatorReply,
    ReadsReply,
    Store,
    WrongSessionError,
    answers_from_json,
    entry_to_json,
    follow_up,
    place,
    session_to_json,
)
from opask.inert import shorten
from opask.outcomes import Answered, Cancelled, Skipped
from opask.questions import Answer, Ask
from opask.surfaces.web import models
from opask.surfaces.web.feed import Feeds
from opask.surfaces.web.refusals import JsonResponse

__all__ = [
    "TYPING",
    "Backend",
    "Call",
    "answer",
    "cancel",
    "clear",
    "extend",
    "list_asks",
    "list_events",
    "list_sessions",
    "show_ask",
    "show_conversation",
    "show_session",
    "skip",
    "watch_events",
    "watch_inbox",
    "write_follow_up",
]

B = TypeVar("B", bound=BaseModel)
Q = TypeVar("Q", bound=BaseModel)

TYPING: Final = timedelta(seconds=60)
"""How far from now the deadline is moved to by an operator who is typing."""

_WHO_LENGTH: Final = 60
_NAME_LENGTH: Final = 60


@frozen
class Backend:
    """What the operations work on.

    Args:
        store: the inbox.
        feeds: its open feeds.
        surface: what answers are recorded as coming from.
    """

    store: Store
    feeds: Feeds
    surface: str


@frozen
class Call(Generic[B, Q]):
    """One request.

    Args:
        backend: what it is for.
        id: the id in its path, empty where there is none.
        who: who makes it, empty where that is not known.
        body: its body.
        query: its query.
        last_id: the last event of a feed that the reader has, None where it does not say.
    """

    backend: Backend
    id: str
    who: str
    body: B
    query: Q
    last_id: str | None

    @property
    def store(self) -> Store:
        """The inbox."""
        return self.backend.store

    @property
    def by(self) -> str:
        """Whom an answer is recorded as."""
        who = shorten(self.who, _WHO_LENGTH)
        return f"{self.backend.surface}:{who}" if who else self.backend.surface


# -- asks --------------------------------------------------------------------------------------------------------------

_Plain: TypeAlias = Call[models.EmptyBody, models.NoQuery]


async def list_asks(call: Call[models.EmptyBody, models.AsksQuery]) -> Response:
    """List asks."""
    query = call.query
    found = await call.store.entries(
        session_id=query.session,
        states=OPEN_STATES if query.state == "open" else None,
        limit=query.limit,
        before=query.before,
    )
    return JsonResponse({"asks": [entry_to_json(entry) for entry in found]})


async def show_ask(call: _Plain) -> Response:
    """Show an ask."""
    return _entry_response(await call.store.entry(call.id))


async def answer(call: Call[models.AnswerBody, models.NoQuery]) -> Response:
    """Answer an ask."""
    by, forms = call.by, call.body.answers
    return await _resolve(call, lambda ask: Answered(_answers(ask, forms), by))


async def skip(call: Call[models.SessionBody, models.NoQuery]) -> Response:
    """Skip an ask."""
    return await _resolve(call, Skipped(call.by))


async def cancel(call: Call[models.SessionBody, models.NoQuery]) -> Response:
    """Cancel an ask."""
    return await _resolve(call, Cancelled("operator"))


async def _resolve(
    call: Call[models.AnswerBody, models.NoQuery] | Call[models.SessionBody, models.NoQuery],
    reply: OperatorReply | ReadsReply,
) -> Response:
    entry = await call.store.resolve(call.id, reply, session_id=call.body.session_id, by=call.by)
    return _entry_response(entry)


async def extend(call: Call[models.SessionBody, models.NoQuery]) -> Response:
    """Move an ask's deadline, for an operator who is at it."""
    await _entry_of(call, call.body.session_id)
    return _entry_response(await call.store.extend(call.id, datetime.now(UTC) + TYPING))


async def write_follow_up(call: Call[models.FollowUpBody, models.NoQuery]) -> Response:
    """Turn a late answer into a prompt."""
    entry = await call.store.entry(call.id)
    return JsonResponse({"text": follow_up(entry.ask, _answers(entry.ask, call.body.answers))})


def _answers(ask: Ask, forms: list[models.AnswerForm | None]) -> tuple[Answer | None, ...]:
    given = [None if form is None else form.model_dump(exclude_unset=True) for form in forms]
    return answers_from_json(ask.questions, given)


async def _entry_of(call: Call[Any, Any], session_id: str) -> Entry:
    entry = await call.store.entry(call.id)
    if entry.session_id != session_id:
        raise WrongSessionError(
            f"ask {entry.id} is not of session {shorten(session_id, _NAME_LENGTH)}; nothing was changed",
            ask_id=entry.id,
        )
    return entry


def _entry_response(entry: Entry) -> Response:
    return JsonResponse({"ask": entry_to_json(entry)})


# -- sessions ----------------------------------------------------------------------------------------------------------


async def list_sessions(call: Call[models.EmptyBody, models.SessionsQuery]) -> Response:
    """List sessions."""
    sessions = await call.store.sessions()
    ended = [each.id for each in sessions if not each.is_running]
    left_out = set(ended[: max(0, len(ended) - call.query.limit)])
    return JsonResponse({"sessions": [session_to_json(each) for each in sessions if each.id not in left_out]})


async def show_session(call: _Plain) -> Response:
    """Show a session."""
    return JsonResponse({"session": session_to_json(await call.store.session(call.id))})


async def show_conversation(call: Call[models.EmptyBody, models.ConversationQuery]) -> Response:
    """Show a part of a session's log with its asks, the end of it by default."""
    limit, before = call.query.limit, call.query.before
    await call.store.session(call.id)
    # Events first: a card that came in between is pinned until the next look, where the other way round it is missed.
    events = await call.store.events(call.id)
    placed = place(events, await call.store.entries(session_id=call.id))
    shown, earlier = _part(placed.items, limit, before)
    pinned = [] if before is not None else [card.entry for card in placed.pinned]
    items = [
        {"kind": "card", "ask": entry_to_json(item.entry)}
        if isinstance(item, Card)
        else {"kind": "event", "position": item.position, "event": item.event}
        for item in shown
    ]
    return JsonResponse(
        {
            "items": items,
            "pinned": [
                entry_to_json(entry)
                for at, entry in enumerate(pinned)
                if entry.is_open or at >= len(pinned) - limit
            ],
            "position": events[-1].position if events else 0,
            "before": earlier,
        }
    )


def _part(items: Sequence[Item], limit: int, before: int | None) -> tuple[Sequence[Item], int | None]:
    """Return the last so many items before a position, and the position that gives what is before these.

    A card goes with the event that it stands at, so that each is in one part.
    """
    end = len(items) if before is None else bisect_left(items, before, key=_position)
    start = max(0, end - limit)
    while start and isinstance(items[start], Card):
        start -= 1
    return items[start:end], _position(items[start]) if start else None


def _position(item: Item) -> int:
    assert item.position is not None  # only pinned cards have none
    return item.position


async def list_events(call: Call[models.EmptyBody, models.EventsQuery]) -> Response:
    """List a session's events."""
    await call.store.session(call.id)
    found = await call.store.events(call.id, after=call.query.after, limit=call.query.limit)
    return JsonResponse({"events": [{"position": each.position, "event": each.event} for each in found]})


async def clear(call: _Plain) -> Response:
    """Forget a conversation."""
    await call.store.clear_session(call.id)
    return Response(status_code=204)


# -- feeds -------------------------------------------------------------------------------------------------------------


async def watch_inbox(call: Call[models.EmptyBody, models.FeedQuery]) -> ASGIApp:
    """Stream the inbox's changes."""
    last = call.query.last if call.last_id is None else call.last_id
    feeds, watches = call.backend.feeds, call.query.watch == "1"
    await (
        call.store.leases()
    )  # of an inbox that has failed a status tells, where a feed that ends at once does not

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await feeds.inbox(receive, send, last=last, watches=watches)

    return stream


async def watch_events(call: Call[models.EmptyBody, models.LogQuery]) -> ASGIApp:
    """Stream a session's events."""
    await call.store.session(call.id)
    last = call.last_id or ""
    after = int(last) if last.isascii() and last.isdecimal() and len(last) <= 18 else call.query.after

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await call.backend.feeds.log(receive, send, call.id, after=after)

    return stream
