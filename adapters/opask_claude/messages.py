"""The CLI's stream-json on the wire: how its messages are read without trusting them, and how ours are written.

The forms are those of 2.1.332, as seen. A field that is missing, or of another type than it should be, reads as
absent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "allowed",
    "blocks",
    "cancelled",
    "decoded",
    "denied",
    "hooked",
    "initialize",
    "interrupt",
    "items",
    "mapping",
    "refused",
    "text",
    "user_message",
]

Message = Mapping[str, Any]

# -- reading -------------------------------------------------------------------------------------------------------


def decoded(line: str | bytes) -> Message | str | None:
    """Read one line of output.

    Returns:
        The message; the reason, in words, why it is none; None for a blank line.
    """
    try:
        read = line.decode() if isinstance(line, bytes) else line
        if not read.strip():
            return None
        value = json.loads(read)
    except UnicodeDecodeError:
        return "the line is not UTF-8"
    except (ValueError, RecursionError):
        return "the line is not JSON"
    return value if isinstance(value, dict) else "the line is no JSON object"


def text(message: Message, name: str) -> str | None:
    """Return a field that has to be text, None where it is not, or empty."""
    value = message.get(name)
    return value if isinstance(value, str) and value else None


def mapping(message: Message, name: str) -> Message:
    """Return a field that has to be an object, an empty one where it is not."""
    value = message.get(name)
    return value if isinstance(value, Mapping) else {}


def items(message: Message, name: str) -> Sequence[Any]:
    """Return a field that has to be a list, an empty one where it is not."""
    value = message.get(name)
    return value if isinstance(value, list | tuple) else ()


def blocks(line: Message) -> list[Message]:
    """Return the content blocks of an ``assistant`` or ``user`` line."""
    message = mapping(line, "message")
    whole = text(message, "content")
    if whole is not None:
        return [{"type": "text", "text": whole}]
    return [block for block in items(message, "content") if isinstance(block, Mapping)]


# -- writing -------------------------------------------------------------------------------------------------------


def user_message(prompt: str) -> Message:
    """Return a prompt of the user."""
    return {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": prompt}]}}


def initialize(request_id: str, hook_id: str, timeout_s: int) -> Message:
    """Return the request that registers a hook which is called before every call of every tool.

    Args:
        request_id: names the request.
        hook_id: what the CLI calls the hook by.
        timeout_s: for how long it waits for the hook's answer, in seconds.
    """
    hook = {"matcher": None, "hookCallbackIds": [hook_id], "timeout": timeout_s}
    request = {"subtype": "initialize", "hooks": {"PreToolUse": [hook]}}
    return {"type": "control_request", "request_id": request_id, "request": request}


def hooked(request_id: str, *, allow: bool, reason: str) -> Message:
    """Return the answer to ``hook_callback`` before a tool is used.

    It always decides: an empty answer, or an error, would leave the call to the CLI's own rules.
    """
    decision = "allow" if allow else "deny"
    output = {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    }
    return _response(request_id, {"hookSpecificOutput": output})


def interrupt(request_id: str) -> Message:
    """Return the request that ends the running turn; the process stays."""
    return {"type": "control_request", "request_id": request_id, "request": {"subtype": "interrupt"}}


def allowed(request_id: str, arguments: Message | None) -> Message:
    """Return the reply to ``can_use_tool`` that lets the call run."""
    body: dict[str, Any] = {"behavior": "allow"}
    if arguments is not None:
        body["updatedInput"] = dict(arguments)
    return _response(request_id, body)


def denied(request_id: str, reason: str) -> Message:
    """Return the reply to ``can_use_tool`` that denies the call; the model is told the reason and goes on."""
    return _response(request_id, {"behavior": "deny", "message": reason})


def cancelled(request_id: str) -> Message:
    """Return the reply to ``elicitation`` that says that nobody saw it, which is no human's refusal."""
    return _response(request_id, {"action": "cancel"})


def refused(request_id: str, reason: str) -> Message:
    """Return the reply to a control request that cannot be served."""
    return {
        "type": "control_response",
        "response": {"subtype": "error", "request_id": request_id, "error": reason},
    }


def _response(request_id: str, body: Message) -> Message:
    return {
        "type": "control_response",
        "response": {"subtype": "success", "request_id": request_id, "response": body},
    }
