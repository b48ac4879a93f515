"""How a command line starts Kimi: as a server of ACP, or for one prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

__all__ = ["OUTPUT", "Mode", "mode_of", "prints_json"]

Mode = Literal["acp", "print"]

OUTPUT: Final = ("--output-format", "stream-json")
"""The options by which one prompt's output can be heard."""

_FORMAT_ENV: Final = "KIMI_MODEL_OUTPUT_FORMAT"


def mode_of(argv: Sequence[str]) -> Mode | None:
    """Tell what a command line starts; None for a session on a terminal, which needs one.

    Args:
        argv: program and arguments; whatever runs the program may stand before it.
    """
    arguments = argv[1:]
    # Behind an option it would be the option's value.
    if any(
        argument == "acp" and not before.startswith("-")
        for before, argument in zip(argv, arguments, strict=False)
    ):
        return "acp"
    if any(argument.startswith("-p") or argument.partition("=")[0] == "--prompt" for argument in arguments):
        return "print"
    return None


def prints_json(argv: Sequence[str], env: Mapping[str, str]) -> bool:
    """Tell whether the output for one prompt is JSON lines."""
    name, wanted = OUTPUT
    formats = [
        argv[at + 1] if argument == name and at + 1 < len(argv) else argument.partition("=")[2]
        for at, argument in enumerate(argv)
        if argument == name or argument.startswith(f"{name}=")
    ]
    return (formats or [env.get(_FORMAT_ENV, "").strip()])[-1] == wanted
