"""How Kimi Code makes a tool's name from an MCP server's and its tool's (seen in 2.1.0).

In each part every character but letters, digits, ``_`` and ``-`` becomes ``_``, and a run of ``_`` one; the whole has 64
characters at most, the rest of a longer one gives way to a hash of it (FNV-1a, printed as a signed number).
"""

from __future__ import annotations

from typing import Final

from opask.names import ToolName, collapse, cut, sanitise

__all__ = ["can_spell", "mangled", "spelling"]

_TEMPLATE: Final = "mcp__{server}__{tool}"
_LONGEST: Final = 64
_HASH_LONGEST: Final = 10  # the separator, a sign and eight digits
_OFFSET: Final = 2166136261
_PRIME: Final = 16777619


def mangled(part: str) -> str:
    """Return the name of a server or a tool as it stands in a spelling; several names can give the same."""
    return collapse(sanitise(part, "A-Za-z0-9_-"))


def spelling(name: ToolName) -> str:
    """Return an MCP tool's name as the model, the events and the permission requests have it."""
    return cut(name.spelled(_TEMPLATE, mangled), _LONGEST, lambda whole: f"_{_hash(whole)}")


def can_spell(server: str, spelled: str) -> bool:
    """Tell whether some tool of a server could get a spelling, whatever that tool is called."""
    start = ToolName(server, "").spelled(_TEMPLATE, mangled)
    if spelled.startswith(start):
        return True
    # Of a name that was cut only the beginning tells whose it is.
    return len(spelled) == _LONGEST and spelled[: _LONGEST - _HASH_LONGEST].startswith(
        start[: _LONGEST - _HASH_LONGEST]
    )


def _hash(text: str) -> str:
    value = _OFFSET
    for character in text:
        value = (value ^ ord(character)) * _PRIME & 0xFFFFFFFF
    signed = value - (1 << 32) if value >> 31 else value
    return format(signed, "x").rjust(8, "0")
