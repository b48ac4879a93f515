"""A terminal's screen: how cards and lines of text get on it, and in which colours."""

from __future__ import annotations

import os
from typing import Final, TextIO

from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import print_formatted_text
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth

from opask.surfaces.frame import ASCII, UNICODE, Frame, Line

__all__ = ["STYLE", "Screen", "fragments", "frame_of", "print_fragments", "screen"]

_WIDEST = 100  # cells; longer rows read badly

# Names of the terminal's own palette only, so that cards look like the rest of it.
STYLE: Final = Style.from_dict(
    {
        "edge": "ansicyan",
        "more": "ansiyellow bold",
        "tag": "ansicyan bold",
        "who": "dim",
        "question": "bold",
        "focus": "ansicyan bold",
        "number": "dim",
        "label": "",
        "other": "dim",
        "chosen": "ansigreen bold",
        "description": "dim",
        "key": "bold",
        "keys": "dim",
        "note": "ansiyellow",
        "asked": "",
        "check": "ansigreen bold",
        "answer": "bold",
        "skipped": "dim",
        "plain": "",
        "dim": "dim",
        "strong": "bold",
        "warning": "ansiyellow",
    }
)


def fragments(lines: tuple[Line, ...], *, end: str = "") -> StyleAndTextTuples:
    """Turn lines into what prompt_toolkit prints, with newlines between them and ``end`` after the last."""
    result: StyleAndTextTuples = []
    for at, line in enumerate(lines):
        result += [(f"class:{style}" if style else "", text) for style, text in line]
        result.append(("", "\n" if at < len(lines) - 1 else end))
    return result


def frame_of(output: Output) -> Frame:
    """Return what a card can be drawn into on a terminal as it is now."""
    size = output.get_size()
    glyphs = UNICODE if (output.encoding() or "utf-8").lower().startswith("utf") else ASCII
    return Frame(max(1, min(size.columns, _WIDEST)), max(1, size.rows), get_cwidth, glyphs)


def print_fragments(output: Output, parts: StyleAndTextTuples) -> None:
    """Print text at the cursor; text that a terminal would obey is not passed on."""
    print_formatted_text(output, parts, STYLE)
    output.flush()


class Screen(Vt100_Output):
    """A terminal that understands VT100's sequences, as all that are not dumb do."""

    def erase_down(self) -> None:
        """Erase from the cursor, which is in the first column, to the end of the screen.

        Some terminals (tmux) put the screen's text into the scroll-back where all of it is erased at once: a card
        at the top of the screen would stay there each time that it is drawn anew. So the first row goes by itself.
        """
        self.write_raw("\x1b7\x1b[K\x1b[B\x1b[J\x1b8")


def screen(stdout: TextIO) -> Screen:
    """Return the screen behind a stream, without colours where the environment's ``NO_COLOR`` is set."""

    def size() -> Size:
        try:
            columns, rows = os.get_terminal_size(stdout.fileno())
        except (OSError, ValueError):
            columns, rows = 0, 0
        return Size(rows=rows or 24, columns=columns or 80)

    # No cursor position requests: their answers would come in between keys, and some terminals give none.
    return Screen(
        stdout, size, term=os.environ.get("TERM"), default_color_depth=ColorDepth.from_env(), enable_cpr=False
    )
