"""An ask as an elicitation form, and the form's content as an answer. Pure.

What a form's schema may hold: specification 2025-11-25, client/elicitation; revision 2025-06-18 knows no arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from opask.errors import AnswerError
from opask.inert import inert, inert_line, shorten
from opask.outcomes import Answered, Cancelled, Skipped
from opask.questions import Answer, Option, Question, check_answers

__all__ = ["Form", "FormError", "shown"]

_TITLE_LENGTH = 60


class FormError(AnswerError):
    """What a form came back with is not a person's answer; the question stays open."""


def shown(questions: Sequence[Question]) -> tuple[Question, ...]:
    """Return questions with every text made inert, position by position."""
    return tuple(
        evolve(
            question,
            text=inert(question.text),
            header=inert_line(question.header),
            options=tuple(
                Option(inert_line(option.label), inert(option.description)) for option in question.options
            ),
        )
        for question in questions
    )


@frozen
class Form:
    """The form of one ask.

    Args:
        message: what a client shows above it.
        schema: the fields: ``q1`` the choice (or the text, where there are no options), ``q1_text`` the operator's
            own words, ``q1_skip`` where there are several questions; without arrays ``q1_o1``… for a multiple choice.
        questions: the questions, inert.
        arrays: whether the client's revision knows fields of several values.
    """

    message: str
    schema: Mapping[str, Any]
    questions: tuple[Question, ...]
    arrays: bool = True

    @classmethod
    def of(cls, questions: Sequence[Question], who: str, *, arrays: bool = True) -> Form:
        """Make the form of an ask's questions.

        Args:
            questions: the questions, as the agent wrote them.
            who: who asks, for the message.
            arrays: whether fields may have several values.
        """
        asked = shown(questions)
        fields: dict[str, Any] = {}
        required: list[str] = []
        for number, question in enumerate(asked, 1):
            fields |= _fields(f"q{number}", question, number, arrays=arrays)
            if len(asked) > 1:
                fields[f"q{number}_skip"] = {
                    "type": "boolean",
                    "title": f"Skip {_title(question, number)}",
                    "default": False,
                }
            elif not question.options:
                required.append(f"q{number}")
        schema: dict[str, Any] = {"type": "object", "properties": fields}
        if required:
            schema["required"] = required
        return cls(_message(asked, who), schema, asked, arrays)

    def reply(
        self, action: str, content: Mapping[str, Any] | None, by: str
    ) -> Answered | Skipped | Cancelled:
        """Return the operator's decision that a form came back with.

        Args:
            action: ``accept``, ``decline`` or ``cancel``.
            content: the fields, of an accept.
            by: who filled it in.

        Raises:
            FormError: an accept that lacks an answer, or has one that is no option.
        """
        if action == "decline":
            return Skipped(by)
        if action == "cancel":
            return Cancelled("operator")
        values = content or {}
        answers = tuple(self._answer(number, values) for number in range(1, len(self.questions) + 1))
        if all(answer is None for answer in answers):
            return Skipped(by)  # question by question, and by a field that says so
        try:
            check_answers(self.questions, answers)
        except AnswerError as error:
            raise FormError(str(error), question=error.question) from None
        return Answered(answers, by)

    def _answer(self, number: int, values: Mapping[str, Any]) -> Answer | None:
        question, name = self.questions[number - 1], f"q{number}"
        text = _text(values, name if not question.options else f"{name}_text", number)
        selected = self._selected(number, values) if question.options else ()
        if len(self.questions) > 1 and values.get(f"{name}_skip") is True:
            if selected or text:
                raise FormError(f"question {number} is both answered and skipped", question=number - 1)
            return None
        if not selected and text is None:
            raise FormError(f"it has no answer to question {number}", question=number - 1)
        return Answer(selected, text)

    def _selected(self, number: int, values: Mapping[str, Any]) -> tuple[int, ...]:
        question, name = self.questions[number - 1], f"q{number}"
        labels = _labels(question)
        if question.multi_select and not self.arrays:
            return tuple(at for at in range(len(labels)) if _flag(values, f"{name}_o{at + 1}", number))
        value = values.get(name)
        if value is None or value in ("", []):
            return ()
        chosen = value if isinstance(value, list) and question.multi_select else [value]
        unknown = next((one for one in chosen if one not in labels), None)
        if unknown is not None:
            said = shorten(unknown, _TITLE_LENGTH) if isinstance(unknown, str) else type(unknown).__name__
            raise FormError(f"question {number} has no option {said!r}", question=number - 1)
        if len(set(chosen)) < len(chosen):
            raise FormError(f"question {number} has an option chosen twice", question=number - 1)
        return tuple(labels.index(one) for one in chosen)


def _flag(values: Mapping[str, Any], name: str, number: int) -> bool:
    value = values.get(name, False)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise FormError(f"question {number}: {name} has to be true or false", question=number - 1)


def _text(values: Mapping[str, Any], name: str, number: int) -> str | None:
    value = values.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise FormError(f"question {number}: {name} has to be text", question=number - 1)
    return value if value.strip() else None


def _labels(question: Question) -> list[str]:
    """Return the labels as the form has them: equal ones are numbered, since its values have to differ."""
    labels: list[str] = []
    taken = {option.label for option in question.options}
    for option in question.options:
        label, count = option.label, 1
        while label in labels or (count > 1 and label in taken):
            count += 1
            label = f"{option.label} ({count})"
        labels.append(label)
    return labels


def _title(question: Question, number: int) -> str:
    return question.header or f"Question {number}"


def _fields(name: str, question: Question, number: int, *, arrays: bool) -> dict[str, Any]:
    title, labels = _title(question, number), _labels(question)
    if not labels:
        return {name: {"type": "string", "title": title, "description": question.text}}
    described = [
        f"{label}: {option.description}"
        for label, option in zip(labels, question.options, strict=True)
        if option.description
    ]
    about: dict[str, Any] = {"title": title, "description": "\n".join([question.text, *described])}
    fields: dict[str, Any]
    if not question.multi_select:
        fields = {name: {"type": "string", **about, "enum": labels}}
    elif arrays:
        fields = {name: {"type": "array", **about, "items": {"type": "string", "enum": labels}}}
    else:
        fields = {
            f"{name}_o{at}": {
                "type": "boolean",
                "title": f"{title}: {label}",
                "description": option.description or question.text,
                "default": False,
            }
            for at, (label, option) in enumerate(zip(labels, question.options, strict=True), 1)
        }
    fields[f"{name}_text"] = {
        "type": "string",
        "title": f"{title}, in your own words",
        "description": "In place of the options, or beside them.",
    }
    return fields


def _message(questions: Sequence[Question], who: str) -> str:
    if len(questions) == 1:
        return f"{who} asks: {questions[0].text}"
    lines = [f"{number}. {question.text}" for number, question in enumerate(questions, 1)]
    return "\n".join([f"{who} asks {len(questions)} questions; answer or skip each.", *lines])
