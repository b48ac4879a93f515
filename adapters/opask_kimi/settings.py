"""Put one thing into a TOML file and leave every other byte of it as it is.

A TOML table can be written in many ways, and a file is only read here, never understood line by line: each place where
the thing may go is tried, and the first result that reads as the old settings with that one thing more is taken. A line
in a comment or in a longer string that only looks like a table is no danger so.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

__all__ = ["SettingsError", "read", "with_entry", "with_item", "with_value"]

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


class SettingsError(ValueError):
    """The settings cannot be read, or the thing has no place in them; the message says which."""


def read(text: str) -> dict[str, Any]:
    """Return the settings in a text.

    Raises:
        SettingsError: it is no TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"it is no TOML: {error}") from None
    except RecursionError:
        raise SettingsError("it is nested too deep") from None


def with_item(text: str, path: tuple[str, ...], item: str) -> str:
    """Return settings in which the list at a path has an item.

    Args:
        text: the settings.
        path: the names of the tables, and of the list in the last of them.
        item: what the list has to have.

    Raises:
        SettingsError: see there.
    """

    def change(table: dict[str, Any], name: str) -> None:
        held = table.setdefault(name, [])
        if not isinstance(held, list):
            raise SettingsError(f"{'.'.join(path)} is no list")
        if item not in held:
            held.insert(0, item)

    value = json.dumps(item)
    beginning = re.compile(rf"{_named(path[-1])}\s*=\s*\[")
    places = (f"{text[: at.end()]}{value}, {text[at.end() :]}" for at in beginning.finditer(text))
    return _edited(text, path, change, places, f"[{value}]")


def with_value(text: str, path: tuple[str, ...], value: int) -> str:
    """Return settings in which there is a number at a path.

    Args:
        text: the settings.
        path: the names of the tables, and of the value in the last of them.
        value: the number.

    Raises:
        SettingsError: see there.
    """

    def change(table: dict[str, Any], name: str) -> None:
        table[name] = value

    assigned = re.compile(rf"({_named(path[-1])}\s*=\s*)[^\s,}}#]+")
    places = (f"{text[: at.end(1)]}{value}{text[at.end() :]}" for at in assigned.finditer(text))
    return _edited(text, path, change, places, str(value))


def with_entry(text: str, name: str, entry: Mapping[str, str]) -> str:
    """Return settings in which the list of tables of a name has one table more, at its end.

    Args:
        text: the settings.
        name: the list's.
        entry: the table.

    Raises:
        SettingsError: see there.
    """

    def change(table: dict[str, Any], name: str) -> None:
        held = table.setdefault(name, [])
        if not isinstance(held, list):
            raise SettingsError(f"{name} is no list of tables")
        held.append(dict(entry))

    pairs = [f"{key} = {json.dumps(value)}" for key, value in entry.items()]
    inline = f"{{ {', '.join(pairs)} }}"
    # The list may be written inline, where the end of it is one of the brackets behind its beginning.
    beginning = re.compile(rf"{_named(name)}\s*=\s*\[")
    ends = (
        text.index("]", at.end() + end.start())
        for at in beginning.finditer(text)
        for end in re.finditer(r"\]", text[at.end() :])
    )
    places = [f"{_with_line_end(text)}\n[[{name}]]\n" + "\n".join(pairs) + "\n"]
    inlines = (
        f"{text[:end]}{separator}{inline}{text[end:]}"
        for end in ends
        for separator in (", ", " ", "\n, ", "\n")
    )
    return _edited(text, (name,), change, iter((*places, *inlines)), f"[{inline}]")


def _edited(
    text: str,
    path: tuple[str, ...],
    change: Callable[[dict[str, Any], str], None],
    places: Iterator[str],
    written: str,
) -> str:
    """Return the first candidate that reads as the settings with the change; the text itself where it is no change."""
    before = read(text)
    wanted = deepcopy(before)
    table: Any = wanted
    for name in path[:-1]:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise SettingsError(f"{name} is no table")
    change(table, path[-1])
    if _same(before, wanted):
        return text
    for candidate in (*places, *_new_places(text, path, written)):
        try:
            if _same(read(candidate), wanted):
                return candidate
        except SettingsError:
            continue
    raise SettingsError(f"{'.'.join(path)} cannot be set in it")


def _new_places(text: str, path: tuple[str, ...], written: str) -> Iterator[str]:
    """Give the texts in which a name that is not there yet may have got its place."""
    for depth in range(len(path) - 1, 0, -1):
        line = f"{'.'.join(map(_key, path[depth:]))} = {written}"
        if depth == len(path) - 1:
            yield f"{_with_line_end(text)}\n[{'.'.join(map(_key, path[:depth]))}]\n{line}\n"
        header = r"[ \t]*\.[ \t]*".join(map(_named, path[:depth]))
        for at in re.finditer(rf"^[ \t]*\[[ \t]*{header}[ \t]*\][^\n]*(?:\n|\Z)", text, re.MULTILINE):
            yield f"{_with_line_end(text[: at.end()])}{line}\n{text[at.end() :]}"
        for at in re.finditer(rf"{_named(path[depth - 1])}\s*=\s*\{{", text):
            for separator in (", ", " "):
                yield f"{text[: at.end()]} {line}{separator}{text[at.end() :]}"
    yield f"{'.'.join(map(_key, path))} = {written}\n{text}"


def _with_line_end(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name)


def _named(name: str) -> str:
    """Return a pattern for a name as a key, bare or quoted."""
    return rf"""(?<![\w-])["']?{re.escape(name)}["']?"""


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    # Text, since `nan` is not equal to itself.
    return json.dumps(one, sort_keys=True, default=repr) == json.dumps(other, sort_keys=True, default=repr)
