from __future__ import annotations

import contextvars
import threading

import anyio
import anyio.to_thread
import pytest

from opask.prompter import Prompter, current_prompter, use_prompter
from opask.testing import Scripted

OUTER, INNER = Scripted({}), Scripted({})


def test_a_prompter_is_carried_within_its_block() -> None:
    """The innermost block's prompter is the current one; outside there is none."""
    assert current_prompter() is None
    with use_prompter(OUTER):
        with use_prompter(INNER):
            assert current_prompter() is INNER
        assert current_prompter() is OUTER
    assert current_prompter() is None


def test_a_block_can_carry_none() -> None:
    """Carrying None hides an outer prompter."""
    with use_prompter(OUTER), use_prompter(None):
        assert current_prompter() is None


def test_an_exception_ends_the_block_too() -> None:
    """The outer prompter is back after a block that failed."""
    with use_prompter(OUTER):
        with pytest.raises(RuntimeError, match="inside"), use_prompter(INNER):
            raise RuntimeError("inside")
        assert current_prompter() is OUTER


async def test_tasks_and_worker_threads_inherit_it() -> None:
    """Tasks that start within the block, and functions that they run in threads, see its prompter."""
    seen: list[Prompter | None] = []

    async def look() -> None:
        seen.append(current_prompter())
        seen.append(await anyio.to_thread.run_sync(current_prompter))

    with use_prompter(OUTER):
        async with anyio.create_task_group() as group:
            group.start_soon(look)
            group.start_soon(look)
    assert seen == [OUTER] * 4


async def test_tasks_do_not_see_each_others() -> None:
    """A prompter that one task carries is not seen by another that runs meanwhile."""
    carried, looked = anyio.Event(), anyio.Event()

    async def carry() -> None:
        with use_prompter(INNER):
            carried.set()
            await looked.wait()

    async def look() -> None:
        await carried.wait()
        assert current_prompter() is None
        looked.set()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(carry)
            group.start_soon(look)


def test_a_bare_thread_starts_without_one() -> None:
    """A thread that is started by hand has no prompter unless it is run in the block's context."""
    seen: list[Prompter | None] = []

    def look() -> None:
        seen.append(current_prompter())

    with use_prompter(OUTER):
        context = contextvars.copy_context()
        for target in (look, lambda: context.run(look)):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
    assert seen == [None, OUTER]


def test_the_scripted_prompter_is_one() -> None:
    """The protocol can be checked at run time, by its three methods."""
    assert isinstance(OUTER, Prompter)
    assert not isinstance(object(), Prompter)
