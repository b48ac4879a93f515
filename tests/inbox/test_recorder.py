"""A session's events on their way into its log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from inbox_peers import KINDS, Kind, opened
from opask.events import QuestionResolved, TextSaid, TurnEnded
from opask.inbox import InboxError, MemoryStore, Recorder
from opask.inbox.recorder import GAP


class Stuck(MemoryStore):
    """A store that takes events only when it is told to, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Callable[[], None]] = []
        self.fault: Exception | None = None

    def append_soon(
        self,
        session_id: str,
        events: Sequence[Mapping[str, Any]],
        done: Callable[[Exception | None], object] | None = None,
    ) -> None:
        """Keep it for later."""
        assert done is not None

        def store() -> None:
            if self.fault is not None:
                done(self.fault)
            else:
                super(Stuck, self).append_soon(session_id, events, done)

        self.held.append(store)

    def go_on(self) -> None:
        """Take what waits, and what comes meanwhile."""
        while self.held:
            self.held.pop(0)()


async def begun(store: MemoryStore) -> None:
    """Enter the session."""
    host = await store.join()
    await store.begin_session("s1", host.id)


async def kept(store: MemoryStore) -> list[Any]:
    """Return what is in the log, in short."""
    return [
        event.get("text", event.get("missed", event["event"]))
        for event in (logged.event for logged in await store.events("s1"))
    ]


@pytest.mark.parametrize("kind", KINDS)
async def test_events_are_kept_in_order(tmp_path: Path, kind: Kind) -> None:
    """All that is heard, from any thread, is in the log once it is flushed."""
    async with opened(kind, tmp_path) as store:
        host = await store.join()
        await store.begin_session("s1", host.id)
        recorder = Recorder(store, "s1")

        def talk() -> None:
            for number in range(500):
                recorder(TextSaid(seq=number, text=str(number)))

        thread = threading.Thread(target=talk)
        thread.start()
        thread.join()
        await recorder.flush()
        assert [logged.event["text"] for logged in await store.events("s1")] == list(map(str, range(500)))
        assert recorder.missed == 0


async def test_a_full_recorder_says_what_it_did_not_keep() -> None:
    """Beyond its limit the newest events are left out and counted; questions and ends of turns never are."""
    store = Stuck()
    await begun(store)
    recorder = Recorder(store, "s1", limit=3)
    for number in range(7):
        recorder(TextSaid(text=str(number)))
    recorder(QuestionResolved(outcome="answered", duration_ms=1, question_id="q1"))
    recorder(TextSaid(text="8"))
    recorder(TurnEnded(stop_reason="end"))
    store.go_on()
    await recorder.flush()
    # 0 is in the store's hand, 1 to 3 wait; 4 to 6 and 8 are not kept.
    assert await kept(store) == ["0", "1", "2", "3", 3, "question_resolved", 1, "turn_ended"]
    assert recorder.missed == 4
    recorder(TextSaid(text="after"))
    store.go_on()
    assert (await kept(store))[-1] == "after"


async def test_what_a_store_cannot_take_is_a_gap(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, the session goes on, and the log says how much is missing."""
    store = Stuck()
    await begun(store)
    recorder = Recorder(store, "s1")
    store.fault = InboxError("the disk is full")
    for number in range(3):
        recorder(TextSaid(text=str(number)))
    store.go_on()
    await recorder.flush()
    store.fault = None
    recorder(TextSaid(text="3"))
    store.go_on()
    assert await kept(store) == [3, "3"]
    assert recorder.missed == 3
    assert "the disk is full" in caplog.text
    assert (await store.events("s1"))[0].event["event"] == GAP
