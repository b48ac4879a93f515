"""The conversation with one process of the claude CLI, over its stream-json.

In text mode the prompt is in the argv and the process ends with the turn. With ``--input-format stream-json``
prompts and control requests go in by stdin and the process stays; ``--permission-prompt-tool stdio`` brings the
permission requests out. What follows was seen with 2.1.332:

- A message of the model comes as one ``assistant`` line for each content block, each of its tool results as a
  ``user`` line of its own. ``system/init`` comes again at the start of every turn.
- A sub-agent's lines carry ``agent_id`` and, in ``parent_tool_use_id``, the call that started it. The field of
  that name in ``tool_progress`` is the id of the very call.
- Sub-agents outlive the turn: their asks can come after its ``result``. In text mode the CLI holds the ``result``
  back instead.
- Every MCP call carries the id of its ``tool_use`` in ``_meta``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from attrs import frozen

from opask.correlation import Correlated, Correlation
from opask.errors import LaunchError
from opask.events import (
    AskToolMissing,
    Event,
    GateMissing,
    MessageUnreadable,
    NativeAskRefused,
    PermissionWithdrawn,
    QuestionAsked,
    QuestionCorrelated,
    SessionReady,
    ToolAnnounced,
    ToolFinished,
    TurnEnded,
    TurnStarted,
)
from opask.intake import Rejected, parse
from opask.launch import LaunchPlan
from opask.outcomes import Outcome
from opask.permissions import PermissionRequested, Verdict
from opask.questions import Ask
from opask_claude import messages
from opask_claude.arguments import CommandLine
from opask_claude.floor import TOOLS
from opask_claude.messages import Message, blocks, mapping, text
from opask_claude.permissions import HOOK, Permissions
from opask_claude.readiness import Readiness, read_init
from opask_claude.texts import Texts
from opask_claude.tools import RUNTIME, ask_tools

__all__ = ["ClaudeConversation"]

_CALL_ID: Final = "claudecode/toolUseId"
_GATE: Final = "opask-gate"
_LONGEST_S: Final = 2_000_000  # of the CLI's timer, which has 32 bits of milliseconds
_NO_SERVER: Final = "Not connected"
"""The whole result of a call whose server has died and is not started anew (2.0.76; later ones start it)."""


@frozen
class _Call:
    tool: str
    agent_id: str | None
    ask: Literal["supplied", "native"] | None


class ClaudeConversation:
    """What goes on in one process; keeps the contract of `opask.adapters.Conversation`.

    Args:
        plan: the launch that the process was started by.
    """

    def __init__(self, plan: LaunchPlan) -> None:
        line = CommandLine(plan.argv)
        self._takes_prompts = line.last("--input-format") == "stream-json"
        self._prompt_given = line.prompt is not None
        self._prompted = False
        self._endpoint = plan.endpoint if plan.questions else None
        self._why_not = plan.reason
        self._tools = ask_tools(self._endpoint)
        self._tool = next(iter(self._tools.supplied), None)
        self._permissions = Permissions(self._endpoint)
        self._is_gated = plan.read_only
        self._gate_set = False
        self._ready = False
        self._missing: Readiness | None = None
        self._version: str | None = None
        self._in_turn = False
        self._correlation = Correlation()
        self._running: dict[str, _Call] = {}
        self._agents: dict[str, str] = {}  # the call that started an agent -> the agent's id
        self._refused: set[str] = set()  # native calls whose refusal was told
        self._texts = Texts()
        self._interrupts = 0

    # -- what the runtime says ------------------------------------------------------------------------------------

    def receive(self, message: Message | str | bytes, /) -> list[Event]:
        """Take in one message, or one line of output."""
        if isinstance(message, str | bytes):
            read = messages.decoded(message)
            if not isinstance(read, Mapping):
                return [] if read is None else [MessageUnreadable(reason=read)]
            message = read
        kind = text(message, "type")
        if kind is None:
            return [MessageUnreadable(reason="the message has no type")]
        handler = _HANDLERS.get(kind)
        return [] if handler is None else handler(self, message)

    def _system(self, message: Message) -> list[Event]:
        handler = _SYSTEM_HANDLERS.get(text(message, "subtype") or "")
        return [] if handler is None else handler(self, message)

    def _init(self, message: Message) -> list[Event]:
        self._version = text(message, "claude_code_version") or self._version
        return [*self._readiness(message), *self._turn_started()]

    def _readiness(self, init: Message) -> list[Event]:
        if self._endpoint is None or self._tool is None:
            return self._session_ready(False, self._why_not)
        found = read_init(init, self._endpoint.server, self._tool)
        self._permissions.foreign = found.foreign
        events: list[Event] = []
        if found.missing is not None and found != self._missing:
            events.append(AskToolMissing(reason=found.missing, server_status=found.status))
        self._missing = found
        if found.missing == "pending":
            return events  # it may still come
        return [*self._session_ready(found.missing is None, found.reason), *events]

    def _session_ready(self, questions: bool, reason: str | None) -> list[Event]:
        if self._ready:
            return []
        self._ready = True
        return [SessionReady(questions=questions, version=self._version, reason=reason)]

    def _turn_started(self) -> list[Event]:
        if self._in_turn:
            return []
        self._in_turn = True
        return [TurnStarted()]

    def _assistant(self, message: Message) -> list[Event]:
        agent_id = self._agent(message)
        events = self._turn_started() if agent_id is None else []
        for block in blocks(message):
            kind = block.get("type")
            if kind == "text":
                events += self._texts.whole(agent_id, text(block, "text") or "")
            elif kind == "tool_use":
                events += self._announced(agent_id, block)
        return events

    def _agent(self, message: Message) -> str | None:
        """Return the sub-agent that a line is of, None for the main agent."""
        agent_id, starter = text(message, "agent_id"), text(message, "parent_tool_use_id")
        if starter is None:
            return agent_id
        if agent_id is not None:
            self._agents[starter] = agent_id
        return self._agents.get(starter, starter)

    def _announced(self, agent_id: str | None, block: Message) -> list[Event]:
        tool, call_id = text(block, "name"), text(block, "id")
        if tool is None or call_id in self._running:
            return []
        ask = self._tools.kind(tool)
        events: list[Event] = [ToolAnnounced(tool=tool, ask=ask, tool_call_id=call_id, agent_id=agent_id)]
        if call_id is None:
            return events
        self._running[call_id] = _Call(tool, agent_id, ask)
        if ask == "supplied":
            questions = parse(block.get("input"))
            told = None if isinstance(questions, Rejected) else questions
            events += _correlated(self._correlation.announced(call_id, agent_id, told))
        return events

    def _user(self, message: Message) -> list[Event]:
        self._agent(message)
        events: list[Event] = []
        for block in blocks(message):
            if block.get("type") == "tool_result":
                events += self._finished(text(block, "tool_use_id") or "", block)
        return events

    def _finished(self, call_id: str, block: Message) -> list[Event]:
        call = self._running.pop(call_id, None)
        if call is None:
            return []
        is_error = block.get("is_error") is True
        passed = self._is_gated and not is_error and call_id not in self._permissions.gated
        where: dict[str, Any] = {"tool_call_id": call_id, "agent_id": call.agent_id}
        events: list[Event] = [ToolFinished(tool=call.tool, is_error=is_error, **where)]
        if call.ask == "supplied":
            events += _correlated(self._correlation.finished(call_id))
            if is_error and block.get("content") == _NO_SERVER:
                events.append(AskToolMissing(reason="failed", server_status=_NO_SERVER, **where))
        elif call.ask == "native" and is_error:
            events += self._native_refused(call.tool, "launch", call_id, call.agent_id)
        self._correlation.passed()
        if passed and call.tool not in TOOLS.reads:
            events.append(GateMissing(reason=f"{call.tool} ran without being put to the gate", **where))
        return events

    def _native_refused(
        self, tool: str, channel: Literal["launch", "permission"], call_id: str | None, agent_id: str | None
    ) -> list[Event]:
        if call_id is not None:
            if call_id in self._refused:
                return []
            self._refused.add(call_id)
        return [NativeAskRefused(tool=tool, channel=channel, tool_call_id=call_id, agent_id=agent_id)]

    def _permission_denied(self, message: Message) -> list[Event]:
        """Take in that the CLI denied a call by itself."""
        tool, call_id = text(message, "tool_name") or "", text(message, "tool_use_id")
        call = self._running.get(call_id or "")
        agent_id = None if call is None else call.agent_id
        kind = self._tools.kind(tool)
        if kind == "native":
            return self._native_refused(tool, "permission", call_id, agent_id)
        if kind == "supplied":
            return [AskToolMissing(reason="denied", tool_call_id=call_id, agent_id=agent_id)]
        return []

    def _task_started(self, message: Message) -> list[Event]:
        starter, agent_id = text(message, "tool_use_id"), text(message, "task_id")
        if starter is not None and agent_id is not None:
            self._agents[starter] = agent_id
        return []

    def _task_ended(self, message: Message) -> list[Event]:
        agent_id = text(message, "task_id")
        if agent_id is not None:
            self._drain(agent_id)  # the CLI itself cancels what the agent still waited for
        return []

    def _drain(self, agent_id: str | None) -> tuple[str, ...]:
        self._running = {key: call for key, call in self._running.items() if call.agent_id != agent_id}
        self._texts.ended(agent_id)
        return self._correlation.drained(agent_id)

    def _result(self, message: Message) -> list[Event]:
        events = self._turn_started()  # one that began while another was still open
        events += self._pending_is_missing("the ask server had not listed its tool when the first turn ended")
        self._in_turn = False
        ended = TurnEnded(
            stop_reason=_stop_reason(message),
            is_error=message.get("is_error") is True,
            dropped=self._drain(None),
        )
        return [*events, ended]

    def _pending_is_missing(self, reason: str) -> list[Event]:
        return [] if self._missing is None else self._session_ready(False, self._missing.reason or reason)

    def _stream_event(self, message: Message) -> list[Event]:
        agent_id = self._agent(message)
        said = self._texts.piece(agent_id, mapping(message, "event"))
        return [*self._turn_started(), *said] if said and agent_id is None else [*said]

    # -- permissions ----------------------------------------------------------------------------------------------

    def _control_request(self, message: Message) -> list[Event]:
        request = mapping(message, "request")
        agent_id = self._agent(request)
        call = self._running.get(text(mapping(request, "input"), "tool_use_id") or "")
        if call is not None and agent_id is None:
            agent_id = call.agent_id
        found = self._permissions.requested(message, agent_id)
        if (
            isinstance(found, PermissionRequested)
            and found.ask == "native"
            and found.tool_call_id is not None
        ):
            self._refused.add(found.tool_call_id)  # the session tells of this one when it decides
        return [] if found is None else [found]

    def _control_cancelled(self, message: Message) -> list[Event]:
        request_id = text(message, "request_id")
        return [] if request_id is None else [PermissionWithdrawn(request_id=request_id)]

    def _control_response(self, message: Message) -> list[Event]:
        response = mapping(message, "response")
        if text(response, "request_id") != _GATE or text(response, "subtype") == "success":
            return []
        return [GateMissing(reason=text(response, "error") or "the CLI did not take the hook")]

    def decide(self, request: PermissionRequested, /) -> Verdict:
        """Deny the native ask tool, allow exactly the supplied one, defer the rest."""
        return self._permissions.decide(request)

    def reply(self, request: PermissionRequested, verdict: Verdict, /) -> Message:
        """Return the verdict as a ``control_response``; `Defer` denies, and the native ask tool is always denied.

        An elicitation of some MCP server is cancelled and a control request that is not known refused, whatever
        the verdict.
        """
        return self._permissions.reply(request, verdict)

    # -- asks -----------------------------------------------------------------------------------------------------

    def ask_arrived(self, ask: Ask, /) -> list[Event]:
        """Take in an ask that reached the bridge."""
        told = ask.meta.get(_CALL_ID)
        call_id = told if isinstance(told, str) and told else None
        if call_id in self._running and self._running[call_id].ask != "supplied":
            call_id = None
        found = self._correlation.arrived(ask.id, ask.questions, call_id)
        siblings = 0
        if found is not None:
            call_id = found.call_id
            siblings = sum(
                call.agent_id == found.agent_id and key != call_id for key, call in self._running.items()
            )
        asked = QuestionAsked(
            question_id=ask.id,
            questions=ask.questions,
            asked_at=ask.asked_at,
            deadline=ask.deadline,
            tool_call_id=call_id,
            agent_id=None if found is None else found.agent_id,
            siblings_running=siblings,
        )
        proven = [] if self._tool is None else self._session_ready(True, None)
        return [asked, *proven]

    def ask_settled(self, ask: Ask, outcome: Outcome, /) -> list[Event]:
        """Take in that an ask ended."""
        self._correlation.settled(ask.id)
        return []

    # -- what the host does ---------------------------------------------------------------------------------------

    def prompt(self, text: str, /) -> Sequence[Message]:
        """Return the messages that give the agent its next prompt; none where it is in the argv.

        Raises:
            LaunchError: in text mode, for a second prompt, and for a first one that goes on stdin as it is.
        """
        if self._takes_prompts:
            return [*self._gate(), messages.user_message(text)]
        if self._prompted or not self._prompt_given:
            given = "was given in the argv" if self._prompt_given else "goes on stdin as plain text"
            raise LaunchError(
                f"{RUNTIME}: this process takes one prompt, which {given}; launch with --input-format stream-json "
                "--output-format stream-json --verbose to prompt it in messages",
                runtime=RUNTIME,
                what="--input-format",
            )
        self._prompted = True
        return []

    def _gate(self) -> list[Message]:
        """Return what sets the gate, once, before the first prompt of a launch with a read-only floor."""
        if not self._is_gated or self._gate_set:
            return []
        self._gate_set = True
        return [messages.initialize(_GATE, HOOK, _LONGEST_S)]

    def interrupt(self) -> Sequence[Message]:
        """Return the message that ends the running turn; none in text mode, where a SIGINT ends the process."""
        if not self._takes_prompts:
            return []
        self._interrupts += 1
        return [messages.interrupt(f"opask-interrupt-{self._interrupts}")]

    def end_turn(self, reason: Literal["ended", "interrupted", "exited"], /) -> list[Event]:
        """Take in that the turn is over in a way that the CLI did not say itself; an exit ends the sub-agents too."""
        exited = reason == "exited"
        events: list[Event] = []
        if exited:
            why = "the CLI ended before it listed its tools" if self._endpoint is not None else self._why_not
            events += self._pending_is_missing(why or "") or self._session_ready(False, why)
        dropped = self._drain(None)
        if exited:
            dropped += self._correlation.drained_all()
            self._running.clear()
        if self._in_turn or dropped:
            self._in_turn = False
            events.append(TurnEnded(stop_reason=reason, is_error=reason != "ended", dropped=dropped))
        return events


def _stop_reason(result: Message) -> str:
    """Return the most telling of the CLI's words for why a turn ended."""
    subtype = text(result, "subtype")
    if subtype is not None and subtype != "success":
        return subtype
    words = [text(result, "stop_reason"), text(result, "terminal_reason")]
    if result.get("is_error") is True:
        words.reverse()  # a failed request of the API says so only there
    return next((word for word in words if word is not None), "success")


def _correlated(found: Correlated | None) -> list[Event]:
    if found is None:
        return []
    return [QuestionCorrelated(question_id=found.ask_id, tool_call_id=found.call_id, agent_id=found.agent_id)]


_Handler = Callable[[ClaudeConversation, Message], list[Event]]

_HANDLERS: Final[Mapping[str, _Handler]] = {
    "system": ClaudeConversation._system,
    "assistant": ClaudeConversation._assistant,
    "user": ClaudeConversation._user,
    "stream_event": ClaudeConversation._stream_event,
    "result": ClaudeConversation._result,
    "control_request": ClaudeConversation._control_request,
    "control_response": ClaudeConversation._control_response,
    "control_cancel_request": ClaudeConversation._control_cancelled,
}
_SYSTEM_HANDLERS: Final[Mapping[str, _Handler]] = {
    "init": ClaudeConversation._init,
    "permission_denied": ClaudeConversation._permission_denied,
    "task_started": ClaudeConversation._task_started,
    "task_notification": ClaudeConversation._task_ended,
}
