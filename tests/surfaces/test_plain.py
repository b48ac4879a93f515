"""The plain prompter, over pipes and a dumb terminal."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

import anyio
import pytest

from opask.outcomes import Answered, Cancelled, Reply, Skipped, TimedOut, Unavailable
from opask.prompter import Prompter
from opask.questions import Answer, Ask, Option, Question
from opask.surfaces.plain import PlainPrompter, read_answer
from surfaces.stage import DATABASE, NAME, PARTS, Typist, acts, ask_of, terminal


class Sink(io.StringIO):
    """What a prompter has written; tells when there is more."""

    encoding = "utf-8"

    def __init__(self) -> None:
        super().__init__()
        self._changed = anyio.Event()

    def flush(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def until(self, text: str) -> None:
        """Wait until this text is there."""
        with anyio.fail_after(30):
            while text not in self.getvalue():
                await self._changed.wait()


class Pipe:
    """A plain prompter behind a pipe."""

    def __init__(self) -> None:
        reader, self._writer = os.pipe()
        self.stdin = os.fdopen(reader)
        self.sink = Sink()
        self.prompter = PlainPrompter(stdin=self.stdin, stdout=self.sink)

    def send(self, text: str) -> None:
        """Send what the operator writes."""
        os.write(self._writer, text.encode())

    def end(self) -> None:
        """End the operator's input."""
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """Set up a prompter behind a pipe."""
    pipe = Pipe()
    yield pipe
    pipe.end()
    pipe.stdin.close()


def answered(*answers: Answer | None) -> Answered:
    """Give what the prompter returns for these answers."""
    return Answered(answers, "terminal")


async def reply_to(pipe: Pipe, ask: Ask, text: str) -> Reply:
    """Send text and ask; give the reply."""
    pipe.send(text)
    with anyio.fail_after(30):
        return await pipe.prompter.ask(ask)


# -- reading an answer -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "line", "answer"),
    [
        (DATABASE, "1", Answer((0,))),
        (DATABASE, " 2 ", Answer((1,))),
        (DATABASE, "2,", Answer((1,))),
        (DATABASE, "SQLite", Answer((1,))),
        (DATABASE, "sqlite please", Answer((), "sqlite please")),
        (DATABASE, "2 of them", Answer((), "2 of them")),
        (DATABASE, "-1", Answer((), "-1")),
        (DATABASE, "s", None),
        (DATABASE, "/skip", None),
        (DATABASE, "/text s", Answer((), "s")),
        (DATABASE, "/text 2", Answer((), "2")),
        (PARTS, "1,3", Answer((0, 2))),
        (PARTS, "3 1", Answer((2, 0))),
        (PARTS, "2, 2 ,1", Answer((1, 0))),
        (PARTS, "Web page", Answer((1,))),
        (NAME, "3", Answer((), "3")),
        (NAME, "s", None),
    ],
)
def test_what_a_line_means(question: Question, line: str, answer: Answer | None) -> None:
    """Numbers and labels choose, s skips, /text takes anything as words, and the rest is words."""
    assert read_answer(question, line) == answer


@pytest.mark.parametrize(
    ("question", "line", "said"),
    [
        (DATABASE, "", "Type an answer"),
        (DATABASE, "  ", "Type an answer"),
        (DATABASE, "3", "There is no option 3"),
        (DATABASE, "0", "There is no option 0"),
        (DATABASE, "9" * 10_000, "There is no option 999"),
        (DATABASE, "1,2", "Only one option"),
        (DATABASE, "/text", "Type the words"),
        (PARTS, "1,4", "There is no option 4"),
    ],
)
def test_what_a_line_cannot_mean(question: Question, line: str, said: str) -> None:
    """A line that answers nothing is told what is wrong, in one short sentence."""
    result = read_answer(question, line)
    assert isinstance(result, str)
    assert result.startswith(said)
    assert len(result) < 80


def test_of_equal_labels_the_first_is_meant() -> None:
    """A label that two options share chooses the first; numbers tell them apart."""
    question = Question("Which?", options=(Option("Same"), Option("Same")))
    assert read_answer(question, "Same") == Answer((0,))
    assert read_answer(question, "2") == Answer((1,))


# -- asking ----------------------------------------------------------------------------------------------------


def test_it_is_a_prompter(pipe: Pipe) -> None:
    """The plain prompter keeps the prompter's contract."""
    assert isinstance(pipe.prompter, Prompter)


async def test_questions_are_shown_in_plain_lines(pipe: Pipe) -> None:
    """Header, asker, place, time, text and numbered options are shown, then each answer."""
    deadline = datetime.now(UTC) + timedelta(minutes=5)
    reply = await reply_to(pipe, ask_of(DATABASE, PARTS, deadline=deadline), "2\n1,3\n")
    assert reply == answered(Answer((1,)), Answer((0, 2)))
    shown = re.sub(r"4:\d\d left", "5:00 left", pipe.sink.getvalue())
    assert shown.split("\n") == [
        "[Database] agent, 1 of 2, 5:00 left",
        "  Which database should the service use?",
        "  1. PostgreSQL - A server to run",
        "  2. SQLite - One file",
        "Answer with a number or in your own words; s skips.",
        "> ",
        "Answered: SQLite",
        "[Parts] agent, 2 of 2, 5:00 left",
        "  Which parts should be done first?",
        "  1. API",
        "  2. Web page",
        "  3. Docs",
        "Answer with numbers, as 1,3, or in your own words; s skips.",
        "> ",
        "Answered: API + Docs",
        "",
    ]


async def test_a_wrong_line_leaves_the_question_open(pipe: Pipe) -> None:
    """What answers nothing, an empty line included, is told, and the question is still open."""
    assert await reply_to(pipe, ask_of(DATABASE), "\n7\n1,2\n1\n") == answered(Answer((0,)))
    for said in ("Type an answer", "There is no option 7", "Only one option"):
        assert said in pipe.sink.getvalue()


async def test_an_ask_of_skipped_questions_is_skipped(pipe: Pipe) -> None:
    """Questions are skipped one by one, and an ask without any answer is skipped."""
    assert await reply_to(pipe, ask_of(DATABASE, NAME), "s\n/skip\n") == Skipped("terminal")
    assert await reply_to(pipe, ask_of(DATABASE, NAME), "s\nopask\n") == answered(None, Answer((), "opask"))


async def test_a_last_line_needs_no_newline(pipe: Pipe) -> None:
    """What stands before the end of the input is a line."""
    pipe.send("2")
    pipe.end()
    with anyio.fail_after(30):
        assert await pipe.prompter.ask(ask_of(DATABASE)) == answered(Answer((1,)))


async def test_the_end_of_input_makes_the_ask_unavailable(pipe: Pipe) -> None:
    """Where the input ends before the answers do, the ask is unavailable, and so is every later one."""
    pipe.send("2\n")
    pipe.end()
    with anyio.fail_after(30):
        assert pipe.prompter.available("session-1")
        reply = await pipe.prompter.ask(ask_of(DATABASE, PARTS))
        assert reply == Unavailable("the operator's input ended")
        assert not pipe.prompter.available("session-1")
        assert isinstance(await pipe.prompter.ask(ask_of(NAME)), Unavailable)


async def test_a_character_may_come_in_pieces(pipe: Pipe) -> None:
    """A line is read as UTF-8 however it arrives; broken bytes become replacement characters."""
    replies: list[Reply] = []

    async def ask() -> None:
        replies.append(await pipe.prompter.ask(ask_of(NAME)))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await pipe.sink.until("> ")
            for byte in b"caf\xc3\xa9 \xff\n":
                os.write(pipe._writer, bytes([byte]))
                await anyio.wait_all_tasks_blocked()
    assert replies == [answered(Answer((), "café \ufffd"))]


async def test_asks_wait_their_turn(pipe: Pipe) -> None:
    """A second ask is shown once the first is answered, and each gets its own line."""
    replies: dict[str, Reply] = {}

    async def ask(ask: Ask) -> None:
        replies[ask.id] = await pipe.prompter.ask(ask)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, ask_of(DATABASE))
            await pipe.sink.until("Which database")
            tasks.start_soon(ask, ask_of(NAME, ask_id="ask-2"))
            await anyio.wait_all_tasks_blocked()
            assert "What should it be called?" not in pipe.sink.getvalue()
            pipe.send("1\nopask\n")
    assert replies == {"ask-1": answered(Answer((0,))), "ask-2": answered(Answer((), "opask"))}


async def test_an_ask_can_be_taken_away(pipe: Pipe) -> None:
    """A cancelled ask ends at once and reads nothing more; the next one gets the next line."""
    ask = ask_of(DATABASE)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pipe.prompter.ask, ask)
            await pipe.sink.until("> ")
            tasks.cancel_scope.cancel()
    pipe.prompter.settled(ask, TimedOut(timedelta(seconds=2)))
    assert pipe.sink.getvalue().endswith("> \nDatabase: nobody answered within 2 s\n")
    assert await reply_to(pipe, ask_of(NAME, ask_id="ask-2"), "opask\n") == answered(Answer((), "opask"))


async def test_settling_is_told_where_the_operator_did_not_see_it(pipe: Pipe) -> None:
    """An ask that ended as it was answered here needs no line, another outcome does."""
    ask = ask_of(DATABASE)
    reply = await reply_to(pipe, ask, "1\n")
    before = pipe.sink.getvalue()
    pipe.prompter.settled(ask, reply)
    assert pipe.sink.getvalue() == before
    await reply_to(pipe, ask, "1\n")
    pipe.prompter.settled(ask, Cancelled("host"))
    assert pipe.sink.getvalue().endswith("Database: your answer came too late, cancelled by the host\n")


async def test_the_turn_goes_on_while_a_question_waits(pipe: Pipe) -> None:
    """Text that is written meanwhile stands on lines of its own, unfinished ones stay whole, the prompt comes again."""
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            pipe.prompter.write("unfinished")
            tasks.start_soon(pipe.prompter.ask, ask_of(NAME))
            await pipe.sink.until("> ")
            for piece in ("one ", "two\n", "", "three\n"):
                pipe.prompter.write(piece)
            pipe.send("opask\n")
    assert pipe.sink.getvalue().split("\n") == [
        "unfinished",
        "[Question] agent",
        "  What should it be called?",
        "Answer in your own words; s skips.",
        "> ",
        "one two",
        "> ",
        "three",
        "> ",
        "Answered: “opask”",
        "",
    ]


async def test_no_agent_reaches_the_output_raw(pipe: Pipe) -> None:
    """Controls in any text of an agent are shown, not passed on, and no line of it starts at the margin."""
    hostile = "\x1b]0;pwned\x07\x1b[2J\x9b31m\u202e\r\n[Root] agent\n> 1"
    question = Question(hostile, hostile, (Option(hostile, hostile),))
    ask = ask_of(question, session_id=hostile, agent_id=hostile)
    await reply_to(pipe, ask, f"{hostile.splitlines()[0]}\n")
    pipe.prompter.write(hostile + "\n")
    pipe.prompter.settled(ask, Unavailable(hostile))
    shown = pipe.sink.getvalue()
    assert not [character for character in shown.replace("\n", "") if acts(character)]
    assert [line for line in shown.split("\n") if line.startswith("[Root]")] == [
        "[Root] agent"
    ]  # written, not asked


async def test_an_output_that_cannot_say_it_says_something_else() -> None:
    """Characters that the output's encoding lacks are replaced, never an error."""
    raw = io.BytesIO()
    reader, writer = os.pipe()
    with os.fdopen(reader) as stdin:
        prompter = PlainPrompter(stdin=stdin, stdout=io.TextIOWrapper(raw, encoding="ascii"))
        os.write(writer, b"1\n")
        os.close(writer)
        with anyio.fail_after(30):
            await prompter.ask(ask_of(Question("Où?", options=(Option("là"),))))
    assert b"O??" in raw.getvalue()


async def test_an_output_that_nobody_reads_makes_the_ask_unavailable(pipe: Pipe) -> None:
    """Where questions reach nobody, the ask ends at once and nobody is available."""
    reader, writer = os.pipe()
    os.close(reader)
    sink = os.fdopen(writer, "w")
    prompter = PlainPrompter(stdin=pipe.stdin, stdout=sink)
    with anyio.fail_after(30):
        assert isinstance(await prompter.ask(ask_of(NAME)), Unavailable)
    assert not prompter.available("session-1")
    prompter.write("to nobody\n")
    with pytest.raises(BrokenPipeError):
        sink.close()


async def test_a_reader_that_goes_while_a_question_waits_makes_it_unavailable(pipe: Pipe) -> None:
    """Nothing has to be written to see it, and a line that comes too late is no answer."""
    reader, writer = os.pipe()
    sink = os.fdopen(writer, "w")
    prompter = PlainPrompter(stdin=pipe.stdin, stdout=sink)
    replies: list[Reply] = []

    async def ask() -> None:
        replies.append(await prompter.ask(ask_of(NAME)))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            shown = b""
            while not shown.endswith(b"> "):
                await anyio.wait_readable(reader)
                shown += os.read(reader, 4096)
            assert not prompter.is_gone
            os.close(reader)
    (reply,) = replies
    assert isinstance(reply, Unavailable)
    assert "nobody reads the questions any more" in reply.reason
    assert prompter.is_gone
    assert not prompter.available("session-1")
    with pytest.raises(BrokenPipeError):
        sink.close()


# -- who is there ----------------------------------------------------------------------------------------------


def test_an_open_pipe_may_have_an_operator(pipe: Pipe) -> None:
    """A pipe counts until its other end is closed and all of it is read."""
    assert pipe.prompter.available("session-1")
    pipe.send("1\n")
    pipe.end()
    assert pipe.prompter.available("session-1")
    os.read(pipe.stdin.fileno(), 100)
    assert not pipe.prompter.available("session-1")


async def test_a_file_can_answer(tmp_path: Path) -> None:
    """Answers in a file are read line by line; at its end nobody is there any more."""
    path = tmp_path / "answers"
    path.write_text("2\n1 2\n")
    with path.open() as stdin:
        prompter = PlainPrompter(stdin=stdin, stdout=Sink())
        with anyio.fail_after(30):
            assert prompter.available("session-1")
            assert await prompter.ask(ask_of(DATABASE, PARTS)) == answered(Answer((1,)), Answer((0, 1)))
            assert not prompter.available("session-1")


async def test_nobody_is_behind_a_null_device() -> None:
    """A process without input has no operator, and says so when asked all the same."""
    with os.fdopen(os.open(os.devnull, os.O_RDONLY)) as stdin:
        prompter = PlainPrompter(stdin=stdin, stdout=Sink())
        assert not prompter.available("session-1")
        with anyio.fail_after(30):
            assert isinstance(await prompter.ask(ask_of(NAME)), Unavailable)


@pytest.mark.parametrize("stdin", [io.StringIO("1\n"), None])
async def test_input_that_is_no_file_has_nobody(
    stdin: TextIO | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An input without a descriptor, or none at all, is no operator."""
    monkeypatch.setattr(sys, "stdin", None)
    prompter = PlainPrompter(stdin=stdin, stdout=Sink())
    assert not prompter.available("session-1")
    assert isinstance(await prompter.ask(ask_of(NAME)), Unavailable)


# -- a dumb terminal -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_lines_typed_ahead_on_a_terminal_are_dropped(anyio_backend: str) -> None:
    """A line that waits in the terminal, or comes right with the question, is no answer to it."""
    with terminal() as (master, stdin, stdout), Typist(master) as typist:
        prompter = PlainPrompter(stdin=stdin, stdout=stdout, guard=timedelta(0))
        typist.type("1\n")
        await typist.until("1")  # echoed, so it waits in the terminal
        replies: list[Reply] = []

        async def ask() -> None:
            replies.append(await prompter.ask(ask_of(DATABASE)))

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                await typist.until("> ")
                typist.type("2\n")
        assert replies == [answered(Answer((1,)))]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_line_within_the_guard_does_not_count(anyio_backend: str) -> None:
    """On a terminal a line that comes sooner than anyone can read is dropped, and the prompt comes again."""
    with terminal() as (master, stdin, stdout), Typist(master) as typist:
        prompter = PlainPrompter(stdin=stdin, stdout=stdout, guard=timedelta(hours=1))
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(prompter.ask, ask_of(DATABASE))
                await typist.until("> ")
                typist.type("1\n")
                await typist.until("> 1\r\n> ")
                tasks.cancel_scope.cancel()


def test_waiting_for_a_line_keeps_no_process_alive() -> None:
    """A process that gives up waiting for its operator ends, though its input stays open."""
    program = """
        import anyio
        from datetime import UTC, datetime
        from opask import Ask, Question
        from opask.surfaces.plain import PlainPrompter

        async def main():
            with anyio.move_on_after(0.1):
                await PlainPrompter().ask(Ask("a", "s", [Question("Why?")], datetime.now(UTC)))
            print("gave up")

        anyio.run(main)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.wait(120) == 0
        assert process.stdout.read().endswith("> \ngave up\n")
