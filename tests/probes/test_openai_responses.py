"""The scripted model as an OpenAI Responses service, driven by hand as a runtime would."""

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
from opask_probes.model.openai_responses import OpenAIResponses

ASK = "mcp__opask.ask_user_question"
PATH = "/v1/responses"
HEADERS = {"authorization": "Bearer sk-test-secret"}
ARGUMENTS = {"questions": [{"question": "Which “database”?", "options": [{"label": "SQLite"}]}]}


def tool(name: str, **more: Any) -> dict[str, Any]:
    """Make the offer of a tool."""
    return {
        "type": "function",
        "name": name,
        "description": "A tool.",
        "parameters": {"type": "object"},
        **more,
    }


ASK_TOOL = {"type": "namespace", "name": "mcp__opask", "tools": [tool("ask_user_question")]}
TOOLS = [ASK_TOOL, tool("exec"), {"type": "web_search"}]
ASK_ONCE = Scenario(
    "ask-once",
    (
        Conversation(
            "main",
            (
                Step(Reply("I ask.", (Call(ASK, ARGUMENTS),)), Expect(offered=(ASK, "exec"))),
                Step(Reply("You said: {{result}}"), Expect(results=(ExpectedResult(contains=("SQ",)),))),
            ),
        ),
    ),
)


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio, the loop that the model needs."""
    return "asyncio"


def said(text: str, role: str = "user") -> dict[str, Any]:
    """Make a message item."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


class Runtime:
    """The part of an agent runtime that talks to its model: a history, and one request after the other."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client
        self.input: list[dict[str, Any]] = [said("You are an agent.", "developer"), said("Go.")]

    async def ask(self, **more: Any) -> httpx2.Response:
        """Send the history as it is."""
        body = {"model": "gpt-x", "instructions": "Be brief.", "input": self.input, "tools": TOOLS}
        return await self.client.post(PATH, json={**body, **more})

    async def turn(self, **more: Any) -> list[dict[str, Any]]:
        """Send the history, and put the reply into it."""
        response = await self.ask(**more)
        assert response.status_code == 200, response.text
        output: list[dict[str, Any]] = response.json()["output"]
        self.input += output
        return output

    def answer(self, *results: Any) -> None:
        """Put a result for each call of the last reply into the history."""
        calls = [item for item in self.input if item["type"] == "function_call"][-len(results) :]
        for call, result in zip(calls, results, strict=True):
            self.input.append({"type": "function_call_output", "call_id": call["call_id"], "output": result})


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
    """Put a response together from its events, as a client does, and see that it is what the last event has."""
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


# -- it plays --------------------------------------------------------------------------------------------------------


async def test_it_calls_and_then_quotes_the_result_verbatim() -> None:
    """A call of a namespaced tool names both, and the next reply has the call's output as it was."""
    result = '{"answers": {"Which “database”?": ["SQ\\n", "{{result}}"]}}'
    async with playing(ASK_ONCE) as (model, runtime):
        text, call = await runtime.turn()
        assert text["content"][0]["text"] == "I ask."
        assert (call["call_id"], call["namespace"], call["name"]) == (
            "call_main-1-1",
            "mcp__opask",
            "ask_user_question",
        )
        assert json.loads(call["arguments"]) == ARGUMENTS
        runtime.answer(result)
        (second,) = await runtime.turn()
        assert second["content"][0]["text"] == f"You said: {result}"
        assert [(one.kind, one.dialect) for one in model.requests] == [("scripted", "openai-responses")] * 2


async def test_it_streams_the_same_response() -> None:
    """A streamed reply is put together to what the same step gives in one piece."""
    async with playing(ASK_ONCE, verify=False) as (_, runtime):
        whole = (await runtime.ask()).json()
    async with playing(ASK_ONCE, verify=False) as (_, runtime):
        response = await runtime.ask(stream=True)
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
    """Whatever the text and the arguments are, the events put together are the response."""
    request = ModelRequest("m", "", (), (), stream=True)
    calls = tuple(ToolCall(f"call_{at}", "n.t", each) for at, each in enumerate(arguments))
    message = Message("msg_1", text, calls)
    stream = b"".join(OpenAIResponses().stream(request, message)).decode()
    assert assembled(stream) == OpenAIResponses().whole(request, message)


async def test_several_calls_are_answered_in_any_order() -> None:
    """Each call has an output of its own, and each result is quoted by the place of its call."""
    first = Reply("Both.", (Call(ASK, {"n": 1}), Call("exec", {"n": 2})))
    last = Step(Reply("1={{result:1}} 2={{result:2}}"))
    async with playing(Scenario("two", (Conversation("main", (Step(first), last)),))) as (_, runtime):
        _text, _ask, other = await runtime.turn()
        assert "namespace" not in other
        runtime.answer([{"type": "input_text", "text": "one"}], "two")
        runtime.input[-2:] = reversed(runtime.input[-2:])
        (reply,) = await runtime.turn()
        assert reply["content"][0]["text"] == "1=one 2=two"


async def test_what_instructs_is_the_system_prompt_and_thoughts_say_nothing() -> None:
    """Instructions, system and developer messages are the system prompt; reasoning and unknown items pass."""
    expect = Expect(
        system_contains=("Be brief.", "an agent.", "Late."), text_contains=("Go.",), text_lacks=("secret",)
    )
    async with playing(one_step(expect)) as (_, runtime):
        runtime.input.append({"type": "reasoning", "summary": [], "encrypted_content": "secret"})
        runtime.input.append({"type": "web_search_call", "id": "ws_1"})
        runtime.input.append({"role": "system", "content": "Late."})
        await runtime.turn()


async def test_a_text_is_input_enough() -> None:
    """A request whose input is only a text is the prompt."""
    async with playing(one_step(Expect(text_contains=("Hello",)))) as (_, runtime):
        assert (await runtime.ask(input="Hello")).status_code == 200


async def test_it_does_not_know_whether_a_result_is_an_error() -> None:
    """A scenario that wants to know whether a result is an error fails: there is no mark of it."""
    expect = Expect(results=(ExpectedResult(is_error=False),))
    async with playing(one_step(expect, Reply(calls=(Call(ASK),))), verify=False) as (model, runtime):
        await runtime.turn()
        runtime.answer("fine")
        assert (await runtime.ask()).status_code == 400
        assert model.failures[0].reason == 'result 1 has is_error None, text "fine"'


# -- it is strict ----------------------------------------------------------------------------------------------------

GO = said("Go.")


def use(call_id: object, **more: Any) -> dict[str, Any]:
    """Make a function call."""
    return {"type": "function_call", "call_id": call_id, "name": "t", "arguments": "{}", **more}


def result(call_id: object, output: object = "x") -> dict[str, Any]:
    """Make the output of a call."""
    return {"type": "function_call_output", "call_id": call_id, "output": output}


MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"model": None}, "model: a string is required"),
    "stream is no boolean": ({"stream": 1}, "stream: must be a boolean"),
    "instructions are no text": ({"instructions": ["x"]}, "instructions: a string is required"),
    "refers to a response": ({"previous_response_id": "resp_1"}, "keeps no responses"),
    "refers to a conversation": ({"conversation": "conv_1"}, "keeps no responses"),
    "no input": ({"input": []}, "input: a text or at least one item is required"),
    "item is no object": ({"input": ["x"]}, "input.0: an object is required"),
    "item of no type": ({"input": [{"type": 3}]}, "input.0.type: a string is required, found 3"),
    "strange role": ({"input": [{"role": "tool", "content": "x"}]}, "input.0.role: 'tool' cannot be here"),
    "content is nothing": ({"input": [{"role": "user"}]}, "a string or a list of parts is required"),
    "part without type": ({"input": [{"role": "user", "content": [{}]}]}, "a part with a type is required"),
    "part without text": (
        {"input": [{"role": "user", "content": [{"type": "input_text"}]}]},
        "content.0.text: a string is required",
    ),
    "call without output": ({"input": [GO, use("a")]}, "no output was found for the calls a"),
    "call twice": ({"input": [GO, use("a"), use("a")]}, "input.2.call_id: a is there twice"),
    "call without id": ({"input": [GO, use("")]}, "input.1.call_id: a string is required"),
    "name of a call": ({"input": [GO, use("a", name="x.y")]}, "input.1.name: must match"),
    "namespace of a call": ({"input": [GO, use("a", namespace="x y")]}, "input.1.namespace.name: must match"),
    "arguments are an object": ({"input": [GO, use("a", arguments={})]}, "a string with a JSON object"),
    "arguments are no JSON": ({"input": [GO, use("a", arguments="{")]}, "a string with a JSON object"),
    "output without call": ({"input": [GO, result("a")]}, "no call before waits for the output of a"),
    "two outputs": (
        {"input": [GO, use("a"), result("a"), result("a")]},
        "input.3.call_id: no call before waits for the output of a",
    ),
    "output of nothing": ({"input": [GO, result(None)]}, "input.1.call_id: a string is required"),
    "output is nothing": ({"input": [GO, use("a"), result("a", None)]}, "input.2.output: a string or a list"),
    "tools are no list": ({"tools": {"x": 1}}, "tools: a list is required"),
    "tool of no type": ({"tools": [{}]}, "tools.0: a tool with a type is required"),
    "tool name": ({"tools": [tool("op.ask")]}, "tools.0.name: must match"),
    "long tool name": ({"tools": [tool("x" * 65)]}, "tools.0.name: must match"),
    "tool twice": ({"tools": [tool("x"), tool("x")]}, "tool names must be unique, 'x' is there twice"),
    "tool schema": ({"tools": [tool("x", parameters={"type": "array"})]}, "a schema of type object"),
    "namespace without tools": (
        {"tools": [{**ASK_TOOL, "tools": None}]},
        "tools.0.tools: a list is required",
    ),
    "tool in a namespace": (
        {"tools": [{**ASK_TOOL, "tools": [tool("")]}]},
        "tools.0.tools.0.name: must match",
    ),
}


@pytest.mark.parametrize(("fields", "reason"), MALFORMED.values(), ids=MALFORMED.keys())
async def test_a_request_that_the_service_would_refuse_fails(fields: dict[str, Any], reason: str) -> None:
    """A malformed request is refused with the place and the rule, and is a failure of the run."""
    async with playing(ASK_ONCE, verify=False) as (model, runtime):
        response = await runtime.ask(**fields)
        assert response.status_code == 400
        assert response.json()["error"]["type"] == "invalid_request_error"
        assert reason in response.json()["error"]["message"]
        assert reason in model.failures[0].reason


async def test_a_credential_is_asked_for() -> None:
    """A request without a bearer token is refused."""
    async with playing(ASK_ONCE, verify=False) as (model, runtime):
        del runtime.client.headers["authorization"]
        assert (await runtime.ask()).status_code == 400
        assert "authorization: a bearer token is required" in model.failures[0].reason


# -- beside the script -----------------------------------------------------------------------------------------------


async def test_requests_beside_the_script_are_answered_and_move_nothing() -> None:
    """A request that offers no tools gets a harmless text in the form that it demands."""
    schema = {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}}
    forms: dict[str, Any] = {
        "ok": {},
        "{}": {"text": {"format": {"type": "json_object"}}},
        '{"title": "ok"}': {"text": {"format": {"type": "json_schema", "name": "t", "schema": schema}}},
    }
    async with playing(ASK_ONCE, verify=False) as (model, runtime):
        for text, form in forms.items():
            (item,) = (await runtime.ask(tools=[], **form)).json()["output"]
            assert item["content"][0]["text"] == text
        assert (await runtime.client.get("/v1/responses/resp_1")).status_code == 404
        assert [one.kind for one in model.requests] == ["side", "side", "side", "unknown"]
        assert model.failures == ()
        assert (await runtime.turn())[0]["content"][0]["text"] == "I ask."
