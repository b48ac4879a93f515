"""What the scripted model does alike in every dialect but its first, driven by hand as a runtime would."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_speakers import ARGUMENTS, SECRET, Said, Speaker, one_step, playing
from opask_probes.model import (
    Call,
    Conversation,
    Expect,
    ExpectedResult,
    Message,
    ModelRequest,
    Reply,
    Scenario,
    Step,
    ToolCall,
)
from speakers_gemini import Google
from speakers_openai import Chat, Responses

SPEAKERS: tuple[type[Speaker], ...] = (Chat, Responses, Google)
pytestmark = pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda one: one.dialect.name)


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio, the loop that the model needs."""
    return "asyncio"


async def test_it_calls_and_then_quotes_the_result_verbatim(speaker: type[Speaker]) -> None:
    """A call goes out with its arguments and an id, and the next reply has the tool's result as it was."""
    result = '{"answers": {"Which “database”?": ["SQ\\n", "{{result}}"]}}'
    async with playing(speaker) as (model, runtime):
        call = ToolCall(f"{speaker.dialect.call_prefix}main-1-1", speaker.ask_tool, ARGUMENTS)
        assert await runtime.turn() == Said("I ask.", (call,))
        runtime.answer(result)
        assert await runtime.turn() == Said(f"You said: {result}")
        assert [(one.kind, one.dialect) for one in model.requests] == [("scripted", speaker.dialect.name)] * 2
        assert SECRET not in json.dumps([one.to_data() for one in model.requests])


async def test_it_streams_the_same_reply(speaker: type[Speaker]) -> None:
    """A streamed reply is put together to what the same step gives in one piece."""
    async with playing(speaker, verify=False) as (_, runtime):
        whole = (await runtime.ask()).json()
    async with playing(speaker, verify=False) as (_, runtime):
        response = await runtime.ask(streams=True)
        assert response.headers["content-type"].startswith("text/event-stream")
        assert runtime.assembled(response.text) == whole


@given(
    text=st.text(st.characters(codec="utf-8"), max_size=80),
    arguments=st.lists(
        st.dictionaries(st.text(max_size=5), st.recursive(st.integers() | st.text(), st.lists, max_leaves=5)),
        max_size=3,
    ),
)
def test_every_reply_streams_as_it_stands(
    speaker: type[Speaker], text: str, arguments: list[dict[str, Any]]
) -> None:
    """Whatever the text and the arguments are, the events put together are the reply."""
    request = ModelRequest("m", "", (), (), stream=True)
    tool = speaker.ask_tool
    calls = [ToolCall(f"{speaker.dialect.call_prefix}{at}", tool, each) for at, each in enumerate(arguments)]
    message = Message("msg_1", text, tuple(calls))
    stream = b"".join(speaker.dialect.stream(request, message)).decode()
    assert speaker.assembled(stream) == speaker.dialect.whole(request, message)


@pytest.mark.parametrize("text", ["", "Both."])
async def test_several_calls_are_answered_in_any_order(speaker: type[Speaker], text: str) -> None:
    """Each call has a result of its own, and each result is quoted by the place of its call."""
    tools = (speaker.ask_tool, speaker.other_tool)
    first = Reply(text, tuple(Call(tool, {"n": at}) for at, tool in enumerate(tools)))
    last = Step(Reply("1={{result:1}} 2={{result:2}}"))
    scenario = Scenario("two", (Conversation("main", (Step(first), last)),))
    async with playing(speaker, scenario) as (_, runtime):
        said = await runtime.turn()
        assert said.text == text
        assert [(call.tool, call.arguments) for call in said.calls] == [
            (tool, {"n": at}) for at, tool in enumerate(tools)
        ]
        runtime.answer("one", "two")
        runtime.shuffle()
        assert await runtime.turn() == Said("1=one 2=two")


@pytest.mark.parametrize("wanted", [True, False])
async def test_whether_a_result_is_an_error_is_known_only_where_it_can_be_said(
    speaker: type[Speaker], wanted: bool
) -> None:
    """A scenario that wants to know whether a result is an error fails in both directions where there is no mark of it."""
    expect = Expect(results=(ExpectedResult(is_error=wanted),))
    scenario = one_step(expect, Reply(calls=(Call(speaker.ask_tool),)))
    async with playing(speaker, scenario, verify=False) as (model, runtime):
        await runtime.turn()
        runtime.answer("Error: no.")
        status = (await runtime.ask()).status_code
        found = "False" if speaker.marks_errors else "None"
        reasons = [f'result 1 has is_error {found}, text "Error: no."']
        expected = (200, []) if speaker.marks_errors and not wanted else (400, reasons)
        assert (status, [failure.reason for failure in model.failures]) == expected


async def test_a_credential_is_asked_for(speaker: type[Speaker]) -> None:
    """A request without a key is refused."""
    async with playing(speaker, verify=False) as (model, runtime):
        del runtime.client.headers[speaker.credential[0]]
        assert (await runtime.ask()).status_code == 400
        assert speaker.demand in model.failures[0].reason


async def test_requests_beside_the_script_are_answered_and_move_nothing(speaker: type[Speaker]) -> None:
    """A request that offers no tools gets a harmless text in the form that it demands; the service has other paths."""
    async with playing(speaker, verify=False) as (model, runtime):
        begun = list(runtime.history)
        nothing: tuple[list[Any] | None, ...] = (None, [])
        for none in nothing:
            for text, form in speaker.side.items():
                assert await runtime.turn(tools=none, **form) == Said(text)
                runtime.history = list(begun)
        for (method, path), kind in speaker.beside.items():
            status = (await runtime.client.request(method, path, json={})).status_code
            assert status == (404 if kind == "unknown" else 200)
        kinds = ["side"] * 2 * len(speaker.side) + list(speaker.beside.values())
        assert [one.kind for one in model.requests] == kinds
        assert model.failures == ()
        assert (await runtime.turn()).text == "I ask."
