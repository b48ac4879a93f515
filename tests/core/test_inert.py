from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.values import ANY_TEXT
from opask.inert import encodable, inert, inert_line, shorten

# Text in which what is dangerous is frequent.
HOSTILE = st.one_of(
    ANY_TEXT,
    st.text(st.one_of(st.sampled_from("\x1b\x9b\x07\r\n\t\0\x7f\u202e\u2066\u200b\ufeff\u200dAe\u0301"))),
)
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
JOINERS = "\u200c\u200d"


@given(HOSTILE)
def test_nothing_unsafe_survives(text: str) -> None:
    """No control character but newline and tab, no bidirectional control and no surrogate is left."""
    shown = inert(text)
    unsafe = [
        character
        for character in shown
        if (unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} and character not in "\n\t")
        or character in BIDI
    ]
    assert not unsafe
    shown.encode()


@given(HOSTILE)
def test_what_is_inert_stays_as_it_is(text: str) -> None:
    """Making text inert again changes nothing."""
    assert inert(inert(text)) == inert(text)
    assert inert_line(inert_line(text)) == inert_line(text)


@given(HOSTILE)
def test_a_line_is_one_line(text: str) -> None:
    """Text on one line has no line break and no white space but single blanks between words."""
    line = inert_line(text)
    assert line.splitlines() in ([], [line])
    assert "  " not in line
    assert line == line.strip()


def test_each_invisible_character_is_shown() -> None:
    """Every invisible formatting character of Unicode is made visible, but for joiners and hieroglyph layout."""
    invisible = [
        character
        for character in map(chr, range(0x110000))
        if unicodedata.category(character) == "Cf" and unicodedata.bidirectional(character) == "BN"
        if character not in JOINERS and not 0x13430 <= ord(character) <= 0x1343F
    ]
    assert len(invisible) > 100
    for character in invisible:
        assert inert(f"a{character}b") == f"a<U+{ord(character):04X}>b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\u241b[31mred\u241b[0m"),
        ("\x1b]52;c;aGk=\x07", "\u241b]52;c;aGk=\u2407"),
        ("\x9b31m", "<U+009B>31m"),
        ("\0\x7f", "\u2400\u2421"),
        ("one\r\ntwo\tthree", "one\ntwo\tthree"),
        ("safe\rrm -rf", "safe\u240drm -rf"),
        ("\r\r\n", "\u240d\n"),
        ("abc\u202etxt.exe", "abc<U+202E>txt.exe"),
        ("a\u2028b", "a<U+2028>b"),
        ("pay\u200bpal", "pay<U+200B>pal"),
        ("\ud800", "<U+D800>"),
        ("\U000e0041", "<U+E0041>"),
        ("<b>&amp;</b> [bold]", "<b>&amp;</b> [bold]"),
    ],
)
def test_each_way_to_fool_a_reader(text: str, shown: str) -> None:
    """What would move, colour, hide or reorder is shown by name; markup is text."""
    assert inert(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "Ünïcödé",
        "cafe\u0301",
        "日本語、テスト",
        "עברית",
        "می\u200cخواهم",  # noqa: RUF001 # Persian
        "क\u094d\u200dष",
        "\N{WOMAN}\u200d\N{PERSONAL COMPUTER}",
        "\u2764\ufe0f",
        "a\u00a0b",
    ],
)
def test_writing_is_kept(text: str) -> None:
    """Letters, marks, joiners and emoji of every script come through unchanged."""
    assert inert(text) == text


# -- shortening -------------------------------------------------------------------------------------------------------


@given(HOSTILE, st.integers(-1, 30))
@example("xx", 0)
def test_a_shortened_line_keeps_its_bound(text: str, limit: int) -> None:
    """A shortened line is inert, never longer than the limit, and whole where it fits."""
    short = shorten(text, limit)
    line = inert_line(text)
    assert len(short) <= max(limit, 0)
    assert inert_line(short) == short
    assert shorten(short, limit) == short
    if len(line) <= limit:
        assert short == line
    elif limit > 0:
        assert short.endswith("…")
        assert line.startswith(short.removesuffix("…"))


@pytest.mark.parametrize(
    ("text", "limit", "short"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("abc def", 5, "abc…"),
        ("abc\ndef", 7, "abc def"),
        ("abcdef", 1, "…"),
        ("abcdef", 0, ""),
        ("abcde\u0301f", 6, "abcd…"),
        ("abcde\u0301\u0302fg", 7, "abcd…"),
        ("abcde\u0301f", 7, "abcde\u0301f"),
        ("abc\u2764\ufe0fde", 5, "abc…"),
        ("ab\u0915\u093ecd", 4, "ab…"),
        ("ab\N{WOMAN}\u200d\N{PERSONAL COMPUTER}c", 4, "ab…"),
        ("e" + "\u0301" * 40, 5, "…"),
    ],
)
def test_a_cut_takes_no_mark_from_its_letter(text: str, limit: int, short: str) -> None:
    """A letter whose marks do not fit goes with them, and blanks before the ellipsis go too."""
    assert shorten(text, limit) == short


# -- encoding ---------------------------------------------------------------------------------------------------------


@given(ANY_TEXT)
def test_encodable_text_can_be_sent(text: str) -> None:
    """Text with surrogates can be encoded afterwards, and text without them is unchanged."""
    assert encodable(text).encode().decode() == encodable(text)
    assert encodable(encodable(text)) == encodable(text)
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert encodable(text) == text


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("\ud83d\ude00", "\U0001f600"),
        ("\ud83d", "\ufffd"),
        ("\ude00\ud83dx", "\ufffd\ufffdx"),
        ("\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        ("\ufeffx", "\ufeffx"),
    ],
)
def test_each_place_of_a_surrogate(text: str, sent: str) -> None:
    """Two halves are one character, half a one is U+FFFD, and its neighbours stay."""
    assert encodable(text) == sent
