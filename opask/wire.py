"""The ask tool as it stands on the wire: its name, its schema, and its results both ways.

The input is AskUserQuestion's, so that the tool drops in; the output is its ``answers`` map.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from opask.errors import AnswerError
from opask.intake import LIMITS, Limits
from opask.outcomes import Answered, Outcome, Sentences
from opask.questions import Answer, Question, check_answers, question_keys

__all__ = [
    "INSTRUCTIONS",
    "SERVER_NAME",
    "TOOL_DESCRIPTION",
    "TOOL_NAME",
    "ToolResult",
    "answers_from_wire",
    "answers_to_wire",
    "input_schema",
    "questions_to_wire",
    "tool_result",
]

TOOL_NAME: Final = "ask_user_question"
SERVER_NAME: Final = "opask"

INSTRUCTIONS: Final = (
    f"A human operator is available. Call {TOOL_NAME} whenever you need a decision, a preference or a fact that "
    "only the operator has, and wait: the call returns their answer. Ask before you guess on something that is "
    "expensive to undo; do not ask about what you can find out yourself. Never ask in prose: only this tool "
    "reaches the operator."
)

TOOL_DESCRIPTION: Final = (
    "Ask the human operator one to four questions and wait for the answers. Give two or more options a question "
    "where you can, the recommended one first; the operator can always answer in their own words instead, so do "
    "not add an 'Other' option. Set multiSelect where several options may be chosen. The result maps each "
    "question's text to the chosen label, to a list of labels for multiSelect, or to the operator's own words."
)


def input_schema(limits: Limits = LIMITS) -> dict[str, Any]:
    """Return the JSON Schema of the tool's arguments, fresh for each caller.

    It admits whatever `opask.intake.parse` reads, since several runtimes reject a call that the schema does not
    admit before the server sees it, while its descriptions lead a model to the plain form.
    """

    def text(limit: int, description: str) -> dict[str, Any]:
        return {
            "type": ["string", "number", "boolean", "null"],
            "maxLength": limit,
            "description": description,
        }

    # Strings may be JSON, so no `maxLength` on values that may stand for more than their own text.
    option = {
        "type": ["object", "string", "number", "boolean"],
        "properties": {
            "label": text(limits.label, "What the operator chooses; short."),
            "description": text(limits.description, "What choosing it means."),
        },
    }
    question = {
        "type": ["object", "string"],
        "properties": {
            "question": text(limits.text, "The question, whole and clear, ending with a question mark."),
            "header": text(limits.header, "A tag of one or two words, 12 characters at most."),
            "options": {
                "type": ["array", "object", "string", "null"],
                "maxItems": limits.options,
                "items": option,
                "description": "The choices, two to four as a rule; none for a free-text question.",
            },
            "multiSelect": {
                "type": ["boolean", "string", "number", "null"],
                "description": "true where several options may be chosen.",
            },
        },
    }
    return {
        "type": "object",
        "properties": {
            "questions": {
                "type": ["array", "object", "string", "null"],
                "maxItems": limits.questions,
                "items": question,
                "description": f"The questions, 1 to {limits.questions}.",
            }
        },
    }


def questions_to_wire(questions: Sequence[Question]) -> list[dict[str, Any]]:
    """Return questions in AskUserQuestion's form.

    `opask.intake.parse` reads them back unchanged where they came from it. Of questions that were made otherwise
    it takes away white space around texts and options that only ask for free text ("Other"), and it rejects
    what is empty or out of bounds.
    """
    return [
        {
            "question": question.text,
            "header": question.header,
            "options": [
                {"label": option.label, "description": option.description} for option in question.options
            ],
            "multiSelect": question.multi_select,
        }
        for question in questions
    ]


def answers_to_wire(
    questions: Sequence[Question], answers: Sequence[Answer | None]
) -> dict[str, str | list[str]]:
    """Return answers as the map from question to label, labels or free text; skipped questions are left out.

    A multi-select answer is always a list. Free text beside an option stands after it in a list.

    Raises:
        AnswerError: the answers do not fit the questions.
    """
    check_answers(questions, answers)
    result: dict[str, str | list[str]] = {}
    for key, question, answer in zip(question_keys(questions), questions, answers, strict=True):
        if answer is None:
            continue
        parts = [question.options[position].label for position in answer.selected]
        if answer.text is not None:
            parts.append(answer.text)
        result[key] = parts if question.multi_select or len(parts) > 1 else parts[0]
    return result


def answers_from_wire(questions: Sequence[Question], answers: Mapping[str, Any]) -> tuple[Answer | None, ...]:
    """Read answers that were written by question text, as ``--answers`` and other clients give them.

    A string that is an option's label chooses it (of equal labels, the first that is not chosen yet); any other
    string is free text. None or an absent question is a skipped one, and all may be skipped.

    Reads back what `answers_to_wire` wrote wherever the map tells it apart. It does not for equal labels, of which
    the first are chosen, nor for free text that is an option's label: that option is chosen, which is an error
    beside another option of a question that takes one.

    Args:
        questions: the questions of the ask.
        answers: from question key (see `question_keys`) to label, list of labels, free text or None.

    Returns:
        One answer a question, by position.

    Raises:
        AnswerError: a value of another type, an empty list or blank text, several texts, several options where
            one was asked for, or a key that is no question.
    """
    keys = question_keys(questions)
    unknown = [key for key in answers if key not in keys]
    if unknown:
        raise AnswerError(f"there is no question {unknown[0]!r}; there is {', '.join(map(repr, keys))}")
    result: list[Answer | None] = []
    for index, (key, question) in enumerate(zip(keys, questions, strict=True)):
        value = answers.get(key)
        if value is None:
            result.append(None)
            continue
        parts = [value] if isinstance(value, str) else value
        if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
            raise AnswerError(
                f"the answer to {key!r} has to be a string, a list of strings or null", question=index
            )
        if not parts or not all(part.strip() for part in parts):
            raise AnswerError(
                f"the answer to {key!r} is empty; give null to skip the question", question=index
            )
        result.append(_answer_from_parts(question, parts, index))
    if any(answer is not None for answer in result):
        check_answers(questions, result)
    return tuple(result)


def _answer_from_parts(question: Question, parts: Sequence[str], index: int) -> Answer:
    selected: list[int] = []
    texts: list[str] = []
    for part in parts:
        position = next(
            (
                position
                for position, option in enumerate(question.options)
                if option.label == part and position not in selected
            ),
            None,
        )
        if position is None:
            texts.append(part)
        else:
            selected.append(position)
    if len(texts) > 1:
        raise AnswerError(
            f"question {index + 1} has no options {', '.join(map(repr, texts))}; one of them can be free text",
            question=index,
        )
    return Answer(tuple(selected), texts[0] if texts else None)


@frozen
class ToolResult:
    """What the tool call returns.

    Args:
        text: the text block.
        structured: the structured content; None for an error, where the text has to reach the model.
        is_error: whether the call failed for the model.
    """

    text: str
    structured: Mapping[str, Any] | None
    is_error: bool


def tool_result(questions: Sequence[Question], outcome: Outcome, sentences: Sentences) -> ToolResult:
    """Return what the model is told of an outcome.

    The answers are in text and in structured content alike, since some runtimes pass on only the one and
    some only the other. A skip is not an error; every other outcome without an answer is.

    Raises:
        AnswerError: the outcome's answers do not fit the questions.
    """
    if isinstance(outcome, Answered):
        return _answered(questions, outcome, sentences)
    sentence = sentences.for_outcome(outcome)
    if outcome.kind == "skipped":
        structured = {"answers": {}, "skipped": list(question_keys(questions)), "note": sentence}
        return ToolResult(sentence, structured, is_error=False)
    return ToolResult(sentence, None, is_error=True)


def _answered(questions: Sequence[Question], outcome: Answered, sentences: Sentences) -> ToolResult:
    structured: dict[str, Any] = {"answers": answers_to_wire(questions, outcome.answers)}
    keys = question_keys(questions)
    pairs = list(zip(keys, questions, outcome.answers, strict=True))
    # Equal labels read the same: only their positions say which was meant.
    positions = {
        key: [position + 1 for position in answer.selected]
        for key, question, answer in pairs
        if answer is not None and _repeats_a_label(question, answer)
    }
    if positions:
        structured["option_numbers"] = positions
    skipped = [key for key, _, answer in pairs if answer is None]
    if skipped:
        structured["skipped"] = skipped
        structured["note"] = sentences.skipped
    return ToolResult(json.dumps(structured, ensure_ascii=False), structured, is_error=False)


def _repeats_a_label(question: Question, answer: Answer) -> bool:
    labels = [option.label for option in question.options]
    return any(labels.count(labels[position]) > 1 for position in answer.selected)
