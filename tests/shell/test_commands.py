"""What the read-only profile says of single commands."""

from __future__ import annotations

import pytest

from commands_of_shell import EXTERNAL, READS, WRITES
from opask.shell import DEFAULT, Command, ReadOnly, Write, classify


@pytest.mark.parametrize("command", READS)
def test_a_command_of_known_words_is_a_read(command: str) -> None:
    """A command whose every word and option is on the lists is admitted."""
    assert classify(command) == ReadOnly()


@pytest.mark.parametrize("command", WRITES)
def test_a_command_with_anything_else_is_a_write(command: str) -> None:
    """A command with a word, option, expansion or form that is not on the lists is a write, with a reason."""
    verdict = classify(command)
    assert isinstance(verdict, Write)
    assert verdict.reason
    assert verdict.effect == "write"


@pytest.mark.parametrize("command", EXTERNAL)
def test_a_command_that_reaches_other_machines_is_external(command: str) -> None:
    """Wherever in a command a program is named that reaches other machines, its effect is external."""
    verdict = classify(command)
    assert isinstance(verdict, Write)
    assert verdict.effect == "external"


def test_a_host_adds_a_command() -> None:
    """What a host adds to the profile is a read with the options that it lists, and no others."""
    profile = DEFAULT.with_commands({"tokei": Command("f", "files sort=")})
    assert classify("tokei -f --sort=lines src", profile) == ReadOnly()
    assert isinstance(classify("tokei --output x", profile), Write)
    assert isinstance(classify("tokei -f"), Write)


def test_a_host_takes_a_command_away() -> None:
    """What a host takes from the profile is a write; a name that is not there is an error."""
    assert isinstance(classify("ps aux | head", DEFAULT.without("ps")), Write)
    with pytest.raises(KeyError):
        DEFAULT.without("none")


def test_a_verdict_says_what_is_at_fault() -> None:
    """The part of a long command that is not admitted is named, on one inert line."""
    verdict = classify("ls -la && find . -name '*.py' -delete | wc -l")
    assert isinstance(verdict, Write)
    assert verdict.where == "find . -name '*.py' -delete"
    assert "find" in verdict.reason
    hostile = classify("touch '\x1b[2Jx'")
    assert isinstance(hostile, Write)
    assert "\x1b" not in hostile.where


@pytest.mark.parametrize("word", ["git ", "npm ", "hg ", "git push "])
@pytest.mark.timeout(60)
def test_a_huge_command_is_a_write_without_much_work(word: str) -> None:
    """Telling the effect of a command takes a time that grows with its length alone, however long an agent makes it."""
    verdict = classify(word * 300_000)
    assert isinstance(verdict, Write)
    assert (verdict.effect == "external") == ("push" in word)
