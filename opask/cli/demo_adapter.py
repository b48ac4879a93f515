"""The adapter of the demo's agent; no runtime that anybody uses, and so not registered."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from opask.adapters import Conversation, Message
from opask.correlation import Correlation
from opask.errors import LaunchError
from opask.events import (
    Event,
    MessageUnreadable,
    QuestionAsked,
    QuestionCorrelated,
    SessionReady,
    TextSaid,
    ToolAnnounced,
    ToolFinished,
    TurnEnded,
    TurnStarted,
)
from opask.launch import Endpoint, LaunchPlan, LaunchRequest
from opask.outcomes import Outcome
from opask.permissions import Defer, PermissionRequested, Verdict
from opask.questions import Ask

__all__ = ["DemoAdapter"]

_AGENT: Final = Path(__file__).with_name("demo_agent.py")
_CALL_ID: Final = "opask-demo/call"


class DemoAdapter:
    """The adapter of `opask.cli.demo_agent`.

    Args:
        pace: seconds between the agent's words.
    """

    runtime: str = "demo"
    program: str = sys.executable

    def __init__(self, pace: float = 0.0) -> None:
        self._pace = pace

    def default_argv(self, program: str, prompt: str, arguments: Sequence[str], /) -> Sequence[str]:
        """Return the launch of the agent."""
        return (program, "-I", "-S", str(_AGENT), "--pace", str(self._pace), *arguments, "--", prompt)

    def plan_launch(self, request: LaunchRequest, endpoint: Endpoint | None, /) -> LaunchPlan:
        """Give the agent the ask server, where somebody is there to ask."""
        if endpoint is None:
            return LaunchPlan(argv=request.argv, env=dict(request.env), reason="nobody is there to ask")
        at = request.argv.index("--")
        server = ("--server", json.dumps(endpoint.command))
        return LaunchPlan(
            argv=(*request.argv[:at], *server, *request.argv[at:]),
            env=dict(request.env),
            questions=True,
            wait=endpoint.wait,
            endpoint=endpoint,
        )

    def conversation(self, plan: LaunchPlan, /) -> Conversation:
        """Return the conversation with the agent."""
        return _Conversation(plan)


class _Conversation:
    def __init__(self, plan: LaunchPlan) -> None:
        self._plan = plan
        self._tool = plan.endpoint.tool if plan.endpoint else None
        self._in_turn = False
        self._prompted = False
        self._correlation = Correlation()

    def receive(self, message: Message | str | bytes, /) -> list[Event]:
        if not isinstance(message, Mapping):
            try:
                message = json.loads(message)
            except (ValueError, RecursionError):
                return [MessageUnreadable(reason="no JSON")]
        match message:
            case {"type": "ready", "tools": list(tools)}:
                return [SessionReady(questions=self._tool in tools)]
            case {"type": "turn_started"}:
                self._in_turn = True
                ready = (
                    [] if self._plan.questions else [SessionReady(questions=False, reason=self._plan.reason)]
                )
                return [*ready, TurnStarted()]
            case {"type": "text", "text": str(text)}:
                return [TextSaid(text=text)]
            case {"type": "tool_call", "id": str(call), "tool": str(tool)}:
                return self._announced(tool, call)
            case {"type": "tool_result", "id": str(call), "tool": str(tool), "is_error": bool(is_error)}:
                self._correlation.finished(call)
                return [ToolFinished(tool=tool, is_error=is_error, tool_call_id=call)]
            case {"type": "turn_ended", "reason": str(reason), "is_error": bool(is_error)}:
                return self._turn_ended(reason, is_error=is_error, dropped=self._correlation.drained())
        return [MessageUnreadable(reason="an unknown message")]

    def _announced(self, tool: str, call: str) -> list[Event]:
        if tool != self._tool:
            return [ToolAnnounced(tool=tool, tool_call_id=call)]
        events: list[Event] = [ToolAnnounced(tool=tool, ask="supplied", tool_call_id=call)]
        found = self._correlation.announced(call)
        if found is not None:
            events.append(QuestionCorrelated(question_id=found.ask_id, tool_call_id=call))
        return events

    def _turn_ended(self, reason: str, *, is_error: bool, dropped: tuple[str, ...]) -> list[Event]:
        self._in_turn = False
        return [TurnEnded(stop_reason=reason, is_error=is_error, dropped=dropped)]

    def ask_arrived(self, ask: Ask, /) -> list[Event]:
        told: Any = ask.meta.get(_CALL_ID)
        call = told if isinstance(told, str) else None
        self._correlation.arrived(ask.id, ask.questions, call)
        return [
            QuestionAsked(
                question_id=ask.id,
                questions=ask.questions,
                asked_at=ask.asked_at,
                deadline=ask.deadline,
                tool_call_id=call,
            )
        ]

    def ask_settled(self, ask: Ask, outcome: Outcome, /) -> list[Event]:
        self._correlation.settled(ask.id)
        return []

    def decide(self, request: PermissionRequested, /) -> Verdict:
        return Defer()

    def reply(self, request: PermissionRequested, verdict: Verdict, /) -> Message:
        raise LaunchError("the demo's agent asks for no permission", runtime="demo", what="permission")

    def prompt(self, text: str, /) -> list[Message]:
        if self._prompted:
            raise LaunchError("the demo's agent takes one prompt, in its argv", runtime="demo", what="prompt")
        self._prompted = True
        return []

    def interrupt(self) -> list[Message]:
        return []

    def end_turn(self, reason: Literal["ended", "interrupted", "exited"], /) -> list[Event]:
        dropped = self._correlation.drained_all() if reason == "exited" else self._correlation.drained()
        if not self._in_turn and not dropped:
            return []
        return self._turn_ended(reason, is_error=reason != "ended", dropped=dropped)
