"""`opask run`: a runtime with the ask tool attached, its turn shown, its questions put to the operator."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from opask.cli import UsageError
from opask.cli.gating import add_permissions, argv_for
from opask.cli.operators import add_arguments, chosen
from opask.cli.waits import wait_of

if TYPE_CHECKING:
    from opask.adapters import Adapter
    from opask.launch import LaunchRequest

__all__ = ["configure", "run"]

HELP = "run an agent that can ask you"
EXAMPLE = 'opask run claude "Set up a database for this service" -- --permission-mode acceptEdits'
TAKES_REST = True

_WAIT_S = 300.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "runtime",
        metavar="RUNTIME",
        help="the runtime: claude, kimi, kimi-cli, omp, or acp for any agent that speaks it; see `opask routes`",
    )
    parser.add_argument(
        "prompt",
        metavar="PROMPT",
        nargs="?",
        help="what the agent is to do; one word that begins with a dash goes behind a --, before the runtime's own",
    )
    add_arguments(parser, "terminal", "web", "none")
    parser.add_argument(
        "--wait",
        type=wait_of,
        default=timedelta(seconds=_WAIT_S),
        metavar="SECONDS",
        help=f"how long you may take for an answer, or `none` for as long as it takes (default: {_WAIT_S:g})",
    )
    parser.add_argument(
        "--events", action="store_true", help="print events as JSON lines in place of the turn"
    )
    parser.add_argument("--cwd", type=Path, metavar="DIR", help="where the agent works (default: here)")
    parser.add_argument("--bin", metavar="PATH", help="the runtime's program (default: the one on the PATH)")
    parser.add_argument(
        "--inbox",
        type=Path,
        metavar="FILE",
        help="also put questions into this inbox, where `opask serve` and `opask inbox` show them; the first answer "
        "counts, wherever it comes from",
    )
    parser.add_argument(
        "--when-absent",
        choices=("unavailable", "hold", "attach"),
        default="unavailable",
        help="where nobody watches the inbox: the agent goes on without asking (unavailable, the default); the same, but "
        "a question that was asked before waits (hold); ask all the same and wait (attach)",
    )
    parser.add_argument(
        "--allow-unverified",
        action="store_true",
        help="also where the registry has not seen that this runtime's agents can ask",
    )
    add_permissions(parser)
    parser.add_argument(
        "--refuse",
        action="append",
        default=[],
        metavar="NAME",
        help="leave one change of the launch undone, such as direct-tools; may be repeated. The page on each runtime has "
        "a table of them, and a name that is none is answered with a list",
    )
    usage = parser.format_usage().removeprefix("usage: ").rstrip().replace("[PROMPT]", "PROMPT")
    parser.usage = f"{usage} [-- RUNTIME ARGUMENTS…]"


def _prompt(args: argparse.Namespace) -> tuple[str, list[str]]:
    """Return the prompt and the runtime's own arguments; the prompt may stand alone behind a ``--`` of its own."""
    if args.prompt is not None:
        return args.prompt, args.rest
    words: list[str] = args.rest
    rest: list[str] = []
    if "--" in words:
        at = words.index("--")
        words, rest = words[:at], words[at + 1 :]
    if len(words) != 1:
        raise UsageError(
            "there is no PROMPT: it comes behind the runtime; one word that begins with a dash goes behind a --, "
            f"as in `opask run {args.runtime} -- -word`, and the runtime's own arguments behind another --"
        )
    return words[0], rest


def _check_refused(adapter: Adapter, names: list[str], request: LaunchRequest) -> None:
    """Check that each name is that of a change that the adapter can make.

    Raises:
        UsageError: one is not.
    """
    from opask.launch import Endpoint

    if not names:
        return
    known: Collection[str] | None = getattr(adapter, "changes", None)
    if known is None:  # an adapter that does not list them: those of this launch, which is not done yet
        endpoint = Endpoint(("relay",), folder=Path("/nonexistent"), wait=None)
        known = [change.name for change in adapter.plan_launch(request, endpoint).changes]
    for name in names:
        if name not in known:
            there = f"it has: {', '.join(sorted(known))}" if known else "it makes none that can be refused"
            raise UsageError(f"--refuse {name}: {adapter.runtime} has no such change; {there}")


def run(args: argparse.Namespace) -> int:
    """Run the agent.

    Returns:
        0 where it is done, 1 where it failed, 128+n where signal n ended the run.

    Raises:
        OpaskError: it cannot be started as asked.
    """
    from opask.adapters import CommandLineAdapter, adapter
    from opask.cli.conduct import Errand, conduct
    from opask.installed import told_version
    from opask.launch import LaunchRequest

    prompt, rest = _prompt(args)
    operator = chosen(args)
    if args.inbox is None and args.surface != "web" and args.when_absent != "unavailable":
        raise UsageError("--when-absent goes with --inbox FILE or --surface web; say where questions wait")
    if args.cwd is not None and not args.cwd.is_dir():
        raise UsageError(f"--cwd {args.cwd}: there is no such folder; name one that is there")
    found = adapter(args.runtime)
    if not isinstance(found, CommandLineAdapter):
        raise UsageError(
            f"{args.runtime}: its adapter does not say how it is started; start it from a host of your own"
        )
    program = args.bin or found.program
    if not program:
        raise UsageError(f"{args.runtime} is a protocol, not a program; name the agent's program with --bin")
    version_argv = getattr(found, "version_argv", None)
    asks_version = () if version_argv is None else version_argv(program, rest)
    cwd = (args.cwd or Path()).resolve()
    argv = argv_for(found, program, prompt, rest, args.permissions)
    request = LaunchRequest(argv, os.environ, cwd=cwd, read_only=args.permissions == "gate")
    _check_refused(found, args.refuse, request)
    return conduct(
        Errand(
            command="run",
            adapter=found,
            argv=request.argv,
            env=dict(request.env),
            prompt=prompt,
            operator=operator,
            cwd=cwd,
            refuse=frozenset(args.refuse),
            wait=args.wait,
            as_events=args.events,
            allow_unverified=args.allow_unverified,
            version=told_version(asks_version) if asks_version else None,
            inbox=args.inbox,
            when_absent=args.when_absent,
            permissions=args.permissions,
        )
    )
