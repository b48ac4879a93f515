"""The older Kimi CLI, a Python program, over ACP (seen in 1.50.0).

It calls a tool by its name on the server alone, so that no server can be told from another. The title of a call is the
name, a colon and the middle of its arguments left out; the whole of them is the call's content, which grows. Its native
ask tool answers itself, with nobody asked: only a hook of ``config.toml`` in the folder that ``KIMI_SHARE_DIR`` names keeps
it away, and there too is the limit on a call. Rejecting any permission request ends the turn. It hears of no text of ours
but the prompt. It asks for its servers' tools when the first prompt comes, and fails that prompt where one does not start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final

from attrs import field, frozen

from opask.launch import Change, Overlay, OverlayFile
from opask.names import ToolName
from opask_acp.envelopes import named_title
from opask_acp.jsonrpc import Message
from opask_acp.launch import Planning
from opask_acp.profile import Named, Place, Profile
from opask_acp.toolcalls import ToolCall
from opask_kimi.homes import CLI_RECORDS, FOLDERS, NATIVE, CliSettings, home_of
from opask_kimi.versions import GONE, LEGACY, other_product

__all__ = ["HOME", "LegacyProfile"]

HOME: Final = "KIMI_SHARE_DIR"

_FOLDER: Final = ".kimi"
_SETTINGS: Final = "config.toml"
_CALL: Final = timedelta(seconds=60)
_LONGEST_MS: Final = 2**31 - 1

_CHANGES: Final[Mapping[str, Change]] = {
    change.name: change
    for change in (
        Change(
            "session-home",
            "process",
            f"{HOME} names a folder of this session: links to all that is in the user's own, but for config.toml, "
            "which is made from the user's",
        ),
        Change(
            "native-ask-hook",
            "process",
            f"a PreToolUse hook in the session's config.toml blocks {NATIVE}, which would answer itself, and tells the "
            "agent what to call instead",
        ),
        Change(
            "call-timeout",
            "process",
            "[mcp.client] tool_call_timeout_ms in the session's config.toml lifts the limit of 60 s on one call to "
            "about 24 days; it holds for every MCP server",
        ),
    )
}


@frozen(kw_only=True)
class LegacyProfile(Profile):
    """The older Kimi CLI over ACP; see `opask_acp.profile.Profile` for the arguments."""

    runtime: str = LEGACY
    templates: tuple[str, ...] = ("{tool}",)
    native: frozenset[str] = frozenset({NATIVE})
    written: tuple[Place, ...] = (("permission", "title"),)
    titles: tuple[Place, ...] = (("first_title",),)
    unnamed: bool = False
    hold_prompt: bool = False  # the first prompt waits for the servers
    own_changes: Mapping[str, Change] = field(factory=lambda: _CHANGES)
    unknowns: tuple[str, ...] = ()
    gone: str = GONE
    floorless: str = "in its mode yolo, which its user's settings can choose, it runs everything unasked"

    def mangled(self, part: str) -> str:
        """Return a name as it is."""
        return part

    def names(self, call: ToolCall) -> Iterator[Named]:
        """Give the names in front of the titles: the title of a permission request is the CLI's own."""
        asked = call.at("permission", "title")
        if isinstance(asked, str) and asked:
            yield Named(named_title(asked), written=True)
        if call.first_title:
            yield Named(named_title(call.first_title), written=False)

    def tool_words(self, tool: ToolName) -> str:
        """Return what to call an MCP tool when speaking of it to the model."""
        return tool.tool

    def unfit(self, initialized: Message) -> str | None:
        """Tell by its version why an agent is not the older CLI, which has the same name as Kimi Code."""
        return other_product(LEGACY, self.version(initialized))

    def pull(self, planning: Planning) -> None:
        """Pull the CLI's levers, which are all in its settings."""
        endpoint = planning.endpoint
        if endpoint is not None:
            planning.ceiling = _CALL
        overlay = self._overlay(planning)
        if overlay is not None:
            planning.overlays.append(overlay)
            planning.env[HOME] = str(overlay.path)

    def _overlay(self, planning: Planning) -> Overlay | None:
        request, endpoint = planning.request, planning.endpoint
        folder = request.folder if endpoint is None else endpoint.folder
        if folder is None or "session-home" in request.refuse:
            return None
        original = home_of(request.env, HOME, _FOLDER, request.cwd)
        if original is None:
            raise planning.refused(
                f"neither {HOME} nor HOME says where the user's own folder is; set one of them, or refuse the change "
                "'session-home'",
                HOME,
            )
        refusal = self._refusal(planning) if planning.pulls("native-ask-hook") else None
        limit = None
        if endpoint is not None and planning.pulls("call-timeout"):
            limit = _LONGEST_MS
            # As good as unbounded: it is more than three weeks.
            planning.ceiling = None if endpoint.wait is None else timedelta(milliseconds=limit)
        if refusal is None and limit is None:
            return None
        planning.pulls("session-home")
        settings = CliSettings(LEGACY, original / _SETTINGS, refusal, limit)
        return Overlay(folder / "home", original, [OverlayFile(_SETTINGS, settings)], FOLDERS, CLI_RECORDS)

    def _refusal(self, planning: Planning) -> str:
        if planning.tool is None:
            return f"{NATIVE} reaches nobody: no human operator is there. Proceed without this input."
        return f"{NATIVE} does not reach the operator. Call {planning.tool} with the same questions instead."
