"""Tables as text: columns where they fit, a block for each row where they do not."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Literal, TextIO, TypeAlias

from opask.inert import inert_line

__all__ = ["Colour", "colour", "definitions", "is_coloured", "paragraph", "table", "width"]

Colour: TypeAlias = Literal["bold", "dim", "green", "red", "yellow"]

_CODES = {"bold": "1", "dim": "2", "green": "32", "red": "31", "yellow": "33"}
_GAP = "  "


def width(stream: TextIO | None = None) -> int | None:
    """Return the columns of the terminal that a stream goes to; None where it goes to no terminal."""
    stream = sys.stdout if stream is None else stream
    return shutil.get_terminal_size().columns if stream.isatty() else None


def is_coloured(stream: TextIO | None = None) -> bool:
    """Tell whether a stream may be given colours: a terminal that is not told otherwise by NO_COLOR or TERM."""
    stream = sys.stdout if stream is None else stream
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def colour(text: str, name: Colour | None, *, on: bool) -> str:
    """Return a text in a colour, or as it is."""
    return f"\033[{_CODES[name]}m{text}\033[0m" if on and name else text


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    keys: int = 1,
    columns: int | None = None,
    colours: dict[str, Colour] | None = None,
) -> str:
    """Lay out a table.

    Args:
        head: the columns' names.
        rows: the cells, as many as there are names; made inert. An empty one is left out of a block.
        keys: how many of the first columns name a row, and so stand above its block.
        columns: how wide it may be; None for as wide as it comes. What is wider becomes blocks, one a row.
        colours: by the words that are to have them, where the table goes to a terminal.

    Returns:
        The text, its last line ended.
    """
    cells = [[inert_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in [list(head), *cells]) for at in range(len(head))]
    if columns is not None and sum(widths) + len(_GAP) * (len(head) - 1) > columns:
        return _blocks(head, cells, keys, colours or {})
    lines = [_line(head, widths, dict.fromkeys(head, "bold") if colours else {})]
    lines += [_line(row, widths, colours or {}) for row in cells]
    return "".join(f"{line}\n" for line in lines)


def definitions(
    pairs: Sequence[tuple[str, str]], *, columns: int | None = None, colours: dict[str, Colour] | None = None
) -> str:
    """Lay out names with what they stand for, beside each other, the latter wrapped.

    Args:
        pairs: names and texts; made inert.
        columns: how wide it may be; None for as wide as it comes.
        colours: by the texts that are to have them, where this goes to a terminal.
    """
    inner = 2 + max((len(name) for name, _ in pairs), default=0) + len(_GAP)
    if columns is not None and columns < inner + 24:
        inner = 4  # too narrow to stand side by side
    lines = []
    for name, value in pairs:
        start = f"  {inert_line(name)}".ljust(inner) if inner > 4 else f"  {inert_line(name)}: "
        found = _wrapped(start + inert_line(value), columns, " " * inner)
        lines.append(found.replace(value, colour(value, (colours or {}).get(value), on=bool(colours))))
    return "".join(f"{line}\n" for line in lines)


def paragraph(text: str, *, columns: int | None = None, indent: str = "") -> str:
    """Lay out a text, made inert, wrapped where it goes to a terminal."""
    return _wrapped(indent + inert_line(text), columns, indent) + "\n"


def _wrapped(line: str, columns: int | None, indent: str) -> str:
    if columns is None:
        return line
    return textwrap.fill(
        line, max(columns, 20), subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def _line(cells: Sequence[str], widths: Sequence[int], colours: dict[str, Colour]) -> str:
    padded = [cell.ljust(size) for cell, size in zip(cells, widths, strict=True)]
    padded[-1] = cells[-1]
    shown = [
        colour(text, colours.get(cell), on=bool(colours)) for text, cell in zip(padded, cells, strict=True)
    ]
    return _GAP.join(shown).rstrip()


def _blocks(head: Sequence[str], rows: Sequence[Sequence[str]], keys: int, colours: dict[str, Colour]) -> str:
    blocks = []
    for row in rows:
        lines = [colour(" ".join(row[:keys]), "bold", on=bool(colours))]
        lines += [
            f"  {name.lower()}: {colour(cell, colours.get(cell), on=bool(colours))}"
            for name, cell in zip(head[keys:], row[keys:], strict=True)
            if cell
        ]
        blocks.append("".join(f"{line}\n" for line in lines))
    return "\n".join(blocks)
