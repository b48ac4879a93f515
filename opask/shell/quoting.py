"""A second reading of a command's quotes and comments, by the shell's own rules (POSIX XCU 2.2 and 2.3).

It holds a syntax tree to what the shell will see: where the two do not agree on what is quoted and what is a comment,
the command is not read.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

__all__ = ["Span", "quoted_spans"]

Span: TypeAlias = tuple[Literal["raw_string", "string", "comment"], int, int]

_BREAKS: Final = " \t\n;&|()<>"


def quoted_spans(text: str) -> frozenset[Span] | None:
    """Return every quoted part and comment of a command, with its quotes; None where it cannot be told.

    Args:
        text: the command, without backticks and here-documents, which this reading does not know. ``$'…'`` it knows
            only to tell that it cannot tell.
    """
    found: set[Span] = set()
    open_: list[int | None] = []  # the start of each double quote we are in; None for a parenthesis
    at = 0
    while at < len(text):
        character = text[at]
        in_quotes = bool(open_) and open_[-1] is not None
        if character == "\\":
            at += 2
            continue
        if character == '"':
            start = open_.pop() if in_quotes else None
            if start is None:
                open_.append(at)
            else:
                found.add(("string", start, at + 1))
        elif text.startswith("$(", at):
            open_.append(None)
            at += 1
        elif in_quotes:
            pass
        elif text.startswith(("$'", '$"'), at):
            return None
        elif character == "'":
            end = text.find("'", at + 1)
            if end < 0:
                return None
            found.add(("raw_string", at, end + 1))
            at = end
        elif character == "(":
            open_.append(None)
        elif character == ")":
            if not open_:
                return None
            open_.pop()
        elif character == "#" and (at == 0 or text[at - 1] in _BREAKS):
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            found.add(("comment", at, end))
            at = end - 1
        at += 1
    return None if open_ else frozenset(found)
