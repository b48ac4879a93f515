"""Names of tools: the canonical one, and the pieces that runtimes make their spellings of it from.

Each adapter owns its runtime's mangling and puts it together from these pieces; what it gets is compared
exactly, since a name that merely looks alike may be somebody else's tool.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal

from attrs import field, frozen

__all__ = ["AskTools", "ToolName", "collapse", "cut", "elide", "sanitise"]


@frozen
class ToolName:
    """A tool's canonical name.

    Args:
        server: the MCP server that it is on.
        tool: its name there.
    """

    server: str
    tool: str

    def spelled(self, template: str, part: Callable[[str], str] = str) -> str:
        """Return the name as a runtime spells it.

        Args:
            template: where the parts go, such as ``mcp__{server}__{tool}``.
            part: what the runtime does to each of the two first.
        """
        return template.format(server=part(self.server), tool=part(self.tool))


def sanitise(text: str, kept: str, replacement: str = "_") -> str:
    """Replace each character that a runtime does not keep in a name.

    Args:
        text: the name.
        kept: the characters that stay, as they stand in a regular expression's brackets: ``A-Za-z0-9_-``.
        replacement: what stands for each of the others.
    """
    return re.sub(f"[^{kept}]", lambda _: replacement, text)


def collapse(text: str, character: str = "_") -> str:
    """Make one of each run of a character."""
    return re.sub(f"(?:{re.escape(character)})+", lambda _: character, text)


def cut(text: str, limit: int, tail: Callable[[str], str]) -> str:
    """Cut a name that is too long, and end it in something made from the whole of it.

    Args:
        text: the name.
        limit: characters that it may have.
        tail: makes the end, a separator and a hash as a rule, from the whole name.

    Returns:
        The name itself where it is short enough, else ``limit`` characters.

    Raises:
        ValueError: the tail alone is longer than the limit.
    """
    if len(text) <= limit:
        return text
    end = tail(text)
    if len(end) > limit:
        raise ValueError(f"a tail of {len(end)} characters does not fit into {limit}")
    return text[: limit - len(end)] + end


def elide(text: str, limit: int, kept: int, filler: str = "...") -> str:
    """Take out the middle of a name that is too long.

    Args:
        text: the name.
        limit: characters that it may have.
        kept: characters that stay at each end.
        filler: what stands for the middle.
    """
    return text if len(text) <= limit else text[:kept] + filler + text[len(text) - kept :]


def _names(names: Iterable[str]) -> frozenset[str]:
    return frozenset({names} if isinstance(names, str) else names)


@frozen
class AskTools:
    """The ask tools of one session, as its runtime spells them.

    Args:
        supplied: every spelling of opask's tool; none where it is not attached.
        native: every spelling of the runtime's own.
    """

    supplied: frozenset[str] = field(default=frozenset(), converter=_names)
    native: frozenset[str] = field(default=frozenset(), converter=_names)

    def kind(self, spelling: object) -> Literal["supplied", "native"] | None:
        """Tell which ask tool a spelling means, if any: by exact match, and ``native`` where it could be both."""
        if not isinstance(spelling, str):
            return None
        if spelling in self.native:
            return "native"
        return "supplied" if spelling in self.supplied else None
