from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.values import ANY_TEXT, answered, asks
from opask.errors import AnswerError
from opask.questions import Answer, Option, Question, check_answers, question_keys

ONE = Question("Which database?", options=[Option("SQLite"), Option("PostgreSQL")])
SEVERAL = Question("Which parts?", options=[Option("API"), Option("Docs")], multi_select=True)
FREE = Question("What name?")


# -- answers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [None, "", " ", "\n\t"])
def test_an_empty_answer_cannot_be_made(text: str | None) -> None:
    """No option and no text is no answer, an empty choice of several included."""
    with pytest.raises(AnswerError, match="skip"):
        Answer((), text)


@pytest.mark.parametrize("selected", [(-1,), (0, 0), (1, 0, 1), (True,), ("0",), (None,), (0.0,)])
def test_positions_are_distinct_integers_from_0(selected: tuple[Any, ...]) -> None:
    """Positions that can be no option's are refused, also beside text."""
    with pytest.raises(AnswerError, match="distinct integers from 0"):
        Answer(selected, "text")


def test_blank_text_beside_an_option_counts_as_none() -> None:
    """A blank text field beside a choice leaves the choice alone."""
    assert Answer((1,), "  ") == Answer((1,))


def test_the_order_of_choice_is_kept() -> None:
    """Options stand in the order in which they were chosen, however they were given."""
    assert Answer(iter([2, 0])).selected == (2, 0)


@given(ANY_TEXT)
def test_text_is_kept_and_can_be_sent(text: str) -> None:
    """The operator's words are kept to the letter, but for lone surrogates, which could not be sent."""
    kept = Answer(text=f"!{text}").text
    assert kept is not None
    kept.encode()
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert kept == f"!{text}"


def test_a_byte_that_a_terminal_could_not_decode_is_replaced() -> None:
    """A lone surrogate in the operator's words shows as U+FFFD."""
    assert Answer(text="caf\udce9").text == "caf\ufffd"


# -- whether answers fit ----------------------------------------------------------------------------------------------


@given(answered())
def test_answers_that_fit_are_taken(
    case: tuple[tuple[Question, ...], tuple[Answer | None, ...]],
) -> None:
    """Options that exist, one or several as asked, and free text beside them fit; so does a skipped question."""
    check_answers(*case)


@pytest.mark.parametrize(
    ("questions", "answers", "at", "why"),
    [
        ([ONE], [], None, "1 questions need 1 answers, got 0"),
        ([ONE], [Answer((0,)), Answer((0,))], None, "1 questions need 1 answers, got 2"),
        ([ONE, FREE], [None, None], None, "no question was answered; skip the ask instead"),
        ([], [], None, "no question was answered; skip the ask instead"),
        ([ONE], [Answer((2,))], 0, "question 1 has 2 options, there is none at position 2"),
        ([ONE, SEVERAL], [None, Answer((1, 7))], 1, "question 2 has 2 options, there is none at position 7"),
        (
            [ONE, FREE],
            [Answer((0,)), Answer((0,))],
            1,
            "question 2 has 0 options, there is none at position 0",
        ),
        ([FREE, ONE], [Answer((), "x"), Answer((1, 0))], 1, "question 2 takes one option, got 2"),
    ],
)
def test_answers_that_do_not_fit_are_refused(
    questions: list[Question], answers: list[Answer | None], at: int | None, why: str
) -> None:
    """The error says what does not fit and which question it is about."""
    with pytest.raises(AnswerError) as caught:
        check_answers(questions, answers)
    assert (str(caught.value), caught.value.question) == (why, at)


# -- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "keys"),
    [
        ([], []),
        (["A", "B"], ["A", "B"]),
        (["A", "A", "A"], ["A", "A (2)", "A (3)"]),
        (["A", "A (2)", "A"], ["A", "A (2)", "A (3)"]),
        (["A", "A", "A (2)"], ["A", "A (3)", "A (2)"]),
        (["A (2)", "A", "A", "A (3)"], ["A (2)", "A", "A (4)", "A (3)"]),
        (["A (2)", "A (2)", "A", "A"], ["A (2)", "A (2) (2)", "A", "A (3)"]),
    ],
)
def test_keys_of_equal_texts_are_numbered(texts: list[str], keys: list[str]) -> None:
    """Later questions of the same text are numbered, passing over what is itself a question's text."""
    assert question_keys([Question(text) for text in texts]) == tuple(keys)


@given(
    st.one_of(
        asks(),
        st.lists(st.builds(Question, st.sampled_from(("A", "A (2)", "A (3)", "A (2) (2)"))), max_size=9),
    )
)
def test_keys_are_unique(questions: list[Question]) -> None:
    """Each question has a key of its own, and the first of a text has the text."""
    keys = question_keys(questions)
    assert len(set(keys)) == len(questions)
    for index, (key, question) in enumerate(zip(keys, questions, strict=True)):
        first = all(earlier.text != question.text for earlier in questions[:index])
        assert (key == question.text) is first
        assert key.startswith(question.text)
