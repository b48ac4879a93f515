"""`opask probe`: what the registry says of a runtime, held against the runtime itself."""

from __future__ import annotations

import argparse
import importlib
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import anyio

from opask.cli import UsageError
from opask.cli.logs import logging_to
from opask.cli.output import Stream
from opask.cli.stopping import SIGNALS, Stopping
from opask.cli.table import Colour, colour, is_coloured, width
from opask.inert import inert_line, shorten

__all__ = ["configure", "run"]

HELP = "try on the real runtime, with a scripted model, whether its agents can ask"
EXAMPLE = "opask probe claude --install"

# The probes are a package of their own, in an extra, that nothing imports by name.
_PROBES: Final = "opask_probes.command"
_COLOURS: Final[dict[str, Colour]] = {"held": "green", "not held": "red", "not applicable": "dim"}
_REASON_LENGTH: Final = 600


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("runtime", metavar="RUNTIME", help="the runtime, such as claude")
    parser.add_argument("--route", metavar="ID", help="the route (default: the first one that is probed)")
    parser.add_argument(
        "--bin", metavar="PATH", help="the runtime's program (default: the pinned one that was installed)"
    )
    parser.add_argument(
        "--version", metavar="VERSION", help="which one that was installed, exactly (default: the pinned one)"
    )
    parser.add_argument(
        "--install",
        action="store_true",
        help="install the package, unless it is there, into a folder of opask's own",
    )
    parser.add_argument(
        "--record", action="store_true", help="write a recording and the row's observation, in a clone"
    )
    parser.add_argument("--long", action="store_true", help="try the claims that take minutes, too")
    parser.add_argument(
        "--claim", action="append", default=[], metavar="ID", help="try this claim alone; may be given again"
    )
    parser.add_argument(
        "--live-model",
        action="store_true",
        help="try it on a real model instead, with your own login and at your own cost; never done unasked",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")


def run(args: argparse.Namespace) -> int:
    """Probe, and print what was found.

    Returns:
        1 where it could not be installed, a claim did not hold of a route that the registry calls verified or of a real
        model, or all held of a route that it calls refuted; else 0; 128+n where signal n ended it.

    Raises:
        OpaskError: it cannot be probed, or not be recorded.
    """
    try:
        command: Any = importlib.import_module(_PROBES)
    except ImportError as error:
        if error.name is None or error.name.startswith("opask."):
            raise
        raise UsageError(
            f"the probes need {error.name}, which is not installed; install opask[probe]"
        ) from None
    errand = command.Errand(
        runtime=args.runtime,
        route=args.route,
        program=args.bin,
        version=args.version,
        installs=args.install,
        records=args.record,
        is_long=args.long,
        only=tuple(args.claim),
        live_model=args.live_model,
    )
    teller = _Teller(quiet=args.json)
    result, stopped_by = None, None
    try:
        with _ended_by_signals():
            program = command.find_program(errand, teller.note)
        result, stopped_by = anyio.run(_conduct, command, errand, program, teller, backend="asyncio")
    except _Ended as end:
        stopped_by = end.by
    except command.InstallError as error:
        if not args.install:  # it is not there, and was not to be fetched
            raise
        teller.clear()
        print(f"opask probe: {inert_line(str(error))}", file=sys.stderr)
        return 1
    finally:
        teller.clear()
    if stopped_by is not None:
        print(f"opask probe: ended by {stopped_by.name}", file=sys.stderr)
        return 128 + stopped_by
    assert result is not None
    if args.json:
        print(json.dumps(result.to_json(), ensure_ascii=False, indent=2))
    else:
        teller.sum_up(result)
    return 1 if result.report.contradicts else 0


class _Ended(BaseException):  # no error, as KeyboardInterrupt is none
    """A signal came."""

    def __init__(self, by: signal.Signals) -> None:
        self.by = by


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Have signals raise for the length of a block, so that what it has begun is cleaned up.

    Raises:
        _Ended: one came.
    """

    def end(number: int, _: object) -> None:
        raise _Ended(signal.Signals(number))

    before = {number: signal.signal(number, end) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _conduct(
    command: Any, errand: Any, program: Any, teller: _Teller
) -> tuple[Any, signal.Signals | None]:
    stopping, result = Stopping(), None
    with logging_to(Stream(sys.stderr)):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stopping.watch)
            with stopping.scope:
                watch = command.Watch(teller.begins, teller.ends)
                result = await command.conduct(errand, program, watch, teller.note)
            tasks.cancel_scope.cancel()
    return result, stopping.by


class _Teller:
    """Shows how a probe goes on: findings on stdout, what is under way on stderr where that is a terminal.

    Args:
        quiet: whether findings are kept for the end.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._is_live = sys.stderr.isatty()
        self._coloured = is_coloured()

    def note(self, text: str) -> None:
        """Show what is under way."""
        if self._is_live:
            print(
                f"\r\033[K… {shorten(text, (width(sys.stderr) or 80) - 4)}",
                end="",
                file=sys.stderr,
                flush=True,
            )

    def clear(self) -> None:
        """Take that away."""
        if self._is_live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def begins(self, claim: Any) -> None:
        """Show that a claim is tried."""
        self.note(f"{claim.id}: {claim.says}")

    def ends(self, finding: Any) -> None:
        """Show what was found of it."""
        self.clear()
        if self._quiet:
            return
        word = finding.verdict.word
        shown = colour(word.ljust(14), _COLOURS[word], on=self._coloured)
        seconds = f"{finding.seconds:6.1f} s" if finding.seconds else " " * 8
        print(f"{shown}  {seconds}  {finding.claim.id.ljust(11)}  {finding.claim.says}")
        for reason in finding.verdict.reasons:
            print(f"{' ' * 26}{shorten(reason, _REASON_LENGTH)}")
        sys.stdout.flush()

    def sum_up(self, result: Any) -> None:
        """Show the sum of it."""
        report = result.report
        words = [finding.verdict.word for finding in report.findings]
        counts = ", ".join(f"{words.count(word)} {word}" for word in _COLOURS if word in words)
        version = report.version or "of an unknown version"
        print(f"\n{report.runtime} {inert_line(version)} by {report.route} on {report.platform}: {counts}")
        print(f"network: {inert_line(report.isolation)}")
        print(f"registry: {report.support.summary}")
        if result.comparison is not None:
            other = result.comparison
            print(
                f"against {other.version}: {len(other.same)} claims as there, {len(other.differences)} otherwise"
            )
            for one in other.differences:
                print(f"  {one.claim}: {one.there} there, {one.here} here")
        if result.recording is not None:
            done = "written" if result.changed else "as it was"
            print(f"recording: {result.to_json()['recording']}; the row's observation is {done}")
