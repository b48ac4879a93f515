"""The scripted model as an OpenAI Chat Completions service, driven by hand as a runtime would."""

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
from opask_probes.model.openai_chat import OpenAIChat

ASK = "mcp__opask__ask_user_question"
PATH = "/v1/chat/completions"
HEADERS = {"authorization": "Bearer sk-test-secret"}
ARGUMENTS = {"questions": [{"question": "Which “database”?", "options": [{"label": "SQLite"}]}]}


def tool(name: str, **function: Any) -> dict[str, Any]:
    """Make the offer of a tool."""
    return {
        "type": "function",
        "function": {"name": name, "description": "A tool.", "parameters": {"type": "object"}, **function},
    }


ASK_TOOL, BASH_TOOL = tool(ASK), tool("Bash")
ASK_ONCE = Scenario(
    "ask-once",
    (
        Conversation(
            "main",
            (
                Step(Reply("I ask.", (Call(ASK, ARGUMENTS),)), Expect(offered=(ASK,))),
                Step(Reply("You said: {{result}}"), Expect(results=(ExpectedResult(contains=("SQ",)),))),
            ),
        ),
    ),
)


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio, the loop that the model needs."""
    return "asyncio"


class Runtime:
    """The part of an agent runtime that talks to its model: a history, and one request after the other."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client
        self.messages: list[dict[str, Any]] = [
            {"role": "system", "content": "You are an agent."},
            {"role": "user", "content": "Go."},
        ]

    async def ask(self, **more: Any) -> httpx2.Response:
        """Send the history as it is."""
        body = {"model": "gpt-x", "messages": self.messages, "tools": [ASK_TOOL, BASH_TOOL]}
        return await self.client.post(PATH, json={**body, **more})

    async def turn(self, **more: Any) -> dict[str, Any]:
        """Send the history, and put the reply into it."""
        response = await self.ask(**more)
        assert response.status_code == 200, response.text
        (choice,) = response.json()["choices"]
        self.messages.append(choice["message"])
        return dict(choice)

    def answer(self, *results: str) -> None:
        """Put a result for each call of the last reply into the history."""
        for call, result in zip(self.messages[-1]["tool_calls"], results, strict=True):
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


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
    """Put a completion together from its chunks, as a client does, holding them to the documented form."""
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


# -- it plays --------------------------------------------------------------------------------------------------------


async def test_it_calls_and_then_quotes_the_result_verbatim() -> None:
    """A call goes out with its arguments as a string, and the next reply has the tool's result as it was."""
    result = '{"answers": {"Which “database”?": ["SQ\\n", "{{result}}"]}}'
    async with playing(ASK_ONCE) as (model, runtime):
        first = await runtime.turn()
        (call,) = first["message"]["tool_calls"]
        assert first["message"]["content"] == "I ask."
        assert (call["id"], call["type"], call["function"]["name"]) == ("call_main-1-1", "function", ASK)
        assert json.loads(call["function"]["arguments"]) == ARGUMENTS
        assert first["finish_reason"] == "tool_calls"
        runtime.answer(result)
        second = await runtime.turn()
        assert second["message"]["content"] == f"You said: {result}"
        assert second["finish_reason"] == "stop"
        assert [(one.kind, one.dialect) for one in model.requests] == [("scripted", "openai-chat")] * 2


async def test_it_streams_the_same_completion() -> None:
    """A streamed reply is put together to what the same step gives in one piece."""
    async with playing(ASK_ONCE, verify=False) as (_, runtime):
        whole = (await runtime.ask()).json()
    async with playing(ASK_ONCE, verify=False) as (_, runtime):
        response = await runtime.ask(stream=True, stream_options={"include_usage": True})
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
    """Whatever the text and the arguments are, the chunks put together are the completion."""
    request = ModelRequest("m", "", (), (), stream=True)
    calls = tuple(ToolCall(f"call_{at}", "t", each) for at, each in enumerate(arguments))
    message = Message("msg_1", text, calls)
    stream = b"".join(OpenAIChat().stream(request, message)).decode()
    assert assembled(stream) == OpenAIChat().whole(request, message)


async def test_several_calls_are_answered_in_any_order() -> None:
    """Each call has a tool message of its own, and each result is quoted by the place of its call."""
    first = Reply(calls=(Call(ASK, {"n": 1}), Call("Bash", {"n": 2})))
    last = Step(Reply("1={{result:1}} 2={{result:2}}"))
    async with playing(Scenario("two", (Conversation("main", (Step(first), last)),))) as (_, runtime):
        assert (await runtime.turn())["message"]["content"] is None
        runtime.answer("one", "two")
        runtime.messages[-2:] = reversed(runtime.messages[-2:])
        assert (await runtime.turn())["message"]["content"] == "1=one 2=two"


async def test_what_follows_the_results_is_of_the_same_turn() -> None:
    """A user message after tool messages is part of the same request, and both are found in it."""
    expect = Expect(text_contains=("And more.",), text_lacks=("Go.",), results=(ExpectedResult(("one",)),))
    async with playing(one_step(expect, Reply(calls=(Call(ASK),)))) as (_, runtime):
        await runtime.turn()
        runtime.answer("one")
        runtime.messages.append({"role": "user", "content": [{"type": "text", "text": "And more."}]})
        await runtime.turn()


async def test_every_system_message_is_of_the_system_prompt() -> None:
    """System and developer messages count as the system prompt, wherever they stand."""
    async with playing(one_step(Expect(system_contains=("an agent.", "Be brief.", "Late.")))) as (_, runtime):
        runtime.messages.insert(0, {"role": "developer", "content": "Be brief."})
        runtime.messages.append({"role": "system", "content": [{"type": "text", "text": "Late."}]})
        await runtime.turn()


async def test_other_parts_of_a_message_say_nothing() -> None:
    """An image in a user message is let through, and the text beside it is read."""
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    async with playing(one_step(Expect(text_contains=("See",)))) as (_, runtime):
        runtime.messages[-1]["content"] = [image, {"type": "text", "text": "See"}]
        await runtime.turn()


async def test_it_does_not_know_whether_a_result_is_an_error() -> None:
    """A scenario that wants to know whether a result is an error fails in both directions: there is no mark of it."""
    for wanted in (True, False):
        expect = Expect(results=(ExpectedResult(is_error=wanted),))
        async with playing(one_step(expect, Reply(calls=(Call(ASK),))), verify=False) as (model, runtime):
            await runtime.turn()
            runtime.answer("Error: no.")
            assert (await runtime.ask()).status_code == 400
            assert model.failures[0].reason == 'result 1 has is_error None, text "Error: no."'


# -- it is strict ----------------------------------------------------------------------------------------------------

GO = {"role": "user", "content": "Go."}


def use(call_id: object, *, name: str = "T", arguments: object = "{}", **more: Any) -> dict[str, Any]:
    """Make an assistant message with one call."""
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def result(call_id: object, content: object = "x") -> dict[str, Any]:
    """Make a tool message."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"model": ""}, "model: a string is required"),
    "stream is no boolean": ({"stream": "yes"}, "stream: must be a boolean"),
    "options without a stream": ({"stream_options": {"include_usage": True}}, "only allowed when stream"),
    "several choices": ({"n": 2}, "n: the scripted model makes one choice"),
    "no messages": ({"messages": []}, "at least one message is required"),
    "messages are no list": ({"messages": {}}, "at least one message is required"),
    "strange role": ({"messages": [{"role": "robot", "content": "x"}]}, "'robot' cannot be here"),
    "message is no object": ({"messages": ["x"]}, "messages.0.role: None cannot be here"),
    "content is no list": ({"messages": [{"role": "user", "content": 3}]}, "a string or a list of parts"),
    "part without type": ({"messages": [{"role": "user", "content": [{}]}]}, "a part with a type"),
    "part without text": (
        {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
        "messages.0.content.0.text: a string is required",
    ),
    "call without result": (
        {"messages": [GO, use("a"), GO]},
        "messages.2: tool_calls without tool messages immediately after: a",
    ),
    "call at the end": ({"messages": [GO, use("a")]}, "without tool messages immediately after: a"),
    "result without call": ({"messages": [GO, result("a")]}, "'a' is none that waits"),
    "result of an older call": (
        {"messages": [GO, use("a"), result("a"), use("b"), result("a")]},
        "'a' is none that waits",
    ),
    "two results": ({"messages": [GO, use("a"), result("a"), result("a")]}, "'a' is none that waits"),
    "result of nothing": ({"messages": [GO, use("a"), result(None)]}, "None is none that waits"),
    "result without content": (
        {"messages": [GO, use("a"), result("a", None)]},
        "messages.2.content: a string or a list of parts is required",
    ),
    "no calls at all": (
        {"messages": [GO, {"role": "assistant", "content": "x", "tool_calls": []}]},
        "a list that is not empty is required",
    ),
    "call of another type": ({"messages": [GO, use("a", type="custom")]}, "of type function is required"),
    "call without id": ({"messages": [GO, use("")]}, "tool_calls.0.id: a string is required"),
    "call twice": (
        {"messages": [GO, {**use("a"), "tool_calls": use("a")["tool_calls"] * 2}]},
        "tool_calls.1.id: a is there twice",
    ),
    "name of a call": ({"messages": [GO, use("a", name="x.y")]}, "name: must match"),
    "arguments are an object": ({"messages": [GO, use("a", arguments={})]}, "a string with a JSON object"),
    "arguments are no JSON": ({"messages": [GO, use("a", arguments="{")]}, "a string with a JSON object"),
    "arguments are a list": ({"messages": [GO, use("a", arguments="[]")]}, "a string with a JSON object"),
    "silent assistant": (
        {"messages": [GO, {"role": "assistant", "content": None}]},
        "content or tool_calls are required",
    ),
    "tools are no list": ({"tools": {}}, "tools: a list is required"),
    "tool of another type": ({"tools": [{"type": "custom"}]}, "tools.0: a tool of type function"),
    "tool is no object": ({"tools": ["x"]}, "tools.0: a tool of type function"),
    "tool name": ({"tools": [tool("op.ask")]}, "tools.0.function.name: must match"),
    "long tool name": ({"tools": [tool("x" * 65)]}, "tools.0.function.name: must match"),
    "tool twice": ({"tools": [ASK_TOOL, ASK_TOOL]}, "tool names must be unique"),
    "tool schema": ({"tools": [tool("x", parameters={"type": "array"})]}, "a schema of type object"),
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
    """A request without a bearer token is refused, and one that has it leaves no trace of it in the log."""
    async with playing(one_step(Expect()), verify=False) as (model, runtime):
        await runtime.turn()
        assert "sk-test-secret" not in json.dumps(model.requests[0].to_data())
        del runtime.client.headers["authorization"]
        assert (await runtime.ask()).status_code == 400
        assert "authorization: a bearer token is required" in model.failures[0].reason


# -- beside the script -----------------------------------------------------------------------------------------------


async def test_requests_beside_the_script_are_answered_and_move_nothing() -> None:
    """A request that offers no tools gets a harmless text in the form that it demands, and the list of models is there."""
    schema = {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}}
    forms: dict[str, Any] = {
        "ok": {},
        "{}": {"response_format": {"type": "json_object"}},
        '{"title": "ok"}': {
            "response_format": {"type": "json_schema", "json_schema": {"name": "t", "schema": schema}}
        },
    }
    async with playing(ASK_ONCE, verify=False) as (model, runtime):
        for text, form in forms.items():
            response = await runtime.ask(tools=None, **form)
            assert response.json()["choices"][0]["message"]["content"] == text
        models = (await runtime.client.get("/v1/models")).json()
        assert [one["object"] for one in models["data"]] == ["model"]
        assert (await runtime.client.post("/v1/embeddings", json={})).status_code == 404
        assert [one.kind for one in model.requests] == ["side", "side", "side", "service", "unknown"]
        assert model.failures == ()
        assert (await runtime.turn())["message"]["content"] == "I ask."


async def test_an_assistant_message_may_repeat_its_text_in_the_history() -> None:
    """A reply that is only text is recognised when it comes back as a list of parts."""
    steps = (Step(Reply("First.")), Step(Reply("Second.")))
    async with playing(Scenario("two", (Conversation("main", steps),))) as (_, runtime):
        await runtime.turn()
        runtime.messages[-1] = {"role": "assistant", "content": [{"type": "text", "text": "First."}]}
        runtime.messages.append(GO)
        assert (await runtime.turn())["message"]["content"] == "Second."
