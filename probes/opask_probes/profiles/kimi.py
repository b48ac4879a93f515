"""Kimi Code, and the older Kimi CLI, as the scenarios play to them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from attrs import evolve

from opask_probes.model import Call
from opask_probes.scripts import QUESTIONS

from .acp import launched_by, with_server
from .terms import Launch, LongWait, Mode, Profile

__all__ = ["KIMI", "KIMI_CLI", "KIMI_NATIVE", "KIMI_NATIVE_PRINT", "KIMI_PRINT"]

_SETTINGS: Final = ".kimi-code/config.toml"
_CLI_SETTINGS: Final = ".kimi/config.toml"
_LIMIT: Final = LongWait(90, "a call of an MCP tool is given up after 60 s")
_UNRECORDED: Final = frozenset({"availableCommands", "configOptions", "modes", "models"})


def _native(text: str) -> Call:
    question = dict(QUESTIONS[text])
    question["multi_select"] = question.pop("multiSelect")
    return Call("AskUserQuestion", {"questions": [question]})


def _sub_agent(prompt: str) -> Call:
    return Call("Agent", {"description": "Ask the operator", "prompt": prompt, "subagent_type": "coder"})


# -- Kimi Code ---------------------------------------------------------------------------------------------------------


def _bypass(launch: Launch) -> Launch:
    return evolve(launch, settings={_SETTINGS: 'default_permission_mode = "yolo"\n'})


def _print(program: str, prompt: str, mode: Mode) -> Launch:
    # Whatever its user's mode is, it asks for nothing when it prints.
    launch = Launch((program, f"--prompt={prompt}", "--output-format", "stream-json"))
    return _bypass(launch) if mode == "bypass" else launch


def _print_with_server(launch: Launch, name: str, command: Sequence[str]) -> Launch:
    servers = {"mcpServers": {name: {"command": command[0], "args": list(command[1:])}}}
    return evolve(launch, settings={**launch.settings, ".kimi-code/mcp.json": json.dumps(servers)})


KIMI: Final = Profile(
    runtime="kimi",
    route="mcp-stdio",
    launch=launched_by("acp", bypass=_bypass),
    native=_native,
    sub_agent=_sub_agent,
    with_server=with_server,
    marks_errors=False,
    long_wait=_LIMIT,
    unrecorded=_UNRECORDED,
)

KIMI_PRINT: Final = evolve(KIMI, route="mcp-stdio-print", launch=_print, with_server=_print_with_server)
KIMI_NATIVE: Final = evolve(KIMI, route="native")
KIMI_NATIVE_PRINT: Final = evolve(KIMI_PRINT, route="native-print")

# -- Kimi CLI ----------------------------------------------------------------------------------------------------------


def _cli_bypass(launch: Launch) -> Launch:
    return evolve(launch, settings={_CLI_SETTINGS: "default_yolo = true\n"})


KIMI_CLI: Final = Profile(
    runtime="kimi-cli",
    route="mcp-stdio",
    launch=launched_by("acp", bypass=_cli_bypass),
    native=_native,
    sub_agent=_sub_agent,
    clause_in="prompt",
    unless={
        "foreign": "a launch with another MCP server is refused, since its names say nothing of a server",
    },
    marks_errors=False,
    long_wait=_LIMIT,
    unrecorded=_UNRECORDED,
)
