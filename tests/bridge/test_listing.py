"""When the runtime counts as having the tool's list: what is asked of it, and what is told meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
import pytest
from attrs import evolve

from bridge_peers import Peer, PlainAdapter, PlainConversation, attach, opened
from opask import LaunchPlan, LaunchRequest
from opask.bridge import Bridge, Session, serving
from opask.events import AskToolMissing, Event, TurnEnded, TurnStarted
from opask.launch import Endpoint
from opask.testing import Scripted

LONG = timedelta(seconds=30)
AT_ONCE = timedelta(seconds=0.4)  # longer than it takes where nothing is asked
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "peer", "version": "0"},
}


class TalkingConversation(PlainConversation):
    """Says on ``end`` that the list was not taken, unless it was told that it is."""

    def __init__(self) -> None:
        super().__init__()
        self.is_listed = False

    def receive(self, message: Any, /) -> Sequence[Event]:
        """Begin a turn, or end it, or do nothing."""
        if message == "begin":
            return [TurnStarted()]
        if message != "end":
            return []
        missing = [] if self.is_listed else [AskToolMissing(reason="not_listed")]
        return [*missing, TurnEnded(stop_reason="end")]

    def outgoing(self) -> Sequence[dict[str, Any]]:
        """Have nothing due."""
        return []

    def sent(self, message: Any, /) -> Sequence[Event]:
        """Say nothing."""
        return []

    def tool_listed(self) -> Sequence[Event]:
        """Remember it."""
        self.is_listed = True
        return []


class HoldingAdapter(PlainAdapter):
    """Has its first prompt held, or not."""

    def __init__(self, *, hold: bool) -> None:
        self.hold = hold

    def plan_launch(self, request: LaunchRequest, endpoint: Endpoint | None, /) -> LaunchPlan:
        """Hold."""
        return evolve(super().plan_launch(request, endpoint), hold_prompt=self.hold)

    def conversation(self, plan: LaunchPlan, /) -> TalkingConversation:
        """Begin."""
        return TalkingConversation()


@asynccontextmanager
async def listing(*, hold: bool) -> AsyncIterator[tuple[Session, Peer, list[Event]]]:
    """Attach a runtime that has just been given the list."""
    events: list[Event] = []
    async with Bridge() as bridge:
        session = await attach(bridge, "s", HoldingAdapter(hold=hold), Scripted({}))
        session.subscribe(events.append)
        async with anyio.create_task_group() as tasks:
            peer = await opened(session, tasks)
            await peer.shake_hands()
            await peer.request("tools/list")
            yield session, peer, events
            await peer.close()


async def answer(peer: Peer, ping: dict[str, Any], **answer: Any) -> None:
    """Answer a request of the server's."""
    await peer.send_json({"jsonrpc": "2.0", "id": ping["id"], **(answer or {"result": {}})})


async def pings(peer: Peer, count: int) -> list[dict[str, Any]]:
    """Wait for so many pings."""
    while len(found := [each for each in peer.notifications if each["method"] == "ping"]) < count:
        await peer.heard()
    return found


@pytest.mark.parametrize("answers", [{"result": {}}, {"error": {"code": -32601, "message": "no ping here"}}])
async def test_a_list_counts_once_it_was_read(answers: dict[str, Any]) -> None:
    """Where the first prompt is held a list that was written does not count until the client answers what follows it."""
    async with listing(hold=True) as (session, peer, _):
        (first,) = await pings(peer, 1)
        assert not await session.listed(AT_ONCE)
        await answer(peer, first, **answers)
        if "result" in answers:
            _, second = await pings(peer, 2)
            assert not await session.listed(AT_ONCE)
            await answer(peer, second)
        assert await session.listed(LONG)


async def test_nothing_is_asked_where_no_prompt_is_held() -> None:
    """A client whose first prompt waits for nothing is sent no ping."""
    async with listing(hold=False) as (session, peer, _):
        assert await session.listed(LONG)
        assert peer.notifications == []


async def test_a_client_of_the_newest_revision_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """In revision 2026-07-28 a server makes no requests: the client is given a while to read its list."""
    monkeypatch.setattr(serving, "_UNASKED_S", 4.0)  # much more than a busy machine takes to ask in between
    async with Bridge() as bridge:
        session = await attach(bridge, "s", HoldingAdapter(hold=True), Scripted({}))
        async with anyio.create_task_group() as tasks:
            peer = await opened(session, tasks)
            await peer.request("tools/list", meta=MODERN)
            assert not await session.listed(AT_ONCE)
            assert await session.listed(LONG)
            assert peer.notifications == []
            await peer.close()


async def test_a_client_that_goes_away_unread_does_not_count() -> None:
    """A copy that is asked whether it has read the list, and ends, has not taken it."""
    async with listing(hold=True) as (session, peer, _):
        await pings(peer, 1)
        await peer.close()
        assert not await session.listed(AT_ONCE)


async def test_a_turn_that_is_over_before_the_list_counts_is_no_news() -> None:
    """That the tool is missing is not told while its list is under way, and not at all where it turns out to be taken."""
    async with listing(hold=True) as (session, peer, events):
        for line in ("begin", "end"):
            session.receive(line)
        for number in (1, 2):
            await answer(peer, (await pings(peer, number))[-1])
        assert await session.listed(LONG)
        for line in ("begin", "end"):
            session.receive(line)
    assert [event.event for event in events] == ["turn_started", "turn_ended"] * 2


async def test_a_list_that_was_a_copys_is_told_later() -> None:
    """Where the list was given to one that went away, that the tool is missing is told with the next thing."""
    async with listing(hold=True) as (session, peer, events):
        await pings(peer, 1)
        session.receive("begin")
        session.receive("end")
        await peer.close()
        while len(events) < 3:  # the bridge hears of it in its own thread
            session.receive("nothing")
            await anyio.lowlevel.checkpoint()
    assert [event.event for event in events] == ["turn_started", "turn_ended", "ask_tool_missing"]


async def test_an_exit_tells_nothing_of_a_list_that_was_under_way() -> None:
    """A runtime that is gone before its list counts is not said to have lacked the tool."""
    async with listing(hold=True) as (session, peer, events):
        await pings(peer, 1)
        session.receive("end")
        session.end_turn("exited")
        await peer.close()
        session.receive("begin")
    assert [event.event for event in events] == ["turn_ended", "turn_started"]
