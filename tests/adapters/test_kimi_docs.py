"""The documentation of Kimi keeps its promises: its example runs as it stands, its tables are the code's."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from opask_kimi import adapter, legacy_adapter
from opask_kimi.launch import CHANGES

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "kimi.md").read_text(encoding="utf-8")
ASKS = {"ask": {"questions": [{"question": "Which database?", "options": ["SQLite"]}]}}


def test_the_host_example_runs_as_it_stands(tmp_path: Path) -> None:
    """An agent in Kimi's place asks, is answered, and the user's own folder is what it was but for what Kimi keeps."""
    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    home = tmp_path / "home"
    settings = home / ".kimi-code" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_bytes(b"# mine\r\n")
    kimi = tmp_path / "kimi"
    agent = shlex.join([sys.executable, str(ROOT / "tests" / "acp_agent.py"), json.dumps(ASKS)])
    check = 'grep -q AskUserQuestion "$KIMI_CODE_HOME/config.toml" && touch "$KIMI_CODE_HOME/sessions/kept"'
    kimi.write_text(f'#!/bin/sh\n[ "$1" = acp ] && {check} && exec {agent}\n', encoding="utf-8")
    kimi.chmod(0o700)
    env = {name: value for name, value in os.environ.items() if not name.startswith("KIMI_")}
    done = subprocess.run(
        [sys.executable, "-c", example],
        env={**env, "HOME": str(home), "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert set(lines) >= {"session_ready", "question_asked", "question_resolved", "turn_ended"}
    # The bridge tells that the question is resolved once the answer is written, which the agent may overtake.
    (said,) = [line for line in lines[-2:] if "SQLite" in line]
    assert said
    assert settings.read_bytes() == b"# mine\r\n"
    assert (settings.parent / "sessions" / "kept").is_file()


def test_every_change_is_explained() -> None:
    """The page names each lever that a launch of either product may pull."""
    told = set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", PAGE))
    assert CHANGES.keys() <= told
    shared = {"ask-server", "session-server-name"}  # any agent's, on the page of ACP
    assert (adapter.changes.keys() | legacy_adapter.changes.keys()) - shared <= told
