"""JSON-RPC 2.0 as ACP uses it: messages in both directions, read without trusting them.

A field that is missing, or of another type than it should be, reads as absent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import frozen

__all__ = [
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "Fault",
    "Id",
    "Message",
    "Notification",
    "Request",
    "Response",
    "at",
    "decoded",
    "error",
    "items",
    "mapping",
    "notification",
    "read",
    "request",
    "result",
    "text",
]

Message: TypeAlias = Mapping[str, Any]
Id: TypeAlias = str | int | None

INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602


@frozen
class Request:
    """What the other side wants answered.

    Args:
        id: to be given back with the answer.
        method: what it wants.
        params: with what.
        raw: the message itself.
    """

    id: Id
    method: str
    params: Message
    raw: Message


@frozen
class Notification:
    """What the other side tells."""

    method: str
    params: Message


@frozen
class Response:
    """The answer to a request; one of ``result`` and ``error`` counts.

    Args:
        id: the request's.
        result: what came of it, an empty object where that is none.
        error: why nothing did, None where something did.
    """

    id: Id
    result: Message
    error: Message | None


@frozen
class Fault:
    """What is no message.

    Args:
        reason: why, in words.
        wants_answer: whether it looks like a request, so that its sender may wait.
    """

    reason: str
    wants_answer: bool = False


# -- reading -------------------------------------------------------------------------------------------------------


def decoded(line: str | bytes) -> object:
    """Return the JSON value of a line, None for a blank one, a `Fault` for what is no JSON."""
    try:
        read = line.decode() if isinstance(line, bytes) else line
        return json.loads(read) if read.strip() else None
    except UnicodeDecodeError:
        return Fault("the line is not UTF-8")
    except (ValueError, RecursionError):
        return Fault("the line is not JSON")


def read(value: object) -> Request | Notification | Response | Fault:
    """Tell what a JSON value is."""
    if not isinstance(value, Mapping):
        return Fault("the message is no JSON object")
    method, id_ = value.get("method"), value.get("id")
    if "method" in value:
        if not isinstance(method, str) or not method:
            return Fault("the message's method is no text", wants_answer="id" in value)
        if "id" not in value:
            return Notification(method, mapping(value, "params"))
        if not _is_id(id_):
            return Fault(f"the id of a request of {method} is no id", wants_answer=True)
        return Request(id_, method, mapping(value, "params"), value)
    if "id" not in value or not ("result" in value or "error" in value):
        return Fault("the message is no request, no response and no notification")
    if not _is_id(id_):
        return Fault("the id of a response is no id")
    failed = value.get("error") is not None
    return Response(id_, mapping(value, "result"), mapping(value, "error") if failed else None)


def _is_id(value: object) -> bool:
    return value is None or (isinstance(value, str | int) and not isinstance(value, bool))


def text(message: Message, name: str) -> str | None:
    """Return a field that has to be text, None where it is not, or empty."""
    value = message.get(name)
    return value if isinstance(value, str) and value else None


def mapping(message: Message, name: str) -> Message:
    """Return a field that has to be an object, an empty one where it is not."""
    value = message.get(name)
    return value if isinstance(value, Mapping) else {}


def items(message: Message, name: str) -> Sequence[Any]:
    """Return a field that has to be a list, an empty one where it is not."""
    value = message.get(name)
    return value if isinstance(value, list | tuple) else ()


def at(message: Message, *path: str) -> Any:
    """Return what stands at a path of names within an object, None where nothing does."""
    value: Any = message
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


# -- writing -------------------------------------------------------------------------------------------------------


def request(id_: Id, method: str, params: Message) -> Message:
    """Return a request."""
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": dict(params)}


def notification(method: str, params: Message) -> Message:
    """Return a notification."""
    return {"jsonrpc": "2.0", "method": method, "params": dict(params)}


def result(id_: Id, value: Message) -> Message:
    """Return the answer to a request."""
    return {"jsonrpc": "2.0", "id": id_, "result": dict(value)}


def error(id_: Id, code: int, message: str) -> Message:
    """Return the refusal of a request."""
    return {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": message}}
