"""Questions, and the answers that are given to them.

Plain values: no I/O, no checks of an agent's input (`opask.intake` does those), no presentation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias

from attrs import Factory, field, frozen

from opask.errors import AnswerError
from opask.inert import encodable

__all__ = ["Answer", "Ask", "AskKind", "Option", "Question", "check_answers", "question_keys"]

AskKind: TypeAlias = Literal["question", "permission", "write"]
"""What an ask is about; see `Ask`."""


@frozen
class Option:
    """One choice of a question; known by its position, so that equal labels stay apart."""

    label: str
    description: str = ""


@frozen
class Question:
    """One question to the operator; free text is always possible beside its options.

    Args:
        text: the question itself.
        header: a short tag for it, may be empty.
        options: the choices, in the agent's order; none for a free-text question.
        multi_select: whether several options may be chosen.
    """

    text: str
    header: str = ""
    options: tuple[Option, ...] = field(default=(), converter=tuple[Option, ...])
    multi_select: bool = False


@frozen
class Ask:
    """One call of the ask tool: 1 to 4 questions that are answered together.

    Args:
        id: opask's own id of this ask, unguessable; an answer is bound to it.
        session_id: the session that asks.
        questions: what is asked, in order.
        asked_at: when it reached the bridge (aware, UTC).
        deadline: when the wait runs out (aware, UTC); None for an unbounded wait.
        tool_call_id: the runtime's own id of the call, where it is known.
        agent_id: the sub-agent that asks, where the runtime tells; None for the main agent.
        meta: what the call carried in MCP ``_meta``, for adapters to correlate by.
        kind: what it is about: ``question``, a question of the agent's or of the host's workflow; ``permission``, whether
            a tool may run; ``write``, whether an agent that only reads may change something. The options of the last two
            are opask's own, and one of them is always to deny.
    """

    id: str
    session_id: str
    questions: tuple[Question, ...] = field(converter=tuple[Question, ...])
    asked_at: datetime
    deadline: datetime | None = None
    tool_call_id: str | None = None
    agent_id: str | None = None
    meta: Mapping[str, Any] = field(default=Factory(dict), repr=False, eq=False)
    kind: AskKind = "question"


def _text(value: str | None) -> str | None:
    return encodable(value) if value and value.strip() else None


@frozen
class Answer:
    """The operator's answer to one question.

    Args:
        selected: positions of the chosen options, from 0, in the order they were chosen.
        text: free text, alone or beside the chosen options, kept as it is but for lone surrogates, which could
            not be sent; blank counts as none.

    Raises:
        AnswerError: neither an option nor text (empty is never an answer), a position that is no integer,
            below 0, or there twice.
    """

    selected: tuple[int, ...] = field(default=(), converter=tuple[int, ...])
    text: str | None = field(default=None, converter=_text)

    def __attrs_post_init__(self) -> None:
        if not self.selected and self.text is None:
            raise AnswerError(
                "an answer needs a chosen option or some text; leave the question out to skip it"
            )
        valid = all(type(position) is int and position >= 0 for position in self.selected)
        if not valid or len(set(self.selected)) != len(self.selected):
            raise AnswerError(f"option positions have to be distinct integers from 0, not {self.selected!r}")


def check_answers(questions: Sequence[Question], answers: Sequence[Answer | None]) -> None:
    """Check that answers fit their questions, one for each by position.

    Args:
        questions: the questions of one ask.
        answers: an answer for each, None where the operator skipped that question.

    Raises:
        AnswerError: a wrong number of answers, an option that does not exist, several options where one
            was asked for, or no answer at all.
    """
    if len(answers) != len(questions):
        raise AnswerError(f"{len(questions)} questions need {len(questions)} answers, got {len(answers)}")
    if all(answer is None for answer in answers):
        raise AnswerError("no question was answered; skip the ask instead")
    for index, (question, answer) in enumerate(zip(questions, answers, strict=True)):
        if answer is None:
            continue
        outside = [position for position in answer.selected if position >= len(question.options)]
        if outside:
            raise AnswerError(
                f"question {index + 1} has {len(question.options)} options, there is none at position {outside[0]}",
                question=index,
            )
        if len(answer.selected) > 1 and not question.multi_select:
            raise AnswerError(
                f"question {index + 1} takes one option, got {len(answer.selected)}", question=index
            )


def question_keys(questions: Sequence[Question]) -> tuple[str, ...]:
    """Give each question of an ask the key it has on the wire.

    Returns:
        The question's text; for a later question of the same text ``text (2)``, ``text (3)``…, leaving out what
        is itself the text of a question. So a key that is a question's text is the first such question's.
    """
    texts = {question.text for question in questions}
    keys: dict[str, None] = {}
    for question in questions:
        key, count = question.text, 1
        while key in keys or (count > 1 and key in texts):
            count += 1
            key = f"{question.text} ({count})"
        keys[key] = None
    return tuple(keys)
