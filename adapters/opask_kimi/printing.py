"""Kimi Code for one prompt, ``kimi -p … --output-format stream-json``: its launch and its output (seen in 2.1.0).

The MCP servers come from ``mcp.json`` in the session's folder. No permission is asked for, and the native ask tool fails
by itself. A message's calls are printed once the first of them is done, each result as it comes: an ask reaches the
bridge, and is answered, before anything tells of its call. Whether a result is an error is not told, nor what a
sub-agent calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Literal

from attrs import evolve, field, frozen

from opask.correlation import Correlated, Correlation
from opask.errors import LaunchError
from opask.events import (
    AskToolMissing,
    Event,
    MessageUnreadable,
    NativeAskRefused,
    QuestionAsked,
    QuestionCorrelated,
    SessionReady,
    TextSaid,
    ToolAnnounced,
    ToolFinished,
    TurnEnded,
    TurnStarted,
)
from opask.intake import Rejected, parse
from opask.launch import Change, Endpoint, LaunchPlan, LaunchRequest
from opask.names import AskTools, ToolName
from opask.outcomes import Outcome
from opask.permissions import Defer, PermissionRequested, Verdict
from opask.questions import Ask, Question
from opask_acp.client import HostClient
from opask_acp.envelopes import whole_object
from opask_acp.jsonrpc import Fault, Message, decoded, items, mapping, text
from opask_acp.launch import Planning
from opask_kimi.commands import OUTPUT, prints_json
from opask_kimi.homes import NATIVE
from opask_kimi.launch import CALL_ENV, CALL_MS, CHANGES, HOME, LONGEST_MS, START_MS, milliseconds, overlay_at
from opask_kimi.naming import spelling
from opask_kimi.profile import KimiProfile
from opask_kimi.versions import RUNTIME

__all__ = ["PRINT_CHANGES", "ROUTE", "PrintConversation", "plan_print"]

ROUTE: Final = "mcp-stdio-print"
"""The registry's id of the route."""

_RESUMES: Final = ("-S", "--session", "-r", "--resume", "-c", "--continue", "-C")

PRINT_CHANGES: Final[Mapping[str, Change]] = {
    **CHANGES,
    **{
        change.name: change
        for change in (
            Change(
                "ask-server",
                "process",
                "mcp.json in the session's folder has the MCP server with the ask tool beside the user's servers",
            ),
            Change(
                "call-timeout",
                "server",
                "toolTimeoutMs lifts the limit of 60 s on one call of the ask server to about 24 days",
            ),
            Change(
                "startup-timeout", "server", "startupTimeoutMs gives the ask server the usual 30 s to start"
            ),
        )
    },
}
"""The levers of a launch for one prompt, by name."""


# -- launch --------------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class _PrintProfile(KimiProfile):
    transports: tuple[Literal["stdio", "http"], ...] = ("stdio",)
    clause_by: Literal["prompt", "launch"] = "launch"
    names_folder: bool = False
    own_changes: Mapping[str, Change] = field(factory=lambda: PRINT_CHANGES)

    def pull(self, planning: Planning) -> None:
        """Leave it to `plan_print`, which has the ask server's entry."""


def plan_print(request: LaunchRequest, endpoint: Endpoint | None, client: HostClient) -> LaunchPlan:
    """Return the host's launch for one prompt with the ask tool in it, or with nobody there to ask.

    Args:
        request: the host's launch.
        endpoint: where the tool is served; None where nobody is there.
        client: has to have nothing of its own: servers and a session to resume are named otherwise here.

    Raises:
        LaunchError: the host's own launch stands against it.
        WaitTooLongError: the endpoint's wait cannot be had.
    """
    planning = Planning(request, endpoint, _PrintProfile(), client)
    planning.check()
    if not prints_json(request.argv, request.env):
        raise planning.refused(
            f"its output for one prompt can be heard only with {' '.join(OUTPUT)}", OUTPUT[0]
        )
    if client.mcp_servers or client.resume is not None:
        raise planning.refused(
            "for one prompt, other MCP servers are named in mcp.json and a session by --session; leave them out of "
            "the HostClient",
            "client",
        )
    server = None
    if endpoint is not None:
        planning.attach(endpoint)
        planning.without_servers()
        server = (endpoint.server, _entry(planning, endpoint))
    overlay = overlay_at(planning, server)
    if overlay is None and server is not None:
        raise planning.refused(
            "without a folder of the session's own there is no mcp.json for the ask server; do not refuse the change "
            "'session-home', or start Kimi as a server of ACP, `kimi acp`",
            "refuse session-home",
        )
    if overlay is not None:
        planning.overlays.append(overlay)
        planning.env[HOME] = str(overlay.path)
    if any(argument.partition("=")[0] in _RESUMES for argument in request.argv):
        planning.text = None  # a conversation keeps the system prompt that it was begun with
    plan = planning.plan()
    return evolve(plan, route=None if endpoint is None else ROUTE, serves=False)


def _entry(planning: Planning, endpoint: Endpoint) -> Mapping[str, object]:
    """Return the ask server as ``mcp.json`` has it."""
    program, *arguments = endpoint.command
    entry: dict[str, object] = {"command": program, "args": arguments}
    if endpoint.env:
        entry["env"] = dict(endpoint.env)
    limit = milliseconds(planning.env.get(CALL_ENV)) or CALL_MS
    if planning.pulls("call-timeout"):
        entry["toolTimeoutMs"] = limit = LONGEST_MS
    if planning.pulls("startup-timeout"):
        entry["startupTimeoutMs"] = START_MS
    is_unbounded = endpoint.wait is None and limit == LONGEST_MS
    planning.ceiling = None if is_unbounded else timedelta(milliseconds=limit)
    return entry


# -- output --------------------------------------------------------------------------------------------------------


class PrintConversation:
    """One prompt and its answer; keeps the contract of `opask.adapters.DuplexConversation`.

    Args:
        plan: the launch that the process was started by.
    """

    def __init__(self, plan: LaunchPlan) -> None:
        self._plan = plan
        self._endpoint = plan.endpoint if plan.questions else None
        endpoint = self._endpoint
        supplied = () if endpoint is None else (spelling(ToolName(endpoint.server, endpoint.tool)),)
        self._tools = AskTools(supplied=supplied, native=(NATIVE,))
        self._correlation = Correlation()
        self._calls: dict[str, str] = {}  # announced and not over: id -> tool
        self._over: set[str] = set()
        self._outcomes: dict[str, str] = {}  # of asks that settled, by their ids
        self._ask_of: dict[str, str] = {}  # call -> ask
        self._version: str | None = None
        self._in_turn = False
        self._has_ended = False
        self._is_listed = False
        self._is_ready = False
        self._is_prompted = False

    # -- what Kimi says -------------------------------------------------------------------------------------------

    def receive(self, message: Message | str | bytes, /) -> list[Event]:
        """Take in one line of the output."""
        value = decoded(message) if isinstance(message, str | bytes) else message
        if value is None:
            return []
        if isinstance(value, Fault):
            return [MessageUnreadable(reason=value.reason)]
        if not isinstance(value, Mapping):
            return [MessageUnreadable(reason="the line is no JSON object")]
        match value.get("role"):
            case "meta":
                return self._meta(value)
            case "assistant":
                return [*self._started(), *self._said(value)]
            case "tool":
                return [*self._started(), *self._finished(value)]
        return []

    def _started(self) -> list[Event]:
        if self._in_turn:
            return []
        self._in_turn = True
        return [TurnStarted()]

    def _meta(self, message: Message) -> list[Event]:
        kind = message.get("type")
        if kind == "system.version":
            self._version = text(message, "version")
            ready = [] if self._endpoint is not None else self._session_ready(False, self._plan.reason)
            return [*ready, *self._started()]
        if kind == "session.resume_hint" and self._in_turn:
            return [*self._missing(), *self._turn_over("end_turn", is_error=False)]
        return []

    def _said(self, message: Message) -> list[Event]:
        events: list[Event] = []
        if (said := text(message, "content")) is not None:
            events.append(TextSaid(text=said))
        for call in items(message, "tool_calls"):
            if isinstance(call, Mapping) and (call_id := text(call, "id")) is not None:
                events += self._announced(call_id, mapping(call, "function"))
        return events

    def _announced(self, call_id: str, function: Message) -> list[Event]:
        if call_id in self._calls or call_id in self._over:
            return []
        tool = text(function, "name") or ""
        ask = self._tools.kind(tool)
        self._calls[call_id] = tool
        announced = ToolAnnounced(tool=tool, ask=ask, tool_call_id=call_id)
        if ask != "supplied":
            return [announced]
        found = self._correlation.announced(call_id, None, _questions(function.get("arguments")))
        return [announced, *self._correlated(found)]

    def _finished(self, message: Message) -> list[Event]:
        call_id = text(message, "tool_call_id")
        if call_id is None or call_id not in self._calls:
            return []
        tool = self._calls.pop(call_id)
        self._over.add(call_id)
        ask = self._tools.kind(tool)
        result = message.get("content")
        is_error = ask == "native" or (ask == "supplied" and not self._is_well(call_id, result))
        events: list[Event] = [ToolFinished(tool=tool, is_error=is_error, tool_call_id=call_id)]
        if ask == "native":
            events.append(NativeAskRefused(tool=tool, channel="launch", tool_call_id=call_id))
        elif ask == "supplied":
            events += self._correlated(self._correlation.finished(call_id))
        self._correlation.passed()
        return events

    def _correlated(self, found: Correlated | None) -> list[Event]:
        if found is None:
            return []
        self._ask_of[found.call_id] = found.ask_id
        return [QuestionCorrelated(question_id=found.ask_id, tool_call_id=found.call_id)]

    def _is_well(self, call_id: str, result: object) -> bool:
        """Tell whether a call of the ask tool ended without an error, by its ask or else by what it gave."""
        outcome = self._outcomes.get(self._ask_of.get(call_id, ""))
        if outcome is not None:
            return outcome in ("answered", "skipped")
        whole = whole_object(result)
        return whole is not None and "answers" in whole

    # -- the turn and the session ---------------------------------------------------------------------------------

    def _turn_over(self, stop_reason: str, *, is_error: bool) -> list[Event]:
        self._in_turn, self._has_ended = False, True
        self._over |= self._calls.keys()
        self._calls.clear()
        return [
            TurnEnded(stop_reason=stop_reason, is_error=is_error, dropped=self._correlation.drained_all())
        ]

    def end_turn(self, reason: Literal["ended", "interrupted", "exited"], /) -> list[Event]:
        """Take in that the turn is over in a way that Kimi did not say itself."""
        events: list[Event] = []
        if reason == "exited" and self._endpoint is not None:
            events += self._session_ready(False, "Kimi ended before it listed the ask tool")
        if self._in_turn or (reason == "exited" and not self._has_ended):
            events += [*self._started(), *self._turn_over(reason, is_error=reason != "ended")]
        return events

    def tool_listed(self) -> list[Event]:
        """Take in that Kimi has taken the list of the ask tool: its agent can ask."""
        self._is_listed = True
        return [] if self._endpoint is None else self._session_ready(True, None)

    def _session_ready(self, questions: bool, reason: str | None) -> list[Event]:
        if self._is_ready:
            return []
        self._is_ready = True
        return [SessionReady(questions=questions, version=self._version, reason=reason)]

    def _missing(self) -> list[Event]:
        if self._endpoint is None or self._is_listed or self._is_ready:
            return []
        return [AskToolMissing(reason="not_listed")]

    # -- asks -----------------------------------------------------------------------------------------------------

    def ask_arrived(self, ask: Ask, /) -> list[Event]:
        """Take in an ask that reached the bridge."""
        started = self._started()
        found = self._correlation.arrived(ask.id, ask.questions)
        if found is not None:
            self._ask_of[found.call_id] = found.ask_id
        asked = QuestionAsked(
            question_id=ask.id,
            questions=ask.questions,
            asked_at=ask.asked_at,
            deadline=ask.deadline,
            tool_call_id=None if found is None else found.call_id,
        )
        ready = [] if self._endpoint is None else self._session_ready(True, None)
        return [*started, asked, *ready]

    def ask_settled(self, ask: Ask, outcome: Outcome, /) -> list[Event]:
        """Take in that an ask ended; its call may still be to come, and is to find it then."""
        self._outcomes[ask.id] = outcome.kind
        self._correlation.settled(ask.id)
        return []

    # -- what goes out --------------------------------------------------------------------------------------------

    def decide(self, request: PermissionRequested, /) -> Verdict:
        """Have no opinion: Kimi asks for no permission here."""
        return Defer()

    def reply(self, request: PermissionRequested, verdict: Verdict, /) -> Message:
        """Return nothing: there is nobody to hear it."""
        return {}

    def prompt(self, text: str, /) -> Sequence[Message]:
        """Return no message: the prompt is in the argv.

        Raises:
            LaunchError: it is the second.
        """
        if self._is_prompted:
            raise LaunchError(
                f"{RUNTIME}: this process has its one prompt in its arguments; start another, or `kimi acp`",
                runtime=RUNTIME,
                what="prompt",
            )
        self._is_prompted = True
        return []

    def interrupt(self) -> Sequence[Message]:
        """Return no message: only a signal ends the turn."""
        return []

    def outgoing(self) -> Sequence[Message]:
        """Return no message: Kimi reads none."""
        return []

    def sent(self, message: Message | str | bytes, /) -> list[Event]:
        """Take in nothing."""
        return []


def _questions(arguments: Any) -> tuple[Question, ...] | None:
    questions = parse(whole_object(arguments))
    return None if isinstance(questions, Rejected) else questions
