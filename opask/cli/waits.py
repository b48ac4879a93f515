"""How long an operator may take, as a command line says it."""

from __future__ import annotations

import argparse
from contextlib import suppress
from datetime import timedelta
from typing import Final

__all__ = ["wait_of"]

_LONGEST: Final = timedelta(days=10_000)


def wait_of(value: str) -> timedelta | None:
    """Return the wait that an argument says: seconds, or ``none``.

    Raises:
        argparse.ArgumentTypeError: it is neither, or more than a deadline can hold.
    """
    if value == "none":
        return None
    with suppress(ValueError, OverflowError):
        wait = timedelta(seconds=float(value))
        if timedelta(0) < wait <= _LONGEST:
            return wait
    raise argparse.ArgumentTypeError(
        f"{value!r} is no number of seconds above 0 and within {_LONGEST.days} days, nor `none`"
    )
