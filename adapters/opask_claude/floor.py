"""The read-only floor: a launch under which nothing is written that the gate did not let through.

The gate is a PreToolUse hook for every tool, registered over the control channel; it holds in every permission mode and
under every rule of the user's. Seen with 2.1.332, 2.1.63 and 2.0.76: what the hook denies is denied under ``acceptEdits`` and
``bypassPermissions``, under a settings file that allows everything, and beside a hook of the user's that allows. Not so: an
answer that is an error counts as none; ``--bare`` and ``CLAUDE_CODE_SIMPLE`` run no hook at all, and at 2.0.76 neither does a
setting ``disableAllHooks``; and an answer that does not come in time denies at 2.1.332 and allows at the other two, so that
the CLI is told to wait for as long as it can. A second layer stays: the CLI's own permission requests, for which the modes and
settings that skip them are taken away.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from opask.effects import ShellTool, Tools
from opask.errors import LaunchError
from opask.launch import Change
from opask_claude.arguments import CommandLine

__all__ = ["CHANGES", "TOOLS", "guarded_env", "without_bypass"]

CHANGES: Final[Mapping[str, Change]] = {
    change.name: change
    for change in (
        Change(
            "write-gate",
            "process",
            "a PreToolUse hook, registered over the control channel, puts every call of every tool to this process first",
        ),
        Change(
            "no-bypass",
            "process",
            "a permission mode that lets changes through unasked, and the options that skip permissions, are taken away",
        ),
        Change(
            "no-settings",
            "process",
            "--setting-sources= keeps the user's and the project's settings out, and with them rules that allow; their "
            "hooks, environment and plugins stay out too",
        ),
        Change(
            "git-guard",
            "process",
            "GIT_CONFIG_COUNT and its like keep git from running what a repository's own settings name as its file system "
            "monitor, from taking a folder of the work tree for a repository, and (GIT_OPTIONAL_LOCKS=0) from refreshing "
            "its index when it only reads",
        ),
    )
}
"""What a read-only floor changes, by name."""

TOOLS: Final = Tools(
    reads=(
        *(
            "Read",
            "Glob",
            "Grep",
            "LS",
            "NotebookRead",
            "ToolSearch",
            "ListMcpResourcesTool",
            "BashOutput",
            "TaskOutput",
        ),
        # The agent's own list of what it has to do.
        *("TodoWrite", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "EnterPlanMode"),
    ),
    # A sub-agent's calls come to the gate one by one; an isolated one gets a copy of the work tree first.
    reads_with=dict.fromkeys(
        ("Agent", "Task"), frozenset({"description", "prompt", "subagent_type", "model", "run_in_background"})
    ),
    writes=("Edit", "MultiEdit", "NotebookEdit", "Write"),
    external=("WebFetch", "WebSearch"),
    shells={"Bash": ShellTool("command", ("description", "timeout", "run_in_background"))},
)
"""What the built-in tools change; of those that are not here, nothing is known."""

# Variables under which there is no telling what a call does before it runs.
_UNGATED: Final = {
    "CLAUDE_CODE_SIMPLE": "runs no hooks, and so no write gate",
    "CLAUDE_AGENT_SDK_MCP_NO_PREFIX": "lets a tool of an MCP server go by the name of one that only reads",
}
_SKIPS: Final = ("--dangerously-skip-permissions", "--allow-dangerously-skip-permissions")
_UNASKED: Final = frozenset({"bypassPermissions", "acceptEdits", "auto"})
_GIT: Final = {"core.fsmonitor": "false", "safe.bareRepository": "explicit"}


def without_bypass(
    line: CommandLine, env: Mapping[str, str], refuse: Callable[[str, str], LaunchError]
) -> CommandLine:
    """Return the command line without what lets changes through unasked; the same one where there is nothing.

    Args:
        line: the host's.
        env: the environment of the launch.
        refuse: makes the error of a launch that cannot have a floor.

    Raises:
        LaunchError: the gate could not stand.
    """
    for option, value in (("--input-format", "stream-json"), ("--permission-prompt-tool", "stdio")):
        if line.last(option) != value:
            raise refuse(
                f"a read-only floor needs the control channel: launch with {option} {value}, so that calls can be put to "
                "this process before they run",
                option,
            )
    if line.has("--bare"):
        raise refuse("--bare runs no hooks, and so no write gate; leave it out", "--bare")
    for name, why in _UNGATED.items():
        if env.get(name, "").strip().lower() not in ("", "0", "false", "no", "off"):
            raise refuse(f"{name} {why}; unset it", name)
    for value in line.values("--settings"):
        _check_settings(value, refuse)
    for option in _SKIPS:
        line = line.without(option)
    if line.last("--permission-mode") in _UNASKED:
        line = line.with_value("--permission-mode", "default")
    return line


def _check_settings(value: str, refuse: Callable[[str, str], LaunchError]) -> None:
    try:
        settings = json.loads(value)
    except (ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise refuse(
            "--settings names a file, which may say disableAllHooks: under a read-only floor give the settings as JSON",
            "--settings",
        )
    if settings.get("disableAllHooks"):
        raise refuse(
            "--settings says disableAllHooks, and the write gate is a hook; take that out", "--settings"
        )


def guarded_env(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment under which git's reads start nothing that a work tree brings along."""
    guarded = dict(env)
    count = env.get("GIT_CONFIG_COUNT", "")
    at = int(count) if count.isascii() and count.isdecimal() else 0
    for name, value in _GIT.items():
        guarded[f"GIT_CONFIG_KEY_{at}"], guarded[f"GIT_CONFIG_VALUE_{at}"] = name, value
        at += 1
    guarded["GIT_CONFIG_COUNT"] = str(at)
    guarded["GIT_OPTIONAL_LOCKS"] = "0"
    return guarded
