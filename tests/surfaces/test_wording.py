"""What the operator is told in words."""

from __future__ import annotations

from datetime import timedelta

import pytest

from opask.outcomes import Answered, Cancelled, Outcome, Reply, Skipped, TimedOut, Unavailable
from opask.questions import Answer, Question
from opask.surfaces.wording import asker, ending, span, title
from surfaces.stage import DATABASE, PARTS, ask_of

CHOSEN = Answered((Answer((0,)),), "terminal")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.25, "0.2 s"),
        (2, "2 s"),
        (2.5, "2.5 s"),
        (59, "59 s"),
        (60, "1 min"),
        (90, "1.5 min"),
        (300, "5 min"),
        (9000, "2.5 h"),
    ],
)
def test_a_length_of_time_in_words(seconds: float, words: str) -> None:
    """A length of time is written in its largest unit."""
    assert span(timedelta(seconds=seconds)) == words


@pytest.mark.parametrize(
    ("outcome", "reply"),
    [
        (CHOSEN, CHOSEN),
        (Skipped("terminal"), Skipped("terminal")),
        (Cancelled("operator"), Cancelled("operator")),
    ],
)
def test_what_was_decided_here_needs_no_words(outcome: Outcome, reply: Reply) -> None:
    """Nothing is said of an ask that ended just as the operator decided."""
    assert ending(ask_of(DATABASE), outcome, reply) is None


@pytest.mark.parametrize(
    ("outcome", "reply", "line"),
    [
        (Unavailable("no\x1b[2J"), Unavailable("no\x1b[2J"), "Database: could not be asked: no␛[2J"),
        (Cancelled("operator"), None, "Database: cancelled"),
        (
            Answered((Answer((1,)),), "web:bob"),
            CHOSEN,
            "Database: your answer came too late, answered by web:bob: SQLite",
        ),
        (TimedOut(timedelta(seconds=2)), Skipped("terminal"), "Database: nobody answered within 2 s"),
    ],
)
def test_what_was_decided_otherwise_is_told(outcome: Outcome, reply: Reply | None, line: str) -> None:
    """How an ask ended is said where the operator did not see it, and that an answer came too late."""
    assert ending(ask_of(DATABASE), outcome, reply) == line


def test_an_ask_of_several_questions_is_one_line() -> None:
    """An ask is known by its first question and how many more there are; skipped ones are named."""
    ask = ask_of(DATABASE, PARTS)
    line = ending(ask, Answered((Answer((0,)), None), "web"), None)
    assert line == "Database (and 1 more): answered by web: PostgreSQL; skipped"


def test_a_question_is_known_by_its_header_or_its_text() -> None:
    """The title is the header, or the start of the text where there is none."""
    assert title(DATABASE) == "Database"
    assert title(Question("Why?\n" * 40)).startswith("Why? Why?")
    assert len(title(Question("Why?\n" * 40))) <= 60


def test_who_asks_is_named() -> None:
    """The agent, its sub-agent by id, and the session where it matters."""
    assert asker(ask_of(DATABASE)) == "agent"
    assert asker(ask_of(DATABASE, agent_id="a\x1bb")) == "sub-agent a␛b"
    assert asker(ask_of(DATABASE, session_id="build"), with_session=True) == "agent in build"
