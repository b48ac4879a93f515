"""What the bridge's tests talk to it with: a raw MCP client, an adapter that adds nothing, prompters to hold."""

from __future__ import annotations

import json
import socket
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
from anyio.abc import TaskGroup

from opask import Answer, Answered, Ask, LaunchPlan, LaunchRequest, Outcome, Reply
from opask.bridge import Bridge, Session
from opask.events import Event, QuestionAsked, TurnEnded
from opask.launch import Endpoint
from opask.permissions import Defer, PermissionRequested, Verdict

ONE = {"questions": [{"question": "Which?", "options": ["a", "b"]}]}
OTHER = {"questions": [{"question": "Who?", "options": ["c", "d"]}]}


class PlainConversation:
    """Knows nothing of its runtime; ends the turn of every ask on the line ``end``."""

    def __init__(self) -> None:
        self.asks: list[Ask] = []

    def receive(self, message: Any, /) -> Sequence[Event]:
        """End the turn on ``end``."""
        if message == "end":
            return [TurnEnded(stop_reason="end", dropped=tuple(ask.id for ask in self.asks))]
        if message == "raise":
            raise ValueError("an adapter's own fault")
        return []

    def ask_arrived(self, ask: Ask, /) -> Sequence[Event]:
        """Correlate by the id in the call's meta."""
        self.asks.append(ask)
        return [
            QuestionAsked(
                question_id=ask.id,
                tool_call_id=ask.meta.get("test/call"),
                questions=ask.questions,
                asked_at=ask.asked_at,
                deadline=ask.deadline,
            )
        ]

    def ask_settled(self, ask: Ask, outcome: Outcome, /) -> Sequence[Event]:
        """Say nothing."""
        return []

    def decide(self, request: PermissionRequested, /) -> Verdict:
        """Defer."""
        return Defer()

    def reply(self, request: PermissionRequested, verdict: Verdict, /) -> dict[str, Any]:
        """Name the verdict."""
        return {"verdict": verdict.kind}

    def prompt(self, text: str, /) -> Sequence[dict[str, Any]]:
        """Take none."""
        return []

    def interrupt(self) -> Sequence[dict[str, Any]]:
        """Take none."""
        return []

    def end_turn(self, reason: Literal["ended", "interrupted", "exited"], /) -> Sequence[Event]:
        """Say nothing."""
        return []


class PlainAdapter:
    """Launches what it is given."""

    runtime = "plain"

    def plan_launch(self, request: LaunchRequest, endpoint: Endpoint | None, /) -> LaunchPlan:
        """Add nothing but the endpoint."""
        return LaunchPlan(
            argv=request.argv,
            env=request.env,
            endpoint=endpoint,
            questions=endpoint is not None,
            wait=None if endpoint is None else endpoint.wait,
        )

    def conversation(self, plan: LaunchPlan, /) -> PlainConversation:
        """Begin."""
        return PlainConversation()


class Held:
    """A prompter whose replies the test gives, when it wants."""

    def __init__(self) -> None:
        self.asked: deque[Ask] = deque()
        self.came = anyio.Event()
        self.replies: dict[str, Reply] = {}
        self.given: dict[str, anyio.Event] = {}
        self.settlements: list[tuple[Ask, Outcome]] = []
        self.told = anyio.Event()
        self.cancelled = 0
        self.there = True

    async def ask(self, ask: Ask, /) -> Reply:
        """Wait for the test's reply."""
        event = self.given.setdefault(ask.id, anyio.Event())
        self.asked.append(ask)
        self.came.set()
        try:
            await event.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        return self.replies[ask.id]

    def settled(self, ask: Ask, outcome: Outcome, /) -> None:
        """Remember it, and wake who waits for it."""
        self.settlements.append((ask, outcome))
        self.told.set()
        self.told = anyio.Event()

    def available(self, session_id: str, /) -> bool:
        """Say what the test says."""
        return self.there

    async def next(self) -> Ask:
        """Return the next ask."""
        while not self.asked:
            self.came = anyio.Event()
            await self.came.wait()
        return self.asked.popleft()

    def reply(self, ask: Ask, reply: Reply | None = None) -> None:
        """Give a reply, the first option by default."""
        self.replies[ask.id] = reply or Answered((Answer((0,)),) * len(ask.questions), "test")
        self.given[ask.id].set()

    async def outcome(self, count: int = 1) -> list[Outcome]:
        """Wait until so many asks have settled; return their outcomes."""
        while len(self.settlements) < count:
            await self.told.wait()
        return [outcome for _, outcome in self.settlements]


class Peer:
    """A raw MCP client on the session's socket.

    On the bare socket: anyio's stream has a race between closing and reading that would fail a test now and then.
    """

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._socket.setblocking(False)
        self._answers: dict[Any, Any] = {}
        self._came = anyio.Event()
        self._next = 0
        self.notifications: list[dict[str, Any]] = []
        self.ended = anyio.Event()

    async def read(self) -> None:
        """Take in what comes, until the end."""
        buffer = b""
        try:
            while received := await self._receive():
                *lines, buffer = (buffer + received).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))
        finally:
            self._close_now()
            self.ended.set()
            self._wake()

    async def _receive(self) -> bytes:
        while True:
            try:
                return self._socket.recv(65536)
            except BlockingIOError:
                try:
                    await anyio.wait_readable(self._socket)
                except anyio.ClosedResourceError:
                    return b""
            except OSError:
                return b""

    def _close_now(self) -> None:
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            self._socket.close()

    def _take(self, message: dict[str, Any]) -> None:
        if "method" in message:
            self.notifications.append(message)
        else:
            self._answers[message["id"]] = message
        self._wake()

    def _wake(self) -> None:
        self._came.set()
        self._came = anyio.Event()

    async def send_raw(self, data: bytes) -> None:
        """Send bytes as they are.

        Raises:
            OSError: the connection has ended.
        """
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)

    async def send_json(self, message: dict[str, Any]) -> None:
        """Send a message as it is."""
        await self.send_raw(json.dumps(message).encode() + b"\n")

    async def heard(self) -> None:
        """Wait for the next message."""
        await self._came.wait()

    async def send(self, method: str, params: Any = None, *, meta: Any = None) -> int:
        """Send a request; return its id."""
        self._next += 1
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": self._next, "method": method}
        if params is not None or meta is not None:
            message["params"] = dict(params or {})
            if meta is not None:
                message["params"]["_meta"] = meta
        await self.send_raw(json.dumps(message).encode() + b"\n")
        return self._next

    async def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        message = {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})
        await self.send_raw(json.dumps(message).encode() + b"\n")

    async def response(self, request_id: Any) -> dict[str, Any]:
        """Wait for a request's response."""
        while request_id not in self._answers:
            if self.ended.is_set():
                raise AssertionError(f"the connection ended before the response to {request_id}")
            await self._came.wait()
        answer: dict[str, Any] = self._answers.pop(request_id)
        return answer

    async def notified(self, method: str) -> dict[str, Any]:
        """Wait for a notification."""
        while True:
            for message in self.notifications:
                if message["method"] == method:
                    return message
            await self._came.wait()

    async def request(self, method: str, params: Any = None, *, meta: Any = None) -> dict[str, Any]:
        """Send a request and return its response."""
        return await self.response(await self.send(method, params, meta=meta))

    async def shake_hands(self, version: str = "2025-11-25") -> dict[str, Any]:
        """Initialize."""
        client = {"name": "peer", "version": "0"}
        response = await self.request(
            "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
        )
        await self.notify("notifications/initialized")
        return response

    async def call(self, arguments: Any, *, meta: Any = None) -> int:
        """Call the ask tool; return the request's id."""
        return await self.send("tools/call", {"name": "ask_user_question", "arguments": arguments}, meta=meta)

    async def close(self) -> None:
        """Drop the connection."""
        self._close_now()
        await self.ended.wait()


async def attach(bridge: Bridge, *arguments: Any, **settings: Any) -> Session:
    """Attach a runtime that the registry has never heard of."""
    return await bridge.attach(*arguments, allow_unverified=True, **settings)


def attach_sync(bridge: Bridge, *arguments: Any, **settings: Any) -> Session:
    """Do as `attach`, without a loop."""
    return bridge.attach_sync(*arguments, allow_unverified=True, **settings)


def socket_of(session: Session) -> Path:
    """Return the session's socket, planning its launch where that is still to do."""
    plan = session.plan or session.plan_launch(LaunchRequest(["runtime"]))
    assert plan.endpoint is not None
    return Path(plan.endpoint.command[-1])


@asynccontextmanager
async def connected(session: Session) -> AsyncIterator[Peer]:
    """Connect a client and shake hands."""
    async with anyio.create_task_group() as tasks:
        peer = await opened(session, tasks)
        await peer.shake_hands()
        yield peer
        await peer.close()


async def opened(session: Session, tasks: TaskGroup) -> Peer:
    """Connect a client that has said nothing yet."""
    peer = Peer(socket_of(session))
    tasks.start_soon(peer.read)
    return peer


def text_of(response: dict[str, Any]) -> str:
    """Return the text of a tool result."""
    text: str = response["result"]["content"][0]["text"]
    return text
