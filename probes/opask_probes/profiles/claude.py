"""Claude Code, as the scenarios play to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from attrs import evolve

from opask_probes.model import Call
from opask_probes.scripts import QUESTIONS

from .terms import Launch, LongWait, Mode, Profile

__all__ = ["CLAUDE", "CLAUDE_HTTP", "CLAUDE_NATIVE"]

_STREAM: Final = ("--output-format", "stream-json", "--verbose")
_CONTROL: Final = ("--input-format", "stream-json", *_STREAM, "--permission-prompt-tool", "stdio")


def _launch(program: str, prompt: str, mode: Mode) -> Launch:
    match mode:
        case "plain":
            return Launch((program, "-p", prompt, *_STREAM))
        case "bypass":
            return Launch((program, "-p", prompt, *_STREAM, "--permission-mode", "bypassPermissions"))
        case "interruptible":  # a turn in text mode ends only with its process
            return Launch((program, "-p", *_CONTROL))


def _launch_allowing_native(program: str, prompt: str, mode: Mode) -> Launch:
    launch = _launch(program, prompt, mode)
    return evolve(launch, argv=(*launch.argv, "--allowedTools=AskUserQuestion"))


def _sub_agent(prompt: str) -> Call:
    how = {"subagent_type": "general-purpose", "run_in_background": False}
    # Up to 2.0 it was called Task, as the list of tools in `system/init` has it to this day.
    return Call("Agent", {"description": "Ask the operator", "prompt": prompt, **how}, ("Task",))


def _with_server(launch: Launch, name: str, command: Sequence[str]) -> Launch:
    server = {"type": "stdio", "command": command[0], "args": list(command[1:]), "alwaysLoad": True}
    return evolve(launch, argv=(*launch.argv, f"--mcp-config={json.dumps({'mcpServers': {name: server}})}"))


CLAUDE: Final = Profile(
    runtime="claude",
    route="mcp-stdio",
    launch=_launch,
    native=lambda text: Call("AskUserQuestion", {"questions": [QUESTIONS[text]]}),
    sub_agent=_sub_agent,
    with_server=_with_server,
    long_wait=LongWait(
        150,
        "a call of 120 s is moved to the background where the user's environment says so, and its answer is lost",
        {"CLAUDE_AUTO_BACKGROUND_TASKS": "1"},
    ),
    unrecorded=frozenset(
        {
            "agents",
            "commands",
            "memory_paths",
            "modelUsage",
            "models",
            "plugins",
            "skills",
            "slash_commands",
            "terminal_slash_commands",
            "total_cost_usd",
            "usage",
        }
    ),
)

CLAUDE_HTTP: Final = evolve(
    CLAUDE,
    route="mcp-http",
    unless={"slow-start": "over HTTP no ask server is started"},
    long_wait=LongWait(330, "a call whose event stream is silent for 300 s is given up"),
)

# No terminal and no permission channel; allowed, so that it is not for want of a permission that it fails.
CLAUDE_NATIVE: Final = evolve(CLAUDE, route="native", launch=_launch_allowing_native)
