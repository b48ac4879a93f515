"""What an ACP agent sends and is sent, in samples, and the cases in which the adapter is held to its contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from opask.adapters import Message
from opask.events import Event
from opask.intake import Rejected, parse
from opask.launch import Endpoint, LaunchPlan, LaunchRequest
from opask.questions import Ask
from opask.testing.conformance import AdapterCase
from opask_acp import AcpAdapter
from opask_acp import adapter as acp
from opask_acp.conversation import AcpConversation

SESSION = "sess-1"
ASK = "mcp__opask__ask_user_question"
NATIVE = ("AskUserQuestion", "ask", "ask_user", "question", "request_user_input", "request_user_input_async")
PROMPT_ID = 7
OPTIONS = (
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "ever", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    {"optionId": "never", "name": "Always reject", "kind": "reject_always"},
)


def update(sort: str, /, *, session: str = SESSION, **more: Any) -> Message:
    """Give a ``session/update``."""
    params = {"sessionId": session, "update": {"sessionUpdate": sort, **more}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def request(id_: Any, method: str, **params: Any) -> Message:
    """Give a request, of either side."""
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def answer(id_: Any, **result: Any) -> Message:
    """Give an answer, of either side."""
    return {"jsonrpc": "2.0", "id": id_, "result": result}


def refusal(id_: Any, code: int, message: str) -> Message:
    """Give an error in answer to a request."""
    return {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": message}}


def said(text: str, **more: Any) -> Message:
    """Give a piece of what the agent says."""
    return update("agent_message_chunk", content={"type": "text", "text": text}, **more)


def content(text: str) -> list[Message]:
    """Give a tool call's content of one text."""
    return [{"type": "content", "content": {"type": "text", "text": text}}]


def permission(
    id_: Any,
    call: Mapping[str, Any],
    options: Sequence[Mapping[str, Any]] = OPTIONS,
    *,
    session: str = SESSION,
) -> Message:
    """Give a permission request."""
    return request(
        id_, "session/request_permission", sessionId=session, toolCall=dict(call), options=list(options)
    )


def is_denied(reply: Message) -> bool:
    """Tell whether the answer to a permission request lets nothing run."""
    outcome = reply["result"]["outcome"]
    return bool(outcome["outcome"] == "cancelled" or outcome["optionId"] in ("no", "never"))


def prompted() -> Message:
    """Give a prompt, as a host's own client sends it."""
    return request(
        PROMPT_ID, "session/prompt", sessionId=SESSION, prompt=[{"type": "text", "text": "Do the thing."}]
    )


def case(name: str, *argv: str, **more: Any) -> AdapterCase:
    """Give a case of an agent that says its tools' names in the protocol's own field."""

    def announce(call_id: str, tool: str, arguments: Mapping[str, Any]) -> list[Message]:
        call: Message = {"toolCallId": call_id, "name": tool, "title": "Asking", "status": "pending"}
        return [
            update("tool_call", **call),
            update("tool_call_update", toolCallId=call_id, rawInput=arguments),
        ]

    def finish(call_id: str, tool: str, failed: bool) -> list[Message]:
        return [
            update(
                "tool_call_update",
                toolCallId=call_id,
                status="failed" if failed else "completed",
                content=content("…"),
            )
        ]

    def ask_permission(request_id: str, tool: str, call_id: str, arguments: Mapping[str, Any]) -> Message:
        return permission(
            request_id, {"toolCallId": call_id, "name": tool, "title": "Asking", "rawInput": arguments}
        )

    given: dict[str, Any] = {
        "argv": argv,
        "env": {"PATH": "/usr/bin", "HOME": "/home/agent"},
        "supplied": ASK,
        "native": NATIVE,
        "sent": [prompted()],
        "begin_turn": [update("agent_thought_chunk", content={"type": "text", "text": "Hm."})],
        "end_turn": [answer(PROMPT_ID, stopReason="end_turn")],
        "announce": announce,
        "finish": finish,
        "native_denied": lambda plan: True,  # nothing at launch does; the permission channel has to
        "permission": ask_permission,
        "denies": is_denied,
    }
    return AdapterCase(name=name, **(given | more))


def titled(name: str, *argv: str, **more: Any) -> AdapterCase:
    """Give a case of an agent whose own titles are its tools' names, and that asks for no permission."""

    def announce(call_id: str, tool: str, arguments: Mapping[str, Any]) -> list[Message]:
        call: Message = {"toolCallId": call_id, "title": tool, "kind": "other", "rawInput": {}}
        return [
            update("tool_call", **call),
            update("tool_call_update", toolCallId=call_id, status="in_progress", rawInput=arguments),
        ]

    return case(name, *argv, **({"announce": announce, "permission": None} | more))


def told_by_itself(name: str, *argv: str, **more: Any) -> AdapterCase:
    """Give a case in the shapes of version 2, in which nobody tells of prompts: updates alone, upserts all."""

    def announce(call_id: str, tool: str, arguments: Mapping[str, Any]) -> list[Message]:
        return [
            update("tool_call_update", toolCallId=call_id, name=tool, title="Asking", rawInput=arguments),
        ]

    def ask_permission(request_id: str, tool: str, call_id: str, arguments: Mapping[str, Any]) -> Message:
        subject = {"type": "tool_call", "toolCall": {"toolCallId": call_id, "name": tool}}
        return request(
            request_id,
            "session/request_permission",
            sessionId=SESSION,
            title="May it ask?",
            subject=subject,
            options=list(OPTIONS),
        )

    return case(
        name,
        *argv,
        sent=(),
        begin_turn=[update("state_update", state="running")],
        end_turn=[update("state_update", state="idle", stopReason="end_turn")],
        announce=announce,
        permission=ask_permission,
        **more,
    )


# Of all the ways in which an agent may spell it, the one that a slip in another would make.
ALIASES: Final = ("mcp__opask_ask_user_question",)
CASES = (
    case("named", "agent", "acp", aliases=ALIASES),
    titled("titled", "agent", "--acp", "--model", "x", aliases=ALIASES),
    told_by_itself("version-2", "npx", "agent", "acp", aliases=ALIASES),
)


# -- conversations ---------------------------------------------------------------------------------------------------

ENDPOINT = Endpoint(
    command=("/opt/python", "-I", "-S", "/opt/relay.py", "/run/opask/a1b2c3.sock"),
    folder=Path("/run/opask/session"),
    wait=timedelta(minutes=5),
    env={"X": "1"},
)
INITIALIZED: Mapping[str, Any] = {
    "protocolVersion": 1,
    "agentCapabilities": {
        "loadSession": True,
        "mcpCapabilities": {"http": True, "sse": False},
        "sessionCapabilities": {"resume": {}},
    },
    "agentInfo": {"name": "made-up", "version": "4.5.6"},
}
ASKED: Mapping[str, Any] = {"questions": [{"question": "Which?", "options": ["a", "b"]}]}


def planned(adapter: AcpAdapter = acp, endpoint: Endpoint | None = ENDPOINT, **changes: Any) -> LaunchPlan:
    """Give a plan."""
    request_: dict[str, Any] = {
        "argv": ("agent", "acp"),
        "env": {"PATH": "/bin"},
        "cwd": Path("/srv/project"),
    }
    return adapter.plan_launch(LaunchRequest(**(request_ | changes)), endpoint)


def begun(adapter: AcpAdapter = acp, endpoint: Endpoint | None = ENDPOINT, **changes: Any) -> AcpConversation:
    """Give a conversation in which nothing was said."""
    return adapter.conversation(planned(adapter, endpoint, **changes))


def hear(conversation: AcpConversation, *messages: Message) -> list[Event]:
    """Let a conversation hear messages; give all that it makes of them."""
    return [event for message in messages for event in conversation.receive(message)]


def due(conversation: AcpConversation) -> Message:
    """Give the one message that is due."""
    (message,) = conversation.outgoing()
    return message


def opened(
    adapter: AcpAdapter = acp,
    endpoint: Endpoint | None = ENDPOINT,
    initialized: Mapping[str, Any] = INITIALIZED,
    **changes: Any,
) -> AcpConversation:
    """Give a conversation that has its session."""
    conversation = begun(adapter, endpoint, **changes)
    hear(conversation, answer(due(conversation)["id"], **initialized))
    hear(conversation, answer(due(conversation)["id"], sessionId=SESSION))
    return conversation


def in_turn(
    adapter: AcpAdapter = acp, endpoint: Endpoint | None = ENDPOINT, **changes: Any
) -> tuple[AcpConversation, Any]:
    """Give a conversation in a turn, and the id of its prompt."""
    conversation = opened(adapter, endpoint, **changes)
    (message,) = conversation.prompt("Do the thing.")
    return conversation, message["id"]


def ask(number: int = 1, arguments: object = ASKED) -> Ask:
    """Give an ask as it reaches the bridge."""
    questions = parse(arguments)
    assert not isinstance(questions, Rejected)
    return Ask(
        id=f"ask-{number}",
        session_id="s",
        questions=questions,
        asked_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    )


def of(kind: type[Any], events: Sequence[Event]) -> list[Any]:
    """Give the events of a kind."""
    return [event for event in events if isinstance(event, kind)]
