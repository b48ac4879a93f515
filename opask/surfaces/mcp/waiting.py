"""What comes next of a session: the end of its turn, a question, or the end of the time."""

from __future__ import annotations

import anyio

from opask.inbox import Entry, EntryChanged, Snapshot, Store
from opask.surfaces.mcp.driving import Driven, TurnEnd

__all__ = ["next_of", "open_questions", "until_decided"]


async def next_of(session: Driven, store: Store, seconds: float) -> TurnEnd | Entry | None:
    """Wait for what comes next.

    A turn that is over goes before a question, which then is a sub-agent's that outlives it.

    Args:
        session: the session.
        store: where its questions are.
        seconds: how long to wait.

    Returns:
        How the turn ended, the oldest question that waits for an operator, or None where the time is over.
    """
    if session.state != "working":
        return await session.turn_over()
    found: TurnEnd | Entry | None = None
    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as tasks:

            async def turn() -> None:
                nonlocal found
                found = await session.turn_over()
                tasks.cancel_scope.cancel()

            async def question() -> None:
                nonlocal found
                asked = await _pending(session.id, store)
                if not isinstance(found, TurnEnd):
                    found = asked
                tasks.cancel_scope.cancel()

            tasks.start_soon(turn)
            tasks.start_soon(question)
    if found is None and (waiting := await open_questions(session.id, store)):
        return waiting[0]  # it came with the end of the time
    return found


async def _pending(session_id: str, store: Store) -> Entry:
    """Wait for a question that waits for an operator, the oldest one where there are several."""
    async for update in store.watch():
        if isinstance(update, Snapshot):
            entries = update.entries
        else:
            entries = (update.entry,) if isinstance(update, EntryChanged) else ()
        for entry in entries:
            if entry.session_id == session_id and entry.state == "pending":
                return entry
    raise AssertionError("the store's watch has ended")


async def open_questions(session_id: str, store: Store) -> tuple[Entry, ...]:
    """Return a session's questions that wait for an operator, oldest first."""
    return await store.entries(session_id=session_id, states=("pending",))


async def until_decided(entry_id: str, store: Store) -> Entry:
    """Wait until a question waits for no operator any more."""
    async for entry in store.watch_ask(entry_id):
        if entry.state != "pending":
            return entry
    raise AssertionError("the store's watch has ended")
