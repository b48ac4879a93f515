"""`opask routes` and `opask registry check`: what they print, and how they end."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from opask.cli import UsageError, main, table
from opask.cli import registry as registry_command
from opask.cli import routes as routes_command
from opask.registry import Registry, shipped_path

Run = Callable[..., tuple[int, str]]
ESCAPE = "\033["


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Give a function that runs a command with nothing on the PATH but what a test puts there."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def run(command: Any, *arguments: str) -> tuple[int, str]:
        parser = argparse.ArgumentParser()
        command.configure(parser)
        code = command.run(parser.parse_args(arguments))
        return code, capsys.readouterr().out

    return run


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Give a function that makes standard output a terminal of a width."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")

    def become(columns: int) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", str(columns))

    return become


def install(folder: Path, name: str, output: str) -> None:
    """Put a program on the PATH that prints something."""
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{output}'\n")
    path.chmod(0o755)


def own(folder: Path, **changes: Any) -> Path:
    """Write a registry of one verified route, with no evidence."""
    seen = {
        "version": "1.2.3",
        "date": datetime.now(UTC).date(),
        "platform": "linux-x86_64",
        "probe": "probe.py",
        "recording": "gone.jsonl",
        "sha256": "0" * 64,
        "status": "verified",
    }
    route = {"id": "mcp-stdio", "status": "verified", "observations": [seen], **changes}
    runtime = {"title": "Acme", "version_command": ["acme", "--version"], "routes": [route]}
    path = folder / "own.toml"
    path.write_text(tomlkit.dumps({"schema_version": 1, "data_version": 1, "runtimes": {"acme": runtime}}))
    return path


# -- opask routes ----------------------------------------------------------------------------------------------


def test_the_table_has_every_route(run: Run) -> None:
    """Without a runtime, each route of the registry is a line."""
    code, out = run(routes_command)
    lines = [line.split()[:3] for line in out.splitlines()[1:]]
    rows = Registry.shipped().runtimes.items()
    assert code == 0
    assert lines == [[id_, route.id, route.status] for id_, row in rows for route in row.routes]


def test_the_installed_version_stands_beside_the_seen_one(run: Run, tmp_path: Path) -> None:
    """A line says what was seen, what is installed, and how the two stand."""
    install(tmp_path, "acme", "acme 1.3.0")
    _, out = run(routes_command, "--registry", str(own(tmp_path)))
    today = datetime.now(UTC).date().isoformat()
    assert out.splitlines()[1].split() == ["acme", "mcp-stdio", "verified", "1.2.3", today, "1.3.0", "newer"]


def test_no_program_is_run_where_that_is_not_wanted(run: Run, tmp_path: Path) -> None:
    """With --no-versions nothing that is installed is started."""
    install(tmp_path, "acme", "acme 1.3.0")
    _, out = run(routes_command, "--no-versions", "--registry", str(own(tmp_path)))
    assert "1.3.0" not in out


def test_a_pipe_gets_plain_text(run: Run) -> None:
    """Where standard output is no terminal, there are no colours, and the table is not folded."""
    for arguments in ([], ["claude"]):
        _, out = run(routes_command, *arguments)
        assert ESCAPE not in out
        assert not any(line.endswith(" ") for line in out.splitlines())


@pytest.mark.parametrize("columns", [30, 60, 120])
@pytest.mark.parametrize("arguments", [[], ["claude"], ["kimi"]])
def test_a_narrow_terminal_is_readable(
    run: Run,
    terminal: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
    arguments: list[str],
) -> None:
    """On a terminal no line is wider than it, single long words aside, and the ids are all there."""
    monkeypatch.setenv("NO_COLOR", "1")
    terminal(columns)
    _, out = run(routes_command, *arguments)
    assert [line for line in out.splitlines() if len(line) > columns and len(line.split()) > 2] == []
    assert "mcp-stdio" in out


def test_a_terminal_gets_colours_unless_told_otherwise(
    run: Run, terminal: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statuses are coloured on a terminal; NO_COLOR and a dumb terminal have none."""
    terminal(120)
    assert ESCAPE in run(routes_command)[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert ESCAPE not in run(routes_command)[1]
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert ESCAPE not in run(routes_command)[1]


def test_one_runtime_is_shown_claim_by_claim(run: Run) -> None:
    """With a runtime, its routes are shown with everything that the registry says of them, and no other runtime."""
    _, out = run(routes_command, "claude")
    for words in (
        "mcp__opask__ask_user_question",
        "AskUserQuestion",
        "mcp-http",
        "native",
        "call-timeout",
        "30 min",
    ):
        assert words in out
    assert "kimi" not in out


def test_json_has_what_a_program_needs(run: Run, tmp_path: Path) -> None:
    """The JSON form gives each route's derived answer, the versions, and the row's own claims."""
    install(tmp_path, "acme", "acme 1.2.3")
    code, out = run(
        routes_command, "acme", "--json", "--registry", str(own(tmp_path, wait={"ceiling_s": "unbounded"}))
    )
    found = json.loads(out)
    (route,) = found["routes"]
    assert (code, found["schema_version"], found["data_version"]) == (0, 1, 1)
    expected = {
        "runtime": "acme",
        "route": "mcp-stdio",
        "status": "verified",
        "questions": True,
        "drift": "same",
    }
    assert expected.items() <= route.items()
    assert (route["installed"], route["installed_version"], route["seen_version"]) == (True, "1.2.3", "1.2.3")
    assert route["row"]["wait"] == {"ceiling_s": "unbounded"}


def test_the_whole_registry_is_json(run: Run) -> None:
    """Every shipped row can be printed as JSON, and none is true that is not verified."""
    _, out = run(routes_command, "--json")
    routes = json.loads(out)["routes"]
    assert len(routes) == sum(len(row.routes) for row in Registry.shipped().runtimes.values())
    assert all(route["questions"] == (route["status"] == "verified") for route in routes)


def test_an_unknown_runtime_is_named_with_the_known(run: Run) -> None:
    """A runtime that the registry does not have is an error that lists those that it has."""
    with pytest.raises(UsageError, match=r"no runtime 'clod'.*claude"):
        run(routes_command, "clod")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["routes", "--no-versions"], 0, ""),
        (["registry", "check"], 0, ""),
        (["registry", "check", "gone.toml"], 2, "opask registry: gone.toml: there is no such file"),
        (["routes", "clod"], 2, "opask routes: the registry has no runtime 'clod'"),
        (["routes", "--registry", "gone.toml"], 2, "opask routes: gone.toml: cannot be read"),
        (["registry"], 2, "opask registry: the following arguments are required: COMMAND"),
        (["routes", "--help"], 0, ""),
        (["registry", "check", "--help"], 0, ""),
    ],
)
def test_the_commands_exit_as_all_do(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    """Through the command line: 0 done, 1 something was found, 2 unusable, with one line on standard error."""
    assert main(arguments) == code
    err = capsys.readouterr().err
    assert err.startswith(words)
    assert err.count("\n") == (1 if words else 0)


@pytest.mark.parametrize("arguments", [["routes"], ["registry"], ["registry", "check"]])
def test_help_has_an_example(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """The help of each command ends in an example of it."""
    main([*arguments, "--help"])
    assert f"example: opask {' '.join(arguments)}" in capsys.readouterr().out


def test_a_registry_s_text_cannot_fool_a_terminal(run: Run, tmp_path: Path) -> None:
    """Escapes in a registry file are shown and have no effect."""
    path = own(tmp_path, notes="\033[2Jgone", arguments="\033]0;x\007", spellings={"model": "a\u202eb"})
    for arguments in ([], ["acme"]):
        _, out = run(routes_command, *arguments, "--registry", str(path))
        assert not {"\033", "\007", "\u202e"} & set(out)


# -- opask registry check --------------------------------------------------------------------------------------


def test_the_tree_s_own_registry_is_sound(run: Run) -> None:
    """On this tree the check has no error, and exits with 0."""
    code, out = run(registry_command, "check")
    assert code == 0, out
    assert out.splitlines()[-1].startswith("registry.toml: no errors")


def test_an_error_fails_the_check(run: Run, tmp_path: Path) -> None:
    """A claim without its evidence exits with 1, and names rule, row and remedy."""
    code, out = run(registry_command, "check", str(own(tmp_path)))
    assert code == 1
    assert (
        "error recording-exists: acme/mcp-stdio@1.2.3: its recording gone.jsonl is not there\n  add it" in out
    )
    assert ESCAPE not in out


def test_findings_as_json(run: Run, tmp_path: Path) -> None:
    """The JSON form counts errors and warnings, and gives each finding's parts by name."""
    code, out = run(registry_command, "check", "--json", str(own(tmp_path)))
    found = json.loads(out)
    assert code == 1
    assert found["errors"] == sum(finding["severity"] == "error" for finding in found["findings"])
    assert set(found["findings"][0]) == {"rule", "severity", "where", "line", "message", "remedy"}
    assert str(tmp_path) not in out


def test_a_warning_does_not_fail_the_check(run: Run, tmp_path: Path) -> None:
    """Drift is told where versions are asked for, and the check passes all the same."""
    (tmp_path / "probes/recordings").mkdir(parents=True)
    (tmp_path / "probes/recordings/stray.jsonl").write_text(
        '{"runtime": "a", "version": "1", "route": "r", "date": "2026-11-30", "command": []}\n'
    )
    path = own(tmp_path, status="untested", observations=[])
    code, out = run(registry_command, "check", str(path))
    assert code == 0
    assert "warning recording-is-claimed" in out
    assert out.endswith("own.toml: no errors, 1 warning\n")


def test_installed_versions_are_compared_on_request(run: Run, tmp_path: Path) -> None:
    """With --installed an installed version other than the seen one is a warning; without it nothing is run."""
    install(tmp_path, "acme", "acme 1.3.0")
    path = str(own(tmp_path))
    assert "the version installed here is 1.3.0" in run(registry_command, "check", "--installed", path)[1]
    assert "1.3.0" not in run(registry_command, "check", path)[1]


@pytest.mark.parametrize("content", ["[[", "schema_version = 9", "schema_version = 1", ""])
def test_a_file_that_is_no_registry_is_a_finding(run: Run, tmp_path: Path, content: str) -> None:
    """What cannot be read exits with 1, with a rule, a place and a remedy like any other finding."""
    path = tmp_path / "own.toml"
    path.write_text(content)
    code, out = run(registry_command, "check", "--installed", str(path))
    assert code == 1
    assert out.startswith("error schema: ")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (('status = "untested"\nspell', 'status = "verified"\nspell'), "status-has-evidence"),
        (('status = "untested"\nspell', 'status = "refuted"\nspell'), "status-has-evidence"),
        (("__ask_user_question", "__ask_operator"), "spellings-are-real"),
        (('"always-load"', '"load-always"'), "levers-are-real"),
        (("default_s", "default_seconds"), "schema"),
    ],
)
def test_a_row_that_claims_too_much_is_caught(
    run: Run, tmp_path: Path, change: tuple[str, str], rule: str
) -> None:
    """Editing the shipped claude row to what nothing bears out fails the check, with the rule's name."""
    text = shipped_path().read_text()
    start = text.index("[[runtimes.claude.routes]]")
    path = tmp_path / "registry.toml"
    path.write_text(text[:start] + text[start:].replace(*change, 1))
    code, out = run(registry_command, "check", str(path))
    assert code == 1
    assert f"error {rule}: claude" in out


# -- tables ----------------------------------------------------------------------------------------------------


def test_columns_line_up() -> None:
    """Cells stand under their names, and nothing trails."""
    out = table.table(["A", "LONG NAME"], [["one", "x"], ["two and more", ""]])
    assert out == "A             LONG NAME\none           x\ntwo and more\n"


def test_a_wide_table_becomes_blocks() -> None:
    """What does not fit becomes a block for each row, its keys above and its empty cells left out."""
    out = table.table(["A", "B", "C"], [["one", "two", ""], ["three", "", "four"]], keys=1, columns=8)
    assert out == "one\n  b: two\n\nthree\n  c: four\n"


def test_definitions_are_wrapped_beside_their_names() -> None:
    """A long text goes on under its own start where there is room, and under its name where there is not."""
    pairs = [("Name", "some words that are long"), ("N", "short")]
    assert table.definitions(pairs, columns=34) == "  Name  some words that are long\n  N     short\n"
    assert table.definitions(pairs, columns=24) == "  Name: some words that\n    are long\n  N: short\n"
    assert table.definitions(pairs) == "  Name  some words that are long\n  N     short\n"
