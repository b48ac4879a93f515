"""Sessions that a surface drives: each a bridge's session and a runtime, in a task of this process's own."""

from __future__ import annotations

import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus
from attrs import field, frozen

from opask.adapters import Adapter, CommandLineAdapter, adapter
from opask.bridge import Bridge
from opask.bridge.session import Session
from opask.cli.demo_adapter import DemoAdapter
from opask.driver import RunningRuntime, RunResult, start
from opask.errors import OpaskError
from opask.events import Event, TextSaid, ToolAnnounced, TurnStarted
from opask.inbox import InboxPrompter
from opask.inert import shorten
from opask.installed import told_version
from opask.launch import LaunchRequest
from opask.surfaces.mcp.driving import Driven, DrivingError, SessionState, TurnEnd

__all__ = ["DEMO", "Run", "RunSettings", "Runs"]

DEMO: Final = "demo"
"""The runtime of the scripted agent that asks two questions, to try the way with nothing installed."""

_logger = logging.getLogger("opask.mcp")
_SAID_MAX: Final = 64 * 1024  # characters of a turn that are kept, the last ones
_WHY_LENGTH: Final = 300
_INTERRUPT_S: Final = 10.0


@frozen(kw_only=True)
class RunSettings:
    """What all sessions have in common.

    Args:
        runtimes: the names of those that may be started.
        env: the environment of what is started.
        cwd: where a session works that names no folder, absolute.
        programs: the program of a runtime, where it is not the one on the PATH.
        arguments: the operator's own arguments for a runtime.
        wait: how long a question may wait; None for as long as it takes.
        allow_unverified: whether a route that nobody has seen to work may be used.
        most: how many sessions there may be at once, idle ones included.
        kept: how many that have ended are remembered.
    """

    runtimes: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    cwd: Path = field(factory=Path.cwd)
    programs: Mapping[str, str] = field(factory=dict)
    arguments: Mapping[str, Sequence[str]] = field(factory=dict)
    wait: timedelta | None = timedelta(minutes=5)
    allow_unverified: bool = False
    most: int = 8
    kept: int = 32


class Run:
    """One session; implements `opask.surfaces.mcp.Driven`. Made by `Runs.start`."""

    def __init__(self, session_id: str, runtime: str, prompt: str, cwd: Path) -> None:
        self.id = session_id
        self.runtime = runtime
        self.title = prompt
        self.cwd = cwd
        self.started_at = datetime.now(UTC)
        self.turns = 0
        self.ended = anyio.Event()
        self._scope = anyio.CancelScope()
        self._prompts, self._to_give = anyio.create_memory_object_stream[str](1)
        self._over = anyio.Event()
        self._last: TurnEnd | None = None
        self._speech = _Speech()
        self._cancelling = False
        self._exited = False
        self._session: Session | None = None
        self._runtime: RunningRuntime | None = None

    # -- as the surface sees it ------------------------------------------------------------------------------------

    @property
    def state(self) -> SessionState:
        """Whether it works, waits for a prompt, or has ended."""
        if not self._over.is_set():
            return "working"
        return "ended" if self._exited else "idle"

    @property
    def last(self) -> TurnEnd | None:
        """How the last turn ended; None while the first one runs."""
        return self._last

    @property
    def said(self) -> str:
        """What the agent said last in the turn that runs."""
        return self._speech.text

    def prompt(self, text: str, /) -> None:
        """Give it its next prompt."""
        if self.state != "idle":
            raise DrivingError(
                f"session {self.id} has ended and takes no prompt; start another with a runtime"
                if self.state == "ended"
                else f"session {self.id} is at work on its last prompt"
            )
        self._begin(text)

    async def turn_over(self) -> TurnEnd:
        """Wait until no turn runs."""
        await self._over.wait()
        assert self._last is not None
        return self._last

    async def cancel(self, *, keep: bool) -> None:
        """Interrupt the turn; end the session unless it is kept."""
        self._cancelling = self.state == "working"
        if not keep:
            self._scope.cancel()
            await self.ended.wait()
        elif self._cancelling and self._session is not None and self._runtime is not None:
            self._session.cancel()
            await self._runtime.interrupt()
            with anyio.move_on_after(_INTERRUPT_S) as bound:
                await self._over.wait()
            if bound.cancelled_caught:
                raise DrivingError(
                    f"session {self.id} does not stop; session_cancel without keep ends its runtime"
                )

    # -- as it runs ------------------------------------------------------------------------------------------------

    def _begin(self, text: str) -> None:
        self._over, self._cancelling = anyio.Event(), False
        self._speech.clear()
        self.turns += 1
        self._prompts.send_nowait(text)

    def hear(self, event: Event) -> None:
        """Take in what the session's agent says; called from any thread."""
        self._speech.hear(event)

    async def work(
        self, session: Session, runtime: RunningRuntime, *, several: bool, started: Callable[[], object]
    ) -> None:
        """Give the runtime its prompts until it exits.

        Args:
            session: its session.
            runtime: it.
            several: whether it takes more than one; else its turn is over when it has exited.
            started: called when it has its first prompt.
        """
        self._session, self._runtime = session, runtime
        self._begin(self.title)
        started()
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                result = await runtime.wait()
                self._exited = True
                self._turn_ended(_end_of(result, self._speech.text))
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            async for text in self._to_give:
                await runtime.prompt(text)
                turn = await runtime.turn_over()
                if turn is not None and several and not runtime.is_done:  # else `watch` tells why
                    outcome: Literal["done", "failed"] = "failed" if turn.is_error else "done"
                    self._turn_ended(TurnEnd(outcome, self._speech.text, turn.stop_reason))

    def _turn_ended(self, end: TurnEnd) -> None:
        if not self._over.is_set():
            self._last = TurnEnd("cancelled", end.text, end.reason) if self._cancelling else end
            self._over.set()

    def over(self, reason: str, *, cancelled: bool) -> None:
        """Take in that the session has ended, however that came."""
        self._exited = True
        if not self._over.is_set():
            self._last = TurnEnd("cancelled" if cancelled else "failed", self._speech.text, reason)
            self._over.set()
        self._prompts.close()
        self._to_give.close()
        self._session = self._runtime = None
        self.ended.set()

    @property
    def scope(self) -> anyio.CancelScope:
        """What the session runs in."""
        return self._scope


class Runs:
    """Runs sessions until the block is left, which ends all of them; implements `opask.surfaces.mcp.Driver`.

    Args:
        prompter: the inbox that their questions go to, open around this.
        settings: what they have in common.
    """

    def __init__(self, prompter: InboxPrompter, settings: RunSettings) -> None:
        self.runtimes = settings.runtimes
        self._prompter = prompter
        self._settings = settings
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._starting = 0
        self._stack = AsyncExitStack()
        self._bridge: Bridge | None = None
        self._tasks: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._bridge = await stack.enter_async_context(Bridge())
            self._tasks = await stack.enter_async_context(anyio.create_task_group())
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._tasks is not None
        self._tasks.cancel_scope.cancel()
        # Not given the host's own exception: the task group would wrap it, and it is no session's.
        await self._stack.__aexit__(None, None, None)

    async def quiet(self) -> None:
        """Wait until no turn runs."""
        while working := [run for run in self._runs.values() if run.state == "working"]:
            await working[0].turn_over()

    # -- the driver --------------------------------------------------------------------------------------------------

    def session(self, session_id: str) -> Driven:
        """Return a session."""
        run = self._runs.get(session_id)
        if run is None:
            raise DrivingError(
                f"there is no session {shorten(session_id, 80)!r} here; sessions_list lists them"
            )
        return run

    def sessions(self) -> tuple[Driven, ...]:
        """Return the sessions, oldest first."""
        return tuple(self._runs.values())

    async def start(self, runtime: str, prompt: str, cwd: str | None) -> Driven:
        """Start a session with its first prompt."""
        if runtime not in self.runtimes:
            raise DrivingError(
                f"there is no runtime {shorten(runtime, 80)!r} here; there is: {', '.join(self.runtimes)}"
            )
        folder = self._settings.cwd / cwd if cwd is not None else self._settings.cwd
        if not await anyio.Path(folder).is_dir():
            raise DrivingError(f"there is no folder {shorten(str(folder), 200)}; name one that is there")
        live = [run for run in self._runs.values() if not run.ended.is_set()]
        if len(live) + self._starting >= self._settings.most:
            idle = ", ".join(run.id for run in live if run.state == "idle") or "none"
            raise DrivingError(
                f"{self._settings.most} sessions are open, which is the most; end one with session_cancel (idle: {idle})"
            )
        run = Run(f"mcp-{secrets.token_hex(6)}", runtime, prompt, folder)
        assert self._tasks is not None
        self._starting += 1
        try:
            await self._tasks.start(self._conduct, run)
        finally:
            self._starting -= 1
        return run

    async def _conduct(self, run: Run, *, task_status: TaskStatus[None]) -> None:
        """Run a session to its end; an error before it has started is the starter's, a later one the session's."""
        failed = False
        reason = "its session was ended"

        def started() -> None:
            self._runs[run.id] = run
            task_status.started()

        try:
            with run.scope:
                await self._run(run, started)
        except Exception as error:
            if run.id not in self._runs:
                raise
            failed = True
            reason = _why(error)
            _logger.warning("session %s has ended: %s", run.id, reason)
        finally:
            run.over(reason, cancelled=not failed)
            self._forget()

    async def _run(self, run: Run, started: Callable[[], object]) -> None:
        assert self._bridge is not None
        settings = self._settings
        found: Adapter = DemoAdapter() if run.runtime == DEMO else adapter(run.runtime)
        argv, version = await self._launch(found, run)
        async with (
            self._prompter.session(run.id, runtime=run.runtime, title=run.title) as recorder,
            await self._bridge.attach(
                run.id,
                found,
                self._prompter,
                wait=settings.wait,
                version=version,
                allow_unverified=settings.allow_unverified or run.runtime == DEMO,
            ) as session,
        ):
            session.subscribe(recorder)
            session.subscribe(run.hear)
            plan = session.plan_launch(LaunchRequest(argv, settings.env, cwd=run.cwd))
            async with start(session, plan, cwd=run.cwd) as runtime:
                several = plan.serves or hasattr(found, "conversation_argv")
                await run.work(session, runtime, several=several, started=started)

    async def _launch(self, found: Adapter, run: Run) -> tuple[Sequence[str], str | None]:
        """Return how the runtime is started, for several prompts where it can be, and its version where that counts."""
        if not isinstance(found, CommandLineAdapter):
            raise DrivingError(f"{run.runtime}: its adapter does not say how it is started")
        program = self._settings.programs.get(run.runtime) or found.program
        if not program:
            raise DrivingError(
                f"{run.runtime} is a protocol, not a program; the server has to be started with --bin {run.runtime}=PATH"
            )
        arguments = self._settings.arguments.get(run.runtime, ())
        for_several = getattr(found, "conversation_argv", None)
        argv = (
            found.default_argv(program, run.title, arguments)
            if for_several is None
            else for_several(program, arguments)
        )
        version_argv = getattr(found, "version_argv", None)
        asks_version = () if version_argv is None else version_argv(program, arguments)
        version = None
        if asks_version:
            version = await anyio.to_thread.run_sync(
                partial(told_version, asks_version, env=self._settings.env)
            )
        return argv, version

    def _forget(self) -> None:
        gone = [run.id for run in self._runs.values() if run.ended.is_set()]
        for session_id in gone[: max(0, len(gone) - self._settings.kept)]:
            del self._runs[session_id]


class _Speech:
    """What the agent said last in its turn: behind its last tool call, or before it where nothing came after."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._before = ""
        self._pieces: list[str] = []
        self._length = 0

    @property
    def text(self) -> str:
        with self._lock:
            said = "".join(self._pieces)
            return said if said.strip() else self._before

    def clear(self) -> None:
        with self._lock:
            self._before, self._pieces, self._length = "", [], 0

    def hear(self, event: Event) -> None:
        if event.agent_id is not None:
            return
        if isinstance(event, TurnStarted):
            self.clear()
        elif isinstance(event, ToolAnnounced):
            said = self.text
            with self._lock:
                self._before, self._pieces, self._length = said, [], 0
        elif isinstance(event, TextSaid):
            with self._lock:
                self._pieces.append(event.text[-_SAID_MAX:])
                self._length += len(self._pieces[-1])
                if self._length > 2 * _SAID_MAX:
                    self._pieces = ["".join(self._pieces)[-_SAID_MAX:]]
                    self._length = _SAID_MAX


def _why(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) if isinstance(error, OpaskError) else f"{type(error).__name__}: {error}"


def _end_of(result: RunResult, text: str) -> TurnEnd:
    """Return how a turn ended that the exit of its runtime ended."""
    if result.ok:
        return TurnEnd("done", text, result.stop_reason)
    code = f"killed by {result.signal.name}" if result.signal else f"exit code {result.exit_code}"
    said = result.stderr.splitlines()[-1:]
    last = f"; it said: {shorten(said[0], _WHY_LENGTH)}" if said else ""
    return TurnEnd("failed", text, f"{result.stop_reason or 'it ended before its turn did'}, {code}{last}")
