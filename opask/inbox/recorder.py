"""Keeps a session's events in its log, without making the session wait."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any, Final

import anyio

from opask.events import (
    AnswerRefused,
    Event,
    QuestionAsked,
    QuestionCorrelated,
    QuestionResolved,
    SessionReady,
    TurnEnded,
    event_to_json,
)
from opask.inbox.store import Store

__all__ = ["GAP", "Recorder"]

_logger = logging.getLogger("opask.inbox")

GAP: Final = "log_gap"
"""The event that stands for events that were not kept: ``{"event": "log_gap", "missed": count}``."""

# Few, and a conversation makes no sense without them.
_ALWAYS = (AnswerRefused, QuestionAsked, QuestionCorrelated, QuestionResolved, SessionReady, TurnEnded)


class Recorder:
    """A listener for `Session.subscribe` that appends every event to a session's log in a store.

    It never blocks: what cannot be stored at once waits in memory, and is stored together as soon as the store is
    free. Of more than ``limit`` waiting events the newest are not kept, but for those of questions and of a turn's
    end; a `GAP` then says how many are missing. What the store cannot take is logged, and a gap too.

    Args:
        store: the inbox.
        session_id: the session, which has begun there.
        limit: how many events may wait.
    """

    def __init__(self, store: Store, session_id: str, *, limit: int = 10_000) -> None:
        self._store = store
        self._session_id = session_id
        self._limit = limit
        self._lock = threading.Lock()
        self._waiting: list[Mapping[str, Any]] = []
        self._missed = 0
        self._in_hand: list[Mapping[str, Any]] = []  # what is being stored
        self._siblings: dict[str, int] = {}  # by ask, until it is put into the inbox
        self.missed = 0

    def __call__(self, event: Event) -> None:
        """Take an event, from any thread."""
        kept = event_to_json(event)
        with self._lock:
            if isinstance(event, QuestionAsked) and event.question_id is not None:
                self._siblings[event.question_id] = event.siblings_running
            elif isinstance(event, QuestionResolved) and event.question_id is not None:
                self._siblings.pop(event.question_id, None)
            if len(self._waiting) >= self._limit and not isinstance(event, _ALWAYS):
                self._miss(1)
            else:
                self._note_gap()
                self._waiting.append(kept)
            batch = self._next_batch()
        self._store_batch(batch)

    def siblings_of(self, ask_id: str) -> int | None:
        """Return how many other calls run on while an ask waits that is about to be put; None where no event told."""
        with self._lock:
            return self._siblings.pop(ask_id, None)

    async def flush(self) -> None:
        """Wait until all that was taken is in the store, or could not be."""
        while True:
            with self._lock:
                if not self._in_hand and not self._waiting:
                    return
            # Behind the batch in hand, since a store does things in order.
            await self._store.leases()
            await anyio.lowlevel.checkpoint()

    def _miss(self, count: int) -> None:
        self._missed += count
        self.missed += count

    def _note_gap(self) -> None:
        if self._missed:
            self._waiting.append({"event": GAP, "session_id": self._session_id, "missed": self._missed})
            self._missed = 0

    def _next_batch(self) -> list[Mapping[str, Any]]:
        if self._in_hand:
            return []
        self._note_gap()
        self._in_hand, self._waiting = self._waiting, []
        return self._in_hand

    def _store_batch(self, batch: list[Mapping[str, Any]]) -> None:
        if batch:
            self._store.append_soon(self._session_id, batch, self._stored)

    def _stored(self, error: Exception | None) -> None:
        """Hear that the batch in hand is stored, or is not; called by the store."""
        with self._lock:
            lost, self._in_hand = self._in_hand if error is not None else [], []
            missed = [event for event in lost if event["event"] != GAP]
            self._missed += sum(event["missed"] for event in lost if event["event"] == GAP)
            self._miss(len(missed))
            # A gap that cannot be stored alone waits for the next event.
            batch = self._next_batch() if self._waiting or error is None else []
        if error is not None:
            _logger.error(
                "%d events of session %s could not be stored: %s", len(missed), self._session_id, error
            )
        self._store_batch(batch)
