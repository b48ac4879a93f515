"""The command line: ``opask COMMAND …``.

Each command is a module of this package with ``HELP``, ``EXAMPLE``, ``configure(parser)`` and ``run(args)``, which
returns the exit code; only the module of the command that is given is loaded. One that reads arguments behind a
``--`` says so with ``TAKES_REST = True`` and finds them in ``args.rest``.

Exit codes: 0 done; 1 what was asked for failed; 2 wrong usage or unusable input; 130 interrupted, 128+n where
signal n ended it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NoReturn

from opask.errors import AdapterError, BridgeError, OpaskError, SurfaceError, UnknownRuntimeError
from opask.inert import inert_line

__all__ = ["COMMANDS", "UsageError", "main"]

COMMANDS: Final[Mapping[str, str]] = {
    "demo": "see a question asked and answered, with a scripted agent",
    "run": "run an agent that can ask you",
    "serve": "serve the page on which agents' questions wait for you",
    "inbox": "show the questions that wait for you, and answer them",
    "routes": "show which runtime can ask by which route, beside the versions installed here",
    "mcp": "let another agent drive runs and answer their questions, as an MCP server",
    "registry": "work with the registry of routes",
    "probe": "try on the real runtime, with a scripted model, whether its agents can ask",
    "replay": "print the events that a recording of a runtime gives",
}
"""The commands and what each does; one whose module is not there is left out."""

_FAILED: Final = 1
_UNUSABLE: Final = 2
_INTERRUPTED: Final = 130


class UsageError(OpaskError):
    """The command line is wrong, or what it names cannot be used."""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**options)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see `{self.prog} --help`")


class _Version(argparse.Action):
    """Prints the version; argparse's own action would look it up at every start."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version("opask")
        except PackageNotFoundError:
            found = "of an unknown version: it is not installed"
        print(f"opask {found}")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: the arguments; by default those of this process.

    Returns:
        The exit code. What went wrong is on stderr in one line.
    """
    _fill_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = next((word for word in arguments[:1] if not word.startswith("-")), "")
    try:
        try:
            code = _main(name, arguments)
        except SystemExit as exit_:  # argparse, for --help and --version
            code = exit_.code if isinstance(exit_.code, int) else _FAILED
        try:
            sys.stdout.flush()
        except (OSError, ValueError):
            _give_up_stdout()
            if code == 0:
                raise
        return code
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        _give_up_stdout()
        return _FAILED
    except (Exception, BaseExceptionGroup) as error:
        return _tell(name, _first(error))


def _give_up_stdout() -> None:
    """Let what nobody reads any more go nowhere, at the interpreter's own last flush too."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fill_streams() -> None:
    """Put the null device in place of standard streams that this process was started without.

    Their numbers would else be given to sockets and pipes, which whoever writes to stderr would write to.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free
    null = Path(os.devnull)
    sys.stdin = sys.stdin or null.open(encoding="utf-8")
    sys.stdout = sys.stdout or null.open("w", encoding="utf-8")
    sys.stderr = sys.stderr or null.open("w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")  # what an encoding lacks, and half a character


def _main(name: str, arguments: list[str]) -> int:
    there = {
        command: text for command, text in COMMANDS.items() if find_spec(f"opask.cli.{command}") is not None
    }
    parser = _Parser(
        prog="opask",
        description="Agents without a terminal ask their human operator, and wait for the answer.",
        epilog="example: opask demo",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print opask's version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    module = importlib.import_module(f"opask.cli.{name}") if name in there else None
    for command, text in there.items():
        example = f"example: {module.EXAMPLE}" if module is not None and command == name else None
        one = commands.add_parser(
            command, help=text, description=f"{text[0].upper()}{text[1:]}.", epilog=example
        )
        if module is not None and command == name:
            module.configure(one)
    rest: list[str] = []
    if getattr(module, "TAKES_REST", False) and "--" in arguments:
        at = arguments.index("--")
        arguments, rest = arguments[:at], arguments[at + 1 :]
    args, unknown = parser.parse_known_args(arguments)
    if unknown:
        raise UsageError(f"unrecognized arguments: {' '.join(unknown)}; see `opask {name} --help`")
    args.rest = rest
    assert module is not None
    code: int = module.run(args)
    return code


def _first(error: BaseException) -> BaseException:
    """Return what really went wrong in a group of errors: our own before any other."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    inner = [_first(one) for one in error.exceptions]
    return next((one for one in inner if isinstance(one, OpaskError)), inner[0])


def _tell(name: str, error: BaseException) -> int:
    """Say in one line what went wrong; return the exit code."""
    if isinstance(error, KeyboardInterrupt):
        return _INTERRUPTED
    if os.environ.get("OPASK_DEBUG"):
        traceback.print_exception(error)
    who = f"opask {name}" if name in COMMANDS else "opask"
    if isinstance(error, OpaskError):
        text = str(error)
    elif isinstance(error, FileNotFoundError) and not error.filename:  # getcwd(3) alone names nothing
        text = "the folder that this was started in is gone; start it in one that is there"
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
    else:
        text = f"an error that should not be: {type(error).__name__}: {error}; OPASK_DEBUG=1 shows where"
    with contextlib.suppress(OSError, ValueError):
        print(f"{who}: {inert_line(text)}", file=sys.stderr)
    failed = not isinstance(error, OpaskError) or isinstance(error, BridgeError | SurfaceError | AdapterError)
    return _FAILED if failed and not isinstance(error, UnknownRuntimeError) else _UNUSABLE
