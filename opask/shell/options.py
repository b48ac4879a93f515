"""Hold a command's words to its lists of options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from opask.shell.values import Command, Word

__all__ = ["check_words", "operands_of"]

_Takes: TypeAlias = Literal["none", "one", "maybe"]
_DIGITS: Final = re.compile(r"-\d+")
_NUMBER: Final = re.compile(r"[-+]?\d+[A-Za-z]{0,2}")


def check_words(command: Command, words: Sequence[Word]) -> str | None:
    """Return why a command's words may change something; None where each is on its lists."""
    if command.check is not None:
        return command.check(words)
    return operands_of(command, words)[1]


def operands_of(command: Command, words: Sequence[Word]) -> tuple[tuple[Word, ...], str | None]:
    """Return the words that are no options, and what is wrong with the rest.

    A long option has to be written out: a shortened one is unknown. A value in a word of its own must not look like an
    option, so that an implementation in which the option takes none reads no more into it than an operand.
    """
    takes = _short(command.short)
    operands: list[Word] = []
    at, options = 0, True
    while at < len(words):
        word = words[at]
        at += 1
        if options and word.is_fixed and word.text == "--":
            options = False
        elif not options or word.is_operand:
            operands.append(word)
        elif not word.is_fixed:
            if not command.harmless:
                return (), "may become an option when it is expanded; put -- or ./ before it"
            operands.append(word)
        elif command.digits and _DIGITS.fullmatch(word.text):
            continue
        else:
            kind = _long(command, word.text) if word.text.startswith("--") else _cluster(takes, word.text)
            if kind is None:
                return (), "is no option that is known to only read"
            if kind == "one":
                if at == len(words):
                    return (), "lacks its value"
                if not _is_value(command, words[at]):
                    return (), "has a value that may be an option"
                at += 1
    if command.operands is not None and (
        len(operands) > command.operands or not all(word.is_single for word in operands)
    ):
        return (), f"takes {command.operands or 'no'} operands here"
    return tuple(operands), None


def _is_value(command: Command, word: Word) -> bool:
    if word.is_operand or (word.is_fixed and _NUMBER.fullmatch(word.text)):
        return True
    return command.harmless and not word.is_fixed


def _short(spec: str) -> dict[str, _Takes]:
    kinds: dict[str, _Takes] = {"": "none", ":": "one", "::": "maybe"}
    return {letter: kinds[colons] for letter, colons in re.findall(r"([^:])(:{0,2})", spec)}


def _cluster(takes: dict[str, _Takes], text: str) -> _Takes | None:
    """Read ``-abc``; return whether its last option wants the next word, None where one is unknown."""
    letters = text[1:]
    while letters:
        kind = takes.get(letters[0])
        if kind is None:
            return None
        letters = letters[1:]
        if kind == "one":
            return "none" if letters else "one"
        if kind == "maybe":
            return "none"
    return "none"


def _long(command: Command, text: str) -> _Takes | None:
    name, glue, _ = text[2:].partition("=")
    if glue:
        return "none" if command.long & {f"{name}=", f"{name}=?"} else None
    if command.long & {name, f"{name}=?"}:
        return "none"
    return "one" if f"{name}=" in command.long else None
