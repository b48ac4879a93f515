"""The bridge: one a process, from which sessions are attached."""

from __future__ import annotations

import atexit
import inspect
import logging
import math
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from attrs import evolve

from opask.adapters import Adapter, Conversation
from opask.bridge.serving import BridgeSettings, ServedSession, check_may_wait
from opask.bridge.session import Session
from opask.bridge.sockets import BridgeFolder, sweep
from opask.bridge.threads import HostLoop, LoopThread
from opask.errors import BridgeError, RelayError
from opask.intake import parse
from opask.launch import Endpoint, LaunchPlan, LaunchRequest
from opask.outcomes import Sentences
from opask.prompter import Prompter, current_prompter
from opask.registry import Registry

if TYPE_CHECKING:
    from opask.bridge.http import HttpListener

__all__ = ["Bridge", "Transport"]

Transport: TypeAlias = Literal["stdio", "http"]
"""How a runtime reaches the tool."""

_logger = logging.getLogger("opask.bridge")
_RELAY = "relay.py"
_INTERPRETER_CHECK_S = 20
_WARM_UP_S = 20
_HTTP_STOP_S = 3
_USAGE = 2  # what the relay exits with when it is given no socket
_LONGEST_WAIT = timedelta(days=36_500)  # a deadline has to be a date


class Bridge:
    """Serves the ask tool to the runtimes that this process starts.

    Open it once, in the host's lifespan: ``async with Bridge() as bridge`` on asyncio or trio, ``with Bridge() as
    bridge`` in a host without an event loop. Prompters run on the loop it was opened on; without one, on a loop in a
    thread of the bridge's. It installs no signal handler; its sockets and folders are gone when it closes.

    Args:
        interpreter: the Python that runs the relay; by default this one, in a frozen application the ``python3`` on
            the PATH.
        folder: where to make the private folder of the sockets; by default a temporary folder.
        grace: how long a question whose connection dropped waits for the runtime to send it again.
        heartbeat: how often progress is sent to a call that waits and carries a progress token.
        peer_uids: user ids that may connect; by default this process's own alone.
        max_pending: how many asks of one session may wait at once.
        registry: a host's own registry of routes; by default the one that comes with opask.
    """

    def __init__(
        self,
        *,
        interpreter: str | None = None,
        folder: Path | None = None,
        grace: timedelta = timedelta(seconds=2),
        heartbeat: timedelta = timedelta(seconds=10),
        peer_uids: frozenset[int] | None = None,
        max_pending: int = 16,
        registry: Registry | None = None,
    ) -> None:
        self._interpreter = interpreter
        self._base = folder
        self._grace = grace
        self._heartbeat = heartbeat
        self._uids = frozenset({os.getuid()}) if peer_uids is None else frozenset(peer_uids)
        self._max_pending = max_pending
        self._registry = registry
        self._thread = LoopThread("opask-bridge")
        self._own_host: LoopThread | None = None
        self._host: HostLoop | None = None
        self._host_tasks: TaskGroup | None = None
        self._folder: BridgeFolder | None = None
        self._settings: BridgeSettings | None = None
        self._served: set[ServedSession] = set()
        self._http: HttpListener | None = None
        self._http_ended: Future[None] | None = None
        self._lock = threading.Lock()
        self._state: str = "new"
        self._pid = os.getpid()

    # -- opening and closing ---------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._claim()
        self._host_tasks = anyio.create_task_group()
        await self._host_tasks.__aenter__()
        try:
            self._host = HostLoop(self._host_tasks)
            await _in_thread(self._open)
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def _end(self) -> None:
        assert self._host_tasks is not None
        with anyio.CancelScope(shield=True):
            await _in_thread(self._close)
        self._host_tasks.cancel_scope.cancel()
        # Not given the host's own exception: a task group would wrap it, and it is none of the prompters'.
        await self._host_tasks.__aexit__(None, None, None)

    def __enter__(self) -> Self:
        self._claim()
        try:
            self._own_host = LoopThread("opask-prompters")
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _claim(self) -> None:
        with self._lock:
            if self._state != "new":
                raise BridgeError("a bridge can be opened once; make a new one")
            self._state = "opening"
            self._pid = os.getpid()

    def _open(self) -> None:
        relay = self._checked_relay()
        try:
            if self._own_host is not None:
                self._own_host.start()
                self._host = self._own_host.host
            self._make(relay)
        except (
            OSError,
            anyio.BrokenResourceError,
            anyio.EndOfStream,
        ) as error:  # no file descriptor left, as a rule
            why = error.__cause__ or error
            raise BridgeError(f"the bridge cannot open: {getattr(why, 'strerror', None) or why!r}") from error
        self._state = "open"

    def _make(self, relay: tuple[str, ...]) -> None:
        others = bool(self._uids - {os.getuid()})
        self._folder = BridgeFolder(self._base, open_to_others=others)
        sweep(self._folder.path.parent)
        self._settings = BridgeSettings(
            relay=relay,
            grace=self._grace,
            heartbeat=self._heartbeat,
            max_pending=self._max_pending,
            uids=self._uids,
            socket_mode=self._folder.socket_mode,
            file_mode=self._folder.file_mode,
        )
        atexit.register(self._close)
        self._thread.start()
        self._warm_up()
        self._registry = self._registry or Registry.shipped()  # read here, not on the host's loop

    def _close(self) -> None:
        if os.getpid() != self._pid:
            return  # a fork of the host: the bridge, with its thread and its folder, is the parent's
        check_may_wait(self._thread)
        with self._lock:
            if self._state == "closed":
                return
            self._state = "closed"
            served = list(self._served)
        atexit.unregister(self._close)
        for each in served:
            each.begin_close()
        for each in served:
            each.close()
        if self._http is not None and self._http_ended is not None:
            self._thread.post(self._http.stop)
            wait_for([self._http_ended], timeout=_HTTP_STOP_S)
        self._thread.stop()
        if self._own_host is not None:
            self._own_host.stop()
        if self._folder is not None:
            self._folder.close()

    def _checked_relay(self) -> tuple[str, ...]:
        interpreter = self._interpreter
        if interpreter is None:
            frozen = getattr(sys, "frozen", False)
            interpreter = shutil.which("python3") if frozen else sys.executable
        relay = Path(__file__).resolve().parent.parent / _RELAY
        if not interpreter:
            raise RelayError("no Python to run the relay with was found; name one: Bridge(interpreter=…)")
        if not relay.is_file():
            raise RelayError(f"{relay} is missing: opask has to be installed unpacked, not in a zip file")
        command = (interpreter, "-I", "-S", str(relay))
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_INTERPRETER_CHECK_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RelayError(
                f"{interpreter} cannot run the relay ({error}); name a Python 3.9 or newer: Bridge(interpreter=…)"
            ) from error
        if done.returncode != _USAGE:
            said = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
            raise RelayError(
                f"{interpreter} does not run the relay (exit code {done.returncode}: {said[0]}); "
                "name a Python 3.9 or newer: Bridge(interpreter=…)"
            )
        return command

    def _warm_up(self) -> None:
        assert self._folder is not None
        assert self._settings is not None
        assert self._host is not None
        session = Session("warm-up", _NoAdapter(), None, self._host, None)
        settings = evolve(self._settings, uids=frozenset({os.getuid()}))
        served = ServedSession(session, self._thread, self._folder.session(), settings, Sentences())
        self._thread.submit(served.run)
        served.wait_until_up()
        self._thread.submit(_warm_up_over, served.socket_path).result()
        served.close()
        parse({"questions": [{"question": "?"}]})  # nothing that it loads is left for the first ask

    # -- sessions --------------------------------------------------------------------------------------------------

    async def attach(
        self,
        session_id: str,
        adapter: Adapter,
        prompter: Prompter | None = None,
        *,
        wait: timedelta | None = timedelta(minutes=5),
        sentences: Sentences = Sentences(),  # noqa: B008 - frozen
        version: str | None = None,
        allow_unverified: bool = False,
        transport: Transport = "stdio",
    ) -> Session:
        """Give a session in which one run of a runtime can ask.

        Args:
            session_id: the host's own id of the run.
            adapter: the runtime's.
            prompter: whoever asks the operator; by default the one carried in context (`opask.use_prompter`).
                None at all: the agent cannot ask, and is told so.
            wait: how long an operator may take for one ask; None for as long as it takes.
            sentences: what the agent is told when it gets no answer.
            version: the runtime's version, where the host knows it before it starts.
            allow_unverified: whether a route that nobody has seen to work may be used.
            transport: how the runtime reaches the tool: ``stdio``, which holds the longest waits, or ``http``, on
                loopback with a bearer token, for a runtime that takes only a URL.

        Returns:
            The session, to be closed by whoever uses it (``async with``).

        Raises:
            BridgeError: the bridge is not open, has no file descriptor left, or is asked for HTTP with ``peer_uids``.
            ValueError: a wait of no time, or of more than a hundred years.
        """
        session, served = self._attach(
            session_id,
            adapter,
            prompter,
            wait,
            sentences,
            version=version,
            allow_unverified=allow_unverified,
            transport=transport,
        )
        await _in_thread(served.wait_until_up)
        return session

    def attach_sync(
        self,
        session_id: str,
        adapter: Adapter,
        prompter: Prompter | None = None,
        *,
        wait: timedelta | None = timedelta(minutes=5),
        sentences: Sentences = Sentences(),  # noqa: B008 - frozen
        version: str | None = None,
        allow_unverified: bool = False,
        transport: Transport = "stdio",
    ) -> Session:
        """Do as `attach`, blocking for a moment, in a host without an event loop; not in a listener."""
        check_may_wait(self._thread)
        session, served = self._attach(
            session_id,
            adapter,
            prompter,
            wait,
            sentences,
            version=version,
            allow_unverified=allow_unverified,
            transport=transport,
        )
        served.wait_until_up()
        return session

    def _attach(
        self,
        session_id: str,
        adapter: Adapter,
        prompter: Prompter | None,
        wait: timedelta | None,
        sentences: Sentences,
        *,
        version: str | None,
        allow_unverified: bool,
        transport: Transport,
    ) -> tuple[Session, ServedSession]:
        if wait is not None and not timedelta(0) < wait <= _LONGEST_WAIT:
            raise ValueError(
                f"wait has to be more than no time and at most a hundred years, not {wait}; None waits for as long "
                "as it takes"
            )
        with self._lock:
            if self._state != "open":
                raise BridgeError(f"the bridge is not open but {self._state}: attach inside its `with` block")
            assert self._folder is not None
            assert self._settings is not None
            assert self._host is not None
            if transport == "http" and self._settings.uids != {os.getuid()}:
                raise BridgeError(
                    "HTTP is not for runtimes of another user: every user of this machine could read the token that "
                    "such a runtime has to read; attach with transport='stdio', whose socket tells user ids"
                )
            prompter = prompter or current_prompter()
            session = Session(
                session_id,
                adapter,
                prompter,
                self._thread.host if _runs_anywhere(prompter) else self._host,
                wait,
                registry=self._registry,
                version=version,
                allow_unverified=allow_unverified,
            )
            try:
                folder = self._folder.session()
            except OSError as error:
                raise BridgeError(
                    f"no folder for the session could be made: {error.strerror or error}"
                ) from error
            http = self._http_listener() if transport == "http" else None
            served = ServedSession(session, self._thread, folder, self._settings, sentences, http=http)
            session.serve_with(served)
            self._served.add(served)
            served.on_down(lambda: self._served.discard(served))
            self._thread.submit(served.run)
        return session, served

    def _http_listener(self) -> HttpListener:
        """Return the bridge's listener, opened at the first session that wants it."""
        if self._http is None:
            from opask.bridge.http import HttpListener

            self._http = HttpListener()
            self._http_ended = self._thread.submit(self._http.run)
        return self._http


def _runs_anywhere(prompter: Prompter | None) -> bool:
    """Tell whether a prompter says so itself; one that passes on what it is asked for says it of another."""
    return inspect.getattr_static(prompter, "any_loop", None) is not None and bool(
        getattr(prompter, "any_loop", False)
    )


async def _in_thread(function: object) -> None:
    assert callable(function)
    await anyio.to_thread.run_sync(function, limiter=anyio.CapacityLimiter(math.inf))


async def _warm_up_over(socket_path: Path) -> None:
    from opask.bridge.server import warm_up

    with anyio.fail_after(_WARM_UP_S):  # a session that can accept nothing answers nothing
        await warm_up(lambda: anyio.connect_unix(socket_path))


class _NoAdapter:
    """Stands in for an adapter while the bridge warms up; nothing is launched with it."""

    runtime = "none"

    def plan_launch(self, request: LaunchRequest, endpoint: Endpoint | None, /) -> LaunchPlan:
        raise NotImplementedError

    def conversation(self, plan: LaunchPlan, /) -> Conversation:
        raise NotImplementedError
