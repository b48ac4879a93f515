"""Conversations with Kimi over ACP: titles, arguments that grow, questions in disguise, sub-agents, a missing tool."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_samples import SESSION, answer, content, permission, request, said, update
from kimi_samples import (
    ANSWERS,
    ASK,
    BARE,
    BARE_OPTIONS,
    NATIVE,
    OPTIONS,
    announced,
    asks_bare_permission,
    asks_permission,
    bare_announced,
    finished,
    started,
)
from opask.adapters import Message
from opask.errors import LaunchError
from opask.events import (
    AskToolMissing,
    Event,
    NativeAskRefused,
    QuestionAsked,
    QuestionCorrelated,
    SessionReady,
    ToolAnnounced,
    ToolFinished,
    TurnEnded,
)
from opask.intake import Rejected, parse
from opask.launch import Endpoint, LaunchRequest
from opask.outcomes import Skipped
from opask.permissions import Allow, Defer, Deny, PermissionRequested
from opask.questions import Ask
from opask.testing.conformance import ARGUMENTS
from opask_acp.conversation import AcpConversation
from opask_kimi import KimiAdapter, adapter, legacy_adapter
from opask_kimi.profile import command_of

ENDPOINT = Endpoint(command=("relay",), folder=Path("/run/s"), wait=timedelta(minutes=1))
OTHER = {"questions": [{"question": "Which parts?", "options": ["API", "Docs"], "multiSelect": True}]}
AGENT = {"description": "sub", "prompt": "Do it.", "subagent_type": "coder"}


def opened(
    used: KimiAdapter | Any = adapter, *argv: str, there: bool = True, prompt: str | None = "Go."
) -> AcpConversation:
    """Open a session and begin a turn."""
    launch = LaunchRequest(argv or (used.program, "acp"), {"HOME": "/home/agent"}, cwd="/srv")
    conversation: Any = used.conversation(used.plan_launch(launch, ENDPOINT if there else None))
    version = "2.1.0" if used is not legacy_adapter else "1.50.0"
    hear(
        conversation,
        answered(conversation, protocolVersion=1, agentInfo={"name": "Kimi Code CLI", "version": version}),
    )
    hear(conversation, answered(conversation, sessionId=SESSION))
    if prompt is not None:
        conversation.prompt(prompt)
    assert isinstance(conversation, AcpConversation)
    return conversation


def answered(conversation: AcpConversation, **result: Any) -> Message:
    """Answer what the conversation sends next."""
    (due,) = conversation.outgoing()
    return answer(due["id"], **result)


def hear(conversation: AcpConversation, *messages: Message) -> list[Event]:
    """Take in messages."""
    return [event for message in messages for event in conversation.receive(message)]


def of(kind: type[Any], events: Iterable[Event]) -> list[Any]:
    """Give the events of a kind."""
    return [event for event in events if isinstance(event, kind)]


def one(kind: type[Any], events: Iterable[Event]) -> Any:
    """Give the one event of a kind."""
    (found,) = of(kind, events)
    return found


def ask(number: int, arguments: Any = ARGUMENTS) -> Ask:
    """Make an ask."""
    questions = parse(arguments)
    assert not isinstance(questions, Rejected)
    return Ask(
        id=f"ask-{number}", session_id="s", questions=questions, asked_at=datetime(2026, 1, 2, tzinfo=UTC)
    )


def chosen(reply: Message) -> str:
    """Give the option that a reply takes."""
    outcome = reply["result"]["outcome"]
    return str(outcome.get("optionId", outcome["outcome"]))


def over(stop_reason: str = "end_turn") -> Message:
    """Answer the prompt."""
    return answer(3, stopReason=stop_reason)


# -- arguments -----------------------------------------------------------------------------------------------------


def test_the_arguments_are_known_once_their_text_is_whole() -> None:
    """A call's arguments come as text that grows; an ask that came first is matched with the piece that completes it."""
    whole = json.dumps(ARGUMENTS)
    for end in range(len(whole) + 1):
        conversation = opened()
        hear(
            conversation,
            update("tool_call", toolCallId="0:c", title=ASK, status="pending", content=content("")),
        )
        grown = update(
            "tool_call_update", toolCallId="0:c", status="in_progress", content=content(whole[:end])
        )
        assert of(QuestionCorrelated, hear(conversation, grown)) == []
        asked = one(QuestionAsked, conversation.ask_arrived(ask(1)))
        assert (asked.tool_call_id == "0:c") is (end == len(whole))
        completed = update("tool_call_update", toolCallId="0:c", content=content(whole))
        assert bool(of(QuestionCorrelated, hear(conversation, completed))) is (end < len(whole))


@given(st.data())
def test_text_that_is_no_arguments_claims_nothing(data: st.DataObject) -> None:
    """Arguments that are cut, or have something behind them or in them, are not guessed at."""
    whole = json.dumps(ARGUMENTS)
    cut = data.draw(st.integers(0, len(whole)))
    junk = data.draw(st.text(min_size=1).filter(str.strip))
    conversation = opened()
    spoiled = whole[:cut] + junk + (whole[cut:] if data.draw(st.booleans()) else "")
    hear(
        conversation,
        update("tool_call", toolCallId="0:c", title=ASK, status="pending", content=content("")),
        update("tool_call_update", toolCallId="0:c", content=content(spoiled)),
    )
    try:
        told = parse(json.loads(spoiled))
    except (ValueError, RecursionError):
        told = Rejected("no JSON")
    asked = one(QuestionAsked, conversation.ask_arrived(ask(1)))
    assert (asked.tool_call_id == "0:c") is (told == ask(1).questions)


def test_parallel_calls_are_told_apart_by_what_they_ask() -> None:
    """Two calls that are announced together get their own asks, whichever comes first."""
    for order in ((1, 2), (2, 1)):
        conversation = opened()
        hear(conversation, *announced("0:1", ASK, ARGUMENTS), *announced("0:2", ASK, OTHER))
        arrived = {
            number: one(
                QuestionAsked, conversation.ask_arrived(ask(number, ARGUMENTS if number == 1 else OTHER))
            )
            for number in order
        }
        assert (arrived[1].tool_call_id, arrived[2].tool_call_id) == ("0:1", "0:2")
        assert [arrived[number].siblings_running for number in order] == [1, 1]


# -- titles --------------------------------------------------------------------------------------------------------


def test_a_title_that_changes_changes_no_call() -> None:
    """A call is what it was announced as: a status for a title, or words of the model's, make nothing else of it."""
    conversation = opened()
    first = hear(
        conversation, *announced("0:1", ASK, ARGUMENTS), *announced("0:2", "Bash", {"command": "ls"})
    )
    assert [(event.tool, event.ask) for event in of(ToolAnnounced, first)] == [
        (ASK, "supplied"),
        ("Bash", None),
    ]
    hear(
        conversation,
        update("tool_call_update", toolCallId="0:1", title="MCP connection lost — reconnecting…"),
        update("tool_call_update", toolCallId="0:2", title=ASK, rawInput={"command": "ls", **ARGUMENTS}),
    )
    assert one(QuestionAsked, conversation.ask_arrived(ask(1))).tool_call_id == "0:1"
    ends = of(ToolFinished, hear(conversation, *finished("0:1", ASK, False), *finished("0:2", "Bash", True)))
    assert [(event.tool, event.is_error) for event in ends] == [(ASK, False), ("Bash", True)]


# -- permissions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("product", ["kimi", "kimi-cli"])
def test_an_option_is_taken_by_its_kind(product: str, seed: int) -> None:
    """In whatever order the options come, allowing is once and for this call, and denying is once."""
    is_new = product == "kimi"
    options = [*(OPTIONS if is_new else BARE_OPTIONS)]
    random.Random(seed).shuffle(options)
    conversation = opened(adapter if is_new else legacy_adapter)
    made = (asks_permission if is_new else asks_bare_permission)(1, ASK if is_new else BARE, "0:c", ARGUMENTS)
    made = {**made, "params": {**made["params"], "options": options}}
    asked = one(PermissionRequested, hear(conversation, made))
    assert isinstance(conversation.decide(asked), Allow)
    assert chosen(conversation.reply(asked, Allow("x"))) == options_of_kind(options, "allow_once")
    for verdict in (Deny("no"), Defer()):
        assert chosen(conversation.reply(asked, verdict)) == "reject"


def options_of_kind(options: Sequence[Message], kind: str) -> str:
    """Give the one option of a kind."""
    (found,) = [option["optionId"] for option in options if option["kind"] == kind]
    return str(found)


@pytest.mark.parametrize(
    ("title", "options"),
    [
        (NATIVE, ANSWERS),
        (NATIVE, OPTIONS),
        (ASK, ANSWERS),
        ("Bash", ANSWERS),
        ("Asking user questions", OPTIONS),
        ("", ANSWERS[1:]),
        ("x", [{"optionId": "q12_opt_3", "name": "x", "kind": "allow_once"}]),
    ],
)
@pytest.mark.parametrize("there", [True, False])
def test_a_question_in_disguise_is_denied(title: str, options: Sequence[Message], there: bool) -> None:
    """The native tool's answers as options, or its name alone, are denied, with a host that would allow it too."""
    conversation = opened(there=there)
    call = {"toolCallId": "0:c", "title": title, "content": content("Which database?")}
    asked = one(PermissionRequested, hear(conversation, permission(1, call, options)))
    assert asked.ask == "native"
    verdict = conversation.decide(asked)
    assert isinstance(verdict, Deny)
    assert (f"Call {ASK} with" in verdict.reason) is there
    rejects = [option["optionId"] for option in options if option["kind"] == "reject_once"]
    for given_ in (verdict, Allow("the host's"), Defer()):
        assert chosen(conversation.reply(asked, given_)) == (rejects[0] if rejects else "cancelled")


def test_a_native_question_that_was_skipped_is_told_once() -> None:
    """Kimi has a call that was refused complete well, as dismissed: the refusal is the session's to tell, no question is drawn."""
    conversation = opened()
    events = hear(
        conversation,
        *announced("0:c", NATIVE, ARGUMENTS),
        asks_permission(1, NATIVE, "0:c", ARGUMENTS),
        update("tool_call_update", toolCallId="0:c", title="Asking user questions", rawInput=ARGUMENTS),
        *finished("0:c", NATIVE, False),
    )
    assert one(ToolAnnounced, events).ask == "native"
    assert of(NativeAskRefused, events) == []
    assert one(QuestionAsked, conversation.ask_arrived(ask(1))).tool_call_id is None


def test_a_native_call_that_is_off_is_told_as_refused_at_launch() -> None:
    """Called though it is off, the native tool fails, and that is told as a refusal."""
    conversation = opened()
    events = hear(conversation, *announced("0:c", NATIVE, ARGUMENTS), *finished("0:c", NATIVE, True))
    refused = one(NativeAskRefused, events)
    assert (refused.tool, refused.channel, refused.tool_call_id) == (NATIVE, "launch", "0:c")


def test_a_native_question_without_a_stream_is_known_by_its_title() -> None:
    """Where the model's words do not stream, the first title is what the call does: it is the native tool's all the same."""
    for title in ("Asking user questions", "Starting background question: Which?"):
        conversation = opened()
        events = hear(conversation, update("tool_call", toolCallId="0:c", title=title, rawInput=ARGUMENTS))
        assert one(ToolAnnounced, events).ask == "native"


def test_a_form_is_declined() -> None:
    """A host that told Kimi of forms gets the native questions as such: they are declined unseen."""
    conversation = opened()
    hear(conversation, *announced("0:c", NATIVE, ARGUMENTS))
    form = request(
        9, "elicitation/create", sessionId=SESSION, toolCallId="0:c", mode="form", message="Which?"
    )
    refused = one(NativeAskRefused, hear(conversation, form))
    assert (refused.channel, refused.tool_call_id) == ("elicitation", "0:c")
    assert conversation.outgoing() == [answer(9, action="decline")]


def test_a_choice_between_plans_is_the_hosts() -> None:
    """Several ways to allow a plan are a choice that nobody here makes: it is deferred, and an allowance means none of them."""
    plans = [
        {"optionId": "plan_opt_0", "name": "A", "kind": "allow_once"},
        {"optionId": "plan_opt_1", "name": "B", "kind": "allow_once"},
        {"optionId": "plan_revise", "name": "Revise", "kind": "reject_once"},
        {"optionId": "plan_reject_and_exit", "name": "Reject and Exit", "kind": "reject_once"},
    ]
    conversation = opened()
    call = {"toolCallId": "0:c", "title": "ExitPlanMode"}
    asked = one(PermissionRequested, hear(conversation, permission(1, call, plans)))
    assert asked.ask is None
    assert isinstance(conversation.decide(asked), Defer)
    assert chosen(conversation.reply(asked, Allow("x"))) == "plan_revise"


# -- sub-agents ----------------------------------------------------------------------------------------------------


def test_a_sub_agents_ask_is_known_by_its_permission_request() -> None:
    """A call that only a permission request tells of is the running sub-agent's; the next ask is its, whatever it asks."""
    conversation = opened()
    events = hear(conversation, *announced("0:1", "Agent", AGENT), asks_permission(1, ASK, "0:sub", {}))
    assert [(event.tool, event.agent_id) for event in of(ToolAnnounced, events)] == [
        ("Agent", None),
        (ASK, "0:1"),
    ]
    requested = one(PermissionRequested, events)
    assert (requested.ask, requested.agent_id, requested.arguments) == ("supplied", "0:1", None)
    assert isinstance(conversation.decide(requested), Allow)
    asked = one(QuestionAsked, conversation.ask_arrived(ask(1)))
    assert (asked.tool_call_id, asked.agent_id) == ("0:sub", "0:1")
    conversation.ask_settled(ask(1), Skipped("test"))
    hear(conversation, *finished("0:1", "Agent", False))
    assert one(TurnEnded, hear(conversation, over())).dropped == ()


def test_a_main_agents_ask_goes_to_the_call_that_asks_it() -> None:
    """An ask whose text a call tells is that call's, and not that of a sub-agent's call that tells nothing."""
    conversation = opened()
    hear(
        conversation,
        *announced("0:1", "Agent", AGENT),
        *announced("0:2", ASK, ARGUMENTS),
        asks_permission(1, ASK, "0:sub", {}),
    )
    assert one(QuestionAsked, conversation.ask_arrived(ask(1))).tool_call_id == "0:2"
    sub = one(QuestionAsked, conversation.ask_arrived(ask(2, OTHER)))
    assert (sub.tool_call_id, sub.agent_id) == ("0:sub", "0:1")


def test_with_several_sub_agents_nobody_says_whose_it_is() -> None:
    """Where two sub-agents run, the ask has its call and no agent: it is not guessed at."""
    conversation = opened()
    hear(
        conversation,
        *announced("0:1", "Agent", AGENT),
        *announced("0:2", "Agent", AGENT),
        asks_permission(1, ASK, "0:sub", {}),
    )
    asked = one(QuestionAsked, conversation.ask_arrived(ask(1)))
    assert (asked.tool_call_id, asked.agent_id) == ("0:sub", None)


@pytest.mark.parametrize("is_over", [True, False])
def test_an_ask_of_the_sub_agent_ends_with_it(is_over: bool) -> None:
    """The call that started a sub-agent takes its open ask along when it ends, and so does a turn in which it runs."""
    conversation = opened()
    hear(conversation, *announced("0:1", "Agent", AGENT), asks_permission(1, ASK, "0:sub", {}))
    conversation.ask_arrived(ask(1))
    if is_over:
        assert one(ToolFinished, hear(conversation, *finished("0:1", "Agent", True))).dropped == ("ask-1",)
    (message,) = conversation.interrupt()
    assert message["method"] == "session/cancel"
    ended = one(TurnEnded, hear(conversation, over("cancelled")))
    assert (ended.stop_reason, ended.is_error) == ("cancelled", False)
    assert ended.dropped == (() if is_over else ("ask-1",))


# -- whether it can ask --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "reason", "status"),
    [
        ("opask (stdio): pending, 0 tools", "pending", "pending"),
        ("opask (stdio): failed, 0 tools — spawn x ENOENT", "failed", "failed: spawn x ENOENT"),
        ("opask (http): needs-auth, 0 tools", "failed", "needs-auth"),
        ("opask (stdio): connected, 0 tools", "not_listed", "connected"),
        ("other (stdio): failed, 0 tools — x", "not_listed", None),
        ("", "not_listed", None),
    ],
)
def test_kimis_own_word_for_the_server_is_read(told: str, reason: str, status: str | None) -> None:
    """The answer to `/mcp`, in however many pieces it comes, says why the ask tool is missing."""
    conversation = opened(prompt="/mcp")
    text = f"MCP servers (2):\n- files (stdio): connected, 3 tools\n- {told}"
    events = hear(conversation, said(text[:30]), said(text[30:]), over())
    missing = one(AskToolMissing, events)
    assert (missing.reason, missing.server_status) == (reason, status)
    assert isinstance(events[-1], TurnEnded)


def test_a_server_that_is_there_is_not_missing() -> None:
    """A server that Kimi calls connected is not missing, nor one whose list it has taken, whatever else is prompted."""
    connected = said("MCP servers (1):\n- opask (stdio): connected, 1 tools")
    assert of(AskToolMissing, hear(opened(prompt="/mcp"), connected, over())) == []
    assert (
        of(AskToolMissing, hear(opened(prompt="/help"), said("- opask (stdio): failed, 0 tools"), over()))
        == []
    )
    listed = opened(prompt="/mcp")
    assert one(SessionReady, listed.tool_listed()).questions is True
    assert of(AskToolMissing, hear(listed, said("- opask (stdio): failed, 0 tools"), over())) == []


def test_a_turn_without_the_tool_is_told() -> None:
    """A turn of the model's in which Kimi never took the list is told of once."""
    conversation = opened()
    assert one(AskToolMissing, hear(conversation, said("Done."), over())).reason == "not_listed"
    (prompt,) = conversation.prompt("More.")
    assert of(AskToolMissing, hear(conversation, answer(prompt["id"], stopReason="end_turn"))) == []


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        ("/mcp", "mcp"),
        ("/mcp x", "mcp"),
        ("/ mcp", "mcp"),
        ("/", None),
        ("/a/b c", None),
        (" /mcp", None),
        ("mcp", None),
    ],
)
def test_a_command_is_a_slash_and_a_name(prompt: str, name: str | None) -> None:
    """A path is no command, nor is what does not begin with the slash."""
    assert command_of(prompt) == name


def test_another_product_that_answers_is_told() -> None:
    """A program that turns out to be the other product gives no session: the reason says what to run instead."""
    for used, version, why in ((adapter, "1.50.0", "kimi-cli"), (legacy_adapter, "2.1.0", "'kimi'")):
        launch = LaunchRequest((used.program, "acp"), {"HOME": "/home/agent"}, cwd="/srv")
        conversation: Any = used.conversation(used.plan_launch(launch, ENDPOINT))
        info = {"name": "Kimi Code CLI", "version": version}
        ready = one(
            SessionReady, hear(conversation, answered(conversation, protocolVersion=1, agentInfo=info))
        )
        assert ready.questions is False
        assert why in ready.reason
        with pytest.raises(LaunchError, match=version):
            conversation.prompt("Go.")


def test_a_program_that_ends_at_once_is_said_to_be_another() -> None:
    """One that prints a notice and ends, as the last release of the older CLI does, is told with what to look at."""
    launch = LaunchRequest(("kimi", "acp"), {"HOME": "/home/agent"}, cwd="/srv")
    conversation: Any = adapter.conversation(adapter.plan_launch(launch, ENDPOINT))
    assert conversation.prompt("Go.")
    hear(conversation)
    conversation.receive("Kimi CLI is no longer maintained.")
    ended = one(TurnEnded, conversation.end_turn("exited"))
    assert "npm install -g @moonshot-ai/kimi-code" in ended.stop_reason


def test_the_past_of_a_conversation_is_no_news() -> None:
    """What a conversation that is loaded replays before it is there tells of no call and no question."""
    launch = LaunchRequest(("kimi", "acp"), {"HOME": "/home/agent"}, cwd="/srv")
    conversation: Any = adapter.conversation(adapter.plan_launch(launch, ENDPOINT))
    hear(conversation, answered(conversation, protocolVersion=1))
    (opening,) = conversation.outgoing()
    past = [
        said("Once."),
        update("tool_call", toolCallId="1:c", title=ASK, status="in_progress", rawInput=ARGUMENTS),
        *finished("1:c", ASK, False),
    ]
    assert hear(conversation, *past) == []
    hear(conversation, answer(opening["id"], sessionId=SESSION))
    conversation.prompt("Go.")
    hear(conversation, *announced("0:c", ASK, ARGUMENTS), started("0:c", ASK, ARGUMENTS))
    assert one(QuestionAsked, conversation.ask_arrived(ask(1))).tool_call_id == "0:c"


# -- the older CLI -------------------------------------------------------------------------------------------------


def test_the_older_clis_calls_are_read_by_their_text() -> None:
    """A title with cut arguments gives the name alone; the arguments are in the text, and the rest is as ever."""
    conversation = opened(legacy_adapter)
    events = hear(conversation, *bare_announced("t/c", BARE, ARGUMENTS))
    assert (one(ToolAnnounced, events).tool, one(ToolAnnounced, events).ask) == (BARE, "supplied")
    asked = one(PermissionRequested, hear(conversation, asks_bare_permission(1, BARE, "t/c", ARGUMENTS)))
    assert (asked.tool, asked.ask, asked.arguments) == (BARE, "supplied", ARGUMENTS)
    assert one(QuestionAsked, conversation.ask_arrived(ask(1))).tool_call_id == "t/c"
    (end,) = of(ToolFinished, hear(conversation, *finished("t/c", BARE, False)))
    assert (end.tool, end.is_error) == (BARE, False)


def test_the_older_clis_failed_servers_are_in_the_turns_end() -> None:
    """A prompt that fails since a server did not start ends the turn with the CLI's own words."""
    conversation = opened(legacy_adapter)
    data = {"error": "Failed to connect MCP servers: {'opask': RuntimeError('x')}"}
    failed = {"jsonrpc": "2.0", "id": 3, "error": {"code": -32603, "message": "Internal error", "data": data}}
    events = hear(conversation, failed)
    assert one(AskToolMissing, events).reason == "not_listed"
    assert "Failed to connect MCP servers" in one(TurnEnded, events).stop_reason
