"""Commands whose words are more than options and operands: what of them only reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from opask.shell.options import operands_of
from opask.shell.sed import only_prints
from opask.shell.values import Command, Word

__all__ = [
    "check_command",
    "check_date",
    "check_exit",
    "check_find",
    "check_printf",
    "check_sed",
    "check_sleep",
    "check_version",
]


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


_ALONE: Final = _names(
    "-a -and -daystart -depth -empty -executable -false -follow -ls -mount -noleaf -not -o -or -print -print0 -prune "
    "-quit -readable -true -writable -xdev ! ( ) , -H -L -P -nouser -nogroup"
)
_WITH_VALUE: Final = _names(
    "-amin -anewer -atime -cmin -cnewer -ctime -fstype -gid -group -ilname -iname -inum -ipath -iregex -iwholename "
    "-links -lname -maxdepth -mindepth -mmin -mtime -name -newer -path -perm -printf -regex -regextype -samefile -size "
    "-type -uid -used -user -wholename -xtype -newermt -newerat -newerct"
)
_VALUE: Final = re.compile(r"(?:[^-]|-\d).*|-[ugo]?[=+-]?[rwx]+|", re.DOTALL)
_DIRECTIVE: Final = re.compile(r"%(?:[-+ #0']*(?:\*|\d+)?(?:\.(?:\*|\d+)?)?[diouxXfeEgGsbqca]|%)")
_NO_EXPRESSION: Final = re.compile(r"[-+]?[\w. ]*")  # zsh and ksh evaluate others: `a[$(cmd)]`, `PATH=1`
_VERSION: Final = frozenset({"--version", "-V", "-version"})
_SED: Final = Command(
    "nEre:uzs", "quiet silent regexp-extended expression= unbuffered null-data posix sandbox separate"
)


def check_find(words: Sequence[Word]) -> str | None:
    """Look at the words of find: folders, and the tests and actions that only print."""
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not word.is_fixed:
            if not word.is_operand:
                return "may become an action when it is expanded; put ./ before it"
        elif word.text in _WITH_VALUE:
            if at == len(words) or not words[at].is_single:
                return "has a value that may become more than one word; quote it"
            if words[at].is_fixed and not _VALUE.fullmatch(words[at].text):
                return "has a value that may be an action"
            at += 1
        elif word.text not in _ALONE and word.text.startswith("-"):
            return "is no test or action that is known to only read"
    return None


def check_printf(words: Sequence[Word]) -> str | None:
    """Look at the words of printf: ``-v`` and ``%n`` set variables, and their subscripts run commands."""
    if words and words[0].is_fixed and words[0].text == "--":
        words = words[1:]
    if not words or not words[0].is_fixed or words[0].text.startswith("-"):
        return "is no plain format"
    if "%" in _DIRECTIVE.sub("", words[0].text):
        return "has a directive that may set a variable"
    takes_number = any(map(_is_numeric, _DIRECTIVE.findall(words[0].text)))
    if takes_number and not all(map(_is_no_expression, words[1:])):
        return "may be an arithmetic expression to some shells; use %s"
    return None


def _is_numeric(directive: str) -> bool:
    return "*" in directive or directive[-1] not in "sbqc%"


def _is_no_expression(word: Word) -> bool:
    return word.is_fixed and _NO_EXPRESSION.fullmatch(word.text) is not None


def check_exit(words: Sequence[Word]) -> str | None:
    """Look at the words of exit: one plain number, which some shells would evaluate."""
    if not words or (len(words) == 1 and words[0].is_fixed and re.fullmatch(r"\d{1,3}", words[0].text)):
        return None
    return "is no plain number"


def check_sed(words: Sequence[Word]) -> str | None:
    """Look at the words of sed: scripts that only print, and files."""
    operands, fault = operands_of(_SED, words)
    if fault is not None:
        return fault
    scripts: list[Word] = []
    for at, word in enumerate(words):
        if not word.is_fixed or not word.text.startswith("-"):
            continue
        if word.text == "--":
            break
        if word.text.startswith("--expression="):
            return "is a script in a form that is not read; use -e"
        cluster = not word.text.startswith("--") and "e" in word.text
        if word.text == "--expression" or cluster:
            if cluster and (not word.text.endswith("e") or word.text.count("e") > 1):
                return "is a script in a form that is not read; use -e"
            if at + 1 == len(words):
                return "lacks its script"
            scripts.append(words[at + 1])
    if not scripts:
        if not operands or operands[0] is not words[_first_operand(words)]:
            return "has no script"
        scripts = [operands[0]]
    for script in scripts:
        if not script.is_fixed or not only_prints(script.text):
            return "is a script that may do more than print"
    return None


def _first_operand(words: Sequence[Word]) -> int:
    for at, word in enumerate(words):
        if not (word.is_fixed and word.text.startswith("-") and word.text != "-"):
            return at
    return 0


def check_date(words: Sequence[Word]) -> str | None:
    """Look at the words of date: an operand that is no format sets the clock."""
    operands, fault = operands_of(
        Command("uRd:r:I::", "utc universal date= reference= iso-8601=? rfc-3339= rfc-email"), words
    )
    if fault is None and not all(word.text.startswith("+") and not word.splits for word in operands):
        return "may set the clock"
    return fault


def check_command(words: Sequence[Word]) -> str | None:
    """Look at the words of command: only ``-v`` and ``-V`` do not run what they name."""
    if len(words) > 1 and words[0].is_fixed and words[0].text in ("-v", "-V"):
        return None
    return "is run"


def check_sleep(words: Sequence[Word]) -> str | None:
    """Look at the words of sleep: one short time."""
    if len(words) == 1 and words[0].is_fixed and re.fullmatch(r"\d{1,3}(?:\.\d+)?s?", words[0].text):
        return None
    return "is no short time in seconds"


def check_version(words: Sequence[Word]) -> str | None:
    """Look at the words of a program that is only asked for its version."""
    if len(words) == 1 and words[0].is_fixed and words[0].text in _VERSION:
        return None
    return "is more than a question for its version"
