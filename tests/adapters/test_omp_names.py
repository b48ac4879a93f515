"""omp's names: what it calls a tool, which server's it can be, and what in its reports is a name at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from acp_samples import ASKED, ENDPOINT, ask, begun, hear, in_turn, of, permission, planned, update
from omp_samples import ASK, DEVICE, NATIVE, OPTIONS, PHRASE
from opask.errors import LaunchError
from opask.events import QuestionAsked, QuestionCorrelated, ToolAnnounced, ToolFinished
from opask.launch import Change
from opask.names import ToolName
from opask.permissions import Allow, Deny, PermissionRequested
from opask_acp import HostClient
from opask_acp.naming import ask_tools, unmistakable
from opask_acp.toolcalls import ToolCall
from opask_omp import adapter
from opask_omp.naming import LONGEST, can_spell, mangled, spelling
from opask_omp.profile import OmpProfile

PIECES = st.sampled_from(
    [
        *("opask", "OPASK", "mcp", "ask", "user", "question", "user_question", "ask_user_question", "server"),
        *("_", "__", "-", ".", "/", " ", "é", "\N{KELVIN SIGN}", "İ", "0", "x"),
    ]
)
NEAR = st.lists(PIECES, max_size=6).map("".join)
NAMES = st.one_of(NEAR, st.text(max_size=12), st.text(alphabet="aB_-9", min_size=40, max_size=80))
PROFILE = OmpProfile()


@pytest.mark.parametrize(
    ("server", "tool", "spelled"),
    [
        ("opask", "ask_user_question", ASK),
        ("OpAsk", "ask_user_question", ASK),
        ("op-ask", "ask_user_question", "mcp__op_ask_ask_user_question"),
        ("op.ask", "ask_user_question", "mcp__op_ask_ask_user_question"),
        ("opask_7f3a", "ask_user_question", "mcp__opask_7f3a_ask_user_question"),
        ("ask_user", "ask_user_question", "mcp__ask_user_question"),
        ("-opask-", "opask_opask_x", "mcp__opask_opask_x"),
        ("é", "é", "mcp__server_tool"),
        ("opask", "opask_", "mcp__opask_opask"),
    ],
)
def test_names_are_made_as_omp_makes_them(server: str, tool: str, spelled: str) -> None:
    """Lower-cased, joined by one underscore, without the server's name in front of the tool's."""
    assert spelling(ToolName(server, tool)) == spelled


@given(NAMES, NAMES)
def test_a_name_is_of_letters_digits_and_single_underscores(server: str, tool: str) -> None:
    """Behind its beginning a name has no run of underscores, and a mangled part stays what it is."""
    spelled = spelling(ToolName(server, tool))
    rest = spelled.removeprefix("mcp__")
    assert spelled.isascii()
    assert spelled == spelled.lower()
    assert "__" not in rest
    assert mangled(mangled(server)) == mangled(server)


@given(NAMES, NAMES)
def test_a_server_can_spell_its_own_tools(server: str, tool: str) -> None:
    """Whatever a tool is called, its server is known to be able to give it its name, were it cut, too."""
    spelled = spelling(ToolName(server, tool))
    assert can_spell(server, spelled)
    if len(spelled) > LONGEST:
        for digest in ("abcdefgh", "z"):
            assert can_spell(server, f"{spelled[: LONGEST - len(digest) - 1]}_{digest}")


@given(st.lists(NAMES, max_size=3), NAMES)
def test_no_foreign_tool_is_taken_for_ours(servers: list[str], tool: str) -> None:
    """Among servers known at launch no tool of another's is spelled as ours, or there is no launch."""
    endpoint = unmistakable(PROFILE, ENDPOINT, servers)
    if endpoint is None:
        return
    tools = ask_tools(PROFILE, endpoint, servers)
    assert tools.supplied
    for server in servers:
        assert tools.kind(spelling(ToolName(server, tool))) != "supplied"


@given(NAMES, NAMES)
def test_no_tool_of_a_server_is_taken_for_the_native_one(server: str, tool: str) -> None:
    """No MCP tool has the native ask tool's name, and the native one's never means ours."""
    tools = ask_tools(PROFILE, ENDPOINT, ())
    assert tools.kind(spelling(ToolName(server, tool))) != "native"
    assert tools.kind(NATIVE) == "native"


@pytest.mark.parametrize("server", ["OPASK", "-opask", "opask_ask", "opask.ask-user", "opask"])
def test_a_server_that_could_take_our_name_makes_us_take_another(server: str) -> None:
    """Of two tools of one name omp keeps one without a word; so the ask server gets a name of the session's own."""
    mine = HostClient(mcp_servers=[{"name": server, "command": "/x", "args": [], "env": []}])
    plan = planned(adapter.with_client(mine))
    assert plan.endpoint is not None
    assert plan.endpoint.server.startswith("opask")
    assert plan.endpoint.server != "opask"
    assert "session-server-name" in [change.name for change in plan.changes]
    spelled = spelling(ToolName(plan.endpoint.server, plan.endpoint.tool))
    assert plan.clause is None or spelled in plan.clause
    assert not can_spell(server, spelled)
    with pytest.raises(LaunchError):
        planned(adapter.with_client(mine), refuse={"session-server-name"})


def test_a_name_that_would_be_cut_is_refused() -> None:
    """The end of a cut name is not known here, so that a server of such a name is no ask server."""
    with pytest.raises(LaunchError) as caught:
        planned(adapter, evolve(ENDPOINT, server="s" * 60))
    assert (caught.value.runtime, caught.value.what) == ("omp", "server")


# -- what is a name ----------------------------------------------------------------------------------------------


def named(**call: Any) -> list[tuple[str, str | None]]:
    """Give what a call is announced as, and finished as."""
    conversation = begun(adapter)
    start = update("tool_call", toolCallId="c1", status="pending", **call)
    events = hear(conversation, start, update("tool_call_update", toolCallId="c1", status="completed"))
    return [(event.tool, event.ask) for event in of(ToolAnnounced, events)]


@pytest.mark.parametrize("content", ["", "?", " ? "])
def test_help_is_no_call_of_the_tool(content: str) -> None:
    """Writing nothing or a question mark to the device asks how it is used; so does reading it."""
    for raw in ({"path": DEVICE, "content": content}, {"path": DEVICE}):
        assert named(title=PHRASE, rawInput=raw)[0] == (DEVICE, None)


def test_the_address_counts_and_not_the_phrase() -> None:
    """Where a device is written to, the title is the model's, be it the name of another tool."""
    for title in (PHRASE, NATIVE, "mcp__other_tool", DEVICE, ""):
        raw = {"path": DEVICE, "content": json.dumps(ASKED)}
        assert named(title=title, rawInput=raw)[0] == (ASK, "supplied")
        other = {"path": "xd://mcp__other_tool", "content": json.dumps(ASKED)}
        assert named(title=title or ASK, rawInput=other)[0] == ("mcp__other_tool", None)


@pytest.mark.parametrize("nested", [True, False])
def test_the_result_says_whose_the_call_was(nested: bool) -> None:
    """A call under the model's phrase is named by its result if it was ours; if not, the question it had is free again."""
    for server, tool, told in (("opask", "ask_user_question", ASK), ("other", "ask", PHRASE)):
        inner = {"serverName": server, "mcpToolName": tool}
        details = {"xdev": {"tool": "x", "inner": inner}} if nested else inner
        conversation, _ = in_turn(adapter)
        hear(conversation, update("tool_call", toolCallId="c1", title=PHRASE, rawInput=ASKED))
        (asked,) = of(QuestionAsked, conversation.ask_arrived(ask()))
        assert asked.tool_call_id == "c1"
        over = update("tool_call_update", toolCallId="c1", status="completed", rawOutput={"details": details})
        assert [event.tool for event in of(ToolFinished, hear(conversation, over))] == [told]
        again = hear(conversation, update("tool_call", toolCallId="c2", title=PHRASE, rawInput=ASKED))
        assert [event.tool_call_id for event in of(QuestionCorrelated, again)] == ["c2"]


@given(st.sampled_from([ASK, DEVICE, PHRASE]), st.booleans(), st.booleans())
def test_a_permission_request_never_lets_anything_run(title: str, device: bool, told: bool) -> None:
    """The title of a request is a command of the model's: were it the ask tool's name, nothing is allowed for that."""
    conversation = begun(adapter)
    raw: dict[str, Any] = {"path": DEVICE, "content": json.dumps(ASKED)} if device else {"command": title}
    call: dict[str, Any] = {"toolCallId": "c1", "title": title, "kind": "execute", "rawInput": raw}
    if told:
        call["rawOutput"] = {"details": {"serverName": "opask", "mcpToolName": "ask_user_question"}}
    (asked,) = of(PermissionRequested, hear(conversation, permission(1, call, OPTIONS)))
    verdict = conversation.decide(asked)
    assert not isinstance(verdict, Allow)
    assert conversation.reply(asked, verdict)["result"]["outcome"]["optionId"] == "reject_once"


def test_the_native_tool_is_denied_whatever_it_asks() -> None:
    """A permission request for the native ask tool, which omp is not known to make, is denied."""
    conversation = begun(adapter)
    call = {"toolCallId": "c1", "title": NATIVE, "kind": "other", "rawInput": ASKED}
    (asked,) = of(PermissionRequested, hear(conversation, permission(1, call, OPTIONS)))
    assert isinstance(conversation.decide(asked), Deny)


def test_near_misses_of_the_native_name_are_other_tools() -> None:
    """Only the exact name is the native tool's; a phrase with it is not."""
    for title in ("Ask", "ask ", "asks", "ask the operator", "xd://ask", "mcp__ask"):
        conversation = begun(adapter)
        events = hear(conversation, update("tool_call", toolCallId="c1", title=title, rawInput=ASKED))
        assert [event.ask for event in of(ToolAnnounced, events)] == [None]


# -- arguments ----------------------------------------------------------------------------------------------------


TEXT = json.dumps(ASKED)


@given(st.integers(0, len(TEXT) - 1), st.sampled_from(["", "x", "{}", "\x00", "\ud800"]))
def test_arguments_beside_an_address_are_whole_or_not_there(cut: int, behind: str) -> None:
    """A JSON string that is cut, or has anything behind it, gives no arguments and raises nothing."""
    whole = ToolCall("c", raw_input={"path": DEVICE, "content": TEXT})
    assert list(PROFILE.arguments(whole)) == [ASKED]
    for content in (TEXT[:cut], TEXT + behind if behind else TEXT[:cut]):
        assert list(PROFILE.arguments(ToolCall("c", raw_input={"path": DEVICE, "content": content}))) == []


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["path", "content", "details", "xdev", "inner", "args", "serverName", "mcpToolName"]
            )
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JUNK, JUNK, st.text(max_size=8))
def test_nothing_that_is_reported_raises(raw_input: Any, raw_output: Any, title: str) -> None:
    """Whatever stands in the fields of a report, names and arguments are read without an error."""
    call = ToolCall("c", title=title, raw_input=raw_input, raw_output=raw_output)
    assert all(isinstance(each.spelling, str) and not each.written for each in PROFILE.names(call))
    assert all(isinstance(each, dict) for each in PROFILE.arguments(call))


def test_the_changes_are_the_profiles() -> None:
    """The adapter lists every lever that a launch can pull, each under its own name."""
    assert all(isinstance(change, Change) and change.name == name for name, change in adapter.changes.items())
    assert set(adapter.changes) >= {
        *("ask-server", "session-server-name", "clause", "native-ask-denied", "direct-tools"),
        *("plain-titles", "ask-allowed", "call-timeout", "startup-timeout"),
    }
    assert adapter.spellings(ToolName("opask", "ask_user_question"))["model"] == ASK
