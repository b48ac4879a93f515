"""The routes of the API, and how a request is held to the form that its operation takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from opask.inert import shorten
from opask.surfaces.web.guards import WHO, read_body
from opask.surfaces.web.handlers import Backend, Call
from opask.surfaces.web.operations import OPERATIONS, Operation
from opask.surfaces.web.refusals import Refusal

__all__ = ["routes"]

M = TypeVar("M", bound=BaseModel)
_NAME_LENGTH = 60


def routes(backend: Backend) -> list[Route]:
    """Return the API's routes.

    An id may have slashes in it, as a host's session ids may: where something stands behind the id, that is looked for first.
    """
    made = [
        Route(
            operation.path.replace("{id}", "{id:opask_id}"),
            _Endpoint(operation, backend),
            methods=[operation.method],
        )
        for operation in sorted(OPERATIONS, key=lambda operation: operation.path.endswith("{id}"))
    ]
    described = partial(_described, (files("opask.surfaces.web") / "openapi.json").read_bytes())
    return [*made, Route("/api/openapi.json", described)]


async def _described(description: bytes, request: Request) -> Response:
    return Response(description, media_type="application/json")


class _IdConvertor(Convertor[str]):
    """Takes any text in a path for an id; Starlette's own `path` takes no newline."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("opask_id", _IdConvertor())


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


def _held(what: str, model: type[M], given: object) -> M:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(shorten(str(part), _NAME_LENGTH) for part in first["loc"])
        at = f" at {where}" if where else ""
        why = "there is no such field" if first["type"] == "extra_forbidden" else first["msg"]
        raise Refusal(400, "bad_request", f"In {what}{at}: {why}.") from None
