from __future__ import annotations

import io
import json
import os
import threading

import anyio
import pytest

from opask.cli.output import EventLines, Feed, Stream, Teller
from opask.events import (
    AskToolMissing,
    Event,
    MessageUnreadable,
    NativeAskRefused,
    PermissionDecided,
    TextSaid,
    ToolAnnounced,
    ToolFinished,
    TurnEnded,
    TurnStarted,
)

HOSTILE = "a\x1b[2J\x9b1mb\u202ec"
INERT = "a␛[2J<U+009B>1mb<U+202E>c"


class Page(io.StringIO):
    """A stream that is no terminal, or says that it is one."""

    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        """Say so."""
        return self._terminal


def told(*events: Event) -> str:
    """Show events to a person who has no terminal."""
    page = Page()
    teller = Teller(Stream(page))
    for event in events:
        teller(event)
    return page.getvalue()


def test_text_streams_and_lines_stand_alone() -> None:
    """Pieces of text run on; what is not text begins a line of its own and ends it."""
    shown = told(
        TurnStarted(),
        TextSaid(text="I lo"),
        TextSaid(text="ok."),
        ToolAnnounced(tool="Bash", tool_call_id="1"),
        ToolFinished(tool="Bash", tool_call_id="1"),
        TextSaid(text="Done.\n"),
        ToolAnnounced(tool="Read", agent_id="helper"),
        ToolFinished(tool="Read", is_error=True, agent_id="helper"),
        TextSaid(text="End."),
        TurnEnded(stop_reason="end_turn"),
    )
    assert (
        shown == "I look.\n· Bash\nDone.\n· Read (sub-agent helper)\n· Read (sub-agent helper) failed\nEnd.\n"
    )


def test_an_ask_is_not_shown_as_a_tool_call() -> None:
    """A surface shows what is asked; its call, and that it failed, is not told twice."""
    calls = [
        ToolAnnounced(tool="ask", ask="supplied", tool_call_id="1"),
        ToolFinished(tool="ask", is_error=True, tool_call_id="1"),
    ]
    assert told(*calls) == ""


def test_what_a_person_should_know_is_told() -> None:
    """Denials, refusals, a missing tool and unreadable lines are told in a line each."""
    shown = told(
        PermissionDecided(request_id="1", verdict="defer", rule="", by="opask"),
        PermissionDecided(request_id="2", verdict="deny", rule="native ask tool", by="opask"),
        PermissionDecided(request_id="3", verdict="allow", rule="supplied", by="opask"),
        NativeAskRefused(tool="AskUserQuestion", channel="launch"),
        AskToolMissing(reason="failed", server_status="failed"),
        AskToolMissing(reason="pending", server_status="connecting"),
        MessageUnreadable(reason="no JSON"),
    )
    assert shown.splitlines() == [
        "· permission denied (nobody decides here)",
        "· permission denied (native ask tool)",
        "· AskUserQuestion refused: the agent has another way to ask",
        "! the ask tool did not reach the agent (failed)",
        "! the ask tool did not reach the agent (pending: connecting)",
        "· passed over what is not of the protocol: no JSON",
    ]


@pytest.mark.parametrize("terminal", [False, True])
def test_nothing_of_an_agent_is_obeyed(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Escapes and overrides in whatever an agent or a runtime says are shown, not sent."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    page = Page(terminal=terminal)
    teller = Teller(Stream(page))
    for event in (
        TextSaid(text=HOSTILE),
        ToolAnnounced(tool=HOSTILE, agent_id=HOSTILE),
        NativeAskRefused(tool=HOSTILE, channel="launch"),
        AskToolMissing(reason="failed", server_status=HOSTILE),
        MessageUnreadable(reason=HOSTILE),
        PermissionDecided(request_id="1", verdict="deny", rule=HOSTILE, by="opask"),
    ):
        teller(event)
    shown = page.getvalue()
    for code in ("\033[2m", "\033[33m", "\033[0m"):
        assert (code in shown) == terminal
        shown = shown.replace(code, "")
    assert shown.count(INERT) == 7
    assert not any(character in shown for character in "\x1b\x9b\u202e")


def test_a_stream_of_few_characters_gets_what_it_can_write() -> None:
    """What an encoding has no character for is replaced, and ends no run."""
    raw = io.BytesIO()
    text = io.TextIOWrapper(raw, encoding="ascii")
    Stream(text).write("Größe →")
    assert raw.getvalue() == b"Gr??e ?"


def test_event_lines_are_ascii() -> None:
    """An event is one line of JSON in ASCII, whatever is in it."""
    read_end, write_end = os.pipe()
    EventLines(write_end)(TextSaid(text=f"{HOSTILE}\n\ud800ö", seq=3))
    os.close(write_end)
    with os.fdopen(read_end, "rb") as file:
        (line,) = file.read().splitlines()
    assert line.isascii()
    assert b"\x1b" not in line
    event = json.loads(line)
    assert (event["event"], event["seq"], event["text"]) == ("text", 3, f"{HOSTILE}\n\ud800ö")


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio: the command line runs on nothing else."""
    return "asyncio"


async def test_a_feed_keeps_the_order() -> None:
    """Events and calls are shown one after the other, and all of them before it is finished."""
    shown: list[object] = []
    feed = Feed(shown.append, shown.append)
    events = [TextSaid(text=str(number)) for number in range(100)]
    for event in events:
        feed.put(event)
        feed.put(lambda: shown.append("call"))
    await feed.finish()
    assert shown[::2] == events
    assert shown[1::2] == ["call"] * 100


async def test_a_feed_whose_reader_has_gone_says_so_once() -> None:
    """An output that cannot be written is told on the loop, and what else is put in is dropped."""
    faults: list[Exception] = []
    gone = anyio.Event()

    def show(event: Event) -> None:
        raise BrokenPipeError("gone")

    def told(error: Exception) -> None:
        assert threading.current_thread() is threading.main_thread()
        faults.append(error)
        gone.set()

    feed = Feed(show, told)
    feed.put(TurnStarted())
    await gone.wait()
    feed.put(TurnStarted())
    await feed.finish()
    assert [str(fault) for fault in faults] == ["gone"]


async def test_a_feed_holds_back_who_brings_too_much() -> None:
    """While the output takes nothing there is no more room, and there is some when it has caught up."""
    release = threading.Event()
    shown: list[object] = []

    def show(event: Event) -> None:
        release.wait()
        shown.append(event)

    feed = Feed(show, lambda error: None)
    brought = 0
    with anyio.move_on_after(0.2) as scope:
        while True:
            feed.put(TurnStarted())
            brought += 1
            await feed.room()
    assert scope.cancelled_caught
    assert 1000 <= brought <= 1002
    release.set()
    await feed.room()
    await feed.finish()
    assert len(shown) == brought


async def test_a_feed_drops_what_is_brought_all_the_same() -> None:
    """Of what nobody takes, no more than so much is kept; there is room again for nothing when its reader has gone."""
    release = threading.Event()
    shown: list[object] = []

    def show(event: Event) -> None:
        release.wait()
        shown.append(event)
        if len(shown) == 20:
            raise BrokenPipeError("gone")

    feed = Feed(show, lambda error: None)
    for _ in range(50_000):
        feed.put(TurnStarted())
    assert feed._items.qsize() <= 16_000
    release.set()
    await feed.room()
    assert feed.is_finished
    assert len(shown) == 20


async def test_an_output_that_blocks_blocks_nobody() -> None:
    """Whoever puts events in goes on while the output takes none, and can give up waiting for it."""
    release = threading.Event()
    feed = Feed(lambda event: release.wait(), lambda error: None)
    for _ in range(1000):
        feed.put(TurnStarted())
    with anyio.move_on_after(0.05) as scope:
        await feed.finish()
    assert scope.cancelled_caught
    assert not feed.is_finished
    release.set()
    await feed.finish()
