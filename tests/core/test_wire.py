from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.values import OPTIONS, answered, asks, questions
from opask.errors import AnswerError
from opask.questions import Answer, Option, Question
from opask.wire import TOOL_NAME, answers_from_wire, answers_to_wire, questions_to_wire

ONE = Question("Which database?", options=[Option("SQLite"), Option("PostgreSQL")])
SEVERAL = Question("Which parts?", options=[Option("API, REST"), Option("Docs")], multi_select=True)
FREE = Question("What name?")
ASK = (ONE, SEVERAL, FREE)
Case = tuple[Sequence[Question], Sequence[Answer | None]]

# Labels that are unique within a question, and texts of few kinds so that questions repeat each other.
PLAIN = asks(
    st.one_of(
        questions(st.lists(OPTIONS, max_size=4, unique_by=lambda option: option.label)),
        st.builds(
            Question,
            st.sampled_from(("Which?", "Which? (2)")),
            options=st.just([Option("A, B"), Option("A"), Option("B")]),
            multi_select=st.booleans(),
        ),
    )
)
REPEATED = asks(
    questions(st.lists(st.builds(Option, st.sampled_from(("A", "A", "B")), st.text(max_size=3)), max_size=5))
)


def texts_are_no_labels(case: Case) -> bool:
    """Tell whether the map alone says which answers are free text."""
    return not any(
        answer is not None and answer.text in [option.label for option in question.options]
        for question, answer in zip(*case, strict=True)
    )


# -- there and back ---------------------------------------------------------------------------------------------------


@given(answered(PLAIN).filter(texts_are_no_labels))
def test_answers_come_back_as_they_were(case: Case) -> None:
    """Answers go to the wire and come back unchanged, through JSON too, equal question texts included."""
    asked, answers = case
    form = json.loads(json.dumps(answers_to_wire(asked, answers)))
    assert answers_from_wire(asked, form) == tuple(answers)


@given(answered(REPEATED).filter(texts_are_no_labels))
def test_equal_labels_come_back_as_the_same_labels(case: Case) -> None:
    """Where labels are equal, what comes back reads the same on the wire, each option chosen once."""
    asked, answers = case
    form = answers_to_wire(asked, answers)
    assert answers_to_wire(asked, answers_from_wire(asked, form)) == form


@given(answered(asks(questions(st.lists(OPTIONS, max_size=4)))))
def test_the_wire_form_holds_labels_and_words_verbatim(case: Case) -> None:
    """Each answer is its labels in the order of choice and then the words, to the letter."""
    asked, answers = case
    given_answers = [(question, answer) for question, answer in zip(*case, strict=True) if answer]
    for value, (question, answer) in zip(
        answers_to_wire(asked, answers).values(), given_answers, strict=True
    ):
        parts = [question.options[position].label for position in answer.selected]
        parts += [answer.text] if answer.text else []
        assert value == (parts if question.multi_select or len(parts) > 1 else parts[0])


@pytest.mark.parametrize(
    ("answers", "form"),
    [
        ([Answer((1,)), None, None], {"Which database?": "PostgreSQL"}),
        ([Answer((), "DuckDB"), None, None], {"Which database?": "DuckDB"}),
        ([Answer((0,), "in memory"), None, None], {"Which database?": ["SQLite", "in memory"]}),
        ([None, Answer((0,)), None], {"Which parts?": ["API, REST"]}),
        ([None, Answer((1, 0)), None], {"Which parts?": ["Docs", "API, REST"]}),
        ([None, Answer((0,), "Tests, all"), None], {"Which parts?": ["API, REST", "Tests, all"]}),
        ([None, Answer((), "None yet"), None], {"Which parts?": ["None yet"]}),
        (
            [Answer((0,)), None, Answer((), " op ask ")],
            {"Which database?": "SQLite", "What name?": " op ask "},
        ),
    ],
)
def test_each_form_of_an_answer(answers: list[Answer | None], form: dict[str, Any]) -> None:
    """One option is a string, several a list, words beside options stand after them; labels are never joined."""
    assert answers_to_wire(ASK, answers) == form
    assert answers_from_wire(ASK, form) == tuple(answers)


# -- from other clients -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "answers"),
    [
        ({}, (None, None, None)),
        ({"Which database?": None, "What name?": None}, (None, None, None)),
        ({"Which database?": ["SQLite"]}, (Answer((0,)), None, None)),
        ({"Which parts?": "Docs"}, (None, Answer((1,)), None)),
        ({"Which parts?": ("Docs", "API, REST")}, (None, Answer((1, 0)), None)),
        ({"Which parts?": "API, REST"}, (None, Answer((0,)), None)),
        ({"Which parts?": "API"}, (None, Answer((), "API"), None)),
        ({"What name?": ["opask"]}, (None, None, Answer((), "opask"))),
        ({"Which database?": ["new", "SQLite"]}, (Answer((0,), "new"), None, None)),
    ],
)
def test_each_form_that_a_client_may_send(form: dict[str, Any], answers: tuple[Answer | None, ...]) -> None:
    """A label alone or in a list chooses its option, any other string is free text, null and absent are skipped."""
    assert answers_from_wire(ASK, form) == answers


def test_words_that_are_a_label_choose_its_option() -> None:
    """Free text that is an option's label, to the letter, comes back as that option."""
    assert answers_from_wire([ONE], answers_to_wire([ONE], [Answer((), "SQLite")])) == (Answer((0,)),)
    assert answers_from_wire([ONE], {ONE.text: "sqlite"}) == (Answer((), "sqlite"),)


def test_equal_labels_are_chosen_in_order() -> None:
    """A label that is there twice chooses its first option, and given twice both."""
    twins = Question("Which?", options=[Option("A"), Option("B"), Option("A")], multi_select=True)
    assert answers_from_wire([twins], {"Which?": "A"}) == (Answer((0,)),)
    assert answers_from_wire([twins], {"Which?": ["A", "A"]}) == (Answer((0, 2)),)


@pytest.mark.parametrize(
    ("form", "at", "why"),
    [
        (
            {"Which?": "A"},
            None,
            "there is no question 'Which?'; there is 'Which database?', 'Which parts?', 'What name?'",
        ),
        ({"Which parts?": []}, 1, "the answer to 'Which parts?' is empty; give null to skip the question"),
        ({"What name?": ""}, 2, "the answer to 'What name?' is empty; give null to skip the question"),
        ({"What name?": " \n"}, 2, "the answer to 'What name?' is empty; give null to skip the question"),
        (
            {"Which parts?": ["Docs", " "]},
            1,
            "the answer to 'Which parts?' is empty; give null to skip the question",
        ),
        (
            {"Which database?": ["SQLite", "PostgreSQL"], "What name?": "x"},
            0,
            "question 1 takes one option, got 2",
        ),
        (
            {"Which parts?": ["Tests", "Docs", "Code"]},
            1,
            "question 2 has no options 'Tests', 'Code'; one of them can be free text",
        ),
        *(
            (
                {"What name?": wrong},
                2,
                "the answer to 'What name?' has to be a string, a list of strings or null",
            )
            for wrong in (0, True, {"label": "x"}, ["x", 1], [["x"]], [None], b"x", {"x"})
        ),
    ],
)
def test_answers_that_cannot_be_read_are_refused(form: dict[str, Any], at: int | None, why: str) -> None:
    """The error names the question that an answer is wrong for, and says what to give instead."""
    with pytest.raises(AnswerError) as caught:
        answers_from_wire(ASK, form)
    assert (str(caught.value), caught.value.question) == (why, at)


def test_a_misfit_names_its_own_question() -> None:
    """Several options for a later question that takes one are that question's fault."""
    with pytest.raises(AnswerError, match="question 2 takes one option, got 2") as caught:
        answers_from_wire([FREE, ONE], {"What name?": "x", "Which database?": ["SQLite", "PostgreSQL"]})
    assert caught.value.question == 1


PARTS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(
        [*(option.label for question in ASK for option in question.options), "", " ", None, 1, {}]
    ),
    st.text(max_size=9),
)
JSON_ANSWERS = st.one_of(
    PARTS, st.lists(PARTS, max_size=4), st.lists(st.lists(PARTS, max_size=1), max_size=1)
)


@given(st.dictionaries(st.sampled_from([*(question.text for question in ASK), "?"]), JSON_ANSWERS))
def test_whatever_a_client_sends_fits_or_is_refused(form: dict[str, Any]) -> None:
    """Any JSON in place of answers is read as answers that fit, or refused with an error that says why."""
    try:
        answers = answers_from_wire(ASK, form)
    except AnswerError:
        return
    if any(answers):
        assert answers_from_wire(ASK, answers_to_wire(ASK, answers)) == answers


@pytest.mark.parametrize("answers", [[], [None, None, None], [Answer((9,)), None, None]])
def test_answers_that_do_not_fit_are_not_written(answers: list[Answer | None]) -> None:
    """Only answers that fit their questions get on the wire."""
    with pytest.raises(AnswerError):
        answers_to_wire(ASK, answers)


# -- questions --------------------------------------------------------------------------------------------------------


def test_questions_are_written_in_the_form_of_askuserquestion() -> None:
    """The wire form has exactly AskUserQuestion's fields, each of them always."""
    assert questions_to_wire([Question("Which?", "H", [Option("A", "a")], True), FREE]) == [
        {
            "question": "Which?",
            "header": "H",
            "options": [{"label": "A", "description": "a"}],
            "multiSelect": True,
        },
        {"question": "What name?", "header": "", "options": [], "multiSelect": False},
    ]


def test_the_name_of_the_tool_needs_no_mangling() -> None:
    """The tool's name is of the characters that every runtime keeps."""
    assert TOOL_NAME.replace("_", "").isascii()
    assert TOOL_NAME.isidentifier()
