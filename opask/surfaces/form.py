"""The state of answering one ask: what is chosen, typed and skipped so far, and what each action makes of it.

No keys, no screen: a surface maps its keys to these actions and draws what it finds here.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import Factory, define, field

from opask.outcomes import Answered, Skipped
from opask.questions import Answer, Question

__all__ = ["Draft", "Form", "KeyGuard", "Mode"]

Mode: TypeAlias = Literal["choosing", "typing", "confirming"]
"""What keys do now: move among the options, write text, or answer "Skip this question?"."""

_DIRECT = 9  # up to so many options, one digit names an option


@define
class Draft:
    """What there is so far for one question.

    Args:
        chosen: positions of the marked options, in the order they were marked.
        text: free text that goes into the answer.
        typed: what stands in the text field, also while it is left unsent.
        answer: what was decided; None for a skipped question and for one that was not reached yet.
    """

    chosen: list[int] = Factory(list)
    text: str = ""
    typed: str = ""
    answer: Answer | None = None


@define
class Form:
    """The questions of one ask, one after the other.

    A row is an option's position; the row after the last option is the operator's own words.

    Args:
        questions: the questions, at least one.

    Attributes:
        index: the question that is up.
        shown: how many times a question was put up; it changes when another one is up.
        focus: the row that the keys act on.
        mode: what keys do now.
        note: what to tell the operator of the last action; empty for nothing.
        done: whether every question is answered or skipped.
    """

    questions: tuple[Question, ...]
    drafts: list[Draft] = field(init=False)
    index: int = field(default=0, init=False)
    shown: int = field(default=0, init=False)
    focus: int = field(default=0, init=False)
    mode: Mode = field(default="choosing", init=False)
    note: str = field(default="", init=False)
    done: bool = field(default=False, init=False)
    _digits: str = field(default="", init=False)

    def __attrs_post_init__(self) -> None:
        self.drafts = [Draft() for _ in self.questions]
        self._put_up(0)

    @property
    def question(self) -> Question:
        """The question that is up."""
        return self.questions[self.index]

    @property
    def draft(self) -> Draft:
        """What there is so far for the question that is up."""
        return self.drafts[self.index]

    @property
    def other(self) -> int:
        """The row of the operator's own words."""
        return len(self.question.options)

    @property
    def digit_chooses(self) -> bool:
        """Whether a digit names an option; with more options, digits move the focus instead."""
        return self.other <= _DIRECT

    def focus_on(self, row: int) -> None:
        """Move the focus to a row, or to the nearest there is."""
        self._calm()
        self.focus = min(max(row, 0), self.other)

    def press_digit(self, digit: int) -> None:
        """Choose or mark the option of this number; with many options, move to it, one digit after the other."""
        if self.digit_chooses:
            self._calm()
            if 1 <= digit <= self.other:
                self.focus = digit - 1
                self.choose()
            else:
                self.note = f"There is no option {digit}."
            return
        for digits in (self._digits + str(digit), str(digit)):
            if 1 <= int(digits) <= self.other:
                self.focus_on(int(digits) - 1)
                self._digits = digits
                return
        self._calm()
        self.note = f"There is no option {digit}."

    def choose(self) -> None:
        """Choose the option in focus; where several may be chosen, mark it or take the mark away."""
        self._calm()
        if self.focus == self.other:
            self.begin_text()
        elif not self.question.multi_select:
            self._decide(Answer((self.focus,)))
        elif self.focus in self.draft.chosen:
            self.draft.chosen.remove(self.focus)
        else:
            self.draft.chosen.append(self.focus)

    def submit(self) -> None:
        """Answer with what is chosen; on a question for one option, with the one in focus.

        Where nothing is marked a note says so: nothing is never an answer, and the focus is no choice.
        """
        draft = self.draft
        if not self.question.multi_select or (self.focus == self.other and not draft.text):
            self.choose()
        elif draft.chosen or draft.text:
            self._decide(Answer(tuple(draft.chosen), draft.text))
        else:
            self._calm()
            self.note = "Nothing is marked: mark with Space, or skip with s."

    def begin_text(self) -> None:
        """Start writing an answer in the operator's own words."""
        self._calm()
        self.focus, self.mode = self.other, "typing"

    def submit_text(self, text: str) -> None:
        """Take free text: as the answer, or beside the marked options where several may be chosen."""
        self._calm()
        draft = self.draft
        draft.typed = text
        if self.question.multi_select and self.question.options:
            draft.text = text if text.strip() else ""
            self.mode = "choosing"
        elif text.strip():
            draft.text = text
            self._decide(Answer((), text))
        else:
            self.note = "Nothing is typed yet."

    def leave_text(self, text: str) -> None:
        """Go from the text back to the options, keeping it unsent; without options, ask whether to skip."""
        self.draft.typed = text
        if self.question.options:
            self._calm()
            self.mode = "choosing"
        else:
            self.ask_to_skip()

    def skip(self) -> None:
        """Leave the question without an answer."""
        self._decide(None)

    def ask_to_skip(self) -> None:
        """Ask whether to skip the question."""
        self._calm()
        self.mode = "confirming"

    def confirm(self, yes: bool) -> None:
        """Answer whether to skip the question."""
        self._calm()
        if yes:
            self.skip()
        else:
            self.mode = "choosing" if self.question.options else "typing"

    def back(self) -> None:
        """Go back to the question before, if there is one."""
        self._calm()
        if self.index > 0:
            self._put_up(self.index - 1)

    def reply(self, by: str) -> Answered | Skipped:
        """Return what the operator decided, once the form is done."""
        answers = tuple(draft.answer for draft in self.drafts)
        return Answered(answers, by) if any(answers) else Skipped(by)

    def _calm(self) -> None:
        self.note = self._digits = ""

    def _decide(self, answer: Answer | None) -> None:
        self._calm()
        self.draft.answer = answer
        if answer is not None:
            self.draft.chosen = list(answer.selected)
        if self.index + 1 < len(self.questions):
            self._put_up(self.index + 1)
        else:
            self.done = True

    def _put_up(self, index: int) -> None:
        self.index = index
        self.shown += 1
        self.mode = "choosing" if self.question.options else "typing"
        self.focus = self.draft.chosen[0] if self.draft.chosen and not self.question.multi_select else 0


@define
class KeyGuard:
    """Tell keys that answer what is on the screen from keys that were pressed before it was.

    Nobody reads a question in a quarter of a second: a key that comes so soon was meant for something else,
    and so were those that follow it without a pause. Times are in seconds, on any one clock.

    Args:
        quiet: how long no key must have come before one counts.
    """

    quiet: float = 0.25
    _since: float | None = field(default=None, init=False)

    @property
    def is_shown(self) -> bool:
        """Whether it is on the screen."""
        return self._since is not None

    def hide(self) -> None:
        """Hear that something else is about to be shown."""
        self._since = None

    def show(self, now: float) -> None:
        """Hear that it is on the screen; only the first time counts."""
        if self._since is None:
            self._since = now

    def counts(self, now: float) -> bool:
        """Tell whether a key that is pressed now counts."""
        return self._since is not None and now >= self._since + self.quiet

    def remaining(self, now: float) -> float:
        """Return how long keys still do not count if none comes; all of ``quiet`` before anything is shown."""
        return self.quiet if self._since is None else max(0.0, self._since + self.quiet - now)

    def refuse(self, now: float) -> None:
        """Hear of a key that did not count: the pause starts again."""
        if self._since is not None:
            self._since = now
