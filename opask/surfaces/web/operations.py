"""The table of what the API does: the routes are made from it, and openapi.json."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

from attrs import frozen
from pydantic import BaseModel
from starlette.types import ASGIApp

from opask.surfaces.web import handlers, models
from opask.surfaces.web.handlers import TYPING, Call

__all__ = ["OPERATIONS", "Operation"]

B = TypeVar("B", bound=BaseModel)
Q = TypeVar("Q", bound=BaseModel)


@frozen
class Operation(Generic[B, Q]):
    """One thing that the API does.

    Args:
        method: its HTTP method.
        path: its path below the mount point, with ``{id}`` for an id.
        name: its name in openapi.json.
        summary: what it does, in a sentence.
        run: does it; what comes back is sent.
        body: the model of its body.
        query: the model of its query.
        reply: the model of its response, None for none.
        refusals: the statuses it refuses with beside 400, 401, 403 and 421.
        streams: whether it is a feed.
    """

    method: str
    path: str
    name: str
    summary: str
    run: Callable[[Call[B, Q]], Awaitable[ASGIApp]]
    body: type[B]
    query: type[Q]
    reply: type[BaseModel] | None = None
    refusals: tuple[int, ...] = ()
    streams: bool = False

    @property
    def takes_body(self) -> bool:
        """Whether a body is read."""
        return self.method == "POST"


def _get(
    path: str,
    name: str,
    summary: str,
    run: Callable[[Call[models.EmptyBody, Q]], Awaitable[ASGIApp]],
    *,
    query: type[Q],
    reply: type[BaseModel] | None = None,
    refusals: tuple[int, ...] = (),
) -> Operation[models.EmptyBody, Q]:
    return Operation(
        "GET", path, name, summary, run, models.EmptyBody, query, reply, refusals, streams=reply is None
    )


def _post(
    path: str,
    name: str,
    summary: str,
    run: Callable[[Call[B, models.NoQuery]], Awaitable[ASGIApp]],
    *,
    body: type[B],
    reply: type[BaseModel] | None,
    refusals: tuple[int, ...] = (404, 409),
) -> Operation[B, models.NoQuery]:
    refusals = (*refusals, 408, 413, 415)
    return Operation("POST", path, name, summary, run, body, models.NoQuery, reply, refusals)


_ONE: Final = "/api/asks/{id}"
_SESSION: Final = "/api/sessions/{id}"

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    _get(
        "/api/asks",
        "list_asks",
        "List asks, oldest first.",
        handlers.list_asks,
        query=models.AsksQuery,
        reply=models.AsksReply,
    ),
    _get(
        _ONE,
        "show_ask",
        "Show an ask.",
        handlers.show_ask,
        query=models.NoQuery,
        reply=models.AskReply,
        refusals=(404,),
    ),
    _post(
        f"{_ONE}/answer",
        "answer_ask",
        "Answer an ask; the first valid answer stands, and is durable.",
        handlers.answer,
        body=models.AnswerBody,
        reply=models.AskReply,
    ),
    _post(
        f"{_ONE}/skip",
        "skip_ask",
        "Skip an ask: the agent is told that the operator chose not to answer.",
        handlers.skip,
        body=models.SessionBody,
        reply=models.AskReply,
    ),
    _post(
        f"{_ONE}/cancel",
        "cancel_ask",
        "Cancel an ask: the agent is told to do nothing that depends on it.",
        handlers.cancel,
        body=models.SessionBody,
        reply=models.AskReply,
    ),
    _post(
        f"{_ONE}/typing",
        "extend_ask",
        f"Say that the operator is at it: the deadline is {TYPING.total_seconds():g} s away again, where it can be.",
        handlers.extend,
        body=models.SessionBody,
        reply=models.AskReply,
    ),
    _post(
        f"{_ONE}/follow-up",
        "follow_up",
        "Turn a late answer into the text of the agent's next prompt.",
        handlers.write_follow_up,
        body=models.FollowUpBody,
        reply=models.FollowUpReply,
        refusals=(404,),
    ),
    _get(
        "/api/sessions",
        "list_sessions",
        "List sessions, oldest first.",
        handlers.list_sessions,
        query=models.SessionsQuery,
        reply=models.SessionsReply,
    ),
    _get(
        _SESSION,
        "show_session",
        "Show a session.",
        handlers.show_session,
        query=models.NoQuery,
        reply=models.SessionReply,
        refusals=(404,),
    ),
    _get(
        f"{_SESSION}/conversation",
        "show_conversation",
        "Show the end of a session's log, or the part before a position, with each ask where it was asked.",
        handlers.show_conversation,
        query=models.ConversationQuery,
        reply=models.ConversationReply,
        refusals=(404,),
    ),
    _get(
        f"{_SESSION}/events",
        "list_events",
        "List a session's events behind a position.",
        handlers.list_events,
        query=models.EventsQuery,
        reply=models.EventsReply,
        refusals=(404,),
    ),
    _post(
        f"{_SESSION}/clear",
        "clear_session",
        "Forget a conversation with its cards; its open asks are to be decided first.",
        handlers.clear,
        body=models.EmptyBody,
        reply=None,
    ),
    _get(
        "/api/feed",
        "watch_inbox",
        "Hear every change of the inbox: a snapshot, or what came after the last event, and then each as it happens.",
        handlers.watch_inbox,
        query=models.FeedQuery,
    ),
    _get(
        f"{_SESSION}/feed",
        "watch_events",
        "Hear a session's events behind a position, and then each as it is logged.",
        handlers.watch_events,
        query=models.LogQuery,
        refusals=(404,),
    ),
)
"""What the API does."""
