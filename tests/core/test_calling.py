"""How what a host gives is called: what is async on the loop and at once, what is plain in a thread."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

from opask.calling import called, is_async

HERE = threading.get_ident


async def coroutine(value: int) -> tuple[int, int]:
    """Give the value, and the thread."""
    return value, HERE()


def plain(value: int) -> tuple[int, int]:
    """Give the value, and the thread."""
    return value, HERE()


def gives_awaitable(value: int) -> Awaitable[tuple[int, int]]:
    """Give what has to be awaited."""
    return coroutine(value)


class Object:
    """An object whose call is a coroutine function."""

    def __init__(self) -> None:
        self.has_begun = False

    async def __call__(self, value: int) -> tuple[int, int]:
        """Give the value, and the thread, some time later."""
        self.has_begun = True
        await anyio.lowlevel.checkpoint()
        return value, HERE()

    async def method(self, value: int) -> tuple[int, int]:
        """Do the same."""
        return await self(value)


ASYNC = [coroutine, partial(coroutine), Object(), Object().method]


@pytest.mark.parametrize("call", ASYNC)
async def test_what_is_async_is_called_on_the_loop(call: Callable[..., object]) -> None:
    """A coroutine function, by whatever name, and an object that is called like one."""
    assert is_async(call)
    assert await called(call, 1) == (1, HERE())


async def test_what_is_plain_is_called_in_a_thread() -> None:
    """Since it may block; what it gives is waited for on the loop, where it is awaitable."""
    assert not is_async(plain)
    value, thread = await called(plain, 2)
    assert value == 2
    assert thread != HERE()
    assert await called(gives_awaitable, 3) == (3, HERE())


async def test_what_is_async_begins_before_it_is_cancelled() -> None:
    """So that it can tell of that: a gate traces its denial."""
    call = Object()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await called(call, 1)
    assert scope.cancelled_caught
    assert call.has_begun


async def test_what_is_plain_is_left_alone_where_it_is_cancelled() -> None:
    """Nobody waits for a thread that does not end."""
    has_begun, ends = anyio.Event(), threading.Event()
    token = anyio.lowlevel.current_token()

    def blocks() -> None:
        anyio.from_thread.run_sync(has_begun.set, token=token)
        ends.wait(60)

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(called, blocks)
            with anyio.fail_after(30):
                await has_begun.wait()
            tasks.cancel_scope.cancel()
        assert not ends.is_set()
    finally:
        ends.set()


async def test_errors_come_as_they_are() -> None:
    """Whoever calls sees what went wrong."""

    async def fails() -> None:
        raise ValueError("async")

    def fails_plainly() -> None:
        raise ValueError("plain")

    for call in (fails, fails_plainly):
        with pytest.raises(ValueError, match=r"async|plain"):
            await called(call)
