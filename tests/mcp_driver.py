"""A driver whose agents are coroutines of a test, in place of a bridge and runtimes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import anyio
from anyio.abc import TaskGroup

from opask import Answered, Ask, Cancelled, Option, Outcome, Question, Skipped
from opask.inbox import Entry, Host, MemoryStore, Store
from opask.surfaces.mcp import Driven, DrivingError, McpSurface, SessionState, TurnEnd

__all__ = ["Agent", "FakeDriver", "FakeSession", "one", "several", "stand"]

Agent: TypeAlias = Callable[["FakeSession", str], Awaitable[str]]


def one(text: str, *labels: str, multi: bool = False, header: str = "") -> Question:
    """Make a question."""
    return Question(text, header, tuple(Option(label) for label in labels), multi)


def several(*questions: Question) -> tuple[Question, ...]:
    """Make the questions of one ask."""
    return questions


class FakeSession:
    """A session whose agent is a coroutine."""

    def __init__(self, number: int, runtime: str, cwd: str | None, driver: FakeDriver) -> None:
        self.id = f"s{number}"
        self.runtime = runtime
        self.title = ""
        self.cwd = Path(cwd or "/work")
        self.started_at = datetime.now(UTC)
        self.turns = 0
        self.said = ""
        self.cannot_ask: str | None = None
        self.is_ended = False
        self.last: TurnEnd | None = None
        self.outcomes: list[Outcome] = []
        self._driver = driver
        self._over = anyio.Event()
        self._over.set()
        self._scope = anyio.CancelScope()
        self._asks = count(1)

    @property
    def state(self) -> SessionState:
        """How it stands."""
        if not self._over.is_set():
            return "working"
        return "ended" if self.is_ended else "idle"

    def prompt(self, text: str, /) -> None:
        """Begin a turn."""
        if self.state != "idle":
            raise DrivingError(f"session {self.id} is {self.state}")
        self.title = self.title or text
        self.turns += 1
        self._over = anyio.Event()
        self._driver.tasks.start_soon(self._turn, text)

    async def _turn(self, text: str) -> None:
        with anyio.CancelScope() as self._scope:
            self.last = TurnEnd("done", await self._driver.agent(self, text), "end_turn")
        if self._scope.cancelled_caught:
            self.last = TurnEnd("cancelled", self.said)
        self._over.set()

    async def turn_over(self) -> TurnEnd:
        """Wait for the turn's end."""
        await self._over.wait()
        assert self.last is not None
        return self.last

    async def cancel(self, *, keep: bool) -> None:
        """End the turn, and the session."""
        self._scope.cancel()
        await self._over.wait()
        self.is_ended = not keep

    async def ask(self, *questions: Question) -> Outcome:
        """Ask as an agent does; give how it ended."""
        store, ask_id = self._driver.store, f"{self.id}-q{next(self._asks)}"
        now = datetime.now(UTC)
        ask = Ask(ask_id, self.id, questions, now, now + timedelta(minutes=5))
        await store.put(ask, self._driver.host.id, runtime=self.runtime)
        outcome: Outcome = Cancelled("host")
        try:
            async for entry in store.watch_ask(ask_id):
                if entry.reply is not None:
                    outcome = entry.reply
                    break
        finally:
            with anyio.CancelScope(shield=True):
                await store.settle(ask_id, outcome)
        self.outcomes.append(outcome)
        return outcome

    async def ask_and_say(self, *questions: Question) -> str:
        """Ask, and say what came of it."""
        outcome = await self.ask(*questions)
        if isinstance(outcome, Answered):
            parts = [
                "skipped"
                if answer is None
                else "+".join(
                    [*(question.options[at].label for at in answer.selected), *filter(None, [answer.text])]
                )
                for question, answer in zip(questions, outcome.answers, strict=True)
            ]
            return f"answered {'; '.join(parts)}"
        return "skipped" if isinstance(outcome, Skipped) else outcome.kind


class FakeDriver:
    """A driver of one runtime, ``fake``."""

    runtimes: tuple[str, ...] = ("fake",)

    def __init__(self, store: Store, host: Host, tasks: TaskGroup, agent: Agent) -> None:
        self.store = store
        self.host = host
        self.tasks = tasks
        self.agent = agent
        self._sessions: dict[str, FakeSession] = {}

    async def start(self, runtime: str, prompt: str, cwd: str | None) -> Driven:
        """Start a session."""
        if runtime not in self.runtimes:
            raise DrivingError(f"there is no runtime {runtime!r}")
        session = FakeSession(len(self._sessions) + 1, runtime, cwd, self)
        self._sessions[session.id] = session
        session.prompt(prompt)
        return session

    def session(self, session_id: str) -> FakeSession:
        """Give a session."""
        if session_id not in self._sessions:
            raise DrivingError(f"there is no session {session_id!r}")
        return self._sessions[session_id]

    def sessions(self) -> tuple[Driven, ...]:
        """Give all of them."""
        return tuple(self._sessions.values())


class Stand:
    """A surface over a fake driver, and what it stands on."""

    def __init__(self, surface: McpSurface, store: Store, driver: FakeDriver) -> None:
        self.surface = surface
        self.store = store
        self.driver = driver

    async def pending(self, session_id: str = "s1") -> Entry:
        """Wait for a question of a session."""
        async for update in self.store.watch():
            entries: Any = getattr(update, "entries", None) or [getattr(update, "entry", None)]
            for entry in entries:
                if entry is not None and entry.state == "pending" and entry.session_id == session_id:
                    found: Entry = entry
                    return found
        raise AssertionError


@asynccontextmanager
async def stand(agent: Agent, **settings: Any) -> AsyncIterator[Stand]:
    """Give a surface whose sessions run this agent."""
    store = MemoryStore()
    host = await store.join()
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        driver = FakeDriver(store, host, tasks, agent)
        try:
            yield Stand(McpSurface(driver, store, version="1", **settings), store, driver)
        except Exception as error:  # raised below: the task group would wrap it
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
