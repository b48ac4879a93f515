"""The sessions that a surface drives: each a bridge's session and a runtime, in a task of this process's own."""

from __future__ import annotations

import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus
from attrs import field, frozen

from opask.adapters import Adapter, CommandLineAdapter, adapter
from opask.bridge import Bridge
from opask.cli.demo_adapter import DemoAdapter
from opask.cli.driven import Run
from opask.driver import start
from opask.errors import OpaskError
from opask.inbox import InboxPrompter
from opask.inert import shorten
from opask.installed import told_version
from opask.launch import LaunchRequest
from opask.surfaces.mcp.driving import Driven, DrivingError

__all__ = ["DEMO", "RunSettings", "Runs"]

DEMO: Final = "demo"
"""The runtime of the scripted agent that asks two questions, to try the way with nothing installed."""

_logger = logging.getLogger("opask.mcp")


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

    def hasten(self) -> None:
        """End every runtime at once."""
        for run in self._runs.values():
            run.kill()

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


def _why(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) if isinstance(error, OpaskError) else f"{type(error).__name__}: {error}"
