"""The scripted model as an OpenAI Chat Completions service: what is its own, beside what all dialects do."""

from __future__ import annotations

from typing import Any

import pytest

from model_speakers import is_refused, one_step, playing
from opask_probes.model import Call, Conversation, Expect, ExpectedResult, Reply, Scenario, Step
from speakers_openai import Chat
from speakers_openai import chat_tool as tool


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio, the loop that the model needs."""
    return "asyncio"


async def test_what_follows_the_results_is_of_the_same_turn() -> None:
    """A user message after tool messages is part of the same request, and both are found in it."""
    expect = Expect(text_contains=("And more.",), text_lacks=("Go.",), results=(ExpectedResult(("one",)),))
    async with playing(Chat, one_step(expect, Reply(calls=(Call("Bash"),)))) as (_, runtime):
        await runtime.turn()
        runtime.answer("one")
        runtime.history.append({"role": "user", "content": [{"type": "text", "text": "And more."}]})
        await runtime.turn()


async def test_every_system_message_is_of_the_system_prompt() -> None:
    """System and developer messages count as the system prompt, wherever they stand."""
    expect = Expect(system_contains=("an agent.", "Be brief.", "Late."))
    async with playing(Chat, one_step(expect)) as (_, runtime):
        runtime.history.insert(0, {"role": "developer", "content": "Be brief."})
        runtime.history.append({"role": "system", "content": [{"type": "text", "text": "Late."}]})
        await runtime.turn()


async def test_other_parts_of_a_message_say_nothing() -> None:
    """An image in a user message is let through, and the text beside it is read."""
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    async with playing(Chat, one_step(Expect(text_contains=("See",)))) as (_, runtime):
        runtime.history[-1]["content"] = [image, {"type": "text", "text": "See"}]
        await runtime.turn()


async def test_an_assistant_message_may_repeat_its_text_in_the_history() -> None:
    """A reply that is only text is recognised when it comes back as a list of parts."""
    steps = (Step(Reply("First.")), Step(Reply("Second.")))
    async with playing(Chat, Scenario("two", (Conversation("main", steps),))) as (_, runtime):
        await runtime.turn()
        runtime.history[-1] = {"role": "assistant", "content": [{"type": "text", "text": "First."}]}
        runtime.history.append(GO)
        assert (await runtime.turn()).text == "Second."


async def test_the_models_are_listed() -> None:
    """The service's list of models has one."""
    async with playing(Chat, verify=False) as (_, runtime):
        models = (await runtime.client.get("/v1/models")).json()
        assert [one["object"] for one in models["data"]] == ["model"]


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
    "tool twice": ({"tools": [tool("Bash"), tool("Bash")]}, "tool names must be unique"),
    "tool schema": ({"tools": [tool("x", parameters={"type": "array"})]}, "a schema of type object"),
}


@pytest.mark.parametrize(("fields", "reason"), MALFORMED.values(), ids=MALFORMED.keys())
async def test_a_request_that_the_service_would_refuse_fails(fields: dict[str, Any], reason: str) -> None:
    """A malformed request is refused with the place and the rule, and is a failure of the run."""
    await is_refused(Chat, fields, reason)
