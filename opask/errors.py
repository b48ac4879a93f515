"""The errors that opask raises on purpose."""

from __future__ import annotations

__all__ = [
    "AdapterError",
    "AnswerError",
    "BridgeError",
    "LaunchError",
    "OpaskError",
    "RelayError",
    "RuntimeUnavailableError",
    "SocketPathError",
    "UnknownRuntimeError",
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
        super().__init__(
            f"no adapter for runtime {runtime!r} is installed (installed: {listed}); "
            "install a package that registers it in the entry-point group 'opask'"
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


class WaitTooLongError(LaunchError):
    """The wait for an answer cannot be had on this route."""


class RuntimeUnavailableError(LaunchError):
    """The runtime's program is missing or cannot be started."""


class BridgeError(OpaskError):
    """The bridge could not open, or was used after it closed."""


class SocketPathError(BridgeError):
    """No private folder with a short enough socket path could be had."""


class RelayError(BridgeError):
    """The interpreter that has to run the relay does not work."""
