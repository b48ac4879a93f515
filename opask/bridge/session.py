"""One session: one run of a runtime, its conversation and its asks."""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self

import anyio
import anyio.to_thread
from attrs import evolve, field, frozen

from opask.adapters import Adapter, Conversation, DuplexConversation, Message
from opask.bridge.overlays import bring_back
from opask.bridge.plans import WAIT_MARGIN, check_floor, check_route, check_wait, lay_overlays, write_files
from opask.bridge.prompting import Prompting, operator_there
from opask.bridge.publishing import Publisher, Record
from opask.bridge.reporting import AskReporter
from opask.bridge.threads import HostLoop
from opask.errors import BridgeError
from opask.events import (
    AskToolMissing,
    Event,
    NativeAskRefused,
    PermissionDecided,
    QuestionCorrelated,
    SessionReady,
    ToolFinished,
    TurnEnded,
)
from opask.launch import Endpoint, LaunchPlan, LaunchRequest
from opask.outcomes import Outcome, Unavailable
from opask.permissions import Allow, Defer, Deny, PermissionRequested, Verdict
from opask.prompter import Prompter
from opask.questions import Ask
from opask.registry import Registry, Support, support
from opask.wire import ToolResult

__all__ = ["Call", "Desk", "Session"]

_logger = logging.getLogger("opask.bridge")


class Call(Protocol):
    """A call of the tool that came over no connection."""

    def result(self) -> ToolResult:
        """Wait, blocking, for what the agent is told."""
        ...

    def cancel(self) -> None:
        """Cancel the call, as the agent."""
        ...


class Desk(Protocol):
    """What a session asks of its served half; every call may come from any thread and none blocks for long."""

    endpoint: Endpoint | None
    file_mode: int
    is_closed: bool

    @property
    def is_listing(self) -> bool:
        """Whether the tool list was given to somebody who may be the runtime."""
        ...

    def cancel(self, ask_id: str | None) -> None:
        """Cancel one open ask, or all, for the host."""
        ...

    def extend(self, ask_id: str, until: datetime) -> None:
        """Let an open ask wait longer."""
        ...

    def turn_ended(self, ask_ids: tuple[str, ...]) -> None:
        """Abandon asks whose turn is over."""
        ...

    def listed(self, timeout: timedelta) -> bool | None:
        """Wait, blocking, until the runtime has listed the tool; None where the session was closed meanwhile."""
        ...

    def call(self, arguments: object, meta: Mapping[str, Any]) -> Call:
        """Call the tool without a connection."""
        ...

    def close(self) -> None:
        """Close the socket and settle what is open; waits until it is done, but not in a listener. Idempotent."""
        ...


@frozen
class _AskWait:
    """The wait of one ask; implements `opask.prompter.Wait`."""

    latest: datetime | None
    _ask_id: str
    _desk: Desk = field(repr=False)

    def extend(self, until: datetime, /) -> None:
        """Let it last until then, or `latest` where that is earlier."""
        self._desk.extend(self._ask_id, until if self.latest is None else min(until, self.latest))


class Session:
    """One run of a runtime, whose agent can ask; made by `Bridge.attach`.

    Its methods may be called from any task and any thread of the host. As a context manager, plain or async, it
    closes itself.

    Attributes:
        asks: told by the bridge what becomes of the session's asks.
    """

    def __init__(
        self,
        session_id: str,
        adapter: Adapter,
        prompter: Prompter | None,
        host: HostLoop,
        wait: timedelta | None,
        *,
        registry: Registry | None = None,
        version: str | None = None,
        allow_unverified: bool = False,
    ) -> None:
        self.session_id = session_id
        self.adapter = adapter
        self.wait = wait
        self._prompter = prompter
        self._registry = registry
        self._version = version
        self._allow_unverified = allow_unverified
        self._host = host
        self._context = contextvars.copy_context()
        self._desk: Desk | None = None
        self._plan: LaunchPlan | None = None
        self._conversation: Conversation | None = None
        self._missing: AskToolMissing | None = None  # not told yet, since a list is under way
        self._untold: dict[str, anyio.Event] = {}  # by ask, where the prompter runs on the bridge's loop
        self._publisher = Publisher(session_id, self._with_support)
        self._lock = self._publisher.lock
        self.asks = AskReporter(self._publisher, lambda: self._conversation, self._publish, self._put)

    def serve_with(self, desk: Desk) -> None:
        """Take the served half; called once, by the bridge."""
        self._desk = desk

    # -- launching ------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> LaunchPlan | None:
        """The launch plan, None before `plan_launch`."""
        return self._plan

    @property
    def holds_prompt(self) -> bool:
        """Whether the first prompt has to wait until the runtime has read the tool list."""
        return self._plan is not None and self._plan.hold_prompt

    @property
    def folders(self) -> tuple[Path, ...]:
        """Folders that whoever survives this process should remove, if it dies without closing the bridge."""
        endpoint = self._desk.endpoint if self._desk is not None else None
        return () if endpoint is None else (endpoint.folder.parent,)

    def plan_launch(self, request: LaunchRequest) -> LaunchPlan:
        """Merge the ask tool into the host's launch, and write the files that it needs.

        Where there is no prompter, or it says that nobody is there now, nothing is attached: the plan's
        ``questions`` is False and its ``reason`` says why.

        Args:
            request: the launch as the host would do it alone.

        Returns:
            The launch to spawn.

        Raises:
            LaunchError: the host's own arguments stand against it.
            UnverifiedRouteError: nobody has seen this route work, and the host did not allow that.
            WaitTooLongError: the session's wait cannot be had on this route.
            BridgeError: the session's files cannot be written, or it is closed.
        """
        if self._desk is not None and self._desk.is_closed:
            raise BridgeError(f"session {self.session_id} is closed; attach a new one")
        endpoint = self._desk.endpoint if self._desk is not None else None
        request = evolve(
            request,
            folder=request.folder or (None if endpoint is None else endpoint.folder),
            version=request.version or self._version,
        )
        reason = None
        if self._prompter is None:
            reason = "no prompter: the host attached none"
        elif not operator_there(self._prompter, self.session_id):
            reason = "no operator is there"
        if reason is not None:
            endpoint = None
        plan = self.adapter.plan_launch(request, endpoint)
        if reason is not None:
            plan = evolve(plan, reason=reason)  # the adapter knows only that nobody is there
        if request.read_only:
            check_floor(plan, self.adapter.runtime)
        if endpoint is not None:
            if not self._allow_unverified:
                check_route(self._support(plan.route, self._version), self.adapter.runtime)
            check_wait(plan, self.adapter.runtime, self.wait)
        # Also with nobody there, so that the agent is told so.
        write_files(plan, 0o600 if self._desk is None else self._desk.file_mode)
        self.folder_goes()  # of a launch that was planned before
        lay_overlays(plan)
        with self._lock:
            self._plan = plan
            self._conversation = self.adapter.conversation(plan)
        return plan

    def support(self, version: str | None = None) -> Support:
        """Return what the registry says of this session's route.

        Args:
            version: the runtime's version; by default the one that the host gave when it attached.
        """
        return self._support(None if self._plan is None else self._plan.route, version or self._version)

    def _support(self, route: str | None, version: str | None) -> Support:
        return support(self.adapter.runtime, version, route=route, registry=self._registry)

    def folder_goes(self) -> None:
        """Hear that the session's folder is about to be removed; called by the bridge."""
        for overlay in self._plan.overlays if self._plan is not None else ():
            bring_back(overlay)

    # -- the conversation -----------------------------------------------------------------------------------------

    def receive(self, message: Message | str | bytes) -> list[Event]:
        """Take in what the runtime said, a message or one line of its output; return what it means."""
        return self._converse(lambda conversation: conversation.receive(message))

    def prompt(self, text: str) -> list[Message]:
        """Return the messages that give the agent its next prompt; none where it is in the argv.

        Raises:
            LaunchError: this process takes no (further) prompt.
        """
        with self._lock:
            return list(self._talking().prompt(text))

    def interrupt(self) -> list[Message]:
        """Return the messages that end the running turn; none where only a signal does.

        Permission requests that are still open want a reply all the same.
        """
        with self._lock:
            return list(self._talking().interrupt())

    def outgoing(self) -> list[Message]:
        """Return what the protocol itself has to send now: a handshake's messages, answers to the runtime's requests.

        A host that drives the runtime itself sends them before it receives anything, and after everything that it
        received. In most protocols there are none.
        """
        with self._lock:
            conversation = self._talking()
            return list(conversation.outgoing()) if isinstance(conversation, DuplexConversation) else []

    def sent(self, message: Message | str | bytes) -> list[Event]:
        """Take in a message that a client of the host's own sent to the runtime, and that did not come from here."""
        return self._converse(lambda talk: talk.sent(message) if isinstance(talk, DuplexConversation) else ())

    def tool_listed(self) -> None:
        """Hear that the runtime has taken the tool list; called by the bridge."""
        with self._lock:
            self._missing = None
            if self._conversation is not None:
                self._converse(
                    lambda talk: talk.tool_listed() if isinstance(talk, DuplexConversation) else ()
                )

    def end_turn(self, reason: Literal["ended", "interrupted", "exited"]) -> list[Event]:
        """Take in that the turn is over in a way that the runtime did not say itself."""
        with self._lock:
            if reason == "exited":
                self._missing = None  # whether the list was the runtime's is not to be known any more
            return self._converse(lambda conversation: conversation.end_turn(reason))

    def decide(self, request: PermissionRequested) -> Verdict:
        """Return the adapter's verdict on a permission request, and publish it.

        An adapter that fails denies.
        """
        with self._lock:
            verdict: Verdict
            try:
                verdict = self._talking().decide(request)
            except Exception:
                _logger.exception("the adapter failed on a permission request of session %s", self.session_id)
                verdict = Deny("the request could not be read", rule="adapter failed")
            if request.ask == "native" and isinstance(verdict, Allow):
                verdict = Deny("the runtime's own ask tool is never allowed", rule="native ask tool")
            self._decided(request, verdict, by="opask")
            return verdict

    def host_decided(self, request: PermissionRequested, verdict: Allow | Deny, by: str) -> None:
        """Publish what the host decided on a request that was deferred to it.

        Args:
            request: the request.
            verdict: the host's verdict.
            by: who decided, for the record.
        """
        with self._lock:
            self._decided(request, verdict, by=by)

    def reply(self, request: PermissionRequested, verdict: Verdict) -> Message:
        """Return a verdict in the runtime's own wire form; `Defer` is written as a denial."""
        with self._lock:
            if request.ask == "native" and isinstance(verdict, Allow):
                verdict = Deny("the runtime's own ask tool is never allowed", rule="native ask tool")
            return self._talking().reply(request, verdict)

    def _decided(self, request: PermissionRequested, verdict: Verdict, *, by: str) -> None:
        rule = "" if isinstance(verdict, Defer) else verdict.rule
        events: list[Event] = [
            PermissionDecided(request_id=request.request_id, verdict=verdict.kind, rule=rule, by=by)
        ]
        if request.ask == "native":
            events.append(NativeAskRefused(tool=request.tool, channel="permission"))
        self._publish(
            evolve(event, tool_call_id=request.tool_call_id, agent_id=request.agent_id) for event in events
        )

    def _talking(self) -> Conversation:
        if self._conversation is None:
            raise BridgeError("call plan_launch first: the conversation follows its plan")
        return self._conversation

    def _converse(self, hear: Callable[[Conversation], Iterable[Event]]) -> list[Event]:
        with self._lock:
            conversation = self._talking()
            try:
                events = list(hear(conversation))
            except Exception:
                _logger.exception("the adapter failed on a message of session %s", self.session_id)
                return []
            if isinstance(conversation, DuplexConversation):
                events = self._sure_of_missing(events)
            return self._publish(events)

    def _sure_of_missing(self, events: list[Event]) -> list[Event]:
        """Keep back that the list was not taken while it is under way; what comes of that, the bridge tells later."""
        is_listing = self._desk is not None and self._desk.is_listing
        if self._missing is not None and not is_listing:  # who was given the list was not the runtime
            events, self._missing = [self._missing, *events], None
        if not is_listing:
            return events
        sure: list[Event] = []
        for event in events:
            if isinstance(event, AskToolMissing) and event.reason == "not_listed":
                self._missing = event
            else:
                sure.append(event)
        return sure

    # -- events ---------------------------------------------------------------------------------------------------

    def tell(self, event: Event) -> Event:
        """Publish an event of the host's own, such as `opask.events.HostCalled`; return it as it was told."""
        with self._lock:
            (told,) = self._publish([event])
            return told

    def subscribe(self, listener: Callable[[Event], object]) -> Callable[[], None]:
        """Hear every event of the session, in order.

        Args:
            listener: called under the session's lock, from whichever thread saw the event; must not block.

        Returns:
            A function that ends the subscription.
        """
        return self._publisher.subscribe(listener)

    def observe(self, observer: Callable[[Record], object]) -> Callable[[], None]:
        """See what crosses the bridge, for recordings: asks, outcomes and the requests that list the tool.

        Args:
            observer: called with the ``message`` of a recording's ``bridge`` entry; must not block.

        Returns:
            A function that ends it.
        """
        return self._publisher.observe(observer)

    def observed(self, record: Record) -> None:
        """Tell the observers; called by the bridge."""
        self._publisher.record(lambda: record)

    def _publish(self, events: Iterable[Event]) -> list[Event]:
        published = self._publisher.publish(events)
        for event in published:
            if isinstance(event, QuestionCorrelated):
                self.asks.correlated(event)
            if isinstance(event, ToolFinished | TurnEnded) and event.dropped and self._desk is not None:
                self._desk.turn_ended(event.dropped)
        return published

    def _with_support(self, event: SessionReady) -> SessionReady:
        known = self.support(event.version)
        reason = event.reason
        if reason is None and not event.questions and self._plan is not None:
            reason = self._plan.reason
        return evolve(
            event,
            route=event.route or known.route,
            status=event.status or known.status,
            drift=event.drift or known.drift,
            version=event.version or self._version,
            reason=reason,
        )

    def _put(self, ask: Ask, on_reply: Callable[[object], object]) -> Callable[[Outcome], object]:
        if self._prompter is None:
            on_reply(Unavailable("the host attached no prompter"))
            return lambda outcome: None
        prompting = Prompting(
            self._host,
            self._prompter,
            ask,
            self._context,
            on_reply,
            wait=self._wait_of(ask),
            on_told=partial(self._told, ask.id),
        )
        if self._host.is_current:
            self._untold[ask.id] = anyio.Event()
        prompting.start()
        return prompting.settle

    def _told(self, ask_id: str) -> None:
        if (told := self._untold.pop(ask_id, None)) is not None:
            told.set()

    async def told(self) -> None:
        """Wait until a prompter that runs on the bridge's loop has heard how each ask ended; called by the bridge.

        One on the host's loop is not waited for: the host may be waiting for the session.
        """
        for told in list(self._untold.values()):
            await told.wait()

    def _wait_of(self, ask: Ask) -> _AskWait | None:
        """Return the ask's wait, which may grow as far as the launch can hold a call."""
        if self._desk is None or ask.deadline is None:
            return None
        latest = None
        if self._plan is not None and self._plan.ceiling is not None:
            with suppress(OverflowError):  # a ceiling of more than all time is none
                latest = max(ask.deadline, ask.asked_at + self._plan.ceiling - WAIT_MARGIN)
        return _AskWait(latest, ask.id, self._desk)

    # -- the host's hand on it -------------------------------------------------------------------------------------

    @property
    def pending(self) -> tuple[Ask, ...]:
        """The asks that wait now, oldest first."""
        return self.asks.pending

    def cancel(self, ask_id: str | None = None) -> None:
        """Cancel one open ask, or all of them, for the host; the agent is told. Never blocks."""
        if self._desk is not None:
            self._desk.cancel(ask_id)

    def call(self, arguments: object, meta: Mapping[str, Any]) -> Call:
        """Call the ask tool as the agent would, over no connection; see `opask.testing.Agent`.

        Raises:
            BridgeError: the session is closed.
        """
        if self._desk is None:
            raise BridgeError(f"session {self.session_id} is not served")
        return self._desk.call(arguments, meta)

    async def listed(self, within: timedelta) -> bool:
        """Wait until the runtime itself has taken the tool list over a connection that it kept.

        Where the launch holds its first prompt the runtime has read the list by then, as far as that can be told.
        Publishes `AskToolMissing` where it does not within that time.
        """
        return await anyio.to_thread.run_sync(
            self.listed_sync, within, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
        )

    def listed_sync(self, within: timedelta) -> bool:
        """Do as `listed`, blocking."""
        if self._desk is None or (self._plan is not None and not self._plan.questions):
            return False
        listed = self._desk.listed(within)
        if listed is False:
            with self._lock:
                self._publish([AskToolMissing(reason="timeout")])
        return listed is True

    async def aclose(self) -> None:
        """Close the session: what is pending is cancelled by the shutdown, the socket and the folder go. Idempotent."""
        if self._desk is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._desk.close, limiter=anyio.CapacityLimiter(1))

    def close(self) -> None:
        """Do as `aclose`, blocking; not for the thread of a prompter that has to run meanwhile.

        In a listener it only begins to close, since the bridge waits for the listener.
        """
        if self._desk is not None:
            self._desk.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
