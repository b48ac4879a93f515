"""An operator whose answers are known beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opask.errors import AnswerError
from opask.outcomes import Answered, Outcome, Reply, Skipped, Unavailable
from opask.questions import Ask, question_keys
from opask.wire import answers_from_wire

__all__ = ["Scripted"]


class Scripted:
    """A prompter that answers by question text.

    Args:
        answers: from question text to an option's label, a list of labels, or free text; None skips that question. A
            permission or a write action may also be named by the first line of its question, without the arguments.
            A question that is not named, or an answer that does not fit, makes the ask unavailable.
        by: what the answers say they came from.

    Attributes:
        asked: the asks it was given, in order.
        outcomes: how asks settled, in order.
        misses: why it could not answer, for each ask that it could not.
    """

    def __init__(self, answers: Mapping[str, Any], *, by: str = "scripted") -> None:
        self._answers = dict(answers)
        self._by = by
        self.asked: list[Ask] = []
        self.outcomes: list[tuple[Ask, Outcome]] = []
        self.misses: list[str] = []

    async def ask(self, ask: Ask, /) -> Reply:
        """Answer from the script."""
        self.asked.append(ask)
        wanted: dict[str, Any] = {}
        for key, question in zip(question_keys(ask.questions), ask.questions, strict=True):
            name = key if key in self._answers else question.text
            if ask.kind != "question" and name not in self._answers:  # below the first line are the arguments
                name = question.text.partition("\n")[0]
            if name not in self._answers:
                return self._missed(
                    f"the scripted answers name no {question.text!r}; add it, or null to skip it"
                )
            wanted[key] = self._answers[name]
        if all(value is None for value in wanted.values()):
            return Skipped(self._by)
        try:
            return Answered(answers_from_wire(ask.questions, wanted), self._by)
        except AnswerError as error:
            return self._missed(f"a scripted answer does not fit: {error}")

    def settled(self, ask: Ask, outcome: Outcome, /) -> None:
        """Remember the outcome."""
        self.outcomes.append((ask, outcome))

    def available(self, session_id: str, /) -> bool:
        """Say yes: a script is always there."""
        return True

    def _missed(self, why: str) -> Unavailable:
        self.misses.append(why)
        return Unavailable(why)
