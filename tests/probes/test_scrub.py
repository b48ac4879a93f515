"""What is taken out of a recording, and what is left as it was."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opask_probes.scrub import LONG, Scrubber

PLACES = {
    "/tmp/opask-ab12/home": "<home>",
    "/tmp/opask-ab12/work": "<work>",
    "/tmp/opask-ab12": "<sandbox>",
    "http://127.0.0.1:4242": "<model>",
    "/opt/python/bin/python3": "<python>",
}


def scrubber() -> Scrubber:
    """Make a scrubber that knows some places and names."""
    return Scrubber(PLACES, ["hopper", "build-7"], ["usage", "slash_commands"])


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("cwd /tmp/opask-ab12/work", "cwd <work>"),
        ("/tmp/opask-ab12/home/.claude/x.json", "<home>/.claude/x.json"),
        ("/tmp/opask-ab12/b/s", "<sandbox>/b/s"),
        ("projects/-tmp-opask-ab12-work/1.jsonl", "projects/<work-slug>/1.jsonl"),
        ("POST http://127.0.0.1:4242/v1/messages", "POST <model>/v1/messages"),
        ("run /opt/python/bin/python3 -I", "run <python> -I"),
        ("read /srv/secret/plans.txt, then /usr/lib/x", "read <path>, then <path>"),
        ("file:///home/ada/notes", "file://<path>"),
        (r"C:\Users\ada\notes", "<path>"),
        ("key sk-test and sk-ant-api03-AAAA", "key <key> and <key>"),
        ("Authorization: Bearer abcdefghijkl", "Authorization: Bearer <key>"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2ln", "<key>"),
        ("mail ada@example.org now, or grace@navy.mil", "mail ada@example.org now, or <address>"),
        ("on Build-7 as hopper", "on <name> as <name>"),
        ("a grasshopper/hopper2 and/or 3/4, https://claude.com/claude-code", None),
        ("mcp__opask__ask_user_question", None),
        ('{"answers":{"Which database?":"SQLite"}}', None),
    ],
)
def test_a_text_is_cleaned(text: str, clean: str | None) -> None:
    """Paths, addresses, keys and names get placeholders; what is none of them stays."""
    assert scrubber().text(text) == (text if clean is None else clean)


def test_a_long_text_is_cut() -> None:
    """A text that is longer than any of ours is cut, and says how long it was; a command line is not cut."""
    text = "You are an agent. " * 100
    assert scrubber().text(text) == f"{text[:60]}… ({len(text)} characters)"
    assert scrubber().text(text, cut=False) == text
    assert scrubber().text("x" * LONG) == "x" * LONG


def test_fields_are_left_out_wherever_they_are() -> None:
    """A field that is not to be recorded is gone at every depth; all others keep their order and kind."""
    value = {
        "type": "result",
        "usage": {"input_tokens": 1},
        "n": [1, 2.5, True, None, {"usage": 1, "cwd": "/tmp/opask-ab12/work"}],
        "/tmp/opask-ab12/work": "as a key",
    }
    assert list(scrubber().value(value).items()) == [
        ("type", "result"),
        ("n", [1, 2.5, True, None, {"cwd": "<work>"}]),
        ("<work>", "as a key"),
    ]


@pytest.mark.parametrize("line", ["no JSON at /srv/secret/x", '"/srv/secret/x"', "[1]", ""])
def test_a_line_that_is_no_object_stays_text(line: str) -> None:
    """What a runtime printed beside its protocol is recorded as the text that it was, cleaned."""
    assert scrubber().line(line) == line.replace("/srv/secret/x", "<path>")


def test_a_line_becomes_its_value() -> None:
    """A line of JSON is recorded as an object."""
    assert scrubber().line('{"cwd": "/tmp/opask-ab12/work", "usage": 1}') == {"cwd": "<work>"}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.sampled_from(list(PLACES)),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    )
)
def test_cleaning_ends(value: object) -> None:
    """What is clean stays as it is, whatever it was, and holds no known place."""
    once = scrubber().value(value)
    assert scrubber().value(once) == once
    assert not any(place in json.dumps(once, ensure_ascii=False) for place in PLACES)
