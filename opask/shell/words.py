"""What a word of a command is, as far as the shell's expansions leave it known.

Expansions that can run something (``${x@P}``, subscripts, arithmetic over variables) or that change a variable are not
among those that are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from attrs import define

from opask.shell.values import Word

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["UnreadableError", "read_word", "source_of"]

_META: Final = frozenset(" \t\n;&|<>()'\"`$")
_BLANKS: Final = frozenset({0x85, 0xA0})  # what a shell that reads bytes may part words at, by its locale
_PATTERN: Final = frozenset("*?[")
_PARAMETER: Final = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9?#@*])")
_BRACED: Final = re.compile(r"\$\{#?[A-Za-z_][A-Za-z0-9_]*\}")
_ARITHMETIC: Final = re.compile(r"\$\(\([\d\s+*/%()-]*\)\)")
_ESCAPED: Final = re.compile(r"\\([$`\"\\])")


class UnreadableError(Exception):
    """Something that is on no list.

    Attributes:
        reason: why it is not admitted.
        where: the part of the command.
    """

    def __init__(self, reason: str, where: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.where = where


def source_of(node: Node) -> str:
    """Return a node as it is written."""
    return (node.text or b"").decode()


@define
class _Value:
    text: str = ""
    known: bool = True  # so far
    is_single: bool = True
    splits: bool = False

    def add(self, text: str) -> None:
        if self.known:
            self.text += text

    def unknown(self, *, splits: bool = False) -> None:
        self.known = False
        if splits:
            self.splits = True
            self.is_single = False

    def several(self) -> None:
        self.known = self.is_single = False


def read_word(node: Node, inner: Callable[[Node], None]) -> Word:
    """Read a word.

    Args:
        node: the word in the syntax tree.
        inner: reads the commands of a substitution; raises `UnreadableError` where they are no reads.

    Raises:
        UnreadableError: it has a part that is on no list.
    """
    value = _Value()
    _read(node, value, inner)
    return Word(value.text, value.known, value.is_single, value.splits, source_of(node))


def _read(node: Node, value: _Value, inner: Callable[[Node], None]) -> None:
    kind, source = node.type, source_of(node)
    if kind == "concatenation":
        at = node.start_byte
        for child in node.children:
            if child.start_byte != at:
                raise UnreadableError("is no one word", source)
            _read(child, value, inner)
            at = child.end_byte
        if at != node.end_byte:
            raise UnreadableError("is no one word", source)
    elif kind in ("word", "number"):
        _bare(source, value)
    elif kind == "raw_string":
        if not (len(source) > 1 and source[0] == source[-1] == "'" and "'" not in source[1:-1]):
            raise UnreadableError("is quoted in a way that is not read", source)
        value.add(source[1:-1])
    elif kind == "string":
        _string(node, value, inner)
    elif kind in ("simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"):
        _expansion(node, inner)
        value.unknown(splits=True)
    elif kind == "process_substitution":
        if not source.startswith("<(") or value.text or not value.known:
            raise UnreadableError("is a process that is written to", source)
        inner(node)
        value.add("/dev/fd/")
        value.unknown()
    else:
        raise UnreadableError("is a kind of word that is not read", source)


def _bare(source: str, value: _Value) -> None:
    """Read what stands in no quotes."""
    if source.startswith("#") and not value.text:
        raise UnreadableError("begins like a comment", source)
    if source.startswith("=") and not value.text and value.known:
        raise UnreadableError("is the path of a command to some shells", source)
    if _BLANKS & set(source.encode()):
        raise UnreadableError("has an unquoted letter that has a blank's byte in it; quote it", source)
    at = 0
    while at < len(source):
        character = source[at]
        if character == "\\":
            if at + 1 == len(source) or source[at + 1] == "\n":
                raise UnreadableError("is continued on the next line", source)
            value.add(source[at + 1])
            at += 2
            continue
        if character in _META:
            raise UnreadableError("has an unquoted character that ends a word", source)
        if character in _PATTERN or character == "{":
            value.several()
        value.add(character)
        at += 1


def _string(node: Node, value: _Value, inner: Callable[[Node], None]) -> None:
    source = source_of(node)
    if len(source) < 2 or source[0] != '"' or source[-1] != '"' or "\\\n" in source:
        raise UnreadableError("is quoted in a way that is not read", source)
    base = node.start_byte
    raw = node.text or b""
    at = 1
    for child in node.children[1:-1]:
        if child.type == "string_content" or (not child.is_named and source_of(child) == "$"):
            continue
        value.add(_plain(raw[at : child.start_byte - base].decode()))
        _expansion(child, inner)
        value.unknown(splits=source_of(child) in ("$@", "${@}"))
        at = child.end_byte - base
    value.add(_plain(raw[at:-1].decode()))


def _plain(text: str) -> str:
    if re.search(r"(?<!\\)(?:\\\\)*[`\"]", text):
        raise UnreadableError("has an unquoted quote", text)
    return _ESCAPED.sub(r"\1", text)


def _expansion(node: Node, inner: Callable[[Node], None]) -> None:
    kind, source = node.type, source_of(node)
    if kind == "command_substitution":
        if not source.startswith("$(") or not source.endswith(")"):
            raise UnreadableError("is a substitution in a form that is not read", source)
        inner(node)
        return
    known = {"simple_expansion": _PARAMETER, "expansion": _BRACED, "arithmetic_expansion": _ARITHMETIC}
    pattern = known.get(kind)
    if pattern is None or not pattern.fullmatch(source):
        raise UnreadableError("is an expansion that is not read", source)
