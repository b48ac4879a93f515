"""A session that remembers, and runtimes of a few lines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import anyio

from opask.events import Event, MessageUnreadable, TextSaid, ToolAnnounced, TurnEnded, TurnStarted
from opask.launch import LaunchPlan
from opask.permissions import Allow, Defer, Deny, PermissionRequested, Verdict

PRELUDE = """
import json, os, signal, sys, time
def say(type, **more): print(json.dumps({"type": type, **more}), flush=True)
def hear(): return json.loads(sys.stdin.readline())
"""


class FakeAdapter:
    runtime = "fake"


class FakeSession:
    """A session with a made-up protocol: what a line's ``type`` names becomes that event.

    Args:
        prompts: whether prompts go by a message, and not in the argv.
        interrupts: whether a turn can be interrupted by a message.
        verdict: on every permission request.
    """

    def __init__(
        self,
        *,
        prompts: bool = True,
        interrupts: bool = False,
        verdict: Verdict | None = None,
        folders: Sequence[Path] = (),
    ) -> None:
        self.adapter: Any = FakeAdapter()
        self.folders = tuple(folders)
        self.log: list[str] = []
        self.due: list[Mapping[str, Any]] = []
        self.events: list[Event] = []
        self.decided: list[tuple[str, Verdict, str]] = []
        self.is_listed = anyio.Event()
        self._prompts = prompts
        self._interrupts = interrupts
        self._verdict = verdict or Defer()
        self._changed = anyio.Event()

    async def until(self, event: type[Event], count: int = 1) -> None:
        """Wait until so many events of a kind were seen."""
        while sum(isinstance(seen, event) for seen in self.events) < count:
            await self._changed.wait()

    def _saw(self, event: Event) -> list[Event]:
        self.events.append(event)
        self._changed.set()
        self._changed = anyio.Event()
        return [event]

    def receive(self, message: str, /) -> list[Event]:
        """Take in one line."""
        try:
            value: Any = json.loads(message)
        except ValueError:
            return self._saw(MessageUnreadable(reason=message[:80]))
        match value:
            case {"type": "turn"}:
                return self._saw(TurnStarted())
            case {"type": "text", "text": text}:
                return self._saw(TextSaid(text=text, agent_id=value.get("agent")))
            case {"type": "tool"}:
                return self._saw(ToolAnnounced(tool="Bash"))
            case {"type": "end"}:
                return self._saw(
                    TurnEnded(stop_reason=value.get("reason", "done"), is_error=value.get("error", False))
                )
            case {"type": "permission", "id": request_id}:
                return self._saw(PermissionRequested(request_id=request_id, tool="Bash"))
            case _:
                return self._saw(MessageUnreadable(reason="unknown"))

    def prompt(self, text: str, /) -> list[Mapping[str, Any]]:
        """Give a prompt."""
        self.log.append(f"prompt {text}")
        return [{"prompt": text}] if self._prompts else []

    def interrupt(self) -> list[Mapping[str, Any]]:
        """Interrupt."""
        self.log.append("interrupt")
        return [{"interrupt": True}] if self._interrupts else []

    def outgoing(self) -> list[Mapping[str, Any]]:
        """Give what was put there, once."""
        due, self.due = self.due, []
        return due

    def end_turn(self, reason: Literal["ended", "interrupted", "exited"], /) -> list[Event]:
        """End a turn that is open."""
        self.log.append(f"end_turn {reason}")
        if any(isinstance(event, TurnEnded) for event in self.events):
            return []
        return self._saw(TurnEnded(stop_reason=reason, is_error=True))

    def decide(self, request: PermissionRequested, /) -> Verdict:
        """Give the one verdict."""
        return self._verdict

    def host_decided(self, request: PermissionRequested, verdict: Allow | Deny, by: str) -> None:
        """Remember."""
        self.decided.append((request.request_id, verdict, by))

    def reply(self, request: PermissionRequested, verdict: Verdict, /) -> Mapping[str, Any]:
        """Write a verdict."""
        return {"id": request.request_id, "allowed": isinstance(verdict, Allow)}

    async def listed(self, timeout: timedelta, /) -> bool:  # noqa: ASYNC109 - the session's own
        """Wait until the test says so."""
        self.log.append("listed?")
        with anyio.move_on_after(timeout.total_seconds()):
            await self.is_listed.wait()
        return self.is_listed.is_set()

    def cancel(self) -> None:
        """Remember."""
        self.log.append("cancel")


def plan(script: str, **more: Any) -> LaunchPlan:
    """Give the plan that runs a runtime of a few lines, with ``say`` and ``hear`` at hand."""
    env = {"PATH": os.environ["PATH"], **more.pop("env", {})}
    return LaunchPlan(argv=(sys.executable, "-I", "-S", "-c", PRELUDE + script), env=env, **more)
