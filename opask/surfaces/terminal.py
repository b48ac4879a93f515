"""The operator at this terminal: asks as cards at the bottom of it, the agent's turn streaming on above.

Needs prompt_toolkit (the extra ``terminal``) and an asyncio loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import termios
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TextIO

import anyio
from attrs import define
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.output import Output

from opask.errors import SurfaceError
from opask.inert import inert
from opask.outcomes import Abandoned, Cancelled, Outcome, Reply, TimedOut, Unavailable
from opask.questions import Ask
from opask.surfaces.block import answered_block, cancelled_block
from opask.surfaces.card import Card
from opask.surfaces.form import KeyGuard
from opask.surfaces.frame import Line
from opask.surfaces.inline import End, InlineCard
from opask.surfaces.screen import fragments, frame_of, print_fragments, screen
from opask.surfaces.wording import Tone, asker, ending

__all__ = ["TerminalPrompter"]

_BY = "terminal"
_UNKNOWN = 0  # a foreground group that is outside of this process's namespace
_logger = logging.getLogger(__name__)


@define(eq=False)
class _Seat:
    """An ask that is with this prompter now: in the queue, or on the screen."""

    ask: Ask
    loop: asyncio.AbstractEventLoop
    card: InlineCard | None = None
    outcome: Outcome | None = None
    cancelled: bool = False


class TerminalPrompter:
    """Ask the operator at this terminal; implements `opask.prompter.Prompter`.

    One ask is shown at a time, the others wait their turn. Keys that were pressed before a question was on the
    screen never answer it. While a card is open, whatever else goes to this terminal has to go through `write`.

    Args:
        stdin: the terminal to read keys from; standard input unless told.
        stdout: the terminal to draw on; standard output unless told.
        on_interrupt: called on the loop of an ask after Ctrl-C has cancelled it, and once all that waited with it
            have their reply, so that the host can end the run; while a card is open, Ctrl-C is a key and raises no
            signal.
        guard: how long no key must have come before one counts, on a question that has just been shown.
        input: keys from elsewhere, in place of ``stdin``.
        output: a screen elsewhere, in place of ``stdout``.
    """

    def __init__(
        self,
        *,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
        on_interrupt: Callable[[], object] | None = None,
        guard: timedelta = timedelta(milliseconds=250),
        input: Input | None = None,  # noqa: A002 - prompt_toolkit's own name for it
        output: Output | None = None,
    ) -> None:
        self._stdin = stdin or sys.stdin
        self._stdout = stdout or sys.stdout
        self._input = input or create_input(self._stdin)
        self._output = output or screen(self._stdout)
        self._on_interrupt = on_interrupt
        self._guard = guard
        self._turn = anyio.Lock()
        self._lock = threading.RLock()
        # Below this line: under the lock.
        self._seats: dict[str, _Seat] = {}
        self._replies: dict[str, Reply] = {}
        self._sessions: set[str] = set()
        self._open: _Seat | None = None
        self._lines: StyleAndTextTuples = []
        self._tail: StyleAndTextTuples = []
        self._scheduled = False
        self._mid_line = False
        self._gone = False
        self._is_interrupted = False

    # -- the prompter ------------------------------------------------------------------------------------------

    def available(self, session_id: str, /) -> bool:
        """Tell whether an operator can be asked: both ends are terminals, and this process is in their foreground."""
        return (
            not self._gone
            and _is_terminal(self._stdin)
            and _is_terminal(self._stdout)
            and self._in_foreground()
        )

    async def ask(self, ask: Ask, /) -> Reply:
        """Show an ask, after those that came before it, and return what the operator decided.

        Raises:
            SurfaceError: there is no asyncio loop, or asks of another loop are open.
        """
        seat = self._take_seat(ask)
        try:
            async with self._turn:
                reply = self._settled_reply(seat) or await self._show(seat)
            with self._lock:
                if seat.outcome is None:
                    self._replies[ask.id] = reply
            return reply
        finally:
            with self._lock:
                self._seats.pop(ask.id, None)
                if self._is_interrupted and not any(each.cancelled for each in self._seats.values()):
                    self._is_interrupted = False
                    # Not at once: first this reply is given back, which the host's own cancel must not overtake.
                    seat.loop.call_soon(self._tell_interrupt)

    @property
    def is_gone(self) -> bool:
        """Whether the terminal is known to be no more."""
        return self._gone

    def settled(self, ask: Ask, outcome: Outcome, /) -> None:
        """Hear how an ask ended: takes its card away, and says so in a line where the operator has not seen it."""
        with self._lock:
            seat = self._seats.get(ask.id)
            line = ending(ask, outcome, self._replies.pop(ask.id, None))
            if seat is not None:
                seat.outcome = outcome
                if seat.card is not None:
                    self._call_soon(seat, seat.card.close, "withdrawn")
            if line is not None:
                self._put_lines(((("dim", line),),))

    def write(self, text: str, tone: Tone = "plain") -> None:
        """Print text of the turn, above the card if one is open; text is made inert. From any thread.

        Lines come out whole and in order; the unfinished last one is shown at once too.
        """
        *lines, rest = inert(text).split("\n")
        with self._lock:
            for line in lines:
                self._lines += [*self._tail, (f"class:{tone}", line), ("", "\n")]
                self._tail = []
            if rest:
                self._tail.append((f"class:{tone}", rest))
            self._emit()

    # -- one ask at a time -------------------------------------------------------------------------------------

    def _take_seat(self, ask: Ask) -> _Seat:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise SurfaceError(
                "the terminal prompter needs asyncio: run the host on it, or use opask.surfaces.plain"
            ) from None
        with self._lock:
            if any(seat.loop is not loop for seat in self._seats.values()):
                raise SurfaceError(
                    "the terminal prompter serves one event loop at a time; give each loop its own"
                )
            seat = self._seats[ask.id] = _Seat(ask, loop)
            self._sessions.add(ask.session_id)
            card = self._open.card if self._open is not None else None
        if card is not None:
            card.invalidate()  # it tells how many wait
        return seat

    def _settled_reply(self, seat: _Seat) -> Reply | None:
        """Return the reply of an ask that is over before it was shown."""
        if seat.cancelled:
            return Cancelled("operator")
        if seat.outcome is not None:
            return _as_reply(seat.outcome)
        if self._gone:
            return Unavailable("the terminal is gone")
        if not self._in_foreground():
            return Unavailable("this process is not in the foreground of its terminal")
        return None

    async def _show(self, seat: _Seat) -> Reply:
        card = Card(seat.ask, asker(seat.ask, with_session=len(self._sessions) > 1))
        inline = InlineCard(
            card,
            self._input,
            self._output,
            KeyGuard(self._guard.total_seconds()),
            lambda: len(self._seats) - 1,
        )
        with self._lock:
            self._end_line()
            self._open, seat.card = seat, inline
        self._drop_typed_ahead()
        end: End = "withdrawn"
        try:
            end = await _run(inline)
        except (EOFError, OSError) as error:
            self._gone = True
            return Unavailable(f"the terminal is gone ({str(error) or 'end of input'})")
        finally:
            with self._lock:
                self._open = seat.card = None
                if seat.outcome is not None:
                    end = "withdrawn"  # the last key came when it was over already
                self._put_lines(self._block(card, end))
        if end == "interrupted":
            self._interrupted()
            return Cancelled("operator")
        if end == "withdrawn":
            return _as_reply(seat.outcome)
        return card.form.reply(_BY)

    def _interrupted(self) -> None:
        with self._lock:
            self._is_interrupted = True
            for seat in self._seats.values():
                seat.cancelled = True

    def _tell_interrupt(self) -> None:
        if self._on_interrupt is not None:
            try:
                self._on_interrupt()
            except Exception:
                _logger.exception("on_interrupt failed")

    def _block(self, card: Card, end: End) -> tuple[Line, ...]:
        frame = frame_of(self._output)
        if end == "interrupted":
            return cancelled_block(card.ask.questions, frame)
        if end == "done":
            return answered_block(card.ask.questions, [draft.answer for draft in card.form.drafts], frame)
        return ()

    def _in_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self._input.fileno()) in {os.getpgrp(), _UNKNOWN}
        except (OSError, NotImplementedError, ValueError):
            return True  # no terminal of ours to be in the background of

    def _drop_typed_ahead(self) -> None:
        # Where it is no terminal, what was sent before is refused by the guard.
        with contextlib.suppress(OSError, NotImplementedError, ValueError, termios.error):
            termios.tcflush(self._input.fileno(), termios.TCIFLUSH)

    # -- text, under the lock ----------------------------------------------------------------------------------

    def _put_lines(self, lines: tuple[Line, ...]) -> None:
        """Print whole lines; before an unfinished one where that is not printed yet."""
        if lines:
            self._end_line()
            self._lines += fragments(lines, end="\n")
        self._emit()

    def _end_line(self) -> None:
        if self._mid_line and self._open is None:
            self._print([("", "\n")])
            self._mid_line = False

    def _emit(self) -> None:
        if self._open is None:
            parts, self._lines, self._tail = self._lines + self._tail, [], []
            if parts:
                self._mid_line = not parts[-1][1].endswith("\n")
                self._print(parts)
        elif not self._scheduled:
            self._scheduled = True
            self._call_soon(self._open, self._emit_above)

    def _emit_above(self) -> None:
        with self._lock:
            self._scheduled = False
            if self._open is None or self._open.card is None:
                return
            parts, self._lines = self._lines, []
            self._open.card.print_above(parts, "".join(text for _, text, *_ in self._tail))

    def _print(self, parts: StyleAndTextTuples) -> None:
        try:
            print_fragments(self._output, parts)
        except OSError:
            self._gone = True  # a hung-up terminal; its run ends by other means

    def _call_soon(self, seat: _Seat, function: Callable[..., object], *args: object) -> None:
        try:
            seat.loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            _logger.debug("the loop of ask %s is closed", seat.ask.id)


async def _run(card: InlineCard) -> End:
    """Run a card to its end, in a task of its own: a cancelled ask has to leave the terminal as it was."""
    task = asyncio.ensure_future(card.run())
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope() as patience:
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                cancelled = error
                patience.shield = True
                card.close("withdrawn")
    if cancelled is not None:
        if not task.cancelled():
            task.exception()
        raise cancelled
    return task.result()


def _as_reply(outcome: Outcome | None) -> Reply:
    """Return what to give back for an ask that has ended already; nobody will look at it."""
    return Cancelled("host") if outcome is None or isinstance(outcome, TimedOut | Abandoned) else outcome


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False
