"""Text in the cells of a terminal: how it is broken into rows and cut, by what it takes up on the screen.

How many cells a character takes is the caller's to say, since only a screen's own library knows what it draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TypeAlias

__all__ = ["Measure", "clip", "pad", "wrap"]

Measure: TypeAlias = Callable[[str], int]
"""How many cells a text takes."""

_JOINER = "\u200d"


def _clusters(text: str, measure: Measure) -> Iterator[str]:
    """Yield what must not be torn apart: a character with the marks on it, and what a joiner joins."""
    cluster = ""
    for character in text:
        if cluster and measure(character) > 0 and not cluster.endswith(_JOINER):
            yield cluster
            cluster = ""
        cluster += character
    if cluster:
        yield cluster


def clip(text: str, width: int, measure: Measure, *, ellipsis: str = "…") -> str:
    """Return the text cut to at most ``width`` cells, with an ellipsis where something is missing."""
    if measure(text) <= width:
        return text
    room, kept, taken = width - measure(ellipsis), "", 0
    for cluster in _clusters(text, measure):
        taken += measure(cluster)
        if taken > room:
            break
        kept += cluster
    return kept.rstrip() + ellipsis if room >= 0 else ""


def pad(text: str, width: int, measure: Measure) -> str:
    """Return the text with spaces after it up to ``width`` cells."""
    return text + " " * (width - measure(text))


@lru_cache(maxsize=1024)
def wrap(text: str, width: int, measure: Measure) -> tuple[str, ...]:
    """Break text into rows of at most ``width`` cells, at spaces where there are any.

    Newlines in the text stay; a word that is longer than a row is broken. A single character that is wider
    than a row stands on one of its own.
    """
    rows: list[str] = []
    for line in text.expandtabs(4).split("\n"):
        rows += _wrapped(line.rstrip(), max(width, 1), measure)
    return tuple(rows)


def _wrapped(line: str, width: int, measure: Measure) -> list[str]:
    indent = line[: len(line) - len(line.lstrip(" "))] if measure(line) <= width else ""
    rows: list[str] = []
    row, taken, gap = indent, len(indent), ""
    for word in line[len(indent) :].split(" "):
        if not word:
            gap += " "
            continue
        size = measure(word)
        if taken + len(gap) + size <= width:
            row, taken = row + gap + word, taken + len(gap) + size
        elif size <= width:
            rows.append(row)
            row, taken = word, size
        else:
            if taken + len(gap) < width:
                row, taken = row + gap, taken + len(gap)
            for cluster in _clusters(word, measure):
                size = measure(cluster)
                if taken and taken + size > width:
                    rows.append(row)
                    row, taken = "", 0
                row, taken = row + cluster, taken + size
        gap = " "
    return [*rows, row]
