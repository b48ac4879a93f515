"""A runtime that runs: what it says goes to its session, what the session has to say goes to it."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Final, Literal

import anyio
from anyio.abc import ByteReceiveStream, Process, TaskGroup

from opask.adapters import Message
from opask.driver.lines import LineCutter
from opask.driver.permissions import PermissionDesk
from opask.driver.survivors import end_session
from opask.driver.terms import Bounds, DrivenSession, Pace, Policy, RunResult, Tee
from opask.errors import GateError, OpaskError
from opask.events import (
    Event,
    GateMissing,
    PermissionWithdrawn,
    SessionReady,
    TextSaid,
    ToolAnnounced,
    TurnEnded,
    TurnStarted,
)
from opask.inert import inert
from opask.launch import LaunchPlan
from opask.permissions import PermissionRequested

__all__ = ["RunningRuntime"]

_logger = logging.getLogger("opask.driver")
_CHUNK: Final = 65536
_UNSENT_MAX: Final = 1024  # messages; beyond them the runtime is not heard until it reads
_GUARD_BOUND: Final = timedelta(seconds=5)  # it needs two seconds at most
_GONE: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)


class RunningRuntime:
    """A runtime that runs; made by `opask.driver.start`, and ended when its block is left."""

    def __init__(
        self,
        session: DrivenSession,
        plan: LaunchPlan,
        process: Process,
        leash: int,
        tasks: TaskGroup,
        *,
        policy: Policy | None,
        tee: Tee | None,
        bounds: Bounds,
        pace: Pace | None = None,
    ) -> None:
        self._session = session
        self._process = process
        self._leash: int | None = leash
        self._tee = tee
        self._bounds = bounds
        self._held = plan.hold_prompt
        self._serves = plan.serves
        self._to_send, self._unsent = anyio.create_memory_object_stream[str](_UNSENT_MAX)
        self._permissions = PermissionDesk(
            session, policy, bounds.permissions, tasks=tasks, send=self._send_one, fail=self._fail
        )
        self._unable = anyio.Event()  # the agent is known not to be able to ask
        self._turn_over = anyio.Event()
        self._interrupted = False  # a turn that was, and is not over yet
        self._last_turn: TurnEnded | None = None
        self._text: list[str] = []
        self._stderr = bytearray()
        self._pace = pace
        self._reading = anyio.CancelScope(shield=True)
        self._held_back = anyio.CancelScope()
        self._silent = anyio.Event()
        self._drained = anyio.Event()
        self._exited = anyio.Event()
        self._ending = False
        self._done = anyio.Event()
        self._failure: Exception | None = None
        self._result = RunResult(exit_code=0)
        for task in (self._read, self._write, self._watch):
            tasks.start_soon(task)

    # -- the host's side -------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """The process id of the guard, the runtime's parent."""
        return self._process.pid

    @property
    def is_done(self) -> bool:
        """Whether it has exited and all that it said was taken in, so that `wait` returns at once."""
        return self._done.is_set()

    async def prompt(self, text: str) -> None:
        """Give the agent a prompt, as the protocol wants it.

        The first one waits until the runtime has listed the ask tool, where the plan says so, and one that follows
        an interrupt until the turn before it is over. Where the prompt is in the argv, the runtime's input is closed
        instead: nothing else will come.

        Args:
            text: what the agent is to do.

        Raises:
            LaunchError: this process takes no (further) prompt.
        """
        if self._held:
            self._held = False
            await self._listed()
        if self._serves and self._interrupted:
            await self._turn_over.wait()
        messages = self._session.prompt(text)
        if not messages and not self._serves:
            self.close_input()
        elif not self._done.is_set():
            self._turn_over, self._last_turn = anyio.Event(), None
            await self._send(messages)

    async def turn_over(self) -> TurnEnded | None:
        """Wait until the turn that was prompted last is over, or the runtime has exited.

        Returns:
            How the turn ended; None where nothing says so.
        """
        await self._turn_over.wait()
        return self._last_turn

    async def interrupt(self) -> None:
        """End the running turn: with the protocol's messages, or with SIGINT where it has none.

        A server of a protocol that runs no turn is left alone; the permission requests of a turn that still wait for
        the host's policy are denied, since the server may wait for replies.
        """
        messages = self._session.interrupt()
        if messages:
            self._interrupted = not self._turn_over.is_set()
            await self._send(messages)
        elif not self._serves:
            self.send_signal(signal.SIGINT)
        if self._serves:
            self._permissions.withdraw()

    def close_input(self) -> None:
        """Close the runtime's stdin once all is written; in most protocols that asks it to exit. Idempotent."""
        self._to_send.close()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the runtime's process group; to one that has exited, nothing."""
        if not self._exited.is_set():
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def kill(self) -> None:
        """End the runtime, and all that it started, at once: SIGTERM, a second later SIGKILL. Idempotent."""
        if self._leash is not None:
            os.close(self._leash)
            self._leash = None

    async def wait(self) -> RunResult:
        """Wait until the runtime has exited and all that it said was taken in.

        Returns:
            How it ended.
        """
        await self._done.wait()
        if self._failure is not None:
            raise self._failure
        return self._result

    async def finish(self) -> RunResult:
        """Close the runtime's input and wait until it has exited; end it where that takes longer than it may.

        Returns:
            How it ended.
        """
        self.close_input()
        bound = self._bounds.linger
        if self._serves:
            bound = self._bounds.interrupt if bound is None else min(bound, self._bounds.interrupt)
        with anyio.move_on_after(None if bound is None else bound.total_seconds()):
            return await self.wait()
        await self.end()
        return await self.wait()

    async def end(self) -> None:
        """End the runtime, politely first: interrupt, close its input, SIGINT, SIGTERM, SIGKILL. Idempotent.

        What it asks is cancelled for the host. It takes no longer than the bounds allow, and cannot be cancelled.
        """
        with anyio.CancelScope(shield=True):
            if not self._exited.is_set():
                await self._end(polite=True)
            await self._done.wait()

    async def _end(self, *, polite: bool) -> None:
        if self._ending:
            return
        self._ending = True
        self._held_back.cancel()
        if polite:
            in_turn = not self._turn_over.is_set()
            # First, so that the agent does not go on to work with no answer.
            interrupted = in_turn and self._send_interrupt()
            self._session.cancel()
            if in_turn:
                self._permissions.withdraw()
                if interrupted:
                    await _within(self._bounds.interrupt, self._turn_over)
                polite = interrupted or self._serves
        self.close_input()
        if polite:
            await _within(self._bounds.interrupt, self._exited)
        if not self._exited.is_set():
            self.send_signal(signal.SIGINT)
            await _within(self._bounds.sigint, self._exited)
        self.kill()
        if not await _within(_GUARD_BOUND, self._exited):
            _logger.warning("the guard of a runtime, process %d, does not end; killed", self.pid)
            with suppress(ProcessLookupError):
                self._process.kill()

    def _send_interrupt(self) -> bool:
        """Send what interrupts the turn, without waiting; tell whether there is such a thing."""
        try:
            messages = self._session.interrupt()
            for message in messages:
                self._to_send.send_nowait(_line(message))
        except (OpaskError, anyio.WouldBlock, *_GONE):
            return False
        return bool(messages)

    async def _listed(self) -> None:
        async with anyio.create_task_group() as tasks:

            async def stop_waiting(event: anyio.Event) -> None:
                await event.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(stop_waiting, self._exited)
            tasks.start_soon(stop_waiting, self._unable)
            await self._session.listed(self._bounds.listed)
            tasks.cancel_scope.cancel()

    # -- to the runtime --------------------------------------------------------------------------------------------

    async def _send(self, messages: Iterable[Message]) -> None:
        for message in messages:
            await self._send_one(message)

    async def _send_one(self, message: Message) -> None:
        with suppress(*_GONE):  # it has exited or its input is closed: that is told elsewhere
            await self._to_send.send(_line(message))

    async def _write(self) -> None:
        assert self._process.stdin is not None
        with anyio.CancelScope(shield=True), suppress(*_GONE):
            async with self._unsent:
                async for line in self._unsent:
                    self._seen("host", line)
                    await self._process.stdin.send(line.encode() + b"\n")
            await self._process.stdin.aclose()

    # -- from the runtime ------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        with self._reading:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read_stderr, self._process.stderr)
                try:
                    await self._send(self._session.outgoing())
                    await self._read_lines(self._process.stdout)
                except Exception as error:
                    self._fail(error)
                self._silent.set()
            self._drained.set()

    async def _read_lines(self, stream: ByteReceiveStream) -> None:
        lines = LineCutter(self._bounds.line)
        while data := await _received(stream):
            for line in lines.feed(data):
                await self._hear(line)
            await self._kept_up()
        for line in lines.end():
            await self._hear(line)

    async def _kept_up(self) -> None:
        """Wait until the host wants more; not with a runtime that is to end, which may wait for its output to go."""
        if self._pace is not None and not self._ending and not self._exited.is_set():
            with anyio.CancelScope() as self._held_back:
                await self._pace()

    async def _hear(self, line: str | None) -> None:
        if line is None:  # no JSON, so that it is taken for what it stands for
            line = f"(a line of more than {self._bounds.line} bytes, passed over)"
        self._seen("runtime", line)
        for event in self._session.receive(line):
            self._note(event)
            if isinstance(event, GateMissing):
                self._fail(
                    GateError(
                        f"{self._session.adapter.runtime}: the write gate is not in force: {event.reason}"
                    )
                )
            if isinstance(event, PermissionRequested):
                await self._permissions.decide(event)
            if isinstance(event, PermissionWithdrawn):
                self._permissions.withdrawn(event.request_id)
        await self._send(self._session.outgoing())

    def _note(self, event: Event) -> None:
        if isinstance(event, SessionReady) and not event.questions:
            self._unable.set()
        if event.agent_id is not None:
            return
        if isinstance(event, TurnStarted | ToolAnnounced):
            self._text.clear()
        elif isinstance(event, TextSaid):
            self._text.append(event.text)
        elif isinstance(event, TurnEnded):
            self._last_turn = event
            self._interrupted = False
            self._turn_over.set()

    async def _read_stderr(self, stream: ByteReceiveStream) -> None:
        while data := await _received(stream):
            self._stderr += data
            del self._stderr[: -self._bounds.stderr]

    def _seen(self, source: Literal["runtime", "host"], line: str) -> None:
        if self._tee is not None:
            try:
                self._tee(source, line)
            except Exception as error:
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Give up the runtime for a fault in this process; `wait` raises it."""
        self._failure = self._failure or error
        self.kill()

    # -- the end ---------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._end_the_silent)
                code = await self._process.wait()
                self._exited.set()
                self._held_back.cancel()  # what it has said is all that comes
                tasks.cancel_scope.cancel()
            if code < 0 and sys.platform == "linux":  # the guard itself was killed, and ended nothing
                end_session(self.pid)
            # Where its pipes are still held open by somebody, nobody listens any longer.
            await _within(self._bounds.silence, self._drained)
            self._reading.cancel()
            self._permissions.close()
            self.close_input()
            with suppress(*_GONE):
                await self._process.aclose()
            self.kill()
            self._finish(code)

    async def _end_the_silent(self) -> None:
        """End a runtime that closed its output and lives on: it can neither ask nor say that it is done."""
        await self._silent.wait()
        if not await _within(self._bounds.silence, self._exited):
            await self._end(polite=False)

    def _finish(self, code: int) -> None:
        try:
            for event in self._session.end_turn("exited"):
                self._note(event)
        except Exception as error:
            self._failure = self._failure or error
        turn = self._last_turn
        self._result = RunResult(
            exit_code=code if code >= 0 else 128 - code,
            stop_reason=turn.stop_reason if turn else None,
            is_error=turn.is_error if turn else False,
            text="".join(self._text),
            stderr=inert(self._stderr.decode(errors="replace")).strip(),
            exit_counts=not self._serves,
        )
        self._done.set()
        self._turn_over.set()


def _line(message: Message) -> str:
    return json.dumps(message, separators=(",", ":"))


async def _received(stream: ByteReceiveStream) -> bytes:
    """Receive some bytes; none at the end, however it came."""
    try:
        return await stream.receive(_CHUNK)
    except _GONE:
        return b""


async def _within(time: timedelta, event: anyio.Event) -> bool:
    with anyio.move_on_after(time.total_seconds()):
        await event.wait()
    return event.is_set()
