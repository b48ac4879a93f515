from __future__ import annotations

import json
import logging
from datetime import timedelta

import pytest

from core.values import ask_of
from opask.outcomes import Abandoned, Answered, Cancelled, Outcome, Skipped, TimedOut, Unavailable
from opask.questions import Answer, Option, Question
from opask.trace import TRACE_FIELDS, trace_asked, trace_settled

SECRET = Question(
    "secret text", "Data\x1b[2Jbase " + "x" * 50, [Option("secret label", "secret description")]
)
ASK = ask_of(SECRET, Question("secret too"), id="q7")
HEADERS = ["Data\u241b[2Jbase " + "x" * 26 + "…", ""]
OUTCOMES: list[tuple[Outcome, str]] = [
    (Answered([Answer((0,)), Answer(text="secret words")], "terminal"), "answered"),
    (Skipped("terminal"), "unanswered"),
    (TimedOut(timedelta(minutes=5)), "unanswered"),
    (Cancelled("operator"), "unanswered"),
    (Abandoned("agent"), "unanswered"),
    (Unavailable("secret reason"), "unanswered"),
]
PLAIN = set(vars(logging.makeLogRecord({})))


def fields(record: logging.LogRecord) -> dict[str, object]:
    """Return what a record carries beside what every log record has."""
    return {key: value for key, value in vars(record).items() if key not in PLAIN | {"message"}}


@pytest.fixture(autouse=True)
def _traced(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "opask.trace")


def test_an_ask_is_traced(caplog: pytest.LogCaptureFixture) -> None:
    """An ask leaves one record with its ids and headers, the headers inert and shortened."""
    trace_asked(ASK)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("opask.trace", "INFO")
    assert record.getMessage() == "operator.question.asked"
    assert fields(record) == {
        "question_id": "q7",
        "session_id": "s1",
        "headers": HEADERS,
        "duration_ms": None,
        "outcome": None,
    }


@pytest.mark.parametrize(("outcome", "name"), OUTCOMES, ids=[outcome.kind for outcome, _ in OUTCOMES])
def test_each_outcome_is_traced(outcome: Outcome, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """How an ask ended leaves one record: answered, or unanswered with the kind of outcome, a skip included."""
    trace_settled(ASK, outcome, 1500)
    (record,) = caplog.records
    assert record.getMessage() == f"operator.question.{name}"
    assert fields(record) == {
        "question_id": "q7",
        "session_id": "s1",
        "headers": HEADERS,
        "duration_ms": 1500,
        "outcome": outcome.kind,
    }


@pytest.mark.parametrize("outcome", [outcome for outcome, _ in OUTCOMES], ids=lambda outcome: outcome.kind)
def test_nothing_that_was_asked_or_answered_is_traced(
    outcome: Outcome, caplog: pytest.LogCaptureFixture
) -> None:
    """No question, option, description, answer or reason gets into a record, which is plain JSON."""
    trace_asked(ASK)
    trace_settled(ASK, outcome, 1)
    assert len(caplog.records) == 2
    for record in caplog.records:
        assert tuple(fields(record)) == TRACE_FIELDS
        assert "secret" not in json.dumps(fields(record))
        assert "secret" not in str(vars(record))


def test_a_handler_that_fails_costs_nothing_but_its_record() -> None:
    """A host's own logging is no part of the question's way."""

    class Failing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("no space left")

    handler = Failing()
    logging.getLogger("opask.trace").addHandler(handler)
    try:
        trace_asked(ASK)
        trace_settled(ASK, Skipped("terminal"), 1)
    finally:
        logging.getLogger("opask.trace").removeHandler(handler)
