"""The stage of one run: a sandbox for the runtime, and the scripted model in the same network namespace."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from attrs import define, field

from opask.errors import OpaskError

from .model import Scenario, to_json
from .runtimes import ProbedRuntime
from .sandbox import Isolation, Namespace, Sandbox, fresh_sandbox

__all__ = ["Stage", "StageError", "all_gone", "processes_below", "processes_in", "stage"]

_START_S: Final = 90.0
_END_S: Final = 30.0
_PERIOD_S: Final = 0.02
_LINE: Final = 64 * 1024 * 1024  # a log line has a whole request in it
_PROC: Final = Path("/proc")


class StageError(OpaskError):
    """The scripted model could not be started, or ended on its own."""


@define(eq=False)
class Stage:
    """Where one run takes place; made by `stage`.

    Attributes:
        sandbox: the runtime's folders.
        url: the scripted model's address.
        enter: what to put before a command that is to reach it; empty where there is no namespace.
        exchanges: what the model was sent and replied so far, as its log has it.
        failures: what did not fit the scenario; complete once `close` was called.
    """

    sandbox: Sandbox
    url: str
    enter: tuple[str, ...]
    _process: Process = field(repr=False)
    _log: BufferedByteReceiveStream = field(repr=False)
    exchanges: list[Mapping[str, Any]] = field(init=False, factory=list, repr=False)
    failures: tuple[str, ...] = field(init=False, default=())
    _changed: anyio.Event = field(init=False, factory=anyio.Event, repr=False)
    _over: anyio.Event = field(init=False, factory=anyio.Event, repr=False)

    def environment(self, runtime: ProbedRuntime, *more: Mapping[str, str]) -> dict[str, str]:
        """Give a runtime's whole environment: the sandbox's, and what sends it to the model."""
        return self.sandbox.environment(runtime.model(self.url), *more)

    async def release(self, gate: str) -> None:
        """Open a gate that a step of the scenario is held at."""
        assert self._process.stdin is not None
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._process.stdin.send(f"release {gate}\n".encode())

    async def played(self, conversation: str, step: int) -> None:
        """Wait until the reply of a step, from 1, was decided.

        Raises:
            StageError: the model ended before.
        """
        due = ("scripted", conversation, step)
        while not any((one["kind"], one["conversation"], one["step"]) == due for one in self.exchanges):
            if self._over.is_set():
                raise StageError(
                    f"the scripted model ended before step {step} of conversation {conversation}"
                )
            await self._changed.wait()

    async def close(self) -> None:
        """End the model and take its verdict. Idempotent."""
        assert self._process.stdin is not None
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._process.stdin.aclose()
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_END_S):
                await self._over.wait()
                await self._process.wait()
            if self._process.returncode is None:
                self._process.kill()

    async def follow(self) -> None:
        """Take in the model's log until it ends; whatever is cancelled, its verdict is the last line."""
        with anyio.CancelScope(shield=True):
            try:
                while True:
                    data = json.loads(await self._log.receive_until(b"\n", _LINE))
                    if "failures" in data:
                        self.failures = tuple(data["failures"])
                    else:
                        self.exchanges.append(data)
                    self._tell()
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError):
                self._over.set()
                self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


@asynccontextmanager
async def stage(
    scenario: Scenario, isolation: Isolation, *, parent: Path | None = None
) -> AsyncIterator[Stage]:
    """Set the stage for a run: serve the scenario from a process of its own for the length of a block.

    Args:
        scenario: what the model plays.
        isolation: what `opask_probes.sandbox.loopback_namespace` gave.
        parent: where to make the sandbox; see `fresh_sandbox`.

    Yields:
        The stage; `Stage.failures` says after `Stage.close` how the scenario was played.

    Raises:
        StageError: the model does not start.
    """
    with fresh_sandbox(parent) as sandbox:
        script = sandbox.root / "scenario.json"
        script.write_text(to_json(scenario), encoding="utf-8")
        options = ["--scenario", str(script), "--log", "-", "--until-eof"]
        program = [sys.executable, "-m", "opask_probes.model", *options]
        argv = isolation.wrap(program) if isinstance(isolation, Namespace) else program
        failure: Exception | None = None
        async with await anyio.open_process(argv, stderr=subprocess.DEVNULL) as process:
            try:
                log, url = await _ready(process)
                enter = isolation.enter(process.pid) if isinstance(isolation, Namespace) else ()
                set_ = Stage(sandbox, url, enter, process, log)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(set_.follow)
                    try:
                        yield set_
                    except Exception as error:  # raised below: the task group would wrap it
                        failure = error
                    finally:
                        await set_.close()
            finally:
                if process.returncode is None:
                    process.kill()
        if failure is not None:
            raise failure


async def _ready(process: Process) -> tuple[BufferedByteReceiveStream, str]:
    assert process.stdout is not None
    log = BufferedByteReceiveStream(process.stdout)
    try:
        with anyio.fail_after(_START_S):
            return log, str(json.loads(await log.receive_until(b"\n", _LINE))["url"])
    except (TimeoutError, anyio.EndOfStream, anyio.IncompleteRead, ValueError, KeyError):
        raise StageError(
            "the scripted model did not start; `python -m opask_probes.model --help` may say why"
        ) from None


def processes_in(folder: Path) -> list[tuple[int, str]]:
    """Give id and command line of the processes that have a folder in their environment; none where /proc is not.

    What runs in a sandbox has its HOME there, and so has all that it starts.
    """
    needle = str(folder).encode()
    return [(pid, _read(pid, "cmdline")) for pid in _pids() if needle in _bytes(pid, "environ")]


async def all_gone(folder: Path, within: float) -> list[tuple[int, str]]:
    """Wait until no process has a folder in its environment, so many seconds at most; give what is still there."""
    left = processes_in(folder)
    with anyio.move_on_after(within):
        while left:  # nothing tells of the end of a process that is not one's child
            await anyio.sleep(_PERIOD_S)
            left = processes_in(folder)
    return left


def processes_below(pid: int) -> list[tuple[int, str]]:
    """Give id and command line of the processes that descend from one; none where /proc is not."""
    children: dict[int, list[int]] = {}
    for one in _pids():
        if status := _bytes(one, "stat"):
            parent = int(status[status.rindex(b")") + 2 :].split()[1])
            children.setdefault(parent, []).append(one)
    found, waiting = [], [pid]
    while waiting:
        for child in children.pop(waiting.pop(), ()):
            found.append((child, _read(child, "cmdline")))
            waiting.append(child)
    return found


def _pids() -> Iterator[int]:
    if _PROC.is_dir():
        yield from (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def _read(pid: int, name: str) -> str:
    return _bytes(pid, name).decode(errors="replace").replace("\0", " ").strip()


def _bytes(pid: int, name: str) -> bytes:
    """Read a file of a process; nothing of one that has ended, or is not ours."""
    try:
        return (_PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""
