"""The conversation with an ACP agent: the handshake, the turns, the agent's requests, both versions' shapes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_samples import (
    ASK,
    ASKED,
    ENDPOINT,
    INITIALIZED,
    SESSION,
    answer,
    ask,
    begun,
    content,
    due,
    hear,
    in_turn,
    of,
    opened,
    permission,
    planned,
    prompted,
    refusal,
    request,
    said,
    update,
)
from opask.adapters import DuplexConversation, Message
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
from opask.outcomes import Skipped
from opask.permissions import Allow, Deny, PermissionRequested
from opask_acp import AcpAdapter, HostClient, Profile, adapter
from opask_acp.messages import initialize
from opask_acp.states import TABLE, State, Step, after

V2: dict[str, Any] = {
    "protocolVersion": 2,
    "capabilities": {"session": {"mcp": {"stdio": {}, "http": {}}}},
    "info": {"name": "made-up", "version": "9"},
}
TALKING = adapter.with_client(HostClient(talks=True))


def call(call_id: str = "c1", **more: Any) -> Message:
    """Give the first report of a call of the ask tool."""
    return update("tool_call", toolCallId=call_id, **({"title": "Asking", "name": ASK} | more))


def more(call_id: str = "c1", **told: Any) -> Message:
    """Give a later report of a call."""
    return update("tool_call_update", toolCallId=call_id, **told)


# -- the table -------------------------------------------------------------------------------------------------------


def test_every_state_has_its_row_and_can_end() -> None:
    """The table covers every state; each but the end leads to the end, and every state is reached from the first."""
    assert set(TABLE) == set(State)
    assert all(Step.EXIT in row for state, row in TABLE.items() if state is not State.EXITED)
    assert TABLE[State.EXITED] == {}
    reached = {State.NEW}
    while more_ := {after(state, step) for state in reached for step in Step} - reached:
        reached |= more_
    assert reached == set(State)


@given(st.lists(st.sampled_from(Step)))
def test_no_order_of_steps_leaves_the_table(steps: list[Step]) -> None:
    """Whatever order steps come in, a prompt is only ever sent in a session that has no turn."""
    state = State.NEW
    for step in steps:
        before, state = state, after(state, step)
        if step is Step.PROMPT and state is not before:
            assert before in (State.NEW, State.IDLE)
            assert state is State.BUSY


# -- the handshake ---------------------------------------------------------------------------------------------------


def test_it_is_a_conversation_in_both_directions() -> None:
    """The conversation keeps the contract for protocols in which both sides make requests."""
    assert isinstance(begun(), DuplexConversation)


def test_the_handshake_goes_by_what_is_due() -> None:
    """First initialize, then session/new with the server, then the prompt that was kept, each once."""
    conversation = begun()
    (first,) = conversation.prompt("Go.")
    assert (first["method"], first["params"]["protocolVersion"]) == ("initialize", 1)
    assert "elicitation" not in first["params"]["clientCapabilities"]
    assert conversation.outgoing() == []
    assert hear(conversation, answer(first["id"], **INITIALIZED)) == []
    second = due(conversation)
    assert second["method"] == "session/new"
    assert second["params"] == {
        "cwd": "/srv/project",
        "mcpServers": [
            {
                "name": "opask",
                "command": "/opt/python",
                "args": ["-I", "-S", "/opt/relay.py", "/run/opask/a1b2c3.sock"],
                "env": [{"name": "X", "value": "1"}],
            }
        ],
    }
    assert conversation.outgoing() == []
    hear(conversation, answer(second["id"], sessionId=SESSION))
    third = due(conversation)
    assert (third["method"], third["params"]["sessionId"]) == ("session/prompt", SESSION)
    assert third["params"]["prompt"][0] == {"type": "text", "text": "Go."}
    assert len({message["id"] for message in (first, second, third)}) == 3
    assert hear(conversation, said("Hm.")) == [TurnStarted(), TextSaid(text="Hm.")]


def test_the_clause_stands_behind_the_first_prompt_for_the_model() -> None:
    """The clause is a block of its own, after the host's text, once; a command to the runtime is left alone."""
    conversation = opened()
    plan = planned()
    blocks = []
    for text in ("/mcp", "Go.", "Again."):
        (message,) = conversation.prompt(text)
        blocks.append([block["text"] for block in message["params"]["prompt"]])
        hear(conversation, answer(message["id"], stopReason="end_turn"))
    assert blocks == [["/mcp"], ["Go.", f"\n\n{plan.clause}"], ["Again."]]
    assert plan.clause is not None
    assert ASK in plan.clause


def test_a_refused_clause_is_not_said() -> None:
    """Where the host refused the change the prompt is its text alone."""
    (message,) = opened(refuse={"clause"}).prompt("Go.")
    assert [block["text"] for block in message["params"]["prompt"]] == ["Go."]


@pytest.mark.parametrize(
    ("capabilities", "method"),
    [
        ({"sessionCapabilities": {"resume": {}}, "loadSession": True}, "session/resume"),
        ({"loadSession": True}, "session/load"),
    ],
)
def test_a_session_is_resumed_as_the_agent_can(capabilities: dict[str, Any], method: str) -> None:
    """Resuming is preferred over loading, both name the servers again, and a replayed past is no news."""
    conversation = begun(adapter.with_client(HostClient(resume="old")))
    hear(conversation, answer(due(conversation)["id"], protocolVersion=1, agentCapabilities=capabilities))
    opening = due(conversation)
    assert (opening["method"], opening["params"]["sessionId"]) == (method, "old")
    assert [server["name"] for server in opening["params"]["mcpServers"]] == ["opask"]
    replay = [
        update("agent_message_chunk", session="old", content={"type": "text", "text": "Long ago."}),
        call(),
    ]
    assert hear(conversation, *replay, answer(opening["id"])) == []
    (message,) = conversation.prompt("Go on.")
    assert message["params"]["sessionId"] == "old"


def test_an_agent_that_cannot_resume_fails() -> None:
    """An agent with neither way to go on with a session is told of, and takes no prompt."""
    conversation = begun(adapter.with_client(HostClient(resume="old")))
    (ready,) = hear(conversation, answer(due(conversation)["id"], protocolVersion=1))
    assert isinstance(ready, SessionReady)
    assert not ready.questions
    assert conversation.outgoing() == []
    with pytest.raises(LaunchError, match="cannot go on with a session"):
        conversation.prompt("Go on.")


def test_an_agent_is_logged_in_to_where_the_host_says_how() -> None:
    """Authentication goes between initialize and the session, by the method that the host names."""
    conversation = begun(adapter.with_client(HostClient(authenticate="key")))
    hear(conversation, answer(due(conversation)["id"], **INITIALIZED))
    login = due(conversation)
    assert (login["method"], login["params"]) == ("authenticate", {"methodId": "key"})
    hear(conversation, answer(login["id"]))
    assert due(conversation)["method"] == "session/new"


@pytest.mark.parametrize("at", ["initialize", "session/new"])
def test_a_refused_handshake_ends_the_prompt_that_was_kept(at: str) -> None:
    """The agent's own words are the reason, made inert, and the prompt's turn ends in an error."""
    conversation = begun()
    (message,) = conversation.prompt("Go.")
    if at == "session/new":
        hear(conversation, answer(message["id"], **INITIALIZED))
        message = due(conversation)
    events = hear(conversation, refusal(message["id"], -32603, "no \x1b[31mway\n"))
    (ready,) = of(SessionReady, events)
    assert (ready.questions, ready.reason) == (False, f"{at} failed: no ␛[31mway (-32603)")
    assert events[1:] == [TurnStarted(), TurnEnded(stop_reason=ready.reason, is_error=True)]
    assert conversation.outgoing() == []


@pytest.mark.parametrize(
    "data", ["no way", {"details": "no way"}, {"error": "no way", "x": 1}, {"message": "no way"}]
)
def test_what_an_error_says_beside_its_message_is_told(data: Any) -> None:
    """Where an agent's message says nothing, what is wrong stands beside it, in one of several places."""
    conversation = begun()
    error = {"code": -32603, "message": "Internal error", "data": data}
    (ready,) = hear(conversation, {"jsonrpc": "2.0", "id": due(conversation)["id"], "error": error})
    assert isinstance(ready, SessionReady)
    assert ready.reason == "initialize failed: Internal error: no way (-32603)"


def test_an_answer_without_a_session_is_a_failure() -> None:
    """A session/new that is answered with no session fails, and does not leave the prompt waiting."""
    conversation = begun()
    conversation.prompt("Go.")
    hear(conversation, answer(1, **INITIALIZED))
    events = hear(conversation, answer(due(conversation)["id"], sessionId=7))
    assert [type(event) for event in events] == [SessionReady, TurnStarted, TurnEnded]


def test_an_unknown_version_of_the_protocol_is_refused() -> None:
    """An agent that speaks a version which is not known here gets no session request."""
    conversation = begun()
    hear(conversation, answer(due(conversation)["id"], protocolVersion=3))
    with pytest.raises(LaunchError, match="version 3"):
        conversation.prompt("Go.")


# -- which server ----------------------------------------------------------------------------------------------------


def servers(initialized: dict[str, Any], endpoint: Any = ENDPOINT) -> list[Message]:
    """Give the servers that a session is opened with."""
    conversation = begun(adapter, endpoint)
    hear(conversation, answer(due(conversation)["id"], **initialized))
    found = due(conversation)["params"]["mcpServers"]
    assert isinstance(found, list)
    return found


HTTP = ENDPOINT.__class__(
    command=(), folder=ENDPOINT.folder, wait=ENDPOINT.wait, url="http://127.0.0.1:9/mcp", token="secret"
)


def test_a_server_over_http_is_named_with_its_token() -> None:
    """Where the agent takes HTTP the entry has a type, the URL, and the token as a header."""
    assert servers(
        {"protocolVersion": 1, "agentCapabilities": {"mcpCapabilities": {"http": True}}}, HTTP
    ) == [
        {
            "type": "http",
            "name": "opask",
            "url": "http://127.0.0.1:9/mcp",
            "headers": [{"name": "Authorization", "value": "Bearer secret"}],
        }
    ]


@pytest.mark.parametrize("http", [False, None, "yes", 1])
def test_an_agent_without_http_gets_no_such_server(http: Any) -> None:
    """Where the bridge offers nothing else the agent cannot ask, and an event says that the tool is missing."""
    conversation = begun(adapter, HTTP)
    caps = {"mcpCapabilities": {"http": http}}
    events = hear(conversation, answer(due(conversation)["id"], protocolVersion=1, agentCapabilities=caps))
    assert [type(event) for event in events] == [SessionReady, AskToolMissing]
    assert due(conversation)["params"]["mcpServers"] == []


def test_an_agent_of_version_2_gets_its_forms() -> None:
    """In version 2 every server has its type, and going on with a session is always session/resume."""
    (entry,) = servers(V2)
    assert (entry["type"], entry["name"]) == ("stdio", "opask")
    conversation = begun(adapter.with_client(HostClient(resume="old", authenticate="key")))
    hear(conversation, answer(due(conversation)["id"], **V2))
    login = due(conversation)
    hear(conversation, answer(login["id"]))
    assert (login["method"], due(conversation)["method"]) == ("auth/login", "session/resume")


# -- turns -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stop_reason", "is_error"),
    [
        ("end_turn", False),
        ("refusal", True),
        ("max_tokens", True),
        ("max_turn_requests", True),
        ("cancelled", True),
        ("_a_word_to_come", False),
    ],
)
def test_a_turn_ends_by_the_answer_to_its_prompt(stop_reason: str, is_error: bool) -> None:
    """The stop reason is the agent's word; one that leaves the work undone, or that nobody wanted, is an error."""
    conversation, prompt_id = in_turn()
    conversation.tool_listed()
    events = hear(conversation, answer(prompt_id, stopReason=stop_reason))
    assert events == [TurnStarted(), TurnEnded(stop_reason=stop_reason, is_error=is_error)]
    assert hear(conversation, answer(prompt_id, stopReason=stop_reason)) == []


def test_a_prompt_that_fails_ends_its_turn() -> None:
    """An error in answer to a prompt is the end of its turn, and the next prompt may come."""
    conversation, prompt_id = in_turn()
    conversation.tool_listed()
    *_, ended = hear(conversation, refusal(prompt_id, -32600, "busy"))
    assert ended == TurnEnded(stop_reason="session/prompt failed: busy (-32600)", is_error=True)
    assert conversation.prompt("Again.")


def test_a_second_prompt_is_refused_while_a_turn_runs() -> None:
    """While a turn runs, a question waiting or not, no second prompt is sent."""
    conversation, _ = in_turn()
    conversation.ask_arrived(ask())
    with pytest.raises(LaunchError, match="a turn runs"):
        conversation.prompt("And this.")
    assert conversation.outgoing() == []


def test_after_an_interrupt_the_next_prompt_waits_for_the_turn() -> None:
    """A prompt after an interrupt is kept, and sent once the turn that was interrupted is over, which is no error."""
    conversation, prompt_id = in_turn()
    conversation.ask_arrived(ask())
    (cancel,) = conversation.interrupt()
    assert cancel == {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}}
    assert conversation.prompt("Now this.") == []
    with pytest.raises(LaunchError, match="waits to be sent"):
        conversation.prompt("And this.")
    ended = of(TurnEnded, hear(conversation, answer(prompt_id, stopReason="cancelled")))
    assert ended == [TurnEnded(stop_reason="cancelled", is_error=False, dropped=("ask-1",))]
    assert due(conversation)["method"] == "session/prompt"
    assert TurnStarted() in hear(conversation, said("Hm."))


def test_an_interrupt_drops_a_prompt_that_was_kept() -> None:
    """Each prompt that was taken has its turn told, also one that was dropped before it was sent."""
    conversation = begun()
    conversation.prompt("Go.")
    assert conversation.interrupt() == []
    events = hear(conversation, answer(1, **INITIALIZED))
    assert events == [TurnStarted(), TurnEnded(stop_reason="cancelled")]
    hear(conversation, answer(due(conversation)["id"], sessionId=SESSION))
    assert conversation.outgoing() == []
    assert conversation.prompt("Now this.")


def test_the_exit_ends_what_is_open() -> None:
    """When the process is gone, the turn, its questions and a prompt that was kept are over, and no other is taken."""
    conversation = begun()
    conversation.prompt("Go.")
    assert conversation.end_turn("exited") == [
        SessionReady(questions=False, reason="the agent ended before it listed the ask tool"),
        TurnStarted(),
        TurnEnded(stop_reason="exited", is_error=True),
    ]
    assert conversation.end_turn("exited") == []
    with pytest.raises(LaunchError, match="has ended"):
        conversation.prompt("Again.")


def test_a_turn_without_the_tool_is_told_once() -> None:
    """An agent that never asked for the tool's list in its first turn has no tool: an event says so, once."""
    conversation, prompt_id = in_turn()
    first = hear(conversation, answer(prompt_id, stopReason="end_turn"))
    assert of(AskToolMissing, first) == [AskToolMissing(reason="not_listed")]
    (message,) = conversation.prompt("Again.")
    assert not of(AskToolMissing, hear(conversation, answer(message["id"], stopReason="end_turn")))
    assert conversation.tool_listed() == [SessionReady(questions=True, version="4.5.6")]


def test_a_runtime_that_lists_apart_is_not_missing_its_tool() -> None:
    """Where another process takes the list nothing follows from its absence, and the first prompt is not held for it."""
    apart = AcpAdapter(Profile(lists_apart=True))
    conversation, prompt_id = in_turn(apart)
    assert not of(AskToolMissing, hear(conversation, answer(prompt_id, stopReason="end_turn")))
    assert not planned(apart).hold_prompt


def test_a_question_proves_that_the_agent_can_ask() -> None:
    """The first question makes the session ready, whatever was seen of the list before."""
    conversation, _ = in_turn()
    assert [type(event) for event in conversation.ask_arrived(ask())] == [
        TurnStarted,
        QuestionAsked,
        SessionReady,
    ]
    assert conversation.tool_listed() == []


# -- version 2's turns -----------------------------------------------------------------------------------------------


def test_in_version_2_the_idle_state_ends_the_turn() -> None:
    """The answer to a prompt only takes it; the turn ends when the agent says that it is idle, with its reason."""
    conversation, prompt_id = in_turn(initialized=V2)
    conversation.tool_listed()
    idle = update("state_update", state="idle", stopReason="end_turn")
    assert hear(conversation, idle) == [TurnStarted()]  # of before the prompt
    assert hear(conversation, answer(prompt_id, messageId="m0")) == []
    assert hear(conversation, update("state_update", state="running")) == []
    assert hear(conversation, update("state_update", state="requires_action")) == []
    assert hear(conversation, idle) == [TurnEnded(stop_reason="end_turn")]
    assert hear(conversation, idle) == []


def test_an_agent_may_begin_a_turn_by_itself() -> None:
    """In version 2 an agent that goes to work without a prompt is in a turn."""
    conversation = opened(initialized=V2)
    conversation.tool_listed()
    assert hear(conversation, update("state_update", state="running")) == [TurnStarted()]
    with pytest.raises(LaunchError, match="a turn runs"):
        conversation.prompt("Go.")
    assert hear(conversation, update("state_update", state="idle", stopReason="cancelled")) == [
        TurnEnded(stop_reason="cancelled", is_error=True)
    ]


def test_a_whole_message_is_told_once() -> None:
    """A whole message (version 2) is told, but not again what came of it in pieces."""
    conversation, _ = in_turn(initialized=V2)
    whole: Message = {
        "messageId": "m1",
        "content": [{"type": "text", "text": "One"}, {"type": "text", "text": " two"}],
    }
    events = hear(
        conversation,
        update("agent_message", **whole),
        update("agent_message", **whole),
        said("Thr", messageId="m2"),
        said("ee", messageId="m2"),
        update("agent_message", messageId="m2", content=[{"type": "text", "text": "Three"}]),
    )
    assert [event.text for event in of(TextSaid, events)] == ["One two", "Thr", "ee"]


def test_content_that_grows_by_pieces_is_put_together() -> None:
    """Pieces of a call's content (version 2) add up to the arguments, and a whole content takes their place."""
    conversation, _ = in_turn(initialized=V2)
    conversation.ask_arrived(ask())
    text = json.dumps(ASKED)
    pieces = [
        update("tool_call_content_chunk", toolCallId="c1", content=content(part)[0])
        for part in ("{nonsense", text[:9], text[9:])
    ]
    assert not of(QuestionCorrelated, hear(conversation, more(name=ASK), *pieces[:1]))
    assert not of(QuestionCorrelated, hear(conversation, more(content=[]), pieces[1]))
    assert of(QuestionCorrelated, hear(conversation, pieces[2])) == [
        QuestionCorrelated(question_id="ask-1", tool_call_id="c1")
    ]


# -- tool calls and asks ---------------------------------------------------------------------------------------------


def test_an_ask_is_correlated_by_its_questions() -> None:
    """Of two calls that run side by side each gets the ask with its own questions."""
    conversation, _ = in_turn()
    other = {"questions": ["Who?"]}
    hear(conversation, call("c1", rawInput=ASKED), call("c2", rawInput=other), call("c3", name="read"))
    (first,) = of(QuestionAsked, conversation.ask_arrived(ask(1, other)))
    (second,) = of(QuestionAsked, conversation.ask_arrived(ask(2)))
    assert (first.tool_call_id, second.tool_call_id) == ("c2", "c1")
    assert first.siblings_running == 2


def test_arguments_that_come_later_correlate_later() -> None:
    """A call whose arguments are known only after its ask arrived is told of then."""
    conversation, _ = in_turn()
    hear(conversation, call(rawInput={}))
    (asked,) = of(QuestionAsked, conversation.ask_arrived(ask()))
    assert asked.tool_call_id is None
    assert of(QuestionCorrelated, hear(conversation, more(rawInput=json.dumps(ASKED)))) == [
        QuestionCorrelated(question_id="ask-1", tool_call_id="c1")
    ]


def test_a_call_under_no_name_is_correlated_by_its_questions_alone() -> None:
    """Where nothing names the tool a call is no ask tool's, and yet the one with exactly these questions is the ask's."""
    conversation, _ = in_turn()
    events = hear(conversation, call(name=None, title="Asking about colour", rawInput=ASKED))
    assert [event.ask for event in of(ToolAnnounced, events)] == [None]
    (asked,) = of(QuestionAsked, conversation.ask_arrived(ask()))
    assert asked.tool_call_id == "c1"


@pytest.mark.parametrize(
    "named", [{"name": "read_file"}, {"_meta": {"toolName": "other"}}, {"title": "AskUserQuestion"}]
)
def test_a_call_under_another_name_claims_nothing(named: dict[str, Any]) -> None:
    """A call that is another tool's, or the native one's, is no ask's, though it has the very questions."""
    conversation, _ = in_turn()
    hear(conversation, call(**({"name": None} | named), rawInput=ASKED))
    (asked,) = of(QuestionAsked, conversation.ask_arrived(ask()))
    assert asked.tool_call_id is None


def test_a_name_that_comes_late_takes_the_ask_back() -> None:
    """A call that turns out to be another tool's gives up the ask that was taken for its own."""
    conversation, _ = in_turn()
    hear(conversation, call(name=None, rawInput=ASKED))
    conversation.ask_arrived(ask())
    hear(conversation, call("c2", rawInput=ASKED))
    events = hear(conversation, more(name="read_file"))
    assert of(QuestionCorrelated, events) == [QuestionCorrelated(question_id="ask-1", tool_call_id="c2")]


def test_an_ask_that_was_answered_at_once_gets_its_call() -> None:
    """An answer can be faster than the news of the call; but what comes when another call has ended is a later call."""
    conversation, _ = in_turn()
    for number in (1, 2):
        conversation.ask_arrived(ask(number))
        conversation.ask_settled(ask(number), Skipped("test"))
    events = hear(conversation, call("c1"), more("c1", rawInput=ASKED))
    assert of(QuestionCorrelated, events) == [QuestionCorrelated(question_id="ask-1", tool_call_id="c1")]
    later = hear(conversation, more("c1", status="completed"), call("c2", rawInput=ASKED))
    assert of(QuestionCorrelated, later) == []


def test_a_title_that_is_overwritten_changes_nothing() -> None:
    """What a call was announced as it stays, whatever its title says later of how it goes."""
    conversation, _ = in_turn(AcpAdapter(Profile(written=(("title",),), titles=())))
    hear(conversation, call(name=None, title=ASK, rawInput=ASKED), call("c2", name=None, title="Agent"))
    events = hear(
        conversation,
        more(title="MCP connection lost"),
        more("c2", title="Launching"),
        more(status="completed"),
        more("c2", status="completed"),
    )
    assert [event.tool for event in of(ToolFinished, events)] == [ASK, "Agent"]


def test_arguments_that_were_told_are_told_again_with_the_permission() -> None:
    """A permission request that comes without arguments has those that the call was announced with."""
    conversation, _ = in_turn()
    hear(conversation, call(content=content(json.dumps(ASKED))))
    asking = permission("p1", {"toolCallId": "c1", "title": ASK, "content": content("May it?")})
    (asked,) = of(PermissionRequested, hear(conversation, asking))
    assert asked.arguments == ASKED


def test_an_agent_that_reports_no_arguments_is_correlated_by_order() -> None:
    """Where a profile says that arguments are never told, calls are claimed as they were announced."""
    conversation, _ = in_turn(AcpAdapter(Profile(by_order=True)))
    hear(conversation, call("c1"), call("c2"))
    found = [of(QuestionAsked, conversation.ask_arrived(ask(number)))[0].tool_call_id for number in (1, 2)]
    assert found == ["c1", "c2"]


def test_a_profile_may_know_the_id_from_the_asks_meta() -> None:
    """Where an ask carries the id of its call no other call will do."""

    class Exact(Profile):
        def call_id(self, meta: Any) -> str | None:
            return "c2"

    conversation, _ = in_turn(AcpAdapter(Exact()))
    hear(conversation, call("c1", rawInput=ASKED))
    (asked,) = of(QuestionAsked, conversation.ask_arrived(ask()))
    assert asked.tool_call_id is None
    assert of(QuestionCorrelated, hear(conversation, call("c2")))


def test_a_sub_agents_call_names_its_agent() -> None:
    """What a sub-agent says and asks carries the call that started it, and ends with that call."""
    conversation, _ = in_turn()
    meta = {"claudeCode": {"parentToolUseId": "task"}}
    events = hear(
        conversation,
        call("task", name="Task"),
        call("c1", rawInput=ASKED, _meta=meta),
        said("Hm.", _meta=meta),
    )
    assert [event.agent_id for event in of(ToolAnnounced, events)] == [None, "task"]
    assert [event.agent_id for event in of(TextSaid, events)] == ["task"]
    (asked,) = of(QuestionAsked, conversation.ask_arrived(ask()))
    assert (asked.tool_call_id, asked.agent_id) == ("c1", "task")
    (_, finished) = hear(
        conversation, call("c2", rawInput=ASKED, _meta=meta), more("task", status="completed")
    )
    assert finished == ToolFinished(tool="Task", tool_call_id="task", dropped=("ask-1",))
    (later,) = of(QuestionAsked, conversation.ask_arrived(ask(2)))
    assert later.tool_call_id is None


def test_a_calls_end_is_told_once() -> None:
    """After its end nothing more is told of a call, whatever is reported of it."""
    conversation, _ = in_turn()
    events = hear(
        conversation, call(status="completed"), more(status="failed"), call(), more(rawInput=ASKED, title="x")
    )
    assert events[1:] == [
        ToolAnnounced(tool=ASK, ask="supplied", tool_call_id="c1"),
        ToolFinished(tool=ASK, tool_call_id="c1"),
    ]
    (asked,) = of(QuestionAsked, conversation.ask_arrived(ask()))
    assert asked.tool_call_id is None


def test_a_native_call_that_fails_was_refused_at_launch() -> None:
    """A native ask tool that the agent's own settings keep from running is told of as refused, once."""
    conversation, _ = in_turn()
    hear(conversation, call(name="AskUserQuestion", rawInput=ASKED))
    events = hear(
        conversation, more(title="Asking user questions"), more(status="failed"), more(status="failed")
    )
    assert events == [
        ToolFinished(tool="AskUserQuestion", is_error=True, tool_call_id="c1"),
        NativeAskRefused(tool="AskUserQuestion", channel="launch", tool_call_id="c1"),
    ]


def test_an_ask_that_settled_is_not_dropped() -> None:
    """The end of a turn drops what is open in it and nothing else."""
    conversation, prompt_id = in_turn()
    conversation.ask_arrived(ask(1))
    conversation.ask_arrived(ask(2))
    conversation.ask_settled(ask(1), Skipped("test"))
    (ended,) = of(TurnEnded, hear(conversation, answer(prompt_id, stopReason="end_turn")))
    assert ended.dropped == ("ask-2",)


def test_what_is_of_another_session_is_passed_over() -> None:
    """Updates of another session are no news here, and its permission requests are refused as such."""
    conversation, _ = in_turn()
    strange = update("tool_call", session="other", toolCallId="c9", name=ASK, title="x", rawInput=ASKED)
    assert of(ToolAnnounced, hear(conversation, strange)) == []
    asking = permission("p1", {"toolCallId": "c9", "name": ASK}, session="other")
    assert of(PermissionRequested, hear(conversation, asking)) == []
    assert due(conversation)["error"]["code"] == -32602


# -- the agent's requests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method",
    ["fs/read_text_file", "fs/write_text_file", "terminal/create", "_vendor/anything", "session/update"],
)
@pytest.mark.parametrize("request_id", [0, "a", None, -1])
def test_an_unknown_request_is_answered(method: str, request_id: Any) -> None:
    """What this client does not serve is answered as unknown, under the request's own id, so that nothing hangs."""
    conversation, _ = in_turn()
    hear(conversation, request(request_id, method, sessionId=SESSION))
    reply = due(conversation)
    assert (reply["id"], reply["error"]["code"]) == (request_id, -32601)


def test_the_hosts_own_methods_are_left_to_it() -> None:
    """A request that the host serves is not answered here; permission requests stay opask's all the same."""
    client = HostClient(methods=("fs/read_text_file", "session/request_permission", "elicitation/create"))
    conversation, _ = in_turn(adapter.with_client(client))
    assert of(MessageUnreadable, hear(conversation, request(1, "fs/read_text_file", path="/x"))) == []
    assert conversation.outgoing() == []
    assert of(PermissionRequested, hear(conversation, permission("p1", {"toolCallId": "c1", "name": ASK})))
    hear(conversation, call("c2", name="AskUserQuestion"))
    hear(conversation, request(2, "elicitation/create", sessionId=SESSION, toolCallId="c2", mode="form"))
    assert due(conversation)["result"] == {"action": "decline"}


@pytest.mark.parametrize("request_id", [True, 1.5, [], {}])
def test_a_request_with_an_id_that_is_none_is_refused(request_id: Any) -> None:
    """What looks like a request and has no id to answer to is answered without one, and told of."""
    conversation, _ = in_turn()
    assert of(MessageUnreadable, hear(conversation, request(request_id, "fs/read_text_file")))
    reply = due(conversation)
    assert (reply["id"], reply["error"]["code"]) == (None, -32600)


def test_a_form_of_an_mcp_server_is_never_filled_in() -> None:
    """A form that no ask tool of the agent's is known to put up is told of, and left unfilled whatever is decided."""
    conversation, _ = in_turn()
    form = request(
        5, "elicitation/create", sessionId=SESSION, toolCallId="c1", mode="form", message="Password?"
    )
    (asked,) = of(PermissionRequested, hear(conversation, form))
    assert (asked.tool, asked.ask, asked.arguments) == (
        "",
        None,
        {"toolCallId": "c1", "mode": "form", "message": "Password?"},
    )
    assert not isinstance(conversation.decide(asked), Allow | Deny)
    assert conversation.outgoing() == []
    for verdict in (Allow("host"), Deny("no"), conversation.decide(asked)):
        assert conversation.reply(asked, verdict)["result"] == {"action": "cancel"}


@pytest.mark.parametrize("elicits", ["native", "server"])
def test_a_profile_knows_who_is_behind_a_form(elicits: Any) -> None:
    """Where a runtime's forms are its own ask tool's each is declined; where they are servers' none is taken for that."""
    conversation, _ = in_turn(AcpAdapter(Profile(elicits=elicits, native=frozenset({"ask"}))))
    events = hear(conversation, request(5, "elicitation/create", sessionId=SESSION, mode="form", message="?"))
    refused = NativeAskRefused(tool="ask", channel="elicitation")
    assert (refused in events) is (elicits == "native")
    assert bool(of(PermissionRequested, events)) is (elicits == "server")


@pytest.mark.parametrize("is_first", [True, False])
def test_a_form_that_names_no_call_is_told_once(is_first: bool) -> None:
    """The call behind a refused form, announced before it or after, is not told again; another one is, and so in turn."""
    conversation, prompt_id = in_turn(AcpAdapter(Profile(elicits="native", native=frozenset({"ask"}))))
    form = request(5, "elicitation/create", sessionId=SESSION, mode="form", message="?")
    begin, end = call("c1", title="ask"), more("c1", status="failed")
    told = hear(conversation, *((form, begin, end) if is_first else (begin, form, end)))
    assert of(NativeAskRefused, told) == [NativeAskRefused(tool="ask", channel="elicitation")]
    again = hear(conversation, call("c2", title="ask"), more("c2", status="failed"))
    assert of(NativeAskRefused, again) == [NativeAskRefused(tool="ask", channel="launch", tool_call_id="c2")]
    hear(conversation, form, answer(prompt_id, stopReason="cancelled"), call("c3", title="ask"))
    assert of(NativeAskRefused, hear(conversation, more("c3", status="failed")))


def test_forms_are_offered_only_where_a_profile_says_so() -> None:
    """The agent is told that forms can be filled in only where that brings no ask tool of its own into being."""
    able = [
        due(begun(AcpAdapter(Profile(elicitation=says))))["params"]["clientCapabilities"]
        for says in (False, True)
    ]
    assert [each.get("elicitation") for each in able] == [None, {"form": {}}]
    assert (
        "elicitation"
        not in initialize({}, {"elicitation": {"form": {}}}, elicitation=False)["clientCapabilities"]
    )


def test_answers_do_not_pile_up() -> None:
    """A host that never sends what is due loses the oldest answers, not its memory."""
    conversation = begun(TALKING)
    for number in range(3000):
        conversation.receive(request([], "x", number=number))
    assert len(conversation.outgoing()) == 1000


# -- lines -----------------------------------------------------------------------------------------------------------


def test_a_line_may_hold_several_messages() -> None:
    """A batch (version 2) is read message by message, and what is none of them is told of."""
    conversation, prompt_id = in_turn(initialized=V2)
    batch = [said("A"), 7, said("B"), answer(prompt_id)]
    events = conversation.receive(json.dumps(batch))
    assert [type(event) for event in events] == [TurnStarted, TextSaid, MessageUnreadable, TextSaid]


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"id": 1},
        {"jsonrpc": "2.0", "result": {}},
        {"id": [], "result": {}},
        {"method": 7},
        [],
        7,
    ],
)
def test_what_is_no_message_is_told_of(message: Any) -> None:
    """What is neither request, nor answer, nor notification is passed over and told of."""
    conversation, _ = in_turn()
    assert of(MessageUnreadable, conversation.receive(json.dumps(message)))


@pytest.mark.parametrize(
    "message",
    [
        answer(99, stopReason="end_turn"),
        refusal("x", -1, "what?"),
        {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 3}},
        {"jsonrpc": "2.0", "method": "elicitation/complete"},
        update("available_commands_update", availableCommands=[]),
        update("_vendor_update", anything=1),
        update("user_message_chunk", content={"type": "text", "text": "Do the thing."}),
        {"jsonrpc": "2.0", "method": "session/update", "params": [1]},
    ],
)
def test_what_is_not_known_is_passed_over(message: Message) -> None:
    """Answers to nothing, and notifications and updates to come, are no news and no fault."""
    conversation, _ = in_turn()
    assert hear(conversation, message) == [TurnStarted()]
    assert conversation.outgoing() == []


# -- a client of the host's ------------------------------------------------------------------------------------------


def test_a_hosts_own_client_is_listened_to() -> None:
    """With a client of the host's the conversation sends nothing and learns from both directions where it stands."""
    conversation = begun(TALKING)
    conversation.tool_listed()
    assert conversation.outgoing() == []
    with pytest.raises(LaunchError, match="own client"):
        conversation.prompt("Go.")
    heard: list[Event] = []
    for id_, method, result in (
        (0, "initialize", dict(INITIALIZED)),
        (1, "session/new", {"sessionId": SESSION}),
        (2, "session/prompt", {"stopReason": "end_turn"}),
    ):
        params = {"sessionId": SESSION} if method == "session/prompt" else {}
        heard += conversation.sent(json.dumps(request(id_, method, **params)))
        heard += hear(conversation, answer(id_, **result))
    assert heard == [TurnStarted(), TurnEnded(stop_reason="end_turn")]
    assert conversation.outgoing() == []
    assert hear(conversation, request(9, "fs/read_text_file", path="/x")) == []
    assert conversation.outgoing() == []


def test_a_client_that_tells_nothing_is_read_off_the_agents_work() -> None:
    """Where nobody tells of prompts a turn begins with the agent's work, and ends when the host says so."""
    conversation = begun(TALKING)
    conversation.tool_listed()
    for _ in range(2):
        assert hear(conversation, said("Hm."), said("So.")) == [
            TurnStarted(),
            TextSaid(text="Hm."),
            TextSaid(text="So."),
        ]
        assert conversation.end_turn("ended") == [TurnEnded(stop_reason="ended")]
        assert conversation.end_turn("ended") == []


def test_a_client_that_does_not_wait_has_two_turns() -> None:
    """A second prompt of the host's client while a turn runs is the next turn once the first one is answered."""
    conversation = begun(TALKING)
    conversation.tool_listed()
    first, second = prompted(), {**prompted(), "id": 8}
    assert conversation.sent(first) == [TurnStarted()]
    assert conversation.sent(second) == []
    assert hear(conversation, answer(first["id"], stopReason="cancelled")) == [
        TurnEnded(stop_reason="cancelled", is_error=True),
        TurnStarted(),
    ]
    assert hear(conversation, answer(8, stopReason="end_turn")) == [TurnEnded(stop_reason="end_turn")]


def test_a_client_that_cancels_is_understood() -> None:
    """A cancel by the host's client makes the turn's end its own wish, and permission is no longer given."""
    conversation = begun(TALKING)
    conversation.tool_listed()
    conversation.sent(prompted())
    (asked,) = of(
        PermissionRequested, hear(conversation, permission("p1", {"toolCallId": "c1", "name": ASK}))
    )
    conversation.sent({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}})
    assert conversation.reply(asked, Allow("x"))["result"] == {"outcome": {"outcome": "cancelled"}}
    (ended,) = hear(conversation, answer(prompted()["id"], stopReason="cancelled"))
    assert ended == TurnEnded(stop_reason="cancelled", is_error=False)


def test_other_sessions_of_a_client_do_not_disturb() -> None:
    """What the host's client does in another session, on the same connection, changes nothing here."""
    conversation = begun(TALKING)
    conversation.sent(request(1, "session/new"))
    hear(conversation, answer(1, sessionId=SESSION))
    conversation.sent(request(2, "session/new"))
    hear(conversation, answer(2, sessionId="other"))
    assert conversation.sent(request(3, "session/prompt", sessionId="other")) == []
    assert hear(conversation, answer(3, stopReason="end_turn")) == []
    assert conversation.sent(prompted()) == [TurnStarted()]
