"""Names under ACP: ours are ours, and no other server's, whatever they are called."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from acp_samples import ASKED, ENDPOINT, begun, hear, of, permission, planned, update
from opask.adapters import Message
from opask.errors import LaunchError
from opask.events import ToolAnnounced
from opask.names import ToolName
from opask.permissions import Allow, PermissionRequested
from opask_acp import AcpAdapter, HostClient, Profile
from opask_acp.naming import ask_tools, session_server, unmistakable

# Pieces that names near to ours are made of.
PIECES = st.sampled_from(
    [
        "opask",
        "mcp",
        "ask",
        "user",
        "question",
        "ask_user_question",
        "_",
        "__",
        "-",
        "/",
        ".",
        " ",
        "é",
        "0",
        "x",
    ]
)
NEAR = st.lists(PIECES, max_size=6).map("".join)
NAMES = st.one_of(NEAR, st.text(max_size=12))
PROFILES = st.one_of(
    st.just(Profile()),
    st.sampled_from(Profile().templates).map(lambda template: Profile(templates=(template,))),
)


@given(PROFILES, NAMES, NAMES)
def test_a_spelling_means_one_tool(profile: Profile, server: str, tool: str) -> None:
    """Forward and backward: what spells our tool is ours, and among near misses nothing else does.

    Another server's tool that is spelled as ours can only come from a server that the profile says could.
    """
    tools = ask_tools(profile, ENDPOINT, ())
    ours = profile.spellings(ToolName(ENDPOINT.server, ENDPOINT.tool))
    assert {tools.kind(spelling) for spelling in ours} == {"supplied"}
    for spelling in profile.spellings(ToolName(server, tool)):
        if tools.kind(spelling) == "supplied":
            assert profile.mangled(tool) == "" or profile.can_spell(server, spelling)


@given(PROFILES, st.lists(NAMES, max_size=3), NAMES)
def test_no_foreign_tool_is_taken_for_ours(profile: Profile, servers: list[str], tool: str) -> None:
    """Among servers known at launch, no tool of another's has a spelling that means ours, or there is no launch."""
    endpoint = unmistakable(profile, ENDPOINT, servers)
    if endpoint is None:
        return
    tools = ask_tools(profile, endpoint, servers)
    assert tools.supplied
    assert endpoint.server not in servers
    for server in servers:
        for spelling in profile.spellings(ToolName(server, tool or "x")):
            assert tools.kind(spelling) != "supplied"


@given(PROFILES)
def test_no_native_name_is_taken_for_ours(profile: Profile) -> None:
    """A native ask tool's name is never the supplied tool's, though a profile spells both alike."""
    (bare,) = Profile(templates=("{tool}",)).spellings(ToolName(ENDPOINT.server, ENDPOINT.tool))
    native = evolve(profile, templates=(*profile.templates, "{tool}"), native=frozenset({bare, "ask"}))
    tools = ask_tools(native, ENDPOINT, ())
    assert {tools.kind(name) for name in native.native} == {"native"}
    assert bare not in tools.supplied


@given(st.text(max_size=30), st.text(max_size=8))
def test_a_session_server_has_no_separator(folder: str, name: str) -> None:
    """The name that is made for a session has only letters and digits behind the usual one, and is the same each time."""
    endpoint = evolve(ENDPOINT, command=(folder,), server=name)
    made = session_server(endpoint)
    assert made == session_server(endpoint)
    assert made.removeprefix(name).isalnum()


@given(st.lists(NAMES, min_size=1, max_size=3), NAMES, st.sampled_from(["name", "title", "meta"]))
def test_no_foreign_call_is_allowed(servers: list[str], tool: str, where: str) -> None:
    """A permission request of another server's tool is never allowed by opask, wherever its name stands."""
    profile = Profile()
    mine: list[Any] = [{"name": server, "command": "/x", "args": [], "env": []} for server in servers]
    adapter = AcpAdapter(profile, HostClient(mcp_servers=mine))
    try:
        planned(adapter)
    except LaunchError:
        return
    conversation = begun(adapter)
    for number, server in enumerate(servers):
        for spelling in profile.spellings(ToolName(server, tool or "x")):
            named = {"_meta": {"toolName": spelling}} if where == "meta" else {where: spelling}
            call: dict[str, Any] = {"toolCallId": f"{number}-{spelling}", "title": "x", **named}
            hear(conversation, update("tool_call", **call, rawInput=ASKED))
            (asked,) = of(PermissionRequested, hear(conversation, permission(1, call)))
            assert not isinstance(conversation.decide(asked), Allow)


@given(st.text(max_size=20), st.sampled_from(["title", "kind", "status"]))
def test_a_title_alone_allows_nothing(extra: str, where: str) -> None:
    """A title that a model may have written lets nothing run, though it is the very name of the ask tool."""
    conversation = begun()
    spelling = Profile().spellings(ToolName(ENDPOINT.server, ENDPOINT.tool))[0]
    call: dict[str, Any] = {
        "toolCallId": "c1",
        "title": spelling,
        "rawInput": ASKED,
        where: spelling,
        "x": extra,
    }
    events = hear(conversation, update("tool_call", **call), permission(1, call))
    assert [event.ask for event in of(ToolAnnounced, events)] == ["supplied"]
    (asked,) = of(PermissionRequested, events)
    assert not isinstance(conversation.decide(asked), Allow)


def test_a_written_name_that_says_otherwise_counts() -> None:
    """Where the runtime's own field names another tool, a title in our name is the model's."""
    conversation = begun()
    spelling = Profile().spellings(ToolName(ENDPOINT.server, ENDPOINT.tool))[0]
    call = {"toolCallId": "c1", "title": spelling, "name": "bash", "_meta": {"toolName": spelling}}
    events = hear(conversation, permission(1, call))
    assert [event.ask for event in of(ToolAnnounced, events)] == [None]
    (asked,) = of(PermissionRequested, events)
    assert (asked.tool, asked.ask) == ("bash", None)
    assert not isinstance(conversation.decide(asked), Allow)


def test_a_call_that_tells_server_and_tool_is_known() -> None:
    """Arguments beside a server and a tool name the tool; for permission only where the runtime says that it wrote them."""
    approval = {"toolCallId": "c1", "_meta": {"is_mcp_tool_approval": True}}
    raw = {"server": "opask", "tool": "ask_user_question", "arguments": ASKED}
    for meta, allowed in (({"is_mcp_tool_call": True}, True), ({}, False)):
        conversation = begun()
        call: Message = {
            "toolCallId": "c1",
            "title": "mcp.opask.ask_user_question",
            "rawInput": raw,
            "_meta": meta,
        }
        events = hear(conversation, update("tool_call", **call), permission(1, approval))
        assert [event.ask for event in of(ToolAnnounced, events)] == ["supplied"]
        (asked,) = of(PermissionRequested, events)
        assert isinstance(conversation.decide(asked), Allow) is allowed
