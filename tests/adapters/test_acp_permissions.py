"""Permission under ACP: no input lets a native ask tool through, and options are taken by kind alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from acp_samples import (
    ASK,
    ASKED,
    NATIVE,
    OPTIONS,
    SESSION,
    begun,
    hear,
    in_turn,
    of,
    permission,
    request,
    update,
)
from opask.adapters import Message
from opask.events import NativeAskRefused
from opask.permissions import Allow, Defer, Deny, PermissionOption, PermissionRequested, Verdict
from opask_acp import AcpAdapter, Profile
from opask_acp.permissions import option_for, options_of

KINDS = ("allow_once", "allow_always", "reject_once", "reject_always", "", "_custom")
OPTION = st.builds(
    PermissionOption, id=st.sampled_from("abcdef"), kind=st.sampled_from(KINDS), name=st.text(max_size=3)
)
VERDICTS: st.SearchStrategy[Verdict] = st.sampled_from([Allow("x"), Deny("no"), Defer()])
KIMI: list[Message] = [
    {"optionId": "q0_opt_0", "name": "Postgres", "kind": "allow_once"},
    {"optionId": "q0_opt_1", "name": "SQLite", "kind": "allow_once"},
    {"optionId": "q0_skip", "name": "Skip", "kind": "reject_once"},
]
QWEN: list[Message] = [
    {"optionId": "proceed_once", "name": "Submit", "kind": "allow_once"},
    {"optionId": "cancel", "name": "Cancel", "kind": "reject_once"},
]
ONE: list[Message] = [{"optionId": "q0_opt_0", "name": "Yes", "kind": "allow_once"}]
# How agents have their own question asked: the call, the options, and the reports that came before.
DISGUISES: dict[str, tuple[Message, list[Message], list[Message]]] = {
    "answers as options": ({"toolCallId": "c1", "title": "Asking user questions"}, KIMI, []),
    "answers as options, in our name": ({"toolCallId": "c1", "name": ASK, "title": ASK}, KIMI, []),
    "one answer as an option": ({"toolCallId": "c1", "title": "Go on?"}, ONE, []),
    "a title": ({"toolCallId": "c1", "title": "AskUserQuestion"}, list(OPTIONS), []),
    "a name beside our title": (
        {"toolCallId": "c1", "name": "AskUserQuestion", "title": ASK},
        list(OPTIONS),
        [],
    ),
    "a native title beside our name": (
        {"toolCallId": "c1", "name": ASK, "title": "AskUserQuestion"},
        list(OPTIONS),
        [],
    ),
    "announced under its name": (
        {"toolCallId": "c1", "title": "Asking user questions"},
        list(OPTIONS),
        [update("tool_call", toolCallId="c1", title="AskUserQuestion", rawInput=ASKED)],
    ),
    "announced, and then in our name": (
        {"toolCallId": "c1", "name": ASK, "title": ASK},
        list(OPTIONS),
        [update("tool_call", toolCallId="c1", title="question")],
    ),
    "a mark of the runtime's": (
        {"toolCallId": "c1", "title": "Ask", "name": ASK, "_meta": {"qwenInteractionKind": "user_question"}},
        QWEN,
        [],
    ),
    "questions of the runtime's": (
        {"toolCallId": "c1", "title": "Ask", "_meta": {"toolName": ASK, "qwenQuestions": [{}]}},
        QWEN,
        [],
    ),
}


def selected(reply: Message) -> str | None:
    """Give the option that an answer takes, None for none."""
    outcome = reply["result"]["outcome"]
    return outcome.get("optionId") if outcome["outcome"] == "selected" else None


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_native_question_is_denied_in_every_disguise(disguise: str) -> None:
    """However the agent's own question comes, it is denied by opask, and no verdict of a host's answers it."""
    call, options, before = DISGUISES[disguise]
    conversation, _ = in_turn()
    (asked,) = of(PermissionRequested, hear(conversation, *before, permission("p1", call, options)))
    assert asked.ask == "native"
    assert isinstance(conversation.decide(asked), Deny)
    kinds = {option["optionId"]: option["kind"] for option in options}
    for verdict in (Allow("host"), Deny("no"), Defer()):
        taken = selected(conversation.reply(asked, verdict))
        assert taken is None or kinds[taken] == "reject_once"
    # The refusal is told by whoever decides, and not again when the call fails.
    end = update("tool_call_update", toolCallId="c1", status="failed")
    assert not of(NativeAskRefused, hear(conversation, end))


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=3) | st.sampled_from([ASK, *NATIVE]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "title", "toolCallId", "kind"]), inner, max_size=2)
    ),
    max_leaves=4,
)
NAMED = st.sampled_from([ASK, "bash", *NATIVE, f"{ASK}x", "x"])
CALL = st.fixed_dictionaries(
    {},
    optional={
        "toolCallId": st.sampled_from(["c1", "c2"]) | JUNK,
        "name": NAMED | JUNK,
        "title": NAMED | JUNK,
        "kind": st.just("other"),
        "status": st.sampled_from(["pending", "completed", "failed"]),
        "rawInput": st.sampled_from([ASKED, {}, {"server": "opask", "tool": "ask_user_question"}]) | JUNK,
        "_meta": st.fixed_dictionaries({}, optional={"toolName": NAMED, "qwenInteractionKind": NAMED | JUNK})
        | JUNK,
    },
)


@given(
    st.lists(st.tuples(st.sampled_from(["tool_call", "tool_call_update"]), CALL), max_size=4),
    CALL,
    st.lists(OPTION, max_size=4),
    VERDICTS,
    st.booleans(),
)
def test_no_input_makes_it_allow_a_native_tool(
    before: list[tuple[str, Any]], call: Any, options: list[PermissionOption], verdict: Verdict, flat: bool
) -> None:
    """Whatever was reported before, opask allows only what the runtime itself names as the supplied tool.

    And what it calls native takes no option but a rejection, whatever the host says.
    """
    conversation, _ = in_turn()
    hear(conversation, *(update(kind, **report) for kind, report in before))
    offered = [{"optionId": option.id, "kind": option.kind, "name": option.name} for option in options]
    params = {"toolCall": call} if flat else {"subject": {"type": "tool_call", "toolCall": call}}
    asking = request("p1", "session/request_permission", sessionId=SESSION, options=offered, **params)
    (asked,) = of(PermissionRequested, hear(conversation, asking))
    decided = conversation.decide(asked)
    names = [call.get("name"), call.get("title")]
    if any(name in NATIVE for name in names if isinstance(name, str)):
        assert isinstance(decided, Deny)
    if isinstance(decided, Allow):
        assert (asked.tool, asked.ask) == (ASK, "supplied")
    taken = selected(conversation.reply(asked, verdict))
    allowed = taken is not None and all(
        option.kind == "allow_once" for option in options if option.id == taken
    )
    assert not allowed or (isinstance(verdict, Allow) and asked.ask != "native")


@given(st.lists(OPTION, max_size=6), VERDICTS, st.randoms(use_true_random=False))
def test_options_are_taken_by_kind_and_never_by_place(
    options: list[PermissionOption], verdict: Verdict, chance: Any
) -> None:
    """In whatever order the options stand, an answer is of the kind that was decided, or there is none."""
    kinds: dict[str, set[str]] = {}
    for option in options:
        kinds.setdefault(option.id, set()).add(option.kind)
    taken = option_for(verdict, options)
    once = {id_ for id_, of_it in kinds.items() if of_it == {"allow_once"}}
    rejections = {id_ for id_, of_it in kinds.items() if of_it == {"reject_once"}}
    if isinstance(verdict, Allow) and len(once) == 1:
        assert {taken} == once
    else:
        assert taken in rejections if rejections else taken is None
    shuffled = list(options)
    chance.shuffle(shuffled)
    again = option_for(verdict, shuffled)
    assert again == taken or {again, taken} <= rejections


def test_nothing_outlives_a_decision() -> None:
    """What is allowed or rejected for good is never taken, though nothing else be offered."""
    for_good = [PermissionOption("a", "allow_always"), PermissionOption("r", "reject_always")]
    assert [option_for(verdict, for_good) for verdict in (Allow("x"), Deny("no"), Defer())] == [None] * 3


@given(
    st.lists(st.dictionaries(st.sampled_from(["optionId", "kind", "name"]), JUNK) | JUNK, max_size=4) | JUNK
)
def test_options_that_cannot_be_read_are_left_out(options: Any) -> None:
    """Whatever stands in the place of options, each that is read has an id that is text."""
    for option in options_of({"options": options}):
        assert option.id
        assert isinstance(option.kind, str)


def test_the_supplied_tool_is_allowed_once() -> None:
    """The ask tool, by the name in a field of the runtime's, gets exactly the option to allow it once."""
    conversation, _ = in_turn()
    call = {"toolCallId": "c1", "name": ASK, "title": "Asking the operator"}
    (asked,) = of(PermissionRequested, hear(conversation, permission("p1", call, OPTIONS[::-1])))
    assert conversation.decide(asked) == Allow("supplied ask tool")
    assert conversation.reply(asked, Allow("x")) == {
        "jsonrpc": "2.0",
        "id": "p1",
        "result": {"outcome": {"outcome": "selected", "optionId": "yes"}},
    }


@pytest.mark.parametrize("options", [[], list(OPTIONS[1:]), [*OPTIONS, {**OPTIONS[0], "optionId": "too"}]])
def test_the_supplied_tool_is_not_allowed_by_what_does_not_say_so(options: list[Message]) -> None:
    """Where no one option allows once, opask decides nothing, and a host's word is no choice between options."""
    conversation, _ = in_turn()
    (asked,) = of(
        PermissionRequested, hear(conversation, permission("p1", {"toolCallId": "c1", "name": ASK}, options))
    )
    assert conversation.decide(asked) == Defer()
    assert selected(conversation.reply(asked, Allow("host"))) in (None, "no")


def test_a_request_that_carries_only_an_id_is_known_by_its_call() -> None:
    """A request without a name is about the call that was announced under its id."""
    conversation, _ = in_turn()
    hear(conversation, update("tool_call", toolCallId="c1", title="Asking", name=ASK, rawInput=ASKED))
    (asked,) = of(PermissionRequested, hear(conversation, permission(3, {"toolCallId": "c1"})))
    assert (asked.tool, asked.ask, asked.arguments) == (ASK, "supplied", ASKED)
    assert isinstance(conversation.decide(asked), Allow)


def test_a_request_about_a_call_that_was_not_announced_announces_it() -> None:
    """A sub-agent's request may name a call of which nothing was told: it is announced, and its ask is its own."""
    conversation, _ = in_turn()
    events = hear(conversation, permission(3, {"toolCallId": "c1", "name": ASK, "rawInput": ASKED}))
    assert [type(event).__name__ for event in events] == [
        "TurnStarted",
        "ToolAnnounced",
        "PermissionRequested",
    ]


@given(st.sampled_from([0, 7, -1, "7", "", "é"]))
def test_an_answer_has_the_id_of_its_request(request_id: Any) -> None:
    """The answer carries the request's id as it was, number or text."""
    conversation, _ = in_turn()
    (asked,) = of(PermissionRequested, hear(conversation, permission(request_id, {"toolCallId": "c1"})))
    assert asked.request_id == str(request_id)
    assert conversation.reply(asked, Defer())["id"] is asked.raw["id"]


def test_once_interrupted_no_option_is_taken() -> None:
    """After an interrupt every open request is answered as cancelled, as the protocol wants it."""
    conversation, _ = in_turn()
    (asked,) = of(
        PermissionRequested, hear(conversation, permission(3, {"toolCallId": "c1", "name": "bash"}))
    )
    conversation.interrupt()
    for verdict in (Allow("host"), Deny("no"), Defer()):
        assert selected(conversation.reply(asked, verdict)) is None


def test_without_an_operator_the_name_of_the_ask_tool_is_nobodys() -> None:
    """Where nothing was attached a tool of that name is left to the host, and the native one is denied all the same."""
    conversation = begun(endpoint=None)
    (asked,) = of(PermissionRequested, hear(conversation, permission(3, {"toolCallId": "c1", "name": ASK})))
    assert (asked.ask, conversation.decide(asked)) == (None, Defer())
    (asked,) = of(
        PermissionRequested, hear(conversation, permission(4, {"toolCallId": "c2", "name": "question"}))
    )
    denied = conversation.decide(asked)
    assert isinstance(denied, Deny)
    assert "no human operator" in denied.reason


@given(st.text(max_size=12))
def test_a_profile_says_what_the_runtime_writes(title: str) -> None:
    """Where a profile knows that titles are the runtime's own, exactly the tool's name as a title lets it run."""
    assume(title not in NATIVE)
    profile = Profile(written=(("title",),), titles=(), templates=("mcp__{server}__{tool}",), unnamed=False)
    for written in (title, ASK):
        conversation, _ = in_turn(AcpAdapter(profile))
        call = {"toolCallId": "c1", "title": written}
        (asked,) = of(PermissionRequested, hear(conversation, permission(1, call)))
        assert isinstance(conversation.decide(asked), Allow) is (written == ASK)
