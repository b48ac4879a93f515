"""The wrappings in which runtimes report a tool call's arguments, taken off.

Nothing here is executed, guessed or completed: what is not there in whole is not there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import frozen

from opask_acp.jsonrpc import at

__all__ = ["Addressed", "addressed", "bare", "named_title", "nested", "whole_object"]

_LONGEST: Final = 4 * 1024 * 1024  # characters; the longest ask is a quarter of that


def whole_object(text: object) -> Mapping[str, Any] | None:
    """Return the JSON object that a text is, None where it is none: not yet whole, or with anything behind it.

    A text that grows by pieces until it is whole gives None until then.
    """
    if not isinstance(text, str) or len(text) > _LONGEST:
        return None
    if text.lstrip()[:1] != "{" or text.rstrip()[-1:] != "}":
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def bare(raw: object) -> Iterator[Mapping[str, Any]]:
    """Give the arguments that an MCP call's raw input may hold: as they are, as a JSON string, or beside its tool.

    The last is ``{"server": …, "tool": …, "arguments": …}``, where the arguments may again be a JSON string.
    """
    value = whole_object(raw) if isinstance(raw, str) else raw
    if not isinstance(value, Mapping) or not value:
        return
    inner = value.get("arguments")
    if "tool" in value and inner is not None:
        value = whole_object(inner) if isinstance(inner, str) else inner
    if isinstance(value, Mapping):
        yield value


@frozen
class Addressed:
    """A call of a tool that is addressed like a file.

    Args:
        name: the tool's name, from the address.
        arguments: what is written to it, None where that is no JSON object in whole.
    """

    name: str
    arguments: Mapping[str, Any] | None


def addressed(raw: object, scheme: str) -> Addressed | None:
    """Read ``{"path": "<scheme>NAME", "content": "<JSON>"}``; None where the path is of no such scheme.

    Args:
        raw: the raw input of the call that writes.
        scheme: what such an address begins with, ``xd://`` for instance.
    """
    if not isinstance(raw, Mapping):
        return None
    path, content = raw.get("path"), raw.get("content")
    if not isinstance(path, str) or not path.startswith(scheme) or path == scheme:
        return None
    arguments = content if isinstance(content, Mapping) else whole_object(content)
    return Addressed(path.removeprefix(scheme), arguments)


def nested(value: object, *path: str) -> Mapping[str, Any] | None:
    """Return the object at a path of names, as it is or as a JSON string; None where there is none."""
    found = at(value, *path) if isinstance(value, Mapping) else None
    return whole_object(found) if isinstance(found, str) else found if isinstance(found, Mapping) else None


def named_title(title: str) -> str:
    """Return the tool's name in a title ``NAME: <arguments, cut off>``; the whole title where there is no colon.

    The arguments in it are cut off somewhere, so nothing is read from them.
    """
    return title.partition(":")[0]
