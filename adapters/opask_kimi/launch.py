"""What a launch of Kimi Code needs beside the ask server: a folder of the session's own, and room for the operator.

Seen in 2.1.0: the native ask tool is switched off only by ``[tools] disabled`` in ``config.toml``, and the system prompt
has a text of ours only in ``AGENTS.md``, both in the folder that ``KIMI_CODE_HOME`` names; a conversation that is resumed
keeps the system prompt that it was begun with. A call of an MCP tool ends after 60 s, whatever progress it reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final

from opask.launch import Change, LaunchRequest, Overlay, OverlayFile
from opask_acp.launch import Planning
from opask_kimi.homes import CODE_RECORDS, FOLDERS, CodeSettings, Instructions, Servers, home_of

__all__ = [
    "CALL_ENV",
    "CALL_MS",
    "CHANGES",
    "HOME",
    "INSTRUCTIONS",
    "LONGEST_MS",
    "SETTINGS",
    "START_MS",
    "can_have_home",
    "milliseconds",
    "overlay_at",
    "pull",
]

HOME: Final = "KIMI_CODE_HOME"
SETTINGS: Final = "config.toml"
INSTRUCTIONS: Final = "AGENTS.md"
LONGEST_MS: Final = 2**31 - 1  # the longest timer of node

_FOLDER: Final = ".kimi-code"
CALL_ENV: Final = "KIMI_MCP_TOOL_TIMEOUT_MS"
START_ENV: Final = "KIMI_MCP_STARTUP_TIMEOUT_MS"
CALL_MS: Final = 60_000
START_MS: Final = 30_000
_HTTP: Final = timedelta(seconds=300)  # a silent answer over HTTP was lost then

CHANGES: Final[Mapping[str, Change]] = {
    change.name: change
    for change in (
        Change(
            "session-home",
            "process",
            f"{HOME} names a folder of this session: links to all that is in the user's own, but for the files that "
            "other changes make from the user's",
        ),
        Change(
            "native-ask-denied",
            "process",
            "[tools] disabled in the session's config.toml takes AskUserQuestion from the model: refused at the "
            "permission channel alone, it would seem to have been answered by nobody",
        ),
        Change(
            "clause",
            "process",
            "AGENTS.md in the session's folder tells the agent how the operator is reached, or that nobody is there, "
            "behind the user's own text; without such a folder, and in a conversation that is resumed, a text behind "
            "the first prompt does",
        ),
        Change(
            "call-timeout",
            "process",
            f"{CALL_ENV} lifts the limit of 60 s on one call to about 24 days; it holds for every MCP server, so that "
            "one that hangs is waited for as long",
        ),
        Change(
            "startup-timeout",
            "process",
            f"{START_ENV} gives MCP servers the usual 30 s to start, where the host's environment gives them less",
        ),
    )
}
"""The levers of Kimi Code, by name."""


def milliseconds(value: str | None) -> int | None:
    """Return a limit as Kimi reads it from the environment; None where that leaves the limit as it is."""
    digits = (value or "").strip()
    number = int(digits[:12]) if digits.isascii() and digits.isdecimal() else 0
    return number if 1 <= number <= LONGEST_MS else None


def can_have_home(request: LaunchRequest, folder: Path | None) -> bool:
    """Tell whether the session can have a folder of its own in place of the user's."""
    return folder is not None and "session-home" not in request.refuse


def pull(planning: Planning) -> None:
    """Pull the levers that the launch needs over ACP."""
    overlay = overlay_at(planning)
    if overlay is not None:
        planning.overlays.append(overlay)
        planning.env[HOME] = str(overlay.path)
    endpoint = planning.endpoint
    if endpoint is None:
        return
    limit = milliseconds(planning.env.get(CALL_ENV)) or CALL_MS
    if planning.pulls("call-timeout"):
        planning.env[CALL_ENV], limit = str(LONGEST_MS), LONGEST_MS
    ceiling = timedelta(milliseconds=limit)
    if not endpoint.command:
        ceiling = min(ceiling, _HTTP)
    # As good as unbounded: it is more than three weeks.
    is_unbounded = endpoint.wait is None and ceiling == timedelta(milliseconds=LONGEST_MS)
    planning.ceiling = None if is_unbounded else ceiling
    started = milliseconds(planning.env.get(START_ENV))
    if started is not None and started < START_MS and planning.pulls("startup-timeout"):
        planning.env[START_ENV] = str(START_MS)


def overlay_at(planning: Planning, server: tuple[str, Mapping[str, object]] | None = None) -> Overlay | None:
    """Return the folder that the session gets in place of the user's, and list what it changes.

    Args:
        planning: the launch.
        server: name and entry of the MCP server that is to be found there; None for none.

    Returns:
        The folder; None where it cannot be had, or nothing in it would differ.
    """
    request, endpoint = planning.request, planning.endpoint
    folder = request.folder if endpoint is None else endpoint.folder
    if folder is None or not can_have_home(request, folder):
        return None
    original = home_of(request.env, HOME, _FOLDER, request.cwd)
    if original is None:
        raise planning.refused(
            f"neither {HOME} nor HOME says where the user's own folder is; set one of them, or refuse the change "
            "'session-home'",
            HOME,
        )
    runtime = planning.profile.runtime
    files = []
    if planning.pulls("native-ask-denied"):
        files.append(OverlayFile(SETTINGS, CodeSettings(runtime, original / SETTINGS, planning.tool)))
    if planning.profile.clause_by == "launch" and planning.words and planning.pulls("clause"):
        planning.text = planning.words
        files.append(OverlayFile(INSTRUCTIONS, Instructions(planning.words)))
    if server is not None:
        files.append(OverlayFile("mcp.json", Servers(runtime, original / "mcp.json", *server)))
    if not files:
        return None
    planning.pulls("session-home")
    return Overlay(folder / "home", original, files, FOLDERS, CODE_RECORDS)
