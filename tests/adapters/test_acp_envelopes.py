"""The wrappings of arguments: taken off when they are there in whole, and never otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from acp_samples import ASK, ASKED, ask, content, hear, in_turn, of, update
from opask.events import QuestionAsked, QuestionCorrelated
from opask.intake import Rejected, parse
from opask_acp.envelopes import Addressed, addressed, bare, named_title, nested, whole_object
from opask_acp.profile import Profile
from opask_acp.toolcalls import ToolCall

TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=4)
ASKS = st.fixed_dictionaries(
    {
        "questions": st.lists(
            st.fixed_dictionaries(
                {"question": st.text(min_size=1, max_size=12).filter(str.strip)},
                optional={
                    "options": st.lists(st.text(min_size=1, max_size=8).filter(str.strip), max_size=3),
                    "multiSelect": st.booleans(),
                },
            ),
            min_size=1,
            max_size=3,
        )
    }
)
# Where arguments stand in a report, by the reports' fields.
WRAPPINGS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "bare": lambda arguments: {"rawInput": arguments},
    "a JSON string": lambda arguments: {"rawInput": json.dumps(arguments)},
    "beside their tool": lambda arguments: {
        "rawInput": {"server": "opask", "tool": "ask_user_question", "arguments": arguments}
    },
    "a JSON string beside their tool": lambda arguments: {
        "rawInput": {"server": "opask", "tool": "ask_user_question", "arguments": json.dumps(arguments)}
    },
    "text of the content": lambda arguments: {"content": content(json.dumps(arguments))},
    "text in two pieces": lambda arguments: {
        "content": [*content(json.dumps(arguments)[:7]), *content(json.dumps(arguments)[7:])]
    },
}
WRAPPING = st.sampled_from(sorted(WRAPPINGS))


def told(report: Mapping[str, Any]) -> Any:
    """Give the questions that a profile reads off a report."""
    found = [parse(each) for each in Profile().arguments(ToolCall("c1").updated(report))]
    return next((each for each in found if not isinstance(each, Rejected)), None)


@given(OBJECTS)
def test_a_text_is_an_object_when_it_is_whole(value: dict[str, Any]) -> None:
    """Split anywhere, an object's text is nothing until its last character, and then what was written."""
    text = json.dumps(value)
    assert whole_object(text) == value
    assert [end for end in range(len(text)) if whole_object(text[:end]) is not None] == []


@given(OBJECTS, st.text(min_size=1, max_size=6))
def test_a_text_with_something_behind_is_none(value: dict[str, Any], behind: str) -> None:
    """An object's text with anything but white space behind it, or before, is not taken for that object."""
    assume(behind.strip())
    for text in (json.dumps(value) + behind, behind + json.dumps(value)):
        assert whole_object(text) != value or json.loads(text) == value


@given(
    st.one_of(
        st.text(max_size=40), JSON, st.sampled_from(["[" * 100_000, '{"a":' * 100_000 + "}", "{}}", "{NaN}"])
    )
)
def test_nothing_malformed_raises(value: object) -> None:
    """Whatever a report holds is read, or is nothing; never an exception."""
    whole_object(value)
    list(bare(value))
    addressed(value, "xd://")
    nested(value, "details", "args")
    if isinstance(value, str):
        named_title(value)
    for key in ("rawInput", "content", "title", "name", "_meta", "rawOutput", "status"):
        assert told({key: value}) is None or key in ("rawInput", "content")
        told({"content": [{"type": "content", "content": {"type": "text", key: value}}, value]})


@given(ASKS, WRAPPING)
def test_every_wrapping_is_taken_off(arguments: dict[str, Any], wrapping: str) -> None:
    """In each wrapping the same arguments give the same questions."""
    assert told(WRAPPINGS[wrapping](arguments)) == parse(arguments)


@given(ASKS)
def test_growing_text_is_known_as_early_as_it_is_whole(arguments: dict[str, Any]) -> None:
    """Cumulative text correlates an ask with the very report that completes it, and not one earlier."""
    conversation, _ = in_turn()
    conversation.ask_arrived(ask(1, arguments))
    hear(conversation, update("tool_call", toolCallId="c1", title=ASK, content=content("")))
    text = json.dumps(arguments)
    for end in range(0, len(text), max(len(text) // 9, 1)):
        report = update("tool_call_update", toolCallId="c1", content=content(text[:end]))
        assert not of(QuestionCorrelated, hear(conversation, report))
    whole = update("tool_call_update", toolCallId="c1", content=content(text))
    assert of(QuestionCorrelated, hear(conversation, whole)) == [
        QuestionCorrelated(question_id="ask-1", tool_call_id="c1")
    ]


@pytest.mark.parametrize(
    "spoil", [lambda text: text[:-1], lambda text: text + " and so on", lambda text: text + "}"]
)
@pytest.mark.parametrize("wrapping", [name for name in WRAPPINGS if "text" in name or "JSON" in name])
def test_what_is_not_whole_claims_nothing(wrapping: str, spoil: Callable[[str], str]) -> None:
    """A call whose arguments are cut off, or go on, is no ask's: the ask is asked all the same, under no call."""
    spoiled = json.loads(json.dumps(WRAPPINGS[wrapping](ASKED)))
    for holder, key in _texts(spoiled):
        holder[key] = spoil(holder[key])
    conversation, _ = in_turn()
    hear(conversation, update("tool_call", toolCallId="c1", title=ASK, **spoiled))
    (asked,) = of(QuestionAsked, conversation.ask_arrived(ask()))
    assert asked.tool_call_id is None


def _texts(value: Any) -> list[tuple[Any, Any]]:
    """Give the places of the last JSON text in a report."""
    found: list[tuple[Any, Any]] = []
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(inner, str) and ("}" in inner or "{" in inner):
            found.append((value, key))
        elif isinstance(inner, dict | list):
            found += _texts(inner)
    return found[-1:]


# -- one by one ------------------------------------------------------------------------------------------------------


def test_an_address_names_the_tool() -> None:
    """A call by an address has the tool's name there, and its arguments where they are an object in whole."""
    raw = {"path": "xd://mcp__opask_ask_user_question", "content": json.dumps(ASKED), "i": "Asking"}
    assert addressed(raw, "xd://") == Addressed("mcp__opask_ask_user_question", ASKED)
    assert addressed({**raw, "content": ASKED}, "xd://") == Addressed("mcp__opask_ask_user_question", ASKED)
    for nothing in ("", "{", "[]", None, 7):
        assert addressed({**raw, "content": nothing}, "xd://") == Addressed(
            "mcp__opask_ask_user_question", None
        )
    for other in ("/xd://x", "xd://", "file.txt", "XD://x", None, 7):
        assert addressed({**raw, "path": other}, "xd://") is None
    assert addressed([raw], "xd://") is None


def test_nested_details_are_found() -> None:
    """An object deep in a result is found by its path, as it is or as a JSON string, and nothing else is."""
    raw = {"details": {"xdev": {"args": ASKED, "text": json.dumps(ASKED), "list": [ASKED]}}}
    assert nested(raw, "details", "xdev", "args") == ASKED
    assert nested(raw, "details", "xdev", "text") == ASKED
    for path in (
        ("details", "xdev", "list"),
        ("details", "args"),
        ("details", "xdev", "args", "questions", "0"),
    ):
        assert nested(raw, *path) is None


def test_a_title_that_is_cut_off_has_a_name() -> None:
    """The name is what stands before the first colon; the arguments behind it, cut off, are not read."""
    assert named_title('ask_user_question: {"questions": [{"quest…') == "ask_user_question"
    assert named_title("ask_user_question") == "ask_user_question"
    assert named_title(": x") == ""


def test_an_empty_input_is_no_arguments() -> None:
    """An object with nothing in it, as some runtimes report first, says nothing of the arguments."""
    assert list(bare({})) == []
    assert told({"rawInput": {}, "content": content("")}) is None


def test_very_long_content_is_not_kept() -> None:
    """Content beyond a bound is given up as a whole, so that no half of it is taken for something."""
    call = ToolCall("c1").updated({"content": content("x" * 600_000)})
    assert len(call.texts) == 1
    call = call.with_piece(content("x" * 600_000)[0])
    assert call.texts == ()
