"""What a probe finds of a claim, and what every run has to show, whatever it is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypeAlias

from attrs import field, frozen

from opask.events import (
    AskToolMissing,
    MessageUnreadable,
    NativeAskRefused,
    QuestionAsked,
    QuestionCorrelated,
    QuestionResolved,
    TextSaid,
    ToolAnnounced,
    ToolFinished,
)
from opask.permissions import PermissionRequested
from opask.registry_lint.evidence import texts

from .playing import Take

__all__ = [
    "Held",
    "NotApplicable",
    "NotHeld",
    "Verdict",
    "answered",
    "correlated",
    "heard",
    "of_a_sub_agent",
    "reached_host",
    "sound",
    "unasked",
]

_LONG = 300


@frozen
class Held:
    """The claim held."""

    word: ClassVar[str] = "held"
    reasons: ClassVar[tuple[str, ...]] = ()


@frozen
class NotHeld:
    """The claim did not hold.

    Args:
        reasons: what was seen instead.
    """

    word: ClassVar[str] = "not held"
    reasons: tuple[str, ...] = field(converter=tuple[str, ...])


@frozen
class NotApplicable:
    """The claim was not tried.

    Args:
        reason: why.
    """

    word: ClassVar[str] = "not applicable"
    reason: str

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reason, as the other verdicts have theirs."""
        return (self.reason,)


Verdict: TypeAlias = Held | NotHeld | NotApplicable


def sound(take: Take, *, ends_well: bool = True) -> Iterator[str]:
    """Give what is wrong with a run, whatever it is about.

    Args:
        take: the run.
        ends_well: whether its turn and its process are to end well.
    """
    yield from take.failures
    for missing in take.of(AskToolMissing):
        status = f" ({missing.server_status})" if missing.server_status else ""
        yield f"the ask tool did not reach the agent: {missing.reason}{status}"
    unreadable = take.of(MessageUnreadable)
    if unreadable:
        yield f"{len(unreadable)} messages of the runtime cannot be read; the first: {unreadable[0].reason}"
    ends = [end.question_id for end in take.of(QuestionResolved)]
    for ask in take.of(QuestionAsked):
        if ends.count(ask.question_id) != 1:
            yield f"question {ask.question_id} has {ends.count(ask.question_id)} outcomes"
    result = take.result
    if ends_well and result is not None and not result.ok:
        said = f": {result.stderr[-_LONG:]}" if result.stderr else ""
        yield f"the runtime ended with {result.stop_reason or 'no end of its turn'}, exit code {result.exit_code}{said}"
    for what in take.left:
        yield f"left behind: {what[:_LONG]}"


def answered(take: Take, *answers: Mapping[str, Any]) -> Iterator[str]:
    """Give what is wrong with a run in which exactly these asks were to be answered, in any order."""
    seen = [end.answers if end.outcome == "answered" else end.outcome for end in take.of(QuestionResolved)]
    for expected in answers:
        if expected in seen:
            seen.remove(expected)
        else:
            yield f"no question was answered with {dict(expected)}"
    for other in seen:
        yield f"a question ended otherwise: {other}"


def correlated(take: Take, *, unknown: int = 0) -> Iterator[str]:
    """Give what is wrong with a run in which each question was to be that of a call that was announced.

    Args:
        take: the run.
        unknown: how many questions are of a call that nothing tells of.
    """
    announced = {call.tool_call_id for call in take.of(ToolAnnounced) if call.ask == "supplied"}
    later = {event.question_id: event.tool_call_id for event in take.of(QuestionCorrelated)}
    calls = [ask.tool_call_id or later.get(ask.question_id) for ask in take.of(QuestionAsked)]
    if calls.count(None) != unknown:
        yield f"{calls.count(None)} questions are of no call that is known, and {unknown} were to be"
    for call in calls:
        if call is None:
            continue
        elif call not in announced:
            yield f"a question is said to be of call {call}, which was not announced as one of the ask tool"
        elif calls.count(call) > 1:
            yield f"call {call} has {calls.count(call)} questions"


def unasked(take: Take) -> Iterator[str]:
    """Give what is wrong with a run in which permissions were to be bypassed."""
    for request in take.of(PermissionRequested):
        yield f"permission was asked for {request.tool}, so that it was not bypassed"


def of_a_sub_agent(take: Take, *, told: bool) -> Iterator[str]:
    """Give what is wrong with a run in which a sub-agent alone asked.

    Args:
        take: the run.
        told: whether it is to be known that it was a sub-agent.
    """
    later = {event.question_id: event.agent_id for event in take.of(QuestionCorrelated)}
    agents = [ask.agent_id or later.get(ask.question_id) for ask in take.of(QuestionAsked)]
    if told and None in agents:
        yield "nothing tells that it was a sub-agent's question"
    if not told and set(agents) != {None}:
        yield "the row says that a sub-agent's question is not known to be one, and it is"


def reached_host(take: Take, tool: str) -> Iterator[str]:
    """Give what is wrong with a run in which a question by the runtime's own ask tool was to reach its host.

    Args:
        take: the run.
        tool: the tool, as the model calls it.
    """
    requests = [request for request in take.of(PermissionRequested) if request.ask == "native"]
    forms = [refusal for refusal in take.of(NativeAskRefused) if refusal.channel == "elicitation"]
    if requests or forms:
        return
    scripted = [one["body"] for one in take.exchanges if one["kind"] == "scripted"]
    if not any(tool in texts(body.get("tools")) for body in scripted):
        yield f"the agent is not offered {tool}"
    yield f"the host was asked nothing, and the agent went on: {_last_words(take)[:_LONG]!r}"


def heard(take: Take, *words: str) -> Iterator[str]:
    """Give what is wrong with a run whose last words were to have these in them."""
    last = _last_words(take)
    for word in words:
        if word not in last:
            yield f"the agent's last words lack {word!r}: {last[:_LONG]!r}"


def _last_words(take: Take) -> str:
    pieces: list[str] = []  # it may come in pieces
    for event in take.events:
        if isinstance(event, ToolAnnounced | ToolFinished):
            pieces.clear()
        elif isinstance(event, TextSaid) and event.agent_id is None:
            pieces.append(event.text)
    return "".join(pieces)
