"""An agent without a process: it calls the ask tool of a session directly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import anyio
import anyio.to_thread

from opask.bridge import Session
from opask.wire import ToolResult

__all__ = ["Agent"]


class Agent:
    """Plays the agent of a session: what it asks takes the way of a real question, but for relay and socket.

    Args:
        session: an attached session.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def ask(self, arguments: Any, *, meta: Mapping[str, Any] | None = None) -> ToolResult:
        """Call the ask tool and wait for what the agent would be told.

        Args:
            arguments: the call's arguments, as a model would send them.
            meta: the call's ``_meta``.

        Returns:
            The tool's result. Cancelling this call is the agent's own cancel.

        Raises:
            BridgeError: the session is closed.
        """
        call = self._session.call(arguments, meta or {})
        try:
            return await anyio.to_thread.run_sync(
                call.result, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(math.inf)
            )
        except anyio.get_cancelled_exc_class():
            call.cancel()
            raise

    def ask_sync(self, arguments: Any, *, meta: Mapping[str, Any] | None = None) -> ToolResult:
        """Do as `ask`, blocking."""
        return self._session.call(arguments, meta or {}).result()
