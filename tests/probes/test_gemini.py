"""The scripted model as a Gemini service: what is its own, beside what all dialects do."""

from __future__ import annotations

from typing import Any

import pytest

from model_speakers import Said, is_refused, one_step, playing
from opask_probes.model import Call, Conversation, Expect, ExpectedResult, Reply, Scenario, Step
from speakers_gemini import Google
from speakers_gemini import content as said
from speakers_gemini import declared as tools


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio, the loop that the model needs."""
    return "asyncio"


async def test_the_model_is_named_by_the_path() -> None:
    """The model of a request is the one in its path."""
    async with playing(Google, verify=False) as (model, runtime):
        await runtime.turn()
        assert model.turns("main")[0].model == "gemini-x"


async def test_an_error_and_what_is_no_text_are_read_as_they_stand() -> None:
    """A response with an error is one, and an output that is no text, or none at all, is quoted as JSON."""
    first = Reply(calls=tuple(Call("list", {"n": at}) for at in range(3)))
    results = (ExpectedResult(is_error=False), ExpectedResult(is_error=True), ExpectedResult(is_error=False))
    last = Step(Reply("1={{result:1}} 2={{result:2}} 3={{result:3}}"), Expect(results=results))
    scenario = Scenario("three", (Conversation("main", (Step(first), last)),))
    async with playing(Google, scenario) as (_, runtime):
        await runtime.turn()
        runtime.respond({"output": {"a": "é"}}, {"error": "no"}, {"files": []})
        runtime.shuffle()
        assert await runtime.turn() == Said('1={"a": "é"} 2=no 3={"files": []}')


async def test_thoughts_and_data_say_nothing() -> None:
    """A thought of the model and an image are let through; the text beside them is read."""
    expect = Expect(text_contains=("See",))
    async with playing(Google, one_step(expect, Reply("First."))) as (_, runtime):
        await runtime.turn()
        runtime.history[-1]["parts"].insert(0, {"text": "Hm.", "thought": True})
        image = {"inlineData": {"mimeType": "image/png", "data": ""}}
        runtime.history.append({"parts": [image, {"text": "See"}]})
        await runtime.turn(tools=[*tools(Google.declared_ask), {"googleSearch": {}}])


async def test_tokens_are_counted() -> None:
    """The service's count of tokens is some number."""
    async with playing(Google, verify=False) as (_, runtime):
        count = await runtime.client.post("/v1beta/models/gemini-x:countTokens", json={"contents": [GO]})
        assert count.json()["totalTokens"] > 0


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
    "tool twice": (
        {"tools": tools(Google.declared_ask, Google.declared_ask)},
        f"duplicate function declaration: {Google.ask_tool}",
    ),
    "tool schema": ({"tools": tools({"name": "x", "parameters": {"type": "ARRAY"}})}, "of type object"),
    "two schemas": ({"tools": tools({**Google.declared_ask, "parameters": {}})}, "exclude each other"),
}


@pytest.mark.parametrize(("fields", "reason"), MALFORMED.values(), ids=MALFORMED.keys())
async def test_a_request_that_the_service_would_refuse_fails(fields: dict[str, Any], reason: str) -> None:
    """A malformed request is refused with the place and the rule, and is a failure of the run."""
    await is_refused(Google, fields, reason)
