"""Put permission requests to the operator: allow once, allow for the session, or deny.

A policy for the driver (``start(…, policy=OperatorPermits(prompter))``), or for a host that drives a runtime itself. It
fails closed: whatever is no clear yes denies, with a reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, Literal

from opask.asking import DEFAULT_WAIT, put
from opask.permissions import Allow, Deny, PermissionRequested
from opask.prompter import Prompter, current_prompter
from opask.proposals import CANNOT_SHOW, chosen_scope, permission_question, shown_arguments, why_not

__all__ = ["OperatorPermits"]

_RULE: Final = "operator"


class OperatorPermits:
    """A policy that asks the operator.

    What is allowed for a session is remembered for exactly the tool of that spelling in exactly that session, or where a
    name proves nothing for exactly that call, and is gone with this object.

    Args:
        prompter: who asks; by default the one that is carried in the context, if any.
        wait: how long the operator may take; None for as long as it takes.
    """

    def __init__(self, prompter: Prompter | None = None, *, wait: timedelta | None = DEFAULT_WAIT) -> None:
        self._prompter = prompter if prompter is not None else current_prompter()
        self._wait = wait
        self._remembered: set[tuple[str, str, str]] = set()
        self._forgotten: dict[str, int] = {}

    @property
    def remembered(self) -> frozenset[tuple[str, str, str]]:
        """What is allowed for its session: session, tool, and the arguments as JSON where only that call is meant."""
        return frozenset(self._remembered)

    def forget(self, session_id: str) -> None:
        """Forget what was allowed for a session."""
        self._remembered = {kept for kept in self._remembered if kept[0] != session_id}
        self._forgotten[session_id] = (
            self._forgotten.get(session_id, 0) + 1
        )  # a late yes is for the call alone

    async def __call__(self, request: PermissionRequested) -> Allow | Deny:
        """Decide on a request."""
        if request.ask == "native":
            return Deny("The runtime's own ask tool does not reach the operator.", rule="native ask tool")
        if not request.tool and not request.options:
            return Deny("This asks for nothing that could be allowed.", rule="no tool")
        # Where the protocol has options of its own (ACP), a tool's name is a title, which the agent may have written:
        # then only the very same call is remembered.
        is_titled = bool(request.options)
        same = _same(request.arguments) if is_titled else ""
        key = (request.session_id, request.tool, same or "")
        can_remember = bool(
            request.tool and request.session_id and (request.arguments or not is_titled) and same is not None
        )
        if can_remember and key in self._remembered:
            return Allow("allowed for this session")
        arguments = shown_arguments(request.arguments)
        if arguments is None:
            return Deny(
                CANNOT_SHOW,
                rule="too long to show",
            )
        forgotten = self._forgotten.get(request.session_id)
        remembers: Literal["no", "tool", "call"] = "no"
        if can_remember:
            remembers = "call" if is_titled else "tool"
        question, scopes = permission_question(request.tool, arguments, remembers=remembers)
        asked = await put(
            self._prompter,
            (question,),
            session_id=request.session_id,
            kind="permission",
            wait=self._wait,
            tool_call_id=request.tool_call_id,
            agent_id=request.agent_id,
        )
        scope = chosen_scope(asked.outcome, scopes)
        if scope is None:
            return Deny(why_not(asked.outcome), rule=_RULE)
        if scope == "session" and can_remember and forgotten == self._forgotten.get(request.session_id):
            self._remembered.add(key)
            return Allow("allowed for this session")
        return Allow("allowed once")


def _same(arguments: Mapping[str, Any] | None) -> str | None:
    """Return what only the same arguments give; None where that cannot be told."""
    try:
        return json.dumps(arguments, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return None
