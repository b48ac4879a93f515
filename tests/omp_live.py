"""A host of one's own for the real omp, run on a stage: ``python omp_live.py JSON``; prints what became of it.

What to do is an object: ``argv``, and at will ``refuse`` (changes), ``answers`` (by question; with null for somebody who
never answers), ``once_asked`` (``interrupt``, ``cancel`` or ``kill-relay``, once the first question is there), ``then``
(another prompt), ``resume`` (whether to go on with the session in another process) and ``interpreter`` (the relay's).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from opask.bridge import Bridge
from opask.driver import start
from opask.events import Event, event_to_json
from opask.launch import LaunchRequest
from opask.outcomes import Outcome, Reply
from opask.questions import Ask
from opask.testing import Scripted
from opask_omp import HostClient, adapter
from opask_probes.stage import processes_below


class Operator:
    """Answers as it is told to, or never; tells when it was asked, and waits for leave to answer."""

    def __init__(self, answers: dict[str, Any] | None) -> None:
        self._script = None if answers is None else Scripted(answers)
        self.asked = anyio.Event()
        self.may_answer = anyio.Event()

    async def ask(self, ask: Ask, /) -> Reply:
        """Answer."""
        self.asked.set()
        await self.may_answer.wait()
        if self._script is None:
            await anyio.sleep_forever()
            raise AssertionError
        return await self._script.ask(ask)

    def settled(self, ask: Ask, outcome: Outcome, /) -> None:
        """Do nothing."""

    def available(self, session_id: str, /) -> bool:
        """Be there."""
        return True


def relays() -> list[int]:
    """Give the relays that are there."""
    return [pid for pid, line in processes_below(os.getpid()) if "relay.py" in line]


async def another_relay(gone: int) -> None:
    """Wait for a relay in the place of one that was killed."""
    there = relays()
    while not set(there) - {gone}:  # nothing tells of a process that is not one's child
        await anyio.sleep(0.02)
        there = relays()


async def run(todo: dict[str, Any], resume: str | None = None) -> tuple[dict[str, Any], str]:
    """Run one process; give what became of it, and the session's id."""
    events: list[Event] = []
    sessions: list[str] = []
    operator = Operator(todo.get("answers"))
    acted = None

    def saw(source: str, line: str) -> None:
        told = json.loads(line).get("result") if source == "runtime" else None
        sessions.extend([told["sessionId"]] if isinstance(told, dict) and "sessionId" in told else [])

    async with (
        Bridge(interpreter=todo.get("interpreter")) as bridge,
        await bridge.attach(
            "live", adapter.with_client(HostClient(resume=resume)), operator, allow_unverified=True
        ) as session,
    ):
        session.subscribe(events.append)
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        request = LaunchRequest(todo["argv"], env, cwd=Path.cwd(), refuse=todo.get("refuse", ()))
        plan = session.plan_launch(request)
        async with start(session, plan, cwd=Path.cwd(), tee=saw) as runtime:
            await runtime.prompt("Go.")
            if todo.get("once_asked"):
                await operator.asked.wait()
                acted = datetime.now(UTC).isoformat()
            match todo.get("once_asked"):
                case "interrupt":
                    await runtime.interrupt()
                case "cancel":
                    session.cancel()
                case "kill-relay":
                    (relay,) = relays()
                    os.kill(relay, signal.SIGKILL)
                    await another_relay(relay)
            operator.may_answer.set()
            await runtime.turn_over()
            if todo.get("then"):
                await runtime.prompt(todo["then"])
                await runtime.turn_over()
            result = await runtime.finish()
    told = [event_to_json(event) for event in events]
    found = {"events": told, "ok": result.ok, "stderr": result.stderr, "acted": acted}
    return found, resume or sessions[-1]


async def main(todo: dict[str, Any]) -> None:
    """Run it, and print what became of it, or of the process that went on."""
    found, session_id = await run(todo)
    if todo.get("resume"):
        found, _ = await run(todo, session_id)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]))
