"""How an ask looks on a terminal: a card of rows that never is wider or taller than what there is.

Pure: from a form and a size to lines of styled text. Agents' text in them is inert.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from attrs import define, field, frozen

from opask.inert import inert, inert_line
from opask.questions import Ask
from opask.surfaces.form import Form
from opask.surfaces.frame import Frame, Glyphs, Line
from opask.surfaces.options import option_rows
from opask.surfaces.wording import countdown

__all__ = ["Card", "Picture"]

_WIDE = 40  # cells from which on there is room to set keys apart


@frozen
class Picture:
    """A card as it looks now.

    Args:
        above: the rows up to where text is typed; all but the footer when none is.
        footer: the rows below.
        field: what stands before the first row of the typed text, and before its further rows.
    """

    above: tuple[Line, ...]
    footer: tuple[Line, ...]
    field: tuple[Line, Line]


@frozen
class _Body:
    """The rows between the rule and the footer: some always in view, the others scrolled under them."""

    pinned: tuple[Line, ...]
    rows: tuple[Line, ...]
    spans: tuple[tuple[int, int], ...]  # of each row of the form, in `rows`
    room: int
    spaced: bool


@define
class Card:
    """An ask on a terminal: its form, and which part of it is in view.

    Args:
        ask: what is asked.
        who: who asks.
        cancels: the key that cancels the ask, as it is to be shown; empty where none does.
    """

    ask: Ask
    who: str
    cancels: str = "Ctrl-C"
    form: Form = field(init=False)
    _top: int = field(default=0, init=False)
    _seen: tuple[int, int, str] = field(default=(0, 0, ""), init=False)

    def __attrs_post_init__(self) -> None:
        self.form = Form(self.ask.questions)

    # -- looking around ----------------------------------------------------------------------------------------

    def down(self, frame: Frame) -> None:
        """Move to the next option; while the rest of this one, or of the question, is below, show that first."""
        body = self._settle(frame)
        if body.spans[self.form.focus][1] > self._top + body.room:
            self._top += 1
        else:
            self.form.focus_on(self.form.focus + 1)

    def up(self, frame: Frame) -> None:
        """Move to the option before; while something of this one, or of the question, is above, show that first."""
        body = self._settle(frame)
        if body.spans[self.form.focus][0] < self._top or self.form.focus == 0:
            self._top = max(0, self._top - 1)
        else:
            self.form.focus_on(self.form.focus - 1)

    def page(self, frame: Frame, step: int) -> None:
        """Scroll by a view, down for 1 and up for -1; the focus goes along to an option in view."""
        body = self._settle(frame)
        self._top += step * max(1, body.room - 1)
        body = self._settle(frame)
        inside = [row for row in range(len(body.spans)) if self._in_view(body, row)]
        if inside and self.form.focus not in inside:
            self.form.focus_on(inside[0] if step > 0 else inside[-1])
            self._seen = self._now()

    def reveal(self, frame: Frame, row: int) -> bool:
        """Tell whether an option is in view; where it is not, move to it, so that nothing unseen is chosen."""
        body = self._settle(frame)
        if not 0 <= row < len(body.spans) or self._in_view(body, row):
            return True
        self.form.focus_on(row)
        self._show(body)
        self._seen = self._now()
        return False

    def _now(self) -> tuple[int, int, str]:
        return self.form.shown, self.form.focus, self.form.mode

    def _in_view(self, body: _Body, row: int) -> bool:
        start, end = body.spans[row]
        return start < self._top + body.room and end > self._top

    def _show(self, body: _Body) -> None:
        start, end = body.spans[self.form.focus]
        if end - start >= body.room:
            if not self._in_view(body, self.form.focus):
                self._top = start
        elif start < self._top:
            self._top = start
        elif end > self._top + body.room:
            self._top = end - body.room

    def _settle(self, frame: Frame, input_rows: int = 1) -> _Body:
        """Lay the body out and bring what the last action was about into view."""
        body = self._body(frame, input_rows)
        if self._seen[0] != self.form.shown:
            self._top = 0  # a new question is read from its start, wherever its options are
            if self.form.focus:
                self._show(body)
        elif self._seen != self._now():
            self._show(body)
        self._seen = self._now()
        self._top = min(max(self._top, 0), max(0, len(body.rows) - body.room))
        return body

    # -- drawing -----------------------------------------------------------------------------------------------

    def render(
        self,
        frame: Frame,
        *,
        left: timedelta | None,
        live: bool = True,
        waiting: int = 0,
        input_rows: int = 1,
    ) -> Picture:
        """Draw the card.

        Args:
            frame: what to draw it into.
            left: the time to the deadline; None where there is none.
            live: whether keys count yet; the footer names no key before.
            waiting: how many further asks wait.
            input_rows: rows that the typed text takes, while text is typed.
        """
        body = self._settle(frame, input_rows)
        shown = list(body.rows[self._top : self._top + body.room])
        above, below = self._top > 0, self._top + body.room < len(body.rows)
        if shown and above:
            shown[0] = _marked(shown[0], frame.glyphs.up)
        if shown and below:
            shown[-1] = _marked(shown[-1], frame.glyphs.down)
        lines = [*body.pinned, *shown]
        if body.spaced:
            lines.append(frame.edge)
        spare = frame.height - (input_rows if self.form.mode == "typing" else 0)
        if spare > 2:
            lines.insert(0, self._rule(frame, left, waiting))
        marker = f"{frame.glyphs.focus} " if frame.inner > 8 else ""
        before = ((*frame.edge, ("focus", marker)), (*frame.edge, ("", " " * len(marker))))
        footer = self._footer(frame, spare, live=live, scrolls=above or below) if spare > 1 else ()
        return Picture(tuple(map(frame.fit, lines)), tuple(map(frame.fit, footer)), before)

    def _body(self, frame: Frame, input_rows: int) -> _Body:
        typing = self.form.mode == "typing"
        question: list[Line] = [
            (*frame.edge, ("question", row))
            for row in frame.wrap(inert(self.form.question.text), frame.inner)
        ]
        rows: list[Line] = []
        spans: list[tuple[int, int]] = []
        for option in option_rows(self.form, frame):
            spans.append((len(rows), len(rows) + len(option)))
            rows += option
        if len(spans) <= self.form.other:
            spans.append((len(rows), len(rows)))  # the operator's own words stand below the body
        spare = frame.height - (input_rows if typing else 0)
        room = spare
        if spare > 1:
            room -= len(self._footer(frame, spare, live=True, scrolls=False)) + (1 if spare > 2 else 0)
            if len(question) + len(rows) > room:
                room = (
                    spare - len(self._footer(frame, spare, live=True, scrolls=True)) - (1 if spare > 2 else 0)
                )
        blanks = 2 if rows else 1
        spaced = len(question) + len(rows) + blanks <= room
        if spaced:
            room -= 1
            if rows:
                question.append(frame.edge)
        room = max(1 if spare > 0 else 0, room)
        if len(question) <= room // 2 and room - len(question) >= 3:
            return _Body(tuple(question), tuple(rows), tuple(spans), room - len(question), spaced)
        shift = len(question)
        moved = tuple((start + shift, end + shift) for start, end in spans)
        return _Body((), (*question, *rows), moved, room, spaced)

    def _rule(self, frame: Frame, left: timedelta | None, waiting: int) -> Line:
        glyphs, form = frame.glyphs, self.form
        header = inert_line(form.question.header) or "Question"
        right = self._status(frame, left, waiting, frame.width - 6 - min(frame.measure(header), 12))
        taken = 3 + (frame.measure(right) + 1 if right else 0)
        header = frame.clip(header, frame.width - taken)
        fill = frame.width - taken - frame.measure(header)
        return (
            ("edge", f"{glyphs.top} "),
            ("tag", header),
            ("edge", f" {glyphs.rule * max(fill, 0)}"),
            ("who", f" {right}" if right else ""),
        )

    def _status(self, frame: Frame, left: timedelta | None, waiting: int, room: int) -> str:
        """Say who asks, how far the ask is and how much time is left: as much of it as there is room for."""
        count = len(self.form.questions)
        time = countdown(left) if left is not None else ""
        place = f"{self.form.index + 1}/{count}" if count > 1 else ""
        choices = (
            (
                self.who,
                place.replace("/", " of "),
                f"{waiting} more waiting" if waiting else "",
                f"{time} left" if time else "",
            ),
            (self.who, place, time),
            (place, time),
        )
        for parts in choices:
            text = f" {frame.glyphs.dot} ".join(filter(None, parts))
            if frame.measure(text) <= room:
                return text
        return time

    def _footer(self, frame: Frame, spare: int, *, live: bool, scrolls: bool) -> tuple[Line, ...]:
        form = self.form
        most = max(1, spare // 3)
        if form.note:
            rows = _noted(form.note, frame)[:most]
        elif not live:
            rows = [()]
        else:
            rows = _packed(_keys(form, frame.glyphs, scrolls=scrolls, cancels=self.cancels), frame)[:most]
            if form.mode == "confirming":
                rows = (_noted("Skip this question?", frame) + rows)[-most:]
        edges = [frame.glyphs.side] * (len(rows) - 1) + [frame.glyphs.bottom]
        return tuple((("edge", f"{edge} "), *row) for edge, row in zip(edges, rows, strict=True))


def _noted(text: str, frame: Frame) -> list[Line]:
    return [(("note", row),) for row in frame.wrap(text, frame.inner)]


def _marked(row: Line, glyph: str) -> Line:
    """Put a mark in the edge of a row, for what lies beyond it."""
    (_, edge), *others = row
    return (("more", glyph), ("edge", edge[1:]), *others)


def _keys(form: Form, glyphs: Glyphs, *, scrolls: bool, cancels: str) -> list[tuple[str, str]]:
    """Give the keys that do something now, with what they do; the most needed first."""
    several = form.question.multi_select
    if form.mode == "confirming":
        return [("y", "skip"), ("n", "go back")]
    if form.mode == "typing":
        aside = bool(form.question.options)
        sends = "keep" if aside and several else "send"
        return [("Enter", sends), ("Esc", "back" if aside else "skip"), ("Alt-Enter", "new line")]
    numbers = "1" if form.other == 1 else f"1-{form.other}"
    arrows = f"{glyphs.up}{glyphs.down}"
    if not form.digit_chooses:
        keys = [
            (numbers, "go to"),
            *([("Space", "mark"), ("Enter", "done")] if several else [("Enter", "choose")]),
        ]
    else:
        keys = [(numbers, "mark"), ("Enter", "done")] if several else [(numbers, "choose")]
    keys += [("t", "type"), ("s", "skip")]
    if form.digit_chooses:
        keys.append((arrows, "Space") if several else (arrows, "Enter"))
    keys += [("PgUp PgDn", "scroll")] if scrolls else []
    keys += [(glyphs.left, "back")] if form.index else []
    return [*keys, (cancels, "cancel")] if cancels else keys


def _packed(pairs: Sequence[tuple[str, str]], frame: Frame) -> list[Line]:
    """Put keys beside each other, on as many rows as they need."""
    lines: list[Line] = []
    taken = 0
    dot = f" {frame.glyphs.dot} " if frame.width >= _WIDE else "  "
    for key, action in pairs:
        said = f" {action}" if action else ""
        size = frame.measure(key + said)
        item: Line = (("key", key), ("keys", said))
        if lines and taken + len(dot) + size <= frame.inner:
            lines[-1] = (*lines[-1], ("keys", dot), *item)
            taken += len(dot) + size
        else:
            lines.append(item)
            taken = size
    return lines
