"""Why an inbox did not take something: typed, and with what stands in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from opask.errors import OpaskError

if TYPE_CHECKING:
    from opask.inbox.entries import Entry

__all__ = [
    "AlreadyResolvedError",
    "AnswerMisfitError",
    "InboxError",
    "OpenAsksError",
    "RefusedError",
    "TooLateError",
    "UnknownAskError",
    "UnknownSessionError",
    "WrongSessionError",
]


class InboxError(OpaskError):
    """An inbox cannot be opened or used as asked."""


class RefusedError(InboxError):
    """An answer, or something else for one ask, was not taken; the ask is as it was before.

    Attributes:
        code: what is wrong, in a word for programs.
        ask_id: the ask that was named.
        entry: the ask as it is, None where there is none or it is not the caller's to see.
    """

    code: ClassVar[str] = "refused"

    def __init__(self, message: str, *, ask_id: str, entry: Entry | None = None) -> None:
        super().__init__(message)
        self.ask_id = ask_id
        self.entry = entry


class UnknownAskError(RefusedError):
    """There is no ask of this id."""

    code = "unknown_ask"


class WrongSessionError(RefusedError):
    """The ask is another session's."""

    code = "wrong_session"


class AlreadyResolvedError(RefusedError):
    """An operator has decided already; the first decision stands."""

    code = "already_resolved"


class TooLateError(RefusedError):
    """The agent no longer waits: `opask.inbox.follow_up` turns the answer into the text of the next prompt."""

    code = "too_late"


class AnswerMisfitError(RefusedError):
    """The answer does not fit the questions; the ask stays open.

    Attributes:
        question: index of the question at fault, from 0; None where the ask as a whole is meant.
    """

    code = "misfit"

    def __init__(
        self, message: str, *, ask_id: str, entry: Entry | None = None, question: int | None = None
    ) -> None:
        super().__init__(message, ask_id=ask_id, entry=entry)
        self.question = question


class UnknownSessionError(InboxError):
    """There is no session of this id."""


class OpenAsksError(InboxError):
    """A conversation still has open asks, so it cannot be cleared.

    Attributes:
        ask_ids: which.
    """

    def __init__(self, message: str, *, ask_ids: tuple[str, ...]) -> None:
        super().__init__(message)
        self.ask_ids = ask_ids
