"""A surface on an inbox: shows what waits there by a prompter, and hands its decisions in."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

import anyio
from anyio.abc import TaskGroup
from attrs import evolve

from opask.calling import called
from opask.inbox.entries import Entry, EntryChanged, Snapshot, Update
from opask.inbox.presence import attend
from opask.inbox.refusals import InboxError, RefusedError, UnknownAskError
from opask.inbox.rules import outcome_of
from opask.inbox.store import Store
from opask.inert import inert_line
from opask.outcomes import Abandoned, Answered, Cancelled, Outcome, Skipped, Unavailable
from opask.prompter import Prompter
from opask.questions import Ask

__all__ = ["show"]

_END_S: Final = 1.0
_AGAIN_S: Final = 1.0  # from a decision that could not be stored to the next
_logger = logging.getLogger("opask.inbox")


async def show(
    store: Store, surface: Prompter, name: str, *, session_ids: Iterable[str] | None = None
) -> None:
    """Show an inbox's asks on a surface, and give the inbox what is decided there.

    Several surfaces may show the same inbox: the first decision wins, and each of the others hears of it by its
    ``settled``. Runs until it is cancelled, or the surface says that nobody is there any more; as long as it runs it
    holds a lease, so that agents know of an operator.

    Args:
        store: the inbox.
        surface: where asks are shown: any prompter. One that cannot show an ask leaves it to the others.
        name: what the surface is called in the inbox, as its replies have it in ``by``.
        session_ids: the sessions whose asks it shows; all by default.

    Raises:
        InboxError: the inbox cannot be read any more.
    """
    covered = None if session_ids is None else frozenset(session_ids)
    fault: InboxError | None = None
    async with attend(store, name, session_ids=covered), anyio.create_task_group() as tasks:
        showing = _Showing(store, surface, name, covered, tasks)
        try:
            async for update in store.watch():
                await showing.hear(update)
        except InboxError as error:
            fault = error
            tasks.cancel_scope.cancel()
        finally:
            await showing.close()
    if fault is not None:
        raise fault


class _Showing:
    def __init__(
        self, store: Store, surface: Prompter, name: str, covered: frozenset[str] | None, tasks: TaskGroup
    ) -> None:
        self._store = store
        self._surface = surface
        self._name = name
        self._covered = covered
        self._tasks = tasks
        self._shown: dict[str, tuple[Ask, anyio.CancelScope]] = {}
        self._decided: set[str] = set()  # here, and not known yet to have reached the agent

    async def hear(self, update: Update) -> None:
        """Take in a change."""
        if isinstance(update, EntryChanged):
            self._take(update.entry)
        elif isinstance(update, Snapshot):
            for missed in self._shown.keys() - {entry.id for entry in update.entries}:
                self._end(missed, await self._outcome(missed))
            for entry in update.entries:
                self._take(entry)

    async def close(self) -> None:
        """Tell the surface what became of what it showed, as far as that is known."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(_END_S):
            for ask_id in list(self._shown):
                self._end(ask_id, await self._outcome(ask_id))
        for ask_id in list(self._shown):  # the inbox did not say in time
            self._end(ask_id, None)

    def _take(self, entry: Entry) -> None:
        if self._covered is not None and entry.session_id not in self._covered:
            return
        if entry.id not in self._shown:
            if entry.state == "pending":
                self._shown[entry.id] = evolve(entry.ask, deadline=entry.deadline), anyio.CancelScope()
                self._tasks.start_soon(self._put, entry.id)
        elif entry.state != "pending" and not (entry.state == "answered" and entry.id in self._decided):
            self._end(entry.id, outcome_of(entry))

    async def _put(self, ask_id: str) -> None:
        ask, scope = self._shown[ask_id]
        with scope:
            while True:
                reply = await self._reply(ask)
                if isinstance(reply, Unavailable):
                    break
                if await self._resolve(ask, reply):
                    return
                await anyio.sleep(_AGAIN_S)
            _logger.info(
                "surface %s leaves ask %s to others: %s", self._name, ask_id, inert_line(reply.reason)
            )
            if not self._is_there(ask):
                self._tasks.cancel_scope.cancel()

    async def _reply(self, ask: Ask) -> Answered | Skipped | Cancelled | Unavailable:
        """Ask the surface; whatever it does that no surface should is left to the others."""
        try:
            reply: object = await called(self._surface.ask, ask)
        except Exception:
            _logger.exception("surface %s failed on ask %s", self._name, ask.id)
            return Unavailable("the surface failed")
        if isinstance(reply, Answered | Skipped | Unavailable) or reply == Cancelled("operator"):
            return reply
        if isinstance(reply, Cancelled):
            return Unavailable(f"the surface ended: {reply.by}")
        _logger.error("surface %s gave no reply to ask %s, but %s", self._name, ask.id, type(reply).__name__)
        return Unavailable("the surface failed")

    def _is_there(self, ask: Ask) -> bool:
        try:
            return self._surface.available(ask.session_id)
        except Exception:
            _logger.exception("surface %s failed to say whether anybody is there", self._name)
            return False

    async def _resolve(self, ask: Ask, reply: Answered | Skipped | Cancelled) -> bool:
        """Hand a decision in; return whether that was heard, whatever became of it."""
        self._decided.add(ask.id)
        try:
            await self._store.resolve(ask.id, reply, session_id=ask.session_id, by=self._name)
        except RefusedError as error:
            self._decided.discard(ask.id)
            _logger.info("the inbox did not take the decision of surface %s: %s", self._name, error)
            if error.entry is not None:
                self._take(error.entry)
        except InboxError as error:
            self._decided.discard(ask.id)
            _logger.warning("the decision on ask %s is not stored, and asked for again: %s", ask.id, error)
            return False
        except Exception:
            self._decided.discard(ask.id)
            _logger.exception("surface %s gave no decision on ask %s", self._name, ask.id)
        return True

    async def _outcome(self, ask_id: str) -> Outcome | None:
        try:
            return outcome_of(await self._store.entry(ask_id))
        except UnknownAskError:  # forgotten since
            return Abandoned("disconnect")
        except InboxError as error:
            _logger.warning("what became of ask %s is not known: %s", ask_id, error)
            return Abandoned("disconnect")

    def _end(self, ask_id: str, outcome: Outcome | None) -> None:
        ask, scope = self._shown.pop(ask_id)
        self._decided.discard(ask_id)
        try:
            self._surface.settled(ask, outcome or Cancelled("shutdown"))
        except Exception:
            _logger.exception("surface %s failed on the end of ask %s", self._name, ask_id)
        scope.cancel()
