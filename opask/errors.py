"""The errors that opask raises on purpose."""

from __future__ import annotations

__all__ = [
    "AdapterError",
    "AnswerError",
    "BridgeError",
    "GateError",
    "LaunchError",
    "OpaskError",
    "RecordingError",
    "RegistryError",
    "RelayError",
    "RuntimeUnavailableError",
    "SocketPathError",
    "SurfaceError",
    "UnknownRuntimeError",
    "UnverifiedRouteError",
    "WaitTooLongError",
]


class OpaskError(Exception):
    """Base of every error that opask raises on purpose.

    The message names what is wrong, where, and what to do about it.
    """


class AnswerError(OpaskError):
    """An answer does not fit its question.

    Attributes:
        question: index of the question within its ask, from 0; None when the ask as a whole is meant.
    """

    def __init__(self, message: str, *, question: int | None = None) -> None:
        super().__init__(message)
        self.question = question


class AdapterError(OpaskError):
    """An adapter could not be loaded, or does not keep the contract."""


class UnknownRuntimeError(AdapterError):
    """No installed adapter serves this runtime.

    Attributes:
        runtime: the name that was asked for.
        known: the names that are installed, sorted.
    """

    def __init__(self, runtime: str, known: tuple[str, ...]) -> None:
        listed = ", ".join(known) or "none"
        generic = ", or take 'acp' where it speaks that" if "acp" in known else ""
        super().__init__(
            f"no adapter for runtime {runtime!r} is installed (installed: {listed}); "
            f"install a package that registers it in the entry-point group 'opask'{generic}"
        )
        self.runtime = runtime
        self.known = known


class LaunchError(OpaskError):
    """A runtime cannot be launched as asked.

    Attributes:
        runtime: the adapter's runtime name.
        what: the argument, variable or setting at fault.
    """

    def __init__(self, message: str, *, runtime: str, what: str) -> None:
        super().__init__(message)
        self.runtime = runtime
        self.what = what


class UnverifiedRouteError(LaunchError):
    """Nobody has seen this route work, and the host did not say that it wants it all the same."""


class WaitTooLongError(LaunchError):
    """The wait for an answer cannot be had on this route."""


class RuntimeUnavailableError(LaunchError):
    """The runtime's program is missing or cannot be started."""


class GateError(OpaskError):
    """A gate cannot be set up, or was used in a way that it is not made for."""


class BridgeError(OpaskError):
    """The bridge could not open, or was used after it closed."""


class SocketPathError(BridgeError):
    """No private folder with a short enough socket path could be had."""


class SurfaceError(OpaskError):
    """A surface cannot be used as it was."""


class RelayError(BridgeError):
    """The interpreter that has to run the relay does not work."""


class RegistryError(OpaskError):
    """A registry cannot be read, or cannot be edited as asked.

    Attributes:
        file: the registry's file, as it was given.
        row: the row at fault, such as ``claude/mcp-stdio@2.1.332``; None for the file as a whole.
        field: the field at fault within the row; None for the row as a whole.
        faults: every fault that was found, as (row, field, what is wrong and what to do); the message tells the first.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str,
        row: str | None = None,
        field: str | None = None,
        faults: tuple[tuple[str | None, str | None, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.file = file
        self.row = row
        self.field = field
        self.faults = faults or ((row, field, message),)


class RecordingError(OpaskError):
    """A recording is not of the form that recordings have.

    Attributes:
        line: the line at fault, from 1; None for the recording as a whole.
    """

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line
