"""The MCP server by which a client drives agents and answers what they ask."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final, TypeAlias

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from opask.errors import AnswerError, OpaskError
from opask.inbox import AlreadyResolvedError, Entry, RefusedError, Store, TooLateError, answers_from_json
from opask.inert import shorten
from opask.outcomes import Answered, Cancelled, Skipped
from opask.surfaces.mcp import results
from opask.surfaces.mcp.driving import Driven, Driver, DrivingError, TurnEnd
from opask.surfaces.mcp.eliciting import Context, Elicitor, Offer, client_name, is_modern, takes_forms
from opask.surfaces.mcp.forms import shown
from opask.surfaces.mcp.tools import (
    INSTRUCTIONS,
    Cancel,
    Drive,
    Give,
    List,
    Status,
    arguments_of,
    tools,
)
from opask.surfaces.mcp.waiting import next_of, open_questions

__all__ = ["McpSurface"]

_Result: TypeAlias = types.CallToolResult | types.InputRequiredResult
_logger = logging.getLogger("opask.mcp")
_CALLS_MAX: Final = 64
_CLOSE_S: Final = 1.0
_STOPPING: Final = "this server is stopping, and its sessions end with it"
_TOLD_MAX: Final = 200  # questions of a session that are looked at for who decided them


class McpSurface:
    """The tools over a driver and an inbox; serves any number of clients.

    Args:
        driver: runs the sessions.
        store: the inbox that their questions are in.
        version: opask's own version, told to clients.
        heartbeat: how often a call that waits reports progress.
        human: how long a person takes at least to turn a form down.
        clock: gives the time in seconds, for `human`.
    """

    def __init__(
        self,
        driver: Driver,
        store: Store,
        *,
        version: str,
        heartbeat: timedelta = timedelta(seconds=5),
        human: timedelta = timedelta(milliseconds=300),
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._driver = driver
        self._store = store
        self._heartbeat = heartbeat.total_seconds()
        self._elicitor = Elicitor(store, human, clock)
        self._told: dict[str, set[str]] = {}  # of a session, the questions whose end a client knows
        self._calls: set[anyio.CancelScope] = set()
        self._is_closed = False
        self._no_call = anyio.Event()
        self._tools = tools(driver.runtimes)
        self._handlers: Mapping[str, Callable[[Context, types.CallToolRequestParams], Awaitable[_Result]]] = {
            "session_drive": self._drive,
            "session_answer": self._answer,
            "session_cancel": self._cancel,
            "session_status": self._status,
            "sessions_list": self._list,
        }
        self.mcp: Server[Any] = Server(
            "opask",
            version=version,
            title="opask: agents that ask",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    async def _list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self._tools)

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> _Result:
        handler = self._handlers.get(params.name)
        if handler is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool {params.name!r}")
        if self._is_closed:
            return results.failed(_STOPPING)
        if len(self._calls) >= _CALLS_MAX:
            return results.failed(f"{_CALLS_MAX} calls wait already; let some of them end first")
        with anyio.CancelScope() as scope:
            self._calls.add(scope)
            try:
                return await handler(ctx, params)
            except OpaskError as error:
                return results.failed(str(error))
            except MCPError:
                raise
            except Exception as error:  # the SDK would tell the one who drives nothing of it
                _logger.exception("a call of %s failed", params.name)
                return results.failed(
                    f"{params.name} failed ({type(error).__name__}); the server's log says where"
                )
            finally:
                self._calls.discard(scope)
                if not self._calls:
                    self._no_call.set()
        return results.failed(_STOPPING)  # what has returned nothing was closed

    async def close(self) -> None:
        """End the calls that wait, each with an error that says so; a form that is open is withdrawn."""
        self._is_closed = True
        if self._calls:
            self._no_call = anyio.Event()
            for scope in self._calls:
                scope.cancel()
            with anyio.move_on_after(_CLOSE_S):
                await self._no_call.wait()

    # -- the tools -------------------------------------------------------------------------------------------------

    async def _drive(self, ctx: Context, params: types.CallToolRequestParams) -> _Result:
        wanted = arguments_of(Drive, params.arguments)
        offer = self._returning(params)
        if offer is not None:  # the call that started the turn, made again with a form
            return await self._next(
                ctx, self._driver.session(offer.session_id), wanted.max_wait_s, offer, params
            )
        if (wanted.runtime is None) == (wanted.session_id is None):
            raise DrivingError(
                "give a runtime to start a new session, or a session_id to continue one: exactly one of the two"
            )
        if wanted.session_id is None:
            assert wanted.runtime is not None
            session = await self._driver.start(wanted.runtime, wanted.prompt, wanted.cwd)
        else:
            if wanted.cwd is not None:
                raise DrivingError("cwd is for a new session; one that runs stays where it is")
            session = await self._idle(wanted.session_id)
            session.prompt(wanted.prompt)
        return await self._next(ctx, session, wanted.max_wait_s)

    async def _idle(self, session_id: str) -> Driven:
        session = self._driver.session(session_id)
        if session.state == "working":
            waiting = await open_questions(session_id, self._store)
            todo = (
                f"it waits for an answer to {waiting[0].id}: call session_answer"
                if waiting
                else "call session_status with max_wait_s to wait for its end, or session_cancel with keep"
            )
            raise DrivingError(f"session {session_id} is at work on its last prompt; {todo}")
        return session

    async def _answer(self, ctx: Context, params: types.CallToolRequestParams) -> _Result:
        wanted = arguments_of(Give, params.arguments)
        offer = self._returning(params)
        if offer is not None:
            return await self._next(
                ctx, self._driver.session(offer.session_id), wanted.max_wait_s, offer, params
            )
        entry = await self._store.entry(wanted.question_id)
        session = self._asker(entry)
        by = f"mcp:{client_name(ctx)}"
        reply = _reply(entry, wanted, by)
        try:
            await self._store.resolve(entry.id, reply, session_id=wanted.session_id, by=by)
        except (AlreadyResolvedError, TooLateError) as error:
            self._told.setdefault(session.id, set()).add(entry.id)
            raise DrivingError(_too_late(error)) from None
        except RefusedError as error:
            raise DrivingError(f"{error}; the question stays open") from None
        self._told.setdefault(session.id, set()).add(entry.id)
        return await self._next(ctx, session, wanted.max_wait_s)

    def _asker(self, entry: Entry) -> Driven:
        try:
            return self._driver.session(entry.session_id)
        except DrivingError:  # an inbox is shared by whoever has questions
            raise DrivingError(
                f"question {entry.id} was asked by no session of this server; it is answered where session "
                f"{shorten(entry.session_id, 80)} is driven, or in the inbox"
            ) from None

    async def _cancel(self, ctx: Context, params: types.CallToolRequestParams) -> _Result:
        wanted = arguments_of(Cancel, params.arguments)
        session = self._driver.session(wanted.session_id)
        await session.cancel(keep=wanted.keep)
        return results.given(await self._standing(session))

    async def _status(self, ctx: Context, params: types.CallToolRequestParams) -> _Result:
        wanted = arguments_of(Status, params.arguments)
        offer = self._returning(params)
        session = self._driver.session(wanted.session_id if offer is None else offer.session_id)
        if wanted.max_wait_s or offer is not None:
            return await self._next(ctx, session, wanted.max_wait_s, offer, params, more=results.standing)
        return results.given(await self._standing(session))

    async def _list(self, ctx: Context, params: types.CallToolRequestParams) -> _Result:
        arguments_of(List, params.arguments)
        return results.given(
            {"sessions": [await self._standing(session) for session in self._driver.sessions()]}
        )

    async def _standing(self, session: Driven) -> dict[str, Any]:
        content = results.standing(session)
        waiting = await open_questions(session.id, self._store)
        if waiting:
            content |= results.awaiting(session, waiting[0], None)
            content["open_questions"] = [entry.id for entry in waiting]
        elif session.state == "working":
            content |= results.running(session)
        elif session.last is not None:
            content |= results.ended(session, session.last)
        return await self._with_resolved(session, content)

    # -- what comes next -------------------------------------------------------------------------------------------

    def _returning(self, params: types.CallToolRequestParams) -> Offer | None:
        """Return the form that a call comes back with; None for a new call."""
        if params.request_state is None:
            return None
        offer = self._elicitor.offered(params.request_state)
        if offer is None:
            raise DrivingError(
                "this server does not know the form that this call comes back with; call sessions_list"
            )
        return offer

    async def _next(
        self,
        ctx: Context,
        session: Driven,
        seconds: float,
        offer: Offer | None = None,
        params: types.CallToolRequestParams | None = None,
        *,
        more: Callable[[Driven], dict[str, Any]] = lambda session: {},
    ) -> _Result:
        """Wait for what comes next of a session, its questions put to the client where it shows forms."""
        until = anyio.current_time() + seconds
        fault: str | None = None
        if offer is not None and params is not None:
            fault = await self._elicitor.take(ctx, session, offer, params.input_responses or {})
        async with self._progress(ctx, session):
            while True:
                came = await next_of(session, self._store, max(0.0, until - anyio.current_time()))
                if isinstance(came, Entry):
                    fault = fault or self._elicitor.fault(session.id)
                    if fault is None and takes_forms(ctx):
                        if is_modern(ctx):
                            required = self._elicitor.offer(ctx, session, came, offer)
                            if required is not None:
                                return required
                            fault = "the client has not come back with the form of this call"
                        elif (left := until - anyio.current_time()) > 0:
                            fault = await self._elicitor.ask(ctx, session, came, left)
                            came = await self._store.entry(came.id)
                            if came.state != "pending":
                                fault = None
                                continue
                content = more(session) | await self._content(session, came, fault)
                return results.given(await self._with_resolved(session, content))

    async def _content(
        self, session: Driven, came: TurnEnd | Entry | None, fault: str | None
    ) -> dict[str, Any]:
        waiting = await open_questions(session.id, self._store)
        if isinstance(came, Entry):
            content = results.awaiting(session, came, fault)
        elif came is None:
            content = results.running(session)
        else:
            content = results.ended(session, came)
        if waiting and (len(waiting) > 1 or not isinstance(came, Entry)):
            content["open_questions"] = [entry.id for entry in waiting]
        return content

    async def _with_resolved(self, session: Driven, content: dict[str, Any]) -> dict[str, Any]:
        """Add who decided what since the last result of the session."""
        told = self._told.setdefault(session.id, set())
        entries = await self._store.entries(session_id=session.id, limit=_TOLD_MAX)
        new = [entry for entry in entries if entry.state != "pending" and entry.id not in told]
        if new:
            told.update(entry.id for entry in new)
            content["resolved"] = results.resolved_of(new)
        known = {one.id for one in self._driver.sessions()}
        for gone in self._told.keys() - known:
            del self._told[gone]
            self._elicitor.forget(gone)
        return content

    @asynccontextmanager
    async def _progress(self, ctx: Context, session: Driven) -> AsyncIterator[None]:
        """Report progress while the block lasts, where the call asked for it."""
        begun = anyio.current_time()

        async def report() -> None:
            while True:
                await anyio.sleep(self._heartbeat)
                waiting = await open_questions(session.id, self._store)
                message = f"{session.runtime} waits for an answer" if waiting else f"{session.runtime} works"
                await ctx.session.report_progress(anyio.current_time() - begun, None, message)

        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(report)
            try:
                yield
            except Exception as error:  # raised below: the task group would wrap it
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure


def _reply(entry: Entry, wanted: Give, by: str) -> Answered | Skipped | Cancelled:
    """Return the decision that a call of ``session_answer`` gives.

    Raises:
        DrivingError: it gives none, several, or one that does not fit the questions.
    """
    if (wanted.answers is not None) + wanted.skip + wanted.cancel != 1:
        raise DrivingError(
            "give exactly one of answers, skip: true and cancel: true; the question stays open"
        )
    if wanted.answers is None:
        return Skipped(by) if wanted.skip else Cancelled("operator")
    given = [None if answer is None else answer.model_dump(exclude_none=True) for answer in wanted.answers]
    try:
        answers = answers_from_json(shown(entry.ask.questions), given)
        return Answered(answers, by)
    except AnswerError as error:
        raise DrivingError(f"{error}; the question stays open") from None


def _too_late(error: RefusedError) -> str:
    entry = error.entry
    if entry is not None and isinstance(error, AlreadyResolvedError):
        what = results.resolved_of([entry])[0]
        answers = f" with {what['answers']}" if "answers" in what else ""
        return (
            f"{entry.by or 'another'} was faster: the question is {entry.state}{answers}; "
            "call session_status with max_wait_s for what comes next"
        )
    return f"{error}; call session_status: what is still to be said can be the next prompt of session_drive"
