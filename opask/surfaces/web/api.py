"""The JSON API: one table of operations, from which the routes and openapi.json are made."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.resources import files
from typing import Any, Final, Generic, TypeVar

from attrs import frozen
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from opask.inbox import (
    OPEN_STATES,
    Card,
    Entry,
    OperatorReply,
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
from opask.questions import Answer
from opask.surfaces.web import models
from opask.surfaces.web.feed import Feeds
from opask.surfaces.web.guards import WHO, read_body
from opask.surfaces.web.refusals import JsonResponse, Refusal

__all__ = ["OPERATIONS", "Backend", "Operation", "routes"]

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


# -- asks --------------------------------------------------------------------------------------------------------------

_Plain = Call[models.EmptyBody, models.NoQuery]


async def _asks(call: Call[models.EmptyBody, models.AsksQuery]) -> Response:
    query = call.query
    found = await call.store.entries(
        session_id=query.session,
        states=OPEN_STATES if query.state == "open" else None,
        limit=query.limit,
        before=query.before,
    )
    return JsonResponse({"asks": [entry_to_json(entry) for entry in found]})


async def _ask(call: _Plain) -> Response:
    return _entry_response(await call.store.entry(call.id))


async def _answer(call: Call[models.AnswerBody, models.NoQuery]) -> Response:
    entry = await _entry_of(call, call.body.session_id)
    return await _resolve(call, Answered(_answers(entry, call.body.answers), call.by))


async def _skip(call: Call[models.SessionBody, models.NoQuery]) -> Response:
    return await _resolve(call, Skipped(call.by))


async def _cancel(call: Call[models.SessionBody, models.NoQuery]) -> Response:
    return await _resolve(call, Cancelled("operator"))


async def _resolve(
    call: Call[models.AnswerBody, models.NoQuery] | Call[models.SessionBody, models.NoQuery],
    reply: OperatorReply,
) -> Response:
    entry = await call.store.resolve(call.id, reply, session_id=call.body.session_id, by=call.by)
    return _entry_response(entry)


async def _typing(call: Call[models.SessionBody, models.NoQuery]) -> Response:
    await _entry_of(call, call.body.session_id)
    return _entry_response(await call.store.extend(call.id, datetime.now(UTC) + TYPING))


async def _follow_up(call: Call[models.FollowUpBody, models.NoQuery]) -> Response:
    entry = await call.store.entry(call.id)
    return JsonResponse({"text": follow_up(entry.ask, _answers(entry, call.body.answers))})


def _answers(entry: Entry, forms: list[models.AnswerForm | None]) -> tuple[Answer | None, ...]:
    given = [None if form is None else form.model_dump(exclude_unset=True) for form in forms]
    return answers_from_json(entry.ask.questions, given)


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


async def _sessions(call: _Plain) -> Response:
    return JsonResponse({"sessions": [session_to_json(each) for each in await call.store.sessions()]})


async def _session(call: _Plain) -> Response:
    return JsonResponse({"session": session_to_json(await call.store.session(call.id))})


async def _conversation(call: _Plain) -> Response:
    await call.store.session(call.id)
    # Events first: a card that came in between is pinned until the next look, where the other way round it is missed.
    events = await call.store.events(call.id)
    placed = place(events, await call.store.entries(session_id=call.id))
    items = [
        {"kind": "card", "ask": entry_to_json(item.entry)}
        if isinstance(item, Card)
        else {"kind": "event", "position": item.position, "event": item.event}
        for item in placed.items
    ]
    return JsonResponse(
        {
            "items": items,
            "pinned": [entry_to_json(card.entry) for card in placed.pinned],
            "position": events[-1].position if events else 0,
        }
    )


async def _events(call: Call[models.EmptyBody, models.EventsQuery]) -> Response:
    await call.store.session(call.id)
    found = await call.store.events(call.id, after=call.query.after, limit=call.query.limit)
    return JsonResponse({"events": [{"position": each.position, "event": each.event} for each in found]})


async def _clear(call: _Plain) -> Response:
    await call.store.clear_session(call.id)
    return Response(status_code=204)


# -- feeds -------------------------------------------------------------------------------------------------------------


async def _feed(call: Call[models.EmptyBody, models.FeedQuery]) -> ASGIApp:
    last = call.query.last if call.last_id is None else call.last_id
    feeds, watches = call.backend.feeds, call.query.watch == "1"

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await feeds.inbox(receive, send, last=last, watches=watches)

    return stream


async def _log(call: Call[models.EmptyBody, models.LogQuery]) -> ASGIApp:
    await call.store.session(call.id)
    last = call.last_id or ""
    after = int(last) if last.isascii() and last.isdecimal() and len(last) <= 18 else call.query.after

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await call.backend.feeds.log(receive, send, call.id, after=after)

    return stream


# -- the table ---------------------------------------------------------------------------------------------------------


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
        _asks,
        query=models.AsksQuery,
        reply=models.AsksReply,
    ),
    _get(
        _ONE,
        "show_ask",
        "Show an ask.",
        _ask,
        query=models.NoQuery,
        reply=models.AskReply,
        refusals=(404,),
    ),
    _post(
        f"{_ONE}/answer",
        "answer_ask",
        "Answer an ask; the first valid answer stands, and is durable.",
        _answer,
        body=models.AnswerBody,
        reply=models.AskReply,
    ),
    _post(
        f"{_ONE}/skip",
        "skip_ask",
        "Skip an ask: the agent is told that the operator chose not to answer.",
        _skip,
        body=models.SessionBody,
        reply=models.AskReply,
    ),
    _post(
        f"{_ONE}/cancel",
        "cancel_ask",
        "Cancel an ask: the agent is told to do nothing that depends on it.",
        _cancel,
        body=models.SessionBody,
        reply=models.AskReply,
    ),
    _post(
        f"{_ONE}/typing",
        "extend_ask",
        f"Say that the operator is at it: the deadline is {TYPING.total_seconds():g} s away again, where it can be.",
        _typing,
        body=models.SessionBody,
        reply=models.AskReply,
    ),
    _post(
        f"{_ONE}/follow-up",
        "follow_up",
        "Turn a late answer into the text of the agent's next prompt.",
        _follow_up,
        body=models.FollowUpBody,
        reply=models.FollowUpReply,
        refusals=(404,),
    ),
    _get(
        "/api/sessions",
        "list_sessions",
        "List sessions, oldest first.",
        _sessions,
        query=models.NoQuery,
        reply=models.SessionsReply,
    ),
    _get(
        _SESSION,
        "show_session",
        "Show a session.",
        _session,
        query=models.NoQuery,
        reply=models.SessionReply,
        refusals=(404,),
    ),
    _get(
        f"{_SESSION}/conversation",
        "show_conversation",
        "Show a session's log with each ask where it was asked.",
        _conversation,
        query=models.NoQuery,
        reply=models.ConversationReply,
        refusals=(404,),
    ),
    _get(
        f"{_SESSION}/events",
        "list_events",
        "List a session's events behind a position.",
        _events,
        query=models.EventsQuery,
        reply=models.EventsReply,
        refusals=(404,),
    ),
    _post(
        f"{_SESSION}/clear",
        "clear_session",
        "Forget a conversation with its cards; its open asks are to be decided first.",
        _clear,
        body=models.EmptyBody,
        reply=None,
    ),
    _get(
        "/api/feed",
        "watch_inbox",
        "Hear every change of the inbox: a snapshot, or what came after the last event, and then each as it happens.",
        _feed,
        query=models.FeedQuery,
    ),
    _get(
        f"{_SESSION}/feed",
        "watch_events",
        "Hear a session's events behind a position, and then each as it is logged.",
        _log,
        query=models.LogQuery,
        refusals=(404,),
    ),
)
"""What the API does."""


def routes(backend: Backend) -> list[Route]:
    """Return the API's routes."""
    made = [
        Route(
            operation.path.replace("{id}", "{id:str}"),
            _Endpoint(operation, backend),
            methods=[operation.method],
        )
        for operation in OPERATIONS
    ]
    described = partial(_described, (files("opask.surfaces.web") / "openapi.json").read_bytes())
    return [*made, Route("/api/openapi.json", described)]


async def _described(description: bytes, request: Request) -> Response:
    return Response(description, media_type="application/json")


class _Endpoint:
    """Serves one operation."""

    def __init__(self, operation: Operation[Any, Any], backend: Backend) -> None:
        self._operation = operation
        self._backend = backend

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation = self._operation
        request = Request(scope, receive)
        if operation.streams and request.method != operation.method:
            raise Refusal(405, "method_not_allowed", "A feed is read by GET.", headers={"Allow": "GET"})
        query = _held("the query", operation.query, _query_of(request))
        body = await read_body(request) if operation.takes_body else b"{}"
        call = Call(
            self._backend,
            request.path_params.get("id", ""),
            scope.get(WHO, ""),
            _held("the body", operation.body, _json_of(body)),
            query,
            request.headers.get("last-event-id"),
        )
        response = await operation.run(call)
        await response(scope, receive, send)


def _query_of(request: Request) -> Mapping[str, str]:
    given = request.query_params.multi_items()
    if len({name for name, _ in given}) < len(given):
        raise Refusal(400, "bad_request", "The query names something twice.")
    return dict(given)


def _json_of(body: bytes) -> object:
    try:
        return json.loads(body, parse_constant=_no_constant, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        why = "it is nested too deep" if isinstance(error, RecursionError) else shorten(str(error), 120)
        raise Refusal(400, "bad_json", f"The body is no JSON: {why}.") from None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("an object names something twice")
    return made


def _held(what: str, model: type[B], given: object) -> B:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(shorten(str(part), _NAME_LENGTH) for part in first["loc"])
        at = f" at {where}" if where else ""
        why = "there is no such field" if first["type"] == "extra_forbidden" else first["msg"]
        raise Refusal(400, "bad_request", f"In {what}{at}: {why}.") from None
