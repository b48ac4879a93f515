"""How a card is drawn: within its frame, in line, with what matters in view."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from opask.questions import Answer, Option, Question
from opask.surfaces.block import answered_block, cancelled_block
from opask.surfaces.card import Card, Picture
from opask.surfaces.frame import ASCII, Frame, Line
from surfaces.stage import DATABASE, NAME, PARTS, acts, ask_of

WIDE = Frame(80, 24, get_cwidth)
MANY = Question("Which?", "Many", tuple(Option(f"Option {n}") for n in range(1, 33)))
LONG = Question(
    " ".join(f"word{n}" for n in range(300)), "Long", (Option("Yes"), Option("No", "because " * 60))
)


def text(lines: tuple[Line, ...]) -> list[str]:
    """Give lines as they read, without their styles."""
    return ["".join(part for _, part in line).rstrip() for line in lines]


def drawn(card: Card, frame: Frame = WIDE, **more: object) -> list[str]:
    """Draw a card and give its rows as they read."""
    picture: Picture = card.render(frame, left=None, **more)  # type: ignore[arg-type]
    return text((*picture.above, *picture.footer))


def focused(rows: list[str]) -> str:
    """Give the row that the focus marker is on."""
    (row,) = [row for row in rows if "❯" in row]
    return row


# -- what is on it ---------------------------------------------------------------------------------------------


def test_several_options_have_boxes() -> None:
    """Where several may be chosen each option has a box, marked where it is chosen."""
    card = Card(ask_of(PARTS), "agent")
    card.form.press_digit(2)
    assert drawn(card)[3:7] == [
        "│   1 [ ] API",
        "│ ❯ 2 [x] Web page",
        "│   3 [ ] Docs",
        "│   t [ ] Other: type your own answer",
    ]


def test_descriptions_stand_in_a_column_where_there_is_room() -> None:
    """Beside short labels descriptions are aligned and wrap in their column; below long ones they are indented."""
    question = Question("Which?", options=(Option("One", "first " * 20), Option("Twenty-two", "second")))
    rows = drawn(Card(ask_of(question), "agent"))
    assert rows[3].startswith("│ ❯ 1 One         first first")
    assert rows[4].startswith("│" + " " * 17 + "first first")
    assert "│   2 Twenty-two  second" in rows
    narrow = drawn(Card(ask_of(question), "agent"), Frame(34, 24, get_cwidth))
    assert "│ ❯ 1 One" in narrow
    assert "│     first first first first" in narrow


def test_options_line_up_under_each_other_in_any_script() -> None:
    """Wide characters take two cells in the alignment of what follows them."""
    question = Question("Which?", options=(Option("漢字", "wide"), Option("abcd", "narrow")))
    rows = drawn(Card(ask_of(question), "agent"))
    assert rows[3:5] == ["│ ❯ 1 漢字  wide", "│   2 abcd  narrow"]


def test_equal_labels_are_two_options() -> None:
    """Options with the same label are told apart by their numbers."""
    question = Question("Which?", options=(Option("Same"), Option("Same")))
    assert drawn(Card(ask_of(question), "agent"))[3:5] == ["│ ❯ 1 Same", "│   2 Same"]


def test_the_rule_tells_who_asks_how_far_and_how_long() -> None:
    """The first row has header, asker, place and time left, filling the width."""
    card = Card(ask_of(DATABASE, PARTS), "sub-agent x")
    (rule, *_) = text(card.render(WIDE, left=timedelta(minutes=4, seconds=58), waiting=2).above)
    assert rule.startswith("╭ Database ──")
    assert rule.endswith("─ sub-agent x · 1 of 2 · 2 more waiting · 4:58 left")
    assert get_cwidth(rule) == 80


@pytest.mark.parametrize(
    ("left", "shown"),
    [
        (0.2, "0:01"),
        (-5, "0:00"),
        (59, "0:59"),
        (60, "1:00"),
        (3599, "59:59"),
        (3600, "1:00:00"),
        (90061, "25:01:01"),
    ],
)
def test_the_countdown_reads_as_a_clock(left: float, shown: str) -> None:
    """Time left is rounded up to seconds and never below zero."""
    card = Card(ask_of(DATABASE), "agent")
    assert text(card.render(WIDE, left=timedelta(seconds=left)).above)[0].endswith(f"· {shown} left")


def test_in_a_narrow_rule_the_time_comes_first() -> None:
    """Where the first row is short, who asks goes before the place, and the place before the time."""
    card = Card(ask_of(DATABASE, PARTS), "sub-agent with a name")
    rules = [
        text(card.render(Frame(width, 24, get_cwidth), left=timedelta(seconds=298)).above)[0]
        for width in (80, 50, 30, 18)
    ]
    assert ["sub-agent" in rule for rule in rules] == [True, True, False, False]
    assert ["1 of 2" in rule for rule in rules] == [True, False, False, False]
    assert all("4:58" in rule for rule in rules)


def test_no_key_is_named_before_it_counts() -> None:
    """While keys do not count the footer is empty, on the same row as later."""
    card = Card(ask_of(DATABASE), "agent")
    early, late = drawn(card, live=False), drawn(card)
    assert early[-1] == "╰"
    assert len(early) == len(late)


def test_a_longer_text_is_asked_for_by_its_scroll_keys() -> None:
    """Where not everything fits, the footer names the keys that scroll, and arrows in the edge tell where to."""
    card = Card(ask_of(MANY), "agent")
    rows = drawn(card, Frame(80, 12, get_cwidth))
    assert any("PgUp PgDn scroll" in row for row in rows)
    assert [row[0] for row in rows].count("↓") == 1
    card.page(Frame(80, 12, get_cwidth), 1)
    assert {"↑", "↓"} <= {row[0] for row in drawn(card, Frame(80, 12, get_cwidth))}


def test_ascii_glyphs_are_ascii() -> None:
    """On a terminal without Unicode a card is drawn with ASCII alone."""
    card = Card(ask_of(DATABASE, MANY), "agent")
    frame = Frame(60, 12, get_cwidth, ASCII)
    assert "".join(drawn(card, frame)).isascii()
    card.form.press_digit(1)
    assert "".join(drawn(card, frame)).isascii()
    assert "".join(text(cancelled_block((DATABASE,), frame))).isascii()


# -- what is in view -------------------------------------------------------------------------------------------


def test_a_short_question_stays_in_view_while_options_scroll() -> None:
    """Over many options the question stays where it is."""
    card, frame = Card(ask_of(MANY), "agent"), Frame(80, 12, get_cwidth)
    for number in range(2, 33):
        card.down(frame)
        rows = drawn(card, frame)
        assert "│ Which?" in rows
        assert focused(rows).endswith(f"❯ {number:2} Option {number}")


def test_a_long_question_is_read_from_its_start() -> None:
    """A question that is taller than the terminal starts at its first word; Down goes through it to the options."""
    card, frame = Card(ask_of(LONG), "agent"), Frame(40, 14, get_cwidth)
    assert drawn(card, frame)[1].startswith("│ word0 word1")
    seen = set()
    for _ in range(300):
        seen |= {word for row in drawn(card, frame) for word in row.split()}
        card.down(frame)
    assert {f"word{n}" for n in range(300)} <= seen
    assert "type your own answer" in " ".join(drawn(card, frame))
    for _ in range(300):
        card.up(frame)
    assert drawn(card, frame)[1].startswith("│ word0 word1")


def test_every_word_of_a_long_option_can_be_read() -> None:
    """An option that is taller than the view is gone through row by row before the next one is reached."""
    words = [f"w{n}" for n in range(200)]
    question = Question("Which?", options=(Option("One", " ".join(words)), Option("Two")))
    card, frame = Card(ask_of(question), "agent"), Frame(30, 12, get_cwidth)
    seen: set[str] = set()
    while card.form.focus == 0:
        seen |= {word for row in drawn(card, frame) for word in row.split()}
        card.down(frame)
    assert set(words) <= seen


def test_pages_take_the_focus_along() -> None:
    """After a page the option in focus is one that can be seen."""
    card, frame = Card(ask_of(MANY), "agent"), Frame(80, 12, get_cwidth)
    for step in (1, 1, 1, 1, 1, -1, -1, 1, -1, -1, -1, -1):
        card.page(frame, step)
        focused(drawn(card, frame))
    assert card.form.focus < 10


def test_nothing_unseen_is_chosen() -> None:
    """An option out of view is shown instead of chosen the first time."""
    card, frame = Card(ask_of(LONG), "agent"), Frame(40, 14, get_cwidth)
    drawn(card, frame)
    assert not card.reveal(frame, 1)
    assert "❯ 2 No" in focused(drawn(card, frame))
    assert card.reveal(frame, 1)


def test_while_text_is_typed_the_end_of_the_card_is_in_view() -> None:
    """The rows that are kept above the text field are the last ones."""
    card, frame = Card(ask_of(MANY), "agent"), Frame(80, 12, get_cwidth)
    card.form.begin_text()
    rows = drawn(card, frame, input_rows=2)
    assert any("Option 32" in row for row in rows)
    assert len(rows) + 2 <= 12


# -- it fits, whatever it is -----------------------------------------------------------------------------------

FRAMES = st.builds(Frame, st.integers(1, 120), st.integers(1, 40), st.just(get_cwidth))
WORDS = st.text(max_size=60) | st.sampled_from(
    ["word " * 60, "漢字" * 40, "x" * 200, "a\nb\n" * 20, "\x1b[31m"]
)
QUESTIONS = st.builds(
    Question,
    text=WORDS.map(lambda words: words or "?"),
    header=WORDS,
    options=st.lists(st.builds(Option, WORDS, WORDS), max_size=32).map(tuple),
    multi_select=st.booleans(),
)
ACTIONS: list[Callable[[Card, Frame], object]] = [
    Card.down,
    Card.up,
    lambda card, frame: card.page(frame, 1),
    lambda card, frame: card.page(frame, -1),
    lambda card, _: card.form.press_digit(3),
    lambda card, _: card.form.choose(),
    lambda card, _: card.form.begin_text(),
    lambda card, _: card.form.leave_text("left " * 30),
    lambda card, _: card.form.ask_to_skip(),
    lambda card, _: card.form.submit(),
]


@given(
    st.lists(QUESTIONS, min_size=1, max_size=4),
    FRAMES,
    st.lists(st.sampled_from(ACTIONS), max_size=12),
    st.booleans(),
    st.integers(1, 3),
)
def test_a_card_always_fits(
    questions: list[Question],
    frame: Frame,
    actions: list[Callable[[Card, Frame], object]],
    live: bool,
    input_rows: int,
) -> None:
    """No card has a row that is too wide or more rows than the terminal, nor any character that acts."""
    card = Card(ask_of(*questions), "agent")
    for action in [lambda card, frame: None, *actions]:
        action(card, frame)
        if card.form.done:
            break
        picture = card.render(frame, left=timedelta(seconds=5), live=live, waiting=1, input_rows=input_rows)
        rows = (*picture.above, *picture.footer)
        typed = input_rows if card.form.mode == "typing" else 0
        assert len(rows) + typed <= max(frame.height, typed)
        for row in rows:
            read = "".join(part for _, part in row)
            assert not [character for character in read if acts(character)]
            # Two cells of edge and one wide character are the least a row can be.
            assert get_cwidth(read.rstrip()) <= max(frame.width, 12)


# -- what stays ------------------------------------------------------------------------------------------------


def test_a_block_has_each_answer_with_a_mark_of_its_own() -> None:
    """Chosen labels stand beside each other, each marked, so that a comma in one does not make two of it."""
    question = Question("Which?", "Tag", (Option("a, b"), Option("c")), True)
    assert text(answered_block((question,), (Answer((0, 1), "and d"),), WIDE)) == [
        "│ Tag  Which?",
        "│ ✓ a, b  ✓ c  ✓ “and d”",
    ]


def test_a_block_keeps_answers_whole_and_questions_short() -> None:
    """A long question is cut in the block; a long answer is not."""
    frame = Frame(40, 24, get_cwidth)
    rows = text(answered_block((LONG,), (Answer((), "mine " * 40),), frame))
    assert rows[3].endswith("…")
    assert "".join(rows[4:]).count("mine") == 40
    assert all(get_cwidth(row) <= 40 for row in rows)


def test_a_block_tells_what_was_skipped() -> None:
    """A question without an answer says so."""
    assert text(answered_block((NAME,), (None,), WIDE)) == ["│ What should it be called?", "│ – skipped"]
