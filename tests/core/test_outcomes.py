from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given

from core.values import answered, asks
from opask.errors import AnswerError
from opask.outcomes import (
    Abandoned,
    Answered,
    Cancelled,
    Outcome,
    Sentences,
    Skipped,
    TimedOut,
    Unavailable,
)
from opask.questions import Answer, Option, Question, question_keys
from opask.wire import answers_to_wire, tool_result

PARTS = Question("Which parts?", options=[Option("API"), Option("Docs")], multi_select=True)
NAME = Question("What name?")

PROCEED = "The operator did not answer. Proceed without this input."
UNANSWERED: dict[str, tuple[Outcome, str]] = {
    "skipped": (Skipped("terminal"), "The operator chose not to answer. Proceed without this input."),
    "timed out": (TimedOut(timedelta(minutes=5)), PROCEED),
    "unavailable": (Unavailable("nobody is there"), PROCEED),
    "cancelled by the operator": (
        Cancelled("operator"),
        (
            "The operator cancelled this question. Do nothing that depends on its answer; "
            "go on with what does not, or stop and say what is open."
        ),
    ),
    "cancelled by the host": (Cancelled("host"), PROCEED),
    "cancelled by shutdown": (Cancelled("shutdown"), PROCEED),
    "abandoned by the agent": (Abandoned("agent"), PROCEED),
    "abandoned by disconnect": (Abandoned("disconnect"), PROCEED),
    "abandoned at the turn's end": (Abandoned("turn_end"), PROCEED),
}


@pytest.mark.parametrize(("outcome", "sentence"), UNANSWERED.values(), ids=UNANSWERED)
def test_without_an_answer_the_agent_is_told_so(outcome: Outcome, sentence: str) -> None:
    """Each outcome without an answer has its sentence; only a skip is no error."""
    result = tool_result([PARTS, NAME], outcome, Sentences())
    assert result.text == sentence
    assert result.is_error is not isinstance(outcome, Skipped)
    assert (result.structured is None) is result.is_error


def test_a_skip_names_what_was_skipped() -> None:
    """The structured form of a skip holds no answer, every question as skipped, and the sentence."""
    assert tool_result([PARTS, PARTS], Skipped("terminal"), Sentences(skipped="Go on.")).structured == {
        "answers": {},
        "skipped": ["Which parts?", "Which parts? (2)"],
        "note": "Go on.",
    }


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("skipped", Skipped("x")),
        ("timed_out", TimedOut(timedelta(1))),
        ("unavailable", Unavailable("x")),
        ("cancelled_by_operator", Cancelled("operator")),
        ("cancelled", Cancelled("host")),
        ("cancelled", Cancelled("shutdown")),
        ("abandoned", Abandoned("agent")),
    ],
)
def test_a_host_may_set_its_own_sentence(name: str, outcome: Outcome) -> None:
    """A sentence of the host's own replaces the one of that outcome and no other."""
    own = Sentences(**{name: "Ask in prose."})
    assert tool_result([NAME], outcome, own).text == "Ask in prose."
    others = [other for other, _ in UNANSWERED.values() if type(other) is not type(outcome)]
    assert all(own.for_outcome(other) == Sentences().for_outcome(other) for other in others)


def test_an_answer_has_no_sentence() -> None:
    """Asking for the sentence of an answer is a mistake of the caller's."""
    with pytest.raises(ValueError, match="speaks for itself"):
        Sentences().for_outcome(Answered([Answer((0,))], "terminal"))


@given(answered())
def test_an_answer_is_told_in_text_and_structured_alike(
    case: tuple[tuple[Question, ...], tuple[Answer | None, ...]],
) -> None:
    """The text is the structured content as JSON that can be sent; each question is answered or named as skipped."""
    questions, answers = case
    result = tool_result(questions, Answered(answers, "terminal"), Sentences())
    assert not result.is_error
    assert result.structured == json.loads(result.text)
    result.text.encode()
    assert result.structured is not None
    assert result.structured["answers"] == answers_to_wire(questions, answers)
    told = [*result.structured["answers"], *result.structured.get("skipped", [])]
    assert sorted(told) == sorted(question_keys(questions))


def test_a_partial_answer_names_the_skipped_questions() -> None:
    """Questions that were skipped within an answered ask are named, with the sentence of a skip."""
    result = tool_result([PARTS, NAME], Answered([None, Answer(text="opask")], "terminal"), Sentences())
    assert result.structured == {
        "answers": {"What name?": "opask"},
        "skipped": ["Which parts?"],
        "note": "The operator chose not to answer. Proceed without this input.",
    }


def test_a_whole_answer_is_only_the_answers() -> None:
    """Where all is answered and no label is there twice, the result is the answers map of AskUserQuestion."""
    result = tool_result([PARTS], Answered([Answer((0,))], "terminal"), Sentences())
    assert result.structured == {"answers": {"Which parts?": ["API"]}}


def test_equal_labels_are_told_apart_by_number() -> None:
    """Where a chosen label is there twice, the result says which option it was, counted from 1."""
    twins = Question("Which?", options=[Option("A", "old"), Option("B"), Option("A", "new")])
    result = tool_result([twins, twins], Answered([Answer((2,)), Answer((1,))], "terminal"), Sentences())
    assert result.structured == {
        "answers": {"Which?": "A", "Which? (2)": "B"},
        "option_numbers": {"Which?": [3]},
    }


@pytest.mark.parametrize("answers", [(), (None,), (None, None)])
def test_empty_is_never_answered(answers: tuple[None, ...]) -> None:
    """Answered without one answer cannot be made."""
    with pytest.raises(AnswerError, match="Skipped"):
        Answered(answers, "terminal")


@given(asks())
def test_answers_that_do_not_fit_are_never_told(questions: tuple[Question, ...]) -> None:
    """An outcome with answers to other questions is an error, not a result."""
    answers = [Answer((99,)), *[None] * (len(questions) - 1)]
    with pytest.raises(AnswerError):
        tool_result(questions, Answered(answers, "terminal"), Sentences())


@pytest.mark.parametrize(("kind", "word"), [(Cancelled, "agent"), (Abandoned, "host"), (Abandoned, "")])
def test_unknown_words_are_refused(kind: Any, word: str) -> None:
    """Who cancelled and why the agent let go are one of the listed words."""
    with pytest.raises(ValueError, match="must be in"):
        kind(word)


def test_each_outcome_is_of_its_kind() -> None:
    """The kinds of the outcomes are the six words that events and traces use."""
    outcomes = [Answered([Answer((0,))], "x"), *(outcome for outcome, _ in UNANSWERED.values())]
    assert list(dict.fromkeys(outcome.kind for outcome in outcomes)) == [
        "answered",
        "skipped",
        "timed_out",
        "unavailable",
        "cancelled",
        "abandoned",
    ]
