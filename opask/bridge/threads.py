"""A thread with an event loop of its own, and the way onto the host's loop.

The bridge serves from its own loop, since a host whose loop is blocked for a fraction of a second would else
miss the window in which a runtime lists its tools. Only a prompter runs where the host lives. Every hand-over
between the two is a post that never blocks.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Any, Protocol, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from anyio.lowlevel import EventLoopToken, current_token

from opask.errors import BridgeError

__all__ = ["HostLoop", "LoopThread", "Poster", "ends_process", "in_daemon_thread"]

T = TypeVar("T")


class Poster(Protocol):
    """Runs a plain function on an event loop, from any thread, without waiting for it."""

    def post(self, function: Callable[..., object], /, *args: Any) -> bool:
        """Schedule the call; False where the loop has ended."""
        ...


class HostLoop:
    """The host's event loop, asyncio's or trio's, and the task group in which prompters run on it."""

    def __init__(self, tasks: TaskGroup, token: EventLoopToken | None = None) -> None:
        self.tasks = tasks
        self._token = token or current_token()

    @property
    def is_current(self) -> bool:
        """Whether this is called on the loop itself, by a task of some loop."""
        return current_token() == self._token

    def post(self, function: Callable[..., object], /, *args: Any) -> bool:
        """Schedule the call in a copy of the caller's context; False where the loop has ended."""
        try:
            self._token.backend_class.run_sync_soon(function, args, self._token.native_token)
        except RuntimeError:  # the loop is closed
            return False
        return True


def ends_process(error: BaseException) -> bool:
    """Tell whether an error means the whole process: Ctrl-C or an exit, on the one thread where they do."""
    on_main = threading.current_thread() is threading.main_thread()
    return on_main and isinstance(error, KeyboardInterrupt | SystemExit)


async def in_daemon_thread(host: Poster, function: Callable[[], T], name: str) -> T:
    """Run a plain function on a thread of its own and return what it returns.

    Neither a cancelled caller nor an ending process waits for it; for anyio's own worker threads a process does.

    Args:
        host: the loop that this is called on.
        function: must not raise.
        name: the thread's.
    """
    returned: list[T] = []
    done = anyio.Event()

    def run() -> None:
        returned.append(function())
        host.post(done.set)

    # Copied on a thread, since anyio sees to it that no event loop seems to run there.
    context = await anyio.to_thread.run_sync(contextvars.copy_context, limiter=anyio.CapacityLimiter(1))
    threading.Thread(target=context.run, args=(run,), name=name, daemon=True).start()
    await done.wait()
    return returned[0]


def _quiet_about_closed_sockets(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what the loop could not raise, but for one harmless race.

    anyio's unix streams let a socket that becomes readable in the very turn in which its reader is cancelled set
    the result of a future that is done already (seen with anyio 4.16).
    """
    if not isinstance(context.get("exception"), asyncio.InvalidStateError):
        loop.default_exception_handler(context)


class LoopThread:
    """A daemon thread that runs an asyncio loop with one task group until it is stopped.

    A daemon, so that a host that forgets to close it can still end.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._up: Future[None] = Future()
        self._lock = threading.Lock()
        self._is_up = False
        self._pid = os.getpid()
        self._stop: anyio.Event
        self.tasks: TaskGroup
        self.host: HostLoop

    def start(self) -> None:
        """Start the thread and wait, a few milliseconds, until its loop runs.

        Raises:
            OSError: there is no file descriptor left for a loop.
        """
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()
        self._up.result()

    @property
    def is_current(self) -> bool:
        """Whether this is called on the thread itself."""
        return threading.current_thread() is self._thread

    def post(self, function: Callable[..., object], /, *args: Any) -> bool:
        """Schedule the call; False where the loop has ended, or never was: in a fork of the process."""
        if os.getpid() != self._pid:
            return False
        with self._lock:
            return self._is_up and self.host.post(function, *args)

    def submit(self, function: Callable[..., Awaitable[T]], /, *args: Any) -> Future[T]:
        """Run a coroutine function on the loop, as a task of its task group.

        Raises:
            BridgeError: the loop has ended (from the future, if it ends meanwhile).
        """
        future: Future[T] = Future()

        async def run() -> None:
            try:
                result = await function(*args)
            except Exception as error:
                future.set_exception(error)
            except BaseException:
                future.set_exception(BridgeError("the bridge was closed meanwhile"))
                raise
            else:
                future.set_result(result)

        def begin() -> None:
            try:
                self.tasks.start_soon(run)
            except RuntimeError:  # its tasks are over, and the loop is about to be
                future.set_exception(BridgeError("the bridge was closed meanwhile"))

        if not self.post(begin):
            raise BridgeError("the bridge is closed")
        return future

    def stop(self) -> None:
        """Cancel what still runs on the loop and wait for the thread to end."""
        if self._thread is None:
            return
        wait_for([self._up])  # an interrupted start
        self.post(self._stop_now)
        self._thread.join()

    def _stop_now(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        try:
            anyio.run(self._main, backend="asyncio")
        except Exception as error:
            if self._up.done():
                raise
            self._up.set_exception(error)

    async def _main(self) -> None:
        asyncio.get_running_loop().set_exception_handler(_quiet_about_closed_sockets)
        self._stop = anyio.Event()
        try:
            async with anyio.create_task_group() as self.tasks:
                self.host = HostLoop(self.tasks)
                self._is_up = True
                self._up.set_result(None)
                await self._stop.wait()
                self.tasks.cancel_scope.cancel()
        finally:
            with self._lock:
                self._is_up = False
