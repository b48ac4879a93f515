"""What becomes of an answer that came too late: the text of the agent's next prompt."""

from __future__ import annotations

from collections.abc import Sequence

from opask.inert import inert_line
from opask.questions import Answer, Ask, check_answers

__all__ = ["follow_up"]


def follow_up(ask: Ask, answers: Sequence[Answer | None]) -> str:
    """Return a late answer as the text of the next prompt to the agent that asked.

    The questions are the agent's own words, made inert and on one line; the answers are the operator's.

    Args:
        ask: what was asked.
        answers: one a question, by position; None for a question that the operator skipped.

    Raises:
        AnswerError: the answers do not fit.
    """
    check_answers(ask.questions, answers)
    several = len(ask.questions) > 1
    had = (
        "questions and had to go on without the answers. Here they are:"
        if several
        else ("a question and had to go on without the answer. Here it is:")
    )
    lines = [f"Earlier you asked the operator {had}", ""]
    for question, answer in zip(ask.questions, answers, strict=True):
        lines.append(f"Question: {inert_line(question.text)}")
        if answer is None:
            lines.append("Answer: none, the operator chose not to answer")
            continue
        labels = [inert_line(question.options[position].label) for position in answer.selected]
        if labels:
            lines.append(f"Answer: {'; '.join(labels)}")
        if answer.text is not None:
            lines.append(f"{'In addition' if labels else 'Answer'}, in the operator's words: {answer.text}")
    lines += ["", "Go on with this in mind; say what it changes of what you have done since."]
    return "\n".join(lines)
