"""How omp speaks ACP (seen in 18.2.3).

It asks for no permission to call an MCP tool. What a call is stands in three places: in its result, which names server
and tool; in the address that the model writes to, where MCP tools are devices; and in the title, which is the tool's name
unless the model was let say what it is about to do. Arguments are bare, or a JSON string beside that address. The name in
a title is as the model wrote it: omp serves other spellings as well (``mcp__SERVER__TOOL``), so that a call is known by
its questions, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from attrs import field, frozen

from opask.launch import Change, Endpoint
from opask.names import ToolName
from opask_acp.envelopes import addressed, bare, nested
from opask_acp.jsonrpc import at
from opask_acp.launch import Planning
from opask_acp.profile import Named, Place, Profile
from opask_acp.toolcalls import ToolCall
from opask_omp.launch import CHANGES, NATIVE, RUNTIME, pull
from opask_omp.naming import can_spell, mangled, spelling

__all__ = ["DEVICE", "OmpProfile"]

DEVICE: Final = "xd://"
"""What the address of a tool begins with, where tools are devices."""

_HELP: Final = frozenset({"", "?"})  # what is written to a device to be told how it is used


@frozen(kw_only=True)
class OmpProfile(Profile):
    """omp over ACP; see `opask_acp.profile.Profile` for the other arguments.

    Args:
        direct: whether MCP tools are sure to be in the model's own list, and no devices.
    """

    runtime: str = RUNTIME
    templates: tuple[str, ...] = ("mcp__{server}_{tool}",)
    native: frozenset[str] = frozenset({NATIVE})
    written: tuple[Place, ...] = ()
    elicits: Literal["native", "server", "caller"] = "native"  # its MCP client knows no forms
    own_changes: Mapping[str, Change] = field(factory=lambda: CHANGES)
    unknowns: tuple[str, ...] = ()
    direct: bool = True
    floorless: str = (
        "it asks permission for commands alone in its usual mode, not for files that it writes, and never for the tools of "
        "MCP servers"
    )

    def mangled(self, part: str) -> str:
        """Return the name of a server, or of a tool, as it stands in a spelling."""
        return mangled(part)

    def spellings(self, name: ToolName) -> tuple[str, ...]:
        """Return the one spelling of an MCP tool."""
        return (spelling(name),)

    def can_spell(self, server: str, spelling: str) -> bool:
        """Tell whether some tool of a server could get a spelling, whatever that tool is called."""
        return can_spell(server, spelling)

    def names(self, call: ToolCall) -> Iterator[Named]:
        """Give the name that the result tells, else the one in the device's address, else the title.

        A device that is only read, or asked how it is used, is not called; its address is no tool's name.
        """
        server, tool = (_inner(call, key) for key in ("serverName", "mcpToolName"))
        if isinstance(server, str) and isinstance(tool, str):
            yield Named(spelling(ToolName(server, tool)), written=False)  # too late to let anything through
            return
        device = addressed(call.raw_input, DEVICE)
        if device is None:
            told = call.title or ""
        else:
            content = call.at("rawInput", "content")
            is_called = isinstance(content, str) and content.strip() not in _HELP
            told = device.name if is_called else f"{DEVICE}{device.name}"
        if told:
            yield Named(told, written=False)

    def arguments(self, call: ToolCall) -> Iterator[Mapping[str, Any]]:
        """Give what a call's arguments may be: beside a device's address, bare, or repeated in the result."""
        device = addressed(call.raw_input, DEVICE)
        if device is None:
            yield from bare(call.raw_input)
        elif device.arguments is not None:
            yield device.arguments
        told = nested(call.raw_output, "details", "xdev", "args")
        if told is not None:
            yield told

    def tool_words(self, tool: ToolName) -> str:
        """Return what to call an MCP tool when speaking of it to the model."""
        spelled = spelling(tool)
        return spelled if self.direct else f"{spelled} (it may be a device: {DEVICE}{spelled})"

    def clause(self, endpoint: Endpoint | None) -> str:
        """Return what the agent is told of how the operator is reached; of nobody, where there is no endpoint."""
        return f"{super().clause(endpoint)} A tool called {NATIVE} is not available in this session."

    def pull(self, planning: Planning) -> None:
        """Pull omp's levers: settings over the user's own, the system prompt, the limits on MCP servers."""
        pull(planning)


def _inner(call: ToolCall, key: str) -> Any:
    """Return what the result of an MCP tool says of itself, called directly or as a device."""
    details = at(call.raw_output, "details") if isinstance(call.raw_output, Mapping) else None
    if not isinstance(details, Mapping):
        return None
    device = at(details, "xdev", "inner")
    return (device if isinstance(device, Mapping) else details).get(key)
