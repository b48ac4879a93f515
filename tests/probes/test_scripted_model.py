"""The scripted model over HTTP, driven by hand as a runtime would."""

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
    Exchange,
    Expect,
    ExpectedResult,
    Message,
    ModelError,
    ModelRequest,
    Reply,
    Scenario,
    ScenarioFailedError,
    ScriptedModel,
    Step,
    ToolCall,
    When,
    serve,
)
from opask_probes.model.anthropic import Anthropic

ASK = "mcp__opask__ask_user_question"
ASK_TOOL = {"name": ASK, "description": "Ask.", "input_schema": {"type": "object"}}
BASH_TOOL = {"name": "Bash", "description": "Run.", "input_schema": {"type": "object"}}
HEADERS = {"anthropic-version": "2023-06-01", "x-api-key": "sk-test-secret"}
QUESTIONS = {"questions": [{"question": "Which database?", "options": [{"label": "SQLite"}]}]}
ASK_ONCE = Scenario(
    "ask-once",
    (
        Conversation(
            "main",
            (
                Step(Reply("I ask.", (Call(ASK, QUESTIONS),))),
                Step(Reply("You said: {{result}}"), Expect(results=(ExpectedResult(is_error=False),))),
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

    def __init__(self, client: httpx2.AsyncClient, prompt: str = "Go.") -> None:
        self.client = client
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
        self.tools: list[dict[str, Any]] = [ASK_TOOL, BASH_TOOL]
        self.system = "You are an agent."

    async def ask(self, **more: Any) -> httpx2.Response:
        """Send the history as it is."""
        body = {"model": "claude-x", "max_tokens": 100, "system": self.system, "tools": self.tools}
        return await self.client.post("/v1/messages", json={**body, "messages": self.messages, **more})

    async def turn(self, **more: Any) -> dict[str, Any]:
        """Send the history, and put the reply into it."""
        response = await self.ask(**more)
        assert response.status_code == 200, response.text
        message: dict[str, Any] = response.json()
        self.messages.append({"role": "assistant", "content": message["content"]})
        return message

    def answer(self, *results: str, is_error: bool | None = None) -> None:
        """Put a result for each call of the last reply into the history."""
        calls = [block for block in self.messages[-1]["content"] if block["type"] == "tool_use"]
        blocks = []
        for call, result in zip(calls, results, strict=True):
            block = {"type": "tool_result", "tool_use_id": call["id"], "content": result}
            blocks.append(block if is_error is None else {**block, "is_error": is_error})
        self.messages.append({"role": "user", "content": blocks})


@asynccontextmanager
async def playing(scenario: Scenario, **options: Any) -> AsyncIterator[tuple[ScriptedModel, Runtime]]:
    """Serve a scenario and give a runtime that is pointed at it."""
    with anyio.fail_after(40):
        async with (
            serve(scenario, **options) as model,
            httpx2.AsyncClient(base_url=model.url, headers=HEADERS, timeout=30) as client,
        ):
            yield model, Runtime(client)


def one_step(expect: Expect, first: Reply | None = None) -> Scenario:
    """Make a scenario whose last step expects something, after a first reply if one is given."""
    steps = [Step(first)] if first else []
    return Scenario("one", (Conversation("main", (*steps, Step(Reply("Done."), expect))),))


def events(text: str) -> list[dict[str, Any]]:
    """Read server-sent events, holding each to its form: an event line, a data line, an empty line."""
    found = []
    for block in text.removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    return found


def assembled(stream: list[dict[str, Any]]) -> dict[str, Any]:
    """Put a message together from its events, as a client does, holding their order to the documented one."""
    start, *middle, stop = [event for event in stream if event["type"] != "ping"]
    assert (start["type"], stop["type"]) == ("message_start", "message_stop")
    message: dict[str, Any] = {**start["message"], "content": []}
    partial: list[str] = []
    for event in middle:
        match event["type"]:
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(dict(event["content_block"]))
                partial = []
            case "content_block_delta":
                assert event["index"] == len(message["content"]) - 1
                delta = event["delta"]
                partial.append(delta["text"] if delta["type"] == "text_delta" else delta["partial_json"])
            case "content_block_stop":
                block, whole = message["content"][-1], "".join(partial)
                if block["type"] == "text":
                    block["text"] += whole
                else:
                    block["input"] = json.loads(whole)
            case _:
                assert event["type"] == "message_delta"
                message.update(event["delta"], usage=event["usage"])
    return message


# -- it plays ----------------------------------------------------------------------------------------------------


async def test_it_calls_and_then_quotes_the_result_verbatim() -> None:
    """A call goes out with its arguments and an id, and the next reply has the tool's result, character for character."""
    result = '{"answers": {"Which “db”?": ["a\\nb", "\\u0000 {{result}} {{x}}"]}}'
    async with playing(ASK_ONCE) as (model, runtime):
        first = await runtime.turn()
        assert [block["type"] for block in first["content"]] == ["text", "tool_use"]
        assert first["content"][0]["text"] == "I ask."
        assert first["content"][1] == {
            "type": "tool_use",
            "id": "toolu_main-1-1",
            "name": ASK,
            "input": QUESTIONS,
        }
        assert first["stop_reason"] == "tool_use"
        runtime.answer(result)
        second = await runtime.turn()
        assert second["content"] == [{"type": "text", "text": f"You said: {result}"}]
        assert second["stop_reason"] == "end_turn"
        assert model.failures == ()


async def test_it_streams_the_same_message() -> None:
    """A streamed reply is put together to what the same step gives in one piece."""
    async with playing(ASK_ONCE, verify=False) as (_, runtime):
        whole = (await runtime.ask()).json()
    async with playing(ASK_ONCE, verify=False) as (_, runtime):
        response = await runtime.ask(stream=True)
        assert response.headers["content-type"].startswith("text/event-stream")
        assert assembled(events(response.text)) == whole


@given(
    st.text(st.characters(codec="utf-8"), max_size=80),
    st.lists(
        st.dictionaries(st.text(max_size=5), st.recursive(st.integers() | st.text(), st.lists, max_leaves=5)),
        max_size=3,
    ),
)
def test_every_reply_streams_as_it_stands(text: str, arguments: list[dict[str, Any]]) -> None:
    """Whatever the text and the arguments are, the events put together are the message."""
    request = ModelRequest("m", "", (), (), stream=True)
    calls = tuple(ToolCall(f"toolu_{at}", "t", each) for at, each in enumerate(arguments))
    message = Message("msg_1", text, calls)
    stream = b"".join(Anthropic().stream(request, message)).decode()
    assert assembled(events(stream)) == Anthropic().whole(request, message)


async def test_several_calls_in_one_message_are_quoted_by_their_place() -> None:
    """Each result is quoted by the place of its call, whatever order the results come back in."""
    first = Reply(calls=(Call(ASK, {"n": 1}), Call("Bash", {"n": 2})))
    last = Step(
        Reply("1={{result:1}} 2={{result:2}} all={{result}}"),
        Expect(
            results=(ExpectedResult(contains=("one",)), ExpectedResult(contains=("two",), lacks=("one",)))
        ),
    )
    async with playing(Scenario("two", (Conversation("main", (Step(first), last)),))) as (_, runtime):
        message = await runtime.turn()
        assert [block["name"] for block in message["content"]] == [ASK, "Bash"]
        runtime.answer("one", "two")
        runtime.messages[-1]["content"].reverse()
        assert (await runtime.turn())["content"][0]["text"] == "1=one 2=two all=one\ntwo"


@pytest.mark.parametrize(
    ("names", "called"),
    [(("Bash", ASK), "Bash"), (("Shell", ASK, "Bash"), ASK), (("Shell", "Run"), "Shell")],
)
async def test_a_tool_of_several_names_is_called_by_the_first_that_is_offered(
    names: tuple[str, ...], called: str
) -> None:
    """What a tool is called depends on the runtime's version; where none of its names is offered the first is used."""
    call = Call(names[0], {}, names[1:])
    async with playing(Scenario("names", (Conversation("main", (Step(Reply("I call.", (call,))),)),))) as (
        _,
        runtime,
    ):
        reply = await runtime.turn()
    assert [block["name"] for block in reply["content"] if block["type"] == "tool_use"] == [called]


async def test_a_conversation_goes_on_over_several_prompts() -> None:
    """After an end of turn the next prompt is the next step."""
    steps = (
        Step(Reply("First.")),
        Step(Reply("Second."), Expect(text_contains=("more",), text_lacks=("Go.",))),
    )
    async with playing(Scenario("two", (Conversation("main", steps),))) as (_, runtime):
        await runtime.turn()
        runtime.messages.append({"role": "user", "content": [{"type": "text", "text": "And more."}]})
        assert (await runtime.turn())["content"][0]["text"] == "Second."


async def test_instructions_between_the_messages_count_as_the_system_prompt() -> None:
    """What a runtime says in system messages is found by what a step expects of the system prompt."""
    async with playing(one_step(Expect(system_contains=("You are an agent.", "Be brief.")))) as (_, runtime):
        runtime.messages.append({"role": "system", "content": [{"type": "text", "text": "Be brief."}]})
        await runtime.turn()


# -- conversations -------------------------------------------------------------------------------------------------

TWO_AGENTS = Scenario(
    "two-agents",
    (
        Conversation("main", (Step(Reply("Main."), releases="go"),), When(prompt_contains=("Go.",))),
        Conversation(
            "sub", (Step(Reply("Sub."), hold="go"),), When(prompt_contains=("SUB",), absent=("Bash",))
        ),
    ),
)


async def test_sub_agents_are_told_apart_and_wait_for_each_other() -> None:
    """A request goes to the conversation that it fits; a held reply comes only after the one that releases it."""
    async with playing(TWO_AGENTS) as (_, runtime):
        sub = Runtime(runtime.client, "SUB work")
        sub.tools = [ASK_TOOL]
        order: list[str] = []

        async def ask(name: str, agent: Runtime) -> None:
            message = await agent.turn()
            order.append(f"{name}: {message['content'][0]['text']}")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "sub", sub)
            await anyio.wait_all_tasks_blocked()
            await ask("main", runtime)
        assert order == ["main: Main.", "sub: Sub."]


@pytest.mark.parametrize(
    ("prompt", "tools", "reason"),
    [
        ("Go. SUB", [ASK_TOOL], "fits several conversations (main, sub)"),
        ("Hello", [ASK_TOOL], "fits no conversation"),
        ("SUB", [ASK_TOOL, BASH_TOOL], "fits no conversation"),
    ],
)
async def test_a_request_of_no_one_conversation_fails(prompt: str, tools: list[Any], reason: str) -> None:
    """A request that fits several conversations, or none, is a failure that quotes its prompt."""
    async with playing(TWO_AGENTS, verify=False) as (model, runtime):
        runtime.messages[0]["content"], runtime.tools = prompt, tools
        assert (await runtime.ask()).status_code == 400
        assert reason in model.failures[0].reason
        assert prompt in model.failures[0].reason


async def test_only_the_first_prompt_tells_whose_a_request_is() -> None:
    """What later messages say, an agent's report for one, does not move a request to another conversation."""
    main = Conversation("main", (Step(Reply("One.")), Step(Reply("Two."))), When(prompt_contains=("Go.",)))
    sub = Conversation("sub", (Step(Reply("Sub.")),), When(prompt_contains=("SUB",)))
    async with playing(Scenario("two", (main, sub)), verify=False) as (_, runtime):
        await runtime.turn()
        runtime.messages.append({"role": "user", "content": "SUB is done."})
        assert (await runtime.turn())["content"][0]["text"] == "Two."


async def test_the_caller_opens_a_gate_and_sees_steps_go_by() -> None:
    """A held reply goes out when the caller releases it, in the process or over HTTP, and `played` tells when it did."""
    steps = (Step(Reply("One."), hold="first"), Step(Reply("Two."), hold="second"))
    async with playing(Scenario("held", (Conversation("main", steps),))) as (model, runtime):

        async def talk() -> None:
            await runtime.turn()
            runtime.messages.append({"role": "user", "content": "Go on."})
            await runtime.turn()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(talk)
            model.release("first")
            await model.played("main", 1)
            assert model.unplayed[0].step == 2
            assert (await runtime.client.post("/opask/release/nothing")).status_code == 404
            assert (await runtime.client.post("/opask/release/second")).status_code == 200
            await model.played("main", 2)
        assert model.unplayed == ()


async def test_what_is_held_at_the_end_fails() -> None:
    """A request that is still held when the model closes is answered with an error, and its step is not played."""
    scenario = Scenario("held", (Conversation("main", (Step(Reply("One."), hold="gate"),)),))
    statuses: list[int] = []
    reached = anyio.Event()
    with anyio.fail_after(40):
        async with anyio.create_task_group() as tasks, serve(scenario, verify=False) as model:

            async def ask() -> None:
                async with httpx2.AsyncClient(base_url=model.url, headers=HEADERS, timeout=30) as client:
                    reached.set()
                    statuses.append((await Runtime(client).ask()).status_code)

            tasks.start_soon(ask)
            await reached.wait()
            while not model.requests:
                await anyio.wait_all_tasks_blocked()
                await anyio.lowlevel.checkpoint()
    assert statuses == [400]
    assert [failure.reason for failure in model.failures] == ["ended while held at gate"]
    assert model.unplayed[0].reason == "not played to its end: 0 of 1 steps"


# -- it fails loudly -----------------------------------------------------------------------------------------------

ONE_CALL = Reply(calls=(Call(ASK),))


@pytest.mark.parametrize(
    ("expect", "reason"),
    [
        (Expect(offered=("AskUserQuestion",)), f"tool AskUserQuestion is not offered; offered: {ASK}, Bash"),
        (Expect(offered=("Bas",)), "tool Bas is not offered"),
        (Expect(absent=("Bash",)), "tool Bash is offered and must not be"),
        (Expect(system_contains=("CLAUSE",)), "the system prompt lacks 'CLAUSE': \"You are an agent.\""),
        (Expect(system_lacks=("agent",)), "the system prompt has 'agent' and must not"),
        (Expect(text_contains=("Stop",)), "the user's text lacks 'Stop': \"Go.\""),
        (Expect(text_lacks=("Go",)), "the user's text has 'Go' and must not"),
        (Expect(results=(ExpectedResult(),)), "1 tool results are expected, found 0"),
        (Expect(offered=("X",), absent=("Bash",)), "; tool Bash is offered"),
    ],
)
async def test_a_request_that_is_not_as_expected_fails(expect: Expect, reason: str) -> None:
    """What is missing or too much in a request is named to the runtime and to the caller, and the step is not played."""
    async with playing(one_step(expect), verify=False) as (model, runtime):
        response = await runtime.ask()
        assert response.status_code == 400
        assert response.json()["error"]["type"] == "invalid_request_error"
        assert reason in response.json()["error"]["message"]
        (failure,) = model.failures
        assert (failure.conversation, failure.step, failure.request) == ("main", 1, 1)
        assert reason in failure.reason
        with pytest.raises(ScenarioFailedError, match="conversation main, step 1") as raised:
            model.verify()
        assert raised.value.failures == (failure, *model.unplayed)


@pytest.mark.parametrize(
    ("expected", "reason"),
    [
        (ExpectedResult(contains=("SQLite",)), "result 1 lacks 'SQLite': \"Postgres\""),
        (ExpectedResult(lacks=("Post",)), "result 1 has 'Post' and must not"),
        (ExpectedResult(is_error=False), 'result 1 has is_error True, text "Postgres"'),
    ],
)
async def test_a_result_that_is_not_as_expected_fails(expected: ExpectedResult, reason: str) -> None:
    """A tool result with the wrong text or the wrong error mark is a failure at the step that expects it."""
    async with playing(one_step(Expect(results=(expected,)), ONE_CALL), verify=False) as (model, runtime):
        await runtime.turn()
        runtime.answer("Postgres", is_error=True)
        assert (await runtime.ask()).status_code == 400
        assert (model.failures[0].step, model.failures[0].reason) == (2, reason)


async def test_a_result_that_is_not_there_cannot_be_quoted() -> None:
    """Quoting the second of one result is a failure, not an empty text."""
    steps = (Step(ONE_CALL), Step(Reply("{{result:2}}")))
    async with playing(Scenario("quote", (Conversation("main", steps),)), verify=False) as (model, runtime):
        await runtime.turn()
        runtime.answer("one")
        assert (await runtime.ask()).status_code == 400
        assert model.failures[0].reason == "{{result:2}} is to be quoted, and there are 1 results"


async def test_asking_after_the_end_fails_once() -> None:
    """A request after the last step is a failure; the same again is refused again and counted once."""
    async with playing(one_step(Expect()), verify=False) as (model, runtime):
        await runtime.turn()
        runtime.messages.append({"role": "user", "content": "More?"})
        for _ in range(3):
            assert (await runtime.ask()).status_code == 400
        assert [failure.reason for failure in model.failures] == [
            "all 1 steps are played and the runtime asks again"
        ]
        assert [exchange.kind for exchange in model.requests] == ["scripted", *["refused"] * 3]


@pytest.mark.parametrize("first", [ONE_CALL, Reply("First.")])
@pytest.mark.parametrize(
    ("history", "reason"),
    [
        ([], "step 1 was replied to, and the request's history has no reply"),
        (
            [{"role": "assistant", "content": "Else."}, {"role": "user", "content": "More."}],
            "the request was repeated or its history changed",
        ),
    ],
)
async def test_a_repeated_request_is_not_the_next_step(first: Reply, history: list[Any], reason: str) -> None:
    """A request without the last reply in its history, or with another one, is a failure."""
    async with playing(one_step(Expect(), first), verify=False) as (model, runtime):
        await runtime.ask()
        runtime.messages += history
        assert (await runtime.ask()).status_code == 400
        assert reason in model.failures[0].reason


async def test_a_conversation_that_failed_is_over() -> None:
    """A runtime that is refused and tries again, with a request that would have fitted, gets the same answer."""
    async with playing(one_step(Expect(absent=("Bash",))), verify=False) as (model, runtime):
        first = await runtime.ask()
        again = await runtime.ask(tools=[ASK_TOOL])
        assert [first.status_code, again.status_code] == [400, 400]
        assert [failure.request for failure in model.failures] == [1]
        assert model.failures[0].reason in again.json()["error"]["message"]


async def test_a_scenario_that_is_not_played_to_its_end_fails() -> None:
    """Leaving the block before the last step raises, and says how far each conversation came."""
    with pytest.raises(
        ScenarioFailedError, match="conversation main, step 2: not played to its end: 1 of 2 steps"
    ):
        async with playing(ASK_ONCE) as (_, runtime):
            await runtime.turn()


async def test_the_error_of_the_block_goes_before() -> None:
    """What went wrong in the block is what is raised, not that the scenario was left early."""
    with pytest.raises(LookupError, match="mine"):
        async with playing(ASK_ONCE):
            raise LookupError("mine")


async def test_a_block_that_is_cancelled_ends() -> None:
    """Cancelling the block closes the model and cuts its connections, and nothing is raised for what was not played."""
    with anyio.fail_after(40):
        async with anyio.create_task_group() as tasks, serve(ASK_ONCE) as model:
            port = int(model.url.rpartition(":")[2])
            connection = await anyio.connect_tcp("127.0.0.1", port)
            await connection.send(b"GET /kept-open HTTP/1.1\r\nHost: model\r\n\r\n")
            assert (await connection.receive()).startswith(b"HTTP/1.1 404")
            tasks.cancel_scope.cancel()
            await anyio.sleep_forever()
        async with connection:
            with anyio.fail_after(3):  # an idle connection is given up after 5 s by itself
                async for _ in connection:
                    pass
        with pytest.raises(OSError, match="connection attempts failed"):
            await anyio.connect_tcp("127.0.0.1", port)


# -- it is strict --------------------------------------------------------------------------------------------------


def _use(call_id: str, **more: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": call_id, "name": "T", "input": {}, **more}],
    }


def _result(*call_ids: str, **more: Any) -> dict[str, Any]:
    blocks = [{"type": "tool_result", "tool_use_id": call_id, "content": "x", **more} for call_id in call_ids]
    return {"role": "user", "content": blocks}


GO = {"role": "user", "content": "Go."}
TEXT = {"type": "text", "text": "x"}
MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"model": None}, "model: a string is required"),
    "no limit": ({"max_tokens": 0}, "max_tokens: a positive integer is required"),
    "stream is no boolean": ({"stream": "yes"}, "stream: must be a boolean"),
    "no messages": ({"messages": []}, "at least one message is required"),
    "begins with the model": (
        {"messages": [{"role": "assistant", "content": "x"}]},
        "first message must be the user's",
    ),
    "begins with the system": ({"messages": [{"role": "system", "content": "x"}, GO]}, "messages.0.role"),
    "strange role": (
        {"messages": [{"role": "tool", "content": "x"}]},
        "messages.0.role: 'tool' cannot be here",
    ),
    "content is no list": ({"messages": [{"role": "user", "content": 3}]}, "a string or a list of blocks"),
    "block without type": (
        {"messages": [{"role": "user", "content": [{}]}]},
        "a block with a type is required",
    ),
    "empty text": (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]},
        "text content blocks must be non-empty",
    ),
    "call without result": (
        {"messages": [GO, _use("a"), GO]},
        "without tool_result blocks immediately after: a",
    ),
    "call at the end": ({"messages": [GO, _use("a")]}, "without tool_result blocks immediately after: a"),
    "call, then the model": (
        {"messages": [GO, _use("a"), _use("b"), _result("a", "b")]},
        "immediately after: a",
    ),
    "call, then the system": (
        {"messages": [GO, _use("a"), {"role": "system", "content": "x"}, _result("a")]},
        "messages.2.role: 'system' cannot be here",
    ),
    "result without call": (
        {"messages": [GO, _result("a")]},
        "tool_result without a tool_use just before: a",
    ),
    "result of an older call": (
        {"messages": [GO, _use("a"), _result("a"), _use("b"), _result("b", "a")]},
        "tool_result without a tool_use just before: a",
    ),
    "two results": ({"messages": [GO, _use("a"), _result("a", "a")]}, "must have a single tool_result"),
    "result after text": (
        {"messages": [GO, _use("a"), {"role": "user", "content": [TEXT, *_result("a")["content"]]}]},
        "tool_result blocks must come before other content",
    ),
    "result by the model": (
        {"messages": [GO, {"role": "assistant", "content": _result("a")["content"]}]},
        "tool_result blocks can only be in user messages",
    ),
    "call by the user": (
        {"messages": [{"role": "user", "content": _use("a")["content"]}]},
        "tool_use blocks can only be in assistant messages",
    ),
    "call twice": (
        {"messages": [GO, _use("a"), _result("a"), _use("a"), _result("a")]},
        "tool_use ids must be unique, a is there twice",
    ),
    "strange id": ({"messages": [GO, _use("a b"), _result("a b")]}, "id: must match"),
    "strange name": ({"messages": [GO, _use("a", name="x.y"), _result("a")]}, "name: must match"),
    "input is no object": (
        {"messages": [GO, _use("a", input="{}"), _result("a")]},
        "input: an object is required",
    ),
    "result of nothing": ({"messages": [GO, _use("a"), _result(None)]}, "tool_use_id: a string is required"),  # type: ignore[arg-type]
    "error mark": ({"messages": [GO, _use("a"), _result("a", is_error="no")]}, "is_error: must be a boolean"),
    "tools are no list": ({"tools": {}}, "tools: a list is required"),
    "tool is no object": ({"tools": ["x"]}, "tools.0: an object is required"),
    "tool name": (
        {"tools": [{"name": "op.ask", "input_schema": {"type": "object"}}]},
        "tools.0.name: must match",
    ),
    "tool twice": ({"tools": [ASK_TOOL, ASK_TOOL]}, "tool names must be unique"),
    "tool schema": ({"tools": [{"name": "x"}]}, "tools.0.input_schema: a schema of type object is required"),
}


@pytest.mark.parametrize(("fields", "reason"), MALFORMED.values(), ids=MALFORMED.keys())
async def test_a_request_that_the_service_would_refuse_fails(fields: dict[str, Any], reason: str) -> None:
    """A malformed request is refused with the place and the rule, and is a failure of the run."""
    async with playing(ASK_ONCE, verify=False) as (model, runtime):
        response = await runtime.ask(**fields)
        assert response.status_code == 400
        assert reason in response.json()["error"]["message"]
        assert reason in model.failures[0].reason
        assert model.requests[0].kind == "refused"


@pytest.mark.parametrize("missing", ["anthropic-version", "x-api-key"])
async def test_the_headers_of_the_service_are_asked_for(missing: str) -> None:
    """A request without the version or without a credential is refused."""
    async with playing(ASK_ONCE, verify=False) as (model, runtime):
        del runtime.client.headers[missing]
        assert (await runtime.ask()).status_code == 400
        assert missing in model.failures[0].reason


async def test_a_body_that_is_no_object_is_refused() -> None:
    """A body that is no JSON, or no object, is a failure and is kept as it came."""
    async with playing(ASK_ONCE, verify=False) as (model, runtime):
        for content in (b"{", b"[]"):
            assert (await runtime.client.post("/v1/messages", content=content)).status_code == 400
        assert [exchange.body for exchange in model.requests] == ["{", []]
        assert [failure.reason for failure in model.failures] == ["the body must be a JSON object"]


# -- beside the script ---------------------------------------------------------------------------------------------


async def test_requests_beside_the_script_are_answered_and_move_nothing() -> None:
    """A title, a check of the quota, a count of tokens and an unknown path are harmless, and logged for what they are."""
    schema = {
        "type": "object",
        "required": ["title", "level", "tags", "n"],
        "properties": {
            "title": {"type": "string"},
            "level": {"enum": ["low", "high"]},
            "tags": {"type": "array", "items": {"const": "x"}, "minItems": 2},
            "n": {"anyOf": [{"type": ["integer", "null"]}, {"type": "string"}]},
        },
    }
    async with playing(ASK_ONCE, verify=False) as (model, runtime):
        quota = await runtime.ask(tools=[], max_tokens=1)
        title = await runtime.ask(
            tools=[], output_config={"format": {"type": "json_schema", "schema": schema}}
        )
        streamed = await runtime.ask(tools=[], stream=True)
        count = await runtime.client.post("/v1/messages/count_tokens", json={"messages": [GO]})
        unknown = await runtime.client.get("/api/hello")
        assert quota.json()["content"] == [{"type": "text", "text": "ok"}]
        assert json.loads(title.json()["content"][0]["text"]) == {
            "title": "ok",
            "level": "low",
            "tags": ["x", "x"],
            "n": 0,
        }
        assert assembled(events(streamed.text))["content"] == [{"type": "text", "text": "ok"}]
        assert count.json()["input_tokens"] > 0
        assert unknown.status_code == 404
        assert [(exchange.kind, exchange.note) for exchange in model.requests] == [
            ("side", "a check of the quota"),
            ("side", "no tools are offered"),
            ("side", "no tools are offered"),
            ("service", None),
            ("unknown", None),
        ]
        assert model.failures == ()
        assert (await runtime.turn())["content"][0]["text"] == "I ask."


# -- what it keeps -------------------------------------------------------------------------------------------------


async def test_it_keeps_what_the_runtime_sent_without_its_credentials() -> None:
    """Each request is there for assertions, with its place in the script, and no key is in it or in the log."""
    seen: list[Exchange] = []
    async with playing(ASK_ONCE, verify=False, watch=seen.append) as (model, runtime):
        await runtime.turn()
        (exchange,) = model.requests
        assert seen == [exchange]
        assert (exchange.method, exchange.path, exchange.status) == ("POST", "/v1/messages", 200)
        assert (exchange.kind, exchange.conversation, exchange.step) == ("scripted", "main", 1)
        assert exchange.body["messages"] == [GO]
        (request,) = model.turns("main")
        assert request.tool_names == (ASK, "Bash")
        assert request.prompt == "Go."
        logged = json.dumps(exchange.to_data())
        assert "sk-test-secret" not in logged
        assert json.loads(logged)["reply"]["calls"][0]["tool"] == ASK


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_another_loop_is_refused() -> None:
    """Serving on a loop that is not asyncio's is an error that names the way out."""
    with pytest.raises(ModelError, match="start it as a program"):
        async with serve(ASK_ONCE):
            pass  # pragma: no cover
