"""The events of a session on their way to whoever listens: stamped, in order, one thread at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from attrs import evolve

from opask.bridge.threads import ends_process
from opask.events import Event, SessionReady, TurnEnded, TurnStarted

__all__ = ["Publisher", "Record", "is_listening"]

_logger = logging.getLogger("opask.bridge")
_here = threading.local()

Record: TypeAlias = Mapping[str, Any]
"""The ``message`` of a recording's ``bridge`` entry."""


def is_listening() -> bool:
    """Tell whether this thread is in a listener or an observer: the bridge may wait until it returns."""
    return getattr(_here, "depth", 0) > 0


class Publisher:
    """Stamps events and hands them on.

    Args:
        session_id: the session.
        complete: fills in what the session knows beside the adapter once it is known whether the agent can ask.

    Attributes:
        lock: held while anything is published; whoever makes events holds it meanwhile, so that they keep their order.
    """

    def __init__(self, session_id: str, complete: Callable[[SessionReady], SessionReady]) -> None:
        self.lock = threading.RLock()
        self._session_id = session_id
        self._complete = complete
        self._listeners: list[Callable[[Event], object]] = []
        self._observers: list[Callable[[Record], object]] = []
        self._seq = 0
        self._turn = 0
        self._turn_id: str | None = None
        self._ready = False

    def subscribe(self, listener: Callable[[Event], object]) -> Callable[[], None]:
        """Add a listener for events; return what takes it away."""
        return self._added(self._listeners, listener)

    def observe(self, observer: Callable[[Record], object]) -> Callable[[], None]:
        """Add an observer of records; return what takes it away."""
        return self._added(self._observers, observer)

    def publish(self, events: Iterable[Event]) -> list[Event]:
        """Stamp the events, tell the listeners, and return them as they were told.

        That a session is ready is said once, and never overwritten.
        """
        with self.lock:
            published = [stamped for event in events if (stamped := self._stamped(event)) is not None]
            for event in published:
                for listener in list(self._listeners):
                    self._tell(listener, event)
            return published

    def record(self, make: Callable[[], Record]) -> None:
        """Tell the observers; the record is made only where there is one."""
        with self.lock:
            if not self._observers:
                return
            record = make()
            for observer in list(self._observers):
                self._tell(observer, record)

    def _stamped(self, event: Event) -> Event | None:
        if isinstance(event, SessionReady):
            if self._ready:
                return None
            self._ready = True
            event = self._complete(event)
        if isinstance(event, TurnStarted):
            self._turn += 1
            self._turn_id = f"turn-{self._turn}"
        self._seq += 1
        stamped = evolve(
            event,
            seq=self._seq,
            time=datetime.now(UTC),
            session_id=self._session_id,
            turn_id=event.turn_id or self._turn_id,
        )
        if isinstance(event, TurnEnded):
            self._turn_id = None
        return stamped

    def _added(self, to: list[Any], who: Any) -> Callable[[], None]:
        with self.lock:
            to.append(who)

        def end() -> None:
            with self.lock:
                if who in to:
                    to.remove(who)

        return end

    def _tell(self, listener: Callable[[Any], object], what: object) -> None:
        _here.depth = getattr(_here, "depth", 0) + 1
        try:
            listener(what)
        except BaseException as error:
            if ends_process(error):
                raise
            _logger.exception("a listener of session %s failed", self._session_id)
        finally:
            _here.depth -= 1
