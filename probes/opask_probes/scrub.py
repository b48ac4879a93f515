"""Take out of a recording what is of this machine, its user, or a vendor's own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

__all__ = ["LONG", "Scrubber"]

LONG: Final = 400
"""Characters that a text may have; a scripted one is shorter, and a longer one is a vendor's."""

_SHOWN: Final = 60
# What a slash begins that no name, placeholder, address or other slash stands before.
_PATH: Final = re.compile(r"(?<![\w./~$%#<>{}@:-])/(?:[\w.@+-]+/)+[\w.@+-]*|(?<=file://)/[\w.@+/-]+")
_WINDOWS_PATH: Final = re.compile(r"(?<![\w/])[A-Za-z]:\\[\w.\\-]+")
_KEY: Final = re.compile(
    r"\bsk-[\w-]+"
    r"|\b(?:ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs])[_-][\w-]{10,}"
    r"|\bA(?:KIA|SIA)[A-Z0-9]{12,}"
    r"|\bAIza[\w-]{20,}"
    r"|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"
    r"|(?i:(?<=bearer )[\w.~+/-]{8,})"
)
_ADDRESS: Final = re.compile(r"\b[\w.+-]+@(?!example\.)[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}\b")


class Scrubber:
    """Cleans texts and values.

    Args:
        places: placeholders by the paths that they stand for; also found where a runtime writes a path with dashes
            for its slashes.
        names: this machine's and its user's.
        dropped: names of fields that are left out, whatever is in them.
    """

    def __init__(
        self, places: Mapping[str, str], names: Iterable[str] = (), dropped: Iterable[str] = ()
    ) -> None:
        known = {path.rstrip("/"): name for path, name in places.items() if path.rstrip("/")}
        known |= {path.replace("/", "-"): f"{name[:-1]}-slug>" for path, name in known.items()}
        # A place within another one goes first.
        self._known = sorted(known.items(), key=lambda one: -len(one[0]))
        self._names = [
            re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])", re.IGNORECASE) for name in names if name
        ]
        self._dropped = frozenset(dropped)

    def text(self, text: str, *, cut: bool = True) -> str:
        """Return a text with placeholders for what is not to be told; a long one is cut, unless told otherwise."""
        for path, placeholder in self._known:
            text = text.replace(path, placeholder)
        text = _KEY.sub("<key>", text)
        text = _ADDRESS.sub("<address>", text)
        text = _WINDOWS_PATH.sub("<path>", _PATH.sub("<path>", text))
        for name in self._names:
            text = name.sub("<name>", text)
        return text if len(text) <= LONG or not cut else f"{text[:_SHOWN]}… ({len(text)} characters)"

    def value(self, value: Any) -> Any:
        """Return a JSON value, all its texts and field names clean."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {
                self.text(str(key)): self.value(item)
                for key, item in value.items()
                if key not in self._dropped
            }
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value

    def line(self, line: str) -> Any:
        """Return a line of stdio: a JSON object, or the text that it is."""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        return self.value(value) if isinstance(value, dict) else self.text(line)
