"""What the API answers where it does not do what was asked: a status, a code for programs, a sentence for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import Response

from opask.errors import AnswerError
from opask.inbox import AnswerMisfitError as MisfitError
from opask.inbox import (
    Entry,
    InboxError,
    OpenAsksError,
    RefusedError,
    UnknownAskError,
    UnknownSessionError,
    entry_to_json,
)

__all__ = ["JsonResponse", "Refusal", "refusal_of"]

_HTTP: Final[Mapping[int, tuple[str, str]]] = {
    404: ("not_found", "There is nothing at this address."),
    405: ("method_not_allowed", "This address does not take this method."),
}


class JsonResponse(Response):
    """JSON in ASCII, so that a lone surrogate in an agent's text does no harm."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")


class Refusal(Exception):  # noqa: N818 - a response, raised from wherever it becomes clear
    """A request that is not granted.

    Args:
        status: the HTTP status.
        code: what is wrong, in a word for programs.
        message: the same in a sentence for a person.
        entry: the ask as it is, where it stands in the way.
        ask_ids: the asks that do, where they are several.
        headers: further headers.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        entry: Entry | None = None,
        ask_ids: tuple[str, ...] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.entry = entry
        self.ask_ids = ask_ids
        self.headers = headers

    def response(self) -> JsonResponse:
        """Return it as it is sent."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.entry is not None:
            error["ask"] = entry_to_json(self.entry)
        if self.ask_ids is not None:
            error["ask_ids"] = list(self.ask_ids)
        return JsonResponse({"error": error}, self.status, self.headers)


def refusal_of(error: Exception) -> Refusal | None:
    """Return what a request is answered with for an error; None for one that should not be."""
    match error:
        case Refusal():
            return error
        case UnknownAskError() | UnknownSessionError():
            code = error.code if isinstance(error, UnknownAskError) else "unknown_session"
            return Refusal(404, code, str(error))
        case MisfitError():
            return Refusal(400, error.code, str(error), entry=error.entry)
        case RefusedError():
            return Refusal(409, error.code, str(error), entry=error.entry)
        case OpenAsksError():
            return Refusal(409, "open_asks", str(error), ask_ids=error.ask_ids)
        case AnswerError():
            return Refusal(400, MisfitError.code, str(error))
        case InboxError():
            return Refusal(503, "inbox_unavailable", str(error))
        case HTTPException():
            code, message = _HTTP.get(error.status_code, ("refused", error.detail))
            return Refusal(error.status_code, code, message, headers=error.headers)
    return None
