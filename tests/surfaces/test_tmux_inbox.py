"""The inbox on a real terminal: the full screen, and a card that shares its question with other surfaces."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from terminals import WITHIN, Terminal

pytestmark = [
    pytest.mark.tmux,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]
HOST = Path(__file__).parent.parent / "asking_host.py"
OPASK = Path(sys.executable).with_name("opask")


class Host:
    """A host that asks, in a process of its own."""

    def __init__(self, file: Path, *questions: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HOST), str(file), *questions], stdout=subprocess.PIPE, text=True
        )

    def says(self) -> str:
        """Give its next line."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip()

    def ends(self) -> int:
        """Wait for its end."""
        return self._process.wait(timeout=40)

    def kill(self) -> None:
        """End it. Idempotent."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


Asks = Callable[..., Host]


@pytest.fixture
def asks(inbox: Path) -> Iterator[Asks]:
    """Start hosts that ask, and end them."""
    hosts: list[Host] = []

    def start(*questions: str) -> Host:
        hosts.append(Host(inbox, *questions))
        return hosts[-1]

    yield start
    for host in hosts:
        host.kill()


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """Give an inbox's file."""
    return tmp_path / "inbox.db"


@pytest.fixture
def screen(tmp_path: Path, inbox: Path) -> Iterator[Terminal]:
    """Open the full screen on it."""
    terminal = Terminal(tmp_path, str(OPASK), "inbox", "--inbox", str(inbox))
    terminal.run(columns=100, rows=30)
    terminal.until("Nothing is asked")
    yield terminal
    terminal.close()


def answered_elsewhere(inbox: Path, *words: str) -> str:
    """Use the inbox from a shell."""
    done = subprocess.run(
        [str(OPASK), "inbox", *words, "--inbox", str(inbox)], capture_output=True, text=True, check=True
    )
    return done.stdout


def leases(inbox: Path) -> list[str]:
    """Give the ids of the leases that the file has."""
    connection = sqlite3.connect(inbox)
    try:
        return [id_ for (id_,) in connection.execute("SELECT id FROM leases")]
    finally:
        connection.close()


def test_two_asks_in_a_row(screen: Terminal, inbox: Path, asks: Asks) -> None:
    """Each is shown in its conversation and answered by keys; the agent gets it, and the screen says so."""
    host = asks("database", "parts")
    screen.until(r"I set the service up\.(.*\n)*.*❯ 1 PostgreSQL(.*\n)*.*1-2 choose")
    screen.keys("2")
    assert "answers=(Answer(selected=(1,), text=None),), by='terminal'" in host.says()
    screen.until(r"\[ \] API(.*\n)*.*1-3 mark")
    screen.keys("1", "3")
    screen.until(r"\[x\] API(.*\n)*.*\[x\] Docs")
    screen.keys("Enter")
    assert "answers=(Answer(selected=(0, 2), text=None),), by='terminal'" in host.says()
    screen.until(r"✓ API(.*\n)*.*the agent has it")
    assert (host.says(), host.ends()) == ("done", 0)
    screen.keys("q")
    screen.until("Pane is dead")


def test_own_words_and_a_skip(screen: Terminal, inbox: Path, asks: Asks) -> None:
    """Words are typed and sent; Esc asks whether to skip, and y does."""
    host = asks("database", "database")
    screen.until("1-2 choose")
    screen.keys("t")
    screen.until("Enter send")
    screen.keys("-l", "MariaDB, the one in Zürich")
    screen.until("MariaDB, the one in Zürich")
    screen.keys("Enter")
    assert "text='MariaDB, the one in Zürich'" in host.says()
    screen.until("1 question waits(.*\n)*.*1-2 choose")
    screen.keys("Escape")
    screen.until(r"Skip this question\?")
    screen.keys("y")
    assert host.says() == "q1: Skipped(by='terminal')"


def test_an_answer_from_a_shell(screen: Terminal, inbox: Path, asks: Asks) -> None:
    """It closes the open card, which says where it came from; the resized screen still shows all of it."""
    host = asks("database")
    screen.until("1-2 choose")
    screen.resize(60, 20)
    screen.until(r"^ ╭ Database.*\n(.*\n)*.*1-2 choose")
    assert "q0 is answered" in answered_elsewhere(inbox, "answer", "q0", "SQLite")
    assert "by='cli:" in host.says()
    screen.until(r"✓ SQLite(.*\n)*.*answered in cli:.*; the agent has it", without="1-2 choose")


def test_ctrl_c_leaves_the_question(screen: Terminal, inbox: Path, asks: Asks) -> None:
    """Leaving the screen decides nothing, and the terminal is the shell's again."""
    host = asks("database")
    screen.until("1-2 choose")
    screen.keys("C-c")
    screen.until("Pane is dead")
    assert "pending" in answered_elsewhere(inbox, "list")
    answered_elsewhere(inbox, "skip", "q0")
    assert host.says().startswith("q0: Skipped(by='cli:")


def test_a_host_that_is_killed(screen: Terminal, inbox: Path, asks: Asks) -> None:
    """Its question does not stay open: the screen says that nobody waits for it."""
    host = asks("database")
    screen.until("1-2 choose")
    host.kill()
    screen.until("its host is gone", without="1-2 choose")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_screen_in_good_order(
    screen: Terminal, inbox: Path, asks: Asks, number: int
) -> None:
    """The terminal is the shell's again, and neither lease nor doorbell is left."""
    host = asks("database")
    screen.until("1-2 choose")
    os.kill(screen.pid(), number)
    screen.until(rf"Pane is dead \(status {128 + number}", without="1-2 choose")
    host.kill()
    assert "orphaned" in answered_elsewhere(inbox, "list", "--all")
    assert leases(inbox) == []
    assert list(inbox.with_name("inbox.db.d").iterdir()) == []


def test_a_terminal_that_is_closed_ends_the_screen(screen: Terminal, inbox: Path, asks: Asks) -> None:
    """As with a signal, though there is nothing left to draw on."""
    host = asks("database")
    screen.until("1-2 choose")
    process = Path(f"/proc/{screen.pid()}")
    screen.close()
    end = time.monotonic() + WITHIN
    while process.exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    assert leases(inbox) == []
    assert "pending" in answered_elsewhere(inbox, "list")
    host.kill()


def test_an_inbox_that_is_removed(screen: Terminal, inbox: Path) -> None:
    """The screen does not go on showing what nobody else sees: it ends with one line."""
    inbox.unlink()
    screen.until(r"Pane is dead \(status 2")
    told = "\n".join(screen.everything())
    assert "was removed or replaced while it was in use" in told
    assert "Traceback" not in told


def test_a_terminal_that_cannot_show_it(tmp_path: Path, inbox: Path) -> None:
    """It is told what to use instead."""
    terminal = Terminal(tmp_path, str(OPASK), "inbox", "--inbox", str(inbox))
    try:
        terminal.run(TERM="dumb")
        terminal.until("opask inbox list(.*\n)*.*status 2")
    finally:
        terminal.close()


def test_sizes_without_end(screen: Terminal, asks: Asks) -> None:
    """A storm of sizes, tiny ones among them, harms nothing, and the card is there again once there is room."""
    asks("database")
    screen.until("1-2 choose")
    for columns, rows in [(10, 3), (1, 1), (200, 60), (2, 40), (100, 2)] * 4:
        screen.resize(columns, rows)
    screen.resize(10, 3)
    screen.keys("t", "-l", "\x07\x1b[31m")
    screen.resize(100, 30)
    screen.until(r"❯ 1 PostgreSQL|Enter send", without="Pane is dead")


def test_a_card_whose_question_is_answered_elsewhere(tmp_path: Path, inbox: Path) -> None:
    """The card of the run's own terminal goes, a line says who was faster, and the run goes on."""
    terminal = Terminal(tmp_path, sys.executable, str(HOST), str(inbox), "--terminal", "database", "parts")
    try:
        terminal.run()
        terminal.until("^╰ 1-2 choose")
        answered_elsewhere(inbox, "answer", "q0", "SQLite")
        terminal.until(r"^Database: answered by cli:.*: SQLite$")
        terminal.until(r"^╰ 1-3 mark")
        terminal.keys("2", "Enter")
        terminal.until("^done$")
        lines = terminal.everything()
    finally:
        terminal.close()
    assert [line for line in lines if line[:1] in "╭│╰" and line] == [
        "│ Parts  Which parts should be done first?",
        "│ ✓ Web page",
    ]
