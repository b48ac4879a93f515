"""The conversation with one ACP session: the handshake, the turns, and what the agent asks of its client.

Version 1 of the protocol, and what is published of version 2, where the answer to a prompt no longer ends the turn
and updates are upserts. Unknown updates and notifications are passed over; unknown requests are answered, so that
the agent does not wait for ever.

One prompt at a time: while a turn runs, and so while a question waits, another is refused here, since some agents
would cancel the running turn for it and others fail. To say something else meanwhile, interrupt first; the prompt is
kept until the turn is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from opask.errors import LaunchError
from opask.events import (
    Event,
    MessageUnreadable,
    NativeAskRefused,
    QuestionAsked,
    TurnEnded,
    TurnStarted,
)
from opask.launch import LaunchPlan
from opask.outcomes import Outcome
from opask.permissions import PermissionRequested, Verdict
from opask.questions import Ask
from opask_acp import jsonrpc
from opask_acp.calls import Calls
from opask_acp.client import HostClient
from opask_acp.connection import OPENS, PROMPT, Connection
from opask_acp.jsonrpc import Fault, Message, Notification, Request, Response, mapping, text
from opask_acp.messages import prompt_blocks, prompt_text
from opask_acp.naming import ask_tools
from opask_acp.permissions import ELICITATION, PERMISSION, Permissions, tool_call_of
from opask_acp.profile import Profile
from opask_acp.readiness import Readiness
from opask_acp.states import State, Step
from opask_acp.texts import Texts

__all__ = ["AcpConversation"]

_FAILED_STOPS: Final = frozenset({"max_tokens", "max_turn_requests", "refusal"})
_UNSENT_MAX: Final = 1000


class AcpConversation:
    """What goes on in one session; keeps the contract of `opask.adapters.DuplexConversation`.

    Args:
        plan: the launch that the agent was started by.
        profile: how the agent speaks the protocol.
        client: what the host brings to the connection.
    """

    def __init__(self, plan: LaunchPlan, profile: Profile, client: HostClient) -> None:
        self._profile = profile
        self._client = client
        self._endpoint = plan.endpoint if plan.questions else None
        self._connection = Connection(plan, profile, client)
        self._calls = Calls(profile, ask_tools(profile, self._endpoint, client.servers))
        self._permissions = Permissions(profile, self._calls, self._endpoint)
        self._texts = Texts(profile.agent)
        self._answers: deque[Message] = deque(maxlen=_UNSENT_MAX)
        self._held: str | None = None  # a prompt that cannot be sent yet
        self._is_dropped = False  # such a prompt was dropped, and its turn has to be told
        self._is_started = False  # the running turn was told to have started
        self._is_accepted = False  # version 2: the running turn's prompt was taken
        self._command: str | None = None  # the running turn's prompt, where it is none for the model
        self._clause = plan.clause if profile.clause_by == "prompt" else None
        self._readiness = Readiness(plan, profile)

    # -- what the agent says --------------------------------------------------------------------------------------

    def receive(self, message: Message | str | bytes, /) -> list[Event]:
        """Take in one message, or one line of output; in version 2 a line may hold several."""
        value = jsonrpc.decoded(message) if isinstance(message, str | bytes) else message
        if value is None:
            return []
        events = self._flushed()
        for each in value if isinstance(value, list) and value else [value]:
            events += self._received(each)
        return events

    def _received(self, value: object) -> list[Event]:
        match value if isinstance(value, Fault) else jsonrpc.read(value):
            case Request() as request:
                return self._requested(request)
            case Notification(method="session/update", params=params):
                return self._updated(params)
            case Response() as response:
                return self._answered(response)
            case Fault(reason=reason, wants_answer=wants_answer):
                if wants_answer:
                    self._answer(jsonrpc.error(None, jsonrpc.INVALID_REQUEST, reason))
                return [MessageUnreadable(reason=reason)]
        return []

    def _updated(self, params: Message) -> list[Event]:
        update = mapping(params, "update")
        handler = _UPDATES.get(text(update, "sessionUpdate") or "")
        # What comes while a session is being opened is its past.
        if handler is None or self._connection.is_foreign(params) or self._connection.state is State.OPENING:
            return []
        return handler(self, update)

    def _piece(self, update: Message) -> list[Event]:
        return [*self._active(), *self._texts.piece(update)]

    def _message(self, update: Message) -> list[Event]:
        return [*self._active(), *self._texts.whole(update)]

    def _other_work(self, update: Message) -> list[Event]:
        return self._active()

    def _tool_call(self, update: Message) -> list[Event]:
        return [*self._active(), *self._calls.reported(update)]

    def _tool_call_piece(self, update: Message) -> list[Event]:
        return [*self._active(), *self._calls.grew(update)]

    def _state_update(self, update: Message) -> list[Event]:
        """Take in version 2's word for whether a turn runs."""
        state = text(update, "state")
        if state == "running":
            self._is_accepted = True
            return self._turn_started()
        if state == "idle" and self._connection.in_turn and self._is_accepted:
            self._connection.forget_prompts()
            return self._turn_over(text(update, "stopReason") or "end_turn")
        return []

    # -- turns ----------------------------------------------------------------------------------------------------

    def _active(self) -> list[Event]:
        """Take in that the agent works; where nobody tells of prompts, that is how a turn is known to run."""
        return [] if self._connection.is_prompted else self._turn_started()

    def _turn_started(self) -> list[Event]:
        self._connection.steps(Step.PROMPT)
        return self._flushed()

    def _flushed(self) -> list[Event]:
        """Return what has to be told of turns that began, or never will, by what the host did."""
        events: list[Event] = []
        if self._connection.in_turn and not self._is_started:
            self._is_started = True
            events.append(TurnStarted())
        if self._is_dropped and not self._connection.in_turn:
            self._is_dropped = False
            events += [TurnStarted(), TurnEnded(stop_reason="cancelled")]
        return events

    def _turn_over(self, stop_reason: str, *, is_error: bool | None = None) -> list[Event]:
        connection = self._connection
        if is_error is None:
            cancelled_itself = stop_reason == "cancelled" and connection.state is not State.CANCELLING
            is_error = cancelled_itself or stop_reason in _FAILED_STOPS
        events = self._told_of_tool()
        events.append(TurnEnded(stop_reason=stop_reason, is_error=is_error, dropped=self._calls.drained()))
        self._is_started = self._is_accepted = False
        connection.steps(Step.TURN_OVER)
        if connection.is_prompting:  # a client of the host's did not wait
            connection.steps(Step.PROMPT)
        return [*events, *self._flushed()]

    def end_turn(self, reason: Literal["ended", "interrupted", "exited"], /) -> list[Event]:
        """Take in that the turn is over in a way that the agent did not say itself; an exit ends everything."""
        events = self._flushed()
        if reason == "exited":
            return [*events, *self._exited()]
        if self._connection.in_turn:
            self._connection.forget_prompts()
            events += self._turn_over(reason, is_error=reason != "ended")
        return events

    def _exited(self) -> list[Event]:
        connection = self._connection
        events: list[Event] = []
        if connection.state is not State.EXITED:
            events += self._readiness.impossible(
                connection.failure or "the agent ended before it listed the ask tool"
            )
        dropped = self._calls.drained_all()
        if connection.in_turn or dropped:
            events.append(TurnEnded(stop_reason="exited", is_error=True, dropped=dropped))
        if self._held is not None:
            self._held, gone = None, self._profile.gone
            is_early = bool(gone) and not connection.in_turn
            why = f"it ended before it gave a session; {gone}" if is_early else "exited"
            events += [TurnStarted(), TurnEnded(stop_reason=why, is_error=True)]
        connection.ended()
        return events

    # -- whether the agent can ask --------------------------------------------------------------------------------

    def tool_listed(self) -> list[Event]:
        """Take in that the agent itself has taken the list of the ask tool: it can ask."""
        return self._readiness.listed()

    def _told_of_tool(self) -> list[Event]:
        """Tell what a turn that is over says of the tool; of a command's turn only the runtime's own words count."""
        command, self._command = self._command, None
        if command is None or self._endpoint is None:
            return self._readiness.turn_over()
        said = self._profile.missing(command, self._texts.answer, self._endpoint.server)
        return self._readiness.command_over(said)

    # -- answers to the client's requests -------------------------------------------------------------------------

    def _answered(self, response: Response) -> list[Event]:
        connection = self._connection
        method = connection.answered(response.id)
        if method is None:
            return []
        if response.error is not None:
            why = connection.refused(method, response.error)
            return self._turn_over(why, is_error=True) if method == PROMPT else self._failed(why)
        if method == "initialize":
            return self._initialized(response.result)
        if method == PROMPT:
            return self._prompt_answered(response.result)
        if method in OPENS:
            reason = connection.opened(response.result)
            return [] if reason is None else self._failed(reason)
        connection.steps(Step.AUTHENTICATED)
        return []

    def _failed(self, reason: str) -> list[Event]:
        self._connection.failed(reason)
        events = self._readiness.impossible(reason)
        if self._held is not None:
            self._held = None
            events += [TurnStarted(), TurnEnded(stop_reason=reason, is_error=True)]
        return events

    def _initialized(self, answer: Message) -> list[Event]:
        reason = self._connection.initialized(answer)
        self._readiness.version = self._profile.version(answer)
        if reason is not None:
            return self._failed(reason)
        if self._connection.entries() is None and not self._client.talks:
            return self._readiness.unreachable(
                "the agent reaches no MCP server in a way that the bridge offers"
            )
        return self._readiness.unattached()

    def _prompt_answered(self, answer: Message) -> list[Event]:
        stop_reason = text(answer, "stopReason")
        if stop_reason is None and self._connection.agent.protocol >= 2:
            self._is_accepted = True
            return []
        return self._turn_over(stop_reason or "end_turn")

    # -- the agent's requests -------------------------------------------------------------------------------------

    def _requested(self, request: Request) -> list[Event]:
        is_asking = request.method in (PERMISSION, ELICITATION)
        if is_asking and self._connection.is_foreign(request.params):
            if self._client.talks:
                return []
            return self._answer(
                jsonrpc.error(request.id, jsonrpc.INVALID_PARAMS, "There is no such session.")
            )
        if request.method == PERMISSION:
            return [*self._active(), *self._permission(request)]
        if request.method == ELICITATION and self._permissions.is_native_form(request.params):
            return [*self._active(), *self._native_form(request)]
        if request.method in self._client.methods or (self._client.talks and not is_asking):
            return []  # the host answers it
        if request.method == ELICITATION:
            return [*self._active(), self._permissions.form(request)]
        return self._answer(
            jsonrpc.error(request.id, jsonrpc.METHOD_NOT_FOUND, f"Unknown method: {request.method}")
        )

    def _permission(self, request: Request) -> list[Event]:
        events = self._calls.asked_for(tool_call_of(request.params))
        asked = self._permissions.requested(request)
        if asked.ask == "native":
            # The session tells of the refusal when it decides.
            events += self._calls.refusing(asked.tool_call_id)
        return [*events, asked]

    def _native_form(self, request: Request) -> list[Event]:
        call_id = text(request.params, "toolCallId")
        self._answer(jsonrpc.result(request.id, {"action": "decline"}))
        refused = NativeAskRefused(
            tool=self._calls.name_of(call_id) or min(self._profile.native, default=""),
            channel="elicitation",
            tool_call_id=call_id,
            agent_id=self._calls.agent_of(call_id),
        )
        return [*self._calls.refusing(call_id), refused]

    def _answer(self, message: Message) -> list[Event]:
        self._answers.append(message)
        return []

    def decide(self, request: PermissionRequested, /) -> Verdict:
        """Deny the native ask tool, allow exactly the supplied one, defer the rest."""
        return self._permissions.decide(request)

    def reply(self, request: PermissionRequested, verdict: Verdict, /) -> Message:
        """Return the verdict as the answer to its request: one of the runtime's own options, by its kind, or none.

        `Defer` rejects, and the native ask tool is always rejected. Once the turn was interrupted no option is taken,
        as the protocol wants it. A form of an MCP server is left unfilled, whatever the verdict.
        """
        cancelled = self._connection.state is State.CANCELLING
        return self._permissions.reply(request, verdict, cancelled=cancelled)

    # -- asks -----------------------------------------------------------------------------------------------------

    def ask_arrived(self, ask: Ask, /) -> list[Event]:
        """Take in an ask that reached the bridge."""
        events = [*self._flushed(), *self._active()]
        place = self._calls.asked(ask)
        asked = QuestionAsked(
            question_id=ask.id,
            questions=ask.questions,
            asked_at=ask.asked_at,
            deadline=ask.deadline,
            tool_call_id=place.call_id,
            agent_id=place.agent_id,
            siblings_running=place.siblings,
        )
        return [*events, asked, *self._readiness.proven()]

    def ask_settled(self, ask: Ask, outcome: Outcome, /) -> list[Event]:
        """Take in that an ask ended."""
        self._calls.settled(ask)
        return []

    # -- what goes out --------------------------------------------------------------------------------------------

    def prompt(self, text: str, /) -> Sequence[Message]:
        """Return the messages that give the agent its next prompt; it is kept while there is no session yet.

        A clause that the agent has to be told stands in a block of its own behind the first prompt that is for the
        model.

        Raises:
            LaunchError: a turn runs, a prompt is kept already, there is no session, or the host has a client of its
                own.
        """
        state = self._connection.state
        if self._client.talks:
            raise self._no_prompt("the host's own client prompts this agent", "talks")
        if state is State.EXITED:
            raise self._no_prompt("the agent has ended", "prompt")
        if state is State.FAILED:
            raise self._no_prompt(self._connection.failure or "the agent gave no session", "session")
        if state is State.BUSY:
            raise self._no_prompt(
                "a turn runs, and a question may wait in it: wait until it is over, or interrupt it", "prompt"
            )
        if self._held is not None:
            raise self._no_prompt("a prompt waits to be sent already: wait until its turn is over", "prompt")
        self._held = text
        return self.outgoing()

    def _no_prompt(self, message: str, what: str) -> LaunchError:
        runtime = self._profile.runtime
        return LaunchError(f"{runtime}: {message}", runtime=runtime, what=what)

    def interrupt(self) -> Sequence[Message]:
        """Return the message that ends the running turn, none where none runs; a prompt that is kept is dropped."""
        connection = self._connection
        if self._held is not None:
            self._held, self._is_dropped = None, True
        if not connection.in_turn or connection.session_id is None:
            return []
        connection.steps(Step.CANCEL)
        return [jsonrpc.notification("session/cancel", {"sessionId": connection.session_id})]

    def outgoing(self) -> Sequence[Message]:
        """Return the messages that are due, each once."""
        messages = list(self._answers)
        self._answers.clear()
        if not self._client.talks and (request := self._next_request()) is not None:
            messages.append(request)
        return messages

    def _next_request(self) -> Message | None:
        connection = self._connection
        if connection.state is not State.IDLE or self._held is None:
            return connection.handshake()
        said, self._held = self._held, None
        self._prompted(said)
        clause = None if self._command is not None else self._clause
        self._clause = self._clause if clause is None else None
        blocks = prompt_blocks(said, clause)
        return connection.request(PROMPT, {"sessionId": connection.session_id, "prompt": blocks})

    def _prompted(self, said: str | None) -> None:
        self._command = said if said is not None and self._profile.is_command(said) else None
        self._texts.prompted(keeps=self._command is not None)

    def sent(self, message: Message | str | bytes, /) -> list[Event]:
        """Take in a message that was sent and did not come from here."""
        value = jsonrpc.decoded(message) if isinstance(message, str | bytes) else message
        events = self._flushed()
        for each in value if isinstance(value, list) else [value]:
            match jsonrpc.read(each):
                case Request(id=id_, method=method, params=params):
                    connection = self._connection
                    if method == PROMPT and not connection.in_turn and not connection.is_foreign(params):
                        self._prompted(prompt_text(params))
                    connection.follow(id_, method, params)
                case Notification(method="session/cancel", params=params):
                    if not self._connection.is_foreign(params):
                        self._connection.steps(Step.CANCEL)
        return [*events, *self._flushed()]


_Handler = Callable[[AcpConversation, Message], list[Event]]

_UPDATES: Final[Mapping[str, _Handler]] = {
    "agent_message_chunk": AcpConversation._piece,
    "agent_message": AcpConversation._message,
    "agent_thought_chunk": AcpConversation._other_work,
    "agent_thought": AcpConversation._other_work,
    "plan": AcpConversation._other_work,
    "plan_update": AcpConversation._other_work,
    "tool_call": AcpConversation._tool_call,
    "tool_call_update": AcpConversation._tool_call,
    "tool_call_content_chunk": AcpConversation._tool_call_piece,
    "state_update": AcpConversation._state_update,
}
