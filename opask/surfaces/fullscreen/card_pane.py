"""One ask in a pane of the screen: the card that the inline prompter draws, with the same keys."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static, TextArea

from opask.inbox import Entry, outcome_of
from opask.inert import inert, inert_line, shorten
from opask.outcomes import Answered, Skipped
from opask.surfaces.block import answered_block, asked_block
from opask.surfaces.card import Card
from opask.surfaces.form import KeyGuard
from opask.surfaces.frame import UNICODE, Frame, Line
from opask.surfaces.keys import CardKeys
from opask.surfaces.wording import asker, ending

__all__ = ["CardPane", "styled"]

_STYLES: Final = {
    "edge": "cyan",
    "more": "bold yellow",
    "tag": "bold cyan",
    "who": "dim",
    "question": "bold",
    "focus": "bold cyan",
    "number": "dim",
    "other": "dim",
    "chosen": "bold green",
    "description": "dim",
    "key": "bold",
    "keys": "dim",
    "note": "yellow",
    "check": "bold green",
    "answer": "bold",
    "skipped": "dim",
    "dim": "dim",
    "strong": "bold",
    "warning": "yellow",
}
# Textual's names of keys that the card knows by others.
_KEYS: Final = {"space": " ", "ctrl+p": "c-p", "ctrl+n": "c-n"}
_LEFT: Final = 100  # cards that were begun and left
_PART: Final = 3  # of the screen's height, out of four, that a card may take


def styled(lines: tuple[Line, ...]) -> Text:
    """Turn lines into what Textual draws as it is: no markup in it means anything."""
    text = Text(no_wrap=False, overflow="fold")
    for at, line in enumerate(lines):
        for style, part in line:
            text.append(part, _STYLES.get(style, ""))
        if at < len(lines) - 1:
            text.append("\n")
    return text


class _Field(TextArea):
    """The operator's own words."""

    class Sent(Message):
        """Enter was pressed."""

    class Left(Message):
        """Esc was pressed."""

    async def _on_key(self, event: events.Key) -> None:
        if event.key in {"enter", "escape"}:
            event.stop()
            event.prevent_default()
            self.post_message(self.Sent() if event.key == "enter" else self.Left())
        elif event.key in {"alt+enter", "shift+enter", "ctrl+j"}:
            event.stop()
            event.prevent_default()
            self.insert("\n")
        elif event.key != "tab":
            await super()._on_key(event)

    async def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        self.insert(inert(event.text))


class CardPane(Vertical, can_focus=True):
    """Shows an ask, and lets it be answered while it waits.

    Args:
        waiting: tells how many further asks wait.
        now: gives the time (aware, UTC).
        clock: gives seconds, for keys that come too early.
    """

    class Decided(Message):
        """The operator is through with an ask."""

        def __init__(self, entry: Entry, reply: Answered | Skipped) -> None:
            super().__init__()
            self.entry = entry
            self.reply = reply

    class Typing(Message):
        """The operator is at it."""

        def __init__(self, entry: Entry) -> None:
            super().__init__()
            self.entry = entry

    def __init__(
        self,
        waiting: Callable[[], int],
        now: Callable[[], datetime],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._waiting = waiting
        self._now = now
        self._clock = clock
        self._entry: Entry | None = None
        self._card: Card | None = None
        self._keys: CardKeys | None = None
        self._guard = KeyGuard()
        self._shown = 0
        self._note = ""
        self._left: dict[str, tuple[Card, CardKeys]] = {}

    def compose(self) -> ComposeResult:
        """Lay out what is above the typed text, the text, and the keys below."""
        self._above = Static(markup=False)
        self._field = _Field(soft_wrap=True, show_line_numbers=False, compact=True)
        self._below = Static(markup=False)
        yield self._above
        yield self._field
        yield self._below

    def on_mount(self) -> None:
        """Begin with nothing."""
        self._field.display = False

    @property
    def entry(self) -> Entry | None:
        """The ask that is shown."""
        return self._entry

    def put(self, entry: Entry | None) -> None:
        """Show an ask, or how it stands now; what was chosen and typed of it so far stays, a look at others included.

        Args:
            entry: the ask; None for nothing.
        """
        other = entry is None or self._entry is None or entry.id != self._entry.id
        if other:
            self._note = ""
            self._leave()
        self._entry = entry
        if entry is None or entry.state != "pending":
            self._card = self._keys = None
            if entry is not None:
                self._left.pop(entry.id, None)
        elif self._card is None:
            if entry.id in self._left:
                self._card, self._keys = self._left.pop(entry.id)
            else:
                self._card = Card(entry.ask, _who(entry), cancels="")
                self._keys = CardKeys(self._card, self._frame)
            self._guard, self._shown = KeyGuard(), 0
        self.draw()

    def _leave(self) -> None:
        """Keep the card that is shown for when the operator comes back to it."""
        if self._entry is not None and self._card is not None and self._keys is not None:
            if self._card.form.mode == "typing":
                self._card.form.leave_text(self._field.text)
            self._left[self._entry.id] = self._card, self._keys
            if len(self._left) > _LEFT:
                del self._left[next(iter(self._left))]
        self._card = self._keys = None

    def tell(self, note: str) -> None:
        """Say below the card why a decision was not taken."""
        self._note = note
        self.draw()

    # -- drawing -----------------------------------------------------------------------------------------------

    def _frame(self) -> Frame:
        column = self.parent.size if isinstance(self.parent, Widget) else self.app.size
        width = self.content_size.width or self.app.size.width
        return Frame(max(8, width), max(3, column.height * _PART // 4 - 1), cell_len, UNICODE)

    def draw(self) -> None:
        """Draw it as it is now."""
        card, entry = self._card, self._entry
        typing = card is not None and card.form.mode == "typing"
        if not typing and self._field.has_focus:
            self.focus()
        self._field.display = typing
        if entry is None:
            self._above.update(
                styled(((("dim", "Nothing is asked. Leave this open: questions appear by themselves."),),))
            )
            self._below.update("")
            return
        note: tuple[Line, ...] = ((("warning", inert(self._note)),),) if self._note else ()
        if card is None:
            self._above.update(styled(_over(entry, self._frame())))
            self._below.update(styled(note))
            return
        now = self._clock()
        if self._shown != card.form.shown:
            self._shown = card.form.shown
            self._guard.hide()
            self._field.text = card.form.draft.typed
            self._field.move_cursor(self._field.document.end)
        self._guard.show(now)
        has_keys = self.has_focus or self._field.has_focus
        live = self._guard.counts(now)
        if not live:
            self.set_timer(self._guard.remaining(now) + 0.01, self.draw)
        deadline = entry.deadline
        picture = card.render(
            self._frame(),
            left=None if deadline is None else deadline - self._now(),
            live=live and has_keys,
            waiting=self._waiting(),
            input_rows=max(1, min(5, self._field.document.line_count)) if typing else 1,
        )
        self._above.update(styled(picture.above))
        footer = picture.footer if has_keys else ((("edge", "╰ "), ("key", "Tab"), ("keys", " answer it")),)
        self._below.update(styled((*footer, *note)))
        if typing and self.has_focus:
            self._field.focus()

    def on_focus(self) -> None:
        """Draw the keys, which count now."""
        self.draw()

    def on_blur(self) -> None:
        """Draw that they do not."""
        self.draw()

    # -- keys --------------------------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        """Do what a key does."""
        card, keys = self._card, self._keys
        if card is None or keys is None or event.key in {"tab", "shift+tab"} or not self.has_focus:
            return
        name = _KEYS.get(event.key, event.character if event.is_printable else event.key)
        act = None
        if card.form.mode == "confirming":
            act = keys.confirming.get(name or "", lambda: card.form.confirm(False))
        elif card.form.mode == "choosing":
            act = keys.choosing.get(name or "")
        if act is None:
            return
        event.stop()
        event.prevent_default()
        if self._is_early():
            return
        act()
        self._acted()

    def on__field_sent(self) -> None:
        """Take the typed text."""
        if self._card is not None and not self._is_early():
            self._card.form.submit_text(self._field.text)
            self._acted()

    def on__field_left(self) -> None:
        """Leave the typed text where it is."""
        if self._card is not None:
            self._card.form.leave_text(self._field.text)
            self._acted()

    def on_text_area_changed(self) -> None:
        """Say that the operator is typing."""
        if self._entry is not None and self._card is not None and self._field.has_focus:
            self.post_message(self.Typing(self._entry))

    def _is_early(self) -> bool:
        now = self._clock()
        if self._guard.counts(now):
            return False
        self._guard.refuse(now)
        return True

    def _acted(self) -> None:
        card, entry = self._card, self._entry
        self._note = ""
        if card is not None and entry is not None and card.form.done:
            reply = card.form.reply("terminal")
            self._card = self._keys = None  # one decision: no further key counts
            self.post_message(self.Decided(entry, reply))
            return
        self.draw()


def _who(entry: Entry) -> str:
    return shorten(entry.runtime, 20) if entry.runtime and entry.ask.agent_id is None else asker(entry.ask)


def _over(entry: Entry, frame: Frame) -> tuple[Line, ...]:
    """Give the lines of an ask that nobody can answer any more."""
    outcome, reply, questions = outcome_of(entry), entry.reply, entry.ask.questions
    if isinstance(reply, Answered):
        lines = list(answered_block(questions, reply.answers, frame))
    else:
        lines = list(asked_block(questions, frame))
    by = shorten(entry.by or "", 40)
    if entry.state == "answered":
        lines.append((("dim", f"answered in {by}; on its way to the agent"),))
    elif entry.state == "undelivered":
        reason = inert_line(entry.reason or "it no longer waits")
        lines.append((("warning", f"answered in {by}, but the agent did not get it: {reason}"),))
    elif isinstance(outcome, Answered):
        lines.append((("dim", f"answered in {by}; the agent has it"),))
    elif entry.state == "orphaned":
        lines.append((("dim", inert_line(entry.reason or "its host is gone")),))
    elif outcome is not None and (why := ending(entry.ask, outcome, None)) is not None:
        lines.append((("dim", why),))
    return tuple(lines)
