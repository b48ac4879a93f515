"""omp's launch: what is added to the host's own, what may be refused of that, and what cannot be had."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from acp_samples import ENDPOINT
from omp_samples import ASK, DEVICE, made, settings
from opask.errors import LaunchError, WaitTooLongError
from opask.launch import Endpoint, LaunchPlan, LaunchRequest
from opask_acp import HostClient
from opask_omp import adapter
from opask_omp.commands import CommandLine

FOLDER = ENDPOINT.folder / "omp"
OURS = (f"--config={FOLDER / 'settings.yml'}", f"--append-system-prompt={FOLDER / 'APPEND_SYSTEM.md'}")
EVERY = {
    "ask": {"enabled": False},
    "tools": {"xdev": False, "intentTracing": False, "approval": {ASK: "allow"}},
}


def plan(*argv: str, endpoint: Endpoint | None = ENDPOINT, **changes: Any) -> LaunchPlan:
    """Plan a launch."""
    given_: dict[str, Any] = {
        "argv": argv or ("omp", "acp"),
        "env": {"HOME": "/home/agent", "PATH": "/bin"},
        "cwd": Path("/srv/project"),
        "folder": ENDPOINT.folder,
    }
    return adapter.plan_launch(LaunchRequest(**(given_ | changes)), endpoint)


def sources(made_: LaunchPlan, name: str = "APPEND_SYSTEM.md") -> tuple[Path, ...]:
    """Give the files that one may be made from."""
    (found,) = (file.sources for overlay in made_.overlays for file in overlay.files if file.name == name)
    assert found is not None
    return found


def names(made_: LaunchPlan) -> set[str]:
    """Give the names of the changes of a plan."""
    return {change.name for change in made_.changes}


# -- what is added ---------------------------------------------------------------------------------------------------


def test_the_levers_are_pulled() -> None:
    """Settings and system prompt are files of the session that the last options name; the limit on calls is lifted."""
    told = plan()
    assert told.argv == ("omp", "acp", *OURS)
    assert settings(told) == EVERY
    assert told.clause is not None
    assert made(told, "APPEND_SYSTEM.md") == f"{told.clause}\n"
    assert told.env["OMP_MCP_TIMEOUT_MS"] == "0"
    assert (told.hold_prompt, told.serves, told.ceiling, told.unknowns) == (True, True, None, ())
    assert [server["name"] for server in told.mcp_servers] == ["opask"]
    (overlay,) = told.overlays
    assert (overlay.path, overlay.original, overlay.folders, overlay.records) == (FOLDER, None, (), ())
    assert names(told) == {
        *("ask-server", "native-ask-denied", "direct-tools", "plain-titles"),
        *("ask-allowed", "clause", "call-timeout", "startup-timeout"),
    }


def test_with_nobody_there_only_the_native_tool_is_kept_away() -> None:
    """Nothing of the ask tool is in such a launch; the agent is told to proceed alone."""
    told = plan(endpoint=None)
    assert told.argv == ("omp", "acp", *OURS)
    assert settings(told) == {"ask": {"enabled": False}}
    assert "Proceed alone" in made(told, "APPEND_SYSTEM.md")
    assert told.mcp_servers == ()
    assert names(told) == {"native-ask-denied", "clause"}
    assert told.env == {"HOME": "/home/agent", "PATH": "/bin"}


@pytest.mark.parametrize(
    ("refused", "left"),
    [
        ("native-ask-denied", {"tools": EVERY["tools"]}),
        ("direct-tools", {**EVERY, "tools": {"intentTracing": False, "approval": {ASK: "allow"}}}),
        ("plain-titles", {**EVERY, "tools": {"xdev": False, "approval": {ASK: "allow"}}}),
        ("ask-allowed", {**EVERY, "tools": {"xdev": False, "intentTracing": False}}),
    ],
)
def test_each_setting_can_be_refused(refused: str, left: dict[str, Any]) -> None:
    """A refused setting is not in the session's file, and the others are."""
    told = plan(refuse={refused})
    assert settings(told) == left
    assert refused not in names(told)


@pytest.mark.parametrize(
    ("refused", "route"), [("direct-tools", "mcp-stdio-device"), ("plain-titles", "mcp-stdio")]
)
def test_a_device_is_a_route_of_its_own(refused: str, route: str) -> None:
    """Where the tool is not on the model's list, what was seen of that is what the registry is asked for."""
    assert plan(refuse={refused}).route == route
    assert plan().route == "mcp-stdio"
    assert plan(endpoint=None, refuse={refused}).route is None


def test_with_every_setting_refused_there_is_no_file_for_them() -> None:
    """Where no setting is left no file is named, and the clause says that the tool may be a device."""
    told = plan(refuse={"native-ask-denied", "direct-tools", "plain-titles", "ask-allowed"})
    assert told.argv == ("omp", "acp", OURS[1])
    assert told.clause is not None
    assert DEVICE in told.clause
    assert any("always-ask" in unknown for unknown in told.unknowns)


def test_a_refused_clause_leaves_the_users_own() -> None:
    """Without the clause no option for the system prompt is there, so that omp finds the user's own text."""
    told = plan(refuse={"clause"})
    assert told.argv == ("omp", "acp", OURS[0])
    assert told.clause is None


def test_without_a_folder_the_first_prompt_has_the_clause() -> None:
    """A host that plans without a session's folder gets no files; the agent is told by the first prompt."""
    told = plan(endpoint=None, folder=None)
    assert told.argv == ("omp", "acp")
    assert told.overlays == ()
    assert told.clause is not None
    assert names(told) == {"clause"}


# -- the system prompt -----------------------------------------------------------------------------------------------


def test_the_users_own_text_comes_before_the_clause() -> None:
    """What omp would have read is looked for where it does, the project's before the user's, and stands first."""
    told = plan()
    project = tuple(
        Path("/srv/project", folder, "APPEND_SYSTEM.md")
        for folder in (".omp", ".claude", ".codex", ".gemini")
    )
    assert sources(told) == (*project, Path("/home/agent/.omp/agent/APPEND_SYSTEM.md"))
    assert made(told, "APPEND_SYSTEM.md", "Mine.\n") == f"Mine.\n\n\n{told.clause}\n"
    assert made(told, "APPEND_SYSTEM.md", " \n") == f"{told.clause}\n"


@pytest.mark.parametrize(
    ("argv", "env", "last"),
    [
        (("--profile", "office"), {}, "/home/agent/.omp/profiles/office/agent"),
        (("--profile=office",), {"OMP_PROFILE": "x"}, "/home/agent/.omp/profiles/office/agent"),
        ((), {"OMP_PROFILE": "home"}, "/home/agent/.omp/profiles/home/agent"),
        ((), {"PI_PROFILE": "home"}, "/home/agent/.omp/profiles/home/agent"),
        ((), {"PI_PROFILE": "home", "OMP_PROFILE": ""}, "/home/agent/.omp/agent"),
        (("--profile", "default"), {}, "/home/agent/.omp/agent"),
        ((), {"PI_CONFIG_DIR": ".mine"}, "/home/agent/.mine/agent"),
    ],
)
def test_the_users_folder_is_the_one_that_omp_takes(
    argv: tuple[str, ...], env: dict[str, str], last: str
) -> None:
    """Profiles, and a folder by another name, are followed."""
    told = plan("omp", "acp", *argv, env={"HOME": "/home/agent", **env})
    assert sources(told)[-1] == Path(last, "APPEND_SYSTEM.md")


def test_the_hosts_own_text_comes_before_the_clause() -> None:
    """The host's text, the last of several, stands before the clause, and the user's own is hidden as it would be."""
    told = plan("omp", "acp", "--append-system-prompt", "One", "--append-system-prompt=Two\nlines")
    assert sources(told) == ()
    assert made(told, "APPEND_SYSTEM.md") == f"Two\nlines\n\n{told.clause}\n"
    assert told.argv[-1] == OURS[1]


def test_the_hosts_text_may_be_the_name_of_a_file() -> None:
    """One line may be a file's name: what is in it is taken, or the line itself where there is none."""
    told = plan("omp", "--append-system-prompt", "notes/mine.md", "acp")
    assert sources(told) == (Path("/srv/project/notes/mine.md"),)
    assert made(told, "APPEND_SYSTEM.md", "Of the file.") == f"Of the file.\n\n{told.clause}\n"
    assert made(told, "APPEND_SYSTEM.md") == f"notes/mine.md\n\n{told.clause}\n"
    elsewhere = plan("omp", "acp", "--cwd", "below", "--append-system-prompt", "mine.md")
    assert sources(elsewhere) == (Path("/srv/project/below/mine.md"),)


@pytest.mark.parametrize("text", ["", "x" * 300, "a/" * 2500, "nul\0", "two\nlines"])
def test_a_text_that_can_be_no_files_name_is_not_looked_for(text: str) -> None:
    """A text that no file can be called is the host's text as it is."""
    assert sources(plan("omp", "acp", "--append-system-prompt", text)) == ()


# -- the command line ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "index"),
    [
        (("omp", "acp", "--model", "m"), 4),
        (("omp", "acp", "--", "--config", "x"), 2),
        (("omp", "acp", "--system-prompt", "--", "--model", "m"), 6),
        (("bun", "cli.js", "acp"), 3),
        (("omp", "--mode", "acp"), 3),
        (("omp", "--mode=acp", "--tools", "read"), 4),
    ],
)
def test_ours_come_behind_the_hosts_options(argv: tuple[str, ...], index: int) -> None:
    """Ours are the last options, so that they count, and before a `--`, so that they are options."""
    assert plan(*argv).argv == (*argv[:index], *OURS, *argv[index:])


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        (("omp",), "argv"),
        (("/usr/bin/omp", "-p", "Do it."), "argv"),
        (("omp", "--model", "acp"), "argv"),
        (("omp", "--", "acp"), "argv"),
        (("omp", "acp", "--model"), "--model"),
        (("omp", "acp", "--append-system-prompt"), "--append-system-prompt"),
    ],
)
def test_a_command_line_that_cannot_do_is_refused(argv: tuple[str, ...], what: str) -> None:
    """What starts no server of ACP, or would swallow an option of ours, is named."""
    with pytest.raises(LaunchError) as caught:
        plan(*argv)
    assert (caught.value.runtime, caught.value.what) == ("omp", what)


ARGUMENTS = st.lists(
    st.sampled_from(
        [
            *("acp", "--", "-", "--model", "--model=m", "--append-system-prompt", "--append-system-prompt=x"),
            *(
                "--config",
                "--config=c",
                "--no-title",
                "-e",
                "-p",
                "",
                "x",
                "--resume",
                "--system-prompt",
                "--=",
            ),
        ]
    ),
    max_size=8,
)


@given(ARGUMENTS)
def test_a_command_line_keeps_what_it_has(arguments: list[str]) -> None:
    """Options are put in one place; all else stays in order, and ours are read as options, the last of their names."""
    line = CommandLine(("node", *arguments))
    if line.unfinished is not None:
        return
    more = CommandLine(line.with_options(OURS))
    rest = [argument for argument in more.argv if argument not in OURS]
    assert rest == list(line.argv)
    assert more.last("--config") == OURS[0].partition("=")[2]
    assert more.last("--append-system-prompt") == OURS[1].partition("=")[2]


def test_a_host_may_not_offer_forms() -> None:
    """A client that fills in forms would bring up omp's own ask tool, and is refused."""
    forms = adapter.with_client(HostClient(capabilities={"elicitation": {"form": {}}}))
    with pytest.raises(LaunchError) as caught:
        forms.plan_launch(LaunchRequest(("omp", "acp"), {}, cwd=Path("/srv")), ENDPOINT)
    assert caught.value.what == "elicitation"


# -- time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "ceiling"),
    [
        ({}, 30),
        ({"OMP_MCP_TIMEOUT_MS": "90000"}, 90),
        ({"OMP_MCP_TIMEOUT_MS": " 9e4 "}, 90),
        ({"OMP_MCP_TIMEOUT_MS": "0"}, None),
        ({"OMP_MCP_TIMEOUT_MS": "nonsense"}, 30),
        ({"OMP_MCP_TIMEOUT_MS": "-1"}, 30),
        ({"OMP_MCP_TIMEOUT_MS": "inf"}, 30),
        ({"OMP_MCP_TIMEOUT_MS": ""}, 30),
    ],
)
def test_the_limit_on_calls_is_lifted_or_kept(env: dict[str, str], ceiling: float | None) -> None:
    """With the lever every wait can be had; where it is refused the limit is the one that omp has."""
    unbounded = evolve(ENDPOINT, wait=None)
    assert plan(endpoint=unbounded, env=env).ceiling is None
    short = evolve(ENDPOINT, wait=timedelta(seconds=5))
    kept = plan(endpoint=short, env=env, refuse={"call-timeout"})
    assert kept.ceiling == (None if ceiling is None else timedelta(seconds=ceiling))
    if ceiling is not None:
        with pytest.raises(WaitTooLongError):
            plan(endpoint=unbounded, env=env, refuse={"call-timeout"})


@pytest.mark.parametrize(
    ("version", "host", "told"),
    [
        (None, None, "15000"),
        ("18.3.4", None, "15000"),
        ("18.2.3", None, None),
        ("18.3.4", "500", "15000"),
        ("18.3.4", "60000", "60000"),
        ("18.3.4", "0", "0"),
        ("18.2.3", "500", "500"),
    ],
)
def test_servers_get_time_to_start(version: str | None, host: str | None, told: str | None) -> None:
    """A version that can be told so waits for servers, as long as the host wants; the first prompt is held in any."""
    env = {"HOME": "/home/agent"} | ({} if host is None else {"OMP_MCP_STARTUP_TIMEOUT_MS": host})
    made_ = plan(env=env, version=version)
    assert made_.env.get("OMP_MCP_STARTUP_TIMEOUT_MS") == told
    assert ("startup-timeout" in names(made_)) is (told != host)
    assert made_.hold_prompt
    refused = plan(env=env, version=version, refuse={"startup-timeout"})
    assert refused.env.get("OMP_MCP_STARTUP_TIMEOUT_MS") == host
