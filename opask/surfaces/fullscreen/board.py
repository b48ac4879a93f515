"""What of an inbox is on the screen: the asks in the order that an operator looks for them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from attrs import Factory, define

from opask.inbox import Entry, EntryChanged, InboxSession, SessionChanged, SessionCleared, Snapshot, Update
from opask.inert import shorten
from opask.surfaces.wording import countdown, span, title

__all__ = ["Board", "headline", "standing"]

_TITLE = 60
_NAMES = {
    "pending": "waits",
    "answered": "answered{}, on its way",
    "delivered": "answered{}",
    "undelivered": "answered{}, too late",
    "skipped": "skipped{}",
    "timed_out": "timed out",
    "cancelled": "cancelled{}",
    "abandoned": "the agent gave up",
    "unavailable": "could not be asked",
    "orphaned": "its host is gone",
}


@define
class Board:
    """The asks and sessions that are known.

    Attributes:
        entries: by id.
        sessions: by id.
    """

    entries: dict[str, Entry] = Factory(dict)
    sessions: dict[str, InboxSession] = Factory(dict)

    def begin(self, entries: Iterable[Entry], sessions: Iterable[InboxSession]) -> None:
        """Take in what an inbox holds, in place of what was known."""
        self.entries = {entry.id: entry for entry in entries}
        self.sessions = {session.id: session for session in sessions}

    def hear(self, update: Update) -> None:
        """Take in a change, unless what is known is younger.

        A snapshot tells of what is open alone: the rest stays as it was known.
        """
        match update:
            case Snapshot(entries=entries, sessions=sessions):
                for entry in entries:
                    self._take(entry)
                self.sessions.update((session.id, session) for session in sessions)
            case EntryChanged(entry=entry):
                self._take(entry)
            case SessionChanged(session=session):
                self.sessions[session.id] = session
            case SessionCleared(session_id=session_id):
                known = self.sessions.get(session_id)
                if known is not None and not known.is_running:
                    del self.sessions[session_id]  # one that runs goes on
                self.entries = {
                    entry.id: entry for entry in self.entries.values() if entry.session_id != session_id
                }

    def _take(self, entry: Entry) -> None:
        known = self.entries.get(entry.id)
        if known is None or known.seq <= entry.seq:
            self.entries[entry.id] = entry

    def forget(self, keep: int) -> None:
        """Forget the oldest of the asks that are over; so many at least are kept."""
        if len(self.entries) > 2 * keep:
            for entry in self.over[keep:]:
                del self.entries[entry.id]

    @property
    def waiting(self) -> tuple[Entry, ...]:
        """The asks that wait, the one that has waited longest first."""
        return tuple(
            sorted(
                (one for one in self.entries.values() if one.state == "pending"), key=lambda one: one.number
            )
        )

    @property
    def over(self) -> tuple[Entry, ...]:
        """The others, the youngest first."""
        return tuple(
            sorted(
                (one for one in self.entries.values() if one.state != "pending"), key=lambda one: -one.number
            )
        )

    def of_session(self, session_id: str) -> tuple[Entry, ...]:
        """Return the asks of a session, oldest first."""
        return tuple(
            sorted(
                (one for one in self.entries.values() if one.session_id == session_id),
                key=lambda one: one.number,
            )
        )

    def whose(self, entry: Entry) -> str:
        """Say in a line which session asks, what it is about first."""
        session = self.sessions.get(entry.session_id)
        name = shorten(session.title, _TITLE) if session is not None else ""
        parts = [name or entry.session_id, entry.runtime or (session.runtime if session else "")]
        if entry.ask.agent_id is not None:
            parts.append(f"sub-agent {entry.ask.agent_id}")
        return " · ".join(shorten(part, _TITLE) for part in parts if part)


def headline(entry: Entry) -> str:
    """Return the short line that an ask is known by."""
    more = len(entry.ask.questions) - 1
    return title(entry.ask.questions[0]) + (f" (+{more})" if more else "")


def standing(entry: Entry, now: datetime) -> str:
    """Say how an ask stands: how long it waits and how much time is left, or how it ended and by whom."""
    if entry.state == "pending":
        waited = timedelta(seconds=max(0, int((now - entry.ask.asked_at).total_seconds())))
        left = "" if entry.deadline is None else f" · {countdown(entry.deadline - now)} left"
        return f"{span(waited)}{left}"
    return _NAMES[entry.state].format(f" in {shorten(entry.by, 24)}" if entry.by and entry.reply else "")
