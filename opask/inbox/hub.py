"""Those who watch an inbox in this process, woken on their own loops, with the last changes at hand for them."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from datetime import datetime
from itertools import takewhile
from typing import Final

import anyio
from anyio.lowlevel import EventLoopToken, current_token

from opask.inbox.entries import (
    Change,
    Entry,
    EntryChanged,
    Lease,
    LoggedEvent,
    SessionCleared,
    Snapshot,
    Update,
)

__all__ = ["EVERYTHING", "PRESENCE", "AskWatch", "EventWatch", "Hub", "Signal", "Watch", "ask_key", "log_key"]

EVERYTHING: Final = "everything"
PRESENCE: Final = "presence"
_KEPT = 2048
_PAGE = 500


def ask_key(ask_id: str) -> Hashable:
    """Return the key of one ask."""
    return ("ask", ask_id)


def log_key(session_id: str) -> Hashable:
    """Return the key of one session's log."""
    return ("log", session_id)


class _Loop:
    """One event loop with somebody who watches on it: woken at most once for all of them."""

    def __init__(self, token: EventLoopToken) -> None:
        self._token = token
        self._lock = threading.Lock()
        self._due: set[Signal] = set()
        self._is_posted = False

    def wake(self, signals: Iterable[Signal]) -> bool:
        """Have the signals set on the loop, from any thread; False where the loop has ended."""
        with self._lock:
            self._due.update(signals)
            if self._is_posted:
                return True
            self._is_posted = True
        try:
            self._token.backend_class.run_sync_soon(self._set, (), self._token.native_token)
        except RuntimeError:
            return False
        return True

    def _set(self) -> None:
        with self._lock:
            due, self._due = self._due, set()
            self._is_posted = False
        for signal in due:
            signal.event.set()


class Signal:
    """Tells one task on one loop that something is new; made by `Hub.listen` on that loop.

    Attributes:
        event: set when it is; the task puts a new one in its place before it looks.
        entry: the last that became of the one ask that it listens for, as far as the hub was told since.
    """

    def __init__(self, loop: _Loop) -> None:
        self.loop = loop
        self.event = anyio.Event()
        self.entry: Entry | None = None

    def arm(self) -> anyio.Event:
        """Return the event of what comes from now on."""
        if self.event.is_set():
            self.event = anyio.Event()
        return self.event


class Hub:
    """Where a store tells what was committed, and where whoever watches hears of it.

    Args:
        clock: gives the time (aware, UTC).
    """

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._signals: dict[Hashable, weakref.WeakSet[Signal]] = {}
        self._loops: dict[object, _Loop] = {}
        self._recent: deque[Change] = deque(maxlen=_KEPT)
        self._floor = 0
        self._last = 0
        self._leases: tuple[Lease, ...] = ()
        self._is_over = False

    def start(self, seq: int, leases: tuple[Lease, ...]) -> None:
        """Begin behind a change."""
        with self._lock:
            self._recent.clear()
            self._floor = self._last = seq
            self._leases = leases
            self._is_over = False

    def restart(self, seq: int) -> None:
        """Go on behind a change that does not follow on the last: whoever watches has to look for themselves."""
        with self._lock:
            self._recent.clear()
            self._floor = self._last = seq
            woken = self._listening(list(self._signals))
            for signals in woken.values():
                for signal in signals:
                    signal.entry = None
        self._wake(woken)

    def end(self) -> None:
        """Tell whoever watches that nothing comes any more: what they ask the store for next says why."""
        self._is_over = True
        self.restart(self._last)

    @property
    def last(self) -> int:
        """The last change that it was told of."""
        return self._last

    def listen(self, *keys: Hashable) -> Signal:
        """Return a signal of this task's loop for any of the keys; it is forgotten with its last reference."""
        token = current_token()
        with self._lock:
            loop = self._loops.setdefault(token.native_token, _Loop(token))
            signal = Signal(loop)
            for key in keys:
                self._signals.setdefault(key, weakref.WeakSet()).add(signal)
        return signal

    def told(
        self,
        changes: Iterable[Change] = (),
        logged: Iterable[str] = (),
        leases: tuple[Lease, ...] | None = None,
    ) -> None:
        """Take in what was committed: changes in order, sessions whose log grew, leases where they changed."""
        keys: list[Hashable] = [log_key(session_id) for session_id in logged]
        with self._lock:
            for change in changes:
                if change.seq <= self._last:
                    continue
                if len(self._recent) == _KEPT:
                    self._floor = self._recent[0].seq
                self._recent.append(change)
                self._last = change.seq
                if isinstance(change, EntryChanged):
                    key = ask_key(change.entry.id)
                    keys.append(key)
                    for signal in self._signals.get(key, ()):
                        signal.entry = change.entry
                elif isinstance(change, SessionCleared):
                    self._doubt_pending(keys)
                if EVERYTHING not in keys:
                    keys.append(EVERYTHING)
            if leases is not None and leases != self._leases:
                self._leases = leases
                keys.append(PRESENCE)
            woken = self._listening(keys)
        self._wake(woken)

    def _doubt_pending(self, keys: list[Hashable]) -> None:
        """Have whoever waits for an ask look for it: what cleared it may have taken with it how it ended."""
        for signal in self._signals.get(PRESENCE, ()):
            if signal.entry is not None and signal.entry.state == "pending":
                signal.entry = None
        keys.append(PRESENCE)

    def _wake(self, woken: dict[_Loop, set[Signal]]) -> None:
        for loop, signals in woken.items():
            if not loop.wake(signals):
                with self._lock:
                    self._loops = {token: each for token, each in self._loops.items() if each is not loop}

    def _listening(self, keys: Iterable[Hashable]) -> dict[_Loop, set[Signal]]:
        woken: dict[_Loop, set[Signal]] = {}
        for key in keys:
            signals = self._signals.get(key)
            if signals is None:
                continue
            if not signals:
                del self._signals[key]
            for signal in signals:
                woken.setdefault(signal.loop, set()).add(signal)
        return woken

    def recent(self, since: int) -> tuple[Change, ...] | None:
        """Return the changes after a number from memory; None where they do not reach back that far."""
        with self._lock:
            if self._is_over or not self._floor <= since <= self._last:
                return None
            later = list(takewhile(lambda change: change.seq > since, reversed(self._recent)))
        return tuple(reversed(later))

    def present_until(self, session_id: str) -> datetime | None:
        """See `Store.present_until`."""
        now = self._clock()
        return max(
            (lease.expires_at for lease in self._leases if lease.covers(session_id, now)), default=None
        )


class Watch:
    """Gives all changes; see `Store.watch`."""

    def __init__(
        self,
        hub: Hub,
        snapshot: Callable[[], Awaitable[Snapshot]],
        changes: Callable[[int, int], Awaitable[tuple[Change, ...] | None]],
        since: int | None,
    ) -> None:
        self._hub = hub
        self._snapshot = snapshot
        self._changes = changes
        self._since = since
        self._signal: Signal | None = None
        self._next: deque[Change] = deque()

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Update:
        if self._signal is None:
            self._signal = self._hub.listen(EVERYTHING)
        while not self._next:
            event = self._signal.arm()
            found = None if self._since is None else await self._changes(self._since, _PAGE)
            if found is None:
                snapshot = await self._snapshot()
                self._since = snapshot.seq
                return snapshot
            if found:
                self._next.extend(found)
            else:
                await event.wait()
        change = self._next.popleft()
        self._since = change.seq
        return change


class AskWatch:
    """Gives one ask as it becomes; see `Store.watch_ask`."""

    def __init__(self, hub: Hub, ask_id: str, entry: Callable[[str], Awaitable[Entry]]) -> None:
        self._hub = hub
        self._ask_id = ask_id
        self._entry = entry
        self._signal: Signal | None = None
        self._event: anyio.Event | None = None
        self._seq = 0

    def __aiter__(self) -> AskWatch:
        return self

    async def __anext__(self) -> Entry:
        if self._signal is None:
            self._signal = self._hub.listen(ask_key(self._ask_id), PRESENCE)
        elif self._event is not None:
            await self._event.wait()
        event = self._signal.arm()
        entry = self._signal.entry
        if entry is None or entry.seq < self._seq:
            entry = await self._entry(self._ask_id)
        self._seq = entry.seq
        self._event = event  # not before: cancelled meanwhile, the next call has to look again
        return entry


class EventWatch:
    """Gives a session's events; see `Store.watch_events`."""

    def __init__(
        self,
        hub: Hub,
        session_id: str,
        after: int,
        events: Callable[[str, int, int], Awaitable[tuple[LoggedEvent, ...]]],
    ) -> None:
        self._hub = hub
        self._session_id = session_id
        self._after = after
        self._events = events
        self._signal: Signal | None = None
        self._next: deque[LoggedEvent] = deque()

    def __aiter__(self) -> EventWatch:
        return self

    async def __anext__(self) -> LoggedEvent:
        if self._signal is None:
            self._signal = self._hub.listen(log_key(self._session_id))
        while not self._next:
            event = self._signal.arm()
            self._next.extend(await self._events(self._session_id, self._after, _PAGE))
            if not self._next:
                await event.wait()
        logged = self._next.popleft()
        self._after = logged.position
        return logged
