"""What stays of a card in the scroll-back: each question with what the operator answered."""

from __future__ import annotations

from collections.abc import Sequence

from opask.inert import inert, inert_line
from opask.questions import Answer, Question
from opask.surfaces.frame import Frame, Line
from opask.surfaces.wording import answer_parts

__all__ = ["answered_block", "asked_block", "cancelled_block"]

_QUESTION_ROWS = 4  # a longer question is cut


def answered_block(
    questions: Sequence[Question], answers: Sequence[Answer | None], frame: Frame
) -> tuple[Line, ...]:
    """Return questions with an answer for each, None for a skipped one; the frame's height does not count."""
    lines: list[Line] = []
    for question, answer in zip(questions, answers, strict=True):
        lines += _asked(question, frame)
        if answer is None:
            lines.append((*frame.edge, ("skipped", f"{frame.glyphs.dash} skipped")))
        else:
            lines += _answered(question, answer, frame)
    return tuple(lines)


def asked_block(questions: Sequence[Question], frame: Frame) -> tuple[Line, ...]:
    """Return questions alone, of an ask that nobody decided."""
    return tuple(line for question in questions for line in _asked(question, frame))


def cancelled_block(questions: Sequence[Question], frame: Frame) -> tuple[Line, ...]:
    """Return questions that the operator cancelled."""
    return (*asked_block(questions, frame), (*frame.edge, ("skipped", f"{frame.glyphs.cross} cancelled")))


def _asked(question: Question, frame: Frame) -> list[Line]:
    header = frame.clip(inert_line(question.header), frame.inner // 2)
    rows = frame.wrap(f"{header}  {inert(question.text)}" if header else inert(question.text), frame.inner)
    if len(rows) > _QUESTION_ROWS:
        cut = frame.clip(rows[_QUESTION_ROWS - 1], frame.inner - 1).removesuffix(frame.glyphs.ellipsis)
        rows = (*rows[: _QUESTION_ROWS - 1], cut + frame.glyphs.ellipsis)
    lines: list[Line] = []
    for at, row in enumerate(rows):
        tag = header if at == 0 and row.startswith(header) else ""
        lines.append((*frame.edge, ("tag", tag), ("asked", row.removeprefix(tag))))
    return lines


def _answered(question: Question, answer: Answer, frame: Frame) -> list[Line]:
    """Put short answers beside each other, each with a mark of its own, so that no comma is taken for a border."""
    lines: list[Line] = []
    taken = 0
    for part in answer_parts(question, answer):
        first, *others = frame.wrap(part, frame.inner - 2)
        size = 2 + frame.measure(first)
        item: Line = (("check", f"{frame.glyphs.check} "), ("answer", first))
        if lines and not others and taken + 2 + size <= frame.inner:
            lines[-1] = (*lines[-1], ("", "  "), *item)
            taken += 2 + size
            continue
        lines.append((*frame.edge, *item))
        lines += [(*frame.edge, ("", "  "), ("answer", other)) for other in others]
        taken = frame.inner if others else size
    return lines
