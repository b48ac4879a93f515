"""An agent runtime that speaks the Gemini dialect."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import httpx2

from model_speakers import SECRET, TITLE, Said, Speaker
from opask_probes.model import ToolCall
from opask_probes.model.gemini import Gemini


def declared(*functions: Any) -> list[dict[str, Any]]:
    """Make the offer of functions."""
    return [{"functionDeclarations": list(functions)}]


def content(text: str, role: str = "user") -> dict[str, Any]:
    """Make a content with one text."""
    return {"role": role, "parts": [{"text": text}]}


class Google(Speaker):
    """Speaks the Gemini dialect."""

    dialect = Gemini()
    ask_tool = "mcp_opask_ask_user_question"
    other_tool = "list"
    credential = ("x-goog-api-key", SECRET)
    demand = "x-goog-api-key or authorization"
    marks_errors = True
    side: ClassVar = {
        "ok": {"generationConfig": {}, "systemInstruction": None},
        "{}": {"generationConfig": {"responseMimeType": "application/json"}},
        '{"title": "ok"}': {
            "generationConfig": {
                "responseSchema": {**TITLE, "type": "OBJECT", "properties": {"title": {"type": "STRING"}}}
            }
        },
    }
    beside: ClassVar = {
        ("POST", "/v1beta/models/gemini-x:countTokens"): "service",
        ("POST", "/v1beta/models/gemini-x:embedContent"): "unknown",
    }
    declared_ask: ClassVar = {
        "name": ask_tool,
        "description": "Ask.",
        "parametersJsonSchema": {"type": "object"},
    }

    @staticmethod
    def begun() -> list[dict[str, Any]]:
        return [content("Go.")]

    async def ask(self, *, streams: bool = False, **more: Any) -> httpx2.Response:
        schema = {"type": "OBJECT", "properties": {"dir": {"type": "STRING"}}}
        body = {
            "contents": self.history,
            "systemInstruction": {"parts": [{"text": "You are an agent."}]},
            "tools": declared(self.declared_ask, {"name": self.other_tool, "parameters": schema}),
        }
        method = "streamGenerateContent" if streams else "generateContent"
        path = f"/v1beta/models/gemini-x:{method}"
        return await self.client.post(path, params={"alt": "sse"}, json={**body, **more})

    def heard(self, reply: dict[str, Any]) -> Said:
        (candidate,) = reply["candidates"]
        assert candidate["finishReason"] == "STOP"
        self.history.append(candidate["content"])
        parts = candidate["content"]["parts"]
        assert all(set(part) in ({"text"}, {"functionCall"}) for part in parts)
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        assert all(set(call) == {"id", "name", "args"} for call in calls)
        made = [ToolCall(call["id"], call["name"], call["args"]) for call in calls]
        return Said("".join(part.get("text", "") for part in parts), tuple(made))

    def answer(self, *results: str) -> None:
        self.respond(*({"output": result} for result in results))

    def respond(self, *responses: dict[str, Any]) -> None:
        """Put a response to each of the last calls into the history."""
        calls = [part["functionCall"] for part in self.history[-1]["parts"] if "functionCall" in part]
        parts = [
            {"functionResponse": {"id": call["id"], "name": call["name"], "response": response}}
            for call, response in zip(calls, responses, strict=True)
        ]
        self.history.append({"role": "user", "parts": parts})

    def shuffle(self) -> None:
        self.history[-1]["parts"].reverse()

    @staticmethod
    def assembled(stream: str) -> dict[str, Any]:
        *events, rest = stream.split("\r\n\r\n")
        assert rest == ""
        chunks = [json.loads(event.removeprefix("data: ")) for event in events]
        text, calls = "", []
        for chunk in chunks:
            (candidate,) = chunk["candidates"]
            assert ("finishReason" in candidate) == (chunk is chunks[-1])
            (part,) = candidate["content"]["parts"]
            if "functionCall" in part:
                calls.append(part)
            else:
                text += part["text"]
        last: dict[str, Any] = chunks[-1]
        last["candidates"][0]["content"]["parts"] = [*([{"text": text}] if text else []), *calls]
        return last

    @staticmethod
    def is_invalid(error: dict[str, Any]) -> bool:
        return bool(error["status"] == "INVALID_ARGUMENT")
