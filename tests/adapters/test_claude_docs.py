"""The documentation of claude keeps its promises: its example runs as it stands, its table has every change."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from fake_claude import fake_claude_at
from opask_claude import adapter

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
PAGE = (DOCS / "claude.md").read_text(encoding="utf-8")


def test_the_host_example_runs_on_the_scripted_model(tmp_path: Path) -> None:
    """A runtime in claude's place plays the scenario that the page on the probes has, and its host answers it."""
    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    probes = (DOCS / "probes.md").read_text(encoding="utf-8")
    (scenario,) = re.findall(r"^```json\n(.*?)^```", probes, re.DOTALL | re.MULTILINE)
    (tmp_path / "scenario.json").write_text(scenario, encoding="utf-8")
    fake_claude_at(tmp_path)
    command = [sys.executable, "-m", "opask_probes.model", "--scenario", "scenario.json", "--until-eof"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, stdin=pipe, stdout=pipe, text=True) as model:
        assert model.stdin is not None
        assert model.stdout is not None
        url = json.loads(model.stdout.readline())["url"]
        done = subprocess.run(
            [sys.executable, "-c", example],
            env={
                **os.environ,
                "ANTHROPIC_BASE_URL": url,
                "ANTHROPIC_API_KEY": "sk-test",
                "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        model.stdin.close()
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert set(lines) >= {"session_ready", "question_asked", "question_resolved", "turn_ended"}
    assert "ask_tool_missing" not in lines
    assert any("SQLite" in line for line in lines)
    assert model.returncode == 0  # played as written


def test_the_table_has_every_change() -> None:
    """Each lever of the adapter's has a row, or a place in the row of the read-only floor, and no other has."""
    table = re.findall(r"^\| (`[^|]+`) \|", PAGE, re.MULTILINE)
    assert sorted(re.findall(r"`([a-z-]+)`", " ".join(table))) == sorted(adapter.changes)
