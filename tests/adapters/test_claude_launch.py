"""What the claude adapter makes of a host's launch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from opask.errors import LaunchError, WaitTooLongError
from opask.launch import Endpoint, LaunchPlan, LaunchRequest
from opask_claude import adapter
from opask_claude.arguments import CommandLine, tool_rules
from opask_claude.floor import CHANGES as FLOOR
from opask_claude.launch import CHANGES

ASK = "mcp__opask__ask_user_question"
NATIVE = "AskUserQuestion"
CONTROL = ("--input-format", "stream-json", "--permission-prompt-tool", "stdio")
DAY = timedelta(days=1)
ENDPOINT = Endpoint(
    command=("/opt/python", "-I", "-S", "/opt/relay.py", "/run/s.sock"),
    folder=Path("/run/opask"),
    wait=timedelta(minutes=5),
)


def plan(
    *argv: str,
    env: Mapping[str, str] | None = None,
    endpoint: Endpoint | None = ENDPOINT,
    refuse: set[str] | None = None,
    clause: str | None = None,
    version: str | None = None,
) -> LaunchPlan:
    """Plan a launch of ``claude -p`` with more arguments."""
    request = LaunchRequest(
        ("claude", "-p", *argv),
        env or {},
        clause=clause,
        refuse=frozenset(refuse or set()),
        version=version,
    )
    return adapter.plan_launch(request, endpoint)


def line(made: LaunchPlan) -> CommandLine:
    """Read a plan's argv."""
    return CommandLine(made.argv)


def changes(made: LaunchPlan) -> set[str]:
    """Give the names of a plan's changes."""
    return {change.name for change in made.changes}


def server(made: LaunchPlan) -> dict[str, Any]:
    """Give the ask server's entry in the plan's MCP configuration."""
    (file,) = made.files
    (entry,) = json.loads(file.content)["mcpServers"].items()
    assert entry[0] == "opask"
    return dict(entry[1])


# -- the whole -------------------------------------------------------------------------------------------------------


def test_the_plain_launch() -> None:
    """The ask server, the two rules and the clause are added behind the host's own arguments, and nothing else."""
    made = plan("Do it.", "--verbose", env={"PATH": "/bin"})
    assert made.argv[:4] == ("claude", "-p", "Do it.", "--verbose")
    assert made.argv[4:] == (
        f"--disallowedTools={NATIVE}",
        f"--append-system-prompt={made.clause}",
        "--mcp-config=/run/opask/claude-mcp.json",
        f"--allowedTools={ASK}",
    )
    assert made.env == {
        "PATH": "/bin",
        "CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS": "0",
        "CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS": "900000",
    }
    assert changes(made) == set(CHANGES) - {"fresh-system-prompt", *FLOOR}
    assert made.questions
    assert not made.hold_prompt


def test_the_server_is_in_a_file_and_not_in_the_argv() -> None:
    """The relay's command is in a file of the session's folder; every user could read it in the argv."""
    made = plan("Do it.")
    assert made.files[0].path == Path("/run/opask/claude-mcp.json")
    assert server(made) == {
        "type": "stdio",
        "command": "/opt/python",
        "args": ["-I", "-S", "/opt/relay.py", "/run/s.sock"],
        "alwaysLoad": True,
        "timeout": 2147483647,
    }
    assert "/run/s.sock" not in " ".join(made.argv)


def test_the_relays_variables_are_its_own() -> None:
    """Variables of the relay are in its entry, not in the runtime's environment."""
    made = plan("Do it.", endpoint=evolve(ENDPOINT, env={"RELAY": "1"}))
    assert server(made)["env"] == {"RELAY": "1"}
    assert "RELAY" not in made.env


def test_a_server_over_http_has_its_token_in_the_file() -> None:
    """Where only a URL is served, its bearer token is in the private file, in neither argv nor environment."""
    made = plan("Do it.", endpoint=evolve(ENDPOINT, command=(), url="http://127.0.0.1:1/mcp", token="t0ken"))
    assert server(made)["url"] == "http://127.0.0.1:1/mcp"
    assert server(made)["headers"] == {"Authorization": "Bearer t0ken"}
    assert "t0ken" not in " ".join([*made.argv, *made.env.values()])


def test_nobody_there() -> None:
    """Without an operator no server and no rule for one is there, the native tool is denied, the clause says so."""
    made = plan("Do it.", endpoint=None)
    assert made.argv == (
        "claude",
        "-p",
        "Do it.",
        f"--disallowedTools={NATIVE}",
        f"--append-system-prompt={made.clause}",
    )
    assert made.env == {}
    assert made.clause is not None
    assert "Proceed alone" in made.clause
    assert "mcp__" not in made.clause


def test_the_clause_names_the_tool_as_it_is_spelled() -> None:
    """The clause has the exact spelling, mangled like the CLI does it, and says that the native tool is not there."""
    made = plan("Do it.", endpoint=evolve(ENDPOINT, server="op.ask", tool="ask it"))
    assert made.clause is not None
    assert "mcp__op_ask__ask_it" in made.clause
    assert NATIVE in made.clause
    assert line(made).values("--allowedTools") == ("mcp__op_ask__ask_it",)


# -- merging ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "own",
    [
        ("--append-system-prompt", "HOST"),
        ("--append-system-prompt=HOST",),
        ("--append-system-prompt", "LOST", "--append-system-prompt", "HOST"),
    ],
)
def test_there_is_one_appended_system_prompt_that_counts(own: tuple[str, ...]) -> None:
    """The clause is put behind the host's own text, in the one place that the CLI takes it from."""
    made = plan("Do it.", *own)
    assert line(made).last("--append-system-prompt") == f"HOST\n\n{made.clause}"
    assert len(made.argv) == len(plan("Do it.", *own, clause="").argv)


def test_a_clause_in_a_file_stays() -> None:
    """A system prompt that the host appends from a file is left; the CLI puts both together."""
    made = plan("Do it.", "--append-system-prompt-file", "f.txt")
    assert line(made).last("--append-system-prompt-file") == "f.txt"
    assert line(made).last("--append-system-prompt") == made.clause


def test_the_hosts_own_clause_is_used() -> None:
    """A clause of the host's own takes the place of ours; an empty one adds nothing."""
    assert line(plan("Do it.", clause="Ask me.")).last("--append-system-prompt") == "Ask me."
    silent = plan("Do it.", clause="")
    assert not line(silent).has("--append-system-prompt")
    assert silent.clause is None


def test_the_hosts_servers_and_rules_stay() -> None:
    """The host's own MCP configurations and tool rules are kept; our configuration is the last, which wins."""
    other = '{"mcpServers": {"other": {"command": "x"}}}'
    made = plan(
        "Do it.",
        "--mcp-config",
        other,
        "more.json",
        "--allowedTools",
        "Bash(ls *)",
        "--disallowed-tools",
        "Write",
    )
    assert line(made).values("--mcp-config") == (other, "more.json", "/run/opask/claude-mcp.json")
    assert line(made).values("--allowedTools") == ("Bash(ls *)", ASK)
    assert line(made).values("--disallowedTools") == ("Write", NATIVE)


@pytest.mark.parametrize(
    "argv",
    [
        ("Do it.", "--verbose"),
        ("--verbose", "Do it."),
        ("--verbose", "--", "Do it."),
        ("--allowedTools=Bash", "Do it."),
        ("--resume", "--verbose", "Do it."),
    ],
)
def test_the_prompt_is_not_swallowed(argv: tuple[str, ...]) -> None:
    """What is added takes no prompt for a value, wherever the host puts it."""
    assert line(plan(*argv)).prompt == "Do it."


def test_what_the_host_did_already_is_not_done_again() -> None:
    """Rules and settings that are there already are no change."""
    made = plan(
        "Do it.",
        f"--disallowedTools=Write,{NATIVE}",
        f"--allowedTools={ASK}",
        env={"CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS": "0", "CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS": "0"},
    )
    assert tool_rules(line(made).values("--disallowedTools")).count(NATIVE) == 1
    assert tool_rules(line(made).values("--allowedTools")).count(ASK) == 1
    assert changes(made) == {"clause", "ask-server", "always-load", "call-timeout"}


def test_a_resumed_conversation_is_told_what_is_true_now() -> None:
    """A resumed conversation would keep the clause that it was begun with; the host's own choice stands."""
    for resumes in (("--resume", "id"), ("-c",), ("--from-pr=1",)):
        made = plan("Go on.", *resumes)
        assert line(made).last("--system-prompt-snapshot") == "off"
        assert "fresh-system-prompt" in changes(made)
    kept = plan("Go on.", "--resume", "id", "--system-prompt-snapshot", "on")
    assert line(kept).values("--system-prompt-snapshot") == ("on",)
    assert "fresh-system-prompt" not in changes(kept)
    assert not line(plan("Begin.")).has("--system-prompt-snapshot")


@pytest.mark.parametrize(
    ("version", "is_told"), [("2.0.76", False), ("2.1.197", False), ("2.1.257", True), (None, True)]
)
def test_a_cli_that_keeps_no_prompt_gets_no_option_against_it(version: str | None, is_told: bool) -> None:
    """A CLI that is known to be older than the option would end at once with "unknown option"."""
    made = plan("Go on.", "--resume", "id", version=version)
    assert line(made).has("--system-prompt-snapshot") is is_told
    assert ("fresh-system-prompt" in changes(made)) is is_told
    assert made.clause is not None


def test_the_version_is_asked_for_only_where_a_launch_depends_on_it() -> None:
    """A launch that resumes has another form at an older version; no other is kept waiting for the answer."""
    for arguments in (("--resume", "id"), ("-c",), ("--model", "x", "-r")):
        assert adapter.version_argv("claude", arguments) == ("claude", "--version")
    assert adapter.version_argv("claude", ()) == ()
    assert adapter.version_argv("claude", ("--model", "--resume")) == ()


# -- what stands against it ------------------------------------------------------------------------------------------

SETTINGS_DENY = json.dumps({"permissions": {"deny": ["Bash", "mcp__opask"]}})
SETTINGS_ASK = json.dumps({"permissions": {"ask": [ASK]}})

CONFLICTS: dict[str, tuple[tuple[str, ...], str]] = {
    "the native tool allowed": (("--allowedTools", NATIVE), f"--allowedTools {NATIVE}"),
    "the native tool allowed among others": (
        (f"--allowed-tools=Bash,{NATIVE}(x)",),
        f"--allowedTools {NATIVE}(x)",
    ),
    "the native tool made available": (("--tools", f"Read {NATIVE}"), f"--tools {NATIVE}"),
    "ours denied by name": (("--disallowedTools", ASK), f"--disallowedTools {ASK}"),
    "ours denied by its server": (("--disallowedTools", "mcp__opask"), "--disallowedTools mcp__opask"),
    "ours denied by a pattern": (("--disallowedTools", "Write,mcp__op*"), "--disallowedTools mcp__op*"),
    "ours denied with all others": (("--disallowed-tools=*",), "--disallowedTools *"),
    "ours denied in settings": (("--settings", SETTINGS_DENY), "--settings permissions.deny mcp__opask"),
    "ours asked for, of nobody": (("--settings", SETTINGS_ASK), f"--settings permissions.ask {ASK}"),
    "a server of our name": (("--mcp-config", '{"mcpServers": {"opask": {}}}'), "--mcp-config opask"),
    "no servers at all": (("--safe-mode",), "--safe-mode"),
    "in the background": (("--bg",), "--bg"),
    "in the cloud": (("--cloud=x",), "--cloud"),
    "a value that is missing": (("--model",), "--model"),
}


@pytest.mark.parametrize(("argv", "what"), CONFLICTS.values(), ids=CONFLICTS)
def test_what_stands_against_it_is_named(argv: tuple[str, ...], what: str) -> None:
    """A host's own argument under which the tool could not be had is refused by name."""
    with pytest.raises(LaunchError) as refusal:
        plan("Do it.", *argv)
    assert refusal.value.what == what
    assert refusal.value.runtime == "claude"


def test_a_server_whose_name_collapses_into_ours_is_refused() -> None:
    """A server that the CLI would spell like ours is refused, though its name is another."""
    with pytest.raises(LaunchError, match=r"'op\.ask'"):
        plan("--mcp-config", '{"mcpServers": {"op.ask": {}}}', endpoint=evolve(ENDPOINT, server="op_ask"))


NO_CONFLICTS: dict[str, tuple[str, ...]] = {
    "a rule of another tool of ours": ("--disallowedTools", "mcp__opask__other"),
    "a server whose name begins alike": ("--disallowedTools", "mcp__opa"),
    "a server that is another's": ("--mcp-config", '{"mcpServers": {"Opask": {}}}'),
    "the native tool denied": ("--disallowedTools", NATIVE),
    "built-in tools listed": ("--tools", "Read"),
    "no built-in tools": ("--tools", ""),
    "settings in a file": ("--settings", "settings.json"),
    "settings that are no JSON": ("--settings", "{"),
    "settings of other types": ("--settings", '{"permissions": {"deny": [1, null], "ask": "x"}}'),
    "a configuration of other types": ("--mcp-config", '{"mcpServers": ["opask"]}'),
    "a configuration that nests too deep": ("--mcp-config", '{"a":' * 100_000),
    "bare": ("--bare",),
    "restricted": ("--restricted",),
    "strict": ("--strict-mcp-config",),
}


@pytest.mark.parametrize("argv", NO_CONFLICTS.values(), ids=NO_CONFLICTS)
def test_what_does_not_stand_against_it_is_left(argv: tuple[str, ...]) -> None:
    """Arguments that leave the tool where it is pass as they are."""
    assert plan("Do it.", *argv).argv[3 : 3 + len(argv)] == argv


def test_an_ask_rule_is_no_conflict_where_the_host_is_asked() -> None:
    """A settings rule that asks first is served at the permission channel, where there is one."""
    assert plan(*CONTROL, "--settings", SETTINGS_ASK).questions


SETTINGS_NATIVE = json.dumps({"permissions": {"allow": ["Read", NATIVE]}})


def test_the_native_tool_is_not_left_to_a_rule_that_allows_it() -> None:
    """Where only the permission channel keeps the native tool away, a rule by which it is never asked is refused."""
    with pytest.raises(LaunchError) as refusal:
        plan(*CONTROL, "--settings", SETTINGS_NATIVE, refuse={"native-ask-denied"})
    assert refusal.value.what == f"--settings permissions.allow {NATIVE}"
    assert plan(*CONTROL, "--settings", SETTINGS_NATIVE).questions
    denied = ("--settings", SETTINGS_NATIVE, "--disallowedTools", NATIVE)
    assert plan(*CONTROL, *denied, refuse={"native-ask-denied"}).questions
    others = json.dumps({"permissions": {"allow": ["Read"]}})
    assert plan(*CONTROL, "--settings", others, refuse={"native-ask-denied"}).questions


def test_what_only_hinders_asking_does_not_hinder_a_launch_without() -> None:
    """With nobody there a launch may well deny the tool or run elsewhere; the native tool stays refused."""
    for argv in (("--disallowedTools", ASK), ("--safe-mode",), ("--bg",)):
        assert not plan("Do it.", *argv, endpoint=None).questions
    with pytest.raises(LaunchError):
        plan("Do it.", "--allowedTools", NATIVE, endpoint=None)


def test_safe_mode_in_the_environment_counts() -> None:
    """The variable does what the option does."""
    with pytest.raises(LaunchError, match="CLAUDE_CODE_SAFE_MODE"):
        plan("Do it.", env={"CLAUDE_CODE_SAFE_MODE": "1"})
    assert plan("Do it.", env={"CLAUDE_CODE_SAFE_MODE": "0"}).questions


@pytest.mark.parametrize(
    "argv", [("sh", "-c", "claude -p hi"), ("/bin/bash", "-lc", "claude -p hi"), ("cmd", "/C", "x")]
)
def test_a_shells_command_line_is_refused(argv: tuple[str, ...]) -> None:
    """What is added behind a shell's command would reach the shell and not the CLI."""
    with pytest.raises(LaunchError, match="one by one"):
        adapter.plan_launch(LaunchRequest(argv), ENDPOINT)


def test_a_shell_that_hands_its_arguments_on_is_not() -> None:
    """A shell in front that is given the CLI's arguments one by one is a starter like any other."""
    made = adapter.plan_launch(LaunchRequest(("sh", "-c", 'exec "$@"', "sh", "claude", "-p", "hi")), ENDPOINT)
    assert made.argv[:7] == ("sh", "-c", 'exec "$@"', "sh", "claude", "-p", "hi")


def test_an_empty_argv_is_refused() -> None:
    """There has to be a program."""
    with pytest.raises(LaunchError, match="program"):
        adapter.plan_launch(LaunchRequest(()), ENDPOINT)


# -- refusing levers -------------------------------------------------------------------------------------------------


def test_a_change_that_is_none_cannot_be_refused() -> None:
    """A misspelt name is an error, not a lever that is pulled all the same."""
    with pytest.raises(LaunchError, match="always-load"):
        plan("Do it.", refuse={"always-laod"})


def test_a_change_that_is_not_needed_may_be_refused() -> None:
    """A known name is accepted though this launch would not pull it."""
    assert plan("Do it.", refuse={"fresh-system-prompt"}).questions


@pytest.mark.parametrize(
    ("name", "trace"),
    [
        ("clause", "--append-system-prompt"),
        ("always-load", "alwaysLoad"),
        ("call-timeout", "timeout"),
        ("foreground-calls", "CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS"),
        ("background-wait", "CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS"),
    ],
)
def test_a_refused_change_leaves_no_trace(name: str, trace: str) -> None:
    """What a change would do is there with it and not there without it."""

    def traces(made: LaunchPlan) -> bool:
        return trace in made.env or trace in server(made) or line(made).has(trace)

    assert traces(plan("Do it."))
    assert not traces(plan("Do it.", refuse={name}))


def test_the_native_tool_may_go_undenied_only_where_the_host_is_asked() -> None:
    """Launch denial can be left out where the permission channel denies, and nowhere else."""
    with pytest.raises(LaunchError, match="native-ask-denied"):
        plan("Do it.", refuse={"native-ask-denied"})
    with pytest.raises(LaunchError, match="native-ask-denied"):
        plan("Do it.", "--permission-prompt-tool", "mcp__host__decide", refuse={"native-ask-denied"})
    made = plan(*CONTROL, refuse={"native-ask-denied"})
    assert not line(made).has("--disallowedTools")


@pytest.mark.parametrize(
    "argv",
    [
        ("--dangerously-skip-permissions",),
        ("--permission-mode", "bypassPermissions"),
        ("--allowedTools", "mcp__opask"),
        CONTROL,
        (*CONTROL, "--permission-mode", "acceptEdits"),
    ],
)
def test_our_rule_may_be_left_out_where_the_tool_runs_without(argv: tuple[str, ...]) -> None:
    """The rule that allows the tool can be refused where a mode, a rule or the permission channel lets it run."""
    made = plan("Do it.", *argv, refuse={"ask-allowed"})
    assert ASK not in line(made).values("--allowedTools")
    assert made.questions


@pytest.mark.parametrize(
    "argv", [(), (*CONTROL, "--permission-mode", "dontAsk"), (*CONTROL, "--permission-mode=plan")]
)
def test_our_rule_cannot_be_left_out_where_the_tool_would_be_denied(argv: tuple[str, ...]) -> None:
    """The refusal is refused where the CLI would deny the tool by itself."""
    with pytest.raises(LaunchError, match="ask-allowed"):
        plan("Do it.", *argv, refuse={"ask-allowed"})


def test_without_the_server_there_is_nothing_to_attach() -> None:
    """A host that wants no server is told to attach without a prompter."""
    with pytest.raises(LaunchError, match="ask-server"):
        plan("Do it.", refuse={"ask-server"})


# -- waiting ---------------------------------------------------------------------------------------------------------

AUTO = {"CLAUDE_AUTO_BACKGROUND_TASKS": "1"}
NO_BACKGROUND = {**AUTO, "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"}
CEILINGS: dict[str, tuple[set[str], dict[str, str], float]] = {
    "all levers": (set(), {}, 2147483.647),
    "all levers, whatever the user set": (set(), {**AUTO, "MCP_TOOL_TIMEOUT": "1000"}, 2147483.647),
    "no timeout": ({"call-timeout"}, {}, 100_000),
    "no timeout, the user's": ({"call-timeout"}, {"MCP_TOOL_TIMEOUT": "400000"}, 400),
    "no timeout, a user's that is none": ({"call-timeout"}, {"MCP_TOOL_TIMEOUT": "soon"}, 100_000),
    "in the background, not turned on": ({"foreground-calls"}, {}, 2147483.647),
    "in the background": ({"foreground-calls"}, AUTO, 120),
    "in the background, when the user says": (
        {"foreground-calls"},
        {**AUTO, "CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS": "60000"},
        60,
    ),
    "in the background, turned off": ({"foreground-calls"}, NO_BACKGROUND, 2147483.647),
}


@pytest.mark.parametrize(("refuse", "env", "ceiling"), CEILINGS.values(), ids=CEILINGS)
def test_the_ceiling_follows_from_the_levers(refuse: set[str], env: dict[str, str], ceiling: float) -> None:
    """A refused lever and the user's environment shorten what can be waited for; more is refused at launch."""
    short = evolve(ENDPOINT, wait=timedelta(seconds=1))
    assert plan("Do it.", refuse=refuse, env=env, endpoint=short).ceiling == timedelta(seconds=ceiling)
    longest = evolve(ENDPOINT, wait=timedelta(seconds=ceiling - 5))
    assert plan("Do it.", refuse=refuse, env=env, endpoint=longest).questions
    with pytest.raises(WaitTooLongError, match="wait less"):
        plan("Do it.", refuse=refuse, env=env, endpoint=evolve(ENDPOINT, wait=timedelta(seconds=ceiling - 4)))


def test_an_unbounded_wait_needs_all_levers() -> None:
    """Unbounded is held as long as the CLI's longest timer; with less it cannot be had."""
    forever = evolve(ENDPOINT, wait=None)
    made = plan("Do it.", endpoint=forever)
    assert (made.wait, made.ceiling) == (None, None)
    assert made.env["CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS"] == "0"
    with pytest.raises(WaitTooLongError, match="unbounded"):
        plan("Do it.", endpoint=forever, refuse={"call-timeout"})


def test_an_interactive_run_backgrounds_calls_by_itself() -> None:
    """Without ``-p`` the CLI moves a waiting call to the background though nothing tells it to."""
    request = LaunchRequest(("claude",), {}, refuse=frozenset({"foreground-calls"}))
    made = adapter.plan_launch(request, evolve(ENDPOINT, wait=timedelta(seconds=60)))
    assert made.ceiling == timedelta(seconds=120)
    assert "background-wait" not in changes(made)


@pytest.mark.parametrize(
    ("own", "wait", "result"),
    [
        (None, timedelta(minutes=5), "900000"),
        ("1000", timedelta(minutes=5), "301000"),
        ("0", timedelta(minutes=5), "0"),
        ("1000", None, "0"),
        (None, 20 * DAY, "1728600000"),
    ],
)
def test_background_agents_get_the_operators_time(
    own: str | None, wait: timedelta | None, result: str
) -> None:
    """What ``claude -p`` grants its background agents grows by the wait; unlimited stays so."""
    env = {} if own is None else {"CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS": own}
    made = plan("Do it.", env=env, endpoint=evolve(ENDPOINT, wait=wait))
    assert made.env["CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS"] == result
