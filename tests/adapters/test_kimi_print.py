"""Kimi Code for one prompt: lines that come late, and an ask that is over before its call is told."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kimi_samples import ASK, NATIVE, printed_call, printed_result
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
from opask.intake import Rejected, parse
from opask.launch import Endpoint, LaunchRequest
from opask.outcomes import Answered, Cancelled, Outcome, Skipped
from opask.permissions import Allow, Defer, PermissionRequested
from opask.questions import Answer, Ask
from opask.testing.conformance import ARGUMENTS
from opask_kimi import adapter
from opask_kimi.printing import PrintConversation

ENDPOINT = Endpoint(command=("relay",), folder=Path("/run/s"), wait=timedelta(minutes=1))
ARGV = ("kimi", "-p", "Go.", "--output-format", "stream-json")
VERSION: Message = {"role": "meta", "type": "system.version", "version": "2.1.0"}
END: Message = {"role": "meta", "type": "session.resume_hint", "session_id": "s", "content": "…"}
ANSWERED = Answered((Answer((0,)),), by="test")


def talking(*, there: bool = True) -> PrintConversation:
    """Begin a conversation."""
    request = LaunchRequest(ARGV, {"HOME": "/home/agent"})
    conversation = adapter.conversation(adapter.plan_launch(request, ENDPOINT if there else None))
    assert isinstance(conversation, PrintConversation)
    assert isinstance(conversation, DuplexConversation)
    assert list(conversation.prompt("Go.")) == []
    return conversation


def hear(conversation: PrintConversation, *messages: Message) -> list[Event]:
    """Take in lines."""
    return [event for message in messages for event in conversation.receive(json.dumps(message))]


def of(kind: type[Any], events: list[Event]) -> list[Any]:
    """Give the events of a kind."""
    return [event for event in events if isinstance(event, kind)]


def one(kind: type[Any], events: list[Event]) -> Any:
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


def test_a_question_is_asked_before_its_call_is_told() -> None:
    """The ask comes and goes; then the line with its call says whose it was, and its end comes behind that."""
    conversation = talking()
    assert [type(event) for event in hear(conversation, VERSION)] == [TurnStarted]
    ready = one(SessionReady, conversation.tool_listed())
    assert (ready.questions, ready.version) == (True, "2.1.0")
    asked = one(QuestionAsked, conversation.ask_arrived(ask(1)))
    assert asked.tool_call_id is None
    conversation.ask_settled(ask(1), ANSWERED)
    events = hear(conversation, *printed_call("c", ASK, ARGUMENTS), *printed_result("c", ASK, False), END)
    assert [type(event) for event in events] == [ToolAnnounced, QuestionCorrelated, ToolFinished, TurnEnded]
    correlated = one(QuestionCorrelated, events)
    assert (correlated.question_id, correlated.tool_call_id) == ("ask-1", "c")
    ended = one(TurnEnded, events)
    assert (ended.stop_reason, ended.is_error, ended.dropped) == ("end_turn", False, ())


@pytest.mark.parametrize(
    ("outcome", "is_error"), [(ANSWERED, False), (Skipped("test"), False), (Cancelled("operator"), True)]
)
def test_how_a_call_ended_is_known_by_its_ask(outcome: Outcome, is_error: bool) -> None:
    """The line of a result is no word of an error: what became of the ask tells, a skip among what is none."""
    conversation = talking()
    conversation.ask_arrived(ask(1))
    conversation.ask_settled(ask(1), outcome)
    told = {"role": "tool", "tool_call_id": "c", "content": "some words"}
    assert (
        one(ToolFinished, hear(conversation, *printed_call("c", ASK, ARGUMENTS), told)).is_error is is_error
    )


def test_equal_asks_are_told_apart_by_their_order() -> None:
    """Two asks of the same questions belong to the calls that ask them, first to first."""
    conversation = talking()
    for number in (1, 2):
        conversation.ask_arrived(ask(number))
        conversation.ask_settled(ask(number), ANSWERED)
    events = hear(conversation, *printed_call("c", ASK, ARGUMENTS), *printed_call("d", ASK, ARGUMENTS))
    found = [(event.question_id, event.tool_call_id) for event in of(QuestionCorrelated, events)]
    assert found == [("ask-1", "c"), ("ask-2", "d")]


def test_a_sub_agents_ask_is_no_later_call_of_the_main_agents() -> None:
    """The call of a sub-agent's ask is never printed: the main agent's, which asks the same later, is its own ask's."""
    conversation = talking()
    conversation.ask_arrived(ask(1))
    conversation.ask_settled(ask(1), ANSWERED)
    done = {"role": "tool", "tool_call_id": "d", "content": "The sub-agent is done."}
    hear(conversation, *printed_call("d", "Agent", {"prompt": "Ask."}), done)
    conversation.ask_arrived(ask(2))
    conversation.ask_settled(ask(2), ANSWERED)
    events = hear(conversation, *printed_call("c", ASK, ARGUMENTS))
    found = [(event.question_id, event.tool_call_id) for event in of(QuestionCorrelated, events)]
    assert found == [("ask-2", "c")]


def test_the_native_tool_is_refused_by_kimi() -> None:
    """Whatever Kimi says of it, a native call failed, was told as refused, and claims no ask."""
    conversation = talking()
    conversation.ask_arrived(ask(1))
    result = {"role": "tool", "tool_call_id": "c", "content": "AskUserQuestion is disabled"}
    events = hear(conversation, *printed_call("c", NATIVE, ARGUMENTS), result)
    assert one(ToolAnnounced, events).ask == "native"
    assert one(ToolFinished, events).is_error is True
    refused = one(NativeAskRefused, events)
    assert (refused.tool, refused.channel, refused.tool_call_id) == (NATIVE, "launch", "c")
    assert of(QuestionCorrelated, events) == []


def test_what_is_said_and_what_is_not_of_the_turn() -> None:
    """Texts are told, other tools' calls too; lines of other kinds, and blank ones, are passed over."""
    conversation = talking()
    line = {**printed_call("c", "Bash", {"command": "ls"})[0], "content": "Let me see."}
    events = hear(
        conversation, line, *printed_result("c", "Bash", False), {"role": "meta", "type": "goal.summary"}
    )
    assert one(TextSaid, events).text == "Let me see."
    assert [(event.tool, event.ask) for event in of(ToolAnnounced, events)] == [("Bash", None)]
    assert one(ToolFinished, events).is_error is False
    assert list(conversation.receive("\n")) == []
    assert hear(conversation, {"role": "new"}) == []
    for broken in ("{", "[]", b"\xff"):
        assert isinstance(conversation.receive(broken)[0], MessageUnreadable)


def test_a_turn_without_the_tool_is_told() -> None:
    """Where the list was never taken the turn's end says so; with nobody there it is known from the start."""
    assert one(AskToolMissing, hear(talking(), VERSION, END)).reason == "not_listed"
    alone = talking(there=False)
    first = hear(alone, VERSION)
    assert one(SessionReady, first).reason == "nobody is there to ask"
    assert of(AskToolMissing, hear(alone, END)) == []


def test_a_process_that_ends_early_ends_its_turn() -> None:
    """A run that fails prints no last line: its exit ends the turn, its asks, and says that nobody could be asked."""
    conversation = talking()
    hear(conversation, VERSION)
    conversation.ask_arrived(ask(1))
    ended = one(TurnEnded, conversation.end_turn("exited"))
    assert (ended.stop_reason, ended.is_error, ended.dropped) == ("exited", True, ("ask-1",))
    assert conversation.end_turn("exited") == []
    early = talking().end_turn("exited")
    assert [type(event) for event in early] == [SessionReady, TurnStarted, TurnEnded]
    over = talking()
    hear(over, VERSION, END)
    assert of(TurnEnded, over.end_turn("exited")) == []


def test_nothing_goes_out() -> None:
    """There is one prompt, in the arguments; nothing is sent, and no permission is asked for."""
    conversation = talking()
    with pytest.raises(LaunchError, match="one prompt"):
        conversation.prompt("More.")
    assert [*conversation.outgoing(), *conversation.interrupt(), *conversation.sent({"id": 1})] == []
    request = PermissionRequested(request_id="1", tool=NATIVE)
    assert isinstance(conversation.decide(request), Defer)
    assert conversation.reply(request, Allow("x")) == {}


@given(st.data())
def test_no_ask_is_correlated_twice(data: st.DataObject) -> None:
    """In whatever order asks and lines come, a call has one ask at most, an ask one call, and a drop is of an open ask."""
    conversation = talking()
    claims: list[tuple[str, str]] = []
    asks: set[int] = set()
    settled: set[int] = set()
    for step in range(data.draw(st.integers(0, 14))):
        number = data.draw(st.integers(1, 3))
        match data.draw(st.sampled_from(["ask", "settle", "call", "result"])):
            case "ask" if number not in asks:
                asks.add(number)
                arrived = conversation.ask_arrived(ask(number))
                asked = one(QuestionAsked, list(arrived))
                claims += [(f"ask-{number}", asked.tool_call_id)] if asked.tool_call_id else []
            case "settle" if number in asks:
                settled.add(number)
                conversation.ask_settled(ask(number), ANSWERED)
            case "call":
                events = hear(conversation, *printed_call(f"c{step}", ASK, ARGUMENTS))
                claims += [
                    (event.question_id, event.tool_call_id) for event in of(QuestionCorrelated, events)
                ]
            case "result":
                over = f"c{data.draw(st.integers(0, 14))}"
                # A call that is over was not that of an ask which still waits.
                claims = [
                    (question, call)
                    for question, call in claims
                    if call != over or int(question.removeprefix("ask-")) in settled
                ]
                events = hear(conversation, *printed_result(over, ASK, False))
                claims += [
                    (event.question_id, event.tool_call_id) for event in of(QuestionCorrelated, events)
                ]
    assert len({call for _, call in claims}) == len({question for question, _ in claims}) == len(claims)
    ended = of(TurnEnded, [*hear(conversation, VERSION, END)])
    dropped = {int(each.removeprefix("ask-")) for event in ended for each in event.dropped}
    assert dropped == asks - settled
