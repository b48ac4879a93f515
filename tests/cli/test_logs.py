from __future__ import annotations

import io
import json
import logging
import re
from datetime import datetime
from pathlib import Path

import pytest

from opask.cli import UsageError
from opask.cli.logs import logging_to
from opask.cli.output import Stream


def test_a_warning_is_one_line_without_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the library logs is shown in a line, inert, with the error's name and not its traceback."""
    page = io.StringIO()
    with logging_to(Stream(page)):
        try:
            raise ValueError("bad\nvalue\x1b")
        except ValueError:
            logging.getLogger("opask.bridge").exception("the prompter failed")
        logging.getLogger("opask.bridge").info("not shown")
    logging.getLogger("opask.bridge").error("after the block")
    assert page.getvalue() == "opask: the prompter failed (ValueError: bad value␛)\n"


def test_whoever_looks_for_a_fault_gets_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """With OPASK_DEBUG set, the traceback is shown too."""
    monkeypatch.setenv("OPASK_DEBUG", "1")
    page = io.StringIO()
    with logging_to(Stream(page)):
        try:
            raise ValueError("bad")
        except ValueError:
            logging.getLogger("opask").exception("failed")
    assert "Traceback" in page.getvalue()


def test_the_trace_goes_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every trace record becomes a line of JSON with all that it carries, behind what is there already."""
    file = tmp_path / "trace.jsonl"
    file.write_text('{"event": "before"}\n', encoding="utf-8")
    monkeypatch.setenv("OPASK_TRACE", str(file))
    trace = logging.getLogger("opask.trace")
    with logging_to(Stream(io.StringIO())):
        trace.info(
            "operator.question.asked", extra={"question_id": "q", "headers": ["H"], "duration_ms": None}
        )
        trace.info("machine.write_mode_granted", extra={"mode": "write"})
    trace.info("after the block")
    before, asked, granted = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert before == {"event": "before"}
    assert datetime.fromisoformat(asked.pop("time")).utcoffset() is not None
    assert asked == {
        "event": "operator.question.asked",
        "question_id": "q",
        "headers": ["H"],
        "duration_ms": None,
    }
    granted.pop("time")
    assert granted == {"event": "machine.write_mode_granted", "mode": "write"}


def test_a_trace_that_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be opened is wrong usage, before anything is run."""
    monkeypatch.setenv("OPASK_TRACE", "/nowhere/trace.jsonl")
    told = re.escape("OPASK_TRACE=/nowhere/trace.jsonl: cannot be written")
    with pytest.raises(UsageError, match=told), logging_to(Stream(io.StringIO())):
        raise AssertionError


def test_a_full_disk_costs_the_trace_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that cannot be written are told once; whoever traces goes on, and so does the command."""
    monkeypatch.setenv("OPASK_TRACE", "/dev/full")
    page = io.StringIO()
    with logging_to(Stream(page)):
        for _ in range(3):
            logging.getLogger("opask.trace").info("operator.question.asked")
    assert page.getvalue() == "opask: the trace lacks records: No space left on device\n"
