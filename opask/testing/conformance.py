"""One suite of tests that every adapter has to pass, ours and anyone's.

An adapter's own tests make an instance of it, with samples of what its runtime sends::

    class TestMine(AdapterConformance):
        adapter = adapter
        cases = (AdapterCase(name="plain", argv=("mine", "do it"), ...),)

It runs under pytest; nothing of pytest is imported before a test skips.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import attrs
from attrs import Factory, frozen

from opask.adapters import Adapter, Conversation, DuplexConversation, Message
from opask.errors import LaunchError, WaitTooLongError
from opask.events import (
    Event,
    QuestionAsked,
    QuestionCorrelated,
    ToolAnnounced,
    ToolFinished,
    TurnEnded,
    event_to_json,
)
from opask.intake import Rejected, parse
from opask.launch import Endpoint, LaunchPlan, LaunchRequest
from opask.outcomes import Skipped
from opask.permissions import Allow, Defer, Deny, PermissionRequested
from opask.questions import Ask

__all__ = ["ARGUMENTS", "AdapterCase", "AdapterConformance"]

ARGUMENTS: Mapping[str, Any] = {
    "questions": [
        {
            "question": "Which database?",
            "header": "Database",
            "options": [
                {"label": "SQLite", "description": "one file"},
                {"label": "PostgreSQL", "description": ""},
            ],
            "multiSelect": False,
        }
    ]
}
"""What the suite's asks ask."""

_BEARER = "c9f1d7-the-bearer-token"
_NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_WAIT = timedelta(seconds=30)
_CWD = Path("/srv/project")
_FOLDER = Path("/run/opask/session")
_ROUNDS = 300


@frozen(kw_only=True)
class AdapterCase:
    """One way to launch a runtime, and samples of what it sends then.

    Args:
        name: names the case in the tests' ids.
        argv: a launch as a host would do it alone.
        env: its environment.
        supplied: the spelling of the supplied tool in the runtime's events.
        aliases: further spellings of it, where the adapter serves runtimes that spell it in ways of their own.
        native: the spellings of the runtime's own ask tools in its events.
        sent: in a protocol in which both sides make requests, what a host's client sends as a turn begins.
        begin_turn: what the runtime sends as a turn begins, the supplied tool among its tools.
        end_turn: what it sends as the turn ends well.
        announce: makes the messages that announce a call, from the call's id, the tool's spelling, its arguments.
        finish: makes the messages that end a call, from the call's id, the tool's spelling, whether it failed.
        meta: makes the ``_meta`` that the MCP call has, from the call's id.
        native_denied: tells whether a plan keeps the native ask tools from the model.
        permission: makes a permission request, from its id, the tool's spelling, the call's id, its arguments;
            None where the runtime makes none in this case.
        denies: tells whether a reply to one denies.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = Factory(dict)
    supplied: str
    aliases: Sequence[str] = ()
    native: Sequence[str]
    sent: Sequence[Message] = ()
    begin_turn: Sequence[Message]
    end_turn: Sequence[Message]
    announce: Callable[[str, str, Mapping[str, Any]], Sequence[Message]]
    finish: Callable[[str, str, bool], Sequence[Message]]
    meta: Callable[[str], Mapping[str, Any]] = lambda call_id: {}
    native_denied: Callable[[LaunchPlan], bool]
    permission: Callable[[str, str, str, Mapping[str, Any]], Message] | None = None
    denies: Callable[[Message], bool] = lambda reply: False


def _endpoint(**changes: Any) -> Endpoint:
    endpoint = Endpoint(
        command=("/opt/python", "-I", "-S", "/opt/relay.py", "/run/opask/a1b2c3.sock"),
        folder=_FOLDER,
        wait=_WAIT,
    )
    return attrs.evolve(endpoint, **changes)


def _request(case: AdapterCase, **changes: Any) -> LaunchRequest:
    return attrs.evolve(LaunchRequest(case.argv, dict(case.env), cwd=_CWD, folder=_FOLDER), **changes)


def _ask(number: int, meta: Mapping[str, Any]) -> Ask:
    questions = parse(ARGUMENTS)
    assert not isinstance(questions, Rejected)
    return Ask(id=f"ask-{number}", session_id="session", questions=questions, asked_at=_NOW, meta=meta)


def _of(kind: type[Any], events: Iterable[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def _everything(plan: LaunchPlan) -> str:
    """Return all that a plan hands to the runtime, as text."""
    parts = [
        *plan.argv,
        *plan.env.values(),
        *(file.content for file in plan.files),
        *(file.make(None) for overlay in plan.overlays for file in overlay.files),
        *map(str, plan.mcp_servers),
    ]
    return "\n".join(parts)


class AdapterConformance:
    """The suite; a subclass names the adapter and its cases."""

    adapter: ClassVar[Adapter]
    cases: ClassVar[Sequence[AdapterCase]]

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Run each test once for each case, or for each in which the runtime asks for permission."""
        asking = [case for case in self.cases if case.permission is not None]
        for name, cases in (("case", self.cases), ("asking", asking)):
            if name in metafunc.fixturenames:
                ids = [case.name for case in cases] or ["none"]
                metafunc.parametrize(name, list(cases) if cases else [None], ids=ids)

    # -- pieces ---------------------------------------------------------------------------------------------------

    def _plan(self, case: AdapterCase, *, there: bool = True) -> LaunchPlan:
        return self.adapter.plan_launch(_request(case), _endpoint() if there else None)

    def _try_plan(self, request: LaunchRequest, endpoint: Endpoint | None) -> LaunchPlan | LaunchError:
        """Return a plan, or the refusal of one, which has to name the runtime and what stands against it."""
        try:
            return self.adapter.plan_launch(request, endpoint)
        except LaunchError as refusal:
            named = refusal.runtime == self.adapter.runtime and bool(refusal.what)
            if not named:
                raise
            return refusal

    def _conversation(self, case: AdapterCase, *, there: bool = True) -> Conversation:
        return self.adapter.conversation(self._plan(case, there=there))

    def _hear(self, conversation: Conversation, messages: Iterable[Message]) -> list[Event]:
        return [event for message in messages for event in _checked(conversation.receive(message))]

    def _begin(
        self, case: AdapterCase, conversation: Conversation, more: Iterable[Message] = ()
    ) -> list[Event]:
        """Let a turn begin, and hear more in it."""
        if isinstance(conversation, DuplexConversation):
            for message in case.sent:
                _checked(conversation.sent(message))
        return self._hear(conversation, [*case.begin_turn, *more])

    def _permission(self, case: AdapterCase, conversation: Conversation, tool: str) -> PermissionRequested:
        assert case.permission is not None
        events = self._hear(conversation, [case.permission("request-1", tool, "call-1", ARGUMENTS)])
        (requested,) = _of(PermissionRequested, events)
        assert isinstance(requested, PermissionRequested)
        return requested

    # -- the contract ---------------------------------------------------------------------------------------------

    def test_it_is_an_adapter(self) -> None:
        """The adapter has the contract's methods and the name of its runtime."""
        assert isinstance(self.adapter, Adapter)
        assert self.adapter.runtime
        assert self.adapter.runtime == self.adapter.runtime.strip().lower()

    def test_the_conversation_keeps_the_contract(self, case: AdapterCase) -> None:
        """What the adapter makes of a plan has the methods of a conversation."""
        assert isinstance(self._conversation(case), Conversation)

    # -- launch ---------------------------------------------------------------------------------------------------

    def test_nobody_there_attaches_nothing(self, case: AdapterCase) -> None:
        """Without an operator nothing is attached, the native ask tool is denied, and the plan says why."""
        plan = self._plan(case, there=False)
        assert not plan.questions
        assert plan.reason
        assert plan.endpoint is None
        assert not plan.files
        assert not plan.mcp_servers
        assert case.supplied not in _everything(plan)
        assert case.native_denied(plan)

    def test_an_operator_there_attaches_the_tool(self, case: AdapterCase) -> None:
        """With an operator the relay is in the plan, the native ask tool is denied, and the clause names ours."""
        plan = self._plan(case)
        assert plan.questions, plan.reason
        assert plan.endpoint == _endpoint()
        assert "/run/opask/a1b2c3.sock" in _everything(plan)
        assert case.native_denied(plan)
        if plan.clause is not None:
            assert case.supplied in plan.clause

    def test_the_hosts_clause_takes_the_place_of_ours(self, case: AdapterCase) -> None:
        """A clause of the host's own is what the plan says, with an operator and without."""
        request = _request(case, clause="the host's own words")
        for endpoint in (_endpoint(), None):
            plan = self.adapter.plan_launch(request, endpoint)
            assert plan.clause in (None, "the host's own words")

    def test_planning_leaves_the_request_as_it_was(self, case: AdapterCase) -> None:
        """The host's argv and environment are copied, never changed, and planning twice gives the same."""
        request = _request(case)
        argv, env = tuple(request.argv), dict(request.env)
        plan = self.adapter.plan_launch(request, _endpoint())
        assert (request.argv, dict(request.env)) == (argv, env)
        assert plan.env is not request.env
        assert plan.argv[0] == argv[0]
        assert self.adapter.plan_launch(request, _endpoint()) == plan

    def test_no_secret_is_in_argv_or_environment(self, case: AdapterCase) -> None:
        """A bearer token gets into neither argv nor environment, where other processes can read it."""
        for changes in ({}, {"command": ()}):
            endpoint = _endpoint(url="http://127.0.0.1:9/mcp", token=_BEARER, **changes)
            plan = self._try_plan(_request(case), endpoint)
            if isinstance(plan, LaunchPlan):  # a runtime may take no URL
                assert _BEARER not in "\n".join([*plan.argv, *plan.env.values()])

    def test_changes_are_named_and_explained(self, case: AdapterCase) -> None:
        """Every lever of a plan has a name of its own, a scope and a reason."""
        changes = self._plan(case).changes
        assert len({change.name for change in changes}) == len(changes)
        for change in changes:
            assert change.name
            assert change.scope in ("server", "process", "user")
            assert len(change.why.split()) > 3

    def test_every_change_can_be_refused(self, case: AdapterCase) -> None:
        """A refused lever is not pulled: the plan does without it, or the launch is refused with a reason."""
        names = [change.name for there in (True, False) for change in self._plan(case, there=there).changes]
        for refused in [*({name} for name in names), set(names)]:
            for endpoint in (_endpoint(), None):
                plan = self._try_plan(_request(case, refuse=refused), endpoint)
                if isinstance(plan, LaunchPlan):
                    assert not refused & {change.name for change in plan.changes}

    def test_a_wait_beyond_the_ceiling_is_refused(self, case: AdapterCase) -> None:
        """A wait that the route cannot hold is refused at launch, and one within it is planned for."""
        plan = self._plan(case)
        assert plan.wait == _WAIT
        if plan.ceiling is None:
            return
        assert plan.ceiling > _WAIT
        beyond = _endpoint(wait=plan.ceiling + timedelta(seconds=1))
        assert isinstance(self._try_plan(_request(case), beyond), WaitTooLongError)

    # -- conversation ---------------------------------------------------------------------------------------------

    def test_a_message_and_its_line_mean_the_same(self, case: AdapterCase) -> None:
        """A message, its JSON text and its bytes give the same events."""
        told = [*case.begin_turn, *case.announce("call-1", case.supplied, ARGUMENTS), *case.end_turn]
        forms: list[Callable[[Message], Any]] = [
            dict,
            json.dumps,
            lambda message: json.dumps(message).encode(),
        ]
        heard = []
        for form in forms:
            conversation = self._conversation(case)
            events: list[Event] = []
            if isinstance(conversation, DuplexConversation):
                events = [event for message in case.sent for event in conversation.sent(form(message))]
            events += [event for message in told for event in conversation.receive(form(message))]
            heard.append(events)
        assert heard[0] == heard[1] == heard[2]
        assert heard[0]

    def test_tools_are_told_apart(self, case: AdapterCase) -> None:
        """Announced calls are marked as supplied or native by exact spelling, and any other as neither."""
        names = {
            **dict.fromkeys((case.supplied, *case.aliases), "supplied"),
            **dict.fromkeys(case.native, "native"),
        }
        for tool in (*names, *_near(case.supplied), *(near for name in case.native for near in _near(name))):
            conversation = self._conversation(case)
            events = self._begin(case, conversation, case.announce("call-1", tool, ARGUMENTS))
            for announced in _of(ToolAnnounced, events):
                assert announced.ask == names.get(tool), tool

    def test_a_call_is_announced_and_finished(self, case: AdapterCase) -> None:
        """A call's end is told once, with its id and whether it failed."""
        for failed in (False, True):
            conversation = self._conversation(case)
            self._begin(case, conversation, case.announce("call-1", case.supplied, ARGUMENTS))
            over = [*case.finish("call-1", case.supplied, failed)]
            (finished,) = _of(ToolFinished, self._hear(conversation, over))
            assert finished.tool_call_id == "call-1"
            assert finished.is_error is failed

    def test_an_ask_is_correlated_with_its_call(self, case: AdapterCase) -> None:
        """An ask that arrives after its call was announced carries the call's id; a second ask does not."""
        conversation = self._conversation(case)
        self._begin(case, conversation, case.announce("call-1", case.supplied, ARGUMENTS))
        first = _checked(conversation.ask_arrived(_ask(1, case.meta("call-1"))))
        assert isinstance(first[0], QuestionAsked)
        assert (first[0].question_id, first[0].tool_call_id) == ("ask-1", "call-1")
        second = _checked(conversation.ask_arrived(_ask(2, {})))
        assert isinstance(second[0], QuestionAsked)
        assert second[0].tool_call_id is None

    def test_an_ask_before_its_call_is_correlated_later(self, case: AdapterCase) -> None:
        """An ask that arrives first is asked at once, and an event tells its call when that is announced."""
        conversation = self._conversation(case)
        self._begin(case, conversation)
        (asked, *_) = _checked(conversation.ask_arrived(_ask(1, case.meta("call-1"))))
        assert isinstance(asked, QuestionAsked)
        events = self._hear(conversation, case.announce("call-1", case.supplied, ARGUMENTS))
        (correlated,) = _of(QuestionCorrelated, events)
        assert (correlated.question_id, correlated.tool_call_id) == ("ask-1", "call-1")

    def test_a_failed_call_claims_nothing(self, case: AdapterCase) -> None:
        """A call that failed before anything was asked takes no ask; the next one of the same questions does."""
        conversation = self._conversation(case)
        self._begin(case, conversation, case.announce("call-1", case.supplied, ARGUMENTS))
        self._hear(conversation, case.finish("call-1", case.supplied, True))
        self._hear(conversation, case.announce("call-2", case.supplied, ARGUMENTS))
        (asked, *_) = conversation.ask_arrived(_ask(1, case.meta("call-2")))
        assert asked.tool_call_id == "call-2"

    def test_the_turns_end_drops_what_it_left_open(self, case: AdapterCase) -> None:
        """An ask that is open at its turn's end ends with it, once; the next turn's call does not get it."""
        conversation = self._conversation(case)
        self._begin(case, conversation, case.announce("call-1", case.supplied, ARGUMENTS))
        conversation.ask_arrived(_ask(1, case.meta("call-1")))
        (ended,) = _of(TurnEnded, self._hear(conversation, case.end_turn))
        assert ended.dropped == ("ask-1",)
        self._begin(case, conversation)
        later = self._hear(conversation, case.announce("call-2", case.supplied, ARGUMENTS))
        assert not _of(QuestionCorrelated, later)
        assert not [
            event.dropped for event in _of(TurnEnded, conversation.end_turn("exited")) if event.dropped
        ]

    def test_a_settled_ask_is_not_dropped(self, case: AdapterCase) -> None:
        """An ask that settled in its turn is not settled again by the turn's end."""
        conversation = self._conversation(case)
        self._begin(case, conversation, case.announce("call-1", case.supplied, ARGUMENTS))
        ask = _ask(1, case.meta("call-1"))
        conversation.ask_arrived(ask)
        _checked(conversation.ask_settled(ask, Skipped("test")))
        (ended,) = _of(TurnEnded, self._hear(conversation, case.end_turn))
        assert ended.dropped == ()

    def test_an_exit_ends_everything(self, case: AdapterCase) -> None:
        """When the runtime is gone the turn is over and every open ask with it, also one of an unknown call."""
        conversation = self._conversation(case)
        self._begin(case, conversation, case.announce("call-1", case.supplied, ARGUMENTS))
        conversation.ask_arrived(_ask(1, case.meta("call-1")))
        conversation.ask_arrived(_ask(2, case.meta("call-2")))
        (ended,) = _of(TurnEnded, _checked(conversation.end_turn("exited")))
        assert set(ended.dropped) == {"ask-1", "ask-2"}
        assert not _of(TurnEnded, _checked(conversation.end_turn("exited")))

    def test_prompts_and_interrupts_are_messages(self, case: AdapterCase) -> None:
        """What the host is given to send is a sequence of JSON objects, or the refusal of a prompt."""
        conversation = self._conversation(case)
        prompted: Sequence[Message] = ()
        with suppress(LaunchError):
            prompted = conversation.prompt("go on")
        due: Sequence[Message] = ()
        if isinstance(conversation, DuplexConversation):
            due = conversation.outgoing()
            assert not conversation.outgoing(), "each message is due once"
        for message in (*prompted, *conversation.interrupt(), *due):
            assert json.loads(json.dumps(message)) == message

    # -- permissions ----------------------------------------------------------------------------------------------

    def test_the_native_ask_tool_is_denied(self, asking: AdapterCase | None) -> None:
        """The native ask tool is denied with an operator, naming the supplied tool, and without."""
        asking = _asking(asking)
        for tool in asking.native:
            for there in (True, False):
                conversation = self._conversation(asking, there=there)
                requested = self._permission(asking, conversation, tool)
                assert requested.ask == "native"
                verdict = conversation.decide(requested)
                assert isinstance(verdict, Deny)
                assert (asking.supplied in verdict.reason) is there
                assert asking.denies(conversation.reply(requested, verdict))

    def test_nothing_gets_the_native_ask_tool_allowed(self, asking: AdapterCase | None) -> None:
        """A host's own verdict does not let the native ask tool through, nor does a request that hides its mark."""
        asking = _asking(asking)
        for tool in asking.native:
            conversation = self._conversation(asking)
            requested = self._permission(asking, conversation, tool)
            for mark in ("native", "supplied", None):
                marked = attrs.evolve(requested, ask=mark)
                assert not isinstance(conversation.decide(marked), Allow)
                assert asking.denies(conversation.reply(marked, Allow("the host's rule")))

    def test_the_supplied_tool_is_allowed(self, asking: AdapterCase | None) -> None:
        """With an operator the supplied tool is allowed; without one the tool of that name is nobody's we know."""
        asking = _asking(asking)
        conversation = self._conversation(asking)
        requested = self._permission(asking, conversation, asking.supplied)
        assert requested.ask == "supplied"
        verdict = conversation.decide(requested)
        assert isinstance(verdict, Allow)
        assert not asking.denies(conversation.reply(requested, verdict))
        alone = self._conversation(asking, there=False)
        assert not isinstance(alone.decide(self._permission(asking, alone, asking.supplied)), Allow)

    def test_a_near_miss_is_not_allowed(self, asking: AdapterCase | None) -> None:
        """A name that only looks like the supplied tool's is left to the host."""
        asking = _asking(asking)
        for tool in set(_near(asking.supplied)) - set(asking.aliases):
            conversation = self._conversation(asking)
            assert not isinstance(conversation.decide(self._permission(asking, conversation, tool)), Allow), (
                tool
            )

    def test_what_nobody_decides_is_denied(self, asking: AdapterCase | None) -> None:
        """A deferred request is written as a denial, in the form of one."""
        asking = _asking(asking)
        conversation = self._conversation(asking)
        requested = self._permission(asking, conversation, "some_other_tool")
        assert isinstance(conversation.decide(requested), Defer)
        deferred = conversation.reply(requested, Defer())
        denied = conversation.reply(requested, Deny("no", rule="test"))
        assert asking.denies(deferred)
        assert asking.denies(denied)
        assert _shape(deferred) == _shape(denied)
        assert not asking.denies(conversation.reply(requested, Allow("test")))

    # -- whatever comes -------------------------------------------------------------------------------------------

    def _samples(self, case: AdapterCase) -> list[Message]:
        samples = [*case.begin_turn]
        for number, tool in enumerate((case.supplied, *case.native, "some_other_tool")):
            samples += case.announce(f"call-{number}", tool, ARGUMENTS)
            if case.permission is not None:
                samples.append(case.permission(f"request-{number}", tool, f"call-{number}", ARGUMENTS))
            samples += case.finish(f"call-{number}", tool, number % 2 == 1)
        return [*samples, *case.end_turn]

    def test_no_message_makes_it_raise(self, case: AdapterCase) -> None:
        """Messages with parts missing, exchanged or of the wrong type are read or passed over, never an exception."""
        chance = random.Random(case.name)  # noqa: S311 - the same spoils every time
        samples = [json.loads(json.dumps(sample)) for sample in self._samples(case)]
        conversation = self._conversation(case)
        for _ in range(_ROUNDS):
            message = _spoiled(chance, chance.choice(samples))
            events = _checked(
                conversation.receive(message if isinstance(message, dict) else json.dumps(message))
            )
            for requested in _of(PermissionRequested, events):
                verdict = conversation.decide(requested)
                if isinstance(verdict, Allow):
                    assert requested.tool == case.supplied
                json.dumps(conversation.reply(requested, verdict))
            if isinstance(conversation, DuplexConversation):
                json.dumps([*conversation.outgoing()])

    def test_nothing_that_was_sent_makes_it_raise(self, case: AdapterCase) -> None:
        """Of a conversation in both directions: what a host's client sends is read or passed over, whatever it is."""
        chance = random.Random(case.name)  # noqa: S311 - the same spoils every time
        conversation = self._conversation(case)
        if not isinstance(conversation, DuplexConversation):
            return
        samples = [json.loads(json.dumps(sample)) for sample in (*case.sent, *self._samples(case))]
        for _ in range(_ROUNDS):
            _checked(conversation.sent(json.dumps(_spoiled(chance, chance.choice(samples)))))
            _checked(conversation.tool_listed())
        for junk in (b"", b"\xff", b"[]", b"[[]]", b"[" * 100_000):
            _checked(conversation.sent(junk))

    def test_no_line_makes_it_raise(self, case: AdapterCase) -> None:
        """A line cut anywhere, with something behind it, or of no text at all is read or reported, never an exception."""
        conversation = self._conversation(case)
        for sample in self._samples(case):
            line = json.dumps(sample).encode()
            for at in range(len(line)):
                _checked(conversation.receive(line[:at]))
                _checked(conversation.receive(line[at:]))
        for junk in (
            b"",
            b"\n",
            b"\xff\xfe",
            b"null",
            b"[]",
            b"0",
            b'"a"',
            b"{}",
            b"[" * 100_000,
            b"\x00",
            b"NaN",
        ):
            _checked(conversation.receive(junk))
            _checked(conversation.receive(junk.decode("latin-1")))
        for sample in self._samples(case):
            _checked(conversation.receive(json.dumps(sample).encode() + b" trailing"))


def _asking(case: AdapterCase | None) -> AdapterCase:
    if case is None:
        import pytest  # only here, so that the suite can be imported without it

        pytest.skip("the runtime asks for permission in none of the cases")
    return case


def _checked(events: Sequence[Event]) -> Sequence[Event]:
    """Check that events are such, and can be stamped and printed."""
    for event in events:
        assert isinstance(event, Event), event
        for name in ("question_id", "tool_call_id", "agent_id", "turn_id"):
            assert isinstance(getattr(event, name), str | None), (name, event)
        stamped = attrs.evolve(event, seq=1, time=_NOW, session_id="session", turn_id="turn")
        json.dumps(event_to_json(stamped), allow_nan=False)
    return events


def _near(name: str) -> Iterator[str]:
    """Give names that are not quite a name."""
    yield from (
        f"{name}x",
        f"x{name}",
        f" {name}",
        f"{name} ",
        f"{name}\n",
        name[:-1],
        name[1:],
        "",
        name + name,
    )
    yield from {name.upper(), name.title(), name.swapcase()} - {name}
    for index, character in enumerate(name):
        if character in "_-./: ":
            yield name[:index] + name[index + 1 :]
            yield f"{name[:index]}{character}{name[index:]}"
    yield (
        name.replace("a", "\N{CYRILLIC SMALL LETTER A}", 1) if "a" in name else f"{name}\N{ZERO WIDTH SPACE}"
    )
    yield f"{name}\N{ZERO WIDTH SPACE}"


_JUNK: Sequence[Any] = (
    *(None, True, 0, -1, 1.5, 2**70, float("nan"), "", "x", "\ud800", "\x00", [], [[]], {}, {"": None}),
    *([{"type": "text"}], [None], {"type": []}, [0, "x", {}], "{}", "[", {"questions": [{"question": None}]}),
)


def _spoiled(chance: random.Random, value: Any) -> Any:
    """Return a value with something in it taken out or replaced by junk."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(sorted(value))
        spoiled = dict(value)
        if chance.random() < 0.2:
            del spoiled[key]
        else:
            spoiled[key] = _spoiled(chance, value[key])
        return spoiled
    if isinstance(value, list) and value and chance.random() < 0.8:
        index = chance.randrange(len(value))
        return [*value[:index], _spoiled(chance, value[index]), *value[index + 1 :]]
    return chance.choice(_JUNK)


def _shape(value: Any) -> Any:
    """Return the keys of a message, without what they hold."""
    return (
        {key: _shape(item) for key, item in value.items()}
        if isinstance(value, Mapping)
        else type(value).__name__
    )
