"""`opask inbox` on a shell, and `opask run --inbox`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from cli_runtimes import ANSWERS, DATABASE, PARTS, Command
from inbox_peers import ask_of
from opask import Cancelled, Option, Question
from opask.cli import main
from opask.cli.demo_adapter import DemoAdapter
from opask.inbox import EntryChanged, InboxError, SqliteStore

WHICH = Question("Which?\x1b[2J", "Pick", (Option("a"), Option("b", "the other"), Option("7")))
SEVERAL = Question("What?", "Parts", (Option("x"), Option("y")), multi_select=True)
WORDS = Question("Why?")


class Shell:
    """An inbox in a file, with the command line on it."""

    def __init__(self, store: SqliteStore, capsys: pytest.CaptureFixture[str]) -> None:
        self.store = store
        self._capsys = capsys

    def run(self, *words: str) -> tuple[int, str, str]:
        """Run a command; return its code and what it printed."""
        code = main(["inbox", *words, "--inbox", str(self.store.path)])
        out, err = self._capsys.readouterr()
        assert "\x1b" not in out + err
        return code, out, err

    def json(self, *words: str) -> Any:
        """Run a command that succeeds, and read what it prints."""
        code, out, err = self.run(*words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    """Give an inbox with three asks."""
    store = SqliteStore(tmp_path / "inbox.db")
    store.open()

    async def fill() -> None:
        host = await store.join()
        await store.begin_session("s1", host.id, runtime="claude", title="Set up\nthe service")
        await store.put(ask_of("q_one", "s1", WHICH), host.id)
        await store.put(ask_of("q_two", "s1", SEVERAL), host.id)
        await store.put(ask_of("q_three", "s2", WHICH, WORDS), host.id)

    anyio.run(fill)
    yield Shell(store, capsys)
    store.close()


def test_what_waits_is_listed(shell: Shell) -> None:
    """A line each, oldest first; with --json whole, and with --all what is over, too."""
    code, out, _ = shell.run("list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["q_one", "q_two", "q_three"]
    assert "Set up the service" in out
    assert "(and 1 more)" in out
    assert shell.run("skip", "q_one")[0] == 0
    assert [entry["id"] for entry in shell.json("list")] == ["q_two", "q_three"]
    assert [entry["state"] for entry in shell.json("list", "--all")] == ["skipped", "pending", "pending"]
    assert [entry["id"] for entry in shell.json("list", "--session", "s2")] == ["q_three"]
    assert [entry["id"] for entry in shell.json("list", "--all", "--limit", "1")] == ["q_three"]


def test_a_question_is_shown_whole(shell: Shell) -> None:
    """With its options numbered, and after the answer with what was chosen."""
    code, out, _ = shell.run("show", "q_one")
    assert code == 0
    assert "2 b: the other" in out
    assert shell.json("show", "q_o")["questions"][0]["question"] == WHICH.text
    shell.run("answer", "q_one", "b", "--text", "for now")
    _, out, _ = shell.run("show", "q_one")
    assert "* 2 b" in out
    assert "* in their own words: for now" in out


@pytest.mark.parametrize(
    ("words", "selections"),
    [
        (["q_one", "b"], [{"selected": [1], "text": None}]),
        (["q_one", "3"], [{"selected": [2], "text": None}]),
        (["q_one", "7"], [{"selected": [2], "text": None}]),
        (["q_one", "--text", "neither"], [{"selected": [], "text": "neither"}]),
        (["q_two", "2", "x"], [{"selected": [1, 0], "text": None}]),
        (["q_three", "a", "-"], [{"selected": [0], "text": None}, None]),
        (
            ["q_three", "--answers", '{"Why?": "because"}'],
            [None, {"selected": [], "text": "because"}],
        ),
    ],
)
def test_a_question_is_answered(shell: Shell, words: list[str], selections: list[Any]) -> None:
    """By label, number, own words, or as a script has it; it says who answered."""
    found = shell.json("answer", *words)
    assert (found["state"], found["selections"]) == ("answered", selections)
    assert found["by"].startswith("cli:")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["q_one", "c"], "no option 'c' (there is 1 a, 2 b, 3 7)"),
        (["q_one"], "needs a chosen option"),
        (["q_one", "a", "b"], "takes one option"),
        (["q_one", "--text", " "], "needs a chosen option"),
        (["q_three", "a"], "2 questions need 2 ANSWERs"),
        (["q_three", "-", "-"], "answers nothing"),
        (["q_one", "--answers", '{"Who?": "x"}'], "no question 'Who?'"),
        (["q_one", "a", "--answers", "{}"], "--answers is all"),
        (["q_four", "a"], "no ask 'q_four'"),
        (["q_t", "a"], "2 questions have an id that begins with"),
        (["", "a"], "no ask ''"),
    ],
)
def test_what_does_not_fit_is_told_and_changes_nothing(shell: Shell, words: list[str], told: str) -> None:
    """It is wrong usage, in a line, and the question stays open."""
    code, out, err = shell.run("answer", *words)
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.splitlines()) == 1
    assert [entry["state"] for entry in shell.json("list")] == ["pending"] * 3


def test_a_decision_that_comes_second_is_refused(shell: Shell) -> None:
    """With exit code 1 and who was first; as JSON with what stands."""
    shell.run("answer", "q_one", "a")
    code, out, err = shell.run("answer", "q_one", "b")
    assert (code, out) == (1, "")
    assert "answered already, by cli:" in err
    code, out, _ = shell.run("skip", "q_one", "--json")
    assert code == 1
    refused = json.loads(out)
    assert (refused["refused"], refused["entry"]["answers"]) == ("already_resolved", {WHICH.text: "a"})


def test_an_answer_that_comes_too_late_can_be_the_next_prompt(shell: Shell) -> None:
    """It is refused, and given as a prompt for the agent."""

    async def settle() -> None:
        await shell.store.settle("q_one", Cancelled("host"))

    anyio.run(settle)
    code, out, err = shell.run("answer", "q_one", "b")
    assert code == 1
    assert "too late" in err
    assert "Answer: b" in out


def test_what_has_been_over_for_long_is_forgotten(shell: Shell) -> None:
    """What is over goes, from the age that is given; what is open, and younger, stays."""
    assert shell.run("skip", "q_one")[0] == 0
    assert shell.json("prune", "--older-than", "1")["forgotten"] == 0
    code, out, _ = shell.run("prune", "--older-than", "0")
    assert (code, out.partition(":")[0]) == (0, "1 question is forgotten")
    assert [entry["id"] for entry in shell.json("list", "--all")] == ["q_two", "q_three"]


@pytest.mark.parametrize("age", ["-1", "x", "nan", "1e300", ""])
def test_an_age_that_is_none_is_told(shell: Shell, age: str) -> None:
    """And nothing is forgotten."""
    assert shell.run("skip", "q_one")[0] == 0
    code, out, err = shell.run("prune", f"--older-than={age}")
    assert (code, out) == (2, "")
    assert "no number of days" in err
    assert len(shell.json("list", "--all")) == 3


def test_an_inbox_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is mistyped makes no new inbox."""
    file = tmp_path / "no.db"
    assert main(["inbox", "list", "--inbox", str(file)]) == 2
    assert "no such file" in capsys.readouterr().err
    assert not file.exists()


def test_a_file_that_is_no_inbox_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line, and the file is as it was."""
    file = tmp_path / "notes.txt"
    file.write_text("not a database at all, but longer than a header of one" * 10)
    before = file.read_bytes()
    assert main(["inbox", "list", "--inbox", str(file)]) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert err.endswith("notes.txt is no database; name another file\n")
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_the_users_own_inbox_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is made in the state folder, for the user alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["inbox", "list"]) == 0
    assert "nothing waits" in capsys.readouterr().err
    assert (tmp_path / "opask").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "opask" / "inbox.db").stat().st_mode & 0o777 == 0o600


def test_the_full_screen_needs_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Without one it names the actions."""
    assert main(["inbox"]) == 2
    assert "opask inbox list" in capsys.readouterr().err


def test_a_hosts_ids_are_as_hostile_as_texts(shell: Shell) -> None:
    """Control characters in them do nothing, a long one does not stretch the list, and JSON is plain ASCII."""
    nasty = "q_nasty\x1b[2J\x9b31m\u202e"

    async def ask() -> None:
        host = await shell.store.join()
        await shell.store.begin_session(nasty, host.id, runtime=nasty * 100)
        await shell.store.put(ask_of(nasty, nasty), host.id)
        await shell.store.put(ask_of("q_long" + "x" * 10_000, "s" * 10_000), host.id)

    anyio.run(ask)
    code, out, _ = shell.run("list")
    assert code == 0
    assert max(len(line) for line in out.splitlines()) < 400
    assert shell.run("list", "--json")[1].isascii()
    for words in (
        ("show", "q_nasty"),
        ("answer", "q_nasty", "none"),
        ("skip", "q_nasty"),
        ("skip", "q_nasty"),
    ):
        _, out, err = shell.run(*words)
        assert not {"\x1b", "\x9b", "\u202e"} & set(out + err)
    assert shell.run("skip", "q_long")[0] == 0


def test_a_stream_of_another_encoding_is_written_to(shell: Shell) -> None:
    """What the encoding lacks is escaped, and the list is told all the same."""
    for encoding in ("ascii", "latin-1", "utf-8"):
        done = subprocess.run(
            [str(Path(sys.executable).with_name("opask")), "inbox", "list", "--inbox", str(shell.store.path)],
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": encoding},
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"q_one" in done.stdout


def test_a_link_to_itself_and_a_user_without_a_home_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a sentence that says what to do."""
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InboxError, match="name another file"):
        SqliteStore(tmp_path / "loop").open()

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert main(["inbox", "list"]) == 2
    assert "no home folder" in capsys.readouterr().err


# -- a run with an inbox -------------------------------------------------------------------------------------------

AGENT = Path(sys.modules[DemoAdapter.__module__].__file__ or "").with_name("demo_agent.py")
ASKS = f"os.execv(sys.executable, [sys.executable, '-I', '-S', {str(AGENT)!r}, *sys.argv[1:]])"


def started(folder: Path, *options: str) -> Command:
    """Run an agent that asks, with an inbox."""
    file = folder / "inbox.db"
    words = ("run", "demo", "build it", "--allow-unverified", "--inbox", str(file), *options)
    return Command(folder, *words, runtime=ASKS)


def test_a_run_is_answered_in_its_inbox(tmp_path: Path) -> None:
    """With nobody here, the agent waits for an answer in the inbox, gets it, and the conversation is kept there."""
    command = started(tmp_path, "--surface", "none", "--when-absent", "attach")

    async def answer() -> None:
        async with SqliteStore(tmp_path / "inbox.db") as store:
            with anyio.fail_after(30):
                async for update in store.watch(0):
                    if isinstance(update, EntryChanged) and update.entry.state == "pending":
                        words = ["answer", update.entry.id, "SQLite", "-", "--inbox", str(store.path)]
                        assert await anyio.to_thread.run_sync(main, ["inbox", *words]) == 0
                    elif isinstance(update, EntryChanged) and not update.entry.is_open:
                        assert update.entry.state == "delivered"
                        return

    anyio.run(answer)
    code, out, err = command.ends()
    assert (code, err) == (0, "")
    assert "will use “SQLite”" in out

    async def look() -> None:
        async with SqliteStore(tmp_path / "inbox.db") as store:
            (session,) = await store.sessions()
            assert (session.title, session.ending) == ("build it", "ended")
            names = {logged.event["event"] for logged in await store.events(session.id)}
            assert {"session_ready", "question_asked", "question_resolved", "turn_ended"} <= names

    anyio.run(look)


def test_a_run_with_nobody_at_its_inbox_asks_nobody(tmp_path: Path) -> None:
    """No tool is attached, and the run says what would help."""
    code, _, err = started(tmp_path, "--surface", "none").ends()
    assert code == 0
    assert "no operator is there" in err
    assert "--when-absent attach" in err


def test_a_surface_here_and_an_inbox_go_together(tmp_path: Path) -> None:
    """What is answered here is in the inbox as answered and delivered, by the surface's name."""
    code, out, err = started(tmp_path, "--answers", ANSWERS).ends()
    assert (code, err) == (0, "")
    assert "will use “SQLite”" in out

    async def look() -> None:
        async with SqliteStore(tmp_path / "inbox.db") as store:
            (entry,) = await store.entries()
            assert (entry.state, entry.by) == ("delivered", "script")
            assert [question.text for question in entry.ask.questions] == [DATABASE, PARTS]

    anyio.run(look)


def test_a_rule_for_an_empty_inbox_needs_one(capsys: pytest.CaptureFixture[str]) -> None:
    """It is told to name the inbox."""
    assert main(["run", "claude", "x", "--when-absent", "hold"]) == 2
    assert "--inbox FILE" in capsys.readouterr().err
