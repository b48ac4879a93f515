"""The normalised events of a session: what every runtime's own events become.

Past-tense facts. A `Conversation` makes them; the session stamps each with its place and time. Readers ignore
events and fields that they do not know.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Literal

import attrs
from attrs import field, frozen

from opask.outcomes import OutcomeKind
from opask.questions import Question
from opask.wire import questions_to_wire

__all__ = [
    "AnswerRefused",
    "AskToolMissing",
    "Event",
    "GateMissing",
    "HostCalled",
    "HostReturned",
    "MessageUnreadable",
    "NativeAskRefused",
    "PermissionDecided",
    "PermissionWithdrawn",
    "QuestionAsked",
    "QuestionCorrelated",
    "QuestionResolved",
    "SessionReady",
    "TextSaid",
    "ToolAnnounced",
    "ToolFinished",
    "TurnEnded",
    "TurnStarted",
    "event_to_json",
]


@frozen(kw_only=True)
class Event:
    """What all events have.

    Args:
        seq: its place in the session, from 1; stamped by the session.
        time: when the session saw it (aware, UTC); stamped by the session.
        session_id: stamped by the session.
        turn_id: the turn that it belongs to; stamped by the session.
        question_id: the ask it is about.
        tool_call_id: the runtime's id of the call it is about.
        agent_id: the sub-agent it is about.
    """

    event: ClassVar[str]

    seq: int = 0
    time: datetime | None = None
    session_id: str = ""
    turn_id: str | None = None
    question_id: str | None = None
    tool_call_id: str | None = None
    agent_id: str | None = None


@frozen(kw_only=True)
class SessionReady(Event):
    """Whether this session can ask is known; never overwritten by what the runtime says of itself later.

    Args:
        questions: whether the agent can ask.
        route: the registry's id of the route; filled by the session, as are `status` and `drift`.
        status: ``verified``, ``refuted`` or ``untested``.
        drift: how the runtime's version stands to the verified one: ``same``, ``newer``, ``older``, ``unknown``.
        version: the runtime's version, where it says it.
        reason: why the agent cannot ask.
    """

    event: ClassVar[str] = "session_ready"
    questions: bool
    route: str | None = None
    status: str | None = None
    drift: str | None = None
    version: str | None = None
    reason: str | None = None


@frozen(kw_only=True)
class TurnStarted(Event):
    """The agent began a turn."""

    event: ClassVar[str] = "turn_started"


@frozen(kw_only=True)
class TextSaid(Event):
    """The agent said something, or a piece of it."""

    event: ClassVar[str] = "text"
    text: str


@frozen(kw_only=True)
class TurnEnded(Event):
    """The agent's turn is over.

    Args:
        stop_reason: the runtime's own word.
        is_error: whether it ended in an error.
        dropped: ids of the asks that ended with it; the session settles them as abandoned. Not in the JSON form.
    """

    event: ClassVar[str] = "turn_ended"
    stop_reason: str
    is_error: bool = False
    dropped: tuple[str, ...] = field(default=(), metadata={"internal": True})


@frozen(kw_only=True)
class MessageUnreadable(Event):
    """The runtime sent something that is not of its protocol; it was passed over."""

    event: ClassVar[str] = "message_unreadable"
    reason: str


@frozen(kw_only=True)
class ToolAnnounced(Event):
    """The runtime announced a tool call.

    Args:
        tool: the runtime's spelling.
        ask: ``supplied`` for opask's tool, ``native`` for the runtime's own ask tool, else None.
    """

    event: ClassVar[str] = "tool_announced"
    tool: str
    ask: Literal["supplied", "native"] | None = None


@frozen(kw_only=True)
class ToolFinished(Event):
    """An announced tool call is over.

    Args:
        tool: the tool's name.
        is_error: whether it ended in an error.
        dropped: ids of the asks that ended with it, of a sub-agent that it had started; the session settles them as
            abandoned. Not in the JSON form.
    """

    event: ClassVar[str] = "tool_finished"
    tool: str
    is_error: bool = False
    dropped: tuple[str, ...] = field(default=(), metadata={"internal": True})


@frozen(kw_only=True)
class QuestionAsked(Event):
    """An ask reached the bridge.

    Args:
        questions: what is asked.
        asked_at: when.
        deadline: when its wait runs out.
        siblings_running: how many other tool calls of the agent run on meanwhile, as far as the runtime tells.
    """

    event: ClassVar[str] = "question_asked"
    questions: tuple[Question, ...]
    asked_at: datetime
    deadline: datetime | None = None
    siblings_running: int = 0


@frozen(kw_only=True)
class QuestionCorrelated(Event):
    """The call that an ask belongs to became known only after it was asked."""

    event: ClassVar[str] = "question_correlated"


@frozen(kw_only=True)
class QuestionResolved(Event):
    """An ask settled.

    Args:
        outcome: its kind.
        answers: the wire form of the answers, None where there are none.
        reason: why there are none, where that is known.
        by: who settled it: a surface, ``host``, ``operator``, ``shutdown``, ``agent``.
        duration_ms: milliseconds from ask to outcome.
    """

    event: ClassVar[str] = "question_resolved"
    outcome: OutcomeKind
    answers: Mapping[str, Any] | None = None
    reason: str | None = None
    by: str | None = None
    duration_ms: int


@frozen(kw_only=True)
class AnswerRefused(Event):
    """An answer came that could not be taken: too late, or not fitting."""

    event: ClassVar[str] = "answer_refused"
    reason: str
    by: str | None = None


@frozen(kw_only=True)
class PermissionDecided(Event):
    """A permission request was decided."""

    event: ClassVar[str] = "permission_decided"
    request_id: str
    verdict: Literal["allow", "deny", "defer"]
    rule: str
    by: str


@frozen(kw_only=True)
class PermissionWithdrawn(Event):
    """The runtime no longer waits for the decision on a permission request; what was asked for does not run."""

    event: ClassVar[str] = "permission_withdrawn"
    request_id: str


@frozen(kw_only=True)
class NativeAskRefused(Event):
    """The agent called the runtime's own ask tool and was refused.

    Args:
        tool: the runtime's spelling.
        channel: where it was refused: ``launch``, ``permission`` or ``elicitation``.
    """

    event: ClassVar[str] = "native_ask_refused"
    tool: str
    channel: Literal["launch", "permission", "elicitation"]


@frozen(kw_only=True)
class AskToolMissing(Event):
    """The supplied tool did not reach the agent though an operator is there.

    Args:
        reason: ``failed`` or ``pending`` (the server), ``not_listed``, ``timeout``, ``denied``.
        server_status: the runtime's own word for the server's state.
    """

    event: ClassVar[str] = "ask_tool_missing"
    reason: Literal["failed", "pending", "not_listed", "timeout", "denied"]
    server_status: str | None = None


@frozen(kw_only=True)
class GateMissing(Event):
    """The write gate that the launch asked for is not in force in the runtime, which must not go on.

    Args:
        reason: what the runtime said.
    """

    event: ClassVar[str] = "gate_missing"
    reason: str


@frozen(kw_only=True)
class HostCalled(Event):
    """The host's own workflow called something that belongs into the conversation.

    Args:
        call_id: names this call.
        call: what was called, such as ``clarify``.
        input: what it was called with.
    """

    event: ClassVar[str] = "host_called"
    call_id: str
    call: str
    input: Mapping[str, Any]


@frozen(kw_only=True)
class HostReturned(Event):
    """A call of the host's own workflow returned.

    Args:
        call_id: that of the call.
        call: what was called.
        output: what came back; enough to give it back instead of calling again.
        replayed: whether it was given back from a record.
    """

    event: ClassVar[str] = "host_returned"
    call_id: str
    call: str
    output: Mapping[str, Any]
    replayed: bool = False


_ENVELOPE = ("event", "seq", "time", "session_id", "turn_id", "question_id", "tool_call_id", "agent_id")
_ALWAYS = frozenset({"event", "seq", "time", "session_id", "turn_id"})
_DEPTH = 100


def event_to_json(event: Event) -> dict[str, Any]:
    """Return an event as the JSON object that the command line prints, its envelope first.

    What an agent put into it cannot spoil it: a number that JSON does not have (NaN) becomes None, and so does
    what is nested deeper than a JSON printer follows; any other value without a JSON form becomes text.
    """
    values: dict[str, Any] = {"event": event.event}
    for attribute in attrs.fields(type(event)):
        if not attribute.metadata.get("internal"):
            values[attribute.name] = getattr(event, attribute.name)
    if isinstance(event, QuestionAsked):
        values["questions"] = questions_to_wire(event.questions)
    ordered = {
        key: values[key]
        for key in _ENVELOPE
        if values.get(key) is not None or key in _ALWAYS or _asked(event, key)
    }
    ordered.update((key, value) for key, value in values.items() if key not in _ENVELOPE)
    return {key: _plain(value) for key, value in ordered.items()}


def _asked(event: Event, key: str) -> bool:
    return key == "tool_call_id" and isinstance(event, QuestionAsked)


def _plain(value: object, depth: int = 0) -> Any:
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return value.isoformat()
    if depth == _DEPTH:
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_plain(item, depth + 1) for item in value]
    return str(value)
