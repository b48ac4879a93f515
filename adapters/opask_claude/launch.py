"""Merge the ask tool into a host's own launch of the claude CLI.

Nothing here reads a file: what the host gives in files is left to the CLI, whose own order of precedence keeps
ours (its last ``--mcp-config`` wins, and wins over the project's and the user's servers; seen with 2.1.332).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from attrs import define, field

from opask.errors import WaitTooLongError
from opask.launch import Change, Endpoint, LaunchFile, LaunchPlan, LaunchRequest
from opask.versions import compare_versions
from opask_claude.arguments import CommandLine, tool_rules
from opask_claude.conflicts import asks_host, check, is_on, refusal
from opask_claude.floor import CHANGES as FLOOR_CHANGES
from opask_claude.floor import guarded_env, without_bypass
from opask_claude.tools import NATIVE, RUNTIME, ask_tools, clause, covers

__all__ = ["CHANGES", "plan_launch", "resumes"]

_BACKGROUND_MS = "CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS"
_PRINT_WAIT_MS = "CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS"

CHANGES: Final[Mapping[str, Change]] = {
    change.name: change
    for change in (
        Change(
            "native-ask-denied",
            "process",
            f"--disallowedTools takes {NATIVE} from the model, so that there is one path to the operator, or none",
        ),
        Change(
            "clause",
            "process",
            "--append-system-prompt tells the model how the operator is reached, or that nobody is there; it is put "
            "behind the host's own text",
        ),
        Change(
            "fresh-system-prompt",
            "process",
            "--system-prompt-snapshot=off sends a resumed conversation what is true now, and not the clause that it "
            "was begun with; the first request after a resume is not served from the prompt cache (left "
            "out for a CLI that is known to be older than the option)",
        ),
        Change(
            "ask-server",
            "process",
            "--mcp-config adds the MCP server that has the ask tool; the host's own stay",
        ),
        Change(
            "ask-allowed",
            "process",
            "--allowedTools lets exactly the ask tool run without a permission request",
        ),
        Change(
            "always-load",
            "server",
            "alwaysLoad shows the ask tool to the model from the start; deferred, it would have to be searched for",
        ),
        Change(
            "call-timeout",
            "server",
            "timeout lifts the limits on one call of the ask server to the longest that there is, about 24 days",
        ),
        Change(
            "foreground-calls",
            "process",
            f"{_BACKGROUND_MS}=0 keeps a waiting call in the foreground, where its answer is not lost; it holds for "
            "the calls of other MCP servers too",
        ),
        Change(
            "background-wait",
            "process",
            f"{_PRINT_WAIT_MS} adds the operator's time to what `claude -p` grants its background agents after the "
            "last turn; one that hangs is waited for that much longer",
        ),
        *FLOOR_CHANGES.values(),
    )
}
"""Every lever that a launch may pull, by name."""

_LONGEST_MS = 2**31 - 1  # the CLI's longest timer
_DEFAULT_CALL_MS = 100_000_000
_DEFAULT_BACKGROUND_MS = 120_000
_DEFAULT_PRINT_WAIT_MS = 600_000
_MARGIN = timedelta(seconds=5)
_CONFIG_NAME = "claude-mcp.json"
_KEEPS_PROMPTS = "2.1.257"  # the first one that does, says the changelog of its vendor's SDK
_RESUMES = ("--resume", "--continue", "--from-pr", "--teleport")
_OFF = frozenset({"", "0", "false", "no", "off"})


def plan_launch(request: LaunchRequest, endpoint: Endpoint | None) -> LaunchPlan:
    """Return the host's launch with the ask tool in it, or with nobody there to ask."""
    line = CommandLine(request.argv)
    check(request, line, endpoint, CHANGES)
    planning = _Planning(request, endpoint, line)
    if request.read_only:
        planning.lay_floor()
    planning.deny_native()
    planning.add_clause()
    if endpoint is None:
        return planning.plan(reason="nobody is there to ask")
    planning.attach(endpoint)
    planning.hold_calls(endpoint)
    return planning.plan()


def resumes(line: CommandLine) -> bool:
    """Tell whether a launch goes on with a conversation that was begun before."""
    return any(line.has(name) for name in _RESUMES)


def _route(endpoint: Endpoint | None) -> str | None:
    """Return the registry's id of the route to an endpoint."""
    if endpoint is None:
        return None
    return "mcp-stdio" if endpoint.command else "mcp-http"


def _config(endpoint: Endpoint, refused: frozenset[str]) -> dict[str, Any]:
    """Return the entry of the ask server in an MCP configuration."""
    if endpoint.command:
        program, *arguments = endpoint.command
        server: dict[str, Any] = {"type": "stdio", "command": program, "args": arguments}
        if endpoint.env:
            server["env"] = dict(endpoint.env)
    else:
        server = {"type": "http", "url": endpoint.url}
        if endpoint.token is not None:
            server["headers"] = {"Authorization": f"Bearer {endpoint.token}"}
    if "always-load" not in refused:
        server["alwaysLoad"] = True
    if "call-timeout" not in refused:
        server["timeout"] = _LONGEST_MS
    return server


@define
class _Planning:
    """One launch on its way to its plan."""

    request: LaunchRequest
    endpoint: Endpoint | None
    line: CommandLine
    env: dict[str, str] = field(init=False)
    files: list[LaunchFile] = field(init=False, factory=list)
    changes: list[Change] = field(init=False, factory=list)
    text: str | None = field(init=False, default=None)
    ceiling: timedelta | None = field(init=False, default=None)
    tool: str | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.env = dict(self.request.env)
        self.tool = next(iter(ask_tools(self.endpoint).supplied), None)

    def plan(self, reason: str | None = None) -> LaunchPlan:
        return LaunchPlan(
            argv=self.line.argv,
            env=self.env,
            files=self.files,
            clause=self.text,
            route=_route(self.endpoint),
            questions=reason is None,
            reason=reason,
            wait=None if self.endpoint is None else self.endpoint.wait,
            ceiling=self.ceiling,
            changes=self.changes,
            endpoint=self.endpoint,
            read_only=self.request.read_only,
        )

    def pulls(self, name: str) -> bool:
        """Tell whether a lever may be pulled, and list it if so."""
        if name in self.request.refuse:
            return False
        self.changes.append(CHANGES[name])
        return True

    # -- the levers -----------------------------------------------------------------------------------------------

    def lay_floor(self) -> None:
        """See to it that nothing is written that the gate does not let through; what that takes cannot be refused."""
        bare = without_bypass(self.line, self.env, refusal)
        self._has_to_pull("write-gate")
        if bare != self.line:
            self._has_to_pull("no-bypass")
        self.line = bare
        if bare.last("--setting-sources") != "":
            self._has_to_pull("no-settings")
            self.line = bare.with_value("--setting-sources", "")
        if self.pulls("git-guard"):
            self.env = guarded_env(self.env)

    def _has_to_pull(self, name: str) -> None:
        if not self.pulls(name):
            raise refusal(
                f"with the change {name!r} refused the agent could write past the gate; do not refuse it, or launch without a "
                "read-only floor",
                f"refuse {name}",
            )

    def deny_native(self) -> None:
        if NATIVE in tool_rules(self.line.values("--disallowedTools")):
            return
        if self.pulls("native-ask-denied"):
            self.line = self.line.with_options(f"--disallowedTools={NATIVE}")
        elif not asks_host(self.line):
            raise refusal(
                f"with the change 'native-ask-denied' refused nothing keeps {NATIVE} away here: only a host that gets "
                "the permission requests (--permission-prompt-tool stdio) can do without it",
                "refuse native-ask-denied",
            )

    def add_clause(self) -> None:
        text = self.request.clause if self.request.clause is not None else clause(self.tool)
        if not text or not self.pulls("clause"):
            return
        self.text = text
        own = self.line.last("--append-system-prompt")
        self.line = self.line.with_value("--append-system-prompt", f"{own}\n\n{text}" if own else text)
        if not resumes(self.line) or self.line.has("--system-prompt-snapshot") or not self._keeps_prompts():
            return
        if self.pulls("fresh-system-prompt"):
            self.line = self.line.with_options("--system-prompt-snapshot=off")

    def _keeps_prompts(self) -> bool:
        """Tell whether the CLI keeps a conversation's system prompt; one that does not takes no option against it."""
        version = self.request.version
        return version is None or compare_versions(version, _KEEPS_PROMPTS) != -1

    def attach(self, endpoint: Endpoint) -> None:
        assert self.tool is not None
        if not self.pulls("ask-server"):
            raise refusal(
                "with the change 'ask-server' refused there is nothing to ask with; attach the session without a "
                "prompter instead",
                "refuse ask-server",
            )
        servers = {endpoint.server: _config(endpoint, self.request.refuse)}
        path = endpoint.folder / _CONFIG_NAME
        self.files.append(LaunchFile(path, json.dumps({"mcpServers": servers}, indent=1)))
        self.line = self.line.with_options(f"--mcp-config={path}")  # the last one wins
        for name in ("always-load", "call-timeout"):
            self.pulls(name)
        allowed = tool_rules(self.line.values("--allowedTools"))
        if self.tool in allowed:
            return
        if self.pulls("ask-allowed"):
            self.line = self.line.with_options(f"--allowedTools={self.tool}")
        elif not any(covers(rule, self.tool) for rule in allowed) and not self._runs_unasked():
            raise refusal(
                f"with the change 'ask-allowed' refused the ask tool would be denied here: allow {self.tool} "
                "yourself, or take the permission requests (--permission-prompt-tool stdio) in a mode that makes them",
                "refuse ask-allowed",
            )

    def _runs_unasked(self) -> bool:
        """Tell whether the ask tool runs though no rule allows it, as seen with 2.1.332."""
        mode = self.line.last("--permission-mode")
        if self.line.has("--dangerously-skip-permissions") or mode == "bypassPermissions":
            return True
        return asks_host(self.line) and mode in (None, "default", "manual", "acceptEdits")

    def hold_calls(self, endpoint: Endpoint) -> None:
        """See to it that a call waits as long as the operator may take."""
        limit = _LONGEST_MS
        if "call-timeout" in self.request.refuse:
            limit = min(
                max(_milliseconds(self.env.get("MCP_TOOL_TIMEOUT")) or _DEFAULT_CALL_MS, 1000), _LONGEST_MS
            )
        if self.env.get(_BACKGROUND_MS) != "0":
            if self.pulls("foreground-calls"):
                self.env[_BACKGROUND_MS] = "0"
            elif self._backgrounds_calls():
                limit = min(limit, _milliseconds(self.env.get(_BACKGROUND_MS)) or _DEFAULT_BACKGROUND_MS)
        ceiling = timedelta(milliseconds=limit)
        unbounded = endpoint.wait is None and limit == _LONGEST_MS  # as good as: it is more than three weeks
        self.ceiling = None if unbounded else ceiling
        if not unbounded and (endpoint.wait is None or endpoint.wait > ceiling - _MARGIN):
            asked = (
                "an unbounded wait"
                if endpoint.wait is None
                else f"a wait of {endpoint.wait.total_seconds():g} s"
            )
            raise WaitTooLongError(
                f"{RUNTIME}: {asked} cannot be had, this launch holds a call for {ceiling.total_seconds():g} s: wait "
                "less, or do not refuse the changes 'call-timeout' and 'foreground-calls'",
                runtime=RUNTIME,
                what="wait",
            )
        self._hold_print(endpoint)

    def _backgrounds_calls(self) -> bool:
        # Interactive, the CLI does so by itself; with -p only where it is told to.
        wanted = self.env.get("CLAUDE_AUTO_BACKGROUND_TASKS", "").strip().lower() not in _OFF
        return (wanted or not self.line.has("--print")) and not is_on(
            self.env, "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"
        )

    def _hold_print(self, endpoint: Endpoint) -> None:
        """Let ``claude -p`` outlive the open question of a background agent."""
        granted = _milliseconds(self.env.get(_PRINT_WAIT_MS))
        granted = _DEFAULT_PRINT_WAIT_MS if granted is None else granted
        if granted == 0 or not self.line.has("--print") or not self.pulls("background-wait"):
            return
        added = 0 if endpoint.wait is None else granted + int(endpoint.wait / timedelta(milliseconds=1))
        self.env[_PRINT_WAIT_MS] = str(min(added, _LONGEST_MS))


def _milliseconds(value: str | None) -> int | None:
    """Read a number of milliseconds out of the environment, within the CLI's range; None where there is none."""
    digits = (value or "").strip()
    return min(int(digits[:12]), _LONGEST_MS) if digits.isdecimal() else None
