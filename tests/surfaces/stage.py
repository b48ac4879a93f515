"""A terminal to test surfaces on: it understands what is written to it, and remembers every line."""

from __future__ import annotations

import asyncio
import os
import re
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from io import FileIO
from types import TracebackType
from typing import Any, TextIO

import anyio
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.utils import get_cwidth

from opask.questions import Ask, Option, Question
from opask.surfaces.screen import Screen
from opask.surfaces.terminal import TerminalPrompter

DATABASE = Question(
    "Which database should the service use?",
    "Database",
    (Option("PostgreSQL", "A server to run"), Option("SQLite", "One file")),
)
PARTS = Question(
    "Which parts should be done first?", "Parts", (Option("API"), Option("Web page"), Option("Docs")), True
)
NAME = Question("What should it be called?")

_SEQUENCE = re.compile(r"\x1b(?:\[(?P<private>\??)(?P<numbers>[\d;]*)(?P<final>[A-Za-z])|(?P<save>[78]))")


def ask_of(*questions: Question, ask_id: str = "ask-1", **more: Any) -> Ask:
    """Make an ask of these questions."""
    more = {"session_id": "session-1", "asked_at": datetime.now(UTC), **more}
    return Ask(id=ask_id, questions=questions, **more)


def acts(character: str) -> bool:
    """Tell whether a character does something on a terminal instead of being seen; two joiners may."""
    return (
        unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and character not in "\u200c\u200d"
    )


class Tube:
    """A screen with all that has scrolled off it; refuses what no surface has a reason to write."""

    encoding = "utf-8"

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns, self.rows = columns, rows
        self.written = ""
        self.lines: list[list[str]] = [[]]
        self.wraps = True
        self.flushed: Callable[[], None] = lambda: None
        self._x = self._y = 0
        self._saved = (0, 0)

    @property
    def text(self) -> str:
        """Every line there ever was and still is, the screen last."""
        return "\n".join("".join(line).rstrip() for line in self.lines).rstrip("\n")

    def write(self, data: str) -> None:
        """Take what is written, as its bytes would say it."""
        data = data.encode("utf-8", "replace").decode()
        self.written += data
        at = 0
        while at < len(data):
            if data[at] == "\x1b":
                match = _SEQUENCE.match(data, at)
                assert match, f"an unknown sequence: {data[at : at + 12]!r}"
                self._obey(match)
                at = match.end()
            else:
                self._put(data[at])
                at += 1

    def flush(self) -> None:
        """Tell that something may have changed."""
        self.flushed()

    def isatty(self) -> bool:
        """Be a terminal."""
        return True

    def _obey(self, match: re.Match[str]) -> None:
        if match["save"]:
            if match["save"] == "7":
                self._saved = (self._x, self._y)
            else:
                self._x, self._y = self._saved
            return
        first = int(match["numbers"].split(";")[0] or 0)
        count = first or 1
        top = max(0, len(self.lines) - self.rows)
        match match["private"] + match["final"]:
            case "A":
                self._y = max(top, self._y - count)
            case "B":
                self._y = min(top + self.rows - 1, self._y + count)
                self._reach()
            case "C":
                self._x = min(self.columns - 1, self._x + count)
            case "D":
                self._x = max(0, self._x - count)
            case "K":
                assert first == 0
                del self.lines[self._y][self._x :]
            case "J":
                assert first == 0
                del self.lines[self._y][self._x :]
                del self.lines[self._y + 1 :]
            case "?h" | "?l":
                if first == 7:
                    self.wraps = match["final"] == "h"
                assert first in {1, 7, 12, 25, 2004}, match.group()
            case "m":
                pass
            case _:
                raise AssertionError(f"an unknown sequence: {match.group()!r}")

    def _put(self, character: str) -> None:
        if character == "\r":
            self._x = 0
        elif character == "\b":
            self._x = max(0, self._x - 1)
        elif character == "\n":
            self._y += 1
            self._reach()
        else:
            assert not acts(character), f"written raw: {character!r}"
            self._print(character, get_cwidth(character))

    def _print(self, character: str, width: int) -> None:
        line = self.lines[self._y]
        if width == 0:
            if self._x and self._x <= len(line):
                line[self._x - 1] += character
            return
        if self._x + width > self.columns:
            if self.wraps:
                self._x, self._y = 0, self._y + 1
                self._reach()
                line = self.lines[self._y]
            else:
                self._x = self.columns - width
        line += [" "] * (self._x + width - len(line))
        line[self._x] = character
        if width == 2:
            line[self._x + 1] = ""
        self._x += width

    def _reach(self) -> None:
        while len(self.lines) <= self._y:
            self.lines.append([])


class Stage:
    """A prompter on a tube, with a pipe for its keys.

    Args:
        columns: of the tube.
        rows: of the tube.
        guard: of the prompter; none unless told, so that a key counts once its question is drawn.
    """

    def __init__(
        self, columns: int = 80, rows: int = 24, *, guard: timedelta = timedelta(0), **more: Any
    ) -> None:
        self.tube = Tube(columns, rows)
        self.tube.flushed = self._flushed
        self._changed = anyio.Event()
        self._pipe = create_pipe_input()
        self.input = self._pipe.__enter__()
        screen = Screen(
            self.tube,  # type: ignore[arg-type]
            lambda: Size(rows=self.tube.rows, columns=self.tube.columns),
            term="xterm",
            default_color_depth=ColorDepth.from_env(),
            enable_cpr=False,
        )
        self.prompter = TerminalPrompter(input=self.input, output=screen, guard=guard, **more)

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pipe.__exit__(kind, error, trace)

    def keys(self, keys: str) -> None:
        """Press keys, all at once."""
        self.input.send_text(keys)

    async def until(self, *texts: str, without: str | None = None) -> None:
        """Wait until all these texts are on the tube, and one is not."""
        try:
            with anyio.fail_after(30):
                while not all(text in self.tube.text for text in texts) or (
                    without and without in self.tube.text
                ):
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"not {texts!r} without {without!r}, but:\n{self.tube.text}") from None

    def _flushed(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


@contextmanager
def terminal() -> Iterator[tuple[FileIO, TextIO, TextIO]]:
    """Give a pseudo-terminal: the end that someone sits at, and the terminal itself to read from and to write to."""
    master, slave = os.openpty()
    ends = (
        FileIO(master, "r+"),
        os.fdopen(slave, encoding="utf-8"),
        os.fdopen(os.dup(slave), "w", encoding="utf-8"),
    )
    try:
        yield ends
    finally:
        for end in reversed(ends):
            with suppress(OSError):  # one that hung up cannot be flushed
                end.close()


class Typist:
    """Whoever sits at a pseudo-terminal: sees what is written and types."""

    def __init__(self, master: FileIO) -> None:
        self.master = master
        self.seen = b""
        self._changed = anyio.Event()

    def __enter__(self) -> Typist:
        asyncio.get_running_loop().add_reader(self.master, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self.master)

    def type(self, keys: str) -> None:
        """Type these keys."""
        self.master.write(keys.encode())

    async def until(self, text: str) -> None:
        """Wait until this was written."""
        with anyio.fail_after(30):
            while text.encode() not in self.seen:
                await self._changed.wait()

    def _read(self) -> None:
        self.seen += self.master.read(65536)
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
