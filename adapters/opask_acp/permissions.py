"""Permission requests and forms: what they are about, what is decided, and how that is written.

A runtime's own question can come in disguise: as a permission request whose options are the answers, or as a form.
So an option is taken for its kind alone, never for its place, and none where its kind does not say which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from attrs import evolve

from opask.launch import Endpoint
from opask.names import ToolName
from opask.permissions import Allow, Defer, Deny, PermissionOption, PermissionRequested, Verdict
from opask_acp import jsonrpc
from opask_acp.calls import Calls, Identity
from opask_acp.jsonrpc import Id, Message, Request, items, mapping, text
from opask_acp.messages import cancelled_permission, selected_permission
from opask_acp.profile import Profile
from opask_acp.toolcalls import ToolCall

__all__ = ["ELICITATION", "PERMISSION", "Permissions", "option_for", "options_of"]

PERMISSION: Final = "session/request_permission"
ELICITATION: Final = "elicitation/create"


def options_of(params: Message) -> tuple[PermissionOption, ...]:
    """Return a permission request's options, those that can be read."""
    found = []
    for option in items(params, "options"):
        if isinstance(option, dict) and (id_ := text(option, "optionId")) is not None:
            kind, name = text(option, "kind") or "", text(option, "name") or ""
            found.append(PermissionOption(id=id_, kind=kind, name=name))
    return tuple(found)


def option_for(verdict: Verdict, options: Sequence[PermissionOption]) -> str | None:
    """Return the id of the option that a verdict means, None where none does.

    Allowing is ``allow_once`` where there is one such option: several are a choice that nobody has made, and an
    ``allow_always`` would outlive what was decided. Anything else is ``reject_once``, of which each is as good. An id
    that stands for several kinds means nothing.
    """
    kinds = Counter(id_ for id_, _ in {(option.id, option.kind) for option in options})
    wanted = "allow_once" if isinstance(verdict, Allow) else "reject_once"
    ids = dict.fromkeys(option.id for option in options if option.kind == wanted and kinds[option.id] == 1)
    if isinstance(verdict, Allow):
        return next(iter(ids)) if len(ids) == 1 else option_for(Defer(), options)
    return next(iter(ids), None)


def tool_call_of(params: Message) -> Message:
    """Return the report of the call that a permission request is about: of version 1, or of version 2."""
    return mapping(params, "toolCall") or mapping(mapping(params, "subject"), "toolCall")


class Permissions:
    """What the agent may do, as far as that is opask's to say.

    Args:
        profile: how the runtime asks.
        calls: the session's tool calls.
        endpoint: where the ask tool is served; None where nobody is there to ask.
    """

    def __init__(self, profile: Profile, calls: Calls, endpoint: Endpoint | None) -> None:
        self._profile = profile
        self._calls = calls
        self._endpoint = endpoint

    def requested(self, request: Request) -> PermissionRequested:
        """Read a permission request whose call has been taken in."""
        options = options_of(request.params)
        call, identity = self._identity(request.params, options)
        proven = identity.proven and self._endpoint is not None
        return PermissionRequested(
            request_id=_name(request.id),
            tool=identity.tool,
            arguments=self._calls.arguments_of(call),
            ask="native" if identity.ask == "native" else "supplied" if proven else None,
            options=options,
            tool_call_id=call.id or None,
            agent_id=self._calls.agent_of(call.id),
            raw=request.raw,
        )

    def form(self, request: Request) -> PermissionRequested:
        """Read a form that an MCP server wants filled in, as a request that is about no tool."""
        shown = {key: value for key, value in request.params.items() if key not in ("sessionId", "_meta")}
        call_id = text(request.params, "toolCallId")
        return PermissionRequested(
            request_id=_name(request.id),
            tool="",
            arguments=shown,
            tool_call_id=call_id,
            agent_id=self._calls.agent_of(call_id),
            raw=request.raw,
        )

    def is_native_form(self, params: Message) -> bool:
        """Tell whether a form is a question of the runtime's own ask tool."""
        if self._profile.elicits != "caller":
            return self._profile.elicits == "native"
        return self._calls.is_native(text(params, "toolCallId"))

    def _identity(self, params: Message, options: Sequence[PermissionOption]) -> tuple[ToolCall, Identity]:
        report = tool_call_of(params)
        call = evolve(self._calls.merged(report), permission=report)
        identity = self._calls.identify(call, options)
        if self._calls.is_native(call.id):
            identity = Identity(identity.tool, "native", proven=False)
        return call, identity

    def _reread(self, request: PermissionRequested) -> Identity:
        """Tell what a request is about from what was sent, whatever the request was made into meanwhile."""
        params = mapping(request.raw, "params")
        return self._identity(params, options_of(params))[1]

    def decide(self, request: PermissionRequested) -> Verdict:
        """Deny the native ask tool, allow exactly the supplied one, defer the rest."""
        if request.raw.get("method") != PERMISSION:
            return Defer()
        identity = self._reread(request)
        if "native" in (identity.ask, request.ask):
            return Deny(self.refusal(identity.tool), rule="native ask tool")
        if identity.proven and request.ask == "supplied" and self._endpoint is not None:
            allowed = Allow("supplied ask tool")
            options = options_of(mapping(request.raw, "params"))
            if option_for(allowed, options) != option_for(Defer(), options):
                return allowed  # else there is no one option that would allow it
        return Defer()

    def reply(self, request: PermissionRequested, verdict: Verdict, *, cancelled: bool) -> Message:
        """Return a verdict in wire form.

        Args:
            request: what was asked.
            verdict: what was decided. A native ask tool is denied, and a form left unfilled, whatever it is.
            cancelled: whether the turn was told to end: then no option may be taken.
        """
        id_: Any = request.raw.get("id")
        if request.raw.get("method") == ELICITATION:
            return jsonrpc.result(id_, {"action": "cancel"})
        if "native" in (self._reread(request).ask, request.ask):
            verdict = Defer()
        option = None if cancelled else option_for(verdict, options_of(mapping(request.raw, "params")))
        return jsonrpc.result(id_, cancelled_permission() if option is None else selected_permission(option))

    def refusal(self, native: str) -> str:
        """Return what is said of a call of the native ask tool that is denied."""
        if self._endpoint is None:
            return f"{native} reaches nobody: no human operator is there in this session. Proceed without this input."
        tool = self._profile.tool_words(ToolName(self._endpoint.server, self._endpoint.tool))
        return f"{native} does not reach the operator in this session. Call {tool} with the same questions instead."


def _name(id_: Id) -> str:
    """Return the id of a request as text."""
    return "" if id_ is None else str(id_)
