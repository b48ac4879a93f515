"""Text in cells: wrapping and cutting by what is seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from opask.inert import inert
from opask.surfaces.cells import clip, pad, wrap

TEXTS = st.text(
    st.sampled_from(" ab漢\u0301字é👩\u200d👧-\n")
    | st.characters(categories=["L", "M", "N", "P", "S", "Zs"]),
    max_size=80,
).map(inert)


def plain(text: str) -> str:
    """Give a text without what wrapping may take away or put in."""
    return "".join(text.split())


@given(TEXTS, st.integers(1, 30))
def test_a_row_is_never_too_wide(text: str, width: int) -> None:
    """No row takes more cells than it may, but for a single character that is wider than the row."""
    for row in wrap(text, width, get_cwidth):
        assert get_cwidth(row) <= width or get_cwidth(row) <= 2 or "\u200d" in row


@given(TEXTS, st.integers(1, 30))
def test_wrapping_loses_nothing(text: str, width: int) -> None:
    """Everything but spaces at the breaks is still there, in order."""
    assert plain("".join(wrap(text, width, get_cwidth))) == plain(text)


@given(TEXTS, st.integers(2, 30))
def test_a_row_never_starts_with_a_mark(text: str, width: int) -> None:
    """A combining mark stays on the row of its letter."""
    for row in wrap(text, width, get_cwidth)[1:]:
        if row and get_cwidth(row[0]) == 0:
            assert any(line.lstrip().startswith(row[0]) or f" {row[0]}" in line for line in text.split("\n"))


@pytest.mark.parametrize(
    ("text", "width", "rows"),
    [
        ("", 5, ("",)),
        ("one two three", 7, ("one two", "three")),
        ("one  two", 8, ("one  two",)),
        ("one\ntwo", 9, ("one", "two")),
        ("  in\nout", 9, ("  in", "out")),
        ("a\tb", 9, ("a   b",)),
        ("abcdefgh", 3, ("abc", "def", "gh")),
        ("a bcdefgh", 4, ("a bc", "defg", "h")),
        ("漢字漢字", 5, ("漢字", "漢字")),
        ("漢字", 1, ("漢", "字")),
        ("e\u0301e\u0301e\u0301", 2, ("e\u0301e\u0301", "e\u0301")),
        ("👩\u200d👧👩\u200d👧", 4, ("👩\u200d👧", "👩\u200d👧")),
        ("trailing   ", 20, ("trailing",)),
    ],
)
def test_where_rows_break(text: str, width: int, rows: tuple[str, ...]) -> None:
    """Rows break at spaces where there are any, else between characters, never inside one."""
    assert wrap(text, width, get_cwidth) == rows


@given(TEXTS, st.integers(0, 30))
def test_a_cut_text_fits(text: str, width: int) -> None:
    """A text that is cut fits, and one that fits is not cut."""
    cut = clip(text, width, get_cwidth)
    assert get_cwidth(cut) <= width
    assert cut == text or cut.endswith("…") or width == 0


@pytest.mark.parametrize(
    ("text", "width", "cut"),
    [
        ("PostgreSQL", 10, "PostgreSQL"),
        ("PostgreSQL", 5, "Post…"),
        ("漢字漢字", 4, "漢…"),
        ("ab", 1, "…"),
        ("ab", 0, ""),
    ],
)
def test_where_a_text_is_cut(text: str, width: int, cut: str) -> None:
    """The ellipsis is within the width, and no wide character is cut in half."""
    assert clip(text, width, get_cwidth) == cut


def test_padding_counts_cells() -> None:
    """Padding fills up to cells, not to characters."""
    assert pad("漢", 4, get_cwidth) == "漢  "
    assert pad("four", 2, get_cwidth) == "four"
