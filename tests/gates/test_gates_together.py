"""The gates with the real inbox and the real session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve

from gate_operator import request
from opask.bridge import Bridge
from opask.clarify import clarify
from opask.errors import LaunchError
from opask.events import Event, HostCalled, HostReturned
from opask.inbox import Entry, InboxPrompter, MemoryStore, SqliteStore, Store
from opask.inbox.forms import entry_to_json
from opask.launch import Endpoint, LaunchPlan, LaunchRequest
from opask.outcomes import Answered
from opask.permissions import Allow
from opask.permitting import OperatorPermits
from opask.questions import Answer, Option, Question
from opask.write_gate import WriteGate
from opask_claude import ClaudeAdapter

QUESTION = Question("Which database?", "Database", (Option("PostgreSQL"), Option("SQLite")))


@asynccontextmanager
async def _memory(path: Path) -> AsyncIterator[Store]:
    yield MemoryStore()


@asynccontextmanager
async def _sqlite(path: Path) -> AsyncIterator[Store]:
    async with SqliteStore(path / "inbox.db") as store:
        yield store


async def answered(store: Store, position: int) -> Entry:
    """Wait for the one ask that is open in an inbox, and answer it."""
    async for update in store.watch():
        entries = getattr(update, "entries", None) or [
            entry for entry in [getattr(update, "entry", None)] if entry
        ]
        for entry in entries:
            if entry.state == "pending":
                await store.resolve(entry.id, Answered((Answer((position,)),), "web"))
                return entry  # type: ignore[no-any-return]
    raise AssertionError


@pytest.mark.parametrize("kept", [_memory, _sqlite], ids=["memory", "sqlite"])
async def test_every_kind_of_ask_goes_by_the_inbox(tmp_path: Path, kept: Callable[[Path], Any]) -> None:
    """A clarification, a permission and a write action are answered on an inbox's surface, which sees which is which."""
    found: dict[str, Any] = {}
    async with (
        kept(tmp_path) as store,
        InboxPrompter(store, when_absent="attach") as prompter,
        prompter.session("s", runtime="claude", title="x"),
    ):

        async def asks() -> None:
            found["question"] = await clarify((QUESTION,), prompter=prompter, session_id="s")
            found["permission"] = await OperatorPermits(prompter)(request())
            found["write"] = await WriteGate(prompter=prompter)(request())

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(asks)
                entries = [await answered(store, position) for position in (1, 0, 0)]
        kinds = [entry_to_json(await store.entry(entry.id))["kind"] for entry in entries]
    assert kinds == ["question", "permission", "write"]
    assert found["question"].answer_texts() == {"Which database?": "SQLite"}
    assert found["question"].by == "web"
    assert found["permission"] == Allow("allowed once")
    assert found["write"] == Allow("write gate: action")


async def test_a_clarification_is_in_the_sessions_conversation() -> None:
    """Told to a session, the call and its result are events of that session, in their place."""
    heard: list[Event] = []
    async with Bridge() as bridge, await bridge.attach("s", ClaudeAdapter(), None) as session:
        session.subscribe(heard.append)
        await clarify((QUESTION,), tell=session.tell)
    assert [type(event) for event in heard] == [HostCalled, HostReturned]
    assert [(event.session_id, event.seq) for event in heard] == [("s", 1), ("s", 2)]


class Careless(ClaudeAdapter):
    """An adapter that knows nothing of floors."""

    def plan_launch(self, request: LaunchRequest, endpoint: Endpoint | None, /) -> LaunchPlan:
        """Plan as ever."""
        return super().plan_launch(evolve(request, read_only=False), endpoint)


async def test_a_floor_that_no_adapter_vouches_for_is_refused() -> None:
    """An adapter that does not say that it holds a read-only floor gets no launch with one."""
    async with Bridge() as bridge, await bridge.attach("s", Careless(), None) as session:
        with pytest.raises(LaunchError, match="read-only floor"):
            session.plan_launch(LaunchRequest(("claude", "-p", "x"), {}, read_only=True))
        assert session.plan is None
