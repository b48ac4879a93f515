"""Bytes into lines. Sans-IO."""

from __future__ import annotations

__all__ = ["LineCutter"]


class LineCutter:
    """Cuts bytes into lines, however they arrive.

    Blank lines are left out, a carriage return at a line's end too; what is not UTF-8 is replaced.

    Args:
        limit: bytes that a line may have; of a longer one nothing is kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._too_long = False

    def feed(self, data: bytes) -> list[str | None]:
        """Take in some bytes; return the lines that they complete, None for one that is too long."""
        *ended, rest = data.split(b"\n")
        lines: list[str | None] = []
        for part in ended:
            self._keep(part)
            lines += self.end()
        self._keep(rest)
        return lines

    def end(self) -> list[str | None]:
        """Take in that the line is over without a newline; return it, if it is one."""
        line = None if self._too_long else self._rest.decode(errors="replace").rstrip("\r")
        self._rest.clear()
        self._too_long = False
        return [line] if line is None or line.strip() else []

    def _keep(self, part: bytes) -> None:
        if self._too_long or len(self._rest) + len(part) > self._limit:
            self._too_long = True
            self._rest.clear()
        else:
            self._rest += part
