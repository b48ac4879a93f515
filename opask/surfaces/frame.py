"""What a card is drawn into and with: a size, a measure of text, and characters."""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import frozen

from opask.surfaces.cells import Measure, clip, wrap

__all__ = ["ASCII", "UNICODE", "Frame", "Glyphs", "Line"]

Line: TypeAlias = tuple[tuple[str, str], ...]
"""A row: pairs of a style's name and text."""


@frozen
class Glyphs:
    """The characters that a card is drawn with; each takes one cell."""

    top: str
    side: str
    bottom: str
    rule: str
    focus: str
    check: str
    dot: str
    dash: str
    cross: str
    up: str
    down: str
    left: str
    ellipsis: str


UNICODE: Final = Glyphs("╭", "│", "╰", "─", "❯", "✓", "·", "–", "×", "↑", "↓", "←", "…")
ASCII: Final = Glyphs("+", "|", "+", "-", ">", "*", "-", "-", "x", "^", "v", "<", "~")


@frozen
class Frame:
    """What a card is drawn into.

    Args:
        width: cells in a row.
        height: rows.
        measure: how many cells a text takes on this screen.
        glyphs: what to draw with.
    """

    width: int
    height: int
    measure: Measure
    glyphs: Glyphs = UNICODE

    @property
    def inner(self) -> int:
        """Cells in a row beside the card's edge."""
        return max(1, self.width - 2)

    @property
    def edge(self) -> Line:
        """The start of every row of a card, so that no text of an agent ever stands at the start of a row."""
        return (("edge", f"{self.glyphs.side} "),)

    def wrap(self, text: str, width: int) -> tuple[str, ...]:
        """Break a text into rows."""
        return wrap(text, max(1, width), self.measure)

    def clip(self, text: str, width: int) -> str:
        """Cut a text to a width."""
        return clip(text, max(0, width), self.measure, ellipsis=self.glyphs.ellipsis)

    def fit(self, line: Line) -> Line:
        """Cut a row to the frame's width, if it is longer."""
        if self.measure("".join(text for _, text in line)) <= self.width:
            return line
        parts: list[tuple[str, str]] = []
        room = self.width
        for style, text in line:
            parts.append((style, self.clip(text, room)))
            room = max(0, room - self.measure(text))
        return tuple(parts)
