"""An ask as a form, and what a form may come back with."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types._v2025_11_25 import ElicitRequestFormParams as Params2025

from mcp_driver import one
from opask import Answer, Answered, Cancelled, Option, Question, Skipped
from opask.surfaces.mcp.forms import Form, FormError

SINGLE = one("Which database?", "PostgreSQL", "SQLite", header="Database")
MULTI = one("Which parts?", "API", "Docs", multi=True)
FREE = one("What is it called?")


def answered(*answers: Answer | None) -> Answered:
    """Give answers by the form's operator."""
    return Answered(answers, "someone")


def accepted(*questions: Question, arrays: bool = True, **content: Any) -> object:
    """Read an accept with this content."""
    return Form.of(questions, "An agent", arrays=arrays).reply("accept", content, "someone")


def test_the_fields_are_those_that_the_protocol_knows() -> None:
    """Every kind of question becomes fields of the specification's own schema, labels as the values."""
    form = Form.of((SINGLE, MULTI, FREE), "An agent on claude")
    Params2025.model_validate({"message": form.message, "requestedSchema": form.schema, "mode": "form"})
    fields = form.schema["properties"]
    assert list(fields) == [
        "q1", "q1_text", "q1_skip", "q2", "q2_text", "q2_skip", "q3", "q3_skip",
    ]  # fmt: skip
    assert fields["q1"]["enum"] == ["PostgreSQL", "SQLite"]
    assert fields["q2"]["items"]["enum"] == ["API", "Docs"]
    assert "required" not in form.schema
    assert form.message == (
        "An agent on claude asks 3 questions; answer or skip each.\n"
        "1. Which database?\n2. Which parts?\n3. What is it called?"
    )
    assert Form.of((FREE,), "A").schema["required"] == ["q1"]
    assert list(Form.of((SINGLE,), "A").schema["properties"]) == ["q1", "q1_text"]


@pytest.mark.parametrize(
    ("questions", "content", "answers"),
    [
        ((SINGLE,), {"q1": "SQLite"}, [Answer((1,))]),
        ((SINGLE,), {"q1_text": "neither"}, [Answer((), "neither")]),
        ((SINGLE,), {"q1": "SQLite", "q1_text": "in memory"}, [Answer((1,), "in memory")]),
        ((SINGLE,), {"q1": None, "q1_text": "neither"}, [Answer((), "neither")]),
        ((MULTI,), {"q1": ["Docs", "API"]}, [Answer((1, 0))]),
        ((MULTI,), {"q1": [], "q1_text": "tests"}, [Answer((), "tests")]),
        ((FREE,), {"q1": "Ada"}, [Answer((), "Ada")]),
        ((SINGLE, MULTI), {"q1": "SQLite", "q2": ["API"]}, [Answer((1,)), Answer((0,))]),
        ((SINGLE, MULTI), {"q1": "SQLite", "q2_skip": True}, [Answer((1,)), None]),
        ((SINGLE, FREE), {"q1_skip": True, "q2": "Ada", "q2_skip": False}, [None, Answer((), "Ada")]),
    ],
)
def test_an_accept_is_read(
    questions: tuple[Question, ...], content: dict[str, Any], answers: list[Answer | None]
) -> None:
    """Choices, several choices, own words and a skip of one question of several are told by position."""
    assert accepted(*questions, **content) == answered(*answers)


@pytest.mark.parametrize(
    ("questions", "content", "why"),
    [
        ((SINGLE,), {}, "no answer to question 1"),
        ((SINGLE,), {"q1": ""}, "no answer to question 1"),
        ((SINGLE,), {"q1_text": "  "}, "no answer to question 1"),
        ((MULTI,), {"q1": []}, "no answer to question 1"),
        ((FREE,), {"q1": " "}, "no answer to question 1"),
        ((SINGLE, MULTI), {"q1": "SQLite"}, "no answer to question 2"),
        ((SINGLE,), {"q1": "MySQL"}, "question 1 has no option 'MySQL'"),
        ((SINGLE,), {"q1": "sqlite"}, "question 1 has no option 'sqlite'"),
        ((SINGLE,), {"q1": ["SQLite"]}, "question 1 has no option 'list'"),
        ((SINGLE,), {"q1": True}, "question 1 has no option 'bool'"),
        ((MULTI,), {"q1": ["API", "Tests"]}, "question 1 has no option 'Tests'"),
        ((MULTI,), {"q1": ["API", "API"]}, "chosen twice"),
        ((FREE,), {"q1": 3}, "q1 has to be text"),
        ((SINGLE, FREE), {"q1": "SQLite", "q1_skip": True, "q2": "x"}, "both answered and skipped"),
        ((SINGLE,), {"q1_skip": True}, "no answer to question 1"),
    ],
)
def test_an_accept_without_an_answer_is_none(
    questions: tuple[Question, ...], content: dict[str, Any], why: str
) -> None:
    """What lacks an answer, or has one that is no option, is refused with the reason; nothing is inferred."""
    with pytest.raises(FormError, match=why):
        accepted(*questions, **content)


def test_decline_cancel_and_a_skip_of_everything_are_told_apart() -> None:
    """A decline skips, a cancel takes the question back, and skipping each question skips the ask."""
    form = Form.of((SINGLE, FREE), "A")
    assert form.reply("decline", None, "someone") == Skipped("someone")
    assert form.reply("cancel", None, "someone") == Cancelled("operator")
    assert accepted(SINGLE, FREE, q1_skip=True, q2_skip=True) == Skipped("someone")


def test_equal_labels_stay_apart() -> None:
    """The values of a form differ where labels do not, and lead back to the position."""
    question = one("Which?", "a", "a", "a (2)")
    assert Form.of((question,), "A").schema["properties"]["q1"]["enum"] == ["a", "a (3)", "a (2)"]
    assert accepted(question, q1="a (3)") == answered(Answer((1,)))
    assert accepted(question, q1="a (2)") == answered(Answer((2,)))


def test_a_revision_without_arrays_has_a_field_an_option() -> None:
    """In revision 2025-06-18 a multiple choice is one yes or no an option."""
    form = Form.of((MULTI,), "A", arrays=False)
    assert [(name, field["type"]) for name, field in form.schema["properties"].items()] == [
        ("q1_o1", "boolean"),
        ("q1_o2", "boolean"),
        ("q1_text", "string"),
    ]
    assert accepted(MULTI, arrays=False, q1_o1=False, q1_o2=True) == answered(Answer((1,)))
    with pytest.raises(FormError, match="no answer to question 1"):
        accepted(MULTI, arrays=False, q1_o1=False)
    with pytest.raises(FormError, match="q1_o1 has to be true or false"):
        accepted(MULTI, arrays=False, q1_o1="yes")


def test_what_an_agent_writes_is_inert_in_a_form() -> None:
    """Terminal escapes and direction marks in a question are made visible, and its options can still be chosen."""
    question = Question("Wipe\x1b[2J?", "H\u202e", (Option("yes\x1b[31m", "d\x07"), Option("no")))
    form = Form.of((question,), "A")
    assert not {"\x1b", "\u202e", "\x07"} & set(str(form.schema) + form.message)
    label = form.schema["properties"]["q1"]["enum"][0]
    assert form.reply("accept", {"q1": label}, "someone") == answered(Answer((0,)))
