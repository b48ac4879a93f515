"""What the read-only profile is made of, and what it says of a command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from attrs import evolve, field, frozen

__all__ = ["Check", "Command", "Effect", "Profile", "ReadOnly", "Verdict", "Word", "Write"]

Effect: TypeAlias = Literal["write", "external"]
"""What an action changes: something here, or something elsewhere that cannot be taken back (a push, a request)."""


@frozen
class ReadOnly:
    """Every word of the command is on the profile's lists: it reads, and changes nothing."""


@frozen
class Write:
    """The command changes something, or may, or cannot be read.

    Args:
        reason: why it is not admitted, for a person; as it was written, not inert.
        where: the part of the command that is at fault.
        effect: ``external`` where a program is named that is known to reach other machines.
    """

    reason: str
    where: str
    effect: Effect = "write"


Verdict: TypeAlias = ReadOnly | Write


@frozen
class Word:
    """One word of a command, as far as it is known before the shell expands it.

    Args:
        text: its value, or where that is not known the part before the first expansion.
        is_fixed: whether `text` is the whole value of exactly one word.
        is_single: whether it becomes exactly one word: nothing in it is split, and no pattern is matched with files.
        splits: whether an expansion in it is split at blanks, so that it may become any words.
        source: the word as it is written.
    """

    text: str
    is_fixed: bool
    is_single: bool
    splits: bool
    source: str

    @property
    def is_operand(self) -> bool:
        """Whether it surely is no option, whatever it expands to."""
        if self.is_fixed:
            return not self.text.startswith("-") or self.text == "-"
        return bool(self.text) and not self.text.startswith("-") and not self.splits


Check: TypeAlias = Callable[[Sequence[Word]], str | None]
"""Looks at the words behind a command's name; returns why they may change something, None where they do not."""


def _names(value: str | Iterable[str]) -> frozenset[str]:
    return frozenset(value.split() if isinstance(value, str) else value)


@frozen
class Command:
    """The words that a command may have and still be a read.

    Args:
        short: its short options, as getopt(3) writes them: ``a`` takes no value, ``b:`` takes one, ``c::`` may have one
            in the same word.
        long: its long options, parted by blanks: ``all``, ``lines=`` with a value, ``color=?`` with or without.
        operands: how many words beside options there may be; None for any number.
        harmless: whether no option of it whatsoever, in any of its implementations, writes or starts anything, so that
            words which are known only at run time may stand anywhere.
        digits: whether a number may stand in place of an option (``-20``).
        check: looks at all words in place of these lists.
    """

    short: str = ""
    long: frozenset[str] = field(default=frozenset(), converter=_names)
    operands: int | None = None
    harmless: bool = False
    digits: bool = False
    check: Check | None = field(default=None, eq=False)


def _commands(value: Mapping[str, Command]) -> Mapping[str, Command]:
    return dict(value)


@frozen
class Profile:
    """The commands that are reads.

    Args:
        commands: by name.
        variables: what may be set for one command (``NAME=value ls``): ``NAME`` to any plain value, ``NAME=value`` to
            that one.
        loop_variables: what a ``for`` loop may set.
        network: programs that are known to reach other machines.
    """

    commands: Mapping[str, Command] = field(converter=_commands)
    variables: frozenset[str] = field(converter=_names)
    loop_variables: frozenset[str] = field(converter=_names)
    network: frozenset[str] = field(converter=_names)

    def with_commands(self, commands: Mapping[str, Command]) -> Profile:
        """Return the profile with more commands, or others in place of its own.

        What is added is the host's word that these words are reads: a command that starts another is not.
        """
        return evolve(self, commands={**self.commands, **commands})

    def without(self, *names: str) -> Profile:
        """Return the profile without some of its commands.

        Raises:
            KeyError: it has no such command.
        """
        for name in names:
            self.commands[name]
        return evolve(
            self, commands={name: each for name, each in self.commands.items() if name not in names}
        )

    def changed(self, **changes: Any) -> Profile:
        """Return the profile with other fields."""
        return evolve(self, **changes)
