"""The Anthropic Messages dialect.

Source: the public Messages API reference (``anthropic-version: 2023-06-01``): request and response
objects, the order of streaming events, and the rules for ``tool_use`` and ``tool_result`` blocks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from . import reading
from .dialect import MalformedRequestError, Message, ModelRequest, ToolCall, ToolOffer, ToolResult, Turn
from .filler import instance, pieces, tokens

__all__ = ["Anthropic"]

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")


class Anthropic:
    """Speak as the Anthropic Messages service does."""

    name = "anthropic"
    call_prefix = "toolu_"

    def takes(self, method: str, path: str) -> bool:
        """Tell whether this is ``POST /v1/messages``."""
        return method == "POST" and path == "/v1/messages"

    def read(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> ModelRequest:
        """Read a Messages request as strictly as the service does.

        Raises:
            MalformedRequestError: the service would refuse it.
        """
        if "anthropic-version" not in headers:
            raise MalformedRequestError("anthropic-version: header is required")
        if not headers.get("x-api-key") and not headers.get("authorization"):
            raise MalformedRequestError("x-api-key or authorization: header is required")
        model = reading.model_of(body)
        limit = body.get("max_tokens")
        if not isinstance(limit, int) or limit < 1:
            raise MalformedRequestError("max_tokens: a positive integer is required")
        stream = body.get("stream", False)
        if not isinstance(stream, bool):
            raise MalformedRequestError("stream: must be a boolean")
        tools = _tools(body.get("tools", []))
        turns, asides = _turns(body.get("messages"))
        system = "\n".join([_text(body.get("system", ""), "system"), *asides])
        return ModelRequest(model, system, tools, turns, stream, _side(body, tools))

    def side_text(self, body: Mapping[str, Any]) -> str:
        """Give a word, or the smallest value of the schema that the request demands."""
        form = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
        schema = form.get("schema")
        return json.dumps(instance(schema)) if schema else "ok"

    def whole(self, request: ModelRequest, message: Message) -> dict[str, Any]:
        """Write a reply as one Message object."""
        content: list[dict[str, Any]] = [{"type": "text", "text": message.text}] if message.text else []
        content += [
            {"type": "tool_use", "id": c.id, "name": c.tool, "input": dict(c.arguments)}
            for c in message.calls
        ]
        return {
            "id": message.id,
            "type": "message",
            "role": "assistant",
            "model": request.model,
            "content": content,
            "stop_reason": "tool_use" if message.calls else "end_turn",
            "stop_sequence": None,
            "usage": _usage(request, message),
        }

    def stream(self, request: ModelRequest, message: Message) -> Iterator[bytes]:
        """Write a reply as the service's sequence of events, texts and arguments in small pieces."""
        whole = self.whole(request, message)
        usage = {**whole["usage"], "output_tokens": 1}
        start = {**whole, "content": [], "stop_reason": None, "usage": usage}
        yield _event("message_start", message=start)
        yield _event("ping")
        for index, block in enumerate(whole["content"]):
            opening: dict[str, Any]
            if block["type"] == "text":
                opening = {"type": "text", "text": ""}
                deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
            else:
                opening = {**block, "input": {}}
                encoded = json.dumps(block["input"], ensure_ascii=False)
                deltas = [
                    {"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces(encoded))
                ]
            yield _event("content_block_start", index=index, content_block=opening)
            for delta in deltas:
                yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield _event("message_delta", delta=end, usage=whole["usage"])
        yield _event("message_stop")

    def error(self, reason: str) -> tuple[int, dict[str, Any]]:
        """Write an ``invalid_request_error``, which runtimes do not wait and try again for."""
        return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": reason}}

    def other(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> tuple[int, dict[str, Any]] | None:
        """Answer ``count_tokens``."""
        if method == "POST" and path == "/v1/messages/count_tokens":
            return 200, {"input_tokens": tokens(body)}
        return None


def _event(kind: str, **fields: Any) -> bytes:
    data = json.dumps({"type": kind, **fields}, ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()


def _usage(request: ModelRequest, message: Message) -> dict[str, Any]:
    asked, said = reading.counts(request, message)
    return {
        "input_tokens": asked,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": said,
    }


def _side(body: Mapping[str, Any], tools: tuple[ToolOffer, ...]) -> str | None:
    """Tell what is no agent's turn: agents are offered tools; titles, summaries and checks of the quota are not."""
    if not tools:
        return "a check of the quota" if body["max_tokens"] == 1 else "no tools are offered"
    return None


def _text(content: object, where: str) -> str:
    """Give the text of a string or of a list of text blocks; other kinds of block say nothing."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in _blocks(content, where) if block["type"] == "text")


def _blocks(content: object, where: str) -> list[dict[str, Any]]:
    if not isinstance(content, list):
        raise MalformedRequestError(f"{where}: a string or a list of blocks is required")
    for at, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise MalformedRequestError(f"{where}.{at}: a block with a type is required")
        if block["type"] == "text" and (not isinstance(block.get("text"), str) or not block["text"]):
            raise MalformedRequestError(f"{where}.{at}: text content blocks must be non-empty")
    return content


def _tools(tools: object) -> tuple[ToolOffer, ...]:
    if not isinstance(tools, list):
        raise MalformedRequestError("tools: a list is required")
    offers: list[ToolOffer] = []
    for at, tool in enumerate(tools):
        where = f"tools.{at}"
        if not isinstance(tool, dict):
            raise MalformedRequestError(f"{where}: an object is required")
        name = reading.name_of(tool, where, _TOOL_NAME)
        schema = tool.get("input_schema")
        own = tool.get("type", "custom") == "custom"
        if own and not (isinstance(schema, dict) and schema.get("type") == "object"):
            raise MalformedRequestError(f"{where}.input_schema: a schema of type object is required")
        offers.append(ToolOffer(name, tool.get("description") or "", schema or {}))
    if (again := reading.twice(offers)) is not None:
        raise MalformedRequestError(f"tools: tool names must be unique, {again!r} is there twice")
    return tuple(offers)


def _turns(messages: object) -> tuple[tuple[Turn, ...], list[str]]:
    """Read the history: the turns, and the texts of the system messages between them."""
    if not isinstance(messages, list) or not messages:
        raise MalformedRequestError("messages: at least one message is required")
    turns: list[Turn] = []
    asides: list[str] = []
    waiting: tuple[ToolCall, ...] = ()
    seen: set[str] = set()
    for at, message in enumerate(messages):
        where = f"messages.{at}"
        role = message.get("role") if isinstance(message, dict) else None
        if role == "assistant":
            if waiting:
                raise MalformedRequestError(f"{where}: {_unanswered(waiting)}")
            turn = _assistant(message.get("content"), f"{where}.content")
            for call in turn.calls:
                if call.id in seen:
                    raise MalformedRequestError(
                        f"{where}: tool_use ids must be unique, {call.id} is there twice"
                    )
                seen.add(call.id)
            waiting = turn.calls
        elif role == "user":
            turn = _user(message.get("content"), f"{where}.content", waiting)
            waiting = ()
        elif role == "system" and turns and not waiting:
            asides.append(_text(message.get("content"), f"{where}.content"))
            continue
        else:
            raise MalformedRequestError(f"{where}.role: {role!r} cannot be here")
        if not turns and turn.role != "user":
            raise MalformedRequestError(f"{where}: the first message must be the user's")
        turns.append(turn)
    if waiting:
        raise MalformedRequestError(f"messages: {_unanswered(waiting)}")
    return tuple(turns), asides


def _unanswered(calls: tuple[ToolCall, ...]) -> str:
    return (
        f"tool_use ids without tool_result blocks immediately after: {', '.join(call.id for call in calls)}"
    )


def _assistant(content: object, where: str) -> Turn:
    if isinstance(content, str):
        return Turn("assistant", content)
    calls: list[ToolCall] = []
    for at, block in enumerate(_blocks(content, where)):
        if block["type"] == "tool_result":
            raise MalformedRequestError(f"{where}.{at}: tool_result blocks can only be in user messages")
        if block["type"] == "tool_use":
            call_id, name, arguments = block.get("id"), block.get("name"), block.get("input")
            if not isinstance(call_id, str) or not _CALL_ID.fullmatch(call_id):
                raise MalformedRequestError(
                    f"{where}.{at}.id: must match {_CALL_ID.pattern}, found {call_id!r}"
                )
            if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
                raise MalformedRequestError(
                    f"{where}.{at}.name: must match {_TOOL_NAME.pattern}, found {name!r}"
                )
            if not isinstance(arguments, dict):
                raise MalformedRequestError(f"{where}.{at}.input: an object is required")
            calls.append(ToolCall(call_id, name, arguments))
    return Turn("assistant", _text(content, where), tuple(calls))


def _user(content: object, where: str, waiting: tuple[ToolCall, ...]) -> Turn:
    results: list[ToolResult] = []
    if not isinstance(content, str):
        for at, block in enumerate(_blocks(content, where)):
            if block["type"] == "tool_use":
                raise MalformedRequestError(
                    f"{where}.{at}: tool_use blocks can only be in assistant messages"
                )
            if block["type"] == "tool_result":
                if at != len(results):
                    raise MalformedRequestError(
                        f"{where}.{at}: tool_result blocks must come before other content"
                    )
                results.append(_result(block, f"{where}.{at}"))
    answered = [result.call_id for result in results]
    expected = [call.id for call in waiting]
    if unknown := [call_id for call_id in answered if call_id not in expected]:
        raise MalformedRequestError(
            f"{where}: tool_result without a tool_use just before: {', '.join(unknown)}"
        )
    if len(set(answered)) != len(answered):
        raise MalformedRequestError(f"{where}: each tool_use must have a single tool_result")
    if missing := tuple(call for call in waiting if call.id not in answered):
        raise MalformedRequestError(f"{where}: {_unanswered(missing)}")
    return Turn("user", _text(content, where) if content else "", (), tuple(results))


def _result(block: Mapping[str, Any], where: str) -> ToolResult:
    call_id, is_error = block.get("tool_use_id"), block.get("is_error", False)
    if not isinstance(call_id, str):
        raise MalformedRequestError(f"{where}.tool_use_id: a string is required")
    if not isinstance(is_error, bool):
        raise MalformedRequestError(f"{where}.is_error: must be a boolean")
    return ToolResult(call_id, _text(block.get("content", ""), f"{where}.content"), is_error)
