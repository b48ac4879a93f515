"""The documentation of omp keeps its promises: its example runs as it stands, its table has every change."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from opask_omp import adapter

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "omp.md").read_text(encoding="utf-8")
(OWN_CLIENT,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
ASKS = {"ask": {"questions": [{"question": "Which database?", "options": ["SQLite"]}]}}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Give a PATH with an agent on it that is started as omp is, and asks."""
    agent = tmp_path / "omp"
    command = shlex.join([sys.executable, str(ROOT / "tests" / "acp_agent.py"), json.dumps(ASKS)])
    agent.write_text(f'#!/bin/sh\n[ "$1" = acp ] && exec {command}\n', encoding="utf-8")
    agent.chmod(0o700)
    return f"{tmp_path}{os.pathsep}{os.environ['PATH']}"


def test_the_host_example_runs_as_it_stands(path: str) -> None:
    """The agent asks and is answered, and the host sees every event of it."""
    done = subprocess.run(
        [sys.executable, "-c", OWN_CLIENT],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert set(lines) >= {
        "session_ready",
        "turn_started",
        "question_asked",
        "question_resolved",
        "turn_ended",
    }
    assert "ask_tool_missing" not in lines
    assert "end_turn" in lines


def test_the_table_has_every_change() -> None:
    """Each lever of the adapter's has a row, and no other."""
    rows = re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(adapter.changes)
