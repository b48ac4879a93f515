"""The scripted model as an OpenAI Responses service: what is its own, beside what all dialects do."""

from __future__ import annotations

from typing import Any

import pytest

from model_speakers import is_refused, one_step, playing
from opask_probes.model import Expect
from speakers_openai import NAMESPACE, Responses
from speakers_openai import item as said
from speakers_openai import response_tool as tool


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio, the loop that the model needs."""
    return "asyncio"


async def test_what_instructs_is_the_system_prompt_and_thoughts_say_nothing() -> None:
    """Instructions, system and developer messages are the system prompt; reasoning and unknown items pass."""
    expect = Expect(
        system_contains=("Be brief.", "an agent.", "Late."), text_contains=("Go.",), text_lacks=("secret",)
    )
    async with playing(Responses, one_step(expect)) as (_, runtime):
        runtime.history.append({"type": "reasoning", "summary": [], "encrypted_content": "secret"})
        runtime.history.append({"type": "web_search_call", "id": "ws_1"})
        runtime.history.append({"role": "system", "content": "Late."})
        await runtime.turn()


async def test_a_text_is_input_enough() -> None:
    """A request whose input is only a text is the prompt."""
    async with playing(Responses, one_step(Expect(text_contains=("Hello",)))) as (_, runtime):
        assert (await runtime.ask(input="Hello")).status_code == 200


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
        {"tools": [{**NAMESPACE, "tools": None}]},
        "tools.0.tools: a list is required",
    ),
    "tool in a namespace": (
        {"tools": [{**NAMESPACE, "tools": [tool("")]}]},
        "tools.0.tools.0.name: must match",
    ),
}


@pytest.mark.parametrize(("fields", "reason"), MALFORMED.values(), ids=MALFORMED.keys())
async def test_a_request_that_the_service_would_refuse_fails(fields: dict[str, Any], reason: str) -> None:
    """A malformed request is refused with the place and the rule, and is a failure of the run."""
    await is_refused(Responses, fields, reason)
