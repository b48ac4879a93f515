"""The scripted model as a Gemini service, driven by hand as a runtime would."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opask_probes.model import (
    Call,
    Conversation,
    Expect,
    ExpectedResult,
    Message,
    ModelRequest,
    Reply,
    Scenario,
    ScriptedModel,
    Step,
    ToolCall,
    serve,
)
from opask_probes.model.gemini import Gemini

ASK = "mcp_opask_ask_user_question"
PATH = "/v1beta/models/gemini-x"
HEADERS = {"x-goog-api-key": "k-test-secret"}
ARGUMENTS = {"questions": [{"question": "Which “database”?", "options": [{"label": "SQLite"}]}]}


def tools(*declared: Any) -> list[dict[str, Any]]:
    """Make the offer of functions."""
    return [{"functionDeclarations": list(declared)}]


ASK_TOOL = {"name": ASK, "description": "Ask.", "parametersJsonSchema": {"type": "object"}}
LIST_TOOL = {"name": "list", "parameters": {"type": "OBJECT", "properties": {"dir": {"type": "STRING"}}}}
ASK_ONCE = Scenario(
    "ask-once",
    (
        Conversation(
            "main",
            (
                Step(Reply("I ask.", (Call(ASK, ARGUMENTS),)), Expect(offered=(ASK, "list"))),
                Step(Reply("You said: {{result}}"), Expect(results=(ExpectedResult(is_error=False),))),
            ),
        ),
    ),
)


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio, the loop that the model needs."""
    return "asyncio"


def said(text: str, role: str = "user") -> dict[str, Any]:
    """Make a content with one text."""
    return {"role": role, "parts": [{"text": text}]}


class Runtime:
    """The part of an agent runtime that talks to its model: a history, and one request after the other."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client
        self.contents: list[dict[str, Any]] = [said("Go.")]

    async def ask(self, method: str = "generateContent", **more: Any) -> httpx2.Response:
        """Send the history as it is."""
        system = {"parts": [{"text": "You are an agent."}]}
        body = {
            "contents": self.contents,
            "systemInstruction": system,
            "tools": tools(ASK_TOOL, LIST_TOOL),
            **more,
        }
        return await self.client.post(f"{PATH}:{method}", params={"alt": "sse"}, json=body)

    async def turn(self, **more: Any) -> list[dict[str, Any]]:
        """Send the history, and put the reply into it."""
        response = await self.ask(**more)
        assert response.status_code == 200, response.text
        (candidate,) = response.json()["candidates"]
        assert candidate["finishReason"] == "STOP"
        self.contents.append(candidate["content"])
        parts: list[dict[str, Any]] = candidate["content"]["parts"]
        return parts

    def answer(self, *responses: dict[str, Any]) -> None:
        """Put a response to each call of the last reply into the history."""
        calls = [part["functionCall"] for part in self.contents[-1]["parts"] if "functionCall" in part]
        parts = [
            {"functionResponse": {"id": call["id"], "name": call["name"], "response": response}}
            for call, response in zip(calls, responses, strict=True)
        ]
        self.contents.append({"role": "user", "parts": parts})


@asynccontextmanager
async def playing(scenario: Scenario, **options: Any) -> AsyncIterator[tuple[ScriptedModel, Runtime]]:
    """Serve a scenario and give a runtime that is pointed at it."""
    with anyio.fail_after(20):
        async with (
            serve(scenario, **options) as model,
            httpx2.AsyncClient(base_url=model.url, headers=HEADERS, timeout=10) as client,
        ):
            yield model, Runtime(client)


def one_step(expect: Expect, first: Reply | None = None) -> Scenario:
    """Make a scenario whose last step expects something, after a first reply if one is given."""
    steps = [Step(first)] if first else []
    return Scenario("one", (Conversation("main", (*steps, Step(Reply("Done."), expect))),))


def assembled(stream: str) -> dict[str, Any]:
    """Put a response together from its chunks, as a client does."""
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


# -- it plays --------------------------------------------------------------------------------------------------------


async def test_it_calls_and_then_quotes_the_result_verbatim() -> None:
    """A call goes out with its arguments and an id, and the next reply has the output as it was."""
    result = '{"answers": {"Which “database”?": ["SQ\\n", "{{result}}"]}}'
    async with playing(ASK_ONCE) as (model, runtime):
        text, call = await runtime.turn()
        assert text == {"text": "I ask."}
        assert call == {"functionCall": {"id": "fc_main-1-1", "name": ASK, "args": ARGUMENTS}}
        runtime.answer({"output": result})
        assert await runtime.turn() == [{"text": f"You said: {result}"}]
        assert [(one.kind, one.dialect) for one in model.requests] == [("scripted", "gemini")] * 2
        assert model.turns("main")[0].model == "gemini-x"
        assert "k-test-secret" not in json.dumps([one.to_data() for one in model.requests])


async def test_it_streams_the_same_response() -> None:
    """A streamed reply is put together to what the same step gives in one piece."""
    async with playing(ASK_ONCE, verify=False) as (_, runtime):
        whole = (await runtime.ask()).json()
    async with playing(ASK_ONCE, verify=False) as (_, runtime):
        response = await runtime.ask("streamGenerateContent")
        assert response.headers["content-type"].startswith("text/event-stream")
        assert assembled(response.text) == whole


@given(
    st.text(st.characters(codec="utf-8"), max_size=80),
    st.lists(
        st.dictionaries(st.text(max_size=5), st.recursive(st.integers() | st.text(), st.lists, max_leaves=5)),
        max_size=3,
    ),
)
def test_every_reply_streams_as_it_stands(text: str, arguments: list[dict[str, Any]]) -> None:
    """Whatever the text and the arguments are, the chunks put together are the response."""
    request = ModelRequest("m", "", (), (), stream=True)
    calls = tuple(ToolCall(f"fc_{at}", "t", each) for at, each in enumerate(arguments))
    message = Message("msg_1", text, calls)
    stream = b"".join(Gemini().stream(request, message)).decode()
    assert assembled(stream) == Gemini().whole(request, message)


async def test_several_calls_are_answered_in_any_order() -> None:
    """Each result is quoted by the place of its call; an error, and what is no text, is read as it stands."""
    first = Reply(calls=(Call(ASK, {"n": 1}), Call("list", {"n": 2}), Call("list", {"n": 3})))
    results = (ExpectedResult(is_error=False), ExpectedResult(is_error=True), ExpectedResult())
    last = Step(Reply("1={{result:1}} 2={{result:2}} 3={{result:3}}"), Expect(results=results))
    async with playing(Scenario("two", (Conversation("main", (Step(first), last)),))) as (_, runtime):
        await runtime.turn()
        runtime.answer({"output": {"a": "é"}}, {"error": "no"}, {"files": []})
        runtime.contents[-1]["parts"].reverse()
        assert await runtime.turn() == [{"text": '1={"a": "é"} 2=no 3={"files": []}'}]


async def test_thoughts_and_data_say_nothing() -> None:
    """A thought of the model and an image are let through; the text beside them is read."""
    first = Reply("First.")
    async with playing(one_step(Expect(text_contains=("See",)), first)) as (_, runtime):
        await runtime.turn()
        runtime.contents[-1]["parts"].insert(0, {"text": "Hm.", "thought": True})
        image = {"inlineData": {"mimeType": "image/png", "data": ""}}
        runtime.contents.append({"parts": [image, {"text": "See"}]})
        await runtime.turn(tools=[*tools(ASK_TOOL), {"googleSearch": {}}])


# -- it is strict ----------------------------------------------------------------------------------------------------

GO = said("Go.")


def use(call_id: object = "a", role: str = "model", **more: Any) -> dict[str, Any]:
    """Make a content with one call."""
    return {"role": role, "parts": [{"functionCall": {"id": call_id, "name": "t", "args": {}, **more}}]}


def result(call_id: object = "a", role: str = "user", **more: Any) -> dict[str, Any]:
    """Make a content with one response."""
    response = {"id": call_id, "name": "t", "response": {"output": "x"}, **more}
    return {"role": role, "parts": [{"functionResponse": response}]}


TWICE = {"role": "user", "parts": result()["parts"] * 2}
MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "no contents": ({"contents": []}, "contents: at least one content is required"),
    "content is no object": ({"contents": ["x"]}, "contents.0.parts: a list of parts"),
    "content without parts": (
        {"contents": [{"role": "user", "parts": []}]},
        "contents.0.parts: a list of parts",
    ),
    "part is no object": ({"contents": [{"parts": ["x"]}]}, "contents.0.parts: a list of parts"),
    "text is no text": ({"contents": [{"parts": [{"text": 3}]}]}, "contents.0.parts.0.text: a string"),
    "strange role": ({"contents": [said("x", "tool")]}, "user or model is required, found 'tool'"),
    "call by the user": ({"contents": [use(role="user")]}, "a function call must not be the user's"),
    "response by the model": ({"contents": [result(role="model")]}, "must not be the model's"),
    "call without response": ({"contents": [GO, use(), GO]}, "contents.2: the number of function response"),
    "call at the end": ({"contents": [GO, use()]}, "no response to a"),
    "call, then the model": ({"contents": [GO, use(), use("b")]}, "contents.2: the number of function"),
    "response without call": (
        {"contents": [GO, result()]},
        "a function response without a call just before: a",
    ),
    "response of an older call": (
        {"contents": [GO, use(), result(), use("b"), result()]},
        "a function response without a call just before: a",
    ),
    "two responses": ({"contents": [GO, use(), TWICE]}, "a call has two function responses"),
    "call without id": ({"contents": [GO, use(None)]}, "the id that the call came with is required"),
    "response without id": ({"contents": [GO, use(), result("")]}, "the id that the call came with"),
    "name of a call": ({"contents": [GO, use(name="a b")]}, "functionCall.name: must match"),
    "arguments are a text": ({"contents": [GO, use(args="{}")]}, "functionCall.args: an object is required"),
    "name of a response": ({"contents": [GO, use(), result(name=None)]}, "functionResponse.name: must match"),
    "response is a text": (
        {"contents": [GO, use(), result(response="x")]},
        "response: an object is required",
    ),
    "response is none": (
        {"contents": [GO, use(), {"parts": [{"functionResponse": None}]}]},
        "functionResponse: an object is required",
    ),
    "system without parts": ({"systemInstruction": {}}, "systemInstruction.parts: a list of parts"),
    "tools are no list": ({"tools": {"x": 1}}, "tools: a list is required"),
    "tool is no object": ({"tools": ["x"]}, "tools.0: an object is required"),
    "declaration is no object": ({"tools": tools("x")}, "functionDeclarations.0: an object is required"),
    "tool name": ({"tools": tools({"name": "0ask"})}, "functionDeclarations.0.name: must match"),
    "long tool name": ({"tools": tools({"name": "x" * 65})}, "functionDeclarations.0.name: must match"),
    "tool twice": ({"tools": tools(ASK_TOOL, ASK_TOOL)}, f"duplicate function declaration: {ASK}"),
    "tool schema": ({"tools": tools({"name": "x", "parameters": {"type": "ARRAY"}})}, "of type object"),
    "two schemas": ({"tools": tools({**ASK_TOOL, "parameters": {}})}, "exclude each other"),
}


@pytest.mark.parametrize(("fields", "reason"), MALFORMED.values(), ids=MALFORMED.keys())
async def test_a_request_that_the_service_would_refuse_fails(fields: dict[str, Any], reason: str) -> None:
    """A malformed request is refused with the place and the rule, and is a failure of the run."""
    async with playing(ASK_ONCE, verify=False) as (model, runtime):
        response = await runtime.ask(**fields)
        assert response.status_code == 400
        assert response.json()["error"]["status"] == "INVALID_ARGUMENT"
        assert reason in response.json()["error"]["message"]
        assert reason in model.failures[0].reason


async def test_a_credential_is_asked_for() -> None:
    """A request without a key is refused."""
    async with playing(ASK_ONCE, verify=False) as (model, runtime):
        del runtime.client.headers["x-goog-api-key"]
        assert (await runtime.ask()).status_code == 400
        assert "x-goog-api-key or authorization" in model.failures[0].reason


# -- beside the script -----------------------------------------------------------------------------------------------


async def test_requests_beside_the_script_are_answered_and_move_nothing() -> None:
    """A request that offers no tools gets a harmless text in the form that it demands, and tokens are counted."""
    schema = {"type": "OBJECT", "required": ["title"], "properties": {"title": {"type": "STRING"}}}
    forms: dict[str, Any] = {
        "ok": {},
        "{}": {"responseMimeType": "application/json"},
        '{"title": "ok"}': {"responseSchema": schema},
    }
    async with playing(ASK_ONCE, verify=False) as (model, runtime):
        for text, form in forms.items():
            response = await runtime.ask(tools=None, systemInstruction=None, generationConfig=form)
            assert response.json()["candidates"][0]["content"]["parts"] == [{"text": text}]
        assert (await runtime.ask("countTokens")).json()["totalTokens"] > 0
        assert (await runtime.ask("embedContent")).status_code == 404
        assert [one.kind for one in model.requests] == ["side", "side", "side", "service", "unknown"]
        assert model.failures == ()
        assert (await runtime.turn())[0] == {"text": "I ask."}
