from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator  # type: ignore[import-untyped] # comes with mcp, without types

from core.values import ARGUMENT_OBJECTS, DATABASE_PLAIN, GENEROUS, asks
from opask.intake import LIMITS, Limits, Rejected, parse
from opask.questions import Question
from opask.wire import input_schema, questions_to_wire

VALIDATOR = Draft202012Validator(input_schema())


def test_it_is_valid_json_schema() -> None:
    """The schema is itself valid JSON Schema 2020-12, of an object."""
    Draft202012Validator.check_schema(input_schema())
    assert input_schema()["type"] == "object"


@given(ARGUMENT_OBJECTS)
def test_it_admits_whatever_the_parser_reads(arguments: dict[str, Any]) -> None:
    """A runtime that validates calls lets through every object that would be an ask."""
    if not isinstance(parse(arguments), Rejected):
        assert not list(VALIDATOR.iter_errors(arguments))


@pytest.mark.parametrize("arguments", GENEROUS.values(), ids=GENEROUS)
def test_it_admits_each_admitted_form(arguments: dict[str, Any]) -> None:
    """Each form that is admitted beside the plain one passes, AskUserQuestion's own extras included."""
    assert not list(VALIDATOR.iter_errors(arguments))


@given(asks())
def test_it_admits_the_wire_form(asked: tuple[Question, ...]) -> None:
    """What opask itself writes passes."""
    assert not list(VALIDATOR.iter_errors({"questions": questions_to_wire(asked)}))


SMALL = Limits(questions=1, options=2, text=15, header=8, label=10, description=8)


@pytest.mark.parametrize(
    "question",
    [
        {"question": "x" * 16},
        {"header": "x" * 9},
        {"options": ["A", "B", "C"]},
        {"options": [{"label": "x" * 11}]},
        {"options": [{"label": "A", "description": "x" * 9}]},
    ],
)
def test_it_states_the_bounds(question: dict[str, Any]) -> None:
    """The plain form is bounded by the schema as by the parser, so that a validating runtime says it at once."""
    validator = Draft202012Validator(input_schema(SMALL))
    assert not list(validator.iter_errors({"questions": [DATABASE_PLAIN]}))
    beyond = {"questions": [DATABASE_PLAIN | question]}
    assert list(validator.iter_errors(beyond))
    assert isinstance(parse(beyond, limits=SMALL), Rejected)
    assert list(validator.iter_errors({"questions": [DATABASE_PLAIN] * 2}))


@pytest.mark.parametrize(
    "arguments",
    [
        {"questions": 5},
        {"questions": [5]},
        {"questions": [{"question": ["Which?"]}]},
        {"questions": [{"question": "Which?", "options": 5}]},
        {"questions": [{"question": "Which?", "options": [None]}]},
        {"questions": [{"question": "Which?", "options": [{"label": {}}]}]},
        {"questions": [{"question": "Which?", "multiSelect": []}]},
    ],
)
def test_it_refuses_what_has_the_wrong_type(arguments: dict[str, Any]) -> None:
    """The schema says something: a wrong type in a named field passes neither it nor the parser."""
    assert list(VALIDATOR.iter_errors(arguments))
    assert isinstance(parse(arguments), Rejected)


def test_each_caller_gets_its_own() -> None:
    """A caller may change what it got without changing the next one's."""
    input_schema()["properties"].clear()
    assert input_schema()["properties"]["questions"]["maxItems"] == LIMITS.questions
