from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

from opask.cli import UsageError
from opask.cli.operators import read_answers

ANSWERS = {"One?": "A", "Many?": ["A", "B"], "Free?": "anything else", "Skip?": None}


def test_answers_are_read_as_they_are() -> None:
    """Labels, lists of labels, free text and null are what a script may give."""
    assert read_answers(json.dumps(ANSWERS)) == ANSWERS
    assert read_answers("{}") == {}


def test_answers_are_read_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``@FILE`` reads the same from a file, ``@-`` from standard input."""
    file = tmp_path / "answers.json"
    file.write_text(json.dumps(ANSWERS), encoding="utf-8")
    assert read_answers(f"@{file}") == ANSWERS
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(ANSWERS)))
    assert read_answers("@-") == ANSWERS


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("", "--answers: no JSON"),
        ("SQLite", "--answers: no JSON"),
        ("[" * 100_000, "--answers: no JSON"),
        ("[]", "--answers: has to be an object"),
        ('"x"', "--answers: has to be an object"),
        (
            '{"One?": 1}',
            "--answers: the answer to 'One?' has to be a label, a list of labels, some text, or null",
        ),
        ('{"One?": true}', "--answers: the answer to 'One?'"),
        ('{"One?": []}', "--answers: the answer to 'One?'"),
        ('{"One?": " "}', "--answers: the answer to 'One?'"),
        ('{"One?": ["A", null]}', "--answers: the answer to 'One?'"),
        ("@/nowhere", "--answers @/nowhere: cannot be read (No such file or directory)"),
    ],
)
def test_answers_that_cannot_be_read_are_told(value: str, told: str) -> None:
    """Anything else is wrong usage, and the message says where and what to write."""
    with pytest.raises(UsageError, match=re.escape(told)):
        read_answers(value)


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    """A file that is not UTF-8 is named."""
    file = tmp_path / "answers.json"
    file.write_bytes(b"\xff")
    with pytest.raises(UsageError, match=r"cannot be read \(it is not UTF-8\)"):
        read_answers(f"@{file}")
