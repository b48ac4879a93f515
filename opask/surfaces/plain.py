"""The operator behind plain lines of text: a pipe, a dumb terminal, a log with someone at the other end."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import stat
import sys
import termios
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from select import POLLERR, POLLHUP, POLLIN, POLLNVAL, poll
from typing import TextIO

import anyio

from opask.inert import inert, inert_line
from opask.outcomes import Answered, Outcome, Reply, Skipped, Unavailable
from opask.questions import Answer, Ask, Question
from opask.surfaces.wording import Tone, answer_parts, asker, countdown, ending

__all__ = ["PlainPrompter", "read_answer"]

_BY = "terminal"
_UNKNOWN = 0  # a foreground group that is outside of this process's namespace
_PROMPT = "> "
_NUMBERS = re.compile(r"\d+(?:\s*[,\s]\s*\d+)*\s*,?")


def read_answer(question: Question, line: str) -> Answer | str | None:
    """Read what an operator wrote for an answer.

    Numbers choose options, separated by commas or spaces where several may be chosen, and so does an option's
    own label; ``s`` and ``/skip`` skip; ``/text WORDS`` is the words whatever they look like; so is anything else.

    Returns:
        The answer, None for a skip, or a sentence that says what was wrong.
    """
    line = line.strip()
    if not line:
        return "Type an answer, or s to skip."
    if line in {"s", "/skip"}:
        return None
    command, _, words = line.partition(" ")
    if command == "/text":
        return Answer((), words) if words.strip() else "Type the words after /text."
    labels = [inert_line(option.label) for option in question.options]
    if line in labels:
        return Answer((labels.index(line),))
    if not question.options or not _NUMBERS.fullmatch(line):
        return Answer((), line)
    numbers = list(dict.fromkeys(re.findall(r"\d+", line)))
    wrong = [number for number in numbers if not 1 <= int(number[:9]) <= len(labels)]
    if wrong:
        return f"There is no option {wrong[0][:9]}; /text {line[:20]} gives it as words."
    if len(numbers) > 1 and not question.multi_select:
        return "Only one option can be chosen here."
    return Answer(tuple(int(number) - 1 for number in numbers))


class PlainPrompter:
    """Ask the operator in plain lines; implements `opask.prompter.Prompter`, on asyncio and on trio.

    One ask is shown at a time, the others wait their turn. On a terminal, lines that were typed before a
    question was shown are dropped; from a pipe they are answers.

    Args:
        stdin: where lines come from, standard input unless told; read through its file descriptor.
        stdout: where lines go, standard output unless told.
        guard: how long after a question is shown a line from a terminal does not count yet.
    """

    def __init__(
        self,
        *,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
        guard: timedelta = timedelta(milliseconds=250),
    ) -> None:
        # Either may be missing, in a process that was started without it.
        self._stdin: TextIO | None = stdin if stdin is not None else sys.stdin
        self._stdout: TextIO | None = stdout if stdout is not None else sys.stdout
        self._guard = guard.total_seconds()
        self._turn = anyio.Lock()
        self._lock = threading.RLock()
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._read = ""
        self._ended = False
        self._prompting = False
        self._mid_line = False
        self._at_prompt = False
        self._gone = False
        self._sessions: set[str] = set()
        self._replies: dict[str, Reply] = {}

    # -- the prompter ------------------------------------------------------------------------------------------

    def available(self, session_id: str, /) -> bool:
        """Tell whether anything can still come in."""
        if "\n" in self._read:
            return True
        descriptor = self._descriptor()
        return (
            not self._ended
            and descriptor is not None
            and not _is_over(descriptor)
            and _in_foreground(descriptor)
        )

    async def ask(self, ask: Ask, /) -> Reply:
        """Put the questions one after the other, after the asks that came before, and return the answers."""
        self._sessions.add(ask.session_id)
        async with self._turn:
            reply = await self._put(ask)
        self._replies[ask.id] = reply
        return reply

    def settled(self, ask: Ask, outcome: Outcome, /) -> None:
        """Hear how an ask ended, and say so in a line where the operator has not seen it."""
        line = ending(ask, outcome, self._replies.pop(ask.id, None))
        if line is not None:
            self._say(line)

    def write(self, text: str, tone: Tone = "plain") -> None:
        """Print text of the turn, made inert; the tone is not shown. From any thread."""
        if not text:
            return
        with self._lock:
            if self._at_prompt:
                self._out("\n")
            self._out(inert(text))
            self._prompt_again()

    @property
    def is_gone(self) -> bool:
        """Whether nobody reads what is written any more."""
        return self._gone

    # -- asking ------------------------------------------------------------------------------------------------

    async def _put(self, ask: Ask) -> Reply:
        descriptor = self._descriptor()
        if descriptor is None:
            return Unavailable("there is no standard input to read an answer from")
        if not _in_foreground(descriptor):
            return Unavailable("this process is not in the foreground of its terminal")
        answers: list[Answer | None] = []
        try:
            for index in range(len(ask.questions)):
                answer = await self._answer(ask, index, descriptor)
                answers.append(answer)
                self._say(_told(ask.questions[index], answer))
        except EOFError:
            return Unavailable("the operator's input ended")
        except OSError as error:
            self._ended = True
            return Unavailable(f"the operator is gone: {error}")
        finally:
            with self._lock:
                self._prompting = False
                self._fresh_line()
        return Answered(answers, _BY) if any(answers) else Skipped(_BY)

    async def _answer(self, ask: Ask, index: int, descriptor: int) -> Answer | None:
        question = ask.questions[index]
        is_terminal = os.isatty(descriptor)
        if is_terminal:
            self._drop_typed_ahead(descriptor)
        self._say(*self._shown(ask, index))
        while True:
            with self._lock:
                self._prompt()
            shown_at = time.monotonic()
            line = await self._line_while_read(descriptor)
            with self._lock:
                self._prompting = False
                # A terminal shows what was typed, with its newline; a pipe leaves the prompt as it is.
                self._mid_line = self._mid_line and not is_terminal
                self._fresh_line()
            if is_terminal and time.monotonic() - shown_at < self._guard:
                self._drop_typed_ahead(descriptor)
                continue
            answer = read_answer(question, line)
            if not isinstance(answer, str):
                return answer
            self._say(answer)

    def _shown(self, ask: Ask, index: int) -> list[str]:
        question = ask.questions[index]
        header = inert_line(question.header)
        about = [asker(ask, with_session=len(self._sessions) > 1)]
        if len(ask.questions) > 1:
            about.append(f"{index + 1} of {len(ask.questions)}")
        if ask.deadline is not None:
            about.append(f"{countdown(ask.deadline - datetime.now(UTC))} left")
        lines = [f"[{header or 'Question'}] {', '.join(about)}", *_indented(question.text)]
        width = len(str(len(question.options)))
        for number, option in enumerate(question.options, start=1):
            described = inert_line(option.description)
            lines.append(
                f"  {number:>{width}}. {inert_line(option.label)}" + (f" - {described}" if described else "")
            )
        how = "with numbers, as 1,3, or " if question.multi_select else "with a number or "
        lines.append(f"Answer {how if question.options else ''}in your own words; s skips.")
        return lines

    # -- reading -----------------------------------------------------------------------------------------------

    def _descriptor(self) -> int | None:
        try:
            return self._stdin.fileno() if self._stdin is not None else None
        except (OSError, ValueError):  # no file, or closed
            return None

    def _drop_typed_ahead(self, descriptor: int) -> None:
        self._read = ""
        with contextlib.suppress(termios.error):
            termios.tcflush(descriptor, termios.TCIFLUSH)

    async def _line_while_read(self, descriptor: int) -> str:
        """Return the next line, as long as somebody can read what it answers.

        Raises:
            BrokenPipeError: nobody can.
            EOFError: the input ended.
            OSError: it cannot be read.
        """
        line: str | Exception | None = None

        async def watch() -> None:
            await self._output_gone()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            try:
                line = await self._line(descriptor)
            except (EOFError, OSError) as error:
                line = error
            tasks.cancel_scope.cancel()
        if self._gone or line is None:
            raise BrokenPipeError("nobody reads the questions any more")
        if isinstance(line, Exception):
            raise line
        return line

    async def _output_gone(self) -> None:
        """Wait until the output is known to have no reader; of what cannot tell, for ever."""
        try:
            descriptor = None if self._stdout is None else self._stdout.fileno()
        except (OSError, ValueError):  # no file, or closed
            descriptor = None
        # What is written to a terminal, or to where the input comes from, goes when the input does.
        if descriptor is not None and (descriptor == self._descriptor() or os.isatty(descriptor)):
            descriptor = None
        if not self._gone and descriptor is not None:
            with contextlib.suppress(PermissionError):  # a regular file
                while not _has_no_reader(descriptor):
                    if _is_readable(descriptor):
                        break  # a socket, of which more cannot be told
                    await anyio.wait_readable(descriptor)  # the end of a pipe's reader wakes it, too
                else:
                    self._gone = True
        if not self._gone:
            await anyio.sleep_forever()

    async def _line(self, descriptor: int) -> str:
        """Return the next line; what stands before the end of input is one too.

        Raises:
            EOFError: the input ended.
        """
        while "\n" not in self._read and not self._ended:
            with contextlib.suppress(PermissionError):  # a regular file, which never makes anyone wait
                await anyio.wait_readable(descriptor)
            try:
                chunk = os.read(descriptor, 4096)
            except BlockingIOError:
                continue
            self._ended = not chunk
            self._read += self._decoder.decode(chunk, final=self._ended)
        if not self._read:
            raise EOFError
        line, _, self._read = self._read.partition("\n")
        return line

    # -- writing -----------------------------------------------------------------------------------------------

    def _say(self, *lines: str) -> None:
        with self._lock:
            self._fresh_line()
            self._out("".join(f"{line}\n" for line in lines))
            self._prompt_again()

    def _prompt(self) -> None:
        self._prompting = True
        self._out(_PROMPT)
        self._at_prompt = True

    def _prompt_again(self) -> None:
        if self._prompting and not self._mid_line:
            self._prompt()

    def _fresh_line(self) -> None:
        if self._mid_line:
            self._out("\n")

    def _out(self, text: str) -> None:
        try:
            if self._stdout is None:
                raise BrokenPipeError
            encoding = self._stdout.encoding or "utf-8"
            self._stdout.write(text.encode(encoding, "replace").decode(encoding))
            self._stdout.flush()
        except (OSError, ValueError):  # nobody reads any more, or it is closed
            self._gone = True
        self._mid_line = not text.endswith("\n")
        self._at_prompt = False


def _indented(text: str) -> Sequence[str]:
    """Return a question's lines, each a little in, so that none can pass for a line of the prompter's own."""
    return [f"  {line}" for line in inert(text).expandtabs(4).split("\n")]


def _told(question: Question, answer: Answer | None) -> str:
    return f"Answered: {' + '.join(answer_parts(question, answer))}" if answer is not None else "Skipped."


def _in_foreground(descriptor: int) -> bool:
    try:
        return os.tcgetpgrp(descriptor) in {os.getpgrp(), _UNKNOWN}
    except OSError:
        return True  # no terminal, or not this process's own


def _is_over(descriptor: int) -> bool:
    """Tell whether a descriptor is known to have nothing more to give."""
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            return os.lseek(descriptor, 0, os.SEEK_CUR) >= status.st_size
        if stat.S_ISCHR(status.st_mode) and status.st_rdev == Path(os.devnull).stat().st_rdev:
            return True
    except OSError:
        return True
    return _has_no_reader(descriptor) and not _is_readable(descriptor)


def _has_no_reader(descriptor: int) -> bool:
    """Tell whether the other end of a descriptor is gone."""
    return bool(_polled(descriptor) & (POLLHUP | POLLERR | POLLNVAL))


def _is_readable(descriptor: int) -> bool:
    return bool(_polled(descriptor) & POLLIN)


def _polled(descriptor: int) -> int:
    poller = poll()
    poller.register(descriptor, POLLIN)
    return next((happened for _, happened in poller.poll(0)), 0)
