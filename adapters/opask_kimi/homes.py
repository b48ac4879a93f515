"""The folder that Kimi keeps everything in, and one that stands in for it while a session lasts.

Only in that folder can the native ask tool be switched off (2.1.0), and there lie the user's login, providers and saved
conversations too. So a session gets a folder of its own with links to all of that, and the few files in it that have to
say something else are made from the user's, which are read and never written.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from opask.errors import LaunchError
from opask.launch import OverlayRecord
from opask_kimi.settings import SettingsError, read, with_entry, with_item, with_value

__all__ = [
    "CLI_RECORDS",
    "CODE_RECORDS",
    "FOLDERS",
    "CliSettings",
    "CodeSettings",
    "Instructions",
    "Servers",
    "home_of",
]

NATIVE: Final = "AskUserQuestion"
"""The native ask tool, in either product."""

FOLDERS: Final = ("credentials", "sessions")
"""What has to be the user's own even where it is not there yet: logins, which rotate, and saved conversations."""


def home_of(env: Mapping[str, str], variable: str, folder: str, cwd: Path | None) -> Path | None:
    """Return the user's folder, absolute; None where the environment does not say where it is.

    Args:
        env: the environment that the runtime is to get.
        variable: what names the folder.
        folder: its name below the user's home otherwise.
        cwd: where the runtime is to work.
    """
    named, home = env.get(variable), env.get("HOME")
    if not named and not home:
        return None
    path = Path(named) if named else Path(home or "", folder)
    whole = path if cwd is None else cwd / path
    return whole if whole.is_absolute() else None


# -- what is made anew ---------------------------------------------------------------------------------------------


@frozen
class _Made:
    """What makes one file from the user's own.

    Args:
        runtime: whose, for messages.
        path: the user's file, for messages.
    """

    runtime: str
    path: Path

    def refused(self, message: str) -> LaunchError:
        """Return the error of a launch that the user's own file stands against."""
        return LaunchError(
            f"{self.runtime}: {self.path}: {message}", runtime=self.runtime, what=str(self.path)
        )


@frozen
class CodeSettings(_Made):
    """Makes Kimi Code's ``config.toml``: the user's, with the native ask tool among those that are disabled.

    Args:
        tool: the spelling of the ask tool, None where nobody is there to ask.
    """

    tool: str | None

    def __call__(self, own: str | None) -> str:
        """Return the text."""
        try:
            if self.tool is not None:
                self._check(read(own or ""), self.tool)
            return with_item(own or "", ("tools", "disabled"), NATIVE)
        except SettingsError as error:
            raise self.refused(f"{error}; correct it, or refuse the change 'native-ask-denied'") from None

    def _check(self, settings: Mapping[str, Any], tool: str) -> None:
        """Hold that the user's own policy lets the ask tool be: a call that it forbids would be lost."""
        tools = settings.get("tools")
        policy = tools if isinstance(tools, Mapping) else {}
        if _covers(policy.get("disabled"), tool):
            raise self.refused(f"tools.disabled takes the ask tool {tool} away; leave it out of that list")
        if policy.get("enabled") and not _covers(policy["enabled"], tool):
            raise self.refused(f"tools.enabled leaves the ask tool out; add {tool!r} to that list")


def _covers(patterns: object, tool: str) -> bool:
    """Tell whether one of a policy's patterns is for an MCP tool; those that do not begin as one are for others."""
    listed = patterns if isinstance(patterns, list) else []
    return any(
        isinstance(each, str) and each.startswith("mcp__") and fnmatch.fnmatchcase(tool, each)
        for each in listed
    )


@frozen
class Instructions:
    """Makes ``AGENTS.md``: the user's, with a text of ours behind it.

    Args:
        text: ours.
    """

    text: str

    def __call__(self, own: str | None) -> str:
        """Return the text."""
        return f"{own}\n\n{self.text}\n" if own and own.strip() else f"{self.text}\n"


@frozen
class Servers(_Made):
    """Makes ``mcp.json``: the user's, with the ask server beside its servers.

    Args:
        name: the ask server's.
        entry: how it is started.
    """

    name: str
    entry: Mapping[str, Any] = field(repr=False)

    def __call__(self, own: str | None) -> str:
        """Return the text."""
        try:
            settings = json.loads(own) if own and own.strip() else {}
        except (ValueError, RecursionError) as error:
            raise self.refused(f"it is no JSON ({error}); correct it") from None
        servers = settings.get("mcpServers", {}) if isinstance(settings, dict) else None
        if not isinstance(servers, dict):
            raise self.refused('it has to be an object with "mcpServers", an object; correct it')
        if self.name in servers:
            raise self.refused(
                f"it has a server {self.name!r}, which cannot be told from the ask server; give it another name"
            )
        settings["mcpServers"] = {**servers, self.name: dict(self.entry)}
        return json.dumps(settings, indent=2)


@frozen
class CliSettings(_Made):
    """Makes the older CLI's ``config.toml``: the user's, with a hook and a limit.

    Args:
        refusal: what the model is told when its call of the native ask tool is blocked; None for no such hook.
        limit_ms: how long a call of an MCP tool may take; None for the user's own limit.
    """

    refusal: str | None
    limit_ms: int | None

    def __call__(self, own: str | None) -> str:
        """Return the text."""
        text = own or ""
        try:
            if self.refusal is not None:
                # A hook that ends with 2 blocks the call, and what it says on stderr goes to the model.
                command = f"echo {_quoted(self.refusal)} >&2; exit 2"
                hook = {"event": "PreToolUse", "matcher": f"^{NATIVE}$", "command": command}
                text = with_entry(text, "hooks", hook)
            if self.limit_ms is not None:
                text = with_value(text, ("mcp", "client", "tool_call_timeout_ms"), self.limit_ms)
        except SettingsError as error:
            raise self.refused(
                f"{error}; correct it, or refuse the changes 'native-ask-hook' and 'call-timeout'"
            ) from None
        return text


def _quoted(text: str) -> str:
    """Return a text as one word of a shell."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


# -- what is brought back ------------------------------------------------------------------------------------------


def _object(text: str | None) -> dict[str, Any]:
    value = json.loads(text) if text and text.strip() else {}
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def _joined_workspaces(before: str | None, written: str) -> str:
    """Put the workspaces that a session saw beside the user's."""
    old, new = _object(before), _object(written)
    spaces = {**_mapping(old.get("workspaces")), **_mapping(new.get("workspaces"))}
    return json.dumps({**old, **new, "workspaces": spaces}, indent=2, ensure_ascii=False)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _joined_work_dirs(before: str | None, written: str) -> str:
    """Put the folders that a session worked in beside the user's: by them a saved conversation is found again."""
    old, new = _object(before), _object(written)
    dirs: dict[object, Any] = {}
    for listed in (old.get("work_dirs"), new.get("work_dirs")):
        for entry in listed if isinstance(listed, list) else []:
            if isinstance(entry, dict):
                dirs[(entry.get("path"), entry.get("kaos"))] = entry
    return json.dumps({**old, **new, "work_dirs": list(dirs.values())}, indent=2, ensure_ascii=False)


def _joined_lines(before: str | None, written: str) -> str:
    """Put the lines that are new behind the user's."""
    lines = (before or "").splitlines(keepends=True)
    known = set(lines)
    return "".join((*lines, *(line for line in written.splitlines(keepends=True) if line not in known)))


def _first(before: str | None, written: str) -> str:
    """Keep the user's where there is one."""
    return before or written


CODE_RECORDS: Final = (
    OverlayRecord("device_id", _first),
    OverlayRecord("session_index.jsonl", _joined_lines),
    OverlayRecord("workspaces.json", _joined_workspaces),
)
"""Kimi Code's records: its own id, which conversations there are, and the folders that they were in."""

CLI_RECORDS: Final = (OverlayRecord("device_id", _first), OverlayRecord("kimi.json", _joined_work_dirs))
"""The older CLI's records."""
