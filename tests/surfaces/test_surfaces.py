"""Which prompter a process's standard streams get."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from opask.surfaces import prompter_for_terminal
from opask.surfaces.plain import PlainPrompter
from opask.surfaces.terminal import TerminalPrompter
from surfaces.stage import terminal


def test_a_terminal_gets_cards() -> None:
    """Where both ends are a terminal that can draw, the operator gets cards."""
    with terminal() as (_, stdin, stdout):
        prompter = prompter_for_terminal(stdin=stdin, stdout=stdout, term="xterm-256color")
        assert isinstance(prompter, TerminalPrompter)
        assert prompter.available("session-1")


@pytest.mark.parametrize("term", ["dumb", "", "unknown"])
def test_a_dumb_terminal_gets_plain_lines(term: str) -> None:
    """A terminal that cannot draw gets plain lines."""
    with terminal() as (_, stdin, stdout):
        prompter = prompter_for_terminal(stdin=stdin, stdout=stdout, term=term)
        assert isinstance(prompter, PlainPrompter)
        assert prompter.available("session-1")


def test_the_environment_names_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless told, the kind of terminal is what TERM says."""
    with terminal() as (_, stdin, stdout):
        monkeypatch.setenv("TERM", "dumb")
        assert isinstance(prompter_for_terminal(stdin=stdin, stdout=stdout), PlainPrompter)
        monkeypatch.setenv("TERM", "xterm")
        assert isinstance(prompter_for_terminal(stdin=stdin, stdout=stdout), TerminalPrompter)
        monkeypatch.delenv("TERM")
        assert isinstance(prompter_for_terminal(stdin=stdin, stdout=stdout), PlainPrompter)


def test_a_pipe_at_either_end_gets_plain_lines(tmp_path: Path) -> None:
    """Where keys or cards would go through a pipe or a file, the operator gets plain lines."""
    with (
        terminal() as (_, stdin, stdout),
        (tmp_path / "out").open("w") as out,
        Path(os.devnull).open() as null,
    ):
        assert isinstance(prompter_for_terminal(stdin=stdin, stdout=out, term="xterm"), PlainPrompter)
        assert isinstance(prompter_for_terminal(stdin=null, stdout=stdout, term="xterm"), PlainPrompter)


def test_without_prompt_toolkit_there_are_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the extra is not installed, a terminal gets plain lines."""
    monkeypatch.setitem(sys.modules, "opask.surfaces.terminal", None)
    with terminal() as (_, stdin, stdout):
        assert isinstance(prompter_for_terminal(stdin=stdin, stdout=stdout, term="xterm"), PlainPrompter)


def test_a_process_without_streams_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose standard streams are closed has no operator, and that is no error."""
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "stdout", None)
    prompter = prompter_for_terminal(term="xterm")
    assert isinstance(prompter, PlainPrompter)
    assert not prompter.available("session-1")
    prompter.write("to nobody\n")
