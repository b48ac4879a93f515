"""A host that asks one question on its terminal; run by the tests in a terminal of their own."""

from __future__ import annotations

import argparse
import sys
import termios
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio

from opask import Ask, Option, Question
from opask.surfaces import prompter_for_terminal
from opask.surfaces.plain import PlainPrompter
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
    "name": Question("What should it be called?"),
}


async def ask(prompter: TerminalPrompter | PlainPrompter, questions: list[str], *, stream: bool) -> None:
    """Ask, and print the reply and how much of the turn was written meanwhile."""
    now = datetime.now(UTC)
    ask = Ask("ask-1", "session-1", [QUESTIONS[name] for name in questions], now, now + timedelta(minutes=5))
    written = 0

    async def turn() -> None:
        nonlocal written
        while stream:
            prompter.write(f"line {written} of the turn\n")
            written += 1
            await anyio.sleep(0.005)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(turn)
        reply = await prompter.ask(ask)
        tasks.cancel_scope.cancel()
    prompter.settled(ask, reply)
    prompter.write(f"reply: {reply}\n")
    prompter.write(f"written: {written}\n")


def main() -> None:
    """Do what the command line says, and tell whether the terminal is as it was."""
    parser = argparse.ArgumentParser()
    parser.add_argument("questions", nargs="+")
    parser.add_argument(
        "--stream", action="store_true", help="have a turn go on while the questions are open"
    )
    parser.add_argument("--wait-for", type=Path, help="ask once this file is there")
    parser.add_argument("--clear", action="store_true", help="start at the top of the screen")
    parser.add_argument(
        "--at-once", action="store_true", help="take a line however soon it comes after its question"
    )
    settings = parser.parse_args()
    interrupts: list[bool] = []
    prompter = prompter_for_terminal(on_interrupt=lambda: interrupts.append(True))
    if settings.at_once and isinstance(prompter, PlainPrompter):
        prompter._guard = 0.0
    before = termios.tcgetattr(0)
    prompter.write("available\n" if prompter.available("session-1") else "not available\n")
    if settings.clear:
        sys.stdout.write("\x1b[H\x1b[2J")
        sys.stdout.flush()
    while settings.wait_for is not None and not settings.wait_for.exists():
        time.sleep(0.01)
    anyio.run(lambda: ask(prompter, settings.questions, stream=settings.stream))
    prompter.write(f"interrupted: {bool(interrupts)}\n")
    prompter.write(f"sane: {termios.tcgetattr(0) == before}\n")


if __name__ == "__main__":
    main()
