"""The CLI's permission requests: ``can_use_tool`` and the other requests that it makes of its host.

They come as ``control_request`` lines and wait for a ``control_response``; the CLI asks none where a rule or its
permission mode decides (2.1.332).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from opask.events import MessageUnreadable
from opask.launch import Endpoint
from opask.permissions import Allow, Defer, Deny, PermissionRequested, Verdict
from opask_claude import messages
from opask_claude.messages import Message, mapping, text
from opask_claude.tools import ask_tools, native_refusal

__all__ = ["HOOK", "Permissions"]

HOOK: Final = "opask-write-gate"
"""What the CLI calls the gate's hook by."""

_HOSTS_OWN: Final = frozenset({"hook_callback", "mcp_message"})  # only a host that asked for them gets these
_UNDECIDED: Final = (
    "Nobody in this session can grant this permission. Do it another way, or go on without it."
)


class Permissions:
    """What one process may do, as far as that is opask's to say.

    Args:
        endpoint: where the ask tool is served; None where nobody is there to ask.

    Attributes:
        foreign: whether the tool of the supplied one's name is, or may be, somebody else's.
        gated: the calls that the gate's hook was asked about.
    """

    def __init__(self, endpoint: Endpoint | None) -> None:
        self._endpoint = endpoint
        self._tools = ask_tools(endpoint)
        self._tool = next(iter(self._tools.supplied), None)
        self._hooked: dict[
            str, Mapping[str, Any] | None
        ] = {}  # calls that the hook let through, with their arguments
        self.foreign = False
        self.gated: set[str] = set()

    def requested(
        self, message: Message, agent_id: str | None
    ) -> PermissionRequested | MessageUnreadable | None:
        """Read a ``control_request``.

        Args:
            message: the line.
            agent_id: the sub-agent that it is of.

        Returns:
            The request, with an empty tool where it is about none; None for what belongs to the host alone.
        """
        request, request_id = mapping(message, "request"), text(message, "request_id")
        subtype = text(request, "subtype")
        if request_id is None:
            return MessageUnreadable(reason="a control request has no request_id")
        if subtype == "hook_callback" and text(request, "callback_id") == HOOK:
            return self._before_use(message, request_id, mapping(request, "input"), agent_id)
        if subtype in _HOSTS_OWN:
            return None
        if subtype != "can_use_tool":
            rest = {key: value for key, value in request.items() if key != "subtype"}
            return PermissionRequested(request_id=request_id, tool="", arguments=rest, raw=message)
        tool = text(request, "tool_name") or ""
        ask = self._tools.kind(tool)
        if ask == "supplied" and not self._is_ours(mapping(request, "mcp_server")):
            ask = None
        arguments = request.get("input")
        return PermissionRequested(
            request_id=request_id,
            tool=tool,
            arguments=arguments if isinstance(arguments, Mapping) else None,
            ask=ask,
            tool_call_id=text(request, "tool_use_id"),
            agent_id=agent_id,
            raw=message,
        )

    def _before_use(
        self, message: Message, request_id: str, call: Message, agent_id: str | None
    ) -> PermissionRequested:
        """Read what the gate's hook is asked before a tool is used."""
        tool, call_id, arguments = (
            text(call, "tool_name") or "",
            text(call, "tool_use_id"),
            call.get("tool_input"),
        )
        if call_id is not None:
            self.gated.add(call_id)
        return PermissionRequested(
            request_id=request_id,
            tool=tool,
            arguments=arguments if isinstance(arguments, Mapping) else None,
            ask=self._tools.kind(tool),
            tool_call_id=call_id,
            agent_id=text(call, "agent_id") or agent_id,
            raw=message,
        )

    def _is_ours(self, server: Message) -> bool:
        """Tell whether a tool's server, where the CLI names it, is this session's own."""
        if not server or self._endpoint is None:
            return True
        return server.get("name") == self._endpoint.server and server.get("source") in (None, "dynamic")

    def decide(self, request: PermissionRequested) -> Verdict:
        """Deny the native ask tool, allow exactly the supplied one, defer the rest."""
        kind = self._tools.kind(request.tool)
        if "native" in (kind, request.ask):
            return Deny(native_refusal(self._tool), rule="native ask tool")
        if kind == "supplied" and request.ask == "supplied" and not self.foreign:
            return Allow("supplied ask tool")
        call_id = request.tool_call_id
        if not _is_hook(request) and call_id in self._hooked and self._hooked[call_id] == request.arguments:
            return Allow("let through before")  # the CLI's own rules ask about it again
        return Defer()

    def reply(self, request: PermissionRequested, verdict: Verdict) -> Message:
        """Return the verdict in wire form."""
        request_id = request.request_id
        if _is_hook(request):
            return self._hook_reply(request, verdict)
        subtype = text(mapping(request.raw, "request"), "subtype") or "can_use_tool"
        if subtype == "elicitation":
            return messages.cancelled(request_id)
        if subtype != "can_use_tool":
            return messages.refused(request_id, f"Unsupported control request subtype: {subtype}")
        if "native" in (self._tools.kind(request.tool), request.ask):
            refusal = verdict.reason if isinstance(verdict, Deny) else native_refusal(self._tool)
            return messages.denied(request_id, refusal)
        if isinstance(verdict, Allow):
            return messages.allowed(request_id, request.arguments)
        return messages.denied(request_id, verdict.reason if isinstance(verdict, Deny) else _UNDECIDED)

    def _hook_reply(self, request: PermissionRequested, verdict: Verdict) -> Message:
        native = "native" in (self._tools.kind(request.tool), request.ask)
        if isinstance(verdict, Allow) and not native:
            if request.tool_call_id is not None:
                self._hooked[request.tool_call_id] = request.arguments
            return messages.hooked(request.request_id, allow=True, reason=verdict.rule)
        reason = verdict.reason if isinstance(verdict, Deny) else _UNDECIDED
        if native and not isinstance(verdict, Deny):
            reason = native_refusal(self._tool)
        return messages.hooked(request.request_id, allow=False, reason=reason)


def _is_hook(request: PermissionRequested) -> bool:
    return text(mapping(request.raw, "request"), "subtype") == "hook_callback"
