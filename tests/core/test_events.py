from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from core.values import JSON, questions
from opask.events import Event, QuestionAsked, TextSaid, TurnEnded, event_to_json
from opask.intake import parse
from opask.outcomes import OutcomeKind
from opask.permissions import PermissionOption, PermissionRequested
from opask.questions import Question

# The fields of each event, as readers of the JSON lines know them, beside the envelope.
FIELDS = {
    "session_ready": "questions route status drift version reason",
    "turn_started": "",
    "text": "text",
    "turn_ended": "stop_reason is_error",
    "message_unreadable": "reason",
    "tool_announced": "tool ask",
    "tool_finished": "tool is_error",
    "question_asked": "questions asked_at deadline siblings_running",
    "question_correlated": "",
    "question_resolved": "outcome answers reason by duration_ms",
    "answer_refused": "reason by",
    "permission_requested": "request_id tool arguments",
    "permission_decided": "request_id verdict rule by",
    "permission_withdrawn": "request_id",
    "native_ask_refused": "tool channel",
    "ask_tool_missing": "reason server_status",
    "gate_missing": "reason",
    "host_called": "call_id call input",
    "host_returned": "call_id call output replayed",
}
DOCUMENTED = Path(__file__).parents[2] / "docs" / "events.md"
ALWAYS = ["event", "seq", "time", "session_id", "turn_id"]
WHERE_KNOWN = ["question_id", "tool_call_id", "agent_id"]
NULLED = ("tool_call_id", "question_asked")  # there even where it is not known
CLASSES = {kind.event: kind for kind in Event.__subclasses__()}

TIMES = st.datetimes(timezones=st.sampled_from((UTC, timezone(timedelta(hours=5, minutes=45)))))
BY_TYPE: dict[Any, SearchStrategy[Any]] = {
    str: st.text(st.characters(exclude_categories=()), max_size=20),
    int: st.integers(0, 10**9),
    bool: st.booleans(),
    datetime: TIMES,
    Mapping[str, Any]: st.dictionaries(st.text(max_size=5), JSON, max_size=3),
    tuple[Question, ...]: st.lists(questions(), min_size=1, max_size=4).map(tuple),
    tuple[str, ...]: st.lists(st.text(max_size=5), max_size=2).map(tuple),
    tuple[PermissionOption, ...]: st.just((PermissionOption("1", "allow_once", "Allow"),)),
    OutcomeKind: st.sampled_from(get_args(OutcomeKind)),
}


def values(hint: Any) -> SearchStrategy[Any]:
    """Give values of a field's type."""
    if hint in BY_TYPE:
        return BY_TYPE[hint]
    choices = [choice for choice in get_args(hint) if choice is not NoneType]
    assert choices, hint
    if all(isinstance(choice, str) for choice in choices):
        return st.sampled_from(choices)
    return st.none() | st.one_of([values(choice) for choice in choices])


def events(kind: type[Event]) -> SearchStrategy[Event]:
    """Give events of a kind, with every field filled."""
    hints = get_type_hints(kind)
    return st.builds(kind, **{field.name: values(hints[field.name]) for field in attrs.fields(kind)})


def test_each_event_is_in_the_contract() -> None:
    """The events that exist are the ones that readers are told of."""
    assert CLASSES.keys() == FIELDS.keys()


@pytest.mark.parametrize("name", FIELDS)
@given(st.data())
def test_the_json_form_keeps_the_contract(name: str, data: st.DataObject) -> None:
    """Each event is strict JSON: its envelope first, in order, then exactly its own fields, plain values as they are."""
    event = data.draw(events(CLASSES[name]))
    form = event_to_json(event)
    keys = list(form)
    known = [key for key in WHERE_KNOWN if getattr(event, key) is not None or (key, name) == NULLED]
    assert keys[: len(ALWAYS) + len(known)] == ALWAYS + known
    assert sorted(keys[len(ALWAYS) + len(known) :]) == sorted(FIELDS[name].split())
    assert form["event"] == name
    assert json.loads(json.dumps(form, allow_nan=False)) == form
    for key in form.keys() - {"event"}:
        value = getattr(event, key)
        if isinstance(value, datetime):
            assert datetime.fromisoformat(form[key]) == value
            assert datetime.fromisoformat(form[key]).tzinfo is not None
        elif value is None or isinstance(value, str | int):
            assert form[key] == value


@given(events(QuestionAsked))
def test_questions_are_in_the_wire_form(event: Event) -> None:
    """What is asked can be read from the event as from a call of the tool."""
    assert isinstance(event, QuestionAsked)
    assert parse(event_to_json(event)) == event.questions


def test_internal_fields_stay_inside() -> None:
    """What only the session and the adapter need is not in the JSON form."""
    ended = event_to_json(TurnEnded(stop_reason="end", dropped=("q1",)))
    asked = event_to_json(
        PermissionRequested(request_id="1", tool="Bash", ask="native", options=(), raw={"secret": "x"})
    )
    assert "dropped" not in ended
    assert not {"ask", "options", "raw"} & asked.keys()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (float("nan"), None),
        (float("-inf"), None),
        (1.5, 1.5),
        ((1, (2,)), [1, [2]]),
        ({1: {"a": b"x"}}, {"1": {"a": "b'x'"}}),
        (timedelta(seconds=1), "0:00:01"),
        ({3}, "{3}"),
    ],
)
def test_values_without_a_json_form_do_no_harm(value: object, shown: object) -> None:
    """What JSON does not know becomes null or text, wherever it lies."""
    event = PermissionRequested(request_id="1", tool="Bash", arguments={"a": [value]})
    assert event_to_json(event)["arguments"] == {"a": [shown]}


def test_deep_arguments_do_no_harm() -> None:
    """Arguments nested deeper than a printer could follow are cut off there."""
    deep: Any = "x"
    for _ in range(5000):
        deep = {"a": [deep]}
    form = event_to_json(PermissionRequested(request_id="1", tool="Bash", arguments=deep))
    assert '"a": [{"a": [' in json.dumps(form)


def test_an_event_without_a_place_has_an_empty_envelope() -> None:
    """What the session has not stamped yet is there, and empty."""
    assert event_to_json(TextSaid(text="Hi")) == {
        "event": "text",
        "seq": 0,
        "time": None,
        "session_id": "",
        "turn_id": None,
        "text": "Hi",
    }


def test_the_document_names_every_event_and_field() -> None:
    """Its tables have what readers of the JSON lines know, in order; the example is an event."""
    document = DOCUMENTED.read_text(encoding="utf-8")
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in document.splitlines() if line.startswith("| `")]
    envelope = [field for field, *rest in rows if len(rest) == 1]
    assert [name.strip(" `") for name in envelope] == [*ALWAYS, *WHERE_KNOWN]
    described = {
        row[0].strip(" `"): " ".join(re.findall(r"(?:^|;)\s*`(\w+)`", row[2]))
        for row in rows
        if len(row) == 3
    }
    assert described == FIELDS
    example = json.loads(document.partition("```json\n")[2].partition("\n```")[0])
    own = [name for name in example if name not in {*ALWAYS, *WHERE_KNOWN}]
    assert own == FIELDS[example["event"]].split()
