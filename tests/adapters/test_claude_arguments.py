"""How a command line of the claude CLI is read and extended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opask_claude.arguments import CommandLine, tool_rules


def read(*argv: str) -> list[tuple[str, tuple[str, ...]]]:
    """Read a command line; give the options and positional arguments in order."""
    return [(argument.name, argument.values) for argument in CommandLine(argv).arguments]


READINGS: dict[str, tuple[list[str], list[tuple[str, tuple[str, ...]]]]] = {
    "a flag takes nothing": (["-p", "hi"], [("--print", ()), ("", ("hi",))]),
    "one value": (["--model", "x", "hi"], [("--model", ("x",)), ("", ("hi",))]),
    "one value, though it looks like an option": (
        ["--model", "-x", "hi"],
        [("--model", ("-x",)), ("", ("hi",))],
    ),
    "one value, though it ends options": (["--model", "--", "hi"], [("--model", ("--",)), ("", ("hi",))]),
    "a value after =": (["--model=x=y", "hi"], [("--model", ("x=y",)), ("", ("hi",))]),
    "an empty value after =": (
        ["--append-system-prompt=", "hi"],
        [("--append-system-prompt", ("",)), ("", ("hi",))],
    ),
    "several values swallow what follows": (
        ["--allowedTools", "A", "B", "hi", "--verbose"],
        [("--allowedTools", ("A", "B", "hi")), ("--verbose", ())],
    ),
    "several values after = swallow nothing": (["--tools=A", "hi"], [("--tools", ("A",)), ("", ("hi",))]),
    "the first of several may look like an option": (
        ["--tools", "-x", "-p"],
        [("--tools", ("-x",)), ("--print", ())],
    ),
    "an empty one of several": (["--tools", "", "-p"], [("--tools", ("",)), ("--print", ())]),
    "a value that may be": (["--resume", "id", "hi"], [("--resume", ("id",)), ("", ("hi",))]),
    "a value that may be and is not": (
        ["--resume", "-p", "hi"],
        [("--resume", ()), ("--print", ()), ("", ("hi",))],
    ),
    "another name": (["--allowed-tools", "A"], [("--allowedTools", ("A",))]),
    "short names": (
        ["-r", "id", "-n", "me", "-c"],
        [("--resume", ("id",)), ("--name", ("me",)), ("--continue", ())],
    ),
    "short names in one": (["-pc", "hi"], [("--print", ()), ("--continue", ()), ("", ("hi",))]),
    "a value behind short names": (["-pd", "hi"], [("--print", ()), ("--debug", ("hi",))]),
    "a value in a short name": (["-dmcp", "hi"], [("--debug", ("mcp",)), ("", ("hi",))]),
    "no options after --": (
        ["-p", "--", "--tools", "x"],
        [("--print", ()), ("", ("--tools",)), ("", ("x",))],
    ),
    "a lone dash is no option": (["-p", "-"], [("--print", ()), ("", ("-",))]),
    "an option that is not known": (["--new", "hi"], [("--new", ()), ("", ("hi",))]),
}


@pytest.mark.parametrize(("argv", "expected"), READINGS.values(), ids=READINGS)
def test_a_command_line_is_read_as_the_cli_reads_it(
    argv: list[str], expected: list[tuple[str, tuple[str, ...]]]
) -> None:
    """Options get the values that the CLI would give them."""
    assert read("claude", *argv) == expected


STARTERS: dict[str, tuple[list[str], int | None]] = {
    "itself": (["claude", "-p"], 0),
    "by path": (["/opt/bin/claude", "-p"], 0),
    "on windows": (["C:\\bin\\claude.exe", "-p"], 0),
    "by another name": (["my-claude", "-p"], None),
    "through node": (["node", "/opt/claude-code/cli.js", "-p"], 1),
    "through npx": (["npx", "-y", "@anthropic-ai/claude-code@2.1.332", "-p"], 2),
    "in a sandbox": (["bwrap", "--bind", "/home/claude", "/home/claude", "--", "claude", "-p"], 5),
    "a value of the same name": (["claude", "--agent", "claude", "-p"], 0),
}


@pytest.mark.parametrize(("argv", "program"), STARTERS.values(), ids=STARTERS)
def test_the_cli_is_found_behind_what_starts_it(argv: list[str], program: int | None) -> None:
    """Node, npx or a sandbox in front of the CLI are passed over."""
    assert CommandLine(argv).program == program


def test_options_go_behind_the_starter_and_before_the_end_of_options() -> None:
    """A ``--`` of the CLI's own ends its options, one of what starts it does not."""
    line = CommandLine(["bwrap", "--", "claude", "-p", "--", "hi"]).with_options("--x=1")
    assert line.argv == ("bwrap", "--", "claude", "-p", "--x=1", "--", "hi")
    assert CommandLine(["claude", "-p", "hi"]).with_options("--x=1").argv == ("claude", "-p", "hi", "--x=1")


def test_a_value_is_replaced_where_it_counts() -> None:
    """The last value of an option is the one that counts, and keeps its place and its form."""
    spaced = CommandLine(["claude", "--append-system-prompt", "a", "--append-system-prompt", "b", "hi"])
    assert spaced.last("--append-system-prompt") == "b"
    changed = spaced.with_value("--append-system-prompt", "c")
    assert changed.argv == ("claude", "--append-system-prompt", "a", "--append-system-prompt", "c", "hi")
    glued = CommandLine(["claude", "--append-system-prompt=a", "hi"]).with_value(
        "--append-system-prompt", "c"
    )
    assert glued.argv == ("claude", "--append-system-prompt=c", "hi")
    added = CommandLine(["claude", "hi"]).with_value("--append-system-prompt", "-c")
    assert added.argv == ("claude", "hi", "--append-system-prompt=-c")
    assert added.last("--append-system-prompt") == "-c"


def test_the_prompt_is_the_first_positional_argument() -> None:
    """The prompt is what is left over, wherever it stands."""
    assert CommandLine(["claude", "-p", "hi", "--verbose"]).prompt == "hi"
    assert CommandLine(["claude", "-p", "--verbose", "--", "-hi"]).prompt == "-hi"
    assert CommandLine(["claude", "-p", "--tools", "A", "hi"]).prompt is None


@pytest.mark.parametrize("option", ["--model", "--allowedTools", "-n"])
def test_an_option_without_its_value_is_seen(option: str) -> None:
    """An option at the end that lacks its value would take whatever is put behind it."""
    unfinished = CommandLine(["claude", "-p", option]).unfinished
    assert unfinished is not None
    assert CommandLine(["claude", option, "x"]).unfinished is None
    assert CommandLine(["claude", "--resume"]).unfinished is None


WORDS = st.sampled_from(
    [
        "claude",
        "-p",
        "-pd",
        "--",
        "-",
        "",
        "hi",
        "--tools",
        "--tools=A",
        "--model",
        "--resume",
        "-r",
        "--new",
        "A B",
    ]
) | st.text(max_size=6)


@given(st.lists(WORDS, max_size=8).map(lambda words: ["claude", *words]))
def test_what_is_added_is_read_back_and_changes_nothing_else(argv: list[str]) -> None:
    """Options that are complete in themselves neither swallow nor are swallowed, whatever the host's argv is."""
    line = CommandLine(argv)
    if line.unfinished is not None:
        return
    longer = line.with_options("--mcp-config=/x", "--allowedTools=a")
    assert longer.values("--mcp-config") == (*line.values("--mcp-config"), "/x")
    assert longer.values("--allowedTools")[-1] == "a"
    assert longer.prompt == line.prompt
    ours = {"--mcp-config": "/x", "--allowedTools": "a"}
    kept = [each for each in longer.arguments if ours.get(each.name) not in each.values]
    assert [(each.name, each.values) for each in kept] == [
        (each.name, each.values) for each in line.arguments
    ]


@pytest.mark.parametrize(
    ("values", "rules"),
    [
        (["Bash(git *),Edit"], ["Bash(git *)", "Edit"]),
        (["Bash(git *) Edit", "Read"], ["Bash(git *)", "Edit", "Read"]),
        (["Bash(a, b), Read"], ["Bash(a, b)", "Read"]),
        (["", " , "], []),
        (["Bash(git"], ["Bash(git"]),
    ],
)
def test_rules_are_told_apart_outside_of_parentheses(values: list[str], rules: list[str]) -> None:
    """A value may hold several rules; what stands in parentheses belongs to one."""
    assert tool_rules(values) == tuple(rules)
