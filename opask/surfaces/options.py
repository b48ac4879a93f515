"""The rows of a question's options on a card, aligned, each with its description beside it or below."""

from __future__ import annotations

from attrs import frozen

from opask.inert import inert_line
from opask.surfaces.cells import pad
from opask.surfaces.form import Form
from opask.surfaces.frame import Frame, Line

__all__ = ["option_rows"]

_OTHER = "Other: type your own answer"
_NARROWEST = 24  # cells of a description beside its label; narrower ones stand below


def option_rows(form: Form, frame: Frame) -> tuple[tuple[Line, ...], ...]:
    """Return the rows of each option, then those of the operator's own words unless they are being typed."""
    question = form.question
    if not question.options:
        return ()
    digits = len(str(form.other))
    lead = 2 + digits + 1 + (4 if question.multi_select else 0)
    texts = [(inert_line(option.label), inert_line(option.description)) for option in question.options]
    layout = _Layout(form, frame, lead, _column(texts, frame, lead))
    options = [
        layout.rows(row, f"{row + 1:>{digits}}", label, description, chosen=row in form.draft.chosen)
        for row, (label, description) in enumerate(texts)
    ]
    if form.mode != "typing":
        words = inert_line(form.draft.text if question.multi_select else form.draft.typed)
        shown = frame.clip(f"Other: {words}", frame.inner - lead) if words else _OTHER
        options.append(layout.rows(form.other, f"{'t':>{digits}}", shown, "", chosen=bool(form.draft.text)))
    return tuple(options)


def _column(texts: list[tuple[str, str]], frame: Frame, lead: int) -> int:
    """Return how wide the labels' column is where descriptions fit beside it; 0 where they stand below."""
    if not any(description for _, description in texts):
        return 0
    widest = max(frame.measure(label) for label, _ in texts)
    room = frame.inner - lead
    return widest if widest <= room * 2 // 5 and room - widest - 2 >= _NARROWEST else 0


@frozen
class _Layout:
    form: Form
    frame: Frame
    lead: int
    column: int

    def rows(self, row: int, key: str, label: str, description: str, *, chosen: bool) -> tuple[Line, ...]:
        """Return the rows of one option."""
        form, frame = self.form, self.frame
        focused = row == form.focus and form.mode == "choosing"
        style = "focus" if focused else "other" if row == form.other else "label"
        box = ("[x] " if chosen else "[ ] ") if form.question.multi_select else ""
        first: Line = (
            *frame.edge,
            ("focus", f"{frame.glyphs.focus if focused else ' '} "),
            ("focus" if focused else "number", f"{key} "),
            ("chosen" if chosen else style, box),
        )
        rest: Line = (*frame.edge, ("", " " * self.lead))
        room = max(1, frame.inner - self.lead)
        names = frame.wrap(label, self.column or room)
        told = frame.wrap(description, room - self.column - 2 if self.column else room) if description else ()
        if not self.column or row == form.other:
            lines = [
                (*(rest if at else first), (style, name)) for at, name in enumerate(frame.wrap(label, room))
            ]
            return (*lines, *((*rest, ("description", text)) for text in told))
        beside = []
        for at in range(max(len(names), len(told))):
            name = names[at] if at < len(names) else ""
            text = told[at] if at < len(told) else ""
            name = pad(name, self.column + 2, frame.measure) if text else name
            beside.append((*(rest if at else first), (style, name), ("description", text)))
        return tuple(beside)
