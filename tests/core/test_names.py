"""Names of tools and the pieces that spellings are made from."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opask.names import AskTools, ToolName, collapse, cut, elide, sanitise

OURS = ToolName("opask", "ask_user_question")

# The spellings that runtimes were seen to use, made from the pieces as an adapter would.
SPELLINGS = {
    "claude, kimi, qwen": (OURS.spelled("mcp__{server}__{tool}"), "mcp__opask__ask_user_question"),
    "omp": (OURS.spelled("mcp__{server}_{tool}"), "mcp__opask_ask_user_question"),
    "opencode": (OURS.spelled("{server}_{tool}"), "opask_ask_user_question"),
    "gemini": (OURS.spelled("mcp_{server}_{tool}"), "mcp_opask_ask_user_question"),
    "copilot": (OURS.spelled("{server}-{tool}"), "opask-ask_user_question"),
    "vibe": (OURS.spelled("mcp_{server}.{tool}"), "mcp_opask.ask_user_question"),
    "kimi's legacy": (OURS.spelled("{tool}"), "ask_user_question"),
}


@pytest.mark.parametrize(("spelled", "seen"), SPELLINGS.values(), ids=SPELLINGS)
def test_spellings_that_were_seen_can_be_made(spelled: str, seen: str) -> None:
    """Each runtime's spelling of the supplied tool is a template over the canonical name."""
    assert spelled == seen


def test_each_part_is_mangled_by_itself() -> None:
    """What a runtime does to a part is done before the parts are joined, so that the joint stays as it is."""
    name = ToolName("op.ask", "ask:it")
    assert (
        name.spelled("mcp__{server}__{tool}", lambda part: sanitise(part, "A-Za-z0-9_-"))
        == "mcp__op_ask__ask_it"
    )


@pytest.mark.parametrize("server", ["op.ask", "op:ask", "op ask", "op_ask", "op\nask", "op/ask"])
def test_names_can_collapse_into_one(server: str) -> None:
    """Servers that differ only in characters that are not kept are spelled alike."""
    assert sanitise(server, "A-Za-z0-9_-") == "op_ask"


@given(st.text())
def test_a_sanitised_name_has_only_kept_characters(text: str) -> None:
    """Every character outside of the class is replaced, each by itself, and doing it again changes nothing."""
    clean = sanitise(text, "A-Za-z0-9_-")
    assert re.fullmatch("[A-Za-z0-9_-]*", clean)
    assert len(clean) == len(text)
    assert sanitise(clean, "A-Za-z0-9_-") == clean


def test_a_replacement_is_taken_as_it_is() -> None:
    """A backslash in a replacement is no reference."""
    assert sanitise("a.b", "a-z", r"\1") == r"a\1b"


@given(st.text(alphabet="ab_."))
def test_no_run_is_left_after_collapsing(text: str) -> None:
    """Runs of the character become one; all else stays."""
    collapsed = collapse(text)
    assert "__" not in collapsed
    assert collapsed.replace("_", "") == text.replace("_", "")
    assert collapse(text, ".").count("..") == 0


@given(st.text(max_size=80), st.integers(9, 64))
def test_a_cut_name_fits_and_ends_in_its_tail(text: str, limit: int) -> None:
    """A name that fits stays whole; another is cut to the limit and ends in what is made from the whole."""

    def tail(whole: str) -> str:
        return f"_{len(whole):08}"

    short = cut(text, limit, tail)
    if len(text) <= limit:
        assert short == text
    else:
        assert len(short) == limit
        assert short.endswith(tail(text))
        assert text.startswith(short.removesuffix(tail(text)))


def test_a_tail_that_cannot_fit_is_an_error() -> None:
    """A limit that is shorter than the tail is a mistake of the adapter."""
    with pytest.raises(ValueError, match="does not fit"):
        cut("abcdef", 3, lambda _: "_12345678")


def test_a_name_is_elided_in_the_middle() -> None:
    """A long name keeps its two ends around a filler; a short one stays."""
    assert elide("x" * 63, 63, 30) == "x" * 63
    assert elide("a" * 40 + "b" * 40, 63, 30) == "a" * 30 + "..." + "b" * 30


TOOLS = AskTools(supplied={"mcp__opask__ask_user_question"}, native=("AskUserQuestion", "ask"))


def test_ask_tools_are_known_by_exact_spelling() -> None:
    """A tool is an ask tool only by one of the given spellings."""
    assert TOOLS.kind("mcp__opask__ask_user_question") == "supplied"
    assert TOOLS.kind("AskUserQuestion") == "native"
    assert TOOLS.kind("ask") == "native"


@pytest.mark.parametrize(
    "other",
    [
        "",
        "Ask",
        "asks",
        "ask ",
        "mcp__opask__ask_user_question ",
        "opask__ask_user_question",
        None,
        1,
        [],
        {},
        b"ask",
    ],
)
def test_nothing_else_is_an_ask_tool(other: object) -> None:
    """A name that only resembles one, or no name at all, is none."""
    assert TOOLS.kind(other) is None


def test_a_spelling_that_could_be_both_is_native() -> None:
    """Where the runtime's own tool has the supplied one's name it counts as native, which is never allowed."""
    assert (
        AskTools(supplied="ask_user_question", native="ask_user_question").kind("ask_user_question")
        == "native"
    )


def test_one_spelling_is_not_taken_apart() -> None:
    """A single string is one spelling, not a set of letters."""
    assert AskTools(native="ask").native == {"ask"}
