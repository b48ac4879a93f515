"""The clarification gate: a host's own workflow asks what it already knows that it has to ask.

With an operator the questions go to the attached surface; without one the result is ``not_answered``, at once, and
carries the questions, so that the workflow can show them itself; and a recorded result can be given back instead. The
workflow's code is the same in all three, and so is the shape of what it gets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Literal, Self, get_args

from attrs import field, frozen

from opask.asking import DEFAULT_WAIT, put
from opask.errors import AnswerError, GateError
from opask.events import Event, HostCalled, HostReturned
from opask.outcomes import Answered, Outcome, OutcomeKind, Unavailable
from opask.prompter import Prompter, current_prompter
from opask.questions import Answer, Option, Question, check_answers
from opask.wire import answers_to_wire, questions_to_wire

__all__ = ["Clarification", "clarify"]

_CALL: Final = "clarify"


@frozen
class Clarification:
    """What came of a clarification; plain data.

    Args:
        questions: what was asked.
        status: ``answered``, or ``not_answered``, whatever the reason.
        answers: one a question, by position; None where there is none.
        outcome: why, in the words of outcomes: ``skipped``, ``timed_out``, ``unavailable``…
        by: who answered, or skipped.
    """

    questions: tuple[Question, ...] = field(converter=tuple[Question, ...])
    status: Literal["answered", "not_answered"]
    answers: tuple[Answer | None, ...] = field(converter=tuple[Answer | None, ...])
    outcome: OutcomeKind
    by: str | None = None

    @property
    def is_answered(self) -> bool:
        """Whether at least one question was answered."""
        return self.status == "answered"

    def answer_texts(self) -> Mapping[str, Any]:
        """Return the answers by question text, as an agent would get them; empty where there are none."""
        return answers_to_wire(self.questions, self.answers) if self.is_answered else {}

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data, from which `from_json` makes it again."""
        return {
            "questions": questions_to_wire(self.questions),
            "status": self.status,
            "answers": [
                None if answer is None else {"selected": list(answer.selected), "text": answer.text}
                for answer in self.answers
            ],
            "outcome": self.outcome,
            "by": self.by,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_json` gave.

        Raises:
            GateError: it is not that.
        """
        try:
            questions = tuple(
                Question(
                    question["question"],
                    question["header"],
                    tuple(Option(option["label"], option["description"]) for option in question["options"]),
                    question["multiSelect"],
                )
                for question in data["questions"]
            )
            answers = tuple(
                None if answer is None else Answer(tuple(answer["selected"]), answer["text"])
                for answer in data["answers"]
            )
            read = cls(questions, data["status"], answers, data["outcome"], data["by"])
            if not all(map(_is_plain, questions)):
                raise TypeError("a question's texts have to be text")
            if read.outcome not in get_args(OutcomeKind) or not isinstance(read.by, str | None):
                raise ValueError("there is no such outcome")
            if (read.status == "answered") != (read.outcome == "answered"):
                raise ValueError("the status and the outcome do not fit")
            if read.status == "answered":
                check_answers(questions, answers)
            elif read.status != "not_answered" or any(answers) or len(answers) != len(questions):
                raise ValueError("the status and the answers do not fit")
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, AnswerError) as error:
            raise GateError(
                f"this is no recorded clarification ({error}); give back what to_json gave"
            ) from error
        return read


def _is_plain(question: Question) -> bool:
    texts = (
        question.text,
        question.header,
        *(each for option in question.options for each in _texts(option)),
    )
    return all(isinstance(text, str) for text in texts) and isinstance(question.multi_select, bool)


def _texts(option: Option) -> tuple[str, str]:
    return option.label, option.description


async def clarify(
    questions: Sequence[Question],
    *,
    prompter: Prompter | None = None,
    session_id: str = "",
    call_id: str = _CALL,
    wait: timedelta | None = DEFAULT_WAIT,
    recorded: Clarification | Mapping[str, Any] | None = None,
    tell: Callable[[Event], object] | None = None,
) -> Clarification:
    """Ask the operator what a workflow has to know; never raises for an operator who does not answer.

    Args:
        questions: what is asked, one to four.
        prompter: who asks; by default the one that is carried in the context. None there too: nobody, and the result is
            ``not_answered`` at once.
        session_id: the session that it is about, for surfaces that show several.
        call_id: names this call in events; one name a call, where a workflow makes several.
        wait: how long the operator may take; None for as long as it takes.
        recorded: an earlier result, to be given back instead of asking.
        tell: hears of the call and of its result, as `HostCalled` and `HostReturned`: ``session.tell``, to have it in a
            session's conversation.

    Returns:
        The result, of the same shape in every case.

    Raises:
        GateError: no questions, more than four, or a record of other questions.
    """
    asked = tuple(questions)
    if not 1 <= len(asked) <= 4:
        raise GateError(
            f"a clarification has one to four questions, not {len(asked)}; ask the others in another"
        )
    replayed: Clarification | None = None
    if recorded is not None:
        replayed = recorded if isinstance(recorded, Clarification) else Clarification.from_json(recorded)
        if replayed.questions != asked:
            raise GateError(
                f"the record of the clarification {call_id!r} has other questions than are asked now; record it anew"
            )
    if tell is not None:
        tell(HostCalled(call_id=call_id, call=_CALL, input={"questions": questions_to_wire(asked)}))
    result = replayed or await _ask(
        asked, prompter if prompter is not None else current_prompter(), session_id, wait
    )
    if tell is not None:
        returned = HostReturned(
            call_id=call_id, call=_CALL, output=result.to_json(), replayed=recorded is not None
        )
        tell(returned)
    return result


async def _ask(
    questions: tuple[Question, ...],
    prompter: Prompter | None,
    session_id: str,
    wait: timedelta | None,
) -> Clarification:
    outcome: Outcome = Unavailable("nobody is there")
    if prompter is not None:
        asked = await put(prompter, questions, session_id=session_id, wait=wait)
        outcome = asked.outcome
    if isinstance(outcome, Answered):
        return Clarification(questions, "answered", outcome.answers, outcome.kind, outcome.by)
    by = getattr(outcome, "by", None)
    return Clarification(questions, "not_answered", (None,) * len(questions), outcome.kind, by)
