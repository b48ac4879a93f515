"""Strategies and examples that the tests of the core share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from opask.intake import LIMITS
from opask.questions import Answer, Ask, Option, Question

# Text that a careless reader would take for something else than text.
TRICKY = (
    "[1]",
    "[]",
    "{}",
    '{"label": "x"}',
    '{"question": "x", "options": ["y"]}',
    '"quoted"',
    '"\\"quoted twice\\""',
    "null",
    "true",
    "0",
    "NaN",
    "A, B",
    "Which? (2)",
    "Which?",
    "Another",
    "Other database",
    "e\u0301 \u200d\N{WOMAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER}",
)
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)
"""Text of any characters, lone surrogates among them, as JSON's escapes can make it."""


def texts(limit: int) -> SearchStrategy[str]:
    """Give text that a question or a label may have once it is read."""
    return st.one_of(st.sampled_from(TRICKY), st.text(max_size=40)).filter(
        lambda text: text == text.strip() != "" and len(text) <= limit
    )


OPTIONS = st.builds(
    Option,
    texts(LIMITS.label).filter(lambda label: label in TRICKY or "other" not in label.lower()),
    st.one_of(st.just(""), texts(LIMITS.description)),
)


def questions(options: SearchStrategy[Sequence[Option]] | None = None) -> SearchStrategy[Question]:
    """Give valid questions."""
    return st.builds(
        Question,
        texts(LIMITS.text),
        st.one_of(st.just(""), texts(LIMITS.header)),
        st.lists(OPTIONS, max_size=4) if options is None else options,
        st.booleans(),
    )


def asks(question: SearchStrategy[Question] | None = None) -> SearchStrategy[tuple[Question, ...]]:
    """Give the questions of a valid ask."""
    each = questions() if question is None else question
    return st.lists(each, min_size=1, max_size=LIMITS.questions).map(tuple)


@st.composite
def answer_to(draw: st.DrawFn, question: Question) -> Answer:
    """Give an answer that fits the question."""
    count = len(question.options)
    selected: tuple[int, ...] = ()
    if count:
        most = count if question.multi_select else 1
        chosen = st.lists(st.integers(0, count - 1), unique=True, max_size=most)
        selected = tuple(draw(chosen))
    text = draw(st.none() | texts(200))
    return Answer(selected, text if selected or text else "in my own words")


@st.composite
def answered(
    draw: st.DrawFn, ask: SearchStrategy[tuple[Question, ...]] | None = None
) -> tuple[tuple[Question, ...], tuple[Answer | None, ...]]:
    """Give the questions of an ask with answers, at least one of them."""
    asked = draw(ask if ask is not None else asks())
    sure = draw(st.integers(0, len(asked) - 1))
    return asked, tuple(
        draw(answer_to(question) if index == sure else st.none() | answer_to(question))
        for index, question in enumerate(asked)
    )


def as_json(value: object) -> str:
    """Write a value as JSON."""
    return json.dumps(value)


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    ANY_TEXT,
    st.sampled_from((*TRICKY, "", " ", "Other", "yes")),
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(ANY_TEXT, inner, max_size=4),
        inner.map(as_json),
    ),
    max_leaves=8,
)
"""Any JSON value, also as JSON in strings."""

TEXT_NAMES = ("question", "text", "prompt", "message", "title")
HEADER_NAMES = ("header", "label")
OPTIONS_NAMES = ("options", "choices")
MULTI_NAMES = ("multiSelect", "multi_select", "multiselect", "multiple", "allowMultiple", "allow_multiple")
LABEL_NAMES = ("label", "name", "title", "text", "value")
DESCRIPTION_NAMES = ("description", "detail", "details", "explanation")


Fields: TypeAlias = dict[tuple[str, ...], SearchStrategy[Any]]


def _mostly(likely: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Give a likely value, more seldom as JSON text, and seldom anything else."""
    return st.integers(0, 9).flatmap(lambda n: JSON if n == 9 else likely.map(as_json) if n > 6 else likely)


def _objects(sure: Fields, others: Fields) -> SearchStrategy[dict[str, Any]]:
    """Give an object that has a sure field under one of its names, and some of the others, or any at all."""
    return st.builds(
        lambda first, more: dict([*more, first]),
        st.one_of([st.tuples(st.sampled_from(names), values) for names, values in sure.items()]),
        st.lists(
            st.one_of(
                [st.tuples(st.sampled_from(names), values) for names, values in others.items()]
                + [st.tuples(ANY_TEXT, JSON)]
            ),
            max_size=5,
        ),
    )


_TEXT = _mostly(st.one_of(LEAVES, ANY_TEXT.map("A {}".format), texts(LIMITS.label)))
_FLAG = st.one_of(st.booleans(), st.sampled_from(("true", "no", "", 0, None)), LEAVES)
_OPTION = _mostly(st.one_of(texts(LIMITS.label), _objects({LABEL_NAMES: _TEXT}, {DESCRIPTION_NAMES: _TEXT})))
_OPTION_LISTS = _mostly(
    st.one_of(
        st.none(),
        st.lists(_OPTION, max_size=4),
        st.dictionaries(st.one_of(ANY_TEXT, st.sampled_from(LABEL_NAMES)), LEAVES, max_size=3),
    )
)
_QUESTION_FIELDS: tuple[Fields, Fields] = (
    {TEXT_NAMES: _TEXT},
    {TEXT_NAMES: _TEXT, HEADER_NAMES: _TEXT, OPTIONS_NAMES: _OPTION_LISTS, MULTI_NAMES: _FLAG},
)
_QUESTION = _mostly(st.one_of(_objects(*_QUESTION_FIELDS), texts(LIMITS.text)))
_QUESTION_LISTS = st.lists(_QUESTION, min_size=1, max_size=3)
ARGUMENT_OBJECTS = st.one_of(
    st.fixed_dictionaries({"questions": _mostly(_QUESTION_LISTS)}),
    st.fixed_dictionaries({"questions": _QUESTION}),
    st.fixed_dictionaries({"questions": _mostly(st.fixed_dictionaries({"questions": _QUESTION_LISTS}))}),
    _objects(*_QUESTION_FIELDS),
    st.dictionaries(st.sampled_from(("questions", *TEXT_NAMES, *OPTIONS_NAMES)), JSON, max_size=3),
)
"""Objects that a model may send: near to an ask, each part in every admitted form or in a wrong one."""

DATABASE = Question("Which database?", "Database", (Option("SQLite", "one file"), Option("PostgreSQL")))
DATABASE_PLAIN: dict[str, Any] = {
    "question": "Which database?",
    "header": "Database",
    "options": [{"label": "SQLite", "description": "one file"}, {"label": "PostgreSQL", "description": ""}],
    "multiSelect": False,
}


def _with(**fields: Any) -> dict[str, Any]:
    return {"questions": [DATABASE_PLAIN | fields]}


GENEROUS: dict[str, Any] = {
    "the plain form": {"questions": [DATABASE_PLAIN]},
    "AskUserQuestion's own extras": {
        "questions": [
            DATABASE_PLAIN | {"options": [o | {"preview": "…"} for o in DATABASE_PLAIN["options"]]}
        ],
        "answers": {},
        "metadata": {"source": "model"},
    },
    "one question in place of the list": {"questions": DATABASE_PLAIN},
    "one question at the top level": DATABASE_PLAIN,
    "questions null beside one at the top level": {"questions": None, **DATABASE_PLAIN},
    "JSON in place of the list": {"questions": as_json([DATABASE_PLAIN])},
    "JSON in place of the one question": {"questions": as_json(DATABASE_PLAIN)},
    "JSON of JSON": {"questions": as_json(as_json([DATABASE_PLAIN]))},
    "JSON in place of each question": {"questions": [as_json(DATABASE_PLAIN)]},
    "JSON in place of the options": _with(options=as_json(DATABASE_PLAIN["options"])),
    "JSON in place of each option": _with(options=[as_json(option) for option in DATABASE_PLAIN["options"]]),
    "JSON of all arguments under questions": {"questions": as_json({"questions": [DATABASE_PLAIN]})},
    "all arguments once more under questions": {"questions": {"questions": [DATABASE_PLAIN]}},
    "options from label to description": _with(options={"SQLite": "one file", "PostgreSQL": ""}),
    "options from label to null": _with(options={"SQLite": "one file", "PostgreSQL": None}),
    "a bare string among the options": _with(options=[DATABASE_PLAIN["options"][0], "PostgreSQL"]),
    "an option that asks for free text": _with(options=[*DATABASE_PLAIN["options"], "Other"]),
    "white space around texts": _with(question="\n Which database? ", header=" Database"),
    "a word for multiSelect": _with(multiSelect="False"),
    "a number for multiSelect": _with(multiSelect=0),
    "null for multiSelect": _with(multiSelect=None),
}
"""What a model may send in place of the plain form; each means `DATABASE`."""


def ask_of(*asked: Question, id: str = "q1") -> Ask:  # noqa: A002 # the field's own name
    """Return an ask of these questions."""
    return Ask(id, "s1", asked or (DATABASE,), asked_at=datetime(2026, 9, 1, tzinfo=UTC))
