"""A host in a process of its own, with the bridge open, that carries out the benchmark's commands.

One JSON object a line: commands on standard input, what they give on standard output.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from opask import Answer, Answered, Ask, LaunchRequest, Outcome, Reply
from opask.bridge import Bridge, Session
from opask_claude import adapter


class Operator:
    """Answers at once, or all together when told to.

    Args:
        any_loop: whether it need not be asked on the host's loop; such a one can only answer at once.
    """

    def __init__(self, *, any_loop: bool = False) -> None:
        self.any_loop = any_loop
        self.gate = anyio.Event()
        self.gate.set()
        self.asked = 0
        self.outcomes: dict[str, int] = {}
        self._changed = anyio.Event()

    async def ask(self, ask: Ask, /) -> Reply:
        """Take the first option once the gate is open."""
        self.asked += 1
        self._wake()
        await self.gate.wait()
        return Answered((Answer((0,)),) * len(ask.questions), "bench")

    def settled(self, ask: Ask, outcome: Outcome, /) -> None:
        """Count it."""
        self.outcomes[outcome.kind] = self.outcomes.get(outcome.kind, 0) + 1
        self._wake()

    def available(self, session_id: str, /) -> bool:
        """Be there."""
        return True

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until something has come about."""
        while not reached():
            await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class Host:
    """What the commands are."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._operator = Operator()
        self._sessions: list[Session] = []

    async def attach(self, count: int, any_loop: bool = False) -> Any:
        """Attach so many sessions at once; give their relays' commands."""
        sessions: list[Session] = []
        operator = Operator(any_loop=True) if any_loop else self._operator

        async def one(number: int) -> None:
            session = await self._bridge.attach(f"bench-{number}", adapter, operator, allow_unverified=True)
            session.plan_launch(LaunchRequest(["claude", "-p", "hello"], dict(os.environ)))
            sessions.append(session)

        begin = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(one, number)
        took = (time.perf_counter() - begin) * 1000
        self._sessions += sessions
        plans = [session.plan for session in sessions]
        return {
            "ms": took,
            "commands": [list(plan.endpoint.command) for plan in plans if plan and plan.endpoint],
        }

    async def detach(self) -> Any:
        """Close every session."""
        async with anyio.create_task_group() as tasks:
            for session in self._sessions:
                tasks.start_soon(session.aclose)
        self._sessions.clear()
        return {}

    async def block(self, ms: int, how: str) -> Any:
        """Block the loop, asleep or busy, beginning right after this has said so."""
        say({"blocking": True})
        if how == "asleep":
            time.sleep(ms / 1000)  # noqa: ASYNC251 - that is the point
        else:
            until = time.perf_counter() + ms / 1000
            while time.perf_counter() < until:
                pass
        return {}

    async def park(self) -> Any:
        """Keep the asks that come from now on."""
        self._operator = Operator()
        self._operator.gate = anyio.Event()
        return {}

    async def parked(self, count: int) -> Any:
        """Wait until so many asks have come."""
        await self._operator.until(lambda: self._operator.asked >= count)
        return {}

    async def answer(self) -> Any:
        """Answer what was kept."""
        self._operator.gate.set()
        return {}

    async def settled(self, count: int) -> Any:
        """Wait until so many asks have settled; give how."""
        operator = self._operator
        await operator.until(lambda: sum(operator.outcomes.values()) >= count)
        return operator.outcomes

    async def state(self) -> Any:
        """Give the number of open file descriptors."""
        gc.collect()
        return {"fds": open_descriptors()}


def open_descriptors() -> int:
    """Return how many this process has."""
    return len(list(Path("/dev/fd").iterdir()))


def say(what: Any) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def main() -> None:
    """Obey until the input ends."""
    async with Bridge() as bridge:
        host = Host(bridge)
        say({"ready": True})
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            parameters = json.loads(line)
            command: Callable[..., Awaitable[Any]] = getattr(host, parameters.pop("do"))
            say(await command(**parameters))


anyio.run(main)
