"""Times that are promised, held on a machine that may be busy: that makes a thing slower now and then, and never quicker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Final

__all__ = ["Timed", "tries"]

TRIES: Final = 10


class Timed:
    """Takes the time of the block that it is entered for.

    Attributes:
        took: seconds; None where the block was left by an error, or never entered.
    """

    took: float | None = None

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.took = time.monotonic() - self._began


def tries(within: float) -> Iterator[Timed]:
    """Give one try after another until what is timed in it was as quick as is promised; fail if none was.

    Args:
        within: seconds.
    """
    took: list[float] = []
    while len(took) < TRIES:
        timed = Timed()
        yield timed
        assert timed.took is not None, "nothing was timed"
        if timed.took < within:
            return
        took.append(timed.took)
    raise AssertionError(f"never within {within} s: {', '.join(f'{each:.2f}' for each in took)}")
