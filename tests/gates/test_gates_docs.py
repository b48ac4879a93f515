"""The page on the gates keeps its promises: its whole examples run, and its tables are what the code has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from opask.proposals import write_scopes
from opask.testing import Scripted
from opask_claude.floor import CHANGES

PAGE = (Path(__file__).parents[2] / "docs/gates.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


async def test_the_clarifying_workflow_runs() -> None:
    """The workflow on the page runs with an operator, without one, and from a record."""
    (example,) = [example for example in EXAMPLES if "async def plan" in example]
    names: dict[str, Any] = {}
    exec(compile(example, "docs/gates.md", "exec"), names)  # noqa: S102 # our own page
    told: list[Any] = []
    answered = await names["plan"](Scripted({"Which database?": "SQLite"}), tell=told.append)
    assert answered == "Use SQLite."
    assert await names["plan"](recorded=told[-1].output) == answered
    assert await names["plan"]() == "To be decided: Which database?"


def test_the_profile_on_the_page_is_as_it_says() -> None:
    """The example of a changed profile holds."""
    (example,) = [example for example in EXAMPLES if "tokei" in example]
    exec(compile(example, "docs/gates.md", "exec"), {})  # noqa: S102 # our own page


def test_the_table_of_changes_is_the_floors() -> None:
    """Each change of a read-only floor on claude has its line."""
    assert re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE) == list(CHANGES)


def test_the_surfaced_default_is_the_turn() -> None:
    """The page and the code agree on which scope comes first."""
    assert "for this turn (the default)" in PAGE
    assert write_scopes("write")[0] == "turn"
    assert write_scopes("external") == ("action",)
