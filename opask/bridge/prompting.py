"""One ask, put to the host's prompter on the host's own loop."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import math
import threading
from collections.abc import Callable
from typing import Any, Final

import anyio

from opask.bridge.threads import HostLoop, ends_process, in_daemon_thread
from opask.calling import is_async
from opask.outcomes import Cancelled, Outcome, Unavailable
from opask.prompter import Prompter, Wait, use_wait
from opask.questions import Ask

__all__ = ["Prompting", "operator_there"]

_logger = logging.getLogger("opask.bridge")
_SHUTDOWN_GRACE_S: Final = 5.0


def operator_there(prompter: Prompter, session_id: str) -> bool:
    """Ask the prompter whether an operator is there; one that cannot say counts as nobody."""
    try:
        return bool(prompter.available(session_id))
    except BaseException as error:
        if ends_process(error):
            raise
        _logger.exception("prompter.available failed for session %s; counted as nobody there", session_id)
        return False


class Prompting:
    """The host's side of one ask: calls ``ask``, reports the reply, and calls ``settled`` exactly once.

    Args:
        host: where the prompter runs.
        prompter: the host's.
        ask: what is asked.
        context: the context that the prompter runs in, the host's own of when it attached.
        on_reply: told what the prompter gave back, unchecked; called on the host's loop, must not block.
        wait: the ask's wait, for the prompter to extend; see `opask.prompter.current_wait`.
        on_told: called once the prompter has heard how the ask ended, on the host's loop, as long as that runs.
    """

    def __init__(
        self,
        host: HostLoop,
        prompter: Prompter,
        ask: Ask,
        context: contextvars.Context,
        on_reply: Callable[[object], object],
        *,
        wait: Wait | None = None,
        on_told: Callable[[], object] = lambda: None,
    ) -> None:
        self._host = host
        self._context = context
        self._wait = wait
        self._prompter = prompter
        self._ask = ask
        self._on_reply = on_reply
        self._on_told = on_told
        self._lock = threading.Lock()
        self._outcome: Outcome | None = None
        self._told = False
        # These two belong to the host's loop.
        self._scope: anyio.CancelScope | None = None
        self._settled: anyio.Event | None = None

    def start(self) -> None:
        """Begin, from any thread. Where the host's loop has ended, the reply is `Unavailable` at once."""
        if not self._context.copy().run(self._post):
            self._on_reply(Unavailable("the host's event loop has ended"))

    def _post(self) -> bool:
        with use_wait(self._wait):
            return self._host.post(self._begin)

    def settle(self, outcome: Outcome) -> None:
        """Tell the prompter how the ask ended, from any thread; ends a call of ``ask`` that still runs."""
        with self._lock:
            self._outcome = outcome
        if not self._host.post(self._settle):
            self._tell()

    def _begin(self) -> None:
        self._settled = anyio.Event()
        if self._outcome is not None:
            self._tell()
            return
        try:
            self._host.tasks.start_soon(self._run, name=f"opask ask {self._ask.id}")
        except RuntimeError:  # the host's task group has ended before its loop
            self._on_reply(Unavailable("the host is shutting down"))

    def _settle(self) -> None:
        if self._scope is None:
            self._tell()  # never begun, or its task is over
            return
        self._scope.cancel()
        if self._settled is not None:
            self._settled.set()

    async def _run(self) -> None:
        assert self._settled is not None
        # The task outlives the call of `ask`: an answer is settled only once the agent has it.
        self._scope = anyio.CancelScope()
        try:
            with self._scope:
                if self._outcome is None:
                    self._on_reply(await self._reply())
            if self._outcome is None:
                await self._settled.wait()
        except anyio.get_cancelled_exc_class():
            self._on_reply(Cancelled("shutdown"))
            with anyio.move_on_after(_SHUTDOWN_GRACE_S, shield=True):
                await self._settled.wait()
            raise
        finally:
            self._scope = None
            if self._outcome is not None:
                self._tell()

    async def _reply(self) -> object:
        try:
            if not operator_there(self._prompter, self._ask.session_id):
                return Unavailable("no operator is there now")
            return await self._call()
        except BaseException as error:
            if ends_process(error):
                self._on_reply(Cancelled("shutdown"))
                raise
            if isinstance(error, GeneratorExit) or _is_cancellation(error):
                raise
            return self._failed(error)

    async def _call(self) -> object:
        reply: Any
        if is_async(self._prompter.ask):
            reply = self._prompter.ask(self._ask)
        else:
            reply = await in_daemon_thread(self._host, self._call_plainly, f"opask ask {self._ask.id}")
        return await reply if inspect.isawaitable(reply) else reply

    def _call_plainly(self) -> object:
        try:
            return self._prompter.ask(self._ask)
        except BaseException as error:  # not even an exit goes further than this thread
            return self._failed(error)

    def _failed(self, error: BaseException) -> Unavailable:
        _logger.error(
            "the prompter failed on ask %s of session %s", self._ask.id, self._ask.session_id, exc_info=error
        )
        return Unavailable(f"the prompter failed ({type(error).__name__})")

    def _tell(self) -> None:
        with self._lock:
            if self._told or self._outcome is None:
                return
            self._told = True
            outcome = self._outcome
        try:
            self._prompter.settled(self._ask, outcome)
        except BaseException as error:
            if ends_process(error):
                raise
            _logger.exception("prompter.settled failed on ask %s", self._ask.id)
        self._on_told()


def _is_cancellation(error: BaseException) -> bool:
    """Tell whether it says that this very task is cancelled, and not a future that a prompter waited for."""
    if not isinstance(error, anyio.get_cancelled_exc_class() | BaseExceptionGroup):
        return False
    if anyio.current_effective_deadline() == -math.inf:
        return True
    try:
        task = asyncio.current_task()
    except RuntimeError:  # on trio nothing but a scope cancels
        return False
    return task is not None and task.cancelling() > 0
