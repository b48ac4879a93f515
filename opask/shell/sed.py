"""Tell whether a script of sed only prints; ``w``, ``e``, ``r`` and all that is not listed here may do more."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["only_prints"]


def _pattern(delimiter: str) -> str:
    """Return what matches a pattern up to its delimiter, the same whether brackets hide a delimiter or not."""
    end = re.escape(delimiter)
    inside = rf"[^\]^\[\\\n{end}]"
    bracket = rf"\[\^?(?:\[:[a-z]+:\]|{inside})+\]"
    return rf"(?:[^\\\n\[{end}]|\\[^\n]|{bracket})*"


def _substitution(delimiter: str) -> str:
    end = re.escape(delimiter)
    return rf"s{end}{_pattern(delimiter)}{end}(?:[^\\\n{end}]|\\[^\n])*{end}[gpiI0-9]*"


_ADDRESS: Final = rf"(?:\d+|\$|/{_pattern('/')}/I?|\d+~\d+)"
_ADDRESSES: Final = rf"(?:{_ADDRESS}(?:,(?:{_ADDRESS}|\+\d+))?[ ]*!?[ ]*)?"
_COMMAND: Final = rf"{_ADDRESSES}(?:[pdq=]|{'|'.join(map(_substitution, '/|,#@'))})"
_SCRIPT: Final = re.compile(rf"[ ]*{_COMMAND}[ ]*(?:[;\n][ ]*{_COMMAND}[ ]*)*;?[ ]*")
_LONGEST: Final = 300


def only_prints(script: str) -> bool:
    """Tell whether every command of a script is one that prints, deletes from what is printed, or replaces in it."""
    return len(script) <= _LONGEST and _SCRIPT.fullmatch(script) is not None
