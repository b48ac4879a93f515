"""How omp makes a tool's name from an MCP server's and its tool's (seen in 18.2.3).

Each part is lower-cased, what is not a letter, a digit or ``_`` becomes ``_``, runs of it become one and those at the
ends go; a tool loses its server's name where it begins with it. One ``_`` stands between the two. Of a name that is
longer than 64 characters the end gives way to a hash of it, which is not computed here.
"""

from __future__ import annotations

from typing import Final

from opask.names import ToolName, collapse, sanitise

__all__ = ["LONGEST", "can_spell", "mangled", "spelling"]

LONGEST: Final = 64
"""Characters that a name has at most; a longer one does not stand anywhere as it is."""

_PREFIX: Final = "mcp__"
_HASH_LONGEST: Final = 9  # the separator and eight digits


def mangled(part: str) -> str:
    """Return the name of a server or a tool as it stands in a spelling; empty where nothing is left of it."""
    return collapse(sanitise(part.lower(), "a-z0-9_")).strip("_")


def _server(name: str) -> str:
    return mangled(name) or "server"


def spelling(name: ToolName) -> str:
    """Return an MCP tool's name as the model and the events have it.

    Args:
        name: the tool's.

    Returns:
        The spelling; in whole, and so not as omp has it, where it is longer than `LONGEST`.
    """
    server, tool = _server(name.server), mangled(name.tool) or "tool"
    return f"{_PREFIX}{server}_{tool.removeprefix(f'{server}_')}"


def can_spell(server: str, spelled: str) -> bool:
    """Tell whether some tool of a server could get a spelling, whatever that tool is called."""
    start = f"{_PREFIX}{_server(server)}_"
    if spelled.startswith(start):
        return True
    # Of a name that was cut only the beginning tells whose it is.
    kept = LONGEST - _HASH_LONGEST
    return len(spelled) == LONGEST and spelled[:kept].startswith(start[:kept])
