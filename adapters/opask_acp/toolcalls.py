"""What an agent has told of a tool call so far: its reports, laid over each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from attrs import evolve, field, frozen

from opask_acp.jsonrpc import Message, at, items, mapping, text

__all__ = ["ToolCall"]

_TEXTS_MAX: Final = 1024 * 1024  # characters of content that are kept
_ENDS: Final[Mapping[str, bool]] = {
    "completed": False,
    "failed": True,
    "cancelled": True,
}  # status -> is it bad


@frozen
class ToolCall:
    """A tool call, as far as it was reported.

    In version 1 of the protocol ``tool_call`` reports a call first and ``tool_call_update`` what changed; in version
    2 updates do both. A field that an update leaves out, or has as null, stays.

    Args:
        id: the runtime's.
        name: the tool's programmatic name; a field that few runtimes fill.
        title: what a person would read; some runtimes put the name there, some a phrase of the model's.
        first_title: the title that it was reported under first; what it does may become its title later.
        status: ``pending``, ``in_progress``, ``completed``, ``failed``, or a word to come.
        raw_input: the arguments, as the runtime has them.
        raw_output: the result, as the runtime has it.
        texts: the text of its content, piece by piece.
        meta: what the runtime adds.
        permission: how a permission request reports it; empty where it is not looked at for one.
    """

    id: str
    name: str | None = None
    title: str | None = None
    first_title: str | None = None
    status: str | None = None
    raw_input: Any = field(default=None, repr=False)
    raw_output: Any = field(default=None, repr=False)
    texts: tuple[str, ...] = field(default=(), repr=False)
    meta: Mapping[str, Any] = field(factory=dict, repr=False)
    permission: Mapping[str, Any] = field(factory=dict, repr=False)

    def updated(self, report: Message) -> ToolCall:
        """Return the call after one more report of it."""
        told: dict[str, Any] = {
            name: value for name in ("name", "title", "status") if (value := text(report, name)) is not None
        }
        told["first_title"] = self.first_title or told.get("title")
        for name, key in (("raw_input", "rawInput"), ("raw_output", "rawOutput")):
            if report.get(key) is not None:
                told[name] = report[key]
        if isinstance(report.get("content"), list | tuple):
            told["texts"] = _within(tuple(filter(None, map(_text, items(report, "content")))))
        if mapping(report, "_meta"):
            told["meta"] = {**self.meta, **mapping(report, "_meta")}
        return evolve(self, **told)

    def with_piece(self, piece: object) -> ToolCall:
        """Return the call after one more piece of its content."""
        said = _text(piece)
        return self if said is None else evolve(self, texts=_within((*self.texts, said)))

    def at(self, *path: str) -> Any:
        """Return what stands at a path of the protocol's own names (``_meta``, ``toolName``), None for nothing.

        Below ``permission`` stands what a permission request reports.
        """
        first, *rest = path
        whole = {
            "toolCallId": self.id,
            "name": self.name,
            "title": self.title,
            "rawInput": self.raw_input,
            "rawOutput": self.raw_output,
            "_meta": self.meta,
            "permission": self.permission,
        }
        return at(whole, first, *rest)

    @property
    def end(self) -> Literal["well", "badly"] | None:
        """How it ended, None while it runs."""
        bad = _ENDS.get(self.status or "")
        return None if bad is None else "badly" if bad else "well"


def _text(content: object) -> str | None:
    """Return the text of one piece of a call's content."""
    if not isinstance(content, Mapping):
        return None
    block = mapping(content, "content") if content.get("type") == "content" else content
    return text(block, "text") if block.get("type") == "text" else None


def _within(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts as far as they are kept: all or none of them, since half an object says nothing."""
    return texts if sum(map(len, texts)) <= _TEXTS_MAX else ()
