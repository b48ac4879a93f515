"""Calls of what a host gives, which may be a coroutine function, a plain one, or a plain one that gives an awaitable."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isawaitable, iscoroutinefunction
from typing import Any

import anyio.to_thread

__all__ = ["called", "is_async"]


def is_async(call: Callable[..., object]) -> bool:
    """Tell whether a call only makes a coroutine: of a coroutine function, or an object with such a ``__call__``."""
    return iscoroutinefunction(call) or iscoroutinefunction(getattr(type(call), "__call__", None))  # noqa: B004


async def called(call: Callable[..., object], *args: object) -> Any:
    """Call it and wait for what it gives; a plain one in a thread, which is left to itself where this is cancelled.

    What is async begins before anything here can be cancelled.

    Args:
        call: what is called.
        args: its arguments.
    """
    result: Any
    if is_async(call):
        result = call(*args)
    else:
        # In a tuple, since trio lets no thread give back what has to be awaited.
        (result,) = await anyio.to_thread.run_sync(lambda: (call(*args),), abandon_on_cancel=True)
    return await result if isawaitable(result) else result
