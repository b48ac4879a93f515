"""The JSON form of a scenario."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opask_probes.model import (
    Call,
    Conversation,
    Expect,
    ExpectedResult,
    Reply,
    Scenario,
    ScenarioError,
    Step,
    When,
    from_data,
    from_json,
    to_data,
    to_json,
)

words = st.text(st.characters(codec="utf-8", exclude_characters="{}"), min_size=1, max_size=8)
many = st.lists(words, max_size=2).map(tuple)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | words, lambda inner: st.lists(inner, max_size=2)
)
calls = st.builds(Call, words, st.dictionaries(words, values, max_size=2))
some_calls = st.lists(calls, min_size=1, max_size=2).map(tuple)
replies = st.builds(Reply, words, some_calls) | st.builds(Reply, words) | st.builds(Reply, calls=some_calls)
results = st.builds(ExpectedResult, many, many, st.none() | st.booleans())
expects = st.builds(
    Expect, many, many, many, many, many, many, st.none() | st.lists(results, max_size=2).map(tuple)
)
steps = st.builds(Step, replies, expects, st.none() | words)
names = st.from_regex(r"\A[a-z][a-z0-9-]{0,5}\Z")
conversations = st.builds(
    Conversation,
    names,
    st.lists(steps, min_size=1, max_size=3).map(tuple),
    st.builds(When, many, many, many, many),
)
scenarios = st.builds(
    Scenario,
    words,
    st.lists(conversations, min_size=1, max_size=2, unique_by=lambda conversation: conversation.name).map(
        tuple
    ),
)


@given(scenarios)
def test_a_scenario_survives_its_json_form(scenario: Scenario) -> None:
    """What is written is read back equal, and the data has nothing that is at its default."""
    assert from_json(to_json(scenario)) == scenario
    assert from_data(to_data(scenario)) == scenario
    assert all(
        value not in (None, [], {})
        for c in to_data(scenario)["conversations"]
        for s in c["steps"]
        for value in s.values()
    )


def test_the_json_form_reads_as_documented() -> None:
    """The names of the JSON form are those of the values, field by field."""
    scenario = from_json("""
        {"name": "all", "conversations": [
          {"name": "main", "when": {"prompt_contains": ["p"], "system_contains": ["s"], "offered": ["o"], "absent": ["a"]},
           "steps": [
             {"expect": {"offered": ["o"], "absent": ["a"], "system_contains": ["s"], "system_lacks": ["t"],
                         "text_contains": ["x"], "text_lacks": ["y"],
                         "results": [{"contains": ["c"], "lacks": ["l"], "is_error": true}]},
              "hold": "gate", "reply": {"text": "{{result:1}}", "calls": [{"tool": "T", "arguments": {"a": [1, null]},
                                                              "otherwise": ["U"]}]}},
             {"reply": {"text": "bye"}, "releases": "gate"}]}]}
    """)
    first = Step(
        Reply("{{result:1}}", (Call("T", {"a": [1, None]}, ("U",)),)),
        Expect(
            ("o",), ("a",), ("s",), ("t",), ("x",), ("y",), (ExpectedResult(("c",), ("l",), is_error=True),)
        ),
        hold="gate",
    )
    steps = (first, Step(Reply("bye"), releases="gate"))
    assert scenario == Scenario("all", (Conversation("main", steps, When(("p",), ("s",), ("o",), ("a",))),))


def one(**step: Any) -> dict[str, Any]:
    """Make the data of a scenario with one step."""
    return {"name": "s", "conversations": [{"name": "main", "steps": [step]}]}


TEXT = {"text": "x"}
WRONG: list[tuple[object, str]] = [
    ([], "scenario: expected an object, found list"),
    ({"conversations": []}, "scenario: it has no name"),
    ({"name": "s"}, "scenario s: it has no conversations"),
    ({"name": "s", "conversations": {}}, "scenario: conversations must be list, found dict"),
    ({"name": "s", "conversations": [3]}, "scenario, conversations 1: expected an object, found int"),
    ({"name": "s", "conversations": [{"name": "main"}]}, "conversation main: it has no steps"),
    (
        {"name": "s", "conversations": [{"name": "a b", "steps": [{"reply": TEXT}]}]},
        "use letters, digits and dashes",
    ),
    ({**one(reply=TEXT), "note": 1}, "scenario: unknown field note"),
    (one(), "conversation main, steps 1: it has no reply"),
    (one(reply={}), "conversation main, steps 1, reply: a reply needs text or calls"),
    (one(reply={"text": ""}), "a reply needs text or calls"),
    (one(reply={"text": 3}), "conversation main, steps 1, reply: text must be str, found int"),
    (one(reply={"text": "{{answer}}"}), "unknown placeholder {{answer}}"),
    (one(reply={"text": "{{result:0}}"}), "unknown placeholder {{result:0}}"),
    (one(reply={"calls": [{"arguments": {}}]}), "conversation main, steps 1, reply, calls 1: it has no tool"),
    (one(reply={"calls": [{"tool": "T", "arguments": []}]}), "arguments must be dict, found list"),
    (one(reply={"calls": [{"tool": "T", "args": {}}]}), "unknown field args"),
    (one(reply=TEXT, expect={"offers": ["x"]}), "conversation main, steps 1, expect: unknown field offers"),
    (one(reply=TEXT, expect={"offered": "x"}), "offered must be list, found str"),
    (one(reply=TEXT, expect={"offered": [1]}), "offered must be a list of strings"),
    (
        one(reply=TEXT, expect={"results": [{"is_error": "no"}]}),
        "expect, results 1: is_error must be bool, found str",
    ),
    (one(reply=TEXT, expect=None), "expected an object, found NoneType"),
    (one(reply=TEXT, hold=1), "hold must be str, found int"),
    (one(reply=TEXT, releases="gate"), "scenario s: no step is held at gate"),
    (
        {"name": "s", "conversations": [{"name": "a", "steps": [{"reply": TEXT}]}] * 2},
        "scenario s: two conversations have one name: a, a",
    ),
]


@pytest.mark.parametrize(("data", "reason"), WRONG, ids=[reason for _, reason in WRONG])
def test_a_scenario_that_cannot_be_played_is_refused(data: object, reason: str) -> None:
    """What is unknown, missing or of the wrong kind is named, with its place."""
    with pytest.raises(ScenarioError) as raised:
        from_json(json.dumps(data))
    assert reason in str(raised.value)


def test_what_is_no_json_is_refused() -> None:
    """A text that is no JSON is an error of the scenario."""
    with pytest.raises(ScenarioError, match="the scenario is not JSON"):
        from_json("{")
