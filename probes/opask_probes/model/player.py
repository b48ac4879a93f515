"""Play a scenario: tell which step a request is, hold it against what the step expects, and reply."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable

import anyio
from attrs import frozen

from opask.errors import OpaskError

from .dialect import Message, ModelRequest, ToolCall, ToolResult
from .scenario import PLACEHOLDER, Conversation, Expect, Scenario, Step

__all__ = ["MismatchError", "Played", "Player"]


class MismatchError(OpaskError):
    """A request that the scenario has no place for.

    Attributes:
        reason: what does not fit.
        conversation: the conversation that the request belongs to, where that is known.
        step: its step, from 1, where that is known.
    """

    def __init__(self, reason: str, conversation: str | None = None, step: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.conversation = conversation
        self.step = step


@frozen
class Played:
    """The reply to a request, and the step, from 1, that it was."""

    conversation: str
    step: int
    message: Message


class _Progress:
    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.taken = 0
        self.sent = 0
        self.replies: list[Message] = []
        self.failure: MismatchError | None = None
        self.reached = [anyio.Event() for _ in conversation.steps]


class Player:
    """Match requests to the steps of one scenario, in order, once each."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._progress = {c.name: _Progress(c) for c in scenario.conversations}
        self._gates = {s.hold: anyio.Event() for c in scenario.conversations for s in c.steps if s.hold}
        self._closed = False

    async def play(self, request: ModelRequest, call_prefix: str) -> Played:
        """Give the reply to a request, waiting at the step's gate if it has one.

        Args:
            request: what the runtime asks.
            call_prefix: what the ids of calls begin with, as the dialect demands.

        Raises:
            MismatchError: the request fits no step, or not the one that is due; from then on, so does every
                request of its conversation.
        """
        progress = self._find(request)
        # A runtime that is refused tries again, in other words: it gets the same answer, and no step.
        if progress.failure is None:
            try:
                return await self._step(request, progress, call_prefix)
            except MismatchError as error:
                progress.failure = error
        raise progress.failure

    async def _step(self, request: ModelRequest, progress: _Progress, call_prefix: str) -> Played:
        name, steps = progress.conversation.name, progress.conversation.steps
        number = progress.taken + 1
        _check_history(request, progress)
        if number > len(steps):
            raise MismatchError(f"all {len(steps)} steps are played and the runtime asks again", name, number)
        step = steps[number - 1]
        results = _results(request, progress.replies[-1].calls if progress.replies else ())
        if problems := [*_problems(request, step.expect, results)]:
            raise MismatchError("; ".join(problems), name, number)
        message = _message(name, number, step, results, call_prefix, offered=request.tool_names)
        progress.taken = number
        progress.replies.append(message)
        if step.hold:
            await self._gates[step.hold].wait()
            if self._closed:
                raise MismatchError(f"ended while held at {step.hold}", name, number)
        return Played(name, number, message)

    def sent(self, played: Played) -> None:
        """Take note that a reply went out whole: the step is played, the gate that it releases opens."""
        progress = self._progress[played.conversation]
        progress.sent = max(progress.sent, played.step)
        progress.reached[played.step - 1].set()
        gate = progress.conversation.steps[played.step - 1].releases
        if gate:
            self.release(gate)

    def release(self, gate: str) -> None:
        """Open a gate; opening it again does nothing.

        Raises:
            KeyError: no step is held at it.
        """
        self._gates[gate].set()

    async def played(self, conversation: str, step: int) -> None:
        """Wait until the reply of a step, from 1, went out."""
        await self._progress[conversation].reached[step - 1].wait()

    def close(self) -> None:
        """Let go of the requests that are held; they fail."""
        self._closed = True
        for gate in self._gates.values():
            gate.set()

    def unplayed(self) -> list[MismatchError]:
        """Tell, for each conversation, the first step that was not played."""
        return [
            MismatchError(
                f"not played to its end: {p.sent} of {len(p.conversation.steps)} steps",
                p.conversation.name,
                p.sent + 1,
            )
            for p in self._progress.values()
            if p.sent < len(p.conversation.steps)
        ]

    def _find(self, request: ModelRequest) -> _Progress:
        found = [p for p in self._progress.values() if _is_of(request, p.conversation)]
        if len(found) == 1:
            return found[0]
        names = ", ".join(p.conversation.name for p in found)
        prompt = _short(request.prompt)
        if found:
            raise MismatchError(f"the request fits several conversations ({names}); its prompt: {prompt}")
        raise MismatchError(f"the request fits no conversation; its prompt: {prompt}")


def _is_of(request: ModelRequest, conversation: Conversation) -> bool:
    when = conversation.when
    return (
        all(text in request.prompt for text in when.prompt_contains)
        and all(text in request.system for text in when.system_contains)
        and all(tool in request.tool_names for tool in when.offered)
        and not any(tool in request.tool_names for tool in when.absent)
    )


def _check_history(request: ModelRequest, progress: _Progress) -> None:
    """See that the history has what was replied, so that a repeated or rewritten request is not taken for the next."""
    name, number = progress.conversation.name, progress.taken + 1
    if not progress.replies:
        return
    if not request.replies:
        raise MismatchError(
            f"step {number - 1} was replied to, and the request's history has no reply", name, number
        )
    due, found = progress.replies[-1], request.replies[-1]
    if [(c.id, c.tool) for c in due.calls] != [(c.id, c.tool) for c in found.calls]:
        raise MismatchError(
            f"the last reply in the history calls {_calls(found.calls)}, and that of step {number - 1} "
            f"called {_calls(due.calls)}: the request was repeated or its history changed",
            name,
            number,
        )
    if not due.calls and due.text != found.text:
        raise MismatchError(
            f"the last reply in the history is {_short(found.text)}, and that of step {number - 1} "
            f"was {_short(due.text)}: the request was repeated or its history changed",
            name,
            number,
        )


def _results(request: ModelRequest, calls: Iterable[ToolCall]) -> list[ToolResult]:
    by_id = {result.call_id: result for turn in request.latest for result in turn.results}
    return [by_id[call.id] for call in calls if call.id in by_id]


def _problems(request: ModelRequest, expect: Expect, results: list[ToolResult]) -> Iterable[str]:
    for tool in expect.offered:
        if tool not in request.tool_names:
            yield f"tool {tool} is not offered; offered: {', '.join(request.tool_names) or 'none'}"
    for tool in expect.absent:
        if tool in request.tool_names:
            yield f"tool {tool} is offered and must not be"
    text = "\n".join(turn.text for turn in request.latest)
    yield from _text_problems(
        "the system prompt", request.system, expect.system_contains, expect.system_lacks
    )
    yield from _text_problems("the user's text", text, expect.text_contains, expect.text_lacks)
    if expect.results is None:
        return
    if len(results) != len(expect.results):
        yield f"{len(expect.results)} tool results are expected, found {len(results)}"
        return
    for at, (due, found) in enumerate(zip(expect.results, results, strict=True), 1):
        yield from _text_problems(f"result {at}", found.text, due.contains, due.lacks)
        if due.is_error is not None and due.is_error != found.is_error:
            yield f"result {at} has is_error {found.is_error}, text {_short(found.text)}"


def _text_problems(what: str, text: str, contains: tuple[str, ...], lacks: tuple[str, ...]) -> Iterable[str]:
    for wanted in contains:
        if wanted not in text:
            yield f"{what} lacks {wanted!r}: {_short(text)}"
    for unwanted in lacks:
        if unwanted in text:
            yield f"{what} has {unwanted!r} and must not"


def _message(
    name: str, number: int, step: Step, results: list[ToolResult], prefix: str, *, offered: Collection[str]
) -> Message:
    calls = tuple(
        ToolCall(f"{prefix}{name}-{number}-{at}", call.name(offered), call.arguments)
        for at, call in enumerate(step.reply.calls, 1)
    )

    def quote(place: str) -> str:
        if place == "result":
            return "\n".join(result.text for result in results)
        at = int(place.partition(":")[2])
        if at > len(results):
            raise MismatchError(
                f"{{{{{place}}}}} is to be quoted, and there are {len(results)} results", name, number
            )
        return results[at - 1].text

    text = PLACEHOLDER.sub(lambda match: quote(match[1]), step.reply.text or "")
    return Message(f"msg_{name}-{number}", text, calls)


def _calls(calls: tuple[ToolCall, ...]) -> str:
    return ", ".join(f"{call.tool} ({call.id})" for call in calls) or "nothing"


def _short(text: str, length: int = 300) -> str:
    encoded = json.dumps(text, ensure_ascii=False)
    return encoded if len(encoded) <= length else f"{encoded[: length // 2]} … {encoded[-length // 2 :]}"
