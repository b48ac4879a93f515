"""One session that a surface drives: prompt after prompt, until its runtime exits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import anyio

from opask.bridge.session import Session
from opask.driver import RunningRuntime, RunResult
from opask.events import (
    AskToolMissing,
    Event,
    QuestionAsked,
    SessionReady,
    TextSaid,
    ToolAnnounced,
    TurnStarted,
)
from opask.inert import shorten
from opask.surfaces.mcp.driving import DrivingError, SessionState, TurnEnd

__all__ = ["Run"]

_SAID_MAX: Final = 64 * 1024  # characters of a turn that are kept, the last ones
_WHY_LENGTH: Final = 300
_INTERRUPT_S: Final = 10.0
_TAKEN_BACK_S: Final = 1.0  # for the runtime itself to take back what it asks in an interrupted turn


class Run:
    """One session; implements `opask.surfaces.mcp.Driven`. Made by `Runs.start`."""

    def __init__(self, session_id: str, runtime: str, prompt: str, cwd: Path) -> None:
        self.id = session_id
        self.runtime = runtime
        self.title = prompt
        self.cwd = cwd
        self.started_at = datetime.now(UTC)
        self.turns = 0
        self.cannot_ask: str | None = None
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
            session, over = self._session, self._over
            # Before its questions end: an agent that has been told so first goes on with that.
            await self._runtime.interrupt()
            with anyio.move_on_after(_INTERRUPT_S) as bound:
                with anyio.move_on_after(_TAKEN_BACK_S):
                    await over.wait()
                session.cancel()
                await over.wait()
            if bound.cancelled_caught:
                raise DrivingError(
                    f"session {self.id} does not stop; session_cancel without keep ends its runtime"
                )

    def kill(self) -> None:
        """End the runtime at once, where the session is ending already."""
        if self._runtime is not None:
            self._runtime.kill()

    # -- as it runs ------------------------------------------------------------------------------------------------

    def _begin(self, text: str) -> None:
        self._over, self._cancelling = anyio.Event(), False
        self._speech.clear()
        self.turns += 1
        self._prompts.send_nowait(text)

    def hear(self, event: Event) -> None:
        """Take in what the session's agent says; called from any thread."""
        self._speech.hear(event)
        if isinstance(event, SessionReady) and not event.questions:
            self.cannot_ask = event.reason or "its runtime was given no way to ask"
        elif isinstance(event, AskToolMissing):
            self.cannot_ask = f"the ask tool did not reach the agent ({event.reason.replace('_', ' ')})"
        elif isinstance(event, QuestionAsked):
            self.cannot_ask = None  # it came later

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


def _end_of(result: RunResult, text: str) -> TurnEnd:
    """Return how a turn ended that the exit of its runtime ended."""
    if result.ok:
        return TurnEnd("done", text, result.stop_reason)
    code = f"killed by {result.signal.name}" if result.signal else f"exit code {result.exit_code}"
    said = result.stderr.splitlines()[-1:]
    last = f"; it said: {shorten(said[0], _WHY_LENGTH)}" if said else ""
    return TurnEnd("failed", text, f"{result.stop_reason or 'it ended before its turn did'}, {code}{last}")
