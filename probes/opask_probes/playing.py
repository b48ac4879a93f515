"""Play a scenario to a runtime that is attached to a bridge in this process, and see all that happens."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import anyio
from attrs import Factory, define, evolve, field, frozen

from opask.adapters import Adapter
from opask.bridge import Bridge, Session
from opask.bridge.bridge import Transport
from opask.driver import Bounds, RunningRuntime, RunResult, start
from opask.events import Event, QuestionAsked, QuestionCorrelated, QuestionResolved, TurnEnded
from opask.launch import LaunchPlan, LaunchRequest
from opask.outcomes import Reply
from opask.prompter import Prompter
from opask.questions import Ask
from opask.recording import Source
from opask.testing import Scripted

from .model import Scenario
from .passage import Passage, passage
from .runtimes import ProbedRuntime
from .sandbox import Isolation
from .stage import Stage, all_gone, processes_below, stage

__all__ = ["Line", "Operator", "Playing", "Setting", "Take", "playing"]

OneEvent = TypeVar("OneEvent", bound=Event)

_GONE_S: Final = 10.0  # in which all that a run started is gone, on a machine that is busy too
_NEWS_S: Final = 1.0
_RELAY: Final = re.compile(r"relay\.py \S+$")  # and not a program that is told of it


@frozen
class Line:
    """One thing that crossed the runtime's stdio or the bridge.

    Args:
        t: seconds since the start.
        source: where it came from.
        message: the line as it was, or what the bridge saw.
    """

    t: float
    source: Source
    message: str | Mapping[str, Any]


@define(eq=False)
class Take:
    """All that was seen in one run; complete once its block is left.

    Attributes:
        plan: how the runtime was launched.
        lines: everything that crossed its stdio and the bridge, in order.
        events: everything that the session said, in order.
        result: how the process ended; None where it was not waited for.
        exchanges: what the model was sent and replied.
        failures: what did not fit the model's scenario.
        left: what was still there after the end: processes, folders.
        opened: how many asks were open at once, at the most.
        places: what stands for the run's own paths and addresses in a recording.
    """

    plan: LaunchPlan | None = None
    lines: list[Line] = field(factory=list, repr=False)
    events: list[Event] = field(factory=list, repr=False)
    result: RunResult | None = None
    exchanges: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    failures: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    opened: int = 0
    places: dict[str, str] = field(factory=dict, repr=False)

    def of(self, kind: type[OneEvent]) -> list[OneEvent]:
        """Give the events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def index(self, event: Event) -> int:
        """Give an event's place."""
        return next(at for at, one in enumerate(self.events) if one is event)


class Operator(Scripted):
    """A scripted operator who may take time, and is no faster than the news of which call a question is of.

    Args:
        answers: see `opask.testing.Scripted`.
        before: awaited before each answer.
    """

    def __init__(
        self, answers: Mapping[str, Any], *, before: Callable[[Ask], Awaitable[object]] | None = None
    ) -> None:
        super().__init__(answers, by="probe")
        self._before = before
        self._run: Playing | None = None

    def attend(self, run: Playing) -> None:
        """Take in which run the questions are of."""
        self._run = run

    async def ask(self, ask: Ask, /) -> Reply:
        """Answer from the script, in due time."""
        if self._before is not None:
            await self._before(ask)
        if self._run is not None:
            with anyio.move_on_after(_NEWS_S):  # of some calls there is none
                await self._run.call_known(ask)
        return await super().ask(ask)


@frozen(kw_only=True)
class Setting:
    """What all runs of one probe have in common.

    Args:
        runtime: how it is probed.
        adapter: its adapter.
        program: its program.
        isolation: the namespace that is to be had.
        wait: how long an ask may take.
        bounds: the driver's.
        transport: how the runtime reaches the ask tool.
    """

    runtime: ProbedRuntime
    adapter: Adapter
    program: Path
    isolation: Isolation = field(repr=False)
    wait: timedelta = timedelta(minutes=5)
    bounds: Bounds = Factory(Bounds)
    transport: Transport = "stdio"


@define(eq=False)
class Playing:
    """A run that goes on; made by `playing`.

    Attributes:
        stage: where it takes place.
        session: the runtime's.
        runtime: the runtime, which runs.
        take: what was seen so far.
        has_ended: whether the runtime has exited, and all that it said was taken in.
        passage: how the runtime reaches the bridge over HTTP from a namespace of its own; None otherwise.
    """

    stage: Stage
    session: Session
    runtime: RunningRuntime
    take: Take
    has_ended: bool = False
    passage: Passage | None = None
    _prompt: str = field(kw_only=True)
    _changed: anyio.Event = field(init=False, factory=anyio.Event, repr=False)

    async def prompt(self, text: str | None = None) -> None:
        """Give the agent its prompt, or another one."""
        await self.runtime.prompt(self._prompt if text is None else text)

    async def to_the_end(self) -> None:
        """Wait for the end of the turn and of the process."""
        await self.runtime.turn_over()
        self.runtime.close_input()
        self.take.result = await self.runtime.wait()

    async def until(self, kind: type[OneEvent], count: int = 1, *, in_turn: bool = False) -> OneEvent:
        """Wait for so many events of a kind and give the last of them.

        Args:
            kind: the events' class.
            count: how many.
            in_turn: whether to wait no longer than the first turn goes on.

        Raises:
            EOFError: the runtime, or the turn, has ended before.
        """
        while len(found := self.take.of(kind)) < count:
            if self.has_ended or (in_turn and self.take.of(TurnEnded)):
                what = "runtime" if self.has_ended else "turn"
                raise EOFError(f"the {what} ended before {kind.event} number {count}")
            await self._changed.wait()
        return found[count - 1]

    def served(self, method: str) -> int:
        """Count the MCP requests of a method that the bridge has served."""
        return sum(
            line.source == "bridge"
            and isinstance(line.message, Mapping)
            and line.message.get("served", {}).get("method") == method
            for line in self.take.lines
        )

    async def until_served(self, method: str, count: int) -> None:
        """Wait until the bridge has served so many MCP requests of a method.

        Raises:
            EOFError: the runtime has ended before.
        """
        while self.served(method) < count:
            if self.has_ended:
                raise EOFError(f"the runtime ended before {method} number {count}")
            await self._changed.wait()

    def cut_off(self) -> int:
        """Take the ask server from the runtime: kill its relays, or over HTTP cut its connections; return how many."""
        if self.passage is not None:
            return self.passage.cut()
        relays = self.relays()
        for relay in relays:
            os.kill(relay, signal.SIGKILL)
        return len(relays)

    def reached(self) -> set[int]:
        """Give what tells one way to the ask server from another: relays by their ids, HTTP's connections by number."""
        return set(self.relays() if self.passage is None else range(self.passage.opened))

    async def call_known(self, ask: Ask) -> None:
        """Wait until it is known which call a question is of."""
        while ask.tool_call_id is None and not any(
            event.question_id == ask.id for event in self.take.of(QuestionCorrelated)
        ):
            await self._changed.wait()

    def relays(self) -> list[int]:
        """Give the ids of the relays that run below the runtime."""
        return [
            pid
            for pid, line in processes_below(self.runtime.pid)
            if _RELAY.search(line) and "guard.py" not in line
        ]

    def changed(self) -> None:
        """Wake whoever waits for something."""
        self._changed.set()
        self._changed = anyio.Event()

    async def watch(self) -> None:
        """Take note of the runtime's end."""
        self.take.result = await self.runtime.wait()
        self.has_ended = True
        self.changed()


@asynccontextmanager
async def playing(
    setting: Setting,
    scenario: Scenario,
    argv: Sequence[str],
    *,
    prompt: str,
    prompter: Prompter | None,
    env: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    refuse: frozenset[str] = frozenset(),
    interpreter: Path | None = None,
) -> AsyncIterator[Playing]:
    """Start a runtime for the length of a block, with a bridge and a scripted model of its own; needs asyncio.

    Whatever happens in the block, the runtime and all that it started has ended afterwards.

    Args:
        setting: what the probe's runs have in common.
        scenario: what the model plays.
        argv: the launch, as a host would do it alone.
        prompt: what the agent is told; named also where it is in the argv.
        prompter: the operator; None for nobody.
        env: variables beside those of the sandbox and the runtime's profile.
        settings: texts at the top of files below its HOME, which are made where they are not there.
        refuse: changes of the launch that are not wanted.
        interpreter: the Python that runs the relay.

    Yields:
        The run; its take is complete once the block is left.
    """
    take = Take()
    failure: Exception | None = None
    async with stage(scenario, setting.isolation) as set_:
        sockets = set_.sandbox.root / "b"
        sockets.mkdir(mode=0o700)
        setting.runtime.prepare(set_.sandbox.home, set_.url)
        for name, text in (settings or {}).items():
            _put_on_top(set_.sandbox.home / name, text)
        environment = set_.environment(setting.runtime, env or {})
        request = LaunchRequest(argv, environment, refuse=refuse, cwd=set_.sandbox.work)
        try:
            async with (
                Bridge(folder=sockets, interpreter=str(interpreter) if interpreter else None) as bridge,
                await bridge.attach(
                    "probe",
                    setting.adapter,
                    prompter,
                    wait=setting.wait,
                    allow_unverified=True,
                    transport=setting.transport,
                ) as session,
                AsyncExitStack() as stack,
            ):
                watcher = _Watcher(take, session)
                take.plan = session.plan_launch(request)
                take.places = _places(set_, take.plan)
                way = None
                if set_.enter and take.plan.endpoint is not None and take.plan.endpoint.url is not None:
                    port = urlsplit(take.plan.endpoint.url).port or 0
                    way = await stack.enter_async_context(passage(set_.enter, port, set_.sandbox.root / "h"))
                plan = evolve(take.plan, argv=(*set_.enter, *take.plan.argv))
                async with start(
                    session, plan, cwd=set_.sandbox.work, tee=watcher.tee, bounds=setting.bounds
                ) as runtime:
                    run = Playing(set_, session, runtime, take, prompt=prompt, passage=way)
                    watcher.follow(run)
                    if isinstance(prompter, Operator):
                        prompter.attend(run)
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(run.watch)
                        try:
                            yield run
                        except Exception as error:  # raised below: the task group would wrap it
                            failure = error
                        finally:
                            await runtime.end()
                if failure is not None:
                    raise failure
        finally:
            with anyio.CancelScope(shield=True):
                take.left = await _left(set_, sockets)
                await set_.close()
            take.exchanges, take.failures = set_.exchanges, set_.failures


class _Watcher:
    """Writes what a session and a driver say into a take, from whichever thread it comes."""

    def __init__(self, take: Take, session: Session) -> None:
        self._take = take
        self._begun = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._run: Playing | None = None
        self._open: set[str | None] = set()
        session.subscribe(self._event)
        session.observe(self._observed)

    def follow(self, run: Playing) -> None:
        self._run = run

    def tee(self, source: Source, line: str) -> None:
        self._line(source, line)

    def _observed(self, record: Mapping[str, Any]) -> None:
        self._line("bridge", dict(record))
        self._loop.call_soon_threadsafe(self._wake)

    def _line(self, source: Source, message: str | Mapping[str, Any]) -> None:
        self._take.lines.append(Line(round(time.monotonic() - self._begun, 3), source, message))

    def _event(self, event: Event) -> None:
        self._take.events.append(event)
        if isinstance(event, QuestionAsked):
            self._open.add(event.question_id)
            self._take.opened = max(self._take.opened, len(self._open))
        elif isinstance(event, QuestionResolved):
            self._open.discard(event.question_id)
        self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._run is not None:
            self._run.changed()


def _put_on_top(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(f"{text}{before}", encoding="utf-8")


def _places(set_: Stage, plan: LaunchPlan) -> dict[str, str]:
    sandbox = set_.sandbox
    places = {
        set_.url: "<model>",
        str(sandbox.home): "<home>",
        str(sandbox.tmp): "<tmp>",
        str(sandbox.work): "<work>",
        str(sandbox.root): "<sandbox>",
    }
    if plan.endpoint is not None:
        places[str(plan.endpoint.folder)] = "<session>"
        if plan.endpoint.url is not None:
            places[plan.endpoint.url] = "<endpoint>"
    return places


async def _left(set_: Stage, sockets: Path) -> tuple[str, ...]:
    """Wait a moment for all to be gone; give, and end, what is not."""
    left = await all_gone(set_.sandbox.root, _GONE_S)
    for pid, _ in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    folders = [entry.name async for entry in anyio.Path(sockets).iterdir()]
    return (*(f"process {line}" for _, line in left), *(f"folder {name}" for name in folders))
