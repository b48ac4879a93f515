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

from opask.inert import encodable
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


class _UnreadableError(Exception):
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
# What one option may have beside a label: tells an option from a mapping of labels to descriptions.
_OPTION_FIELDS = frozenset((*_LABEL_KEYS, *_DESCRIPTION_KEYS, "id", "preview", "recommended"))
# Plain enough to take linear time: a label is the agent's text.
_OTHER = re.compile(
    r"\W*(?:something else|none of (?:these|the above)\W+other|other)\b(?P<gap>\W*)(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_FREE_TEXT = re.compile(r"\bfree[ -]?(?:form|text)\b", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_SAY = frozenset({"describe", "explain", "please", "specify"})
_WRITE = _SAY | {"custom", "enter", "freetext", "say", "tell", "type", "write"}
_FILLERS = frozenset(
    _WORD.findall(
        "a above an answer below choice details else here i if in instead it let like listed ll me my need not "
        "option or own prefer response something text the to us value want what will words would you your"
    )
)


def parse(arguments: object, *, limits: Limits = LIMITS) -> tuple[Question, ...] | Rejected:
    """Read the arguments of an ask call.

    Admitted beside AskUserQuestion's own form: one question in place of the list, also at the top level;
    bare strings for questions and options; options as a mapping from label to description; the names
    ``text``, ``name``, ``value``, ``title``, ``choices``, ``multi_select``, ``multiple``…; a JSON string in
    place of any list or object; all arguments once more under ``questions``; numbers and booleans for text; no
    header; no options. An option that only asks for free text ("Other", "Other (please specify)") folds into
    the free text that is always offered; one that says more ("Other database") stays.

    Text is taken as it is, also where it reads like JSON, but for white space around it and for lone
    surrogates, which could not be sent on and become U+FFFD.

    Args:
        arguments: whatever the model sent, of any type.
        limits: the bounds.

    Returns:
        The questions, or what the model should do better. Never raises.
    """
    try:
        return _questions(arguments, limits)
    except _UnreadableError as unreadable:
        return Rejected(f"{unreadable} Nothing was asked. Call the tool again with arguments like {_EXAMPLE}")


def _questions(arguments: object, limits: Limits) -> tuple[Question, ...]:
    value = whole = _decoded(arguments, list, dict)
    for _ in range(_DECODES):
        if not isinstance(value, Mapping) or value.get("questions") is None:
            break
        value = _decoded(value["questions"], list, dict)
    if value is None or (value is whole and isinstance(value, Mapping) and not _first(value, _TEXT_KEYS)):
        raise _UnreadableError("The arguments name no `questions`.")
    if isinstance(value, Mapping | str):
        value = [value]
    if not _is_list(value):
        raise _UnreadableError("`questions` has to be a list.")
    if not value:
        raise _UnreadableError("`questions` is empty.")
    if len(value) > limits.questions:
        raise _UnreadableError(
            f"{len(value)} questions are too many for one call, {limits.questions} is the limit: "
            "ask the most important ones first."
        )
    return tuple(_question(item, f"questions[{index}]", limits) for index, item in enumerate(value))


def _question(value: object, where: str, limits: Limits) -> Question:
    value = _decoded(value, dict)
    if isinstance(value, str):
        value = {"question": value}
    if not isinstance(value, Mapping):
        raise _UnreadableError(f"{where} has to be an object.")
    text_key = _first(value, _TEXT_KEYS)
    text = _text(value[text_key], f"{where}.{text_key}", limits.text) if text_key else ""
    if not text:
        raise _UnreadableError(f"{where} has no text in `question`.")
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
        if value.get("label") is not None or (value and _OPTION_FIELDS.issuperset(value)):
            value = [value]
        else:
            value = [{"label": label, "description": description} for label, description in value.items()]
    if not _is_list(value):
        raise _UnreadableError(f"{where} has to be a list of options.")
    if len(value) > limits.options:
        raise _UnreadableError(f"{where} has {len(value)} entries, {limits.options} is the limit.")
    options = [_option(item, f"{where}[{index}]", limits) for index, item in enumerate(value)]
    return tuple(option for option in options if not _asks_for_free_text(option.label))


def _asks_for_free_text(label: str) -> bool:
    """Tell an option that means no more than "in your own words" from one that names something."""
    other = _OTHER.fullmatch(label)
    if other is None:
        return False
    words = _WORD.findall(_FREE_TEXT.sub("freetext", other["rest"]).lower())
    if not words:
        return True
    # "Other: type" asks for words, "Other type" and "Other-type" name something.
    apart = other["gap"].strip() and other["gap"] != "-"
    invites = not _WRITE.isdisjoint(words) if apart else words[0] in _SAY
    return invites and all(word in _WRITE or word in _FILLERS for word in words)


def _option(value: object, where: str, limits: Limits) -> Option:
    decoded = _decoded(value, dict)
    if decoded is not value and _first(decoded, _LABEL_KEYS):  # any other JSON is the label itself
        value = decoded
    if isinstance(value, Mapping):
        label_key = _first(value, _LABEL_KEYS)
        description_key = _first(value, _DESCRIPTION_KEYS)
        label = _text(value[label_key], f"{where}.{label_key}", limits.label) if label_key else ""
        description = (
            _text(value[description_key], f"{where}.{description_key}", limits.description)
            if description_key
            else ""
        )
    else:
        label, description = _text(value, where, limits.label), ""
    if not label:
        raise _UnreadableError(f"{where} has no `label`.")
    return Option(label, description)


def _first(value: Mapping[Any, Any], keys: tuple[str, ...]) -> str | None:
    """Return the first of the keys that is there with something in it."""
    return next((key for key in keys if value.get(key) not in (None, "")), None)


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
            raise _UnreadableError(f"{where} is a number that is too long.") from error
    else:
        raise _UnreadableError(f"{where} has to be text.")
    if len(text) > limit:
        raise _UnreadableError(f"{where} has {len(text)} characters, {limit} is the limit: say it shorter.")
    return encodable(text).strip()


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
    raise _UnreadableError(f"{where} has to be true or false.")
