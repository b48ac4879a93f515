"""A host that asks through an inbox, and prints what became of each ask; run by tests as a process of its own.

``python asking_host.py FILE QUESTION…`` asks these, one after the other, from a session with a few words in its log. With
``--terminal`` the questions are also shown as cards on the terminal that it runs in.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio

from opask import Ask, Option, Question
from opask.inbox import InboxPrompter, SqliteStore, show
from opask.surfaces.terminal import TerminalPrompter

QUESTIONS = {
    "database": Question(
        "Which database should the service use?",
        "Database",
        (Option("PostgreSQL", "A server to run"), Option("SQLite", "One file")),
    ),
    "parts": Question(
        "Which parts should be done first?",
        "Parts",
        (Option("API"), Option("Web page"), Option("Docs")),
        True,
    ),
}


def say(what: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


async def main() -> None:
    """Ask."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("questions", nargs="+")
    parser.add_argument("--terminal", action="store_true")
    settings = parser.parse_args()
    async with (
        SqliteStore(settings.file) as store,
        InboxPrompter(store, when_absent="attach") as prompter,
        prompter.session("s1", runtime="claude", title="Set up a service"),
        anyio.create_task_group() as tasks,
    ):
        await store.append("s1", [{"event": "text", "text": "I set the service up.\n"}])
        if settings.terminal:
            tasks.start_soon(show, store, TerminalPrompter(), "terminal")
        for number, name in enumerate(settings.questions):
            now = datetime.now(UTC)
            ask = Ask(f"q{number}", "s1", (QUESTIONS[name],), now, now + timedelta(minutes=5))
            reply = await prompter.ask(ask)
            prompter.settled(ask, reply)
            await store.leases()  # behind what `settled` has left to be done
            say(f"{ask.id}: {reply}")
        tasks.cancel_scope.cancel()
    say("done")


if __name__ == "__main__":
    anyio.run(main)
