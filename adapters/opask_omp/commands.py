"""Read a host's own command line of omp, as far as a launch has to know it (18.2.3)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import field, frozen

__all__ = ["CommandLine"]

# Options that take the next argument for their value, whatever it looks like.
_TAKE_VALUE: Final = frozenset(
    {
        "--add-dir",
        "--alias",
        "--api-key",
        "--append-system-prompt",
        "--approval-mode",
        "--config",
        "--cwd",
        "--export",
        "--extension",
        "--fork",
        "--hook",
        "--max-time",
        "--mode",
        "--model",
        "--models",
        "--plan-yolo-into",
        "--plugin-dir",
        "--prewalk-into",
        "--profile",
        "--prompt-cache-key",
        "--provider",
        "--provider-session-id",
        "--service-tier",
        "--session-dir",
        "--skills",
        "--slow",
        "--smol",
        "--system-prompt",
        "--thinking",
        "--tools",
        "--trusted-extension",
        "-e",
    }
)
_PROGRAM: Final = re.compile(r"omp(?:\.exe|\.cmd)?")


@frozen
class CommandLine:
    """A command line of omp, with whatever starts it in front.

    Args:
        argv: program and arguments.
    """

    argv: tuple[str, ...] = field(converter=tuple[str, ...])

    @property
    def _read(self) -> Iterator[tuple[str, str | None]]:
        """Give the options with their values, and what is no option under an empty name."""
        arguments = iter(self.argv[1 : self.end])
        for argument in arguments:
            name, glue, value = argument.partition("=")
            if not name.startswith("-"):
                yield "", argument
            elif glue and name.startswith("--"):
                yield name, value
            else:
                yield argument, next(arguments, None) if argument in _TAKE_VALUE else None

    @property
    def end(self) -> int:
        """Where more options can be put: before the ``--`` that ends them, or last."""
        at = 1
        while at < len(self.argv) and self.argv[at] != "--":
            at += 2 if self.argv[at] in _TAKE_VALUE else 1
        return min(at, len(self.argv))

    @property
    def unfinished(self) -> str | None:
        """The option at the end that lacks its value, and would take the next thing for it."""
        return next((name for name, value in self._read if name in _TAKE_VALUE and value is None), None)

    @property
    def serves(self) -> bool:
        """Whether it starts a server of ACP, or something that is not known to be omp."""
        if not self.argv or _PROGRAM.fullmatch(re.split(r"[/\\]", self.argv[0])[-1]) is None:
            return True
        read = list(self._read)
        return ("", "acp") in read or ("--mode", "acp") in read

    def last(self, name: str) -> str | None:
        """Return the value that counts for an option: its last; None where it is not there."""
        values = [value for option, value in self._read if option == name]
        return values[-1] if values else None

    def has(self, name: str) -> bool:
        """Tell whether an option is there."""
        return any(option == name for option, _ in self._read)

    def with_options(self, options: Sequence[str]) -> tuple[str, ...]:
        """Return the argv with more options behind the others, each complete in itself (``--name=value``)."""
        return (*self.argv[: self.end], *options, *self.argv[self.end :])
