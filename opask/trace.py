"""Trace records: what happened to each ask, for whoever runs the host.

They go to the standard logger ``opask.trace`` at INFO, structured in ``extra``; the message is the record's name.
Questions, options and answers are not traced; headers are shortened and made inert.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final, Literal

from opask.inert import shorten
from opask.outcomes import Outcome
from opask.questions import Ask

__all__ = ["TRACE_FIELDS", "WRITE_FIELDS", "trace_asked", "trace_settled", "trace_write"]

_logger = logging.getLogger("opask.trace")
_HEADER_LENGTH = 40

TRACE_FIELDS: Final = ("question_id", "session_id", "headers", "duration_ms", "outcome")
"""The attributes that a trace record of an ask carries beside its message."""

WRITE_FIELDS: Final = (
    "session_id",
    "turn_id",
    "agent_id",
    "tool_call_id",
    "question_id",
    "tool",
    "effect",
    "verdict",
    "scope",
    "source",
)
"""The attributes that a record of the write gate carries beside its message, ``machine.write_mode_granted``."""
_TOOL_LENGTH: Final = 120


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


def trace_write(
    *,
    session_id: str,
    tool: str,
    effect: str,
    scope: str | None,
    source: Literal["operator", "active_scope", "headless_denied"],
    turn_id: str | None = None,
    agent_id: str | None = None,
    tool_call_id: str | None = None,
    question_id: str | None = None,
) -> None:
    """Record ``machine.write_mode_granted``: a verdict of the write gate, a denial included.

    Args:
        session_id: the session.
        tool: the tool's spelling, or what the host called; it is made inert.
        effect: ``write`` or ``external``.
        scope: what was granted: ``action``, ``turn`` or ``session``; None where it was denied.
        source: ``operator``, who decided now; ``active_scope``, a grant from before; ``headless_denied``, nobody could.
        turn_id: the turn.
        agent_id: the sub-agent.
        tool_call_id: the call.
        question_id: the proposal, where one was put to the operator.
    """
    if not _logger.isEnabledFor(logging.INFO):
        return
    extra = {
        "session_id": session_id,
        "turn_id": turn_id,
        "agent_id": agent_id,
        "tool_call_id": tool_call_id,
        "question_id": question_id,
        "tool": shorten(tool, _TOOL_LENGTH),
        "effect": effect,
        "verdict": "deny" if scope is None else "allow",
        "scope": scope,
        "source": source,
    }
    with suppress(Exception):  # a handler of the host's that fails must not change the verdict
        _logger.info("machine.write_mode_granted", extra=extra)


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
