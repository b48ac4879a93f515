"""The OpenAI Responses dialect.

Source: the public Responses API reference: request and response objects, input and output items, the order of
streaming events; for namespaces of tools, the requests of codex 0.171.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from . import reading
from .dialect import MalformedRequestError, Message, ModelRequest, ToolCall, ToolOffer, ToolResult, Turn
from .filler import instance, pieces

__all__ = ["OpenAIResponses"]

_CREATED: Final = 1_700_000_000  # seconds since the epoch; the same in every run
_TEXTS: Final = frozenset({"input_text", "output_text", "text"})


class OpenAIResponses:
    """Speak as the OpenAI Responses service does.

    A tool of a namespace is called ``NAMESPACE.TOOL`` here; no name has a dot of its own.
    """

    name = "openai-responses"
    call_prefix = "call_"

    def takes(self, method: str, path: str) -> bool:
        """Tell whether this is ``POST /v1/responses``."""
        return method == "POST" and path == "/v1/responses"

    def read(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> ModelRequest:
        """Read a Responses request as strictly as the service does.

        The output of a call has no mark of an error: whether a result is one is not known.

        Raises:
            MalformedRequestError: the service would refuse it, or it refers to a response that is kept there.
        """
        reading.bearer(headers)
        model, stream = reading.model_of(body), reading.streams(body)
        if body.get("previous_response_id") is not None or body.get("conversation") is not None:
            raise MalformedRequestError("the scripted model keeps no responses: send the whole input")
        instructions = body.get("instructions") or ""
        if not isinstance(instructions, str):
            raise MalformedRequestError("instructions: a string is required")
        tools = _tools(body.get("tools") or [], "tools", "")
        turns, asides = _turns(body.get("input"))
        side = None if tools else "no tools are offered"
        return ModelRequest(model, "\n".join([instructions, *asides]), tools, turns, stream, side)

    def side_text(self, body: Mapping[str, Any]) -> str:
        """Give a word, or the smallest value of the form that the request demands."""
        form = (body.get("text") or {}).get("format") or {}
        if form.get("type") == "json_schema":
            return json.dumps(instance(form.get("schema", {"type": "object"})))
        return "{}" if form.get("type") == "json_object" else "ok"

    def whole(self, request: ModelRequest, message: Message) -> dict[str, Any]:
        """Write a reply as one ``response`` object."""
        output: list[dict[str, Any]] = [_message(message)] if message.text else []
        output += [_call(call) for call in message.calls]
        return {
            "id": f"resp_{message.id}",
            "object": "response",
            "created_at": _CREATED,
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "model": request.model,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": _usage(request, message),
        }

    def stream(self, request: ModelRequest, message: Message) -> Iterator[bytes]:
        """Write a reply as the service's sequence of events, texts and arguments in small pieces."""
        whole = self.whole(request, message)
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        events = [("response.created", {"response": begun}), ("response.in_progress", {"response": begun})]
        for at, item in enumerate(whole["output"]):
            events += _text_events(at, item) if item["type"] == "message" else _call_events(at, item)
        events.append(("response.completed", {"response": whole}))
        for number, (kind, fields) in enumerate(events):
            data = json.dumps({"type": kind, "sequence_number": number, **fields}, ensure_ascii=False)
            yield f"event: {kind}\ndata: {data}\n\n".encode()

    def error(self, reason: str) -> tuple[int, dict[str, Any]]:
        """Write an ``invalid_request_error``, which runtimes do not wait and try again for."""
        return reading.invalid_request(reason)

    def other(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> tuple[int, dict[str, Any]] | None:
        """Answer no other path; the list of models is the Chat Completions dialect's."""
        return None


# -- the reply -------------------------------------------------------------------------------------------------------

_Events = list[tuple[str, dict[str, Any]]]


def _message(message: Message) -> dict[str, Any]:
    part = {"type": "output_text", "text": message.text, "annotations": []}
    return {
        "id": message.id,
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }


def _call(call: ToolCall) -> dict[str, Any]:
    namespace, _, name = call.tool.rpartition(".")
    return {
        "id": f"fc_{call.id}",
        "type": "function_call",
        "status": "completed",
        "call_id": call.id,
        **({"namespace": namespace} if namespace else {}),
        "name": name,
        "arguments": json.dumps(dict(call.arguments), ensure_ascii=False),
    }


def _text_events(at: int, item: dict[str, Any]) -> _Events:
    (part,) = item["content"]
    item_place = {"output_index": at}
    place = {"item_id": item["id"], **item_place, "content_index": 0}
    opening = {**item, "status": "in_progress", "content": []}
    return [
        ("response.output_item.added", {**item_place, "item": opening}),
        ("response.content_part.added", {**place, "part": {**part, "text": ""}}),
        *(("response.output_text.delta", {**place, "delta": piece}) for piece in pieces(part["text"])),
        ("response.output_text.done", {**place, "text": part["text"]}),
        ("response.content_part.done", {**place, "part": part}),
        ("response.output_item.done", {**item_place, "item": item}),
    ]


def _call_events(at: int, item: dict[str, Any]) -> _Events:
    item_place = {"output_index": at}
    place = {"item_id": item["id"], **item_place}
    opening = {**item, "status": "in_progress", "arguments": ""}
    kind = "response.function_call_arguments"
    return [
        ("response.output_item.added", {**item_place, "item": opening}),
        *((f"{kind}.delta", {**place, "delta": piece}) for piece in pieces(item["arguments"])),
        (f"{kind}.done", {**place, "arguments": item["arguments"]}),
        ("response.output_item.done", {**item_place, "item": item}),
    ]


def _usage(request: ModelRequest, message: Message) -> dict[str, Any]:
    asked, said = reading.counts(request, message)
    return {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": asked + said,
    }


# -- the request -----------------------------------------------------------------------------------------------------


def _tools(tools: object, where: str, namespace: str) -> tuple[ToolOffer, ...]:
    """Read the functions on offer; tools that the service itself runs are let through and say nothing."""
    if not isinstance(tools, list):
        raise MalformedRequestError(f"{where}: a list is required")
    offers: list[ToolOffer] = []
    for at, tool in enumerate(tools):
        place = f"{where}.{at}"
        if not isinstance(tool, dict) or not isinstance(tool.get("type"), str):
            raise MalformedRequestError(f"{place}: a tool with a type is required")
        if tool["type"] == "namespace" and not namespace:
            offers += _tools(
                tool.get("tools"), f"{place}.tools", f"{reading.name_of(tool, place, reading.OPENAI_NAME)}."
            )
        elif tool["type"] == "function":
            name = namespace + reading.name_of(tool, place, reading.OPENAI_NAME)
            schema = reading.schema_of(tool.get("parameters"), place, name)
            offers.append(ToolOffer(name, tool.get("description") or "", schema))
    if (again := reading.twice(offers)) is not None:
        raise MalformedRequestError(f"{where}: tool names must be unique, {again!r} is there twice")
    return tuple(offers)


def _turns(items: object) -> tuple[tuple[Turn, ...], list[str]]:
    """Read the input: the turns, and the texts of the messages that instruct.

    What the model gave stands item by item; what has nothing of anybody else between it is one reply.
    """
    if isinstance(items, str) and items:
        return (Turn("user", items),), []
    if not isinstance(items, list) or not items:
        raise MalformedRequestError("input: a text or at least one item is required")
    turns: list[Turn] = []
    asides: list[str] = []
    calls: dict[str, bool] = {}  # by id: whether it has its output
    for at, item in enumerate(items):
        where = f"input.{at}"
        if not isinstance(item, dict):
            raise MalformedRequestError(f"{where}: an object is required")
        match item.get("type", "message"):
            case "message" if item.get("role") in {"system", "developer"}:
                asides.append(reading.parts_text(item.get("content"), f"{where}.content", _TEXTS))
            case "message" if item.get("role") == "user":
                turns.append(
                    Turn("user", reading.parts_text(item.get("content"), f"{where}.content", _TEXTS))
                )
            case "message" if item.get("role") == "assistant":
                _said(turns, reading.parts_text(item.get("content"), f"{where}.content", _TEXTS), ())
            case "message":
                raise MalformedRequestError(f"{where}.role: {item.get('role')!r} cannot be here")
            case "function_call":
                call = _called(item, where)
                if call.id in calls:
                    raise MalformedRequestError(f"{where}.call_id: {call.id} is there twice")
                calls[call.id] = False
                _said(turns, "", (call,))
            case "function_call_output":
                result = _result(item, where)
                if calls.get(result.call_id, True):
                    raise MalformedRequestError(
                        f"{where}.call_id: no call before waits for the output of {result.call_id}"
                    )
                calls[result.call_id] = True
                turns.append(Turn("user", "", (), (result,)))
            case str():
                continue  # reasoning, and what the service itself ran
            case other:
                raise MalformedRequestError(f"{where}.type: a string is required, found {other!r}")
    if waiting := [call_id for call_id, answered in calls.items() if not answered]:
        raise MalformedRequestError(f"input: no output was found for the calls {', '.join(waiting)}")
    return tuple(turns), asides


def _said(turns: list[Turn], text: str, calls: tuple[ToolCall, ...]) -> None:
    """Put what the model gave into the reply that it belongs to."""
    if turns and turns[-1].role == "assistant":
        last = turns.pop()
        text, calls = "\n".join(filter(None, [last.text, text])), (*last.calls, *calls)
    turns.append(Turn("assistant", text, calls))


def _called(item: Mapping[str, Any], where: str) -> ToolCall:
    call_id, namespace = reading.nonempty(item.get("call_id"), f"{where}.call_id"), item.get("namespace")
    arguments = reading.call_arguments(item.get("arguments"), where)
    spaced = {"name": namespace}
    within = f"{reading.name_of(spaced, f'{where}.namespace', reading.OPENAI_NAME)}." if namespace else ""
    return ToolCall(call_id, within + reading.name_of(item, where, reading.OPENAI_NAME), arguments)


def _result(item: Mapping[str, Any], where: str) -> ToolResult:
    call_id = item.get("call_id")
    if not isinstance(call_id, str):
        raise MalformedRequestError(f"{where}.call_id: a string is required")
    return ToolResult(call_id, reading.parts_text(item.get("output"), f"{where}.output", _TEXTS), None)
