"""Trace records: what happened to each ask, for whoever runs the host.

They go to the standard logger ``opask.trace`` at INFO, structured in ``extra``; the message is the record's name.
Questions, options and answers are not traced; headers are shortened and made inert.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from opask.inert import shorten
from opask.outcomes import Outcome
from opask.questions import Ask

__all__ = ["TRACE_FIELDS", "trace_asked", "trace_settled"]

_logger = logging.getLogger("opask.trace")
_HEADER_LENGTH = 40

TRACE_FIELDS: Final = ("question_id", "session_id", "headers", "duration_ms", "outcome")
"""The attributes that a trace record carries beside its message."""


def _headers(ask: Ask) -> list[str]:
    return [shorten(question.header, _HEADER_LENGTH) for question in ask.questions]


def trace_asked(ask: Ask) -> None:
    """Record ``operator.question.asked``."""
    _record("operator.question.asked", ask, None, None)


def trace_settled(ask: Ask, outcome: Outcome, duration_ms: int) -> None:
    """Record ``operator.question.answered``, or ``operator.question.unanswered`` (skipped included).

    Args:
        ask: the ask.
        outcome: how it ended.
        duration_ms: milliseconds from ask to outcome.
    """
    name = "answered" if outcome.kind == "answered" else "unanswered"
    _record(f"operator.question.{name}", ask, duration_ms, outcome.kind)


def _record(name: str, ask: Ask, duration_ms: int | None, outcome: str | None) -> None:
    if not _logger.isEnabledFor(logging.INFO):
        return
    extra = {
        "question_id": ask.id,
        "session_id": ask.session_id,
        "headers": _headers(ask),
        "duration_ms": duration_ms,
        "outcome": outcome,
    }
    with suppress(Exception):  # a handler of the host's that fails must not cost the question
        _logger.info(name, extra=extra)
