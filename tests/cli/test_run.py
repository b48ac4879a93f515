from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import pytest

from cli_runtimes import ANSWERS, DATABASE, PARTS, SECONDS, Command, child_of, events, main_of
from fake_claude import VERSION, fake_claude_at
from opask.cli.demo_adapter import DemoAdapter
from opask.registry import support

AGENT = Path(sys.modules[DemoAdapter.__module__].__file__ or "").with_name("demo_agent.py")
# Stands in for a runtime: the demo's agent, started as the runtime that is named.
ASKS = f"os.execv(sys.executable, [sys.executable, '-I', '-S', {str(AGENT)!r}, *sys.argv[1:]])"


def run(folder: Path, script: str, *options: str, **more: Any) -> Command:
    """Run a runtime of a few lines."""
    return Command(folder, "run", "demo", "build it", "--allow-unverified", *options, runtime=script, **more)


def test_events_are_json_lines_on_stdout_alone(tmp_path: Path) -> None:
    """With --events stdout has nothing but the events, stamped and in order, from ready to the turn's end."""
    code, out, err = run(tmp_path, ASKS, "--events", "--answers", ANSWERS).ends()
    assert (code, err) == (0, "")
    seen = events(out)
    assert [event["seq"] for event in seen] == list(range(1, len(seen) + 1))
    assert len({event["session_id"] for event in seen}) == 1
    # An ask may come before its call is announced, and is correlated then.
    assert {event["event"] for event in seen} - {"question_correlated"} == {
        *("session_ready", "turn_started", "text", "tool_announced", "question_asked"),
        *("question_resolved", "tool_finished", "turn_ended"),
    }
    by_kind = {event["event"]: event for event in seen}
    assert by_kind["session_ready"]["questions"] is True
    assert by_kind["question_asked"]["tool_call_id"] == by_kind["tool_announced"]["tool_call_id"]
    assert by_kind["question_resolved"]["answers"] == {DATABASE: "SQLite", PARTS: ["API", "Docs"]}
    text = "".join(event["text"] for event in seen if event["event"] == "text")
    assert text.startswith("I was asked to: build it. ")
    assert text.endswith("The service will use “SQLite”. I will do first: “API”, “Docs”. \n")


def test_with_events_a_person_is_asked_on_stderr(tmp_path: Path) -> None:
    """Questions and their answers for a person stay out of the events."""
    code, out, err = run(tmp_path, ASKS, "--events").ends("1\ns\n")
    assert code == 0
    assert [event["outcome"] for event in events(out) if event["event"] == "question_resolved"] == [
        "answered"
    ]
    assert "[Database]" in err
    assert "Answered: PostgreSQL" in err


def test_with_events_a_gap_in_the_script_is_told_on_stderr(tmp_path: Path) -> None:
    """The events carry why an ask was unavailable, and a person reads it too."""
    code, out, err = run(tmp_path, ASKS, "--events", "--answers", "{}").ends()
    assert code == 0
    (resolved,) = [event for event in events(out) if event["event"] == "question_resolved"]
    assert resolved["outcome"] == "unavailable"
    assert err == f"opask run: not answered: {resolved['reason']}\n"
    assert DATABASE in err


def test_without_a_surface_nothing_is_attached(tmp_path: Path) -> None:
    """--surface none gives the runtime no ask server, and says nothing of it; answers beside it do."""
    script = "say('turn_started'); say('text', text=str('--server' in sys.argv)); end()"
    assert run(tmp_path, script, "--surface", "none").ends() == (0, "False\ndemo is done\n", "")
    assert run(tmp_path, script, "--surface", "none", "--answers", "{}").ends()[1] == "True\ndemo is done\n"


def test_the_runtime_is_started_as_told(tmp_path: Path) -> None:
    """Prompt, arguments behind ``--``, folder and environment reach the runtime as they are."""
    script = (
        "say('turn_started'); say('text', text=repr([sys.argv[1:], os.getcwd(), os.environ['X']])); end()"
    )
    options = ("--surface", "none", "--cwd", str(tmp_path), "--", "--model", "m", "--events")
    code, out, _ = run(tmp_path, script, *options, env={"X": "ü"}).ends()
    assert code == 0
    assert out.splitlines()[0] == repr([["--model", "m", "--events", "--", "build it"], str(tmp_path), "ü"])


@pytest.mark.parametrize("rest", [(), ("--", "--model", "m")])
def test_a_prompt_may_begin_with_a_dash(tmp_path: Path, rest: tuple[str, ...]) -> None:
    """One word that looks like an option is the prompt behind a ``--``; a second one begins the runtime's own."""
    script = "say('turn_started'); say('text', text=repr(sys.argv[1:])); end()"
    command = Command(tmp_path, "run", "demo", "--surface", "none", "--", "-word", *rest, runtime=script)
    code, out, _ = command.ends()
    assert code == 0
    assert out.splitlines()[0] == repr([*rest[1:], "--", "-word"])


def test_a_change_of_the_launch_can_be_refused(tmp_path: Path) -> None:
    """--refuse leaves a change undone, be it repeated; the ask server itself cannot be left out."""
    program = tmp_path / "omp"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" >"$ARGV"\n', encoding="utf-8")
    program.chmod(0o755)
    options = ("--answers", "{}", "--allow-unverified", "--bin", str(program))
    given = []
    for refuse in ((), ("--refuse", "clause"), ("--refuse", "clause", "--refuse=native-ask-denied")):
        told = tmp_path / "argv"
        code, _, _ = Command(tmp_path, "run", "omp", "go", *options, *refuse, env={"ARGV": str(told)}).ends()
        assert code == 1  # it is no agent
        given.append(told.read_text(encoding="utf-8"))
    assert ["--append-system-prompt" in argv for argv in given] == [True, False, False]
    assert ["--config" in argv for argv in given] == [True, True, True]
    code, _, err = Command(tmp_path, "run", "omp", "go", *options, "--refuse", "ask-server").ends()
    assert (code, "ask-server" in err) == (2, True)


def test_a_change_that_is_none_cannot_be_refused(tmp_path: Path) -> None:
    """A name that is no change of the runtime's is a usage error that lists them all."""
    code, out, err = Command(tmp_path, "run", "omp", "go", "--answers", "{}", "--refuse", "direct").ends()
    assert (code, out) == (2, "")
    assert err.startswith(
        "opask run: --refuse direct: omp has no such change; it has: ask-allowed, ask-server, "
    )
    assert "direct-tools" in err
    code, _, err = run(tmp_path, "", "--answers", "{}", "--refuse", "x").ends()
    assert (code, err) == (
        2,
        "opask run: --refuse x: demo has no such change; it makes none that can be refused\n",
    )


def test_a_program_can_be_named(tmp_path: Path) -> None:
    """--bin takes the place of the program on the PATH; one that is not there is named, with exit code 2."""
    code, out, err = run(tmp_path, "", "--surface", "none", "--bin", "/nowhere/claude").ends()
    assert (code, out) == (2, "")
    assert err == "opask run: demo: there is no program '/nowhere/claude'; install it, or give its path\n"


def test_the_version_is_held_against_the_verified_one(tmp_path: Path) -> None:
    """A line says how the runtime's version stands to the one that the route was seen to work at."""
    program = fake_claude_at(tmp_path)
    nowhere = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    command = Command(tmp_path, "run", "claude", "go", "--answers", "{}", "--bin", str(program), env=nowhere)
    _, out, _ = command.ends()
    version = VERSION.split(maxsplit=1)[0]
    known = support("claude", version)
    assert known.seen_version is not None
    assert f"· {known.summary}\n" in out
    assert f"{version}: route mcp-stdio verified at {known.seen_version}" in known.summary


def test_a_route_that_nobody_saw_is_refused(tmp_path: Path) -> None:
    """Without --allow-unverified a runtime that the registry does not vouch for is not started with an operator."""
    command = Command(tmp_path, "run", "demo", "go", "--answers", "{}", runtime="end()")
    code, out, err = command.ends()
    assert (code, out) == (2, "")
    assert err.startswith("opask run: demo")
    assert "--allow-unverified" in err
    assert err.count("\n") == 1
    assert Command(tmp_path, "run", "demo", "go", "--surface", "none", runtime="end()").ends()[0] == 0


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("say('turn_started'); end('refused', True)", "refused, exit code 0"),
        (
            "sys.exit('no key \\x1b[31m: log in')",
            "it ended before its turn did, exit code 1; it said: no key ␛[31m: log in",
        ),
        ("say('turn_started'); sys.exit(3)", "exited, exit code 3"),
        (
            "say('turn_started'); say('text', text='out of\\nmoney'); sys.exit(3)",
            "exited, exit code 3; it said: money",
        ),
        ("os.kill(os.getpid(), 9)", "it ended before its turn did, killed by SIGKILL"),
        ("end(); sys.exit(4)", "done, exit code 4"),
    ],
)
def test_a_runtime_that_fails_is_told_in_a_line(tmp_path: Path, script: str, told: str) -> None:
    """Whatever way a runtime fails, the exit code is 1 and stderr says how, and what it said last."""
    code, _, err = run(tmp_path, script, "--surface", "none").ends()
    assert (code, err) == (1, f"opask run: demo failed: {told}\n")


def test_a_runtime_that_dies_while_it_asks_leaves_its_question_abandoned(tmp_path: Path) -> None:
    """The end of a runtime ends what it asked: the outcome is named and the exit code is 1."""
    command = run(tmp_path, f"say('turn_started'); pid = os.getpid(); {ASKS}", "--events")
    asked = json.loads(command.until('"question_asked"'))
    # The runtime's own end, and not the host's: the guard's only child.
    guard = child_of(command.process.pid)
    os.kill(child_of(guard), signal.SIGKILL)
    code, out, err = command.ends()
    assert code == 1
    (resolved,) = [event for event in events(out) if event["event"] == "question_resolved"]
    assert (resolved["outcome"], resolved["question_id"]) == ("abandoned", asked["question_id"])
    assert "killed by SIGKILL; asked once, 1 abandoned" in err
    assert list(tmp_path.iterdir()) == []


def test_a_wait_that_runs_out_is_named(tmp_path: Path) -> None:
    """--wait bounds how long an answer may take: the agent is told, and goes on."""
    command = run(tmp_path, ASKS, "--events", "--wait", "0.2")
    command.until('"tool_finished"')
    code, out, _ = command.ends()
    assert code == 0
    assert events(out)[-1]["event"] == "turn_ended"


_PATIENT = """
import functools
from datetime import timedelta
import opask.driver
bounds = opask.driver.Bounds(interrupt=timedelta(hours=1), sigint=timedelta(hours=1))
opask.driver.start = functools.partial(opask.driver.start, bounds=bounds)
"""


def test_a_deaf_runtime_is_ended_by_a_second_ctrl_c(tmp_path: Path) -> None:
    """The first SIGINT leaves the runtime time to end; the second one takes it."""
    script = (
        "heard = json.dumps({'type': 'text', 'text': 'heard'}).encode() + b'\\n';"
        # Not by `say`, which it may interrupt.
        "signal.signal(signal.SIGINT, lambda *_: os.write(1, heard));"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); say('turn_started'); say('text', text='up')\n"
        "while True: time.sleep(60)"
    )
    command = run(tmp_path, script, "--surface", "none", "--events", more=_PATIENT)
    command.until('"up"')
    command.process.send_signal(signal.SIGINT)
    command.until('"heard"')
    command.process.send_signal(signal.SIGINT)
    code, _, err = command.ends()  # long before the time is over that it has after a first one
    assert code == 130
    assert err == "opask run: ended by SIGINT; demo is ended\n"


_OPENING = """
import anyio
from opask.bridge import Bridge
async def attach(*_, **__):
    signal.raise_signal(signal.SIGINT)
    await anyio.sleep_forever()
Bridge.attach = attach
"""


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("opask.adapters.adapter = lambda name: signal.raise_signal(signal.SIGINT)", ""),
        (_OPENING, "opask run: ended by SIGINT; demo is ended\n"),
    ],
    ids=["before", "opening"],
)
def test_ctrl_c_while_it_starts_is_quiet(tmp_path: Path, more: str, told: str) -> None:
    """A SIGINT before the runtime runs gives 130, no traceback, and leaves nothing."""
    assert run(tmp_path, ASKS, more=more).ends() == (130, "", told)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_goes_away_ends_the_run(tmp_path: Path) -> None:
    """When nobody reads the turn any more, the runtime is ended, and the exit code is 1 without a word."""
    script = "say('turn_started')\nwhile True: say('text', text='more\\n')"
    command = run(tmp_path, script, "--answers", "{}", stdin=subprocess.DEVNULL)
    command.until("more")
    assert command.process.stdout is not None
    command.process.stdout.close()
    assert command.process.wait(SECONDS) == 1
    assert command.process.stderr is not None
    assert command.process.stderr.read() == ""
    command.process.stderr.close()
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_goes_away_while_a_question_waits_ends_the_run(tmp_path: Path) -> None:
    """A question that nobody can read any more is unavailable, the run fails, and stderr names both."""
    command = run(tmp_path, ASKS)
    command.until("Answer with")
    assert command.process.stdout is not None
    command.process.stdout.close()
    assert command.process.wait(SECONDS) == 1
    assert command.process.stderr is not None
    told = command.process.stderr.read()
    assert told == ("opask run: nobody reads the output any more; demo is ended; asked once, 1 unavailable\n")
    command.process.stderr.close()
    assert command.process.stdin is not None
    command.process.stdin.close()
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_nobody_takes_does_not_hold_an_interrupted_run(tmp_path: Path) -> None:
    """With stdout full and unread, a run can still be interrupted."""
    script = "say('turn_started')\nfor _ in range(3000): say('text', text='x' * 1000)\nsys.stderr.write('said'); time.sleep(60)"
    command = run(tmp_path, script, "--surface", "none", "--events")
    command.until('"turn_started"')
    command.process.send_signal(signal.SIGINT)
    assert command.process.wait(SECONDS) == 130
    command.ends()
    assert list(tmp_path.iterdir()) == []


class Terminal:
    """A terminal with the command line on it.

    Args:
        folder: its temporary folder.
        arguments: the command's.
        runtime: the script of a runtime that stands in for any that is named.
        stdout: where its output goes, in place of the terminal.
    """

    def __init__(
        self, folder: Path, *arguments: str, runtime: str | None = None, stdout: int | None = None
    ) -> None:
        self._leader, terminal = pty.openpty()
        env = {
            name: value for name, value in os.environ.items() if name not in {"XDG_RUNTIME_DIR", "NO_COLOR"}
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", *main_of(runtime), *arguments],
            stdin=terminal,
            stdout=terminal if stdout is None else stdout,
            stderr=terminal,
            env={**env, "TMPDIR": str(folder), "TERM": "xterm", "PYTHONUTF8": "1"},
            start_new_session=True,
        )
        os.close(terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._leader)

    def until(self, part: str) -> str:
        """Read until some text is on it; return all that came, without colours and movements."""
        shown = ""
        data = b""
        while part not in shown:
            assert select.select([self._leader], [], [], SECONDS)[0], shown
            data += os.read(self._leader, 65536)
            shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[78]|\r", "", data.decode(errors="replace"))
        return shown

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._leader, keys.encode())


def test_a_card_on_a_terminal_is_answered_by_keys(tmp_path: Path) -> None:
    """On a terminal the turn streams, a card asks below it, and keys answer it."""
    with Terminal(tmp_path, "demo") as terminal:
        shown = terminal.until("Ctrl-C cancel")  # the keys are named once they count
        assert "I was asked to: set up a small web service." in shown
        assert shown.index("so I ask.") < shown.index("Which database")
        terminal.press("2")
        terminal.until("Enter done")
        terminal.press("13\r")
        shown = terminal.until("demo is done")
        assert "The service will use “SQLite”. I will do first: “API”, “Docs”." in shown
        assert terminal.process.wait(SECONDS) == 0


def test_ctrl_c_on_a_card_ends_the_run(tmp_path: Path) -> None:
    """Ctrl-C on a card cancels the question as the operator's, and ends the run like any Ctrl-C."""
    with Terminal(tmp_path, "demo") as terminal:
        terminal.until("Ctrl-C cancel")
        terminal.press("\x03")
        shown = terminal.until("asked once, 1 cancelled")
        assert "opask demo: ended by SIGINT; demo is ended" in shown
        assert terminal.process.wait(SECONDS) == 130
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_on_a_card_is_recorded_as_the_operators(tmp_path: Path) -> None:
    """The host's own cancel, which follows, does not overtake what the operator decided."""
    folder = tmp_path / "run"
    folder.mkdir()
    options = ("run", "demo", "build it", "--allow-unverified", "--events")
    with (tmp_path / "events").open("w+") as out:
        with Terminal(folder, *options, runtime=ASKS, stdout=out.fileno()) as terminal:
            terminal.until("Ctrl-C cancel")
            terminal.press("\x03")
            terminal.until("asked once, 1 cancelled")
            assert terminal.process.wait(SECONDS) == 130
        out.seek(0)
        (resolved,) = [event for event in events(out.read()) if event["event"] == "question_resolved"]
    assert (resolved["outcome"], resolved["by"]) == ("cancelled", "operator")
