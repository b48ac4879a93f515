"""What the claude adapter makes of the CLI's stream-json.

The messages have the forms that 2.1.332 was seen to send; whole conversations are in the golden recordings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from opask.errors import LaunchError
from opask.events import (
    AskToolMissing,
    Event,
    MessageUnreadable,
    NativeAskRefused,
    QuestionAsked,
    QuestionCorrelated,
    SessionReady,
    TextSaid,
    ToolAnnounced,
    ToolFinished,
    TurnEnded,
    TurnStarted,
)
from opask.intake import Rejected, parse
from opask.launch import Endpoint, LaunchRequest
from opask.outcomes import Skipped
from opask.permissions import Allow, Defer, Deny, PermissionRequested
from opask.questions import Ask
from opask_claude import adapter
from opask_claude.conversation import ClaudeConversation

ASK = "mcp__opask__ask_user_question"
NATIVE = "AskUserQuestion"
TEXT = ("claude", "-p", "Do it.", "--output-format", "stream-json", "--verbose")
CONTROL = ("claude", "-p", "--input-format", "stream-json", "--permission-prompt-tool", "stdio", *TEXT[3:])
ENDPOINT = Endpoint(command=("relay",), folder=Path("/run/opask"), wait=None)
QUESTIONS = {"questions": [{"question": "Which database?", "header": "DB", "options": [{"label": "SQLite"}]}]}
Message = Mapping[str, Any]


def talk(*argv: str, endpoint: Endpoint | None = ENDPOINT) -> ClaudeConversation:
    """Begin a conversation with a launch."""
    return adapter.conversation(adapter.plan_launch(LaunchRequest(argv or CONTROL), endpoint))


def hear(conversation: ClaudeConversation, *messages: Message) -> list[Event]:
    """Let a conversation hear messages; give the events."""
    return [event for message in messages for event in conversation.receive(message)]


def init(*servers: Message, tools: tuple[Any, ...] = ("Bash", ASK), **more: Any) -> Message:
    """Give a ``system/init``."""
    listed = servers or ({"name": "opask", "status": "connected", "source": "dynamic"},)
    return {"type": "system", "subtype": "init", "tools": list(tools), "mcp_servers": list(listed), **more}


def said(*blocks: Message, agent: str | None = None, starter: str | None = None) -> Message:
    """Give an ``assistant`` line."""
    line: dict[str, Any] = {
        "type": "assistant",
        "message": {"content": list(blocks)},
        "parent_tool_use_id": starter,
    }
    return line if agent is None else {**line, "agent_id": agent}


def call(call_id: str, tool: str = ASK, arguments: object = QUESTIONS) -> Message:
    """Give a ``tool_use`` block."""
    return {"type": "tool_use", "id": call_id, "name": tool, "input": arguments}


def done(call_id: str, **more: Any) -> Message:
    """Give the ``user`` line of a call's result."""
    block = {"type": "tool_result", "tool_use_id": call_id, "content": "…", **more}
    return {"type": "user", "message": {"role": "user", "content": [block]}, "parent_tool_use_id": None}


def result(**more: Any) -> Message:
    """Give the ``result`` of a turn."""
    return {"type": "result", "subtype": "success", "is_error": False, "stop_reason": "end_turn", **more}


def can_use(tool: str, call_id: str = "toolu_1", **more: Any) -> Message:
    """Give a ``can_use_tool`` request."""
    request = {
        "subtype": "can_use_tool",
        "tool_name": tool,
        "input": QUESTIONS,
        "tool_use_id": call_id,
        **more,
    }
    return {"type": "control_request", "request_id": "r1", "request": request}


def ask(number: int = 1, call_id: object = None) -> Ask:
    """Give an ask that reached the bridge."""
    questions = parse(QUESTIONS)
    assert not isinstance(questions, Rejected)
    meta = {} if call_id is None else {"claudecode/toolUseId": call_id}
    return Ask(f"q{number}", "s", questions, datetime(2026, 1, 1, tzinfo=UTC), meta=meta)


# -- whether it can ask ----------------------------------------------------------------------------------------------


def test_a_tool_that_is_listed_makes_the_session_ready() -> None:
    """The first init tells that the agent can ask, and the version; later ones only begin turns."""
    conversation = talk()
    ready = SessionReady(questions=True, version="2.1.332")
    assert hear(conversation, init(claude_code_version="2.1.332")) == [ready, TurnStarted()]
    assert hear(conversation, result(), init(claude_code_version="9"))[1:] == [TurnStarted()]


MISSING: dict[str, tuple[Message, AskToolMissing, str]] = {
    "failed": (
        init({"name": "opask", "status": "failed"}, tools=("Bash",)),
        AskToolMissing(reason="failed", server_status="failed"),
        "'failed'",
    ),
    "failed in a word that is new": (
        init({"name": "opask", "status": "needs-auth"}),
        AskToolMissing(reason="failed", server_status="needs-auth"),
        "'needs-auth'",
    ),
    "not there": (
        init({"name": "other", "status": "connected"}, tools=()),
        AskToolMissing(reason="not_listed"),
        ASK,
    ),
    "there without its tool": (
        init(tools=("mcp__opask__other",)),
        AskToolMissing(reason="not_listed", server_status="connected"),
        ASK,
    ),
    "another's": (
        init({"name": "opask", "status": "connected", "source": "project"}),
        AskToolMissing(reason="not_listed", server_status="connected"),
        "project",
    ),
    "two of them": (
        init({"name": "opask", "status": "connected"}, {"name": "opask", "status": "connected"}),
        AskToolMissing(reason="not_listed", server_status="connected"),
        "several",
    ),
}


@pytest.mark.parametrize(("first", "missing", "reason"), MISSING.values(), ids=MISSING)
def test_a_tool_that_is_missing_is_told(first: Message, missing: AskToolMissing, reason: str) -> None:
    """A server that failed, or has not our tool, or is not ours, is told at once, with the CLI's own word."""
    conversation = talk()
    ready, told, started = hear(conversation, first)
    assert isinstance(ready, SessionReady)
    assert not ready.questions
    assert reason in (ready.reason or "")
    assert told == missing
    assert started == TurnStarted()
    assert hear(conversation, result(), first)[1:] == [TurnStarted()]  # told once


def test_a_server_that_is_not_ours_gets_nothing_allowed() -> None:
    """Where the CLI has, or may have, another's tool under our tool's name, the host decides."""
    for first in (MISSING["another's"][0], MISSING["two of them"][0]):
        conversation = talk()
        hear(conversation, first)
        (requested,) = hear(conversation, can_use(ASK))
        assert isinstance(requested, PermissionRequested)
        assert conversation.decide(requested) == Defer()


def test_a_pending_server_may_still_come() -> None:
    """A server that is still starting is told as missing; whether the session can ask is told when it is known."""
    pending = init({"name": "opask", "status": "pending"}, tools=())
    missing = AskToolMissing(reason="pending", server_status="pending")
    conversation = talk()
    assert hear(conversation, pending) == [missing, TurnStarted()]
    assert conversation.ask_arrived(ask())[1:] == [SessionReady(questions=True)]
    conversation = talk()
    hear(conversation, pending)
    assert [type(event) for event in hear(conversation, result())] == [SessionReady, TurnEnded]
    conversation = talk()
    hear(conversation, pending)
    assert isinstance(conversation.end_turn("exited")[0], SessionReady)


def test_a_server_that_fails_later_is_told_though_the_session_was_ready() -> None:
    """What the CLI says of the server at a later turn is told when it changed; readiness stays as it was."""
    conversation = talk()
    hear(conversation, init(), result())
    failed = init({"name": "opask", "status": "failed"}, tools=())
    missing = AskToolMissing(reason="failed", server_status="failed")
    assert hear(conversation, failed) == [missing, TurnStarted()]
    assert hear(conversation, result(), failed)[1:] == [TurnStarted()]


def test_a_cli_that_lists_no_servers_is_judged_by_its_tools() -> None:
    """Without a list of servers the list of tools tells."""
    conversation = talk()
    ready, _ = hear(conversation, {"type": "system", "subtype": "init", "tools": [ASK]})
    assert ready == SessionReady(questions=True)


def test_nobody_there_is_the_reason() -> None:
    """Without an operator the session cannot ask, for the plan's reason, whatever the CLI lists."""
    conversation = talk(endpoint=None)
    ready, _ = hear(conversation, init())
    assert ready == SessionReady(questions=False, reason="nobody is there to ask")


def test_a_cli_that_ends_before_it_says_anything_is_not_ready() -> None:
    """An exit before the first init settles that nothing can be asked."""
    (ready,) = talk().end_turn("exited")
    assert isinstance(ready, SessionReady)
    assert not ready.questions
    assert "ended before" in (ready.reason or "")


# -- turns -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "stop_reason", "is_error"),
    [
        ({}, "end_turn", False),
        (
            {"subtype": "error_during_execution", "is_error": True, "stop_reason": "tool_use"},
            "error_during_execution",
            True,
        ),
        (
            {"is_error": True, "stop_reason": "stop_sequence", "terminal_reason": "api_error"},
            "api_error",
            True,
        ),
        ({"stop_reason": None, "terminal_reason": "completed"}, "completed", False),
        ({"subtype": 7, "stop_reason": [], "is_error": "yes"}, "success", False),
    ],
)
def test_a_result_ends_the_turn(fields: dict[str, Any], stop_reason: str, is_error: bool) -> None:
    """The end has the most telling of the CLI's words, and whether it was an error."""
    conversation = talk()
    hear(conversation, init())
    assert hear(conversation, result(**fields)) == [TurnEnded(stop_reason=stop_reason, is_error=is_error)]


def test_turns_come_in_pairs() -> None:
    """A turn that began while another was open, as after a background agent in text mode, is still one of two."""
    conversation = talk(*TEXT)
    events = hear(conversation, init(), init(), result(), result())
    kinds = [type(event) for event in events if isinstance(event, TurnStarted | TurnEnded)]
    assert kinds == [TurnStarted, TurnEnded, TurnStarted, TurnEnded]


def test_what_a_sub_agent_does_begins_no_turn() -> None:
    """A sub-agent works on after the main agent's turn; only the main agent begins another."""
    conversation = talk()
    hear(conversation, init(), said(call("toolu_a", "Agent")), done("toolu_a"), result())
    sub = hear(conversation, said({"type": "text", "text": "sub"}, agent="a1", starter="toolu_a"))
    assert sub == [TextSaid(text="sub", agent_id="a1")]
    main = hear(conversation, said({"type": "text", "text": "main"}))
    assert main == [TurnStarted(), TextSaid(text="main")]


def test_a_turn_can_end_otherwise() -> None:
    """An interrupted or exited turn ends once, in an error, with what it left open."""
    conversation = talk()
    hear(conversation, init(), said(call("toolu_1")))
    conversation.ask_arrived(ask(1, "toolu_1"))
    assert conversation.end_turn("interrupted") == [
        TurnEnded(stop_reason="interrupted", is_error=True, dropped=("q1",))
    ]
    assert conversation.end_turn("ended") == []


def test_an_exit_ends_a_sub_agents_ask_too() -> None:
    """A sub-agent's ask outlives its turn, but not the process."""
    conversation = talk()
    hear(conversation, init(), said(call("toolu_1"), agent="a1", starter="toolu_a"))
    conversation.ask_arrived(ask(1, "toolu_1"))
    (ended,) = hear(conversation, result())
    assert ended == TurnEnded(stop_reason="end_turn")
    assert conversation.end_turn("exited") == [
        TurnEnded(stop_reason="exited", is_error=True, dropped=("q1",))
    ]


# -- tools and asks --------------------------------------------------------------------------------------------------


def test_calls_are_announced_and_finished() -> None:
    """A call is told with its id, its agent and which ask tool it is; ``is_error`` that is absent means none."""
    conversation = talk()
    hear(conversation, init())
    events = hear(
        conversation,
        said(call("a"), call("b", NATIVE), call("c", "Bash")),
        done("a"),
        done("c", is_error=True),
    )
    assert events == [
        ToolAnnounced(tool=ASK, ask="supplied", tool_call_id="a"),
        ToolAnnounced(tool=NATIVE, ask="native", tool_call_id="b"),
        ToolAnnounced(tool="Bash", tool_call_id="c"),
        ToolFinished(tool=ASK, tool_call_id="a"),
        ToolFinished(tool="Bash", is_error=True, tool_call_id="c"),
    ]
    assert hear(conversation, done("a"), done("never announced")) == []


def test_an_ask_carries_the_id_of_its_call() -> None:
    """The call's id in the ask's meta is its tool_call_id, announced or not; the agent is the call's."""
    conversation = talk()
    hear(conversation, init(), said(call("toolu_1"), agent="a1", starter="toolu_a"), said(call("toolu_2")))
    for number, call_id, agent in ((1, "toolu_1", "a1"), (2, "toolu_2", None), (3, "toolu_3", None)):
        (asked,) = conversation.ask_arrived(ask(number, call_id))
        assert isinstance(asked, QuestionAsked)
        assert (asked.tool_call_id, asked.agent_id) == (call_id, agent)
    later = hear(conversation, said(call("toolu_3"), agent="a2", starter="toolu_b"))
    assert later[1] == QuestionCorrelated(question_id="q3", tool_call_id="toolu_3", agent_id="a2")


def test_two_asks_of_one_message_are_kept_apart() -> None:
    """Calls that ask the same are told apart by their ids."""
    conversation = talk()
    hear(conversation, init(), said(call("toolu_1")), said(call("toolu_2")))
    asked = [conversation.ask_arrived(ask(number, f"toolu_{number}"))[0] for number in (2, 1)]
    assert [event.tool_call_id for event in asked] == ["toolu_2", "toolu_1"]


def test_siblings_are_the_agents_other_open_calls() -> None:
    """An ask tells how many calls of the same agent run on meanwhile, not those of others."""
    conversation = talk()
    hear(conversation, init(), said(call("a"), call("b", "Bash"), call("c", "Bash")), done("c"))
    hear(conversation, said(call("d", "Bash"), agent="a1", starter="a"))
    (asked,) = conversation.ask_arrived(ask(1, "a"))
    assert isinstance(asked, QuestionAsked)
    assert asked.siblings_running == 1


@pytest.mark.parametrize("told", [None, "", 7, [], {"a": 1}])
def test_without_a_call_id_the_text_tells(told: object) -> None:
    """A CLI that carries no id in the call is correlated by the question's text."""
    conversation = talk()
    hear(
        conversation,
        init(),
        said(call("toolu_1", arguments={"questions": "Which port?"})),
        said(call("toolu_2")),
    )
    (asked,) = conversation.ask_arrived(ask(1, told))
    assert asked.tool_call_id == "toolu_2"


def test_an_ask_does_not_pass_for_another_tools_call() -> None:
    """An id that is known to be another tool's is not believed."""
    conversation = talk()
    hear(conversation, init(), said(call("toolu_1", "Bash")))
    (asked,) = conversation.ask_arrived(ask(1, "toolu_1"))
    assert asked.tool_call_id is None


def test_arguments_that_are_no_ask_are_no_hindrance() -> None:
    """A call whose arguments the parser refuses is announced like any other."""
    conversation = talk()
    events = hear(
        conversation,
        init(),
        said(call("toolu_1", arguments={"questions": []})),
        done("toolu_1", is_error=True),
    )
    assert events[2:] == [
        ToolAnnounced(tool=ASK, ask="supplied", tool_call_id="toolu_1"),
        ToolFinished(tool=ASK, is_error=True, tool_call_id="toolu_1"),
    ]


def test_progress_names_no_agent() -> None:
    """The ``parent_tool_use_id`` of ``tool_progress`` is the call's own id: nothing is made of it."""
    conversation = talk()
    hear(conversation, init(), said(call("toolu_1")))
    progress = {
        "type": "tool_progress",
        "tool_use_id": "toolu_1-heartbeat-0",
        "tool_name": ASK,
        "parent_tool_use_id": "toolu_1",
        "elapsed_time_seconds": 30,
    }
    assert hear(conversation, progress) == []
    (asked,) = conversation.ask_arrived(ask(1, "toolu_1"))
    assert asked.agent_id is None


def test_an_agent_keeps_one_id() -> None:
    """A line that names only the call which started an agent is of the agent that it started."""
    conversation = talk()
    started = {"type": "system", "subtype": "task_started", "task_id": "a1", "tool_use_id": "toolu_a"}
    hear(conversation, init(), said(call("toolu_a", "Agent")), started)
    (announced,) = hear(conversation, said(call("toolu_1"), starter="toolu_a"))
    assert announced.agent_id == "a1"
    (announced,) = hear(conversation, said(call("toolu_2"), starter="toolu_unknown"))
    assert announced.agent_id == "toolu_unknown"


def test_an_agents_end_closes_its_calls() -> None:
    """After a sub-agent ended its calls are nobody's siblings and claim nothing."""
    conversation = talk()
    ended = {"type": "system", "subtype": "task_notification", "task_id": "a1", "status": "completed"}
    hear(conversation, init(), said(call("toolu_1"), agent="a1", starter="toolu_a"), ended)
    assert conversation.ask_arrived(ask(1))[0].tool_call_id is None


def test_what_settled_is_not_dropped() -> None:
    """An ask that settled is none of what the turn's end drops."""
    conversation = talk()
    hear(conversation, init(), said(call("toolu_1")))
    conversation.ask_arrived(ask(1, "toolu_1"))
    assert conversation.ask_settled(ask(1, "toolu_1"), Skipped("test")) == []
    assert hear(conversation, result()) == [TurnEnded(stop_reason="end_turn")]


def test_a_call_whose_server_is_gone_tells_that_the_tool_is() -> None:
    """A CLI that starts a dead server no more fails each call with the same words; another error says nothing of it."""
    conversation = talk()
    hear(conversation, init(), *(said(call(f"toolu_{number}")) for number in (1, 2, 3)))
    gone = AskToolMissing(reason="failed", server_status="Not connected", tool_call_id="toolu_1")
    assert hear(conversation, done("toolu_1", is_error=True, content="Not connected"))[1:] == [gone]
    assert hear(conversation, done("toolu_2", is_error=True, content="Connection closed"))[1:] == []
    assert hear(conversation, done("toolu_3", content="Not connected"))[1:] == []


# -- the native ask tool ---------------------------------------------------------------------------------------------


def test_a_refusal_by_the_launch_is_told() -> None:
    """The CLI's own error for a native call is told as a refusal by the launch; a result that is none is not."""
    conversation = talk()
    hear(conversation, init(), said(call("toolu_1", NATIVE)), said(call("toolu_2", NATIVE)))
    assert hear(conversation, done("toolu_1", is_error=True))[1:] == [
        NativeAskRefused(tool=NATIVE, channel="launch", tool_call_id="toolu_1")
    ]
    assert hear(conversation, done("toolu_2"))[1:] == []


def test_a_native_tool_that_answers_itself_has_answered_nothing() -> None:
    """The words "User has answered your questions" of the CLI's own are no ask, no answer and no refusal."""
    conversation = talk()
    hear(conversation, init(), said(call("toolu_1", NATIVE)))
    words = "User has answered your questions: . You can now continue with the user's answers in mind."
    assert hear(conversation, done("toolu_1", content=words)) == [
        ToolFinished(tool=NATIVE, is_error=False, tool_call_id="toolu_1")
    ]


def test_a_refusal_at_the_permission_channel_is_not_told_again() -> None:
    """Of a native call that came as a permission request the session tells; its error result adds nothing."""
    conversation = talk()
    hear(conversation, init(), said(call("toolu_1", NATIVE)), can_use(NATIVE))
    assert hear(conversation, done("toolu_1", is_error=True)) == [
        ToolFinished(tool=NATIVE, is_error=True, tool_call_id="toolu_1")
    ]


def test_a_refusal_by_the_clis_mode_is_told_once() -> None:
    """In a mode that asks nobody the CLI denies by itself and says so before the result."""
    conversation = talk()
    denied = {"type": "system", "subtype": "permission_denied", "tool_name": NATIVE, "tool_use_id": "toolu_1"}
    hear(conversation, init(), said(call("toolu_1", NATIVE)))
    refused = NativeAskRefused(tool=NATIVE, channel="permission", tool_call_id="toolu_1")
    finished = ToolFinished(tool=NATIVE, is_error=True, tool_call_id="toolu_1")
    assert hear(conversation, denied, denied, done("toolu_1", is_error=True)) == [refused, finished]


def test_our_tool_denied_by_the_cli_is_missing() -> None:
    """A rule or a mode that keeps the agent from asking is told."""
    conversation = talk()
    denied = {"type": "system", "subtype": "permission_denied", "tool_name": ASK, "tool_use_id": "toolu_1"}
    hear(conversation, init(), said(call("toolu_1"), agent="a1", starter="toolu_a"))
    assert hear(conversation, denied) == [
        AskToolMissing(reason="denied", tool_call_id="toolu_1", agent_id="a1")
    ]
    assert hear(conversation, {**denied, "tool_name": "Bash"}) == []


# -- permissions -----------------------------------------------------------------------------------------------------


def requested(conversation: ClaudeConversation, message: Message) -> PermissionRequested:
    """Let a conversation hear a permission request; give what it makes of it."""
    (event,) = hear(conversation, message)
    assert isinstance(event, PermissionRequested)
    return event


def body(reply: Message) -> Message:
    """Give what a ``control_response`` says, checking its envelope."""
    assert reply["type"] == "control_response"
    assert reply["response"]["subtype"] == "success"
    assert reply["response"]["request_id"] == "r1"
    told: Message = reply["response"]["response"]
    return told


def test_a_request_has_its_call_and_its_agent() -> None:
    """The request is told with its arguments, its call and the sub-agent that makes it."""
    event = requested(talk(), can_use("Bash", agent_id="a1"))
    assert (event.request_id, event.tool, event.tool_call_id, event.agent_id) == (
        "r1",
        "Bash",
        "toolu_1",
        "a1",
    )
    assert event.arguments == QUESTIONS
    assert event.ask is None


def test_the_native_tool_is_denied_with_the_way_to_go() -> None:
    """The denial names the supplied tool, or says that nobody is there."""
    for endpoint, words in ((ENDPOINT, ASK), (None, "Proceed without")):
        conversation = talk(*CONTROL, endpoint=endpoint)
        event = requested(conversation, can_use(NATIVE, requires_user_interaction=True))
        verdict = conversation.decide(event)
        assert isinstance(verdict, Deny)
        told = body(conversation.reply(event, verdict))
        assert told == {"behavior": "deny", "message": verdict.reason}
        assert words in verdict.reason


def test_the_supplied_tool_is_allowed_with_its_arguments() -> None:
    """The allowing reply hands the arguments back unchanged."""
    conversation = talk()
    event = requested(conversation, can_use(ASK, mcp_server={"name": "opask", "source": "dynamic"}))
    assert event.ask == "supplied"
    verdict = conversation.decide(event)
    assert isinstance(verdict, Allow)
    assert body(conversation.reply(event, verdict)) == {"behavior": "allow", "updatedInput": QUESTIONS}


@pytest.mark.parametrize(
    "server",
    [{"name": "other"}, {"name": "opask", "source": "project"}, {"source": "dynamic"}, {"name": None}],
)
def test_a_tool_of_our_name_on_another_server_is_left_to_the_host(server: Message) -> None:
    """Where the CLI names the server, it has to be this session's."""
    conversation = talk()
    event = requested(conversation, can_use(ASK, mcp_server=server))
    assert event.ask is None
    assert conversation.decide(event) == Defer()


def test_the_hosts_verdicts_are_written() -> None:
    """What the host decides on another tool is written as it is; what nobody decides is denied."""
    conversation = talk()
    event = requested(conversation, can_use("Bash"))
    assert conversation.decide(event) == Defer()
    assert body(conversation.reply(event, Allow("host"))) == {"behavior": "allow", "updatedInput": QUESTIONS}
    assert body(conversation.reply(event, Deny("not now"))) == {"behavior": "deny", "message": "not now"}
    assert body(conversation.reply(event, Defer()))["behavior"] == "deny"


def test_no_verdict_lets_the_native_tool_through() -> None:
    """An allowing verdict on the native tool is written as a denial that names the supplied tool."""
    conversation = talk()
    event = requested(conversation, can_use(NATIVE))
    for mark in ("native", "supplied", None):
        told = body(conversation.reply(evolve(event, ask=mark), Allow("host")))
        assert told["behavior"] == "deny"
        assert ASK in told["message"]


def test_an_elicitation_is_seen_and_never_accepted() -> None:
    """An elicitation of some MCP server is the host's to answer; opask cancels it, which is no refusal."""
    conversation = talk()
    asked = {"subtype": "elicitation", "mcp_server_name": "other", "message": "Token?", "mode": "form"}
    event = requested(conversation, {"type": "control_request", "request_id": "r1", "request": asked})
    assert event.tool == ""
    assert event.arguments == {"mcp_server_name": "other", "message": "Token?", "mode": "form"}
    assert conversation.decide(event) == Defer()
    for verdict in (Defer(), Deny("no"), Allow("host")):
        assert body(conversation.reply(event, verdict)) == {"action": "cancel"}


def test_an_unknown_control_request_is_answered_with_an_error() -> None:
    """The CLI waits for an answer; what cannot be served is refused in its own form."""
    conversation = talk()
    event = requested(
        conversation, {"type": "control_request", "request_id": "r1", "request": {"subtype": "brew"}}
    )
    assert conversation.decide(event) == Defer()
    assert conversation.reply(event, Defer()) == {
        "type": "control_response",
        "response": {
            "subtype": "error",
            "request_id": "r1",
            "error": "Unsupported control request subtype: brew",
        },
    }


@pytest.mark.parametrize("subtype", ["hook_callback", "mcp_message"])
def test_what_the_host_asked_for_is_the_hosts(subtype: str) -> None:
    """Hooks and in-band servers are there only where the host set them up, and are its own to answer."""
    assert (
        hear(talk(), {"type": "control_request", "request_id": "r1", "request": {"subtype": subtype}}) == []
    )


def test_a_control_request_without_an_id_is_unreadable() -> None:
    """What cannot be answered is reported."""
    (event,) = hear(talk(), {"type": "control_request", "request": {"subtype": "can_use_tool"}})
    assert isinstance(event, MessageUnreadable)


@pytest.mark.parametrize(
    "message",
    [
        {"type": "control_response", "response": {"subtype": "success", "request_id": "r1", "response": {}}},
        {"type": "control_response", "response": {"subtype": "error", "request_id": "r1", "error": "no"}},
        {"type": "keep_alive"},
        {"type": "system", "subtype": "status", "status": "requesting"},
        {"type": "something_new", "x": [1]},
    ],
)
def test_what_means_nothing_here_is_passed_over(message: Message) -> None:
    """Replies to the host's own requests and kinds that are not known make no event."""
    assert hear(talk(), message) == []


# -- text ------------------------------------------------------------------------------------------------------------


def piece(text: str, index: int = 0, **more: Any) -> Message:
    """Give a ``stream_event`` with a piece of text."""
    delta = {"type": "text_delta", "text": text}
    event = {"type": "content_block_delta", "index": index, "delta": delta}
    return {"type": "stream_event", "event": event, "parent_tool_use_id": None, **more}


START: Message = {
    "type": "stream_event",
    "event": {"type": "message_start", "message": {}},
    "parent_tool_use_id": None,
}


def texts(*messages: Message) -> list[str]:
    """Give the texts that a conversation tells of messages."""
    return [event.text for event in hear(talk(), init(), *messages) if isinstance(event, TextSaid)]


def test_text_is_told_once() -> None:
    """Pieces are told as they come, and the whole that follows is not told again."""
    whole = said({"type": "text", "text": "Hello there"})
    assert texts(whole) == ["Hello there"]
    assert texts(START, piece("Hello"), piece(" there"), whole) == ["Hello", " there"]
    assert texts(START, piece("Hello"), whole) == ["Hello", " there"]
    assert texts(START, piece("Something else"), whole) == ["Something else", "Hello there"]
    two = [said({"type": "text", "text": "a"}), said({"type": "text", "text": "b"})]
    assert texts(START, piece("a"), piece("b", 1), *two, whole) == ["a", "b", "Hello there"]
    assert texts(START, piece("a"), START, said({"type": "text", "text": "a"})) == ["a", "a"]


def test_each_agents_text_is_its_own() -> None:
    """A sub-agent's pieces do not hide what the main agent says in the same words."""
    whole = said({"type": "text", "text": "Done"})
    assert texts(START, piece("Done", agent_id="a1"), whole) == ["Done", "Done"]


def test_a_content_that_is_a_string_is_text() -> None:
    """Content comes as blocks or as a plain string."""
    line = {"type": "assistant", "message": {"content": "Hello"}, "parent_tool_use_id": None}
    assert texts(line) == ["Hello"]


def test_thoughts_and_empty_texts_are_not_told() -> None:
    """Only text that the agent says is told."""
    assert texts(said({"type": "thinking", "thinking": "hm"}, {"type": "text", "text": ""})) == []


# -- prompts and interrupts ------------------------------------------------------------------------------------------


def test_a_stream_takes_any_number_of_prompts() -> None:
    """Each prompt is a user message; no handshake is needed before the first."""
    conversation = talk()
    for text in ("first", "second \ud800"):
        (message,) = conversation.prompt(text)
        assert message == {
            "type": "user",
            "message": {"role": "user", "content": [{"type": "text", "text": text}]},
        }


def test_text_mode_takes_the_one_prompt_of_its_argv() -> None:
    """The prompt in the argv needs no message, and there is no second."""
    conversation = talk(*TEXT)
    assert list(conversation.prompt("Do it.")) == []
    with pytest.raises(LaunchError, match="one prompt"):
        conversation.prompt("And that.")


def test_a_plain_prompt_on_stdin_is_not_ours_to_send() -> None:
    """Without a prompt in the argv the CLI reads plain text, which is no message."""
    with pytest.raises(LaunchError, match="plain text"):
        talk("claude", "-p", "--output-format", "stream-json").prompt("Do it.")


def test_interrupts_have_ids_of_their_own() -> None:
    """A stream is interrupted by a control request, each with its own id; text mode only by a signal."""
    conversation = talk()
    first, second = (message for _ in range(2) for message in conversation.interrupt())
    assert first["request"] == {"subtype": "interrupt"}
    assert first["request_id"] != second["request_id"]
    assert list(talk(*TEXT).interrupt()) == []


# -- whatever comes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("Error: not JSON", "the line is not JSON"),
        (b"\xff\xfe", "the line is not UTF-8"),
        ("[1]", "the line is no JSON object"),
        ("[" * 100_000, "the line is not JSON"),
        ("1" * 5000, "the line is not JSON"),
        ("{}", "the message has no type"),
        ('{"type": 7}', "the message has no type"),
    ],
)
def test_what_cannot_be_read_is_reported(line: str | bytes, reason: str) -> None:
    """A line that is no message is an event with its reason."""
    assert talk().receive(line) == [MessageUnreadable(reason=reason)]


@pytest.mark.parametrize("line", ["", "\n", b" \r\n"])
def test_a_blank_line_is_nothing(line: str | bytes) -> None:
    """Blank lines are passed over."""
    assert talk().receive(line) == []


# Words in a row read better than quoted ones, hence `split`.
KEYS = st.sampled_from(
    (  # noqa: SIM905
        "type subtype message content id name input text tool_use_id is_error parent_tool_use_id agent_id request "
        "request_id tool_name mcp_server source tools mcp_servers status event delta index task_id questions"
    ).split()
)
WORDS = st.sampled_from(
    f"system init assistant user result stream_event control_request can_use_tool elicitation tool_use tool_result text "
    f"text_delta content_block_delta message_start permission_denied task_started task_notification opask dynamic "
    f"{ASK} {NATIVE} toolu_1 r1".split()
)
JSON = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=4), inner, max_size=6)
    ),
    max_leaves=20,
)
SHAPED = st.fixed_dictionaries(
    {"type": WORDS | JSON},
    optional={
        "subtype": WORDS,
        "message": JSON,
        "request": JSON,
        "request_id": WORDS | JSON,
        "event": JSON,
        "tools": JSON,
    },
)


@given(st.lists(SHAPED | JSON, max_size=6))
def test_no_json_makes_it_raise_or_allow_the_native_tool(said: list[Any]) -> None:
    """Whatever JSON comes, it is read, passed over or reported, and only our exact tool is ever allowed."""
    conversation = talk()
    for value in said:
        forms: list[Any] = [json.dumps(value), *([value] if isinstance(value, dict) else [])]
        for form in forms:
            for event in conversation.receive(form):
                if not isinstance(event, PermissionRequested):
                    continue
                verdict = conversation.decide(event)
                if isinstance(verdict, Allow):
                    assert event.tool == ASK
                reply = conversation.reply(event, Allow("anyone"))
                if event.tool == NATIVE:
                    assert (
                        body({**reply, "response": {**reply["response"], "request_id": "r1"}})["behavior"]
                        == "deny"
                    )


@given(st.binary(max_size=80) | st.text(max_size=80))
def test_no_line_makes_it_raise(line: bytes | str) -> None:
    """Whatever bytes come, they are events or nothing."""
    assert all(isinstance(event, Event) for event in talk().receive(line))
