from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.values import (
    ANY_TEXT,
    ARGUMENT_OBJECTS,
    DATABASE,
    DESCRIPTION_NAMES,
    GENEROUS,
    HEADER_NAMES,
    JSON,
    LABEL_NAMES,
    MULTI_NAMES,
    OPTIONS_NAMES,
    TEXT_NAMES,
    TRICKY,
    as_json,
    asks,
)
from opask.intake import LIMITS, Limits, Rejected, parse
from opask.questions import Option, Question
from opask.wire import questions_to_wire


def problem(arguments: object, limits: Limits = LIMITS) -> str:
    """Return why arguments are rejected, without the advice that follows."""
    parsed = parse(arguments, limits=limits)
    assert isinstance(parsed, Rejected), parsed
    why, advice, example = parsed.message.partition(
        " Nothing was asked. Call the tool again with arguments like "
    )
    assert advice
    assert not isinstance(parse(json.loads(example)), Rejected)
    return why


def one(**fields: Any) -> Question:
    """Return the question that these fields stand for."""
    parsed = parse({"questions": [fields]})
    assert not isinstance(parsed, Rejected), parsed
    return parsed[0]


def labels(options: object) -> list[str]:
    """Return the labels that a question's options are read as."""
    return [option.label for option in one(question="Which?", options=options).options]


# -- whatever a model may send -----------------------------------------------------------------------------------


@given(st.one_of(ARGUMENT_OBJECTS, ARGUMENT_OBJECTS.map(as_json), JSON))
def test_whatever_is_sent_is_an_ask_within_bounds_or_rejected(arguments: object) -> None:
    """Any JSON value gives questions that can be shown and sent on, or a message that ends in an example."""
    parsed = parse(arguments)
    if isinstance(parsed, Rejected):
        assert problem(arguments).endswith((".", "first.", "shorter."))
        return
    assert 1 <= len(parsed) <= LIMITS.questions
    for question in parsed:
        assert question.text
        assert len(question.options) <= LIMITS.options
        assert all(option.label for option in question.options)
        bounded = [(question.text, LIMITS.text), (question.header, LIMITS.header)]
        bounded += [(option.label, LIMITS.label) for option in question.options]
        bounded += [(option.description, LIMITS.description) for option in question.options]
        for text, limit in bounded:
            assert text == text.strip()
            assert len(text) <= limit
            text.encode()


@given(st.one_of(ARGUMENT_OBJECTS, JSON))
def test_what_was_read_is_read_again_unchanged(arguments: object) -> None:
    """Questions that were read once go through the wire form and the parser unchanged."""
    parsed = parse(arguments)
    if not isinstance(parsed, Rejected):
        assert parse({"questions": questions_to_wire(parsed)}) == parsed


@given(asks())
def test_the_wire_form_is_read_back(asked: tuple[Question, ...]) -> None:
    """Valid questions come back from the wire form verbatim, also as JSON text."""
    form = questions_to_wire(asked)
    assert parse({"questions": form}) == asked
    assert parse(as_json({"questions": form})) == asked


def nested(depth: int) -> object:
    """Return a list in a list in a list."""
    value: object = "x"
    for _ in range(depth):
        value = [value]
    return value


LOOP: dict[str, Any] = {}
LOOP["questions"] = LOOP


@pytest.mark.parametrize(
    "arguments",
    [
        nested(5000),
        {"questions": nested(5000)},
        {"questions": [{"question": nested(5000)}]},
        {"questions": [{"question": "Which?", "options": nested(5000)}]},
        {"questions": "[" * 100_000},
        {"questions": [{"question": "Which?", "options": "[" * 100_000}]},
        '{"questions":' * 100_000,
        LOOP,
    ],
    ids=["list", "questions", "text", "options", "JSON list", "JSON options", "JSON object", "endless"],
)
def test_deep_nesting_never_raises(arguments: object) -> None:
    """However deep the arguments are nested, the model is told what they should be."""
    assert problem(arguments)


@pytest.mark.parametrize("number", [10**5000, -(10**5000)], ids=["huge", "huge below 0"])
@pytest.mark.parametrize("place", ["question", "header", "label", "description"])
def test_a_number_too_long_to_write_is_rejected(place: str, number: int) -> None:
    """An integer of more digits than Python converts is named as too long where it stands for text."""
    option = {"label": "A", "description": "a"} | (
        {place: number} if place in {"label", "description"} else {}
    )
    question: dict[str, Any] = {"question": "Which?", "header": "H", "options": [option]}
    question |= {place: number} if place in {"question", "header"} else {}
    assert problem({"questions": [question]}) == (
        f"questions[0]{'.options[0]' if place in option else ''}.{place} is a number that is too long."
    )


def test_numbers_and_booleans_stand_for_text() -> None:
    """A number or a boolean in place of text is read as JSON writes it."""
    assert labels([1, 2.5, True, False, {"label": 0}]) == ["1", "2.5", "true", "false", "0"]
    assert one(question=7, header=float("nan")) == Question("7", "nan")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (None, "The arguments name no `questions`."),
        ({}, "The arguments name no `questions`."),
        ({"questions": None}, "The arguments name no `questions`."),
        ({"header": "Database"}, "The arguments name no `questions`."),
        (7, "`questions` has to be a list."),
        ({"questions": True}, "`questions` has to be a list."),
        (b"Which?", "`questions` has to be a list."),
        ([], "`questions` is empty."),
        ({"questions": []}, "`questions` is empty."),
        ({"questions": {}}, "questions[0] has no text in `question`."),
        ("", "questions[0] has no text in `question`."),
        ([None], "questions[0] has to be an object."),
        (["Which?", 5], "questions[1] has to be an object."),
        ([{"question": "  "}], "questions[0] has no text in `question`."),
        ([{"header": "H"}], "questions[0] has no text in `question`."),
        ([{"question": ["Which?"]}], "questions[0].question has to be text."),
        ([{"prompt": {}}], "questions[0].prompt has to be text."),
        ([{"question": "Which?", "header": []}], "questions[0].header has to be text."),
        ([{"question": "Which?", "options": "A or B"}], "questions[0].options has to be a list of options."),
        ([{"question": "Which?", "choices": 2}], "questions[0].choices has to be a list of options."),
        ([{"question": "Which?", "options": [""]}], "questions[0].options[0] has no `label`."),
        ([{"question": "Which?", "options": ["A", None]}], "questions[0].options[1] has no `label`."),
        ([{"question": "Which?", "options": ["A", ["B"]]}], "questions[0].options[1] has to be text."),
        (
            [{"question": "Which?", "options": [{"description": "a"}]}],
            "questions[0].options[0] has no `label`.",
        ),
        (
            [{"question": "Which?", "options": [{"name": {}}]}],
            "questions[0].options[0].name has to be text.",
        ),
        (
            [{"question": "Which?", "options": [{"label": "A", "detail": []}]}],
            "questions[0].options[0].detail has to be text.",
        ),
        ([{"question": "Which?", "multiple": "maybe"}], "questions[0].multiple has to be true or false."),
        ([{"question": "Which?", "multiSelect": []}], "questions[0].multiSelect has to be true or false."),
    ],
)
def test_a_rejection_names_the_place_and_what_belongs_there(arguments: object, why: str) -> None:
    """The message to the model names the first thing that is wrong, by its own name and position."""
    assert problem(arguments) == why


# -- generosity ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", GENEROUS.values(), ids=GENEROUS)
def test_each_admitted_form_means_the_same(arguments: object) -> None:
    """Each form that is admitted beside the plain one is read as the same question, also whole as JSON."""
    assert parse(arguments) == (DATABASE,)
    assert parse(as_json(arguments)) == (DATABASE,)


def test_a_list_may_stand_in_place_of_the_arguments() -> None:
    """A bare list of questions, and a bare text, are an ask."""
    assert parse(["Which?", {"text": "Why?"}]) == (Question("Which?"), Question("Why?"))
    assert parse("Which?") == (Question("Which?"),)


@pytest.mark.parametrize("name", TEXT_NAMES)
def test_each_name_of_the_text(name: str) -> None:
    """A question's text is found under each of its names, in the list and at the top level."""
    assert parse({"questions": [{name: "Which?"}]}) == (Question("Which?"),)
    assert parse({name: "Which?", "header": "H"}) == (Question("Which?", "H"),)


@pytest.mark.parametrize("name", HEADER_NAMES)
def test_each_name_of_the_header(name: str) -> None:
    """A question's header is found under each of its names."""
    assert one(question="Which?", **{name: "H"}) == Question("Which?", "H")


@pytest.mark.parametrize("name", OPTIONS_NAMES)
def test_each_name_of_the_options(name: str) -> None:
    """A question's options are found under each of their names."""
    assert one(question="Which?", **{name: ["A"]}).options == (Option("A"),)


@pytest.mark.parametrize("name", LABEL_NAMES)
def test_each_name_of_a_label(name: str) -> None:
    """An option's label is found under each of its names, in the list and alone."""
    assert labels([{name: "A", "description": "a"}]) == ["A"]
    assert labels({name: "A", "description": "a"}) == ["A"]


@pytest.mark.parametrize("name", DESCRIPTION_NAMES)
def test_each_name_of_a_description(name: str) -> None:
    """An option's description is found under each of its names."""
    assert one(question="Which?", options=[{"label": "A", name: "a"}]).options == (Option("A", "a"),)


@pytest.mark.parametrize("name", MULTI_NAMES)
@pytest.mark.parametrize("value", [True, 1, 2.0, "true", "True", " YES ", "1", '"true"'])
def test_each_form_of_several(name: str, value: object) -> None:
    """Several options may be chosen under each name and each word for yes."""
    assert one(question="Which?", **{name: value}).multi_select


@pytest.mark.parametrize("value", [False, 0, 0.0, "false", "NO", "0", "", None])
def test_each_form_of_one_only(value: object) -> None:
    """One option is chosen for each word for no, and where nothing is said."""
    assert not one(question="Which?", multiSelect=value).multi_select


def test_an_empty_name_gives_way_to_a_full_one() -> None:
    """Where a thing has two names, the one that is null or empty is passed over."""
    assert one(question="", text="Which?", header=None, label="H") == Question("Which?", "H")


def test_an_options_mapping_may_have_an_options_field_as_label() -> None:
    """A mapping from label to description keeps each label, also one that is called like an option's field."""
    assert labels({"name": "sort by name", "date": "sort by date"}) == ["name", "date"]


def test_no_options_is_a_free_text_question() -> None:
    """Null, an empty list, an empty mapping and no options at all are alike."""
    nothing: tuple[Any, ...] = (None, [], {}, "[]", "")
    for options in nothing:
        assert one(question="Which?", options=options) == one(question="Which?")


# -- verbatim -----------------------------------------------------------------------------------------------------


def readable(text: str) -> str:
    """Return text as it may be sent on: a lone surrogate replaced, a pair joined."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").strip()


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_texts_come_through_verbatim(text: str, header: str, label: str, description: str) -> None:
    """Texts in the plain form are kept to the letter, but for white space around them and lone surrogates."""
    question = one(
        question=f"?{text}",
        header=header,
        options=[{"label": f"!{label}", "description": description}],
    )
    option = Option(readable(f"!{label}"), readable(description))
    assert question == Question(readable(f"?{text}"), readable(header), (option,))


@pytest.mark.parametrize("text", [*TRICKY, "null?", "{not json", '"one" or "two"'])
def test_text_that_reads_like_json_stays_text(text: str) -> None:
    """Text under its own name is never decoded, whatever it looks like."""
    assert one(question=text, header=text, options=[{"label": text, "description": text}]) == Question(
        text, text, (Option(text, text),)
    )


@pytest.mark.parametrize("label", ["[1]", "{}", '{"a": 1}', '"quoted"', "{not json", "null"])
def test_a_bare_label_that_reads_like_json_stays_a_label(label: str) -> None:
    """A bare string is decoded only where it names an option's label."""
    assert labels([label]) == [label]


def test_lone_surrogates_are_replaced_and_pairs_joined() -> None:
    """Half a character cannot be sent on and shows as U+FFFD; two halves are one character."""
    assert one(question="a\ud800b", header="\ud83d\ude00") == Question("a\ufffdb", "\U0001f600")


# -- bounds -------------------------------------------------------------------------------------------------------

SMALL = Limits(questions=2, options=3, text=10, header=4, label=5, description=6)


@pytest.mark.parametrize(
    ("place", "limit"),
    [("question", 10), ("header", 4), ("options[0].label", 5), ("options[0].description", 6)],
)
def test_texts_are_bounded(place: str, limit: int) -> None:
    """Text of the limit's length is taken; one character more is rejected with both numbers."""

    def arguments(length: int) -> object:
        name = place.rpartition(".")[2]
        option = {"label": "A"} | ({name: "x" * length} if "options" in place else {})
        question = {"question": "Which?", "options": [option]}
        return [question | ({} if "options" in place else {name: "x" * length})]

    assert not isinstance(parse(arguments(limit), limits=SMALL), Rejected)
    assert problem(arguments(limit + 1), SMALL) == (
        f"questions[0].{place} has {limit + 1} characters, {limit} is the limit: say it shorter."
    )


def test_counts_are_bounded() -> None:
    """As many questions and options as the limits say are taken; one more is rejected with both numbers."""
    most: dict[str, Any] = {"question": "Which?", "options": ["A", "B", "C"]}
    parsed = parse([most] * 2, limits=SMALL)
    assert isinstance(parsed, tuple)
    assert [len(question.options) for question in parsed] == [3, 3]
    assert problem([most] * 3, SMALL) == (
        "3 questions are too many for one call, 2 is the limit: ask the most important ones first."
    )
    for options in (["A", "B", "C", "D"], dict.fromkeys("ABCD")):
        assert problem([most | {"options": options}], SMALL) == (
            "questions[0].options has 4 entries, 3 is the limit."
        )


def test_the_bounds_leave_long_labels_whole() -> None:
    """A label of some hundred characters is kept whole."""
    assert labels(["x" * LIMITS.label]) == ["x" * LIMITS.label]


# -- "Other" ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "label",
    [
        "Other",
        "other",
        " OTHER… ",
        "Other:",
        "(Other)",
        "\u270f\ufe0f Other",
        "Other (please specify)",
        "Other - please specify",
        "Other, please describe below",
        "Other please specify",
        "Other: specify",
        "Other (free text)",
        "Other (free-form)",
        "Other (type your own answer)",
        "Other: I'll type it here",
        "Other \u2013 let me explain",
        "Other / custom",
        "Other\n(enter a value)",
        "Something else",
        "Something else (please describe)",
        "None of these, other",
        "None of the above / Other (specify)",
    ],
)
def test_an_option_that_only_asks_for_words_folds_into_free_text(label: str) -> None:
    """An option that means no more than "in your own words" is left out, as bare string and as object."""
    assert labels(["A", label, {"label": label, "description": "Say what"}]) == ["A"]
    assert labels({"A": "", label: ""}) == ["A"]


@pytest.mark.parametrize(
    "label",
    [
        "Another",
        "Others",
        "Mother",
        "Other database",
        "Other: MySQL",
        "Other (MySQL)",
        "Other type",
        "Other-type",
        "Other type of database",
        "Other: type checking",
        "Other: custom Docker image",
        "Other: enter maintenance mode",
        "Other (please specify) MySQL",
        "Other's choice",
        "Something else: MySQL",
        "None of these",
        "None of the above",
        "Type your own",
        "No other",
        "The other",
    ],
)
def test_an_option_that_names_something_stays(label: str) -> None:
    """An option that says something, be it with the word "other", is the operator's to choose."""
    assert labels(["A", label]) == ["A", label]


@pytest.mark.parametrize("around", ["other{}x", "{}other", "none of these{}x", "other ({}", "other{}"])
@pytest.mark.parametrize("filler", [" ", "-", " -", "please ", "free ", "\N{FIRE}"])
def test_reading_a_label_takes_linear_time(around: str, filler: str) -> None:
    """No label makes the parser slow, whatever it repeats."""
    label = around.format(filler * 20_000)
    start = time.process_time()
    parse([{"question": "Which?", "options": [label]}], limits=Limits(label=len(label)))
    assert time.process_time() - start < 1
