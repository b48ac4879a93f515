"""The tool calls of one session: what they are, which of them ask, and which ask is whose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from attrs import define, frozen

from opask.correlation import Correlated, Correlation
from opask.events import (
    Event,
    NativeAskRefused,
    QuestionCorrelated,
    ToolAnnounced,
    ToolFinished,
)
from opask.intake import Rejected, parse
from opask.names import AskTools
from opask.permissions import PermissionOption
from opask.questions import Ask, Question
from opask_acp.jsonrpc import Message, text
from opask_acp.profile import Profile
from opask_acp.toolcalls import ToolCall

__all__ = ["AskKind", "Calls", "Identity", "Place"]

AskKind: TypeAlias = Literal["supplied", "native"]


@frozen
class Identity:
    """What a tool call is, as far as its reports tell.

    Args:
        tool: the tool's name, empty where nothing says it.
        ask: which ask tool it is, if any, by whatever name.
        proven: whether the runtime itself says that it is the supplied one.
    """

    tool: str
    ask: AskKind | None
    proven: bool


@frozen
class Place:
    """Where an ask belongs.

    Args:
        call_id: its call, None where that is not known.
        agent_id: the sub-agent that made the call.
        siblings: how many other calls of that agent run.
    """

    call_id: str | None = None
    agent_id: str | None = None
    siblings: int = 0


@define
class _Running:
    call: ToolCall
    agent_id: str | None
    tool: str
    ask: AskKind | None = None
    arguments: Mapping[str, Any] | None = None  # where they are those of an ask
    questions: tuple[Question, ...] | None = None
    told: Mapping[str, Any] | None = None  # the latest that were told in whole, whatever they are of
    is_tracked: bool = False  # whether an ask may be this call's
    is_untold: bool = False  # nothing but a permission request tells of it


class Calls:
    """The calls of one session.

    Args:
        profile: how the runtime reports them.
        tools: the session's ask tools.
    """

    def __init__(self, profile: Profile, tools: AskTools) -> None:
        self._profile = profile
        self._tools = tools
        self._correlation = Correlation(by_order=profile.by_order)
        self._running: dict[str, _Running] = {}
        self._over: set[str] = set()
        self._native: set[str] = set()  # also those that are over: what is native once is native for good
        self._refused: set[str] = set()  # native calls whose refusal was told
        self._told_ahead = 0  # refusals that were told without saying of which call

    # -- what a call is -------------------------------------------------------------------------------------------

    def identify(self, call: ToolCall, options: Sequence[PermissionOption] = ()) -> Identity:
        """Tell what a call is: native where any of its names is, supplied only where none says otherwise.

        Args:
            call: as it was reported.
            options: where it is one that permission is asked for, what may be answered.
        """
        names = list(self._profile.names(call))
        written = [name for name in names if name.written]
        first = next(iter(written or names), None)
        tool = first.spelling if first is not None else ""
        native = next((name.spelling for name in names if self._tools.kind(name.spelling) == "native"), None)
        if native is not None or self._profile.is_question(call, options):
            return Identity(native or tool, "native", proven=False)
        supplied = [name for name in names if self._tools.kind(name.spelling) == "supplied"]
        if written:
            is_ours = all(name in supplied for name in written)
            return Identity(tool, "supplied" if is_ours else None, proven=is_ours)
        if supplied:
            return Identity(supplied[0].spelling, "supplied", proven=False)
        return Identity(tool, None, proven=False)

    def merged(self, report: Message) -> ToolCall:
        """Return a call as it is with one more report, which is not kept."""
        call_id = text(report, "toolCallId") or ""
        running = self._running.get(call_id)
        return (ToolCall(call_id) if running is None else running.call).updated(report)

    def is_native(self, call_id: str | None) -> bool:
        """Tell whether a call is known to be of the native ask tool, be it over or not."""
        return call_id in self._native

    def name_of(self, call_id: str | None) -> str:
        """Return the tool's name in a running call, empty where it is not known."""
        running = self._running.get(call_id or "")
        return "" if running is None else running.tool

    def arguments_of(self, call: ToolCall) -> Mapping[str, Any] | None:
        """Return what a tool is called with, where that was told, in its latest report or before."""
        if isinstance(call.raw_input, Mapping):
            return call.raw_input
        running = self._running.get(call.id)
        told = running.arguments if running is not None else None
        if told is None:
            told = next(self._profile.arguments(call), None)
        return running.told if told is None and running is not None else told

    def agent_of(self, call_id: str | None) -> str | None:
        """Return the sub-agent that made a running call, None for the main agent."""
        running = self._running.get(call_id or "")
        return None if running is None else running.agent_id

    # -- what the runtime reports ---------------------------------------------------------------------------------

    def reported(self, report: Message) -> list[Event]:
        """Take in a report of a call, its first or another."""
        call_id = text(report, "toolCallId")
        return [] if call_id is None else self._now(call_id, self.merged(report))

    def asked_for(self, report: Message) -> list[Event]:
        """Take in the report of a call that permission is asked for; of some calls there is no other."""
        call_id = text(report, "toolCallId")
        if call_id is None:
            return []
        # It does not end by being asked for.
        unended = {key: value for key, value in report.items() if key != "status"}
        return self._now(call_id, self.merged(unended), untold=bool(self._profile.delegates))

    def _delegate(self) -> str | None:
        """Return the call that has started the only sub-agent there is; None where there is none, or several."""
        delegates = self._profile.delegates
        ids = [key for key, each in self._running.items() if each.tool in delegates and each.agent_id is None]
        return ids[0] if len(ids) == 1 else None

    def grew(self, report: Message) -> list[Event]:
        """Take in one more piece of a call's content."""
        call_id = text(report, "toolCallId")
        if call_id is None:
            return []
        running = self._running.get(call_id)
        call = ToolCall(call_id) if running is None else running.call
        return self._now(call_id, call.with_piece(report.get("content")))

    def refusing(self, call_id: str | None) -> list[Event]:
        """Take in that a call turned out to be native and is refused; that itself is told by somebody else.

        Args:
            call_id: the call; None where the refusal names none: it is that of a native call that is not told yet.
        """
        if call_id is None:
            call_id = next(
                (key for key, each in self._running.items() if self._is_untold_refusal(key, each)), None
            )
        if call_id is None:
            self._told_ahead += 1
            return []
        self._refused.add(call_id)
        self._native.add(call_id)
        running = self._running.get(call_id)
        if running is None:
            return []
        running.ask = "native"
        return self._untracked(call_id, running)

    def _is_untold_refusal(self, call_id: str, running: _Running) -> bool:
        return running.ask == "native" and call_id not in self._refused

    def _now(self, call_id: str, call: ToolCall, *, untold: bool = False) -> list[Event]:
        events: list[Event] = []
        identity = self.identify(call)
        if identity.ask == "native":
            self._native.add(call_id)
        if call_id in self._over:
            return []
        running = self._running.get(call_id)
        if running is None:
            agent = call.at(*self._profile.agent)
            named = agent if isinstance(agent, str) and agent else None
            agent_id = self._delegate() if named is None and untold else named
            running = _Running(call, agent_id, identity.tool, identity.ask, is_untold=untold)
            self._running[call_id] = running
            events.append(
                ToolAnnounced(tool=identity.tool, ask=identity.ask, tool_call_id=call_id, agent_id=agent_id)
            )
        running.call = call
        if identity.ask == "native" or running.ask is None:  # native for good, and supplied unless that
            if identity.ask is not None or not running.tool:
                running.tool = identity.tool
            running.ask = identity.ask
        if call.end is not None:
            return [*events, *self._finished(call_id, running, is_error=call.end == "badly")]
        return [*events, *self._tracked(call_id, running)]

    def _tracked(self, call_id: str, running: _Running) -> list[Event]:
        """Let the correlation know what is known of a call that may ask."""
        if running.ask == "native":
            return self._untracked(call_id, running)
        if running.questions is None:
            self._read(running)
        is_unnamed = self._profile.unnamed and not any(
            name.written for name in self._profile.names(running.call)
        )
        if running.ask != "supplied" and not (is_unnamed and running.questions is not None):
            return self._untracked(call_id, running)
        running.is_tracked = True
        return _correlated(
            self._correlation.announced(
                call_id, running.agent_id, running.questions, untold=running.is_untold
            )
        )

    def _untracked(self, call_id: str, running: _Running) -> list[Event]:
        if not running.is_tracked:
            return []
        running.is_tracked = False
        return _correlated(self._correlation.finished(call_id))

    def _read(self, running: _Running) -> None:
        """Read what a call asks, if that is told."""
        for at, arguments in enumerate(self._profile.arguments(running.call)):
            if at == 0:
                running.told = arguments
            questions = parse(arguments)
            if not isinstance(questions, Rejected):
                running.arguments, running.questions = arguments, questions
                return

    def _finished(self, call_id: str, running: _Running, *, is_error: bool) -> list[Event]:
        del self._running[call_id]
        self._over.add(call_id)
        where: dict[str, Any] = {"tool_call_id": call_id, "agent_id": running.agent_id}
        dropped = self._drain(call_id)  # where it had started a sub-agent
        events: list[Event] = [ToolFinished(tool=running.tool, is_error=is_error, dropped=dropped, **where)]
        if is_error and self._is_untold_refusal(call_id, running):
            self._refused.add(call_id)
            if self._told_ahead:
                self._told_ahead -= 1
            else:
                events.append(NativeAskRefused(tool=running.tool, channel="launch", **where))
        events += self._untracked(call_id, running)
        self._correlation.passed()
        return events

    # -- asks -----------------------------------------------------------------------------------------------------

    def asked(self, ask: Ask) -> Place:
        """Take in an ask that reached the bridge; tell where it belongs, as far as that is known."""
        found = self._correlation.arrived(ask.id, ask.questions, self._profile.call_id(ask.meta))
        if found is None:
            return Place()
        siblings = sum(
            running.agent_id == found.agent_id and call_id != found.call_id
            for call_id, running in self._running.items()
        )
        return Place(found.call_id, found.agent_id, siblings)

    def settled(self, ask: Ask) -> None:
        """Take in that an ask is settled."""
        self._correlation.settled(ask.id)

    def drained(self) -> tuple[str, ...]:
        """Take in that the main agent's turn ended; return the ids of the asks that ended with it."""
        self._told_ahead = 0
        return self._drain(None)

    def _drain(self, agent_id: str | None) -> tuple[str, ...]:
        """Take in that an agent ended, and with it those that its calls have started and waited for."""
        ended = {key for key, running in self._running.items() if running.agent_id == agent_id}
        self._over |= ended
        self._running = {key: running for key, running in self._running.items() if key not in ended}
        dropped = self._correlation.drained(agent_id)
        return (*dropped, *(ask_id for key in ended for ask_id in self._drain(key)))

    def drained_all(self) -> tuple[str, ...]:
        """Take in that the process ended; return the ids of the asks that ended with it."""
        self._over |= self._running.keys()
        self._running.clear()
        return self._correlation.drained_all()


def _correlated(found: Correlated | None) -> list[Event]:
    if found is None:
        return []
    return [QuestionCorrelated(question_id=found.ask_id, tool_call_id=found.call_id, agent_id=found.agent_id)]
