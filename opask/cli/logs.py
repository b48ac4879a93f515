"""Where log records of a command go: warnings to stderr in one line, the trace to a file."""

from __future__ import annotations

import json
import logging
import os
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from opask.cli import UsageError
from opask.cli.output import Writer
from opask.inert import inert_line

__all__ = ["logging_to"]

_TRACE = "opask.trace"
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class _Notes(logging.Handler):
    """Shows a record as one line, its traceback only for whoever looks for a fault."""

    def __init__(self, writer: Writer) -> None:
        super().__init__(logging.WARNING)
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record."""
        text = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            text += f" ({type(error).__name__}: {error})"
            if os.environ.get("OPASK_DEBUG"):
                self._writer.write("".join(traceback.format_exception(error)), "dim")
        self._writer.write(f"opask: {inert_line(text)}\n", "warning")


class _TraceLines(logging.Handler):
    """Writes trace records as JSON lines: ``time``, ``event``, and whatever the record carries."""

    def __init__(self, file: BinaryIO, notes: Writer) -> None:
        super().__init__(logging.INFO)
        self._file = file
        self._notes = notes
        self._failed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; what cannot be written is told, once."""
        extra = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        time = datetime.fromtimestamp(record.created, UTC).isoformat()
        line = {"time": time, "event": record.getMessage(), **extra}
        left = memoryview(json.dumps(line, default=str).encode() + b"\n")
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            if not self._failed:
                why = error.strerror or str(error)
                self._notes.write(f"opask: the trace lacks records: {inert_line(why)}\n", "warning")
            self._failed = True


@contextmanager
def logging_to(writer: Writer) -> Iterator[None]:
    """Show warnings with a writer, and write the trace to the file that ``OPASK_TRACE`` names, for the block.

    Raises:
        UsageError: that file cannot be written.
    """
    path = os.environ.get("OPASK_TRACE")
    with ExitStack() as stack:
        _add(stack, logging.getLogger(), _Notes(writer))
        if path:
            try:
                file = stack.enter_context(Path(path).open("ab", buffering=0))
            except OSError as error:
                why = error.strerror or str(error)
                raise UsageError(
                    f"OPASK_TRACE={path}: cannot be written ({why}); name another file"
                ) from None
            trace = logging.getLogger(_TRACE)
            stack.callback(trace.setLevel, trace.level)
            trace.setLevel(logging.INFO)
            _add(stack, trace, _TraceLines(file, writer))
        yield


def _add(stack: ExitStack, logger: logging.Logger, handler: logging.Handler) -> None:
    logger.addHandler(handler)
    stack.callback(logger.removeHandler, handler)
