"""One card, open at the bottom of a terminal: its keys, its drawing, and the text that goes by above it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Literal, TypeAlias

from attrs import evolve
from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    VerticalAlign,
    Window,
)
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.output import Output
from prompt_toolkit.utils import get_cwidth

from opask.inert import inert
from opask.surfaces.card import Card, Picture
from opask.surfaces.form import KeyGuard
from opask.surfaces.frame import Frame, Line
from opask.surfaces.keys import CardKeys
from opask.surfaces.screen import STYLE, fragments, frame_of, print_fragments

__all__ = ["End", "InlineCard"]

End: TypeAlias = Literal["done", "interrupted", "withdrawn"]
"""How a card was closed: the operator is through, pressed Ctrl-C, or it was taken away."""

_TAIL_ROWS = 3  # of an unfinished line above the card
_SURROGATE = re.compile("[\ud800-\udfff]")


def _ends_card_on_error(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make an error in drawing or in a key end the card: the loop would else only log it, and the ask hang."""

    @wraps(method)
    def run(self: InlineCard, *args: Any) -> Any:
        try:
            return method(self, *args)
        except Exception as error:
            self.fail(error)
            return None

    return run


class _Inert(Processor):
    """Show what was pasted without obeying it; the text itself stays as it is."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Put a sign, one for one, in place of every character that must not reach the screen."""
        return Transformation([(style, _signed(text)) for style, text, *_ in transformation_input.fragments])


def _signed(text: str) -> str:
    if inert(text) == text:
        return text
    return "".join(c if inert(c) == c else "\N{REPLACEMENT CHARACTER}" for c in text)


class InlineCard:
    """A card while it is open; made, run and closed on one asyncio loop.

    Args:
        card: what is shown.
        stdin: where keys come from.
        output: where it is drawn.
        guard: tells keys that were pressed too early.
        waiting: tells how many further asks wait.
    """

    def __init__(
        self, card: Card, stdin: Input, output: Output, guard: KeyGuard, waiting: Callable[[], int]
    ) -> None:
        self._card = card
        self._card_keys = CardKeys(card, self._frame)
        self._stdin = stdin
        self._output = output
        self._guard = guard
        self._waiting = waiting
        self._tail = ""
        self._picture = Picture((), (), ((), ()))
        self._shown = 0
        self._closed: End | None = None
        self._wake: asyncio.TimerHandle | None = None
        self._buffer = Buffer(multiline=True)
        self._app = self._application()

    # -- its life ----------------------------------------------------------------------------------------------

    async def run(self) -> End:
        """Show the card until it is closed.

        Raises:
            EOFError: the terminal went away.
        """
        if self._closed is not None:
            return self._closed
        clear_typeahead(self._stdin)
        while self._stdin.read_keys() or self._stdin.flush_keys():
            pass  # typed before there was a card
        try:
            end: End = await self._app.run_async(set_exception_handler=False, handle_sigint=False)
        finally:
            if self._wake is not None:
                self._wake.cancel()
            clear_typeahead(self._stdin)
        return end

    def close(self, end: End) -> None:
        """Take the card away; without effect on one that is closed already."""
        self._closed = self._closed or end
        if self._app.future is not None and not self._app.future.done():
            self._app.exit(result=end)

    def fail(self, error: Exception) -> None:
        """Take the card away and have `run` raise this error."""
        if self._app.future is not None and not self._app.future.done():
            self._app.exit(exception=error)

    def invalidate(self) -> None:
        """Have the card drawn anew."""
        self._app.invalidate()

    def print_above(self, parts: StyleAndTextTuples, tail: str) -> None:
        """Print finished lines above the card, and show an unfinished one there until it is finished."""
        self._tail = tail
        if parts:
            self._app.renderer.erase()
            print_fragments(self._output, parts)
        self._app.invalidate()

    # -- drawing -----------------------------------------------------------------------------------------------

    def _application(self) -> Application[End]:
        typing = Condition(lambda: self._card.form.mode == "typing")
        self._rows = FormattedTextControl(self._above, focusable=True, show_cursor=False)
        self._field = BufferControl(self._buffer, input_processors=[_Inert()])
        root = HSplit(
            [
                Window(self._rows, height=self._above_height, dont_extend_height=True),
                ConditionalContainer(
                    Window(
                        self._field,
                        height=lambda: Dimension.exact(self._input_rows()),
                        wrap_lines=True,
                        dont_extend_height=True,
                        get_line_prefix=self._before_text,
                    ),
                    typing,
                ),
                Window(
                    FormattedTextControl(lambda: fragments(self._picture.footer)),
                    height=lambda: Dimension.exact(len(self._picture.footer)),
                    dont_extend_height=True,
                ),
            ],
            align=VerticalAlign.TOP,
        )
        app: Application[End] = Application(
            layout=Layout(root, focused_element=self._rows),
            style=STYLE,
            key_bindings=self._keys(),
            input=self._stdin,
            output=self._output,
            erase_when_done=True,
            refresh_interval=0.5 if self._card.ask.deadline is not None else None,
            before_render=lambda _: self._draw(),
            after_render=lambda _: self._drawn(),
        )
        # An Esc of its own is told from the start of another key's sequence by the pause after it.
        app.ttimeoutlen = app.timeoutlen = 0.05
        return app

    def _frame(self) -> Frame:
        frame = frame_of(self._output)
        # On all but the smallest screens, some of the turn stays in view.
        return evolve(frame, height=frame.height - 2) if frame.height >= 10 else frame

    @_ends_card_on_error
    def _draw(self) -> None:
        form = self._card.form
        if self._shown != form.shown:
            self._shown = form.shown
            self._guard.hide()
            self._buffer.document = Document(form.draft.typed)
        self._app.layout.focus(self._field if form.mode == "typing" else self._rows)
        frame = self._frame()
        tail = self._tail_rows(frame)
        deadline = self._card.ask.deadline
        self._picture = self._card.render(
            evolve(frame, height=max(1, frame.height - len(tail))),
            left=None if deadline is None else deadline - datetime.now(UTC),
            live=self._guard.counts(time.monotonic()),
            waiting=self._waiting(),
            input_rows=self._input_rows(),
        )

    @_ends_card_on_error
    def _drawn(self) -> None:
        now = time.monotonic()
        appeared = not self._guard.is_shown
        self._guard.show(now)
        if appeared and not self._app.is_done:
            self._wake_in(self._guard.remaining(now))  # to name the keys, once they count

    def _wake_in(self, seconds: float) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self._wake = asyncio.get_running_loop().call_later(seconds + 0.01, self._app.invalidate)

    def _tail_rows(self, frame: Frame) -> tuple[Line, ...]:
        rows = frame.wrap(self._tail, frame.width) if self._tail else ()
        most = min(_TAIL_ROWS, frame.height // 4)
        return tuple((("plain", row),) for row in rows[len(rows) - most :]) if most else ()

    def _above(self) -> StyleAndTextTuples:
        return fragments((*self._tail_rows(self._frame()), *self._picture.above))

    def _above_height(self) -> Dimension:
        return Dimension.exact(len(self._tail_rows(self._frame())) + len(self._picture.above))

    def _before_text(self, line: int, wraps: int) -> StyleAndTextTuples:
        return fragments((self._picture.field[1 if line or wraps else 0],))

    def _input_rows(self) -> int:
        """Return how many rows the text field takes: what is typed, but a third of the screen at most."""
        frame = self._frame()
        before = sum(get_cwidth(text) for _, text in self._picture.field[0])
        width = max(1, self._output.get_size().columns - before)
        rows = sum(-(-(get_cwidth(line) + 1) // width) for line in self._buffer.text.split("\n"))
        return min(rows, max(1, frame.height // 3))

    # -- keys --------------------------------------------------------------------------------------------------

    def _keys(self) -> KeyBindings:
        form = self._card.form
        keys = KeyBindings()
        live = Condition(lambda: self._guard.counts(time.monotonic()))
        choosing = live & Condition(lambda: form.mode == "choosing")
        writing = live & Condition(lambda: form.mode == "typing")
        confirming = live & Condition(lambda: form.mode == "confirming")

        def on(when: Any, act: Callable[[], object], *names: str | tuple[str, ...]) -> None:
            for name in names:
                keys.add(*((name,) if isinstance(name, str) else name), filter=when)(self._acting(act))

        @keys.add("c-c", eager=True)
        @keys.add("escape", "c-c", eager=True)
        def _(event: KeyPressEvent) -> None:
            self.close("interrupted")

        @keys.add(Keys.Any, filter=~live, eager=True)
        def _(event: KeyPressEvent) -> None:
            self._guard.refuse(time.monotonic())
            self._wake_in(self._guard.quiet)

        for name, act in self._card_keys.choosing.items():
            on(choosing, act, name)
        on(choosing | confirming, lambda: None, ("escape", Keys.Any))  # Alt with a key is not that key
        on(choosing, form.ask_to_skip, ("escape", "escape"))

        on(writing, lambda: form.submit_text(self._text()), "enter")
        on(writing, lambda: self._buffer.insert_text("\n"), ("escape", "enter"))
        on(writing, lambda: form.leave_text(self._text()), "escape")
        on(writing, lambda: None, "c-z")

        on(confirming, lambda: form.confirm(False), Keys.Any)
        for name, act in self._card_keys.confirming.items():
            on(confirming, act, name)
        on(confirming, lambda: form.confirm(True), ("escape", "escape"))
        return keys

    def _acting(self, act: Callable[[], object]) -> Callable[[KeyPressEvent], None]:
        """Wrap what a key does: the card is drawn anew after it, or closed where it was the last answer."""

        @_ends_card_on_error
        def run(self: InlineCard) -> None:
            form = self._card.form
            act()
            if form.done:
                self.close("done")
            elif form.shown != self._shown:
                # Another question: nothing that is pressed before it is on the screen counts for it.
                self._guard.hide()
                self._app.renderer.erase()
            self._app.invalidate()

        return lambda event: run(self)

    def _text(self) -> str:
        """Return what is typed; bytes that are no UTF-8 come as surrogates, which could not be sent on."""
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", self._buffer.text)
