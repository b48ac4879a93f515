"""Runs ``opask run`` on a stage, as a user would, and looks at all that it does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from attrs import define, field

from opask_probes.runtimes import RUNTIMES
from opask_probes.stage import Stage, all_gone, processes_below, processes_in

OPASK = Path(sys.executable).with_name("opask")
GONE_S = 30.0  # that nothing is left is held here, not how soon


@define(eq=False)
class Run:
    """One ``opask run``.

    Attributes:
        stage: where it runs.
        program: the runtime's.
        events: what it has said with ``--events``.
        code: its exit code, once it has ended.
        stderr: what it has said on stderr.
        traced: its trace, once it has ended.
    """

    stage: Stage
    program: Path
    process: Process = field(repr=False)
    events: list[dict[str, Any]] = field(factory=list, repr=False)
    code: int | None = None
    stderr: str = ""
    traced: list[dict[str, Any]] = field(factory=list, repr=False)
    _changed: anyio.Event = field(factory=anyio.Event, repr=False)

    def of(self, name: str, **having: Any) -> list[dict[str, Any]]:
        """Give the events of a name, with these fields."""
        return [
            event
            for event in self.events
            if event["event"] == name and all(event.get(key) == value for key, value in having.items())
        ]

    async def until(self, name: str, count: int = 1, **having: Any) -> dict[str, Any]:
        """Wait for an event."""
        while len(self.of(name, **having)) < count:
            assert self.code is None, f"ended with {self.code} before {name}: {self.stderr}"
            await self._changed.wait()
        return self.of(name, **having)[count - 1]

    async def write(self, line: str) -> None:
        """Write a line to its stdin."""
        assert self.process.stdin is not None
        await self.process.stdin.send(f"{line}\n".encode())

    def runtimes(self) -> list[int]:
        """Give the runtime's process, if it is there."""
        return [pid for pid, line in processes_below(self.process.pid) if line.startswith(f"{self.program} ")]

    def relays(self) -> list[int]:
        """Give the relays that are there."""
        return [pid for pid, line in processes_below(self.process.pid) if "relay.py" in line]

    @property
    def text(self) -> str:
        """What the agent said, joined."""
        return "\n".join(event["text"] for event in self.of("text"))

    async def ends(self, code: int) -> None:
        """Wait for its end, and hold that it has this exit code and leaves nothing: no process, socket or folder."""
        while self.code is None:
            await self._changed.wait()
        assert self.code == code, self.stderr
        await self.nothing_left()

    async def nothing_left(self) -> None:
        """Hold that no process, socket or folder of it is left."""
        assert await all_gone(self.stage.sandbox.root, GONE_S) == []
        assert self.folders() == []

    def folders(self) -> list[str]:
        """Give the bridge's folders that are still there."""
        return [str(path) for path in self.stage.sandbox.tmp.glob("opask-*")]

    async def _read(self) -> None:
        assert self.process.stdout is not None
        lines = BufferedByteReceiveStream(self.process.stdout)
        with suppress(anyio.EndOfStream, anyio.IncompleteRead):
            while True:
                self.events.append(json.loads(await lines.receive_until(b"\n", 1 << 26)))
                self._tell()

    async def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        async for data in self.process.stderr:
            self.stderr += data.decode(errors="replace")

    async def watch(self) -> None:
        """Take in what it says until it ends."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read)
            tasks.start_soon(self._read_stderr)
            code = await self.process.wait()
        trace = self.stage.sandbox.root / "trace"
        self.traced = [json.loads(line) for line in trace.read_text().splitlines()] if trace.exists() else []
        self.code = code
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


@asynccontextmanager
async def opask_run(
    stage: Stage,
    program: Path,
    *options: str,
    runtime: str = "claude",
    agent: str | None = None,
    prompt: str = "Go.",
    rest: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[Run]:
    """Start ``opask run RUNTIME PROMPT --events`` on a stage, with a pipe for its stdin; it has ended afterwards.

    Args:
        agent: which program it is, where the runtime is none.
    """
    argv = [str(OPASK), "run", runtime, prompt, "--events", f"--bin={program}"]
    argv += [f"--cwd={stage.sandbox.work}", *options, *(("--", *rest) if rest else ())]
    environment = stage.environment(
        RUNTIMES[agent or runtime], {"OPASK_TRACE": str(stage.sandbox.root / "trace")}, env or {}
    )
    failure: Exception | None = None
    async with await anyio.open_process(
        [*stage.enter, *argv], env=environment, stdin=subprocess.PIPE, start_new_session=True
    ) as process:
        run = Run(stage, program, process)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run.watch)
            try:
                yield run
            except Exception as error:  # raised below: the task group would wrap it
                failure = error
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                for pid, _ in processes_in(stage.sandbox.root):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
