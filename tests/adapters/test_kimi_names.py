"""How Kimi spells tools, forward and backward: exact for this session's server, whatever anybody is called."""

from __future__ import annotations

import string
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_samples import update
from kimi_samples import ASK, NATIVE, OPTIONS, asks_bare_permission, asks_permission, bare_title
from opask.launch import Endpoint, LaunchRequest
from opask.names import ToolName
from opask.permissions import Allow, PermissionRequested
from opask_acp import HostClient
from opask_acp.profile import Profile
from opask_kimi import KimiAdapter, adapter, legacy_adapter
from opask_kimi.naming import can_spell, spelling

NAMES = st.text(st.characters(codec="utf-8"), max_size=80) | st.text("a_-.é😀 0", max_size=80)
WORDS = st.text(string.ascii_letters + string.digits + "_-. /é", min_size=1, max_size=70)


@pytest.mark.parametrize(
    ("server", "tool", "spelled"),
    [
        ("opask", "ask_user_question", ASK),
        ("my files", "read.file", "mcp__my_files__read_file"),
        ("a__b", "c___d", "mcp__a_b__c_d"),
        ("é😀", "x", "mcp_____x"),
        ("", "", "mcp____"),
        ("s" * 40, "t" * 40, f"mcp__{'s' * 40}__ttttttt_-24e120a9"),
        ("plugin-docs", "search" * 9, "mcp__plugin-docs__searchsearchsearchsearchsearchsearch_-12ab3418"),
        ("d" * 60, "x", f"mcp__{'d' * 50}_4fa69a75"),
        ("z" * 60 + "25", "x", f"mcp__{'z' * 50}_09ba3e46"),
    ],
)
def test_names_are_spelled_as_kimi_spells_them(server: str, tool: str, spelled: str) -> None:
    """Odd characters and runs of `_` become one `_`, and what is over 64 characters gives way to a hash."""
    assert spelling(ToolName(server, tool)) == spelled


@given(NAMES, NAMES)
def test_a_spelling_is_one_that_a_model_service_takes(server: str, tool: str) -> None:
    """It has 64 characters at most, of those that services take."""
    spelled = spelling(ToolName(server, tool))
    assert len(spelled) <= 64
    assert set(spelled) <= set(string.ascii_letters + string.digits + "_-")


@given(NAMES, NAMES)
@example("s" * 60, "ask_user_question")
def test_a_server_can_spell_what_its_tools_are_called(server: str, tool: str) -> None:
    """Whatever a server calls its tool, it is known that the spelling may be that server's."""
    assert can_spell(server, spelling(ToolName(server, tool)))


def _decided(used: Any, title: str, **more: Any) -> tuple[Any, str | None]:
    """Ask permission for a call under a title; give the verdict and which ask tool it was taken for."""
    endpoint = Endpoint(command=("relay",), folder=Path("/run/s"), wait=timedelta(minutes=1))
    request = LaunchRequest(more.pop("argv", ("kimi", "acp")), {"HOME": "/home/agent"}, cwd="/srv")
    conversation = used.conversation(used.plan_launch(request, endpoint))
    call = {"toolCallId": "0:c", "title": title}
    (asked,) = (
        event
        for event in conversation.receive(
            {
                "jsonrpc": "2.0",
                "id": 0,
                "method": "session/request_permission",
                "params": {"sessionId": "s", "toolCall": call, "options": list(OPTIONS)},
            }
        )
        if isinstance(event, PermissionRequested)
    )
    return conversation.decide(asked), asked.ask


@given(WORDS, WORDS)
@example("opask", "ask_user_question")
@example("op ask", "ask_user_question")
@example("opask_", "ask_user_question")
@example("opask", "_ask_user_question")
def test_no_foreign_tool_is_allowed(server: str, tool: str) -> None:
    """Among servers that are known at launch, only this session's tool is allowed, whatever the others are called."""
    host = HostClient(mcp_servers=({"name": server, "command": "x", "args": [], "env": []},))
    used = KimiAdapter(client=host)
    verdict, _ = _decided(used, spelling(ToolName(server, tool)))
    assert not isinstance(verdict, Allow)


@given(st.text(max_size=90))
@example(ASK)
@example(f"{ASK}\N{ZERO WIDTH SPACE}")
@example(ASK.replace("a", "\N{CYRILLIC SMALL LETTER A}"))
@example(ASK.replace("__", "_"))
@example("Asking user questions")
@example(NATIVE)
def test_only_the_exact_name_is_allowed(title: str) -> None:
    """Of all titles only the ask tool's own spelling lets a call through, and the native one's is known as such."""
    verdict, ask = _decided(adapter, title)
    assert isinstance(verdict, Allow) is (title == ASK)
    assert (ask == "native") is (title in (NATIVE, "Asking user questions"))


@given(st.text(max_size=90))
@example("ask_user_question: {...")
@example("ask_user_question")
@example("ask_user_question :")
@example(f"{NATIVE}: ask_user_question: x")
@example(" ask_user_question")
def test_the_older_clis_titles_are_read_up_to_the_colon(title: str) -> None:
    """What stands before the first colon is the name, compared exactly; what follows is never looked at."""
    verdict, ask = _decided(legacy_adapter, title, argv=("kimi-cli", "acp"))
    name = title.partition(":")[0]
    assert isinstance(verdict, Allow) is (name == "ask_user_question")
    assert (ask == "native") is (name == NATIVE)


def test_a_title_that_a_model_wrote_lets_nothing_through() -> None:
    """A call whose title is the ask tool's name in the model's own words is not allowed when its request has another."""
    endpoint = Endpoint(command=("relay",), folder=Path("/run/s"), wait=timedelta(minutes=1))
    plan = adapter.plan_launch(LaunchRequest(("kimi", "acp"), {"HOME": "/h"}, cwd="/srv"), endpoint)
    conversation = adapter.conversation(plan)
    conversation.receive(update("tool_call", toolCallId="0:c", title=ASK, status="in_progress"))
    (asked,) = (
        event
        for event in conversation.receive(asks_permission(1, "Bash", "0:c", {"command": "rm"}))
        if isinstance(event, PermissionRequested)
    )
    assert not isinstance(conversation.decide(asked), Allow)


def test_the_profiles_spell_as_their_adapters_do() -> None:
    """The registry's linter gets the one spelling of each product."""
    name = ToolName("opask", "ask_user_question")
    assert set(adapter.spellings(name).values()) == {ASK}
    assert set(legacy_adapter.spellings(name).values()) == {"ask_user_question"}
    profile: Profile = adapter.profile
    assert profile.can_spell("opask", ASK)
    assert not profile.can_spell("opas", ASK)
    assert bare_title("x", {"a": 1}).startswith("x: ")
    assert asks_bare_permission(1, "x", "c", {})["params"]["toolCall"]["title"] == "x"
