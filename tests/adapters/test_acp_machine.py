"""Any order of things in an ACP session: what an ask is claimed by, when it is dropped, what turns are told."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from acp_samples import ASK, ASKED, SESSION, answer, ask, hear, opened, permission, update
from opask.errors import LaunchError
from opask.events import (
    Event,
    QuestionAsked,
    QuestionCorrelated,
    ToolAnnounced,
    ToolFinished,
    TurnEnded,
    TurnStarted,
)
from opask.outcomes import Skipped
from opask.permissions import Allow, PermissionRequested
from opask_acp import AcpAdapter, Profile

OTHER = {"questions": ["Who?"]}
IDS = st.sampled_from([f"c{number}" for number in range(12)])
ARGUMENTS = st.sampled_from([ASKED, OTHER])
TOLD = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from([ASK, "bash", "AskUserQuestion"]),
        "title": st.sampled_from(["Asking", ASK, "AskUserQuestion", "question"]),
        "rawInput": ARGUMENTS,
        "status": st.sampled_from(["pending", "in_progress", "completed", "failed"]),
    },
)


class Session(RuleBasedStateMachine):
    """A host and an agent that do whatever they like, and a watcher of what is made of it."""

    def __init__(self) -> None:
        super().__init__()
        self.conversation = opened(AcpAdapter(Profile()))
        self.conversation.tool_listed()
        self.prompt_id: Any = None
        self.asks = 0
        self.open: dict[str, str | None] = {}  # open asks: id -> the call that has it
        self.calls: dict[str, str] = {}  # calls of this turn that run: id -> what was last told of them
        self.native: set[str] = set()
        self.over: set[str] = set()  # asks that are over
        self.late: set[str] = set()  # settled, and may get a call all the same
        self.taken: set[str] = set()  # the calls that those got
        self.in_turn = self.exited = False

    def see(self, events: list[Event]) -> None:
        """Hold each event against what went before."""
        for event in events:
            match event:
                case TurnStarted():
                    assert not self.in_turn
                    self.in_turn = True
                case ToolAnnounced(tool_call_id=str(call_id)):
                    assert call_id not in self.calls
                    self.calls[call_id] = event.tool
                case ToolFinished(tool_call_id=str(call_id), dropped=dropped):
                    del self.calls[call_id]
                    self.late.clear()
                    self.drop(dropped)
                case QuestionAsked(question_id=str(ask_id), tool_call_id=call_id):
                    self.open[ask_id] = None
                    if call_id is not None:
                        self.claim(ask_id, call_id)
                case QuestionCorrelated(question_id=str(ask_id), tool_call_id=str(call_id)):
                    self.claim(ask_id, call_id)
                case TurnEnded(dropped=dropped):
                    assert self.in_turn or dropped
                    self.drop(dropped)
                    self.in_turn = False
                    self.calls.clear()
                    self.late.clear()

    def drop(self, dropped: tuple[str, ...]) -> None:
        """Hold what ended with something: open asks, each once."""
        assert set(dropped) <= set(self.open)
        assert len(set(dropped)) == len(dropped)
        for ask_id in dropped:
            del self.open[ask_id]
            self.over.add(ask_id)

    def claim(self, ask_id: str, call_id: str) -> None:
        """Hold a claim: on a running call that no other ask has, and that is not native.

        The ask is open, or was settled without a call since when no call has ended.
        """
        assert call_id in self.calls
        assert call_id not in self.native
        assert call_id not in [other for key, other in self.open.items() if key != ask_id]
        assert call_id not in self.taken
        if ask_id in self.late:
            self.late.remove(ask_id)
            self.taken.add(call_id)
        else:
            assert ask_id not in self.over
            self.open[ask_id] = call_id

    @precondition(lambda self: not self.exited)
    @rule(text=st.sampled_from(["Go.", "/status"]))
    def prompt(self, text: str) -> None:
        """Prompt; while a turn runs that is refused, or kept where it was interrupted."""
        try:
            messages = self.conversation.prompt(text)
        except LaunchError:
            assert self.prompt_id is not None
            return
        if messages:
            assert self.prompt_id is None
            self.prompt_id = messages[0]["id"]

    @rule(call_id=IDS, told=TOLD, kind=st.sampled_from(["tool_call", "tool_call_update"]))
    def report(self, call_id: str, told: dict[str, Any], kind: str) -> None:
        """Report a call."""
        if {"AskUserQuestion", "question"} & {told.get("name"), told.get("title")}:
            self.native.add(call_id)
        self.see(hear(self.conversation, update(kind, toolCallId=call_id, **told)))

    @rule(call_id=IDS, told=TOLD)
    def ask_permission(self, call_id: str, told: dict[str, Any]) -> None:
        """Ask for permission; never is a native tool allowed, nor one by a title."""
        if {"AskUserQuestion", "question"} & {told.get("name"), told.get("title")}:
            self.native.add(call_id)
        events = hear(self.conversation, permission("p", {"toolCallId": call_id, **told}))
        self.see(events)
        (asked,) = [event for event in events if isinstance(event, PermissionRequested)]
        if isinstance(self.conversation.decide(asked), Allow):
            assert asked.tool == ASK
            assert call_id not in self.native

    @rule(arguments=ARGUMENTS)
    def arrive(self, arguments: Any) -> None:
        """Have an ask reach the bridge."""
        self.asks += 1
        self.see(self.conversation.ask_arrived(ask(self.asks, arguments)))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        """Settle an open ask."""
        ask_id = data.draw(st.sampled_from(sorted(self.open)))
        if self.open.pop(ask_id) is None:
            self.late.add(ask_id)
        self.over.add(ask_id)
        self.see(self.conversation.ask_settled(ask(int(ask_id.removeprefix("ask-"))), Skipped("test")))

    @precondition(lambda self: self.prompt_id is not None)
    @rule(reason=st.sampled_from(["end_turn", "cancelled"]))
    def end(self, reason: str) -> None:
        """End the turn, and send what was kept."""
        prompt_id, self.prompt_id = self.prompt_id, None
        self.see(hear(self.conversation, answer(prompt_id, stopReason=reason)))
        if messages := self.conversation.outgoing():
            (message,) = messages
            self.prompt_id = message["id"]

    @rule()
    def interrupt(self) -> None:
        """Interrupt."""
        cancels = [message["method"] for message in self.conversation.interrupt()]
        assert cancels == (["session/cancel"] if self.prompt_id is not None else [])

    @rule()
    def pass_over(self) -> None:
        """Say something that is of another session, or of none."""
        self.see(hear(self.conversation, update("tool_call", session="other", toolCallId="c1", name=ASK)))
        self.see(hear(self.conversation, answer(12345, stopReason="end_turn", sessionId=SESSION)))

    @precondition(lambda self: not self.exited)
    @rule()
    def exit(self) -> None:
        """End the process; every open ask ends with it."""
        self.exited, self.prompt_id = True, None
        self.see(self.conversation.end_turn("exited"))
        assert self.open == {}
        self.calls.clear()

    @invariant()
    def nothing_is_due_that_was_not_wanted(self) -> None:
        """Between what the host does, nothing waits to be sent."""
        assert list(self.conversation.outgoing()) == []


TestSession = Session.TestCase
TestSession.settings = settings(stateful_step_count=40)
