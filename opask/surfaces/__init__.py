"""Where an operator sees a question and answers it; each surface is a prompter of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from opask.surfaces.plain import PlainPrompter
    from opask.surfaces.terminal import TerminalPrompter

__all__ = ["prompter_for_terminal"]


def prompter_for_terminal(
    *,
    stdin: TextIO | None = None,
    stdout: TextIO | None = None,
    term: str | None = None,
    on_interrupt: Callable[[], object] | None = None,
) -> TerminalPrompter | PlainPrompter:
    """Return the best prompter that this process's standard streams allow.

    Args:
        stdin: where the operator's keys come from; standard input unless told.
        stdout: where questions go; standard output unless told.
        term: what kind of terminal it is; as the environment's ``TERM`` says unless told.
        on_interrupt: what Ctrl-C on an open card calls, after it has cancelled the ask.

    Returns:
        Cards where both are terminals that can draw them and prompt_toolkit is installed, else plain lines.
    """
    stdin = stdin if stdin is not None else sys.stdin
    stdout = stdout if stdout is not None else sys.stdout
    term = os.environ.get("TERM", "") if term is None else term
    if term not in {"", "dumb", "unknown"} and _is_terminal(stdin) and _is_terminal(stdout):
        try:
            from opask.surfaces.terminal import TerminalPrompter
        except ImportError:
            pass
        else:
            return TerminalPrompter(stdin=stdin, stdout=stdout, on_interrupt=on_interrupt)
    from opask.surfaces.plain import PlainPrompter

    return PlainPrompter(stdin=stdin, stdout=stdout)


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False
