"""A session's served half: its socket and its desk, on the bridge's loop."""

from __future__ import annotations

import logging
import shutil
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskGroup
from attrs import evolve, frozen

from opask.bridge.desk import AskDesk, Link
from opask.bridge.publishing import is_listening
from opask.bridge.session import Session
from opask.bridge.sockets import SOCKET_NAME, peer_uid
from opask.bridge.threads import LoopThread
from opask.errors import BridgeError
from opask.launch import Endpoint
from opask.outcomes import Outcome, Sentences
from opask.questions import Ask
from opask.wire import ToolResult

if TYPE_CHECKING:
    from opask.bridge.http import HttpEndpoint, HttpListener
    from opask.bridge.server import RuntimeConnection

__all__ = ["BridgeSettings", "ServedSession", "check_may_wait"]

_logger = logging.getLogger("opask.bridge")
_CLOSE_S = 1.0
_KEPT_S = 0.1  # a throw-away copy of the server that only probes is gone before this
_UNASKED_S = 1.0  # for a client to read a list, where it cannot be asked whether it has
_ACCEPT_PAUSE_S = 0.1


@frozen
class BridgeSettings:
    """What all sessions of a bridge have in common."""

    relay: tuple[str, ...]
    grace: timedelta
    heartbeat: timedelta
    max_pending: int
    uids: frozenset[int]
    socket_mode: int
    file_mode: int


class ServedSession:
    """Serves one session until it is closed; implements `opask.bridge.session.Desk` and the desk's listener.

    Args:
        session: the host's half.
        thread: the bridge's loop.
        folder: the session's own, removed at the end.
        settings: the bridge's.
        sentences: what the agent is told.
        http: the bridge's listener, to serve over HTTP and not on a socket.
    """

    def __init__(
        self,
        session: Session,
        thread: LoopThread,
        folder: Path,
        settings: BridgeSettings,
        sentences: Sentences,
        *,
        http: HttpListener | None = None,
    ) -> None:
        self._http = http
        self.file_mode = settings.file_mode
        self.socket_path = folder / SOCKET_NAME
        self.endpoint: Endpoint | None = Endpoint(
            command=(*settings.relay, str(self.socket_path)), folder=folder, wait=session.wait
        )
        self._session = session
        self._thread = thread
        self._folder = folder
        self._settings = settings
        self._sentences = sentences
        self._up: Future[None] = Future()
        self._down: Future[None] = Future()
        self._listed = False
        self._listings = 0  # lists that were given, of which it is not known yet whether they were taken
        self._listed_or_down = threading.Event()
        self._connections: set[RuntimeConnection | HttpEndpoint] = set()
        self.is_closed = False
        # These belong to the bridge's loop.
        self.desk: AskDesk
        self._closing: anyio.Event | None = None

    # -- from any thread -------------------------------------------------------------------------------------------

    def wait_until_up(self) -> None:
        """Wait, blocking, until the socket listens.

        Raises:
            BridgeError: it cannot.
        """
        check_may_wait(self._thread)
        try:
            self._up.result()
        except OSError as error:
            raise BridgeError(
                f"session {self._session.session_id} cannot listen on {self.socket_path}: {error.strerror or error}"
            ) from error

    def on_down(self, call: Callable[[], object]) -> None:
        """Have a function called when the session has been closed."""
        self._down.add_done_callback(lambda _: call())

    def cancel(self, ask_id: str | None) -> None:
        """Cancel one open ask, or all, for the host."""
        self._thread.post(lambda: self.desk.cancel(ask_id, "host"))

    def extend(self, ask_id: str, until: datetime) -> None:
        """Let an open ask wait longer."""
        self._thread.post(lambda: self.desk.extend(ask_id, until))

    def turn_ended(self, ask_ids: tuple[str, ...]) -> None:
        """Abandon asks whose turn is over."""
        self._thread.post(lambda: self.desk.turn_ended(ask_ids))

    def listed(self, timeout: timedelta) -> bool | None:
        """Wait, blocking, until the runtime has listed the tool over a connection that it kept."""
        check_may_wait(self._thread)
        settled = self._listed_or_down.wait(timeout.total_seconds())
        return self._listed or (None if settled else False)

    @property
    def is_listing(self) -> bool:
        """Whether a list was given of which it is not known yet whether the runtime itself has taken it."""
        return self._listings > 0

    def call(self, arguments: object, meta: Mapping[str, Any]) -> DirectCall:
        """Call the tool without a connection, as `opask.testing.Agent` does."""
        return DirectCall(self._thread, self.desk, arguments, meta)

    def begin_close(self) -> bool:
        """Begin to close, without waiting; False where the bridge's loop has ended. Idempotent."""
        self.is_closed = True
        return self._thread.post(self._close_now)

    def close(self) -> None:
        """Close the socket and settle what is open; waits until it is done, but not in a listener. Idempotent."""
        if not self._down.done() and self.begin_close() and not _waits_for_itself(self._thread):
            self._down.result()

    # -- on the bridge's loop --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until closed, or until the bridge's loop ends."""
        closing = self._closing = (
            anyio.Event()
        )  # made here: an anyio event belongs to the loop that it is made on
        if self.is_closed:
            closing.set()
        try:
            async with anyio.create_task_group() as tasks:
                self.desk = AskDesk(
                    self._session.session_id,
                    tasks,
                    self,
                    wait=self._session.wait,
                    grace=self._settings.grace,
                    heartbeat=self._settings.heartbeat,
                    max_pending=self._settings.max_pending,
                    sentences=self._sentences,
                )
                try:
                    await (
                        self._serve_socket(tasks, closing)
                        if self._http is None
                        else self._serve_http(self._http, tasks, closing)
                    )
                finally:
                    self.desk.close()
                    with anyio.move_on_after(_CLOSE_S, shield=True):
                        await self._answers_written()
                    tasks.cancel_scope.cancel()
        except Exception as error:
            if not self._up.done():
                self._up.set_exception(_first(error))
            else:
                _logger.exception("session %s ended in an error", self._session.session_id)
        finally:
            try:
                if hasattr(self, "desk"):
                    self.desk.settle_all()
                    with anyio.move_on_after(_CLOSE_S, shield=True):
                        await self._session.told()
                self._session.folder_goes()
            finally:
                shutil.rmtree(self._folder, ignore_errors=True)
                if not self._up.done():
                    self._up.set_exception(BridgeError("the bridge was closed meanwhile"))
                self._listed_or_down.set()
                self._down.set_result(None)

    def _close_now(self) -> None:
        if self._closing is not None:  # else `run` is yet to begin, and sees it then
            self._closing.set()

    async def _answers_written(self) -> None:
        for connection in list(self._connections):
            await connection.idle()

    async def _serve_http(self, http: HttpListener, tasks: TaskGroup, closing: anyio.Event) -> None:
        from opask.bridge.http import HttpEndpoint

        url, token, endpoint = http.add(
            lambda port: HttpEndpoint(
                self.desk,
                metadata_version(),
                served=self._served,
                listed=partial(self._list_given_by_http, tasks),
                port=port,
            )
        )
        try:
            await tasks.start(endpoint.run)
            assert self.endpoint is not None
            self.endpoint = evolve(self.endpoint, command=(), url=url, token=token)
            self._connections.add(endpoint)
            self._up.set_result(None)
            await closing.wait()
        finally:
            http.remove(url)

    async def _serve_socket(self, tasks: TaskGroup, closing: anyio.Event) -> None:
        listener = await anyio.create_unix_listener(
            self.socket_path, mode=self._settings.socket_mode, backlog=128
        )
        async with listener, anyio.create_task_group() as accepting:
            accepting.start_soon(self._accept, listener, tasks)
            self._up.set_result(None)
            await closing.wait()
            accepting.cancel_scope.cancel()

    async def _accept(self, listener: Any, tasks: TaskGroup) -> None:
        is_told = False
        while True:
            try:
                stream: SocketStream = await listener.accept()
            except (OSError, anyio.BrokenResourceError) as error:
                # No file descriptor left, as a rule: what is connected goes on, and who wants to connect waits.
                if not is_told:
                    why = error.__cause__ or error
                    _logger.warning(
                        "session %s cannot accept a connection: %s", self._session.session_id, why
                    )
                is_told = True
                await anyio.sleep(_ACCEPT_PAUSE_S)
                continue
            is_told = False
            tasks.start_soon(self._connected, stream, tasks)

    async def _connected(self, stream: SocketStream, tasks: TaskGroup) -> None:
        try:
            async with stream:
                await self._serve_connection(stream, tasks)
        except Exception:
            _logger.exception("a connection of session %s ended in an error", self._session.session_id)

    async def _serve_connection(self, stream: SocketStream, tasks: TaskGroup) -> None:
        from opask.bridge.server import RuntimeConnection

        raw: socket.socket = stream.extra(SocketAttribute.raw_socket)
        uid = peer_uid(raw)
        if uid is not None and uid not in self._settings.uids:
            _logger.warning(
                "refused a connection of user id %d to session %s; Bridge(peer_uids=…) names who may",
                uid,
                self._session.session_id,
            )
            return
        connection = RuntimeConnection(self.desk, metadata_version(), self._served, self._list_given)
        self._connections.add(connection)
        tasks.start_soon(self._watch_listing, connection)
        try:
            await connection.serve(stream)
        finally:
            self._connections.discard(connection)

    def _list_given(self) -> None:
        self._listings += 1

    async def _watch_listing(self, connection: RuntimeConnection) -> None:
        await connection.listed_or_ended()
        if not connection.is_listed:
            return
        try:
            with anyio.move_on_after(_KEPT_S):
                await connection.ended.wait()
            if self._session.holds_prompt and not connection.can_be_asked:
                with anyio.move_on_after(_UNASKED_S):
                    await connection.ended.wait()
            elif self._session.holds_prompt:
                await connection.read()
            if not connection.link.lost:
                self._now_listed()
        finally:
            self._listings -= 1

    def _list_given_by_http(self, tasks: TaskGroup) -> None:
        self._list_given()
        tasks.start_soon(self._listed_by_http)

    async def _listed_by_http(self) -> None:
        try:
            if self._session.holds_prompt:  # nothing can be asked of a client whose stream is not open
                await anyio.sleep(_UNASKED_S)
            self._now_listed()
        finally:
            self._listings -= 1

    def _now_listed(self) -> None:
        self._listed = True
        self._listed_or_down.set()
        self._session.tool_listed()

    def _served(self, method: str, params: Mapping[str, Any]) -> None:
        info = params.get("clientInfo")
        meta = params.get("_meta")
        if info is None and isinstance(meta, Mapping):
            info = meta.get("io.modelcontextprotocol/clientInfo")
        self._session.observed({"served": {"method": method, "client": info}})

    # -- the desk's listener ---------------------------------------------------------------------------------------

    def arrived(self, ask: Ask) -> Ask:
        """Take in a new ask; return it with what is known of its call."""
        return self._session.asks.arrived(ask)

    def put(self, ask: Ask, on_reply: Callable[[object], object]) -> Callable[[Outcome], object]:
        """Put the ask to the prompter; its reply comes back on this loop."""
        return self._session.asks.put(ask, lambda reply: self._thread.post(on_reply, reply))

    def refused(self, ask: Ask, reason: str, by: str | None) -> None:
        """Hear of an answer that was not taken."""
        self._session.asks.refused(ask, reason, by)

    def settled(self, ask: Ask, outcome: Outcome, duration_ms: int) -> None:
        """Hear of an ask's one outcome."""
        self._session.asks.settled(ask, outcome, duration_ms)


class DirectCall:
    """A call of the tool that came over no connection.

    Raises:
        BridgeError: the bridge is closed.
    """

    def __init__(self, thread: LoopThread, desk: AskDesk, arguments: object, meta: Mapping[str, Any]) -> None:
        self._thread = thread
        self._is_cancelled = False
        self._scope: anyio.CancelScope | None = None
        self._future = thread.submit(self._run, desk, arguments, meta)

    def result(self) -> ToolResult:
        """Wait, blocking, for what the agent is told.

        Raises:
            BridgeError: the call was cancelled, or the bridge closed; or this is a listener, which must not wait.
        """
        if not self._future.done():
            check_may_wait(self._thread)
        result = self._future.result()
        if result is None:
            raise BridgeError("the call was cancelled")
        return result

    def cancel(self) -> None:
        """Cancel the call, as the agent."""
        self._is_cancelled = True
        self._thread.post(self._cancel_now)

    def _cancel_now(self) -> None:
        if self._scope is not None:  # else `_run` is yet to begin, and sees it then
            self._scope.cancel()

    async def _run(self, desk: AskDesk, arguments: object, meta: Mapping[str, Any]) -> ToolResult | None:
        with anyio.CancelScope() as self._scope:
            if self._is_cancelled:
                return None
            result, entry = await desk.call(arguments, meta, Link())
            if entry is not None:
                desk.delivered(entry)
            return result
        return None


def check_may_wait(thread: LoopThread) -> None:
    """Check that this is no place where to wait for the bridge is to wait for oneself.

    Args:
        thread: the bridge's.

    Raises:
        BridgeError: it is one.
    """
    if _waits_for_itself(thread):
        raise BridgeError(
            "a listener must not wait for the bridge, which waits for it: do that on another thread"
        )


def _waits_for_itself(thread: LoopThread) -> bool:
    return thread.is_current or is_listening()


def _first(error: Exception) -> Exception:
    """Return what really went wrong in a group of errors."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


@cache
def metadata_version() -> str:
    """Return opask's installed version; empty where it is used without being installed."""
    from importlib import metadata  # late: a host that only imports the bridge need not wait for it

    try:
        return metadata.version("opask")
    except metadata.PackageNotFoundError:
        return ""
