"""What the operator is asked before a tool may run, and what the answer allows.

The options are opask's own and are known by position. Whatever is no clear yes (free text, several options, a skip, an
outcome without an answer) is a no.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from opask.inert import inert, inert_line, shorten
from opask.outcomes import Answered, Cancelled, Outcome, Skipped, TimedOut, Unavailable
from opask.questions import Option, Question

__all__ = [
    "CANNOT_SHOW",
    "LONGEST",
    "Effect",
    "Scope",
    "chosen_scope",
    "permission_question",
    "shown_arguments",
    "why_not",
    "write_question",
    "write_scopes",
]

Scope: TypeAlias = Literal["action", "turn", "session"]
"""How far a yes goes: this one call, the rest of this turn of this agent, or the session."""

Effect: TypeAlias = Literal["read", "write", "external"]
"""What a step changes: nothing; something here; something elsewhere, which cannot be taken back."""

LONGEST: Final = 64 * 1024
"""How many characters of arguments can be shown in full; a call with more is not put to the operator."""

CANNOT_SHOW: Final = (
    f"This has arguments of more than {LONGEST} characters, or too deeply nested, which cannot be shown to the operator in "
    "full, so it is denied. Do it in smaller steps."
)
"""What the agent is told where `shown_arguments` gives nothing."""

_NAME: Final = 120
_WHAT: Final = 240
_WHY: Final = 400
_UNTOLD: Final = "  (with no arguments that the runtime tells of)"
_DENY: Final = Option("Deny", "The agent is told that it was denied, and goes on without it.")
_ONCE: Final = Option("Allow once", "Only this call, with these arguments.")
_SCOPES: Final[Mapping[Scope, Option]] = {
    "turn": Option(
        "Allow for this turn", "This call, and every further write of this agent until its turn ends."
    ),
    "action": Option("Allow this action", "Only this call, with these arguments."),
    "session": Option(
        "Allow for this session", "This call, and every further write of any agent in this session."
    ),
}


def shown_arguments(arguments: Mapping[str, Any] | None) -> str | None:
    """Return a tool's arguments to be shown: in full, inert, each line indented so that none passes for ours.

    Returns:
        The text, empty for no arguments; None where they cannot be shown in full: too long, too deep, or in a circle.
    """
    if not arguments:
        return ""
    lines: list[str] = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else _json(value)
        if text is None:
            return None
        shown = inert(text).split("\n")
        lines.append(f"  {inert_line(str(name))}: {shown[0] if len(shown) == 1 else ''}".rstrip())
        if len(shown) > 1:
            lines += [f"    {line}" for line in shown]
    text = "\n".join(lines)
    return None if len(text) > LONGEST else text


def _json(value: object) -> str | None:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return None


def permission_question(
    tool: str, arguments: str, *, remembers: Literal["no", "tool", "call"]
) -> tuple[Question, tuple[Scope | None, ...]]:
    """Return the question whether a tool may run, and the scope that each of its options means (None: deny).

    Args:
        tool: its spelling; empty where the runtime does not say.
        arguments: from `shown_arguments`.
        remembers: whether a yes for the session is offered, and what it is for.
    """
    name = shorten(tool, _NAME)
    what = f"use {name}" if name else "use a tool that the runtime does not name"
    options: list[tuple[Option, Scope | None]] = [(_ONCE, "action")]
    if remembers != "no":
        told = (
            f"This call and every further call of {name}, with any arguments, by any agent in this session."
        )
        if remembers == "call":
            told = "This call, and each further one with the same name and exactly these arguments in this session."
        options.append((Option("Allow for this session", told), "session"))
    options.append((_DENY, None))
    return _question(f"The agent wants to {what}. Allow it?", "Permission", arguments, options)


def write_scopes(effect: Effect) -> tuple[Scope, ...]:
    """Return the scopes that can be granted for an effect, the surfaced default first."""
    return ("action",) if effect == "external" else ("turn", "action", "session")


def write_question(
    what: str, arguments: str, effect: Effect, why: str = ""
) -> tuple[Question, tuple[Scope | None, ...]]:
    """Return the proposal of a write action, and the scope that each of its options means (None: deny).

    Args:
        what: what the agent wants to do, as in "run a shell command"; ours, or shortened.
        arguments: from `shown_arguments`.
        effect: ``write`` or ``external``.
        why: what makes it a write, where that is worth a line.
    """
    text = f"The agent wants to {shorten(what, _WHAT)}. Allow this write action?"
    if effect == "external":
        text += (
            "\nIt may reach beyond this machine, or cannot be taken back: each such action is asked about."
        )
    if why:
        text += f"\nWhy it is no read: {shorten(why, _WHY)}"
    options: list[tuple[Option, Scope | None]] = [(_SCOPES[scope], scope) for scope in write_scopes(effect)]
    options.append((_DENY, None))
    return _question(text, "Write action", arguments, options)


def _question(
    text: str, header: str, arguments: str, options: Sequence[tuple[Option, Scope | None]]
) -> tuple[Question, tuple[Scope | None, ...]]:
    whole = f"{text}\n{arguments or _UNTOLD}"
    return (
        Question(whole, header, tuple(option for option, _ in options)),
        tuple(scope for _, scope in options),
    )


def chosen_scope(outcome: Outcome, scopes: Sequence[Scope | None]) -> Scope | None:
    """Return the scope that the operator allowed; None for a no, and for all that is no clear yes."""
    if not isinstance(outcome, Answered) or len(outcome.answers) != 1:
        return None
    (answer,) = outcome.answers
    if answer is None or answer.text is not None or len(answer.selected) != 1:
        return None
    (position,) = answer.selected
    return scopes[position] if 0 <= position < len(scopes) else None


def why_not(outcome: Outcome) -> str:
    """Return what the agent is told of an outcome that allows nothing."""
    match outcome:
        case Answered(answers=(answer,)) if answer is not None and answer.text is not None:
            return f"The operator did not allow this, and said: {answer.text}"
        case Answered():
            return "The operator denied this. Do it another way, or go on without it."
        case Skipped():
            return "The operator did not allow this. Do it another way, or go on without it."
        case TimedOut():
            return "The operator did not decide in time, so this is denied."
        case Cancelled(by="operator"):
            return "The operator cancelled this. Do nothing that depends on it."
        case Cancelled():
            return "This was cancelled before the operator decided, so it is denied."
        case Unavailable(reason=reason):
            return f"Nobody can allow this now ({inert_line(reason)}), so it is denied. Go on without it."
        case _:
            return "Nobody decided on this, so it is denied."
