"""The OpenAI Chat Completions dialect, which most other services speak too.

Source: the public Chat Completions API reference: request and response objects, chunks and the ``[DONE]`` that
ends them, and the rules for ``tool_calls`` and the ``tool`` messages that answer them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from . import reading
from .dialect import MalformedRequestError, Message, ModelRequest, ToolCall, ToolOffer, ToolResult, Turn
from .filler import instance, pieces

__all__ = ["OpenAIChat"]

_CREATED: Final = 1_700_000_000  # seconds since the epoch; the same in every run


class OpenAIChat:
    """Speak as the OpenAI Chat Completions service does."""

    name = "openai-chat"
    call_prefix = "call_"

    def takes(self, method: str, path: str) -> bool:
        """Tell whether this is ``POST /v1/chat/completions``."""
        return method == "POST" and path == "/v1/chat/completions"

    def read(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> ModelRequest:
        """Read a Chat Completions request as strictly as the service does.

        A ``tool`` message has no mark of an error: whether a result is one is not known.

        Raises:
            MalformedRequestError: the service would refuse it.
        """
        reading.bearer(headers)
        model, stream = reading.model_of(body), reading.streams(body)
        if body.get("stream_options") and not stream:
            raise MalformedRequestError("stream_options: only allowed when stream is true")
        if body.get("n") not in {None, 1}:
            raise MalformedRequestError("n: the scripted model makes one choice")
        tools = _tools(body.get("tools", []))
        turns, system = _turns(body.get("messages"))
        side = None if tools else "no tools are offered"
        return ModelRequest(model, "\n".join(system), tools, turns, stream, side)

    def side_text(self, body: Mapping[str, Any]) -> str:
        """Give a word, or the smallest value of the form that the request demands."""
        form = body.get("response_format") or {}
        if form.get("type") == "json_schema":
            return json.dumps(instance(form["json_schema"].get("schema", {"type": "object"})))
        return "{}" if form.get("type") == "json_object" else "ok"

    def whole(self, request: ModelRequest, message: Message) -> dict[str, Any]:
        """Write a reply as one ``chat.completion`` object."""
        said: dict[str, Any] = {"role": "assistant", "content": message.text or None, "refusal": None}
        if message.calls:
            said["tool_calls"] = [_call(call) for call in message.calls]
        choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": _finish(message)}
        head = _head("chat.completion", request, message)
        return {**head, "choices": [choice], "usage": _usage(request, message)}

    def stream(self, request: ModelRequest, message: Message) -> Iterator[bytes]:
        """Write a reply as the service's chunks, texts and arguments in small pieces.

        The count of tokens comes in a chunk of its own before the end, whether it was asked for or not: readers
        have to bear it.
        """
        head = _head("chat.completion.chunk", request, message)

        def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return _event({**head, "choices": [choice], "usage": None})

        yield chunk({"role": "assistant", "content": "" if message.text else None})
        for piece in pieces(message.text):
            yield chunk({"content": piece})
        for at, call in enumerate(message.calls):
            whole = _call(call)
            opening = {**whole, "function": {**whole["function"], "arguments": ""}}
            yield chunk({"tool_calls": [{"index": at, **opening}]})
            for piece in pieces(whole["function"]["arguments"]):
                yield chunk({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
        yield chunk({}, _finish(message))
        yield _event({**head, "choices": [], "usage": _usage(request, message)})
        yield b"data: [DONE]\n\n"

    def error(self, reason: str) -> tuple[int, dict[str, Any]]:
        """Write an ``invalid_request_error``, which runtimes do not wait and try again for."""
        return reading.invalid_request(reason)

    def other(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> tuple[int, dict[str, Any]] | None:
        """Answer the list of models."""
        if method == "GET" and path == "/v1/models":
            model = {"id": "scripted", "object": "model", "created": _CREATED, "owned_by": "opask"}
            return 200, {"object": "list", "data": [model]}
        return None


def _event(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _head(kind: str, request: ModelRequest, message: Message) -> dict[str, Any]:
    return {"id": f"chatcmpl-{message.id}", "object": kind, "created": _CREATED, "model": request.model}


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": arguments}}


def _finish(message: Message) -> str:
    return "tool_calls" if message.calls else "stop"


def _usage(request: ModelRequest, message: Message) -> dict[str, Any]:
    asked, said = reading.counts(request, message)
    return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}


def _text(content: object, where: str) -> str:
    return "" if content is None else reading.parts_text(content, where, ("text",))


def _tools(tools: object) -> tuple[ToolOffer, ...]:
    if tools is None:
        return ()
    if not isinstance(tools, list):
        raise MalformedRequestError("tools: a list is required")
    offers: list[ToolOffer] = []
    for at, tool in enumerate(tools):
        where = f"tools.{at}"
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or tool.get("type") != "function":
            raise MalformedRequestError(f"{where}: a tool of type function is required")
        where += ".function"
        name = reading.name_of(function, where, reading.OPENAI_NAME)
        schema = reading.schema_of(function.get("parameters"), where, name)
        offers.append(ToolOffer(name, function.get("description") or "", schema))
    if (again := reading.twice(offers)) is not None:
        raise MalformedRequestError(f"tools: tool names must be unique, {again!r} is there twice")
    return tuple(offers)


def _turns(messages: object) -> tuple[tuple[Turn, ...], list[str]]:
    """Read the history: the turns, and the texts of the system messages wherever they are."""
    if not isinstance(messages, list) or not messages:
        raise MalformedRequestError("messages: at least one message is required")
    turns: list[Turn] = []
    system: list[str] = []
    waiting: dict[str, ToolCall] = {}
    results: list[ToolResult] = []
    for at, message in enumerate(messages):
        where = f"messages.{at}"
        role = message.get("role") if isinstance(message, dict) else None
        if role == "tool":
            results.append(_result(message, where, waiting))
            continue
        if waiting:
            raise MalformedRequestError(f"{where}: {_unanswered(waiting)}")
        if results:
            turns.append(Turn("user", "", (), tuple(results)))
            results = []
        content = f"{where}.content"
        match role:
            case "system" | "developer":
                system.append(_text(message.get("content"), content))
            case "user":
                turns.append(Turn("user", _text(message.get("content"), content)))
            case "assistant":
                turns.append(_assistant(message, where))
                waiting = {call.id: call for call in turns[-1].calls}
            case _:
                raise MalformedRequestError(f"{where}.role: {role!r} cannot be here")
    if waiting:
        raise MalformedRequestError(f"messages: {_unanswered(waiting)}")
    if results:
        turns.append(Turn("user", "", (), tuple(results)))
    return tuple(turns), system


def _unanswered(waiting: Mapping[str, ToolCall]) -> str:
    return f"tool_calls without tool messages immediately after: {', '.join(waiting)}"


def _assistant(message: Mapping[str, Any], where: str) -> Turn:
    text = _text(message.get("content"), f"{where}.content")
    calls: list[ToolCall] = []
    raw = message.get("tool_calls")
    if raw is not None and (not isinstance(raw, list) or not raw):
        raise MalformedRequestError(f"{where}.tool_calls: a list that is not empty is required")
    for at, call in enumerate(raw or []):
        place = f"{where}.tool_calls.{at}"
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or call.get("type") != "function":
            raise MalformedRequestError(f"{place}: a call of type function is required")
        call_id = reading.nonempty(call.get("id"), f"{place}.id")
        if any(known.id == call_id for known in calls):
            raise MalformedRequestError(f"{place}.id: {call_id} is there twice")
        arguments = reading.call_arguments(function.get("arguments"), f"{place}.function")
        calls.append(ToolCall(call_id, reading.name_of(function, place, reading.OPENAI_NAME), arguments))
    if message.get("content") is None and not calls:
        raise MalformedRequestError(f"{where}: content or tool_calls are required")
    return Turn("assistant", text, tuple(calls))


def _result(message: Mapping[str, Any], where: str, waiting: dict[str, ToolCall]) -> ToolResult:
    """Read a tool message and strike its call off those that wait."""
    call_id = message.get("tool_call_id")
    if not isinstance(call_id, str) or call_id not in waiting:
        raise MalformedRequestError(
            f"{where}.tool_call_id: a tool message must answer a call of the assistant message before, "
            f"{call_id!r} is none that waits"
        )
    if message.get("content") is None:
        raise MalformedRequestError(f"{where}.content: a string or a list of parts is required")
    del waiting[call_id]
    return ToolResult(call_id, _text(message["content"], f"{where}.content"), None)
