"""What Kimi's files become: one thing more, every other byte as it is, or a refusal that says what to correct."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from opask.errors import LaunchError
from opask_kimi.homes import (
    CLI_RECORDS,
    CODE_RECORDS,
    CliSettings,
    CodeSettings,
    Instructions,
    home_of,
)
from opask_kimi.settings import SettingsError, with_entry, with_item, with_value

ASK = "mcp__opask__ask_user_question"
NATIVE = "AskUserQuestion"
DISABLED = ("tools", "disabled")
LIMIT = ("mcp", "client", "tool_call_timeout_ms")
HOOK = {"event": "PreToolUse", "matcher": "^x$", "command": "echo 'no' >&2; exit 2"}
LOOKALIKE = 's = """\n[tools]\ndisabled = []\n"""\n# [tools]\n'

# -- settings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "made"),
    [
        ("", '\n[tools]\ndisabled = ["AskUserQuestion"]\n'),
        ("a = 1", 'a = 1\n\n[tools]\ndisabled = ["AskUserQuestion"]\n'),
        ("[tools]\n[b]\n", '[tools]\ndisabled = ["AskUserQuestion"]\n[b]\n'),
        ("[tools]\ndisabled = ['X']\n", "[tools]\ndisabled = [\"AskUserQuestion\", 'X']\n"),
        (
            "[tools]\ndisabled = [ # why\n'X',\n]\n",
            "[tools]\ndisabled = [\"AskUserQuestion\",  # why\n'X',\n]\n",
        ),
        ("tools = {}\n", 'tools = { disabled = ["AskUserQuestion"] }\n'),
        ("tools = { enabled = [] }\n", 'tools = { disabled = ["AskUserQuestion"],  enabled = [] }\n'),
        ("tools.enabled = []\n[b]\n", 'tools.disabled = ["AskUserQuestion"]\ntools.enabled = []\n[b]\n'),
        ('[ "tools" ] # x\r\nb = 1\r\n', '[ "tools" ] # x\r\ndisabled = ["AskUserQuestion"]\nb = 1\r\n'),
        ("[tools.sub]\nx = 1\n", '[tools.sub]\nx = 1\n\n[tools]\ndisabled = ["AskUserQuestion"]\n'),
        (LOOKALIKE, f'{LOOKALIKE}\n[tools]\ndisabled = ["AskUserQuestion"]\n'),
        (
            "[a]\ntools.disabled = []\n",
            '[a]\ntools.disabled = []\n\n[tools]\ndisabled = ["AskUserQuestion"]\n',
        ),
        ("x = nan\n", 'x = nan\n\n[tools]\ndisabled = ["AskUserQuestion"]\n'),
        ("[tools]\ndisabled = ['AskUserQuestion']", "[tools]\ndisabled = ['AskUserQuestion']"),
    ],
)
def test_an_item_finds_its_place(own: str, made: str) -> None:
    """However the user wrote the table, the list gets its item, and what only looks like the table stays."""
    assert with_item(own, DISABLED, NATIVE) == made


@pytest.mark.parametrize(
    ("own", "made"),
    [
        ("", "\n[mcp.client]\ntool_call_timeout_ms = 7\n"),
        ("[mcp.client]\ntool_call_timeout_ms = 60000 # x\n", "[mcp.client]\ntool_call_timeout_ms = 7 # x\n"),
        ("[mcp]\nclient = { a = 1 }\n", "[mcp]\nclient = { tool_call_timeout_ms = 7,  a = 1 }\n"),
        ("[mcp]\nclient.a = 1\n", "[mcp]\nclient.tool_call_timeout_ms = 7\nclient.a = 1\n"),
        ("[mcp]\nx = 1\n", "[mcp]\nx = 1\n\n[mcp.client]\ntool_call_timeout_ms = 7\n"),
        ("mcp.client.a = 1\n", "mcp.client.tool_call_timeout_ms = 7\nmcp.client.a = 1\n"),
    ],
)
def test_a_value_finds_its_place(own: str, made: str) -> None:
    """A number is put where it is missing, and in place of the user's own where it is not."""
    assert with_value(own, LIMIT, 7) == made


@pytest.mark.parametrize(
    "own",
    [
        "",
        "[[hooks]]\nevent = 'a'\n[b]\nc = 1\n",
        "hooks = []\n",
        "hooks = [{ event = 'a', command = 'b]' }]\n[b]\nc = [1]\n",
        "hooks = [\n { event = 'a', command = \"c]\" }, # ]\n]\n",
    ],
)
def test_an_entry_is_put_behind_the_users_own(own: str) -> None:
    """A table is added to a list of tables, as tables or inline, behind what is there."""
    before, made = tomllib.loads(own), tomllib.loads(with_entry(own, "hooks", HOOK))
    assert made == {**before, "hooks": [*before.get("hooks", []), HOOK]}


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ("=", "no TOML"),
        ("tools = 3", "tools is no table"),
        ("[[tools]]\na = 1", "tools is no table"),
        ("[tools]\ndisabled = 3", "tools.disabled is no list"),
        ("a = " + "[" * 5000, "nested too deep|no TOML"),
    ],
)
def test_what_cannot_be_changed_is_refused(own: str, why: str) -> None:
    """Settings that are none, or that have something else in that place, are refused with a reason."""
    with pytest.raises(SettingsError, match=why):
        with_item(own, DISABLED, NATIVE)


KEYS = st.sampled_from(
    ["tools", "disabled", "enabled", "hooks", "mcp", "client", "a", "tool_call_timeout_ms"]
)
LEAVES = st.one_of(
    st.integers(-9, 9),
    st.booleans(),
    st.text("a[]{}=\"'#\\\n é", max_size=6),
    st.lists(st.sampled_from(["x", NATIVE])),
)


@st.composite
def toml(draw: st.DrawFn) -> str:
    """Give a TOML text: keys, tables, inline tables, comments and strings that look like tables."""
    lines = []
    for _ in range(draw(st.integers(0, 6))):
        kind = draw(st.integers(0, 4))
        path = ".".join(draw(st.lists(KEYS, min_size=1, max_size=3)))
        if kind == 0:
            lines.append(f"[{path}]")
        elif kind == 1:
            lines.append(f"# [{path}]")
        elif kind == 2:
            lines.append(f"{path} = {{ {draw(KEYS)} = {json.dumps(draw(LEAVES))} }}")
        elif kind == 3:
            lines.append(f'{path} = """\n[tools]\n{draw(KEYS)} = []\n"""')
        else:
            lines.append(f"{path} = {json.dumps(draw(LEAVES))}")
    text = draw(st.sampled_from(["\n", "\r\n"])).join(lines) + draw(st.sampled_from(["", "\n"]))
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assume(False)
    return text


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _without(value: Any, path: tuple[str, ...]) -> Any:
    """Give settings without what is at a path, and without the tables that are empty then."""
    first, *rest = path
    if not isinstance(value, dict) or first not in value:
        return value
    inner = _without(value[first], tuple(rest)) if rest else None
    kept = {key: item for key, item in value.items() if key != first}
    return {**kept, first: inner} if rest and inner else kept


@given(toml(), st.sampled_from([DISABLED, LIMIT]))
def test_whatever_the_settings_are_one_thing_changes(text: str, path: tuple[str, ...]) -> None:
    """A change leaves all other settings as they are; where it is refused, something of the user's is in its place."""
    before = tomllib.loads(text)
    try:
        made = with_item(text, path, NATIVE) if path == DISABLED else with_value(text, path, 7)
    except SettingsError:
        on_the_way = [_at(before, path[:depth]) for depth in range(1, len(path))]
        held = _at(before, path)
        is_taken = any(table is not None and not isinstance(table, dict) for table in on_the_way)
        is_other = path == DISABLED and held is not None and not isinstance(held, list)
        is_sealed = any(isinstance(table, dict) for table in on_the_way)  # TOML lets nobody add to some
        assert is_taken or is_other or is_sealed
        return
    after = tomllib.loads(made)
    assert _without(after, path) == _without(before, path)
    assert (NATIVE in _at(after, path)) if path == DISABLED else _at(after, path) == 7


# -- Kimi Code's files ---------------------------------------------------------------------------------------------


def code(tool: str | None = ASK) -> CodeSettings:
    """Give what makes Kimi Code's settings."""
    return CodeSettings("kimi", Path("/home/agent/.kimi-code/config.toml"), tool)


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ("[tools]\ndisabled = ['mcp__*']", "takes the ask tool"),
        ("[tools]\ndisabled = ['mcp__opask__ask_user_question']", "takes the ask tool"),
        ("[tools]\nenabled = ['Bash']", "leaves the ask tool out"),
        ("[tools]\nenabled = ['*']", "leaves the ask tool out"),
        ("=", "no TOML"),
    ],
)
def test_a_policy_that_takes_the_ask_tool_away_is_refused(own: str, why: str) -> None:
    """The user's own policy on tools is not overruled: a launch that it would make mute is refused, by the file's name."""
    with pytest.raises(LaunchError, match=rf"config\.toml: .*{why}") as caught:
        code()(own)
    assert (caught.value.runtime, caught.value.what) == ("kimi", "/home/agent/.kimi-code/config.toml")


@pytest.mark.parametrize(
    "own",
    [
        "[tools]\ndisabled = ['Bash', 'mcp__other__*', '*']",
        "[tools]\nenabled = ['Bash', 'mcp__opask__*']",
        "[tools]\nenabled = []",
        "tools.enabled = [1, 'mcp__*']",
    ],
)
def test_a_policy_that_leaves_the_ask_tool_is_kept(own: str) -> None:
    """A policy under which the ask tool can be called stays, with the native one beside what it disables."""
    made = tomllib.loads(code()(own))["tools"]
    assert NATIVE in made["disabled"]
    assert made.get("enabled") == tomllib.loads(own)["tools"].get("enabled")


def test_without_an_operator_a_policy_may_be_anything() -> None:
    """Where there is no ask tool to take away, only the native one is switched off."""
    assert tomllib.loads(code(None)("[tools]\nenabled = ['Bash']"))["tools"] == {
        "enabled": ["Bash"],
        "disabled": [NATIVE],
    }


@given(st.text())
def test_instructions_stand_behind_the_users_own(own: str) -> None:
    """The user's own text comes first and whole; of one that is empty nothing is kept."""
    made = Instructions("ours")(own)
    assert made == (f"{own}\n\nours\n" if own.strip() else "ours\n")
    assert Instructions("ours")(None) == "ours\n"


def test_the_older_clis_settings_are_refused_by_name() -> None:
    """Settings of the older CLI that cannot be changed are named, and what can be refused instead."""
    made = CliSettings("kimi-cli", Path("/home/agent/.kimi/config.toml"), "no", 7)
    with pytest.raises(LaunchError, match=r"\.kimi/config\.toml: hooks is no list.*native-ask-hook"):
        made("hooks = 1")


# -- what is brought back ------------------------------------------------------------------------------------------


def joined(name: str, before: str | None, written: str) -> str:
    """Join one of the records."""
    (record,) = (each for each in (*CODE_RECORDS, *CLI_RECORDS[1:]) if each.name == name)
    return record.join(before, written)


def work_dirs(*paths: str) -> str:
    """Give the older CLI's record of folders."""
    return json.dumps({"work_dirs": [{"path": path, "kaos": "local"} for path in paths]})


def test_the_users_records_get_what_is_new() -> None:
    """Workspaces, folders and conversations of two sessions that ended one after the other are all there."""
    one = {"version": 1, "workspaces": {"a": {"name": "old"}}, "deleted_workspace_ids": []}
    two = {"version": 1, "workspaces": {"a": {"name": "new"}, "b": {}}, "deleted_workspace_ids": ["c"]}
    assert json.loads(joined("workspaces.json", json.dumps(one), json.dumps(two))) == two
    assert json.loads(joined("workspaces.json", None, json.dumps(two))) == two
    both = json.loads(joined("kimi.json", work_dirs("x", "y"), work_dirs("y", "z")))["work_dirs"]
    assert [entry["path"] for entry in both] == ["x", "y", "z"]
    assert joined("session_index.jsonl", "a\nb\n", "b\nc\n") == "a\nb\nc\n"
    assert (joined("device_id", "mine", "other"), joined("device_id", None, "new")) == ("mine", "new")


def test_a_record_that_cannot_be_read_is_left() -> None:
    """What is no JSON object is not joined with anything."""
    for before, written in (("[]", "{}"), ("{", "{}"), ("{}", "[]")):
        with pytest.raises(ValueError, match=r"JSON|delimiter|property"):
            joined("kimi.json", before, written)


@pytest.mark.parametrize(
    ("env", "cwd", "home"),
    [
        ({"HOME": "/h"}, None, "/h/.k"),
        ({"HOME": "/h", "K": "/k"}, None, "/k"),
        ({"HOME": "/h", "K": ""}, None, "/h/.k"),
        ({"K": "k"}, "/w", "/w/k"),
        ({"K": "k"}, None, None),
        ({}, "/w", None),
    ],
)
def test_the_users_folder_is_where_kimi_would_look(
    env: dict[str, str], cwd: str | None, home: str | None
) -> None:
    """The variable goes before HOME, an empty one counts as none, and a relative one is from where it works."""
    found = home_of(env, "K", ".k", None if cwd is None else Path(cwd))
    assert found == (None if home is None else Path(home))
