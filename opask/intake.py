"""Read what a model sent to the ask tool: generously, since a rejected call is a wasted turn.

`parse` is the one normaliser: every part that reads questions, from the bridge or from a runtime's own
events, goes through it, so that the same arguments always give the same questions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard

from attrs import frozen

from opask.questions import Option, Question

__all__ = ["LIMITS", "Limits", "Rejected", "parse"]


@frozen
class Limits:
    """The bounds of one ask.

    Args:
        questions: how many questions one ask may have.
        options: how many options one question may have.
        text: characters in a question.
        header: characters in a header.
        label: characters in an option's label.
        description: characters in an option's description.
    """

    questions: int = 4
    options: int = 32
    text: int = 4000
    header: int = 200
    label: int = 1000
    description: int = 4000


LIMITS: Final = Limits()


@frozen
class Rejected:
    """The arguments are no ask; the message tells the model what to change."""

    message: str


class _Unreadable(Exception):
    """Internal: carries the message of a `Rejected`."""


_EXAMPLE = (
    '{"questions": [{"question": "Which database?", "header": "Database", "multiSelect": false, '
    '"options": [{"label": "SQLite", "description": "one file"}, {"label": "PostgreSQL"}]}]}'
)
_TEXT_KEYS = ("question", "text", "prompt", "message", "title")
_LABEL_KEYS = ("label", "name", "title", "text", "value")
_DESCRIPTION_KEYS = ("description", "detail", "details", "explanation")
_OPTION_KEYS = ("options", "choices")
_MULTI_KEYS = ("multiSelect", "multi_select", "multiselect", "multiple", "allowMultiple", "allow_multiple")
_HEADER_KEYS = ("header", "label")
_TRUE = frozenset({"true", "yes", "1"})
_FALSE = frozenset({"false", "no", "0", ""})
_DECODES = 3  # a JSON string in a JSON string is seen; more is not meant
_SURROGATE = re.compile("[\ud800-\udfff]")
_OTHER = re.compile(
    r"(?:something else|none of (?:these|the above)\W+other|other)"
    r"(?:\s*\W*\s*(?:please\s+)?(?:specify|describe|explain|say|free[- ]?text|type|enter|write|custom)\b[^.]*)?\W*",
    re.IGNORECASE,
)


def parse(arguments: object, *, limits: Limits = LIMITS) -> tuple[Question, ...] | Rejected:
    """Read the arguments of an ask call.

    Admitted beside AskUserQuestion's own form: one question in place of the list, also at the top level;
    bare strings for questions and options; options as a mapping from label to description; the names
    ``text``, ``name``, ``value``, ``title``, ``choices``, ``multi_select``, ``multiple``…; a JSON string in
    place of any value; no header; no options. An "Other" option folds into the free text that is always offered.

    Args:
        arguments: whatever the model sent, of any type.
        limits: the bounds.

    Returns:
        The questions, or what the model should do better. Never raises.
    """
    try:
        return _questions(arguments, limits)
    except _Unreadable as unreadable:
        return Rejected(f"{unreadable} Nothing was asked. Call the tool again with arguments like {_EXAMPLE}")


def _questions(arguments: object, limits: Limits) -> tuple[Question, ...]:
    value = _decoded(arguments, list, dict)
    if isinstance(value, Mapping):
        listed = value.get("questions")
        value = listed if listed is not None else value if _first(value, _TEXT_KEYS) is not None else None
        value = _decoded(value, list, dict)
    if value is None:
        raise _Unreadable("The arguments name no `questions`.")
    if isinstance(value, Mapping | str):
        value = [value]
    if not _is_list(value):
        raise _Unreadable("`questions` has to be a list.")
    if not value:
        raise _Unreadable("`questions` is empty.")
    if len(value) > limits.questions:
        raise _Unreadable(
            f"{len(value)} questions are too many for one call, {limits.questions} is the limit: "
            "ask the most important ones first."
        )
    return tuple(_question(item, f"questions[{index}]", limits) for index, item in enumerate(value))


def _question(value: object, where: str, limits: Limits) -> Question:
    value = _decoded(value, dict)
    if isinstance(value, str):
        value = {"question": value}
    if not isinstance(value, Mapping):
        raise _Unreadable(f"{where} has to be an object.")
    text_key = _first(value, _TEXT_KEYS)
    text = _text(value[text_key], f"{where}.{text_key}", limits.text) if text_key else ""
    if not text:
        raise _Unreadable(f"{where} has no text in `question`.")
    header_key = _first(value, _HEADER_KEYS)
    options_key = _first(value, _OPTION_KEYS)
    multi_key = _first(value, _MULTI_KEYS)
    return Question(
        text=text,
        header=_text(value[header_key], f"{where}.{header_key}", limits.header) if header_key else "",
        options=_options(value[options_key], f"{where}.{options_key}", limits) if options_key else (),
        multi_select=_flag(value[multi_key], f"{where}.{multi_key}") if multi_key else False,
    )


def _options(value: object, where: str, limits: Limits) -> tuple[Option, ...]:
    value = _decoded(value, list, dict)
    if isinstance(value, Mapping):
        if _first(value, _LABEL_KEYS) is not None:
            value = [value]
        else:
            value = [{"label": label, "description": description} for label, description in value.items()]
    if not _is_list(value):
        raise _Unreadable(f"{where} has to be a list of options.")
    if len(value) > limits.options:
        raise _Unreadable(f"{where} has {len(value)} entries, {limits.options} is the limit.")
    options = [_option(item, f"{where}[{index}]", limits) for index, item in enumerate(value)]
    return tuple(option for option in options if not _OTHER.fullmatch(option.label))


def _option(value: object, where: str, limits: Limits) -> Option:
    value = _decoded(value, dict)
    if isinstance(value, Mapping):
        label_key = _first(value, _LABEL_KEYS)
        description_key = _first(value, _DESCRIPTION_KEYS)
        label = _text(value[label_key], f"{where}.{label_key}", limits.label) if label_key else ""
        description = (
            _text(value[description_key], f"{where}.{description_key}", limits.description) if description_key else ""
        )
    else:
        label, description = _text(value, where, limits.label), ""
    if not label:
        raise _Unreadable(f"{where} has no `label`.")
    return Option(label, description)


def _first(value: Mapping[Any, Any], keys: tuple[str, ...]) -> str | None:
    """Return the first of the keys that is there with something in it."""
    return next((key for key in keys if value.get(key) is not None), None)


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def _decoded(value: object, *wanted: type) -> Any:
    """Return what a JSON string stands for where that is of a wanted type, else the value as it is."""
    decoded = value
    for _ in range(_DECODES):
        if not isinstance(decoded, str) or decoded.lstrip()[:1] not in ("{", "[", '"'):
            break
        try:
            decoded = json.loads(decoded)
        except (ValueError, RecursionError):
            break
    return decoded if isinstance(decoded, wanted) else value


def _text(value: object, where: str, limit: int) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, str | int | float):
        try:
            text = str(value)
        except ValueError as error:  # an integer of more digits than Python converts
            raise _Unreadable(f"{where} is a number that is too long.") from error
    else:
        raise _Unreadable(f"{where} has to be text.")
    if len(text) > limit:
        raise _Unreadable(f"{where} has {len(text)} characters, {limit} is the limit: say it shorter.")
    # A lone surrogate cannot be sent on; JSON's escapes can still make one.
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text).strip()


def _flag(value: object, where: str) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return bool(value)
    if isinstance(value, str):
        word = value.strip().strip('"').lower()
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
    raise _Unreadable(f"{where} has to be true or false.")
