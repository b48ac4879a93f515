"""`opask mcp`: an MCP server by which another agent drives runs and answers their questions."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from opask.cli import UsageError
from opask.cli.waits import wait_of

if TYPE_CHECKING:
    from opask.cli.runs import RunSettings
    from opask.surfaces.mcp import HttpAddress

__all__ = ["configure", "run"]

HELP = "let another agent drive runs and answer their questions, as an MCP server"
EXAMPLE = "opask mcp --runtime claude --args 'claude=--permission-mode acceptEdits'"

_WAIT_S = 300.0
_TOKEN = "OPASK_MCP_TOKEN"  # noqa: S105 - where the token is
_TOKEN_MIN = 16
_PORT = 8788
_PORTS = 65_535


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--http", action="store_true", help="serve streamable HTTP on loopback in place of stdin and stdout"
    )
    parser.add_argument(
        "--port",
        type=int,
        metavar="PORT",
        help="with --http, the port (default: 8788; 0 for any that is free)",
    )
    parser.add_argument(
        "--inbox", type=Path, metavar="FILE", help="the inbox that questions go to (default: the user's own)"
    )
    parser.add_argument(
        "--runtime",
        action="append",
        default=[],
        metavar="NAME",
        help="a runtime that may be started; may be given again (default: all that have an adapter, and demo)",
    )
    parser.add_argument(
        "--bin",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="a runtime's program (default: the one on the PATH)",
    )
    parser.add_argument(
        "--args",
        action="append",
        default=[],
        metavar="NAME=ARGUMENTS",
        help="arguments for a runtime, quoted as for a shell: --args 'claude=--permission-mode acceptEdits'",
    )
    parser.add_argument("--cwd", type=Path, metavar="DIR", help="where agents work that are given no folder")
    parser.add_argument(
        "--wait",
        type=wait_of,
        default=timedelta(seconds=_WAIT_S),
        metavar="SECONDS",
        help=f"how long a question may wait, or `none` for as long as it takes (default: {_WAIT_S:g})",
    )
    parser.add_argument(
        "--sessions",
        type=int,
        default=8,
        metavar="N",
        help="how many sessions may be open at once (default: 8)",
    )
    parser.add_argument(
        "--allow-unverified",
        action="store_true",
        help="also where the registry has not seen that a runtime's agents can ask",
    )


def _settings(args: argparse.Namespace) -> RunSettings:
    from opask.adapters import installed_runtimes
    from opask.cli.runs import DEMO, RunSettings

    there = (*installed_runtimes(), DEMO)
    runtimes = tuple(dict.fromkeys(args.runtime)) or there
    for name in runtimes:
        if name not in there:
            raise UsageError(f"--runtime {name}: no adapter serves it; there is: {', '.join(there)}")
    if not 1 <= args.sessions <= 100:
        raise UsageError(f"--sessions {args.sessions}: has to be from 1 to 100")
    cwd = (args.cwd or Path()).resolve()
    if not cwd.is_dir():
        raise UsageError(f"--cwd {args.cwd}: there is no such folder; name one that is there")
    return RunSettings(
        runtimes=runtimes,
        # Without the token: whoever has it drives agents.
        env={name: value for name, value in os.environ.items() if name != _TOKEN},
        cwd=cwd,
        programs=dict(_pair("--bin", value, runtimes) for value in args.bin),
        arguments={
            name: _split(name, value)
            for name, value in (_pair("--args", value, runtimes) for value in args.args)
        },
        wait=args.wait,
        allow_unverified=args.allow_unverified,
        most=args.sessions,
    )


def _pair(option: str, value: str, runtimes: tuple[str, ...]) -> tuple[str, str]:
    name, equals, rest = value.partition("=")
    if not equals or name not in runtimes:
        raise UsageError(f"{option} {value}: has to be NAME=…, with a runtime of: {', '.join(runtimes)}")
    return name, rest


def _split(name: str, value: str) -> list[str]:
    try:
        return shlex.split(value)
    except ValueError as error:
        raise UsageError(f"--args {name}=…: cannot be split into arguments ({error})") from None


def _address(args: argparse.Namespace) -> HttpAddress | None:
    if not args.http:
        if args.port is not None:
            raise UsageError("--port is for --http")
        return None
    if args.port is not None and not 0 <= args.port <= _PORTS:
        raise UsageError(f"--port {args.port}: has to be from 0 to {_PORTS}")
    from opask.surfaces.mcp import HttpAddress

    token = os.environ.get(_TOKEN)
    if token is not None and len(token) < _TOKEN_MIN:
        raise UsageError(f"{_TOKEN}: has to be a token of {_TOKEN_MIN} characters or more")
    return HttpAddress.listen(_PORT if args.port is None else args.port, token)


def run(args: argparse.Namespace) -> int:
    """Serve until the client goes or a signal comes.

    Returns:
        0 where the client has gone, 128+n where signal n ended it.

    Raises:
        OpaskError: it cannot be served as asked.
    """
    settings = _settings(args)
    if not args.http and sys.stdin.isatty():
        print(
            "opask mcp: serves an MCP client on stdin and stdout; give this command to one (Ctrl-C ends it)",
            file=sys.stderr,
        )
    from opask.cli.mcp_server import serve

    return serve(settings, args.inbox, _address(args), _version())


def _version() -> str:
    try:
        return version("opask")
    except PackageNotFoundError:
        return "0"
