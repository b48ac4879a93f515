"""The seam to the operator: a host gives a prompter, opask asks it."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Protocol, runtime_checkable

from opask.outcomes import Outcome, Reply
from opask.questions import Ask

__all__ = ["Prompter", "Wait", "current_prompter", "current_wait", "use_prompter", "use_wait"]


@runtime_checkable
class Prompter(Protocol):
    """Whoever can put a question to the operator.

    ``ask`` runs on the host's own event loop; a plain function runs in a worker thread instead.
    It is cancelled when the ask ends otherwise. An exception in it is logged and becomes `Unavailable`.

    Where a prompter itself has an attribute ``any_loop`` that is true, its ``ask`` may run on any asyncio event loop,
    in any thread, and the others may be called there. It is then run on the bridge's own, so that a busy host keeps
    neither a question nor an answer waiting; a session that closes waits a second for it to hear how its asks ended.
    """

    def ask(self, ask: Ask, /) -> Awaitable[Reply] | Reply:
        """Put an ask to the operator and return the reply."""
        ...

    def settled(self, ask: Ask, outcome: Outcome, /) -> None:
        """Hear how an ask ended: called exactly once for each, whatever happened; never awaited."""
        ...

    def available(self, session_id: str, /) -> bool:
        """Tell whether an operator is there now; asked at launch and again at each ask."""
        ...


_current: ContextVar[Prompter | None] = ContextVar("opask_prompter", default=None)


def current_prompter() -> Prompter | None:
    """Return the prompter carried in this context, None where there is none."""
    return _current.get()


@contextmanager
def use_prompter(prompter: Prompter | None) -> Iterator[None]:
    """Carry a prompter in this context, for hosts that attach sessions deep in a call stack.

    `Bridge.attach` takes it where it is given none.
    """
    token = _current.set(prompter)
    try:
        yield
    finally:
        _current.reset(token)


class Wait(Protocol):
    """The bounded wait of one ask, in the hand of the prompter that is asked."""

    @property
    def latest(self) -> datetime | None:
        """The latest that the wait can be made to last (aware, UTC), as the route allows; None for no bound."""
        ...

    def extend(self, until: datetime, /) -> None:
        """Let the wait last until then, or `latest` where that is earlier; never shorter. Thread-safe, never blocks.

        A wait that is over stays so.
        """
        ...


_current_wait: ContextVar[Wait | None] = ContextVar("opask_wait", default=None)


def current_wait() -> Wait | None:
    """Return the wait of the ask that is being put, for `Prompter.ask`; None where it cannot be extended."""
    return _current_wait.get()


@contextmanager
def use_wait(wait: Wait | None) -> Iterator[None]:
    """Carry a wait in this context; for whoever calls a prompter."""
    token = _current_wait.set(wait)
    try:
        yield
    finally:
        _current_wait.reset(token)
