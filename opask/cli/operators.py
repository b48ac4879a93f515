"""Who the operator of a run is: the one at this terminal, a script, or nobody."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from opask.cli import UsageError

__all__ = ["Operator", "add_arguments", "chosen", "read_answers"]


@frozen
class Operator:
    """Who is asked.

    Args:
        surface: ``terminal``, ``web`` or ``none``.
        answers: the script, in place of a surface.
    """

    surface: str
    answers: Mapping[str, Any] | None = None


def add_arguments(parser: argparse.ArgumentParser, *surfaces: str) -> None:
    """Add the arguments that choose the operator; the first surface is the default."""
    parser.add_argument(
        "--surface",
        choices=surfaces,
        default=surfaces[0],
        help=f"where questions are shown (default: {surfaces[0]})"
        "; web: on a page, whose link is printed"
        + ("; none: nobody is there, the agent gets no ask tool" if "none" in surfaces else ""),
    )
    parser.add_argument(
        "--answers",
        metavar="JSON|@FILE",
        help="answer from a script instead: an object from question text to label, list of labels or free text; "
        "null skips; @FILE reads it from a file",
    )


def chosen(args: argparse.Namespace) -> Operator:
    """Return the operator that the arguments choose.

    Raises:
        UsageError: the answers cannot be read.
    """
    return Operator(args.surface, None if args.answers is None else read_answers(args.answers))


def read_answers(value: str) -> Mapping[str, Any]:
    """Read scripted answers: JSON, or ``@`` and the name of a file with it, ``@-`` for standard input.

    Raises:
        UsageError: it is no JSON object from question text to a string, a list of strings or null.
    """
    where = "--answers"
    if value.startswith("@"):
        where = f"--answers {value}"
        try:
            value = sys.stdin.read() if value == "@-" else Path(value[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8"
            raise UsageError(f"{where}: cannot be read ({why}); name a file of JSON") from None
    try:
        answers = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise UsageError(f'{where}: no JSON ({error}); write {{"question": "answer"}}, or @FILE') from None
    if not isinstance(answers, dict):
        raise UsageError(f'{where}: has to be an object, {{"question": "answer"}}')
    for question, answer in answers.items():
        parts = answer if isinstance(answer, list) else [answer]
        if answer is not None and (
            not parts or not all(isinstance(part, str) and part.strip() for part in parts)
        ):
            raise UsageError(
                f"{where}: the answer to {question!r} has to be a label, a list of labels, some text, or null to skip"
            )
    return answers
