"""What a run says: its turn for a person, or its events for a program; never both in one stream."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Final, Protocol, TextIO

from opask.cli.table import Colour, colour, is_coloured
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
    event_to_json,
)
from opask.inert import inert, inert_line
from opask.surfaces.wording import Tone

__all__ = ["EventLines", "Feed", "Stream", "Teller", "Writer"]

_FULL: Final = 1000  # items, from which on the runtime is held back
_OVERFULL: Final = 16 * _FULL
_COLOURS: dict[Tone, Colour] = {"dim": "dim", "strong": "bold", "warning": "yellow"}


class Writer(Protocol):
    """Where text for a person goes; the prompters of a terminal are such, so that open cards stay whole."""

    def write(self, text: str, tone: Tone = "plain") -> None:
        """Write text; it is made inert."""
        ...


class Stream:
    """A `Writer` of a plain stream.

    Args:
        stream: standard output or standard error.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._coloured = is_coloured(stream)

    def write(self, text: str, tone: Tone = "plain") -> None:
        """Write text, in a colour where the stream is a terminal."""
        encoding = self._stream.encoding or "utf-8"
        shown = inert(text).encode(encoding, "replace").decode(encoding)
        self._stream.write(colour(shown, _COLOURS.get(tone), on=self._coloured))
        self._stream.flush()


class Teller:
    """Shows a turn to a person.

    What is asked and answered is not shown here: that is the surfaces' part.

    Args:
        writer: where to.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._mid_line = False
        self._asks: set[str | None] = set()

    def __call__(self, event: Event) -> None:
        """Show an event, if it is one to show."""
        match event:
            case TextSaid(text=text):
                self._writer.write(text)
                self._mid_line = not text.endswith("\n")
            case ToolAnnounced(tool=tool, ask=None):
                self.line(f"· {_name(event, tool)}", "dim")
            case ToolAnnounced(tool_call_id=call_id):
                self._asks.add(call_id)
            case ToolFinished(tool=tool, is_error=True) if event.tool_call_id not in self._asks:
                self.line(f"· {_name(event, tool)} failed", "dim")
            case PermissionDecided(verdict="deny" | "defer"):
                self.line(f"· permission denied ({event.rule or 'nobody decides here'})", "dim")
            case NativeAskRefused(tool=tool):
                self.line(f"· {_name(event, tool)} refused: the agent has another way to ask", "dim")
            case AskToolMissing(reason=reason):
                self.line(
                    f"! the ask tool did not reach the agent ({_with(reason, event.server_status)})",
                    "warning",
                )
            case MessageUnreadable(reason=reason):
                self.line(f"· passed over what is not of the protocol: {reason}", "dim")
            case TurnEnded():
                self.end_line()
            case _:
                pass

    def line(self, text: str, tone: Tone = "plain") -> None:
        """Show a line of its own."""
        self.end_line()
        self._writer.write(f"{inert_line(text)}\n", tone)

    def end_line(self) -> None:
        """End the line that is being written."""
        if self._mid_line:
            self._writer.write("\n")
            self._mid_line = False


class EventLines:
    """Writes events as JSON lines, in ASCII alone, so that no terminal obeys what an agent wrote.

    Args:
        descriptor: where to.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __call__(self, event: Event) -> None:
        """Write an event."""
        left = memoryview(json.dumps(event_to_json(event)).encode() + b"\n")
        while left:
            left = left[os.write(self._descriptor, left) :]


class Feed:
    """Takes a session's events to whoever shows them, on a thread of its own: an output may block, a session not.

    Made on an asyncio loop, and finished there. Whoever brings it much waits for `room` between; what comes all the
    same while nothing is taken, from a runtime that is being ended, is dropped when there is too much of it.

    Args:
        show: called with each event, in order with whatever else is to be shown.
        gone: called on the loop, once, with what is wrong when nothing can be written any more.
    """

    def __init__(self, show: Callable[[Event], object], gone: Callable[[Exception], object]) -> None:
        self._show = show
        self._gone = gone
        self._items: SimpleQueue[Event | Callable[[], object] | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._room = asyncio.Event()
        self._is_awaited = False
        # A daemon: an output that blocks for ever must not keep an interrupted process.
        threading.Thread(target=self._run, name="opask-output", daemon=True).start()

    def put(self, item: Event | Callable[[], object]) -> None:
        """Take an event, or a call that shows something; from any thread, and never blocks."""
        if self._items.qsize() < _OVERFULL:
            self._items.put(item)

    async def room(self) -> None:
        """Wait until the output has caught up, or nobody reads it."""
        while self._items.qsize() >= _FULL and not self._ended.is_set():
            self._room.clear()
            self._is_awaited = True
            if self._items.qsize() >= _FULL:  # it may have caught up before it knew that it is waited for
                await self._room.wait()

    @property
    def is_finished(self) -> bool:
        """Whether all is shown, or nobody reads it."""
        return self._ended.is_set()

    async def finish(self) -> None:
        """Wait until all is shown."""
        self._items.put(None)
        await self._ended.wait()

    def _run(self) -> None:
        try:
            while (item := self._items.get()) is not None:
                if self._is_awaited and self._items.qsize() < _FULL:
                    self._is_awaited = False
                    self._post(self._room.set)
                if isinstance(item, Event):
                    self._show(item)
                else:
                    item()
        except (OSError, ValueError) as error:  # nobody reads it, or it is closed
            self._post(partial(self._gone, error))
        finally:
            self._post(self._ended.set)
            self._post(self._room.set)

    def _post(self, call: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(call)


def _name(event: Event, tool: str) -> str:
    return tool if event.agent_id is None else f"{tool} (sub-agent {event.agent_id})"


def _with(reason: str, status: str | None) -> str:
    return reason if status is None or status == reason else f"{reason}: {status}"
