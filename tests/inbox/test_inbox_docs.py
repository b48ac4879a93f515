"""The documentation of the inbox keeps its promises: its surface runs as it stands."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import anyio

from opask import Option, Question
from opask.clarify import clarify
from opask.inbox import InboxPrompter, SqliteStore

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "inbox.md").read_text(encoding="utf-8")


async def test_the_surface_answers_as_it_stands(tmp_path: Path) -> None:
    """A process with the example in it is an operator who is there, and answers what a host in this one asks."""
    _, surface = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    question = Question("Which database?", "Database", (Option("SQLite"), Option("PostgreSQL")))
    async with (
        SqliteStore(tmp_path / "opask" / "inbox.db") as store,
        InboxPrompter(store) as prompter,
        prompter.session("run-1", title="Set up the service"),
    ):
        assert not prompter.available("run-1")
        async with await anyio.open_process([sys.executable, "-c", surface], env=env, stderr=None) as process:
            try:
                with anyio.fail_after(30):
                    while not prompter.available("run-1"):  # noqa: ASYNC110 - another process's lease
                        await anyio.sleep(0.02)
                    result = await clarify((question,), prompter=prompter)
            finally:
                process.terminate()
    assert result.answer_texts() == {"Which database?": "SQLite"}
