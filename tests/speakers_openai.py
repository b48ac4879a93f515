"""Agent runtimes that speak the dialects of OpenAI."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import httpx2

from model_speakers import TITLE, Said, Speaker
from opask_probes.model import ToolCall
from opask_probes.model.openai_chat import OpenAIChat
from opask_probes.model.openai_responses import OpenAIResponses

# -- OpenAI Chat Completions -------------------------------------------------------------------------------------------


def chat_tool(name: str, **function: Any) -> dict[str, Any]:
    """Make the offer of a tool."""
    return {
        "type": "function",
        "function": {"name": name, "description": "A tool.", "parameters": {"type": "object"}, **function},
    }


class Chat(Speaker):
    """Speaks the OpenAI Chat Completions dialect."""

    dialect = OpenAIChat()
    ask_tool = "mcp__opask__ask_user_question"
    other_tool = "Bash"
    side: ClassVar = {
        "ok": {},
        "{}": {"response_format": {"type": "json_object"}},
        '{"title": "ok"}': {
            "response_format": {"type": "json_schema", "json_schema": {"name": "t", "schema": TITLE}}
        },
    }
    beside: ClassVar = {("GET", "/v1/models"): "service", ("POST", "/v1/embeddings"): "unknown"}

    @staticmethod
    def begun() -> list[dict[str, Any]]:
        return [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": "Go."}]

    async def ask(self, *, streams: bool = False, **more: Any) -> httpx2.Response:
        tools = [chat_tool(self.ask_tool), chat_tool(self.other_tool)]
        body: dict[str, Any] = {"model": "gpt-x", "messages": self.history, "tools": tools}
        body |= {"stream": True, "stream_options": {"include_usage": True}} if streams else {}
        return await self.client.post("/v1/chat/completions", json={**body, **more})

    def heard(self, reply: dict[str, Any]) -> Said:
        (choice,) = reply["choices"]
        message = choice["message"]
        self.history.append(message)
        calls = message.get("tool_calls", [])
        assert {call["type"] for call in calls} <= {"function"}
        assert choice["finish_reason"] == ("tool_calls" if calls else "stop")
        assert message["content"] != ""
        made = [
            ToolCall(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in calls
        ]
        return Said(message["content"] or "", tuple(made))

    def answer(self, *results: str) -> None:
        for call, result in zip(self.history[-1]["tool_calls"], results, strict=True):
            self.history.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    def shuffle(self) -> None:
        self.history[-2:] = reversed(self.history[-2:])

    @staticmethod
    def assembled(stream: str) -> dict[str, Any]:
        *events, done, rest = stream.split("\n\n")
        assert (done, rest) == ("data: [DONE]", "")
        *chunks, last = [json.loads(event.removeprefix("data: ")) for event in events]
        head = {name: last[name] for name in ("id", "created", "model")}
        assert (last["object"], last["choices"]) == ("chat.completion.chunk", [])
        content: list[str] = []
        calls: list[dict[str, Any]] = []
        finish = None
        assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
        for chunk in chunks:
            assert {name: chunk[name] for name in head} == head
            assert finish is None
            (choice,) = chunk["choices"]
            delta, finish = choice["delta"], choice["finish_reason"]
            content.append(delta.get("content") or "")
            for part in delta.get("tool_calls", ()):
                if part["index"] == len(calls):
                    calls.append({"id": part["id"], "type": part["type"], "function": dict(part["function"])})
                    assert part["function"]["arguments"] == ""
                else:
                    assert part["index"] == len(calls) - 1
                    calls[-1]["function"]["arguments"] += part["function"]["arguments"]
        message = {"role": "assistant", "content": "".join(content) or None, "refusal": None}
        choice = {
            "index": 0,
            "message": {**message, **({"tool_calls": calls} if calls else {})},
            "logprobs": None,
            "finish_reason": finish,
        }
        return {**head, "object": "chat.completion", "choices": [choice], "usage": last["usage"]}

    @staticmethod
    def is_invalid(error: dict[str, Any]) -> bool:
        return bool(error["type"] == "invalid_request_error")


# -- OpenAI Responses --------------------------------------------------------------------------------------------------


def response_tool(name: str, **more: Any) -> dict[str, Any]:
    """Make the offer of a tool."""
    return {
        "type": "function",
        "name": name,
        "description": "A tool.",
        "parameters": {"type": "object"},
        **more,
    }


def item(text: str, role: str = "user") -> dict[str, Any]:
    """Make a message item."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


NAMESPACE = {"type": "namespace", "name": "mcp__opask", "tools": [response_tool("ask_user_question")]}


class Responses(Speaker):
    """Speaks the OpenAI Responses dialect, the ask tool in a namespace."""

    dialect = OpenAIResponses()
    ask_tool = "mcp__opask.ask_user_question"
    other_tool = "exec"
    side: ClassVar = {
        "ok": {},
        "{}": {"text": {"format": {"type": "json_object"}}},
        '{"title": "ok"}': {"text": {"format": {"type": "json_schema", "name": "t", "schema": TITLE}}},
    }
    beside: ClassVar = {("GET", "/v1/responses/resp_1"): "unknown"}

    @staticmethod
    def begun() -> list[dict[str, Any]]:
        return [item("You are an agent.", "developer"), item("Go.")]

    async def ask(self, *, streams: bool = False, **more: Any) -> httpx2.Response:
        tools = [NAMESPACE, response_tool(self.other_tool), {"type": "web_search"}]
        body = {"model": "gpt-x", "instructions": "Be brief.", "input": self.history, "tools": tools}
        return await self.client.post("/v1/responses", json={**body, "stream": streams, **more})

    def heard(self, reply: dict[str, Any]) -> Said:
        output: list[dict[str, Any]] = reply["output"]
        self.history += output
        texts = [one["content"][0]["text"] for one in output if one["type"] == "message"]
        calls = [one for one in output if one["type"] == "function_call"]
        assert all(one.get("namespace", "none") for one in calls)
        made = [
            ToolCall(
                one["call_id"],
                ".".join(filter(None, [one.get("namespace"), one["name"]])),
                json.loads(one["arguments"]),
            )
            for one in calls
        ]
        return Said("".join(texts), tuple(made))

    def answer(self, *results: str) -> None:
        calls = [one for one in self.history if one["type"] == "function_call"][-len(results) :]
        for call, result in zip(calls, results, strict=True):
            output = (
                [{"type": "input_text", "text": result}] if call is calls[0] else result
            )  # either will do
            self.history.append(
                {"type": "function_call_output", "call_id": call["call_id"], "output": output}
            )

    def shuffle(self) -> None:
        self.history[-2:] = reversed(self.history[-2:])

    @staticmethod
    def assembled(stream: str) -> dict[str, Any]:
        *blocks, rest = stream.split("\n\n")
        assert rest == ""
        events = []
        for block in blocks:
            name, data = block.split("\n", 1)
            events.append(json.loads(data.removeprefix("data: ")))
            assert name == f"event: {events[-1]['type']}"
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        created, going, *middle, completed = events
        assert (created["type"], going["type"]) == ("response.created", "response.in_progress")
        assert completed["type"] == "response.completed"
        assert (created["response"]["status"], created["response"]["output"]) == ("in_progress", [])
        output: list[dict[str, Any]] = []
        for event in middle:
            match event["type"].removeprefix("response."):
                case "output_item.added":
                    assert event["output_index"] == len(output)
                    assert event["item"]["status"] == "in_progress"
                    output.append(dict(event["item"]))
                case "content_part.added":
                    assert event["item_id"] == output[-1]["id"]
                    output[-1]["content"] = [dict(event["part"])]
                case "output_text.delta":
                    output[-1]["content"][0]["text"] += event["delta"]
                case "function_call_arguments.delta":
                    assert event["item_id"] == output[-1]["id"]
                    output[-1]["arguments"] += event["delta"]
                case "function_call_arguments.done":
                    assert event["arguments"] == output[-1]["arguments"]
                case "output_text.done":
                    assert event["text"] == output[-1]["content"][0]["text"]
                case "content_part.done":
                    assert event["part"] == output[-1]["content"][0]
                case kind:
                    assert kind == "output_item.done"
                    output[-1]["status"] = "completed"
                    assert event["item"] == output[-1]
        response: dict[str, Any] = completed["response"]
        assert response["output"] == output
        return response

    @staticmethod
    def is_invalid(error: dict[str, Any]) -> bool:
        return bool(error["type"] == "invalid_request_error")
