"""How a surface says that an operator is there."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio

from opask.inbox.refusals import InboxError
from opask.inbox.store import Store

__all__ = ["attend"]

_logger = logging.getLogger("opask.inbox")


@asynccontextmanager
async def attend(
    store: Store,
    surface: str,
    *,
    session_ids: Iterable[str] | None = None,
    lasts: timedelta = timedelta(seconds=30),
) -> AsyncIterator[str]:
    """Hold a lease while the block lasts: agents may ask, since somebody sees it here.

    It is renewed at a third of its time. Where this process dies, or the inbox cannot be written, it lapses by itself.

    Args:
        store: the inbox.
        surface: the surface's name.
        session_ids: the sessions whose questions are seen; all by default.
        lasts: how long the lease lasts unless it is renewed.

    Returns:
        The lease's id.

    Raises:
        InboxError: (on entering) the lease cannot be had.
    """
    lease_id = f"lease_{secrets.token_urlsafe(12)}"
    covered = None if session_ids is None else frozenset(session_ids)

    async def keep() -> None:
        while True:
            await anyio.sleep(lasts.total_seconds() / 3)
            try:
                await store.renew(lease_id, surface, lasts=lasts, session_ids=covered)
            except InboxError as error:
                _logger.warning("agents do not know that an operator is at %s: %s", surface, error)

    await store.renew(lease_id, surface, lasts=lasts, session_ids=covered)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep)
            yield lease_id
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            try:
                await store.leave(lease_id)
            except InboxError as error:
                _logger.warning("agents do not know yet that nobody is at %s any more: %s", surface, error)
