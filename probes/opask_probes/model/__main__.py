"""Run the scripted model as a program: ``python -m opask_probes.model --scenario FILE``."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Any

import anyio

from opask.errors import OpaskError

from .scenario import Scenario, ScenarioError
from .scenario_json import from_json
from .server import Exchange, ScriptedModel, serve

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Serve a scenario until a signal, or the end of stdin, and tell how it was played.

    Returns:
        0 when the scenario was played as written, 1 when it was not, 2 when there is nothing to play.
    """
    options = _parser().parse_args(argv)
    try:
        scenario = from_json(options.scenario.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ScenarioError) as error:
        print(f"{options.scenario}: {error}", file=sys.stderr)
        return 2
    try:
        with _log(options.log) as log:
            return anyio.run(_run, scenario, options.ready_file, log, options.until_eof)
    except (OSError, OpaskError) as error:
        print(f"the scripted model: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m opask_probes.model",
        description="Play a scenario to an agent runtime, on a free loopback port, until SIGINT or SIGTERM. "
        'Says {"url": …, "pid": …} on one line of the standard output once it listens.',
        epilog="Exit status: 0 played as written, 1 not played as written, 2 nothing to play.",
    )
    parser.add_argument("--scenario", type=Path, required=True, metavar="FILE", help="the scenario, as JSON")
    parser.add_argument(
        "--ready-file",
        type=Path,
        metavar="FILE",
        help="written whole with the same line, for who cannot read the standard output",
    )
    parser.add_argument(
        "--log",
        type=Path,
        default=Path(os.devnull),
        metavar="FILE",
        help="what the runtime sent and was replied, one JSON object a line, and last the failures; - is the "
        "standard output",
    )
    parser.add_argument(
        "--until-eof",
        action="store_true",
        help="end with the standard input, which must be a pipe, too; a line `release GATE` there opens a gate",
    )
    return parser


def _log(path: Path) -> AbstractContextManager[IO[str]]:
    return nullcontext(sys.stdout) if path == Path("-") else path.open("w", encoding="utf-8")


async def _run(scenario: Scenario, ready: Path | None, log: IO[str], until_eof: bool) -> int:
    def write(data: dict[str, Any]) -> None:
        log.write(json.dumps(data, ensure_ascii=False, default=str) + "\n")
        log.flush()

    def watch(exchange: Exchange) -> None:
        write(exchange.to_data())

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with serve(scenario, verify=False, watch=watch) as model:
            line = json.dumps({"url": model.url, "pid": os.getpid()})
            if ready is not None:
                await _write_whole(ready, line)
            print(line, flush=True)
            async with anyio.create_task_group() as tasks:
                if until_eof:
                    tasks.start_soon(_follow_stdin, model, tasks.cancel_scope)
                async for _ in signals:
                    tasks.cancel_scope.cancel()
    failures = model.failures + model.unplayed
    write({"scenario": scenario.name, "failures": [str(failure) for failure in failures]})
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


async def _follow_stdin(model: ScriptedModel, scope: anyio.CancelScope) -> None:
    """Do what the lines of stdin say, and cancel the scope at their end."""
    rest = b""
    while True:
        await anyio.wait_readable(0)
        data = os.read(0, 65536)
        if not data:
            scope.cancel()
            return
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            word, _, gate = line.decode(errors="replace").partition(" ")
            try:
                if word == "release":
                    model.release(gate.strip())
            except KeyError:
                print(f"no step is held at {gate}", file=sys.stderr)


async def _write_whole(path: Path, text: str) -> None:
    """Write a file so that whoever sees it sees all of it."""
    part = anyio.Path(path.with_name(f".{path.name}.{os.getpid()}"))
    await part.write_text(text, encoding="utf-8")
    await part.replace(path)


if __name__ == "__main__":
    sys.exit(main())
