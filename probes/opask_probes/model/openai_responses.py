"""The OpenAI Responses dialect.

Source: the public Responses API reference: request and response objects, input and output items, the order of
streaming events; for namespaces of tools, the requests of codex 0.171.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from .dialect import MalformedRequestError, Message, ModelRequest, ToolCall, ToolOffer, ToolResult, Turn
from .filler import instance, pieces, tokens

__all__ = ["OpenAIResponses"]

_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
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
        if not headers.get("authorization", "").startswith("Bearer "):
            raise MalformedRequestError("authorization: a bearer token is required")
        model = body.get("model")
        if not isinstance(model, str) or not model:
            raise MalformedRequestError("model: a string is required")
        stream = body.get("stream") or False
        if not isinstance(stream, bool):
            raise MalformedRequestError("stream: must be a boolean")
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
        error = {"message": reason, "type": "invalid_request_error", "param": None, "code": None}
        return 400, {"error": error}

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
    asked = tokens([request.system, [turn.text for turn in request.turns]])
    said = tokens([message.text, [dict(call.arguments) for call in message.calls]])
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
            offers += _tools(tool.get("tools"), f"{place}.tools", f"{_name(tool, place)}.")
        elif tool["type"] == "function":
            name = namespace + _name(tool, place)
            schema = tool.get("parameters") or {"type": "object"}
            if not isinstance(schema, dict) or schema.get("type") != "object":
                raise MalformedRequestError(
                    f"{place}.parameters: a schema of type object is required for {name}"
                )
            offers.append(ToolOffer(name, tool.get("description") or "", schema))
    names = [offer.name for offer in offers]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise MalformedRequestError(f"{where}: tool names must be unique, {twice[0]!r} is there twice")
    return tuple(offers)


def _name(thing: Mapping[str, Any], where: str) -> str:
    name = thing.get("name")
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        raise MalformedRequestError(f"{where}.name: must match {_TOOL_NAME.pattern}, found {name!r}")
    return name


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
                asides.append(_text(item.get("content"), f"{where}.content"))
            case "message" if item.get("role") == "user":
                turns.append(Turn("user", _text(item.get("content"), f"{where}.content")))
            case "message" if item.get("role") == "assistant":
                _said(turns, _text(item.get("content"), f"{where}.content"), ())
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
    call_id, arguments, namespace = item.get("call_id"), item.get("arguments"), item.get("namespace")
    if not isinstance(call_id, str) or not call_id:
        raise MalformedRequestError(f"{where}.call_id: a string is required")
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise MalformedRequestError(
            f"{where}.arguments: a string with a JSON object is required, found {arguments!r}"
        )
    within = f"{_name({'name': namespace}, f'{where}.namespace')}." if namespace else ""
    return ToolCall(call_id, within + _name(item, where), value)


def _result(item: Mapping[str, Any], where: str) -> ToolResult:
    call_id = item.get("call_id")
    if not isinstance(call_id, str):
        raise MalformedRequestError(f"{where}.call_id: a string is required")
    return ToolResult(call_id, _text(item.get("output"), f"{where}.output"), None)


def _text(content: object, where: str) -> str:
    """Give the text of a string or of a list of parts; other kinds of part say nothing."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise MalformedRequestError(f"{where}: a string or a list of parts is required")
    texts: list[str] = []
    for at, part in enumerate(content):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise MalformedRequestError(f"{where}.{at}: a part with a type is required")
        if part["type"] in _TEXTS:
            if not isinstance(part.get("text"), str):
                raise MalformedRequestError(f"{where}.{at}.text: a string is required")
            texts.append(part["text"])
    return "\n".join(texts)
