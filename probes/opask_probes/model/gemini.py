"""The Gemini dialect, as the Generative Language service has it.

Source: the public reference of ``generateContent`` and ``streamGenerateContent`` (v1beta): contents and parts,
function declarations, calls and responses, and the chunks of a stream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from . import reading
from .dialect import MalformedRequestError, Message, ModelRequest, ToolCall, ToolOffer, ToolResult, Turn
from .filler import instance, pieces, tokens

__all__ = ["Gemini"]

_PATH: Final = re.compile(r"/v1(?:beta)?/models/([^/:]+):(generateContent|streamGenerateContent)")
_COUNT: Final = re.compile(r"/v1(?:beta)?/models/[^/:]+:countTokens")
_TOOL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")


class Gemini:
    """Speak as the Gemini service does."""

    name = "gemini"
    call_prefix = "fc_"

    def takes(self, method: str, path: str) -> bool:
        """Tell whether this is ``POST /v1beta/models/MODEL:generateContent`` or its streaming twin."""
        return method == "POST" and _PATH.fullmatch(path) is not None

    def read(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> ModelRequest:
        """Read a request for content as strictly as the service does.

        A response to a call is taken as an error where it has an ``error``. Each must have its call's id: the
        service does without where it gave none, and this model gives every call one.

        Raises:
            MalformedRequestError: the service would refuse it.
        """
        if not headers.get("x-goog-api-key") and not headers.get("authorization"):
            raise MalformedRequestError("x-goog-api-key or authorization: header is required")
        found = _PATH.fullmatch(path)
        assert found is not None
        tools = _tools(body.get("tools") or [])
        turns = _turns(body.get("contents"))
        system = _text(_parts(body["systemInstruction"], "systemInstruction")) if _instructs(body) else ""
        side = None if tools else "no tools are offered"
        return ModelRequest(found[1], system, tools, turns, found[2] == "streamGenerateContent", side)

    def side_text(self, body: Mapping[str, Any]) -> str:
        """Give a word, or the smallest value of the form that the request demands."""
        config = body.get("generationConfig") or {}
        schema = config.get("responseJsonSchema") or config.get("responseSchema")
        if schema:
            return json.dumps(instance(_lower_types(schema)))
        return "{}" if config.get("responseMimeType") == "application/json" else "ok"

    def whole(self, request: ModelRequest, message: Message) -> dict[str, Any]:
        """Write a reply as one ``GenerateContentResponse``."""
        parts: list[dict[str, Any]] = [{"text": message.text}] if message.text else []
        parts += [_call(call) for call in message.calls]
        return _response(request, message, parts, ends=True)

    def stream(self, request: ModelRequest, message: Message) -> Iterator[bytes]:
        """Write a reply as the service's chunks: the text in small pieces, each call whole, as there."""
        parts: list[dict[str, Any]] = [{"text": piece} for piece in pieces(message.text)]
        parts += [_call(call) for call in message.calls]
        for part in parts:
            yield _event(_response(request, message, [part], ends=False))
        yield _event(_response(request, message, [{"text": ""}], ends=True))

    def error(self, reason: str) -> tuple[int, dict[str, Any]]:
        """Write an ``INVALID_ARGUMENT``, which runtimes do not wait and try again for."""
        return 400, {"error": {"code": 400, "message": reason, "status": "INVALID_ARGUMENT"}}

    def other(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> tuple[int, dict[str, Any]] | None:
        """Answer ``countTokens``."""
        if method == "POST" and _COUNT.fullmatch(path):
            return 200, {"totalTokens": tokens(body)}
        return None


# -- the reply -------------------------------------------------------------------------------------------------------


def _call(call: ToolCall) -> dict[str, Any]:
    return {"functionCall": {"id": call.id, "name": call.tool, "args": dict(call.arguments)}}


def _response(
    request: ModelRequest, message: Message, parts: list[dict[str, Any]], *, ends: bool
) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    asked, all_said = reading.counts(request, message)
    said = all_said if ends else 0
    usage = {"promptTokenCount": asked, "candidatesTokenCount": said, "totalTokenCount": asked + said}
    if ends:
        candidate["finishReason"] = "STOP"
    head = {"modelVersion": request.model, "responseId": message.id}
    return {"candidates": [candidate], "usageMetadata": usage, **head}


def _event(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\r\n\r\n".encode()


# -- the request -----------------------------------------------------------------------------------------------------


def _instructs(body: Mapping[str, Any]) -> bool:
    return body.get("systemInstruction") is not None


def _lower_types(schema: Any) -> Any:
    """Write a schema's types as JSON Schema has them; the service's own are in capitals."""
    if isinstance(schema, list):
        return [_lower_types(each) for each in schema]
    if isinstance(schema, dict):
        return {
            name: value.lower() if name == "type" and isinstance(value, str) else _lower_types(value)
            for name, value in schema.items()
        }
    return schema


def _tools(tools: object) -> tuple[ToolOffer, ...]:
    """Read the functions on offer; tools that the service itself runs are let through and say nothing."""
    if not isinstance(tools, list):
        raise MalformedRequestError("tools: a list is required")
    offers: list[ToolOffer] = []
    for at, tool in enumerate(tools):
        declared = tool.get("functionDeclarations", []) if isinstance(tool, dict) else None
        if not isinstance(declared, list):
            raise MalformedRequestError(f"tools.{at}: an object is required, its functionDeclarations a list")
        offers += [_offer(one, f"tools.{at}.functionDeclarations.{nr}") for nr, one in enumerate(declared)]
    if (again := reading.twice(offers)) is not None:
        raise MalformedRequestError(f"tools: duplicate function declaration: {again}")
    return tuple(offers)


def _offer(declared: object, where: str) -> ToolOffer:
    if not isinstance(declared, dict):
        raise MalformedRequestError(f"{where}: an object is required")
    name = reading.name_of(declared, where, _TOOL_NAME)
    if "parameters" in declared and "parametersJsonSchema" in declared:
        raise MalformedRequestError(f"{where}: parameters and parametersJsonSchema exclude each other")
    schema = _lower_types(declared.get("parametersJsonSchema") or declared.get("parameters"))
    return ToolOffer(name, declared.get("description") or "", reading.schema_of(schema, where, name))


def _turns(contents: object) -> tuple[Turn, ...]:
    if not isinstance(contents, list) or not contents:
        raise MalformedRequestError("contents: at least one content is required")
    turns: list[Turn] = []
    waiting: tuple[ToolCall, ...] = ()
    for at, content in enumerate(contents):
        where = f"contents.{at}"
        parts = _parts(content, where)
        role = content.get("role", "user")
        if role == "model":
            if waiting:
                raise MalformedRequestError(f"{where}: {_unanswered(waiting)}")
            turns.append(_said(parts, where))
            waiting = turns[-1].calls
        elif role in {"user", "function"}:
            turns.append(_told(parts, where, waiting))
            waiting = ()
        else:
            raise MalformedRequestError(f"{where}.role: user or model is required, found {role!r}")
    if waiting:
        raise MalformedRequestError(f"contents: {_unanswered(waiting)}")
    return tuple(turns)


def _unanswered(calls: tuple[ToolCall, ...]) -> str:
    return (
        "the number of function response parts must equal that of the function call parts of the turn before; "
        f"no response to {', '.join(call.id or call.tool for call in calls)}"
    )


def _parts(content: object, where: str) -> list[dict[str, Any]]:
    parts = content.get("parts") if isinstance(content, dict) else None
    if not isinstance(parts, list) or not parts or not all(isinstance(part, dict) for part in parts):
        raise MalformedRequestError(f"{where}.parts: a list of parts that is not empty is required")
    for at, part in enumerate(parts):
        if not isinstance(part.get("text", ""), str):
            raise MalformedRequestError(f"{where}.parts.{at}.text: a string is required")
    return parts


def _text(parts: list[dict[str, Any]]) -> str:
    """Give the text of the parts; thoughts and other kinds of part say nothing."""
    return "".join(part.get("text", "") for part in parts if not part.get("thought"))


def _said(parts: list[dict[str, Any]], where: str) -> Turn:
    calls: list[ToolCall] = []
    for at, part in enumerate(parts):
        if "functionResponse" in part:
            raise MalformedRequestError(f"{where}.parts.{at}: a function response must not be the model's")
        if "functionCall" in part:
            call = part["functionCall"]
            args = call.get("args", {}) if isinstance(call, dict) else None
            if not isinstance(args, dict):
                raise MalformedRequestError(f"{where}.parts.{at}.functionCall.args: an object is required")
            calls.append(
                ToolCall(
                    _id(call, where),
                    reading.name_of(call, f"{where}.parts.{at}.functionCall", _TOOL_NAME),
                    args,
                )
            )
    return Turn("assistant", _text(parts), tuple(calls))


def _id(thing: Mapping[str, Any], where: str) -> str:
    value = thing.get("id")
    if not isinstance(value, str) or not value:
        raise MalformedRequestError(f"{where}: the id that the call came with is required, found {value!r}")
    return value


def _told(parts: list[dict[str, Any]], where: str, waiting: tuple[ToolCall, ...]) -> Turn:
    results: list[ToolResult] = []
    for at, part in enumerate(parts):
        if "functionCall" in part:
            raise MalformedRequestError(f"{where}.parts.{at}: a function call must not be the user's")
        if "functionResponse" in part:
            results.append(_result(part["functionResponse"], f"{where}.parts.{at}.functionResponse"))
    answered = [result.call_id for result in results]
    expected = [call.id for call in waiting]
    if unknown := [call_id for call_id in answered if call_id not in expected]:
        raise MalformedRequestError(
            f"{where}: a function response without a call just before: {', '.join(unknown)}"
        )
    if len(set(answered)) != len(answered):
        raise MalformedRequestError(f"{where}: a call has two function responses")
    if missing := tuple(call for call in waiting if call.id not in answered):
        raise MalformedRequestError(f"{where}: {_unanswered(missing)}")
    return Turn("user", _text(parts), (), tuple(results))


def _result(response: object, where: str) -> ToolResult:
    if not isinstance(response, dict):
        raise MalformedRequestError(f"{where}: an object is required")
    reading.name_of(response, where, _TOOL_NAME)
    value = response.get("response")
    if not isinstance(value, dict):
        raise MalformedRequestError(f"{where}.response: an object is required")
    said = value.get("output", value.get("error", value))
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    return ToolResult(_id(response, where), text, "error" in value)
