"""Signals to a command that runs an agent: the first one ends the run in good order, a second one at once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

import anyio

__all__ = ["SIGNALS", "Stopping"]

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends a command in good order."""


class Stopping:
    """Cancels a scope when a signal comes, or when there is another reason to stop.

    Attributes:
        scope: what is cancelled; may be replaced as a run goes on.
        by: the signal that came first, None where none did.
        first: what is called before the scope is cancelled.
        hasten: what is called when there is a reason to stop and it is stopping already.
    """

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.by: signal.Signals | None = None
        self.first: Callable[[], object] | None = None
        self.hasten: Callable[[], object] | None = None

    async def watch(self) -> None:
        """Take signals until cancelled; for the main thread of a process alone."""
        with anyio.open_signal_receiver(*SIGNALS) as signals:
            async for number in signals:
                self.stop(number)

    def interrupt(self) -> None:
        """Do what Ctrl-C does."""
        self.stop(signal.SIGINT)

    def stop(self, number: signal.Signals | None = None) -> None:
        """Stop, for a signal or for another reason."""
        self.by = self.by or number
        call = self.hasten if self.scope.cancel_called else self.first
        if call is not None:
            call()
        self.scope.cancel()
