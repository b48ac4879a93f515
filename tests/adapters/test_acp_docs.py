"""The documentation of ACP keeps its promises: its examples run as they stand, its table is the code's."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from opask_acp.states import TABLE

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "acp.md").read_text(encoding="utf-8")
DRIVEN, OWN_CLIENT, PROFILE = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
ASKS = {"ask": {"questions": [{"question": "Which database?", "options": ["SQLite"]}]}, "permission": True}
EVENTS = {
    "session_ready",
    "turn_started",
    "tool_announced",
    "permission_requested",
    "permission_decided",
    "question_asked",
    "question_resolved",
    "turn_ended",
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Give a PATH with the example's agent on it, which asks for permission to ask, and asks."""
    agent = tmp_path / "my-agent"
    command = shlex.join([sys.executable, str(ROOT / "tests" / "acp_agent.py"), json.dumps(ASKS)])
    agent.write_text(f'#!/bin/sh\n[ "$1" = acp ] && exec {command}\n', encoding="utf-8")
    agent.chmod(0o700)
    return f"{tmp_path}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.parametrize("example", [DRIVEN, OWN_CLIENT], ids=["driven", "own client"])
def test_a_host_example_runs_as_it_stands(example: str, path: str) -> None:
    """The agent asks and is answered, its permission request is decided, and the host sees every event of it."""
    done = subprocess.run(
        [sys.executable, "-c", example],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert set(lines) >= EVENTS
    assert "ask_tool_missing" not in lines
    # The bridge tells that the question is resolved once the answer is written, which the agent may overtake.
    (end,) = [line for line in lines if line.startswith("end_turn")]
    if example is DRIVEN:
        assert r"{\"answers\": {\"Which database?\": \"SQLite\"}}" in end


def test_the_profile_can_be_made() -> None:
    """The example of a profile gives an adapter by the name in it."""
    made: dict[str, object] = {}
    exec(PROFILE, made)  # noqa: S102 - the page's own words
    assert getattr(made["adapter"], "runtime", None) == "my-agent"


def test_the_table_is_the_codes() -> None:
    """The page's table of states has every row of the code's, and no other."""
    rows = re.findall(r"^\| ([^|]*?) \| ([^|]*?) \| ([^|]*?) \|$", PAGE, re.MULTILINE)
    (_, *told) = rows
    assert told == [
        (state.value, step.value, to.value) for state, row in TABLE.items() for step, to in row.items()
    ]
