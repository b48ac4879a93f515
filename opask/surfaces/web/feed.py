"""What a page hears as it happens: server-sent events, resumed where they broke off, and its operator's presence.

Each open feed reads the store at its own pace, so that of a slow reader no more waits in memory than the connection's
own buffer; one that takes nothing for long is dropped, comes back and goes on where it was.
Format: https://html.spec.whatwg.org/multipage/server-sent-events.html, section 9.2.
"""

from __future__ import annotations

import json
import logging
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, TypeVar

import anyio
from starlette.types import Message, Receive, Send

from opask.inbox import InboxError, LoggedEvent, Snapshot, Store, Update, update_to_json
from opask.surfaces.web.refusals import Refusal

__all__ = ["Feeds", "frame"]

T = TypeVar("T")
_logger = logging.getLogger("opask.web")
_KEPT_FRAMES: Final = 512
_PIECE: Final = 32 * 1024
_LEASE: Final = timedelta(seconds=30)
_RENEW_S: Final = 10.0
_FINISH_S: Final = 1.0
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_RETRY: Final = b"retry: 1000\n\n"


def frame(id_: str, event: str, data: Mapping[str, Any]) -> bytes:
    """Return one server-sent event."""
    return f"id: {id_}\nevent: {event}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode("ascii")


class Feeds:
    """The open feeds of one application.

    Args:
        store: the inbox.
        surface: the name of the presence lease that is held while somebody watches.
        beat_s: after how many quiet seconds a beat is sent, and at the beginning: it says so, and a reader that hears
            none any more knows that the connection is lost though nothing ended it.
        stall_s: after how many seconds of taking nothing a reader is dropped.
        limit: how many may be open at once.
    """

    def __init__(
        self,
        store: Store,
        *,
        surface: str,
        beat_s: float = 15.0,
        stall_s: float = 30.0,
        limit: int = 4000,
    ) -> None:
        self._store = store
        self._beat_s = beat_s
        self._beat = f'event: beat\ndata: {{"every_s":{beat_s:g}}}\n\n'.encode("ascii")
        self._stall_s = stall_s
        self._limit = limit
        self._presence = _Presence(store, surface)
        self._frames: OrderedDict[int, bytes] = OrderedDict()
        self._snapshot: tuple[int, bytes] = (-1, b"")
        self._open: dict[anyio.CancelScope, _Reader] = {}
        self._is_closed = False

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._open)

    def close(self) -> None:
        """End all feeds in good order, and take no more; on their event loop."""
        self._is_closed = True
        for scope in list(self._open):
            scope.cancel()

    async def finish(self) -> None:
        """Let those who read the inbox have what has happened until now, for a second at most, and `close`."""
        with suppress(InboxError), anyio.move_on_after(_FINISH_S):
            seq = (await self._store.snapshot()).seq
            while any(reader.seq < seq for reader in self._open.values()):  # noqa: ASYNC110 - at the end, once
                await anyio.sleep(_FINISH_S / 100)
        self.close()

    async def inbox(self, receive: Receive, send: Send, *, last: str | None, watches: bool) -> None:
        """Send every change of the inbox, until the reader goes.

        Args:
            receive: the connection's.
            send: the connection's.
            last: the last id that the reader has; one that cannot be gone on from gives a snapshot.
            watches: whether an operator sees what is asked.
        """
        updates = self._store.watch(self._seq_of(last))
        reader = _Reader(send, self._stall_s)
        reader.seq = -1

        async def pass_on(update: Update) -> None:
            await reader.put(self._update_frame(update))
            reader.seq = update.seq

        await self._stream(receive, reader, updates, pass_on, watches=watches)

    async def log(self, receive: Receive, send: Send, session_id: str, *, after: int) -> None:
        """Send every event of a session behind a position, until the reader goes."""
        events = self._store.watch_events(session_id, after=after)
        reader = _Reader(send, self._stall_s)

        async def pass_on(logged: LoggedEvent) -> None:
            data = {"position": logged.position, "event": dict(logged.event)}
            await reader.put(frame(str(logged.position), "log", data))

        await self._stream(receive, reader, events, pass_on, watches=False)

    def _seq_of(self, last: str | None) -> int | None:
        store_id, _, seq = (last or "").rpartition("-")
        if store_id != self._store.id or not seq.isascii() or not seq.isdecimal() or len(seq) > 18:
            return None
        return int(seq)

    def _update_frame(self, update: Update) -> bytes:
        """Return an update as it is sent; made once for all who are sent it."""
        seq = update.seq
        if isinstance(update, Snapshot):
            if self._snapshot[0] != seq:
                self._snapshot = (seq, self._made(update))
            return self._snapshot[1]
        found = self._frames.get(seq)
        if found is None:
            found = self._frames[seq] = self._made(update)
            if len(self._frames) > _KEPT_FRAMES:
                self._frames.popitem(last=False)
        return found

    def _made(self, update: Update) -> bytes:
        data = update_to_json(update)
        return frame(f"{self._store.id}-{update.seq}", data["kind"], data)

    async def _stream(
        self,
        receive: Receive,
        reader: _Reader,
        items: AsyncIterator[T],
        pass_on: Callable[[T], Awaitable[None]],
        *,
        watches: bool,
    ) -> None:
        if self._is_closed or len(self._open) >= self._limit:
            why = "ends" if self._is_closed else "has too many readers"
            raise Refusal(
                503, "too_many", f"This server {why}; try again soon.", headers={"Retry-After": "5"}
            )
        scope = anyio.CancelScope()
        self._open[scope] = reader
        try:
            with scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_until_gone, receive, tasks.cancel_scope)
                    await reader.start()
                    await reader.put(self._beat)
                    if watches:
                        tasks.start_soon(self._presence.hold)
                    while not reader.is_stalled:
                        item = None
                        with anyio.move_on_after(self._beat_s):
                            item = await anext(items)
                        if item is None:
                            await reader.put(self._beat)
                        else:
                            await pass_on(item)
                    tasks.cancel_scope.cancel()
        except* InboxError as error:
            # The reader comes back, and is told by a status then.
            _logger.warning("a feed ended: %s", error.exceptions[0])
        finally:
            del self._open[scope]
        await reader.end()


class _Reader:
    """Who is at the other end of a feed.

    Attributes:
        seq: the last change of the inbox that it was sent; for a reader of a log none matters.
        is_stalled: whether it takes nothing.
    """

    def __init__(self, send: Send, stall_s: float) -> None:
        self._send = send
        self._stall_s = stall_s
        self.seq: float = math.inf
        self.is_stalled = False

    async def start(self) -> None:
        await self._pass({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        await self.put(_RETRY)

    async def put(self, data: bytes) -> None:
        for at in range(0, len(data), _PIECE):
            piece = data[at : at + _PIECE]
            await self._pass({"type": "http.response.body", "body": piece, "more_body": True})

    async def end(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._pass({"type": "http.response.body", "body": b"", "more_body": False}, patience=1.0)

    async def _pass(self, message: Message, patience: float | None = None) -> None:
        if self.is_stalled:
            return
        with anyio.move_on_after(self._stall_s if patience is None else patience) as scope:
            await self._send(message)
        self.is_stalled = scope.cancelled_caught


async def _until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


class _Presence:
    """The one lease of all who watch here: an operator is there while the first of them is, until the last has gone."""

    def __init__(self, store: Store, surface: str) -> None:
        self._store = store
        self._surface = surface
        self._lease_id = f"lease_{secrets.token_urlsafe(12)}"
        self._count = 0
        self._renewed = -_RENEW_S
        self._lock = anyio.Lock()

    async def hold(self) -> None:
        """Hold it until cancelled."""
        self._count += 1
        try:
            while True:
                await self._renew()
                await anyio.sleep(_RENEW_S)
        finally:
            self._count -= 1
            with anyio.CancelScope(shield=True):
                await self._leave()

    async def _renew(self) -> None:
        async with self._lock:
            # Whichever of them comes by first does it for all.
            if time.monotonic() - self._renewed >= _RENEW_S / 2:
                await self._store.renew(self._lease_id, self._surface, lasts=_LEASE)
                self._renewed = time.monotonic()

    async def _leave(self) -> None:
        async with self._lock:
            if not self._count:
                self._renewed = -_RENEW_S
                await self._store.leave(self._lease_id)
