"""What several services demand of a request in the same way; each refusal names the place."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from .dialect import MalformedRequestError, Message, ModelRequest, ToolOffer
from .filler import tokens

__all__ = [
    "OPENAI_NAME",
    "bearer",
    "call_arguments",
    "counts",
    "invalid_request",
    "model_of",
    "name_of",
    "nonempty",
    "parts_text",
    "schema_of",
    "streams",
    "twice",
]

OPENAI_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What a tool may be called in either dialect of OpenAI."""


def bearer(headers: Mapping[str, str]) -> None:
    """Demand a bearer token."""
    if not headers.get("authorization", "").startswith("Bearer "):
        raise MalformedRequestError("authorization: a bearer token is required")


def model_of(body: Mapping[str, Any]) -> str:
    """Read the model's name."""
    return nonempty(body.get("model"), "model")


def nonempty(value: object, where: str) -> str:
    """Read a string that is not empty."""
    if not isinstance(value, str) or not value:
        raise MalformedRequestError(f"{where}: a string is required")
    return value


def streams(body: Mapping[str, Any]) -> bool:
    """Read whether the reply is to be streamed; null is no."""
    stream = body.get("stream") or False
    if not isinstance(stream, bool):
        raise MalformedRequestError("stream: must be a boolean")
    return stream


def name_of(thing: Mapping[str, Any], where: str, pattern: re.Pattern[str]) -> str:
    """Read the name of a tool, of a form that the service demands."""
    name = thing.get("name")
    if not isinstance(name, str) or not pattern.fullmatch(name):
        raise MalformedRequestError(f"{where}.name: must match {pattern.pattern}, found {name!r}")
    return name


def schema_of(schema: Any, where: str, name: str) -> Mapping[str, Any]:
    """Read the schema of a tool's arguments, which are an object; none says nothing of them."""
    schema = schema or {"type": "object"}
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise MalformedRequestError(f"{where}.parameters: a schema of type object is required for {name}")
    return schema


def twice(offers: Iterable[ToolOffer]) -> str | None:
    """Give a name that two of the tools have."""
    names = [offer.name for offer in offers]
    return next((name for name in sorted(names) if names.count(name) > 1), None)


def call_arguments(text: object, where: str) -> dict[str, Any]:
    """Read the arguments of a call from a string with a JSON object."""
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise MalformedRequestError(
            f"{where}.arguments: a string with a JSON object is required, found {text!r}"
        )
    return value


def parts_text(content: object, where: str, kinds: Collection[str]) -> str:
    """Give the text of a string or of a list of parts; parts of other kinds say nothing."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise MalformedRequestError(f"{where}: a string or a list of parts is required")
    texts: list[str] = []
    for at, part in enumerate(content):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise MalformedRequestError(f"{where}.{at}: a part with a type is required")
        if part["type"] in kinds:
            if not isinstance(part.get("text"), str):
                raise MalformedRequestError(f"{where}.{at}.text: a string is required")
            texts.append(part["text"])
    return "\n".join(texts)


def counts(request: ModelRequest, message: Message) -> tuple[int, int]:
    """Count the tokens of a request and of its reply."""
    asked = tokens([request.system, [turn.text for turn in request.turns]])
    return asked, tokens([message.text, [dict(call.arguments) for call in message.calls]])


def invalid_request(reason: str) -> tuple[int, dict[str, Any]]:
    """Write OpenAI's ``invalid_request_error``, which runtimes do not wait and try again for."""
    error = {"message": reason, "type": "invalid_request_error", "param": None, "code": None}
    return 400, {"error": error}
