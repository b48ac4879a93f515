from __future__ import annotations

from typing import Any

import pytest

from core.values import DATABASE, ask_of
from opask.outcomes import Answered, Reply, Skipped, Unavailable
from opask.questions import Answer, Ask, Option, Question
from opask.testing import Scripted

PARTS = Question("Which parts?", options=[Option("API"), Option("Docs")], multi_select=True)
NAME = Question("What name?")


async def ask(answers: dict[str, Any], *questions: Question) -> tuple[Reply, Scripted]:
    """Ask a scripted prompter, and return its reply with the prompter."""
    prompter = Scripted(answers)
    return await prompter.ask(ask_of(*questions)), prompter


@pytest.mark.parametrize(
    ("question", "script", "answer"),
    [
        (DATABASE, "PostgreSQL", Answer((1,))),
        (DATABASE, ["SQLite"], Answer((0,))),
        (DATABASE, "DuckDB", Answer((), "DuckDB")),
        (DATABASE, ["SQLite", "in memory"], Answer((0,), "in memory")),
        (PARTS, "Docs", Answer((1,))),
        (PARTS, ["Docs", "API"], Answer((1, 0))),
        (PARTS, ["Docs", "Tests"], Answer((1,), "Tests")),
        (NAME, "opask", Answer((), "opask")),
    ],
)
async def test_each_form_of_an_answer(question: Question, script: object, answer: Answer) -> None:
    """A label, a list of labels and free text answer a question, in the script's name."""
    reply, prompter = await ask({question.text: script}, question)
    assert reply == Answered([answer], "scripted")
    assert prompter.misses == []


async def test_null_skips_a_question() -> None:
    """Null skips one question of an ask; the others are answered."""
    reply, _ = await ask({"What name?": None, "Which parts?": "API"}, NAME, PARTS)
    assert reply == Answered([None, Answer((0,))], "scripted")


async def test_null_for_each_question_skips_the_ask() -> None:
    """An ask whose every question is skipped is skipped, and no miss."""
    reply, prompter = await ask({"What name?": None, "Which parts?": None}, NAME, PARTS)
    assert reply == Skipped("scripted")
    assert prompter.misses == []


@pytest.mark.parametrize("script", [{}, {"Which parts?": "API"}, {"which parts?": "x", "what name?": "y"}])
async def test_a_question_that_is_not_named_makes_the_ask_unavailable(script: dict[str, Any]) -> None:
    """A miss names the question and what to add; an ask is never answered by half."""
    missing = NAME if PARTS.text in script else PARTS
    reply, prompter = await ask(script, PARTS, NAME)
    why = f"the scripted answers name no {missing.text!r}; add it, or null to skip it"
    assert reply == Unavailable(why)
    assert prompter.misses == [why]


@pytest.mark.parametrize(
    ("question", "script", "why"),
    [
        (DATABASE, ["SQLite", "PostgreSQL"], "question 1 takes one option, got 2"),
        (DATABASE, 1, "the answer to 'Which database?' has to be a string, a list of strings or null"),
        (PARTS, [], "the answer to 'Which parts?' is empty; give null to skip the question"),
        (NAME, "", "the answer to 'What name?' is empty; give null to skip the question"),
        (NAME, ["a", "b"], "question 1 has no options 'a', 'b'; one of them can be free text"),
    ],
)
async def test_an_answer_that_does_not_fit_makes_the_ask_unavailable(
    question: Question, script: object, why: str
) -> None:
    """A misfit is never sent: the reason says what does not fit."""
    reply, prompter = await ask({question.text: script}, question)
    assert reply == Unavailable(f"a scripted answer does not fit: {why}")
    assert prompter.misses == [f"a scripted answer does not fit: {why}"]


async def test_equal_texts_are_answered_by_number_or_alike() -> None:
    """A second question of the same text has the key with its number, else the answer of the text."""
    reply, _ = await ask({"What name?": "a", "What name? (2)": "b"}, NAME, NAME)
    assert reply == Answered([Answer((), "a"), Answer((), "b")], "scripted")
    reply, _ = await ask({"What name?": "a"}, NAME, NAME)
    assert reply == Answered([Answer((), "a"), Answer((), "a")], "scripted")


async def test_it_remembers_what_happened() -> None:
    """Asks, misses and outcomes are kept in order; a script may answer more than is asked, under its own name."""
    prompter = Scripted({"What name?": "opask", "Never asked?": "x"}, by="script")
    first, second = ask_of(NAME, id="q1"), ask_of(PARTS, id="q2")
    replies: list[tuple[Ask, Reply]] = [(asked, await prompter.ask(asked)) for asked in (first, second)]
    for asked, reply in replies:
        prompter.settled(asked, reply)
    assert prompter.asked == [first, second]
    assert prompter.outcomes == replies
    assert replies[0][1] == Answered([Answer((), "opask")], "script")
    assert len(prompter.misses) == 1


def test_it_is_always_there() -> None:
    """A script is available to every session."""
    assert Scripted({}).available("s1")
