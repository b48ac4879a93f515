"""The terminal prompter on a real terminal: what an operator sees, and what stays."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from terminals import WITHIN, Terminal

pytestmark = [
    pytest.mark.tmux,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]
HOST = Path(__file__).parent / "host.py"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """Set up a terminal."""
    terminal = Terminal(tmp_path, sys.executable, str(HOST))
    yield terminal
    terminal.close()


def after_available(terminal: Terminal) -> list[str]:
    """Give all lines after the host's first, up to the reply."""
    lines = terminal.everything()
    end = next(at for at, line in enumerate(lines) if line.startswith("reply: "))
    return lines[lines.index("available") + 1 : end]


def test_one_option(terminal: Terminal) -> None:
    """The card shows with its keys; a number answers; the block stays and the terminal is as it was."""
    terminal.run("database")
    terminal.until(r"^╰ 1-2 choose · t type · s skip · ↑↓ Enter · Ctrl-C cancel$")
    assert re.search(
        r"^available\n"
        r"╭ Database ─+ agent · (5:00|4:\d\d) left\n"
        r"│ Which database should the service use\?\n"
        r"│\n"
        r"│ ❯ 1 PostgreSQL  A server to run\n"
        r"│   2 SQLite      One file\n"
        r"│   t Other: type your own answer\n"
        r"│\n"
        r"╰ 1-2 choose",
        terminal.screen(),
    )
    terminal.keys("Down")
    terminal.until("❯ 2 SQLite")
    terminal.keys("Enter")
    terminal.until("^sane: True")
    assert after_available(terminal) == ["│ Database  Which database should the service use?", "│ ✓ SQLite"]
    assert "selected=(1,)" in "".join(terminal.everything())


def test_several_options(terminal: Terminal) -> None:
    """Space and numbers mark, Enter sends."""
    terminal.run("parts")
    terminal.until("Enter done")
    terminal.keys("Space", "3")
    terminal.until(r"1 \[x\] API[^╰]*❯ 3 \[x\] Docs")
    terminal.keys("Enter")
    terminal.until("^sane: True")
    assert after_available(terminal) == ["│ Parts  Which parts should be done first?", "│ ✓ API  ✓ Docs"]
    assert "selected=(0, 2)" in "".join(terminal.everything())


def test_own_words(terminal: Terminal) -> None:
    """Words are typed on the card with a cursor of their own, and edited as on a command line."""
    terminal.run("database")
    terminal.until("t type")
    terminal.keys("t")
    terminal.until("Enter send")
    terminal.keys("-l", "neither of themm")
    terminal.until("❯ neither of themm")
    terminal.keys("BSpace", "C-a")
    terminal.keys("-l", "No: ")
    terminal.until("❯ No: neither of them$")
    terminal.keys("Enter")
    terminal.until("^sane: True")
    assert after_available(terminal)[-1] == "│ ✓ “No: neither of them”"


def test_skip(terminal: Terminal) -> None:
    """Esc asks whether to skip; Esc again does it; s skips at once."""
    terminal.run("database", "parts")
    terminal.until("1 of 2.*(\n.*)*s skip")
    terminal.keys("Escape")
    terminal.until(r"│ Skip this question\?\n╰ y skip · n go back")
    terminal.keys("Escape")
    terminal.until("2 of 2.*(\n.*)*s skip")
    terminal.keys("s")
    terminal.until("^sane: True")
    assert after_available(terminal)[1::2] == ["│ – skipped", "│ – skipped"]
    assert "reply: Skipped(by='terminal')" in terminal.everything()


def test_ctrl_c(terminal: Terminal) -> None:
    """Ctrl-C cancels the ask and tells the host; no signal ends it."""
    terminal.run("database")
    terminal.until("Ctrl-C cancel")
    terminal.keys("C-c")
    terminal.until("^sane: True")
    assert after_available(terminal)[-1] == "│ × cancelled"
    assert {"reply: Cancelled(by='operator')", "interrupted: True"} <= set(terminal.everything())


def test_typed_ahead(terminal: Terminal, tmp_path: Path) -> None:
    """What is typed before the card is there is no answer."""
    go = tmp_path / "go"
    terminal.run("database", "--wait-for", str(go))
    terminal.until("^available")
    terminal.keys("1", "Enter", "1")
    terminal.until("^1\n1")  # the terminal's own echo: it is waiting there
    go.touch()
    terminal.until("s skip")
    terminal.keys("2")
    terminal.until("^sane: True")
    assert "│ ✓ SQLite" in after_available(terminal)


def test_the_turn_streams_on_above_the_card(terminal: Terminal) -> None:
    """While the card is open lines stream above it; none is lost, torn or out of order, and no card is left over."""
    terminal.run("database", "parts", "--stream")
    terminal.until(r"line \d+ of the turn\n╭ Database ─+ agent · 1 of 2(.*\n)*╰ 1-2 choose")
    above = r"line (\d+) of the turn\n╭ Database"
    seen = int(terminal.until(above)[1])
    end = time.monotonic() + WITHIN
    while int(terminal.until(above)[1]) < seen + 30:
        assert time.monotonic() < end, terminal.screen()
    terminal.keys("Down")
    terminal.until("❯ 2 SQLite")
    terminal.keys("Enter")
    terminal.until(r"line \d+ of the turn\n╭ Parts(.*\n)*╰ 1-3 mark")
    terminal.keys("2", "t")
    terminal.until("Enter keep")
    terminal.keys("-l", "typed while it streams")
    terminal.until("❯ typed while it streams$")
    terminal.keys("Enter")
    terminal.until(r"\[x\] Other: typed while it streams")
    terminal.keys("Enter")
    terminal.until("^sane: True")
    lines = terminal.everything()
    written = int(next(line for line in lines if line.startswith("written: ")).removeprefix("written: "))
    assert written > 60
    assert [line for line in lines if line.startswith("line ")] == [
        f"line {number} of the turn" for number in range(written)
    ]
    assert [line for line in lines if line[:1] in "╭│╰↑↓" and line] == [
        "│ Database  Which database should the service use?",
        "│ ✓ SQLite",
        "│ Parts  Which parts should be done first?",
        "│ ✓ Web page  ✓ “typed while it streams”",
    ]


def test_resizing(terminal: Terminal) -> None:
    """The card is drawn anew for each width, with nothing left of the old one, and can be answered."""
    terminal.run("database", "--stream")
    terminal.until("1-2 choose.*Ctrl-C cancel")
    for columns in (40, 20, 60, 33, 80):
        terminal.resize(columns, 24)
        rule = terminal.until(r"^╭ Database.*$")[0]
        end = time.monotonic() + WITHIN
        while len(rule) != columns:
            assert time.monotonic() < end, terminal.screen()
            rule = terminal.until(r"^╭ Database.*$")[0]
        terminal.until("s skip")
    terminal.keys("2")
    terminal.until("^sane: True")
    lines = terminal.everything()
    assert [line for line in lines if line[:1] in "╭│╰↑↓" and line] == [
        "│ Database  Which database should the service use?",
        "│ ✓ SQLite",
    ]


def test_a_terminal_that_gets_lower(terminal: Terminal) -> None:
    """A card fits the terminal's height as it changes, with the option in focus in view."""
    terminal.run("database")
    terminal.until("s skip")
    terminal.resize(80, 6)
    terminal.until("❯ 1 PostgreSQL")
    terminal.keys("Down")
    terminal.until("❯ 2 SQLite")
    terminal.resize(80, 24)
    terminal.until("❯ 2 SQLite.*(\n.*)*╰ 1-2 choose")
    terminal.keys("Enter")
    terminal.until("^sane: True")
    assert "│ ✓ SQLite" in after_available(terminal)


def test_a_narrow_terminal(terminal: Terminal) -> None:
    """On 20 columns the card is whole and can be answered."""
    terminal.run("database", columns=20, rows=16)
    terminal.until(r"^╭ Database ─+ [45]:\d\d$")
    terminal.until("1-2 choose.*(\n.*)*s skip")
    terminal.keys("2")
    terminal.until("^sane: True")
    assert "│ ✓ SQLite" in after_available(terminal)


@pytest.mark.parametrize("arguments", [["--clear"], ["--clear", "--stream"], ["--stream"]])
def test_a_card_at_the_top_leaves_no_copies(terminal: Terminal, arguments: list[str]) -> None:
    """A card that starts on the screen's first row, and is drawn anew often, is not copied into the scroll-back."""
    terminal.run("database", "parts", *arguments, columns=40, rows=10)
    terminal.until("1-2 choose")
    for _ in range(8):
        terminal.keys("Down", "Up")
    terminal.keys("Enter")
    terminal.until("1-3 mark")
    terminal.keys("1", "Enter")
    terminal.until("^sane: True")
    assert not [line for line in terminal.everything() if line[:1] in "╭╰↑↓" and line]


def test_no_colours(terminal: Terminal) -> None:
    """Where NO_COLOR is set a card has no colours, and is otherwise the same."""
    terminal.run("database", NO_COLOR="1")
    terminal.until("1-2 choose")
    coloured = terminal._tmux("capture-pane", "-p", "-e")
    codes = {code for codes in re.findall(r"\x1b\[([\d;]*)m", coloured) for code in codes.split(";")}
    assert codes <= {"", "0", "1", "2", "22", "39", "49"}
    assert "1" in codes
    terminal.keys("1")
    terminal.until("^sane: True")


def test_a_dumb_terminal(terminal: Terminal) -> None:
    """Where the terminal cannot draw, the question comes in plain lines."""
    terminal.run("database", "parts", "--at-once", TERM="dumb")
    terminal.until(r"^  2\. SQLite - One file\n.*\n>")
    terminal.keys("2", "Enter")
    terminal.until(r"^  3\. Docs\n.*\n>")
    terminal.keys("-l", "1, 3")
    terminal.keys("Enter")
    terminal.until("^sane: True")
    assert {"> 2", "Answered: SQLite", "> 1, 3", "Answered: API + Docs"} <= set(terminal.everything())
