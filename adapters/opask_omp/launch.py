"""What a launch of omp needs beside the ask server: settings over the user's own, and room for the operator.

Seen in 18.2.3: of several ``--config`` files the last wins, key by key, and the user's stay as they are; of several
``--append-system-prompt`` only the last counts, and any of them hides the user's own ``APPEND_SYSTEM.md``. A call of an
MCP tool ends after 30 s, and a server that is not there within 250 ms is left out of the model's first request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from opask.launch import Change, LaunchPlan, LaunchRequest, Overlay, OverlayFile
from opask.names import ToolName
from opask.versions import compare_versions
from opask_acp.launch import Planning
from opask_omp.commands import CommandLine
from opask_omp.naming import LONGEST, spelling

__all__ = ["CHANGES", "NATIVE", "RUNTIME", "Appended", "Settings", "can_have_files", "has_clause", "pull"]

RUNTIME: Final = "omp"
NATIVE: Final = "ask"
"""The native ask tool; omp offers it only to a client that fills in forms."""

CALL_ENV: Final = "OMP_MCP_TIMEOUT_MS"
START_ENV: Final = "OMP_MCP_STARTUP_TIMEOUT_MS"
CALL_MS: Final = 30_000.0
START_MS: Final = 15_000
KNOWS_START: Final = "18.3.0"

CHANGES: Final[Mapping[str, Change]] = {
    change.name: change
    for change in (
        Change(
            "native-ask-denied",
            "process",
            f"ask.enabled = false in a settings file of this session keeps the native tool {NATIVE} from the model, "
            "whatever the client can do",
        ),
        Change(
            "direct-tools",
            "process",
            "tools.xdev = false in a settings file of this session puts MCP tools into the model's own list, where they "
            "would be devices that it writes to; some tools of omp's own come into it as well, and parallel calls "
            "run at once",
        ),
        Change(
            "plain-titles",
            "process",
            "tools.intentTracing = false in a settings file of this session makes the title of a call its tool's name, in "
            "place of a phrase of the model's",
        ),
        Change(
            "ask-allowed",
            "process",
            "tools.approval in a settings file of this session lets exactly the ask tool run; in the approval mode "
            "always-ask it would be denied without a word",
        ),
        Change(
            "clause",
            "process",
            "--append-system-prompt tells the model how the operator is reached, or that nobody is there, behind the "
            "host's own text, or that of the user's APPEND_SYSTEM.md",
        ),
        Change(
            "call-timeout",
            "process",
            f"{CALL_ENV}=0 lifts the limit on one call; it holds for every MCP server, so that one that hangs is waited "
            "for until the turn is ended",
        ),
        Change(
            "startup-timeout",
            "process",
            f"{START_ENV} gives MCP servers {START_MS // 1000} s to be there before the session begins, in place of "
            f"250 ms; a slow one of the host's is waited for as well (read from {KNOWS_START} on; the first prompt is held "
            "in any version)",
        ),
    )
}
"""The levers of omp, by name."""

_FOLDER: Final = "omp"
_SETTINGS: Final = "settings.yml"
_APPEND: Final = "--append-system-prompt"
_APPENDED: Final = "APPEND_SYSTEM.md"
_OPTIONS: Final = {_SETTINGS: "--config", _APPENDED: _APPEND}
_PROJECT_FOLDERS: Final = (".omp", ".claude", ".codex", ".gemini")
_LONGEST_PATH: Final = 4096
_LONGEST_NAME: Final = 255
_NUMBER: Final = re.compile(r"\+?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,2})?")


def can_have_files(request: LaunchRequest, folder: Path | None) -> bool:
    """Tell whether the clause can be in a file that the launch names."""
    return folder is not None and "clause" not in request.refuse


def has_clause(plan: LaunchPlan) -> bool:
    """Tell whether a plan has the clause in such a file."""
    return any(file.name == _APPENDED for overlay in plan.overlays for file in overlay.files)


def pull(planning: Planning) -> None:
    """Pull the levers that the launch needs.

    Raises:
        LaunchError: the host's own launch stands against it.
    """
    line = CommandLine(planning.request.argv)
    _check(planning, line)
    folder = _folder(planning)
    if folder is not None:
        files = [*_settings(planning), *_clause(planning, line)]
        if files:
            planning.overlays.append(Overlay(folder / _FOLDER, None, files))
        options = [f"{_OPTIONS[file.name]}={folder / _FOLDER / file.name}" for file in files]
        planning.argv[:] = line.with_options(options)
    if planning.endpoint is None:
        return
    limit = _milliseconds(planning.env.get(CALL_ENV), CALL_MS)
    if limit and planning.pulls("call-timeout"):
        planning.env[CALL_ENV], limit = "0", 0
    planning.ceiling = timedelta(milliseconds=min(limit, 2**53)) if limit else None
    _give_time_to_start(planning)


def _check(planning: Planning, line: CommandLine) -> None:
    if not line.serves:
        raise planning.refused(
            f"{' '.join(planning.request.argv[:1])} is to be started as a server of ACP: omp acp, with its options behind "
            "that",
            "argv",
        )
    if line.unfinished is not None:
        raise planning.refused(f"{line.unfinished} lacks its value", line.unfinished)
    endpoint = planning.endpoint
    if endpoint is None:
        return
    if len(spelling(ToolName(endpoint.server, endpoint.tool))) > LONGEST:
        raise planning.refused(
            f"the name of the ask tool of the server {endpoint.server!r} is longer than {LONGEST} characters; give the "
            "server a shorter one",
            "server",
        )


def _folder(planning: Planning) -> Path | None:
    endpoint = planning.endpoint
    return planning.request.folder if endpoint is None else endpoint.folder


# -- settings ------------------------------------------------------------------------------------------------------


@frozen
class Settings:
    """Makes the settings of this session; what they leave out is as the user and the host have it.

    Args:
        text: the settings.
    """

    text: str

    def __call__(self, own: str | None) -> str:
        """Return the text."""
        return self.text


def _settings(planning: Planning) -> Iterator[OverlayFile]:
    """Give the file of this session's settings, where there are any."""
    settings: dict[str, dict[str, Any]] = {}
    if planning.pulls("native-ask-denied"):
        settings["ask"] = {"enabled": False}
    tool = planning.tool
    if tool is not None:
        tools: dict[str, Any] = {}
        if planning.pulls("direct-tools"):
            tools["xdev"] = False
        if planning.pulls("plain-titles"):
            tools["intentTracing"] = False
        if planning.pulls("ask-allowed"):
            tools["approval"] = {tool: "allow"}
        settings |= {"tools": tools} if tools else {}
    if settings:
        text = f"{json.dumps(settings, indent=1)}\n"  # JSON is YAML, too
        yield OverlayFile(_SETTINGS, Settings(text), ())


# -- the system prompt -----------------------------------------------------------------------------------------------


@frozen
class Appended:
    """Makes what is put behind the system prompt: the host's or the user's own text, and ours behind it.

    Args:
        text: ours.
        own: the host's own, where no file is there that has it.
    """

    text: str
    own: str = ""

    def __call__(self, own: str | None) -> str:
        """Return the text."""
        before = self.own if own is None else own
        return f"{before}\n\n{self.text}\n" if before.strip() else f"{self.text}\n"


def _clause(planning: Planning, line: CommandLine) -> Iterator[OverlayFile]:
    """Give the file that has the clause behind the host's or the user's own text."""
    if planning.profile.clause_by != "launch" or not planning.words or not planning.pulls("clause"):
        return
    planning.text = planning.words
    hosts = line.last(_APPEND)
    sources = _users(planning, line) if hosts is None else _named(planning, line, hosts)
    yield OverlayFile(_APPENDED, Appended(planning.words, hosts or ""), tuple(sources))


def _where(planning: Planning, line: CommandLine) -> Path | None:
    """Return the folder that omp takes for the project's."""
    cwd, named = planning.request.cwd, line.last("--cwd")
    if named is None:
        return cwd
    return Path(named) if cwd is None else cwd / named


def _named(planning: Planning, line: CommandLine, value: str) -> Iterator[Path]:
    """Give the file that the host's text may be the name of, as omp looks for it."""
    is_name = value and not set("\n\0") & set(value) and len(value) <= _LONGEST_PATH
    if not is_name or any(len(part.encode(errors="replace")) > _LONGEST_NAME for part in value.split("/")):
        return
    cwd = _where(planning, line)
    path = Path(value) if cwd is None else cwd / value
    if path.is_absolute():
        yield path


def _users(planning: Planning, line: CommandLine) -> Iterator[Path]:
    """Give the files that the user's own text may be in, the project's first, as omp looks for them."""
    cwd, env = _where(planning, line), planning.request.env
    if cwd is not None and cwd.is_absolute():
        yield from (cwd / folder / _APPENDED for folder in _PROJECT_FOLDERS)
    home = env.get("HOME", "")
    if not Path(home).is_absolute():
        return
    profile = line.last("--profile") or env.get("OMP_PROFILE", env.get("PI_PROFILE", ""))
    root = Path(home, env.get("PI_CONFIG_DIR") or ".omp")
    is_named = profile.strip() not in ("", "default")
    yield (root / "profiles" / profile.strip() if is_named else root) / "agent" / _APPENDED


# -- time -----------------------------------------------------------------------------------------------------------


def _give_time_to_start(planning: Planning) -> None:
    version = planning.request.version
    if version is not None and compare_versions(version, KNOWS_START) == -1:
        return
    limit = _milliseconds(planning.env.get(START_ENV), 250.0)
    if 0 < limit < START_MS and planning.pulls("startup-timeout"):
        planning.env[START_ENV] = str(START_MS)


def _milliseconds(value: str | None, usual: float) -> float:
    """Return a limit as omp reads it from the environment; 0 for none."""
    written = (value or "").strip()
    return float(written) if _NUMBER.fullmatch(written) else usual
