"""Make an agent's text safe to show.

Terminal escapes (ECMA-48 control functions), other control characters, bidirectional overrides
(Unicode TR36, TR9) and invisible formatting are made visible, so that none takes effect.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["encodable", "inert", "inert_line", "shorten"]

_KEPT_FORMAT = frozenset("\u200c\u200d")  # joiners: needed by several scripts and by emoji, and harmless
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\ud800-\udfff]"
)


def _visible(match: re.Match[str]) -> str:
    character = match.group()
    point = ord(character)
    if point < 0x20:
        return chr(0x2400 + point)  # the control picture: ESC shows as ␛
    if point == 0x7F:
        return "\u2421"
    return f"<U+{point:04X}>"


def encodable(text: str) -> str:
    """Return the text so that UTF-8 can encode it: surrogate pairs joined, lone surrogates replaced by U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def inert(text: str) -> str:
    """Return the text with nothing left in it that a terminal or a reader could be fooled by.

    Newlines and tabs stay; carriage returns before a newline go; every other control or invisible
    formatting character is replaced by something that can be seen. Idempotent.
    """
    return _UNSAFE.sub(_visible, text.replace("\r\n", "\n"))


def inert_line(text: str) -> str:
    """Return the text made inert and on one line."""
    return " ".join(inert(text).split())


def shorten(text: str, limit: int) -> str:
    """Return one inert line of at most ``limit`` characters, with an ellipsis where it was cut.

    A cut never takes a mark or a joiner from the letter it belongs to: then the letter goes too.
    """
    line = inert_line(text)
    if len(line) <= limit:
        return line
    if limit < 1:
        return ""
    end = limit - 1
    while end > 0 and (unicodedata.category(line[end]).startswith("M") or line[end] in _KEPT_FORMAT):
        end -= 1
    return line[:end].rstrip() + "…"
