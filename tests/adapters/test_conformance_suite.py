"""The conformance suite itself: it passes what keeps the contract (the claude adapter) and fails what does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from attrs import evolve

from claude_samples import ASK, CASES, case
from opask.adapters import Message
from opask.errors import LaunchError
from opask.events import Event, NativeAskRefused, QuestionAsked, ToolAnnounced, ToolFinished, TurnEnded
from opask.launch import Endpoint, LaunchPlan, LaunchRequest
from opask.permissions import Allow, Defer, Deny, PermissionRequested, Verdict
from opask.questions import Ask
from opask.testing.conformance import AdapterConformance
from opask_claude import ClaudeAdapter
from opask_claude.conversation import ClaudeConversation
from opask_claude.launch import CHANGES

(CONTROL,) = [each for each in CASES if each.name == "control"]

Plans = Callable[[LaunchRequest, Endpoint | None, LaunchPlan], LaunchPlan]


class Planning(ClaudeAdapter):
    """The claude adapter with a change to its plans."""

    def __init__(self, change: Plans) -> None:
        self._change = change

    def plan_launch(self, request: LaunchRequest, endpoint: Endpoint | None, /) -> LaunchPlan:
        return self._change(request, endpoint, super().plan_launch(request, endpoint))


class Conversing(ClaudeAdapter):
    """The claude adapter with another conversation."""

    def __init__(self, conversation: type[ClaudeConversation]) -> None:
        self._conversation = conversation

    def conversation(self, plan: LaunchPlan, /) -> ClaudeConversation:
        return self._conversation(plan)


class Nameless(ClaudeAdapter):
    runtime = ""


class Halved(ClaudeAdapter):
    def conversation(self, plan: LaunchPlan, /) -> ClaudeConversation:
        return object()  # type: ignore[return-value] # the point of it


class Textual(ClaudeConversation):
    def receive(self, message: Message | str | bytes, /) -> list[Event]:
        return [] if isinstance(message, bytes) else super().receive(message)


class Resembling(ClaudeConversation):
    def receive(self, message: Message | str | bytes, /) -> list[Event]:
        events = super().receive(message)
        return [
            evolve(event, ask="supplied")
            if isinstance(event, ToolAnnounced) and event.tool.startswith(ASK)
            else event
            for event in events
        ]


class Odd(ClaudeConversation):
    def prompt(self, text: str, /) -> Sequence[Message]:
        return [{"prompt": (text,)}]


class Raising(ClaudeConversation):
    def receive(self, message: Message | str | bytes, /) -> list[Event]:
        if isinstance(message, Mapping) and isinstance(message.get("message"), str):
            raise KeyError("content")
        return super().receive(message)


class Strict(ClaudeConversation):
    def receive(self, message: Message | str | bytes, /) -> list[Event]:
        if isinstance(message, bytes):
            message.decode()
        return super().receive(message)


class Careless(ClaudeConversation):
    def decide(self, request: PermissionRequested, /) -> Verdict:
        return (
            Allow("suffix") if request.tool.lower().endswith("ask_user_question") else super().decide(request)
        )


class Generous(ClaudeConversation):
    def decide(self, request: PermissionRequested, /) -> Verdict:
        return super().decide(request) if request.ask == "native" else Allow("everything")


class Open(ClaudeConversation):
    def decide(self, request: PermissionRequested, /) -> Verdict:
        return Allow("native") if request.ask is None else super().decide(request)


class Mute(ClaudeConversation):
    def decide(self, request: PermissionRequested, /) -> Verdict:
        verdict = super().decide(request)
        return Deny("no") if isinstance(verdict, Deny) else verdict


class Deferring(ClaudeConversation):
    def decide(self, request: PermissionRequested, /) -> Verdict:
        return Defer()


class Obeying(ClaudeConversation):
    def reply(self, request: PermissionRequested, verdict: Verdict, /) -> Message:
        return super().reply(evolve(request, tool="x", ask=None), verdict)


class Passing(ClaudeConversation):
    def reply(self, request: PermissionRequested, verdict: Verdict, /) -> Message:
        return super().reply(request, Allow("nobody said no") if isinstance(verdict, Defer) else verdict)


class Shaping(ClaudeConversation):
    def reply(self, request: PermissionRequested, verdict: Verdict, /) -> Message:
        reply = super().reply(request, verdict)
        return {**reply, "deferred": True} if isinstance(verdict, Defer) else reply


class Uncorrelated(ClaudeConversation):
    def ask_arrived(self, ask: Ask, /) -> list[Event]:
        return [evolve(event, tool_call_id=None) for event in super().ask_arrived(ask)]


class Disordered(ClaudeConversation):
    def ask_arrived(self, ask: Ask, /) -> list[Event]:
        return [NativeAskRefused(tool="x", channel="launch"), *super().ask_arrived(ask)]


class Forgetful(ClaudeConversation):
    def receive(self, message: Message | str | bytes, /) -> list[Event]:
        events = super().receive(message)
        return [evolve(event, dropped=()) if isinstance(event, TurnEnded) else event for event in events]


class Twice(ClaudeConversation):
    def receive(self, message: Message | str | bytes, /) -> list[Event]:
        return [
            event for event in super().receive(message) for _ in range(1 + isinstance(event, ToolFinished))
        ]


class Unsettling(ClaudeConversation):
    def ask_settled(self, ask: Ask, outcome: Any, /) -> list[Event]:
        return []


class Lingering(ClaudeConversation):
    def end_turn(self, reason: Any, /) -> list[Event]:
        return [] if reason == "exited" else super().end_turn(reason)


class Deaf(ClaudeConversation):
    def outgoing(self) -> Sequence[Message]:
        return []

    def sent(self, message: Message | str | bytes, /) -> list[Event]:
        raise KeyError("method")

    def tool_listed(self) -> list[Event]:
        return []


class Unprintable(ClaudeConversation):
    def receive(self, message: Message | str | bytes, /) -> list[Event]:
        events = super().receive(message)
        for event in events:
            object.__setattr__(event, "agent_id", object())
        return events


class Guessing(ClaudeConversation):
    def ask_arrived(self, ask: Ask, /) -> list[Event]:
        asked, *more = super().ask_arrived(ask)
        assert isinstance(asked, QuestionAsked)
        return [evolve(asked, tool_call_id=asked.tool_call_id or "call-1"), *more]


def leaking(request: LaunchRequest, endpoint: Endpoint | None, made: LaunchPlan) -> LaunchPlan:
    """Put the token into the environment."""
    token = "" if endpoint is None else endpoint.token or ""
    return evolve(made, env={**made.env, "TOKEN": token})


def mutating(request: LaunchRequest, endpoint: Endpoint | None, made: LaunchPlan) -> LaunchPlan:
    """Change the host's own environment."""
    assert isinstance(request.env, dict)
    request.env["X"] = "1"
    return made


def always(request: LaunchRequest, endpoint: Endpoint | None, made: LaunchPlan) -> LaunchPlan:
    """List a change whatever was refused."""
    kept = [change for change in made.changes if change.name != "clause"]
    return evolve(made, changes=[*kept, CHANGES["clause"]])


def unexplained(request: LaunchRequest, endpoint: Endpoint | None, made: LaunchPlan) -> LaunchPlan:
    """Explain nothing."""
    return evolve(made, changes=[evolve(change, why="because") for change in made.changes])


def attaching(request: LaunchRequest, endpoint: Endpoint | None, made: LaunchPlan) -> LaunchPlan:
    """Allow the tool though nobody is there."""
    return evolve(made, argv=(*made.argv, f"--allowedTools={ASK}"))


def undenied(request: LaunchRequest, endpoint: Endpoint | None, made: LaunchPlan) -> LaunchPlan:
    """Leave the native tool in."""
    return evolve(made, argv=[each for each in made.argv if "disallowed" not in each])


def unreasoned(request: LaunchRequest, endpoint: Endpoint | None, made: LaunchPlan) -> LaunchPlan:
    """Give no reason."""
    return evolve(made, reason=None)


def detached(request: LaunchRequest, endpoint: Endpoint | None, made: LaunchPlan) -> LaunchPlan:
    """Leave the server out."""
    return evolve(made, files=())


def wordless(request: LaunchRequest, endpoint: Endpoint | None, made: LaunchPlan) -> LaunchPlan:
    """Name no tool."""
    return evolve(made, clause="Ask whoever is there.")


def patient(request: LaunchRequest, endpoint: Endpoint | None, made: LaunchPlan) -> LaunchPlan:
    """State a ceiling that is not held to."""
    return evolve(made, ceiling=made.wait and 2 * made.wait)


BROKEN: dict[str, tuple[ClaudeAdapter, str]] = {
    "no name": (Nameless(), "it_is_an_adapter"),
    "has half a conversation": (Halved(), "the_conversation_keeps_the_contract"),
    "reads only text": (Conversing(Textual), "a_message_and_its_line_mean_the_same"),
    "knows tools by resemblance": (Conversing(Resembling), "tools_are_told_apart"),
    "sends what is no JSON": (Conversing(Odd), "prompts_and_interrupts_are_messages"),
    "attaches to nobody": (Planning(attaching), "nobody_there_attaches_nothing"),
    "leaves the native tool": (Planning(undenied), "nobody_there_attaches_nothing"),
    "gives no reason": (Planning(unreasoned), "nobody_there_attaches_nothing"),
    "attaches nothing": (Planning(detached), "an_operator_there_attaches_the_tool"),
    "leaves the native tool beside ours": (Planning(undenied), "an_operator_there_attaches_the_tool"),
    "does not name the tool": (Planning(wordless), "an_operator_there_attaches_the_tool"),
    "has a clause of its own": (Planning(wordless), "the_hosts_clause_takes_the_place_of_ours"),
    "changes the request": (Planning(mutating), "planning_leaves_the_request_as_it_was"),
    "leaks a secret": (Planning(leaking), "no_secret_is_in_argv_or_environment"),
    "explains nothing": (Planning(unexplained), "changes_are_named_and_explained"),
    "pulls what was refused": (Planning(always), "every_change_can_be_refused"),
    "plans a wait that is too long": (Planning(patient), "a_wait_beyond_the_ceiling_is_refused"),
    "tells what cannot be printed": (Conversing(Unprintable), "a_call_is_announced_and_finished"),
    "tells an end twice": (Conversing(Twice), "a_call_is_announced_and_finished"),
    "correlates nothing": (Conversing(Uncorrelated), "an_ask_is_correlated_with_its_call"),
    "guesses": (Conversing(Guessing), "an_ask_is_correlated_with_its_call"),
    "asks late": (Conversing(Disordered), "an_ask_before_its_call_is_correlated_later"),
    "lets a failed call claim": (Conversing(Uncorrelated), "a_failed_call_claims_nothing"),
    "drops nothing": (Conversing(Forgetful), "the_turns_end_drops_what_it_left_open"),
    "drops what is settled": (Conversing(Unsettling), "a_settled_ask_is_not_dropped"),
    "outlives its process": (Conversing(Lingering), "an_exit_ends_everything"),
    "denies without a way to go": (Conversing(Mute), "the_native_ask_tool_is_denied"),
    "allows what is not marked": (Conversing(Open), "nothing_gets_the_native_ask_tool_allowed"),
    "obeys the host": (Conversing(Obeying), "nothing_gets_the_native_ask_tool_allowed"),
    "allows nothing": (Conversing(Deferring), "the_supplied_tool_is_allowed"),
    "allows by suffix": (Conversing(Careless), "a_near_miss_is_not_allowed"),
    "allows everything": (Conversing(Generous), "what_nobody_decides_is_denied"),
    "lets pass what nobody decided": (Conversing(Passing), "what_nobody_decides_is_denied"),
    "has two forms of denial": (Conversing(Shaping), "what_nobody_decides_is_denied"),
    "raises on a wrong type": (Conversing(Raising), "no_message_makes_it_raise"),
    "raises on what was sent": (Conversing(Deaf), "nothing_that_was_sent_makes_it_raise"),
    "raises on what is no text": (Conversing(Strict), "no_line_makes_it_raise"),
}


def suite(adapter: ClaudeAdapter) -> AdapterConformance:
    """Make an instance of the suite for an adapter."""
    instance = AdapterConformance()
    vars(instance).update(adapter=adapter, cases=(CONTROL,))
    return instance


def run(instance: AdapterConformance, name: str) -> None:
    """Run one of the suite's tests."""
    test = getattr(instance, f"test_{name}")
    test() if name == "it_is_an_adapter" else test(CONTROL)


@pytest.mark.parametrize(("adapter", "name"), BROKEN.values(), ids=BROKEN)
def test_what_breaks_the_contract_fails(adapter: ClaudeAdapter, name: str) -> None:
    """Each way to break the contract fails the test that is about it, which the whole adapter passes."""
    run(suite(ClaudeAdapter()), name)
    with pytest.raises((AssertionError, KeyError, UnicodeDecodeError, TypeError, ValueError)):
        run(suite(adapter), name)


def test_each_test_of_the_suite_can_fail() -> None:
    """Every test of the suite is failed by one of the broken adapters."""
    tests = {name.removeprefix("test_") for name in dir(AdapterConformance) if name.startswith("test_")}
    assert tests == {name for _, name in BROKEN.values()}


def test_a_refusal_has_to_name_what_stands_against_it() -> None:
    """A refusal without the runtime's name and the argument at fault is passed on as the failure that it is."""

    def refusing(request: LaunchRequest, endpoint: Endpoint | None, made: LaunchPlan) -> LaunchPlan:
        if request.refuse:
            raise LaunchError("no", runtime="other", what="")
        return made

    with pytest.raises(LaunchError, match="no"):
        run(suite(Planning(refusing)), "every_change_can_be_refused")


def test_a_runtime_that_asks_for_nothing_skips_what_is_about_permissions() -> None:
    """Where no case makes permission requests the tests about them are skipped, not passed."""

    class Metafunc:
        fixturenames: Sequence[str] = ("asking",)

        def parametrize(self, name: str, values: list[Any], ids: list[str]) -> None:
            self.given = (name, values, ids)

    instance = AdapterConformance()
    vars(instance).update(adapter=ClaudeAdapter(), cases=(case("text", "claude", "-p", "hi"),))
    metafunc = Metafunc()
    instance.pytest_generate_tests(metafunc)
    assert metafunc.given == ("asking", [None], ["none"])
    with pytest.raises(pytest.skip.Exception):
        instance.test_the_supplied_tool_is_allowed(None)
