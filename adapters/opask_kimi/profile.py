"""How Kimi Code speaks ACP (seen in 2.1.0).

A tool's name stands in titles alone, and only that of a permission request is the name and nothing else: the first title
of a call is the name as a rule, and later ones say what it does, in the model's own words too. A request carries no
arguments; the call's content has been the whole of them by then. A sub-agent's calls are never announced, so that a
permission request for one is all that tells of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from attrs import field, frozen

from opask.events import AskToolMissing
from opask.launch import Change, Endpoint
from opask.names import ToolName
from opask.permissions import PermissionOption
from opask_acp.jsonrpc import Message
from opask_acp.launch import Planning
from opask_acp.profile import Named, Place, Profile
from opask_acp.toolcalls import ToolCall
from opask_kimi.homes import NATIVE
from opask_kimi.launch import CHANGES, pull
from opask_kimi.naming import can_spell, mangled, spelling
from opask_kimi.versions import GONE, RUNTIME, other_product

__all__ = ["KimiProfile", "command_of"]

_NATIVE_TITLES: Final = frozenset({"Asking user questions"})
_NATIVE_BACKGROUND: Final = "Starting background question: "
_STATUS: Final = re.compile(
    r"^- (?P<server>.+) \((?:stdio|http|sse)\): (?P<status>[\w-]+), (?P<tools>\d+) tools(?: — (?P<why>[^\n]+))?",
    re.MULTILINE,
)


@frozen(kw_only=True)
class KimiProfile(Profile):
    """Kimi Code over ACP; see `opask_acp.profile.Profile` for the arguments."""

    runtime: str = RUNTIME
    templates: tuple[str, ...] = ("mcp__{server}__{tool}",)
    native: frozenset[str] = frozenset({NATIVE})
    written: tuple[Place, ...] = (("permission", "title"),)
    titles: tuple[Place, ...] = (("first_title",),)
    delegates: frozenset[str] = frozenset({"Agent", "AgentSwarm"})
    unnamed: bool = False
    elicits: Literal["native", "server", "caller"] = "native"  # its MCP client knows no forms
    hold_prompt: bool = False  # it waits for its servers itself before its first request to the model
    own_changes: Mapping[str, Change] = field(factory=lambda: CHANGES)
    unknowns: tuple[str, ...] = ()
    gone: str = GONE
    floorless: str = (
        "in its modes auto and yolo, which its user's settings (default_permission_mode) or the conversation can choose, and "
        "for one prompt, it runs everything unasked"
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
        """Give the name in a permission request, which Kimi wrote, and the title that a call was announced under."""
        asked = call.at("permission", "title")
        if isinstance(asked, str) and asked:
            yield Named(asked, written=True)
        if call.first_title:
            yield Named(call.first_title, written=False)

    def is_question(self, call: ToolCall, options: Sequence[PermissionOption]) -> bool:
        """Tell whether a call is a question of Kimi's own, by its answers among the options or by what it is called.

        The native tool's calls have a title of their own where the model's words did not stream.
        """
        title = call.first_title or ""
        if title in _NATIVE_TITLES or title.startswith(_NATIVE_BACKGROUND):
            return True
        return super().is_question(call, options)

    def clause(self, endpoint: Endpoint | None) -> str:
        """Return what the agent is told of how the operator is reached; of nobody, where there is no endpoint."""
        return f"{super().clause(endpoint)} {NATIVE} is not available in this session."

    def unfit(self, initialized: Message) -> str | None:
        """Tell by its version why an agent is not Kimi Code: the older CLI has the same name."""
        return other_product(RUNTIME, self.version(initialized))

    def pull(self, planning: Planning) -> None:
        """Pull Kimi's levers: a folder of the session's own, and the limits on MCP servers."""
        pull(planning)

    def is_command(self, prompt: str) -> bool:
        """Tell whether Kimi takes a prompt for a command of its own: a slash and a name, which is no path."""
        return command_of(prompt) is not None

    def missing(self, command: str, answer: str, server: str) -> AskToolMissing | None:
        """Read from the answer to ``/mcp`` what Kimi says of the ask server.

        It calls no model, and does not wait: a server that is still starting is pending.
        """
        if command_of(command) != "mcp":
            return None
        told = next((found for found in _STATUS.finditer(answer) if found["server"] == server), None)
        if told is None:
            return AskToolMissing(reason="not_listed")
        status, why = told["status"], told["why"]
        if status == "connected":
            return None if int(told["tools"]) else AskToolMissing(reason="not_listed", server_status=status)
        reason: Literal["pending", "failed"] = "pending" if status == "pending" else "failed"
        return AskToolMissing(reason=reason, server_status=f"{status}: {why}" if why else status)


def command_of(prompt: str) -> str | None:
    """Return the name of the command that a prompt is, None where it is none."""
    if not prompt.startswith("/"):
        return None
    name = prompt[1:].strip().partition(" ")[0]
    return name if name and "/" not in name else None
