"""The real claude as the driving agent: it starts a second claude by `opask mcp`, and is told what that one asks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import mcp_live
from live_scenes import DATABASE
from opask_probes.sandbox import Isolation, Namespace, Sandbox, fresh_sandbox
from opask_probes.stage import processes_in

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


def play(sandbox: Sandbox, isolation: Isolation, claude: Path, how: str) -> dict[str, Any]:
    """Have one claude drive another in a namespace of their own; give what became of it."""
    packages = {"PYTHONPATH": ":".join(path for path in sys.path if path and Path(path).is_dir())}
    argv = [sys.executable, mcp_live.__file__, str(claude), how]
    try:
        done = subprocess.run(
            isolation.wrap(argv) if isinstance(isolation, Namespace) else argv,
            env=sandbox.environment(packages),
            cwd=sandbox.work,
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )
    finally:
        for pid, _ in processes_in(sandbox.root):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["failures"] == []
    assert (found["code"], found["results"]) == (0, ["It is done."])
    return found


@pytest.mark.parametrize(
    ("how", "by", "forms"),
    [
        ("parked", "mcp:claude-code", 0),
        ("form", "elicitation:claude-code", 1),
        ("elsewhere", "web:alice", 1),
    ],
)
def test_a_claude_drives_another_and_its_question_is_answered(
    how: str, by: str, forms: int, claude: Path, isolation: Isolation
) -> None:
    """Drive, the question, its answer (by the driving agent, by a form that its host fills in, or elsewhere), the outcome."""
    with fresh_sandbox() as sandbox:
        found = play(sandbox, isolation, claude, how)
        assert not list(sandbox.tmp.glob("opask-*"))
    (entry,) = found["entries"]
    assert (entry["state"], entry["by"], entry["answers"]) == ("delivered", by, {DATABASE: "SQLite"})
    assert len(found["forms"]) == forms
    if forms:
        fields = found["forms"][0]["requested_schema"]["properties"]
        assert fields["q1"]["enum"] == ["PostgreSQL", "SQLite"]


def test_a_claude_gives_another_a_second_prompt(claude: Path, isolation: Isolation) -> None:
    """The driven claude keeps its process and its conversation between two calls of session_drive."""
    with fresh_sandbox() as sandbox:
        assert play(sandbox, isolation, claude, "turns")["entries"] == []
