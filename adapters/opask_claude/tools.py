"""How claude spells tools, and what it is told about them."""

from __future__ import annotations

import re
from typing import Final

from opask.launch import Endpoint
from opask.names import AskTools, ToolName, sanitise

__all__ = ["NATIVE", "RUNTIME", "ask_tools", "clause", "covers", "mangled", "native_refusal", "spelling"]

RUNTIME: Final = "claude"

NATIVE: Final = "AskUserQuestion"
"""The runtime's own ask tool."""

_PREFIX = "mcp__"


def mangled(name: str) -> str:
    """Return the name of an MCP server or of its tool as the CLI writes it; several names can give the same."""
    return sanitise(name, "A-Za-z0-9_-")


def spelling(name: ToolName) -> str:
    """Return an MCP tool's name as the model, the events and the permission rules have it."""
    return name.spelled(_PREFIX + "{server}__{tool}", mangled)


def ask_tools(endpoint: Endpoint | None) -> AskTools:
    """Return the ask tools of a session; without an endpoint there is only the native one, to be denied."""
    supplied = () if endpoint is None else (spelling(ToolName(endpoint.server, endpoint.tool)),)
    return AskTools(supplied=supplied, native=(NATIVE,))


def covers(rule: str, tool: str) -> bool:
    """Tell whether a permission rule covers an MCP tool.

    A rule is a tool's name, an MCP server's (``mcp__server``), or a pattern with ``*``; what stands in parentheses
    narrows it down to some calls and is not looked at.

    Args:
        rule: as the CLI's ``--disallowedTools`` and the settings have it.
        tool: the tool's spelling.
    """
    name = rule.partition("(")[0].strip()
    pattern = ".*".join(re.escape(part) for part in name.split("*"))
    if re.fullmatch(pattern, tool, re.DOTALL):
        return True
    return name.startswith(_PREFIX) and "__" not in name[len(_PREFIX) :] and tool.startswith(f"{name}__")


def clause(tool: str | None) -> str:
    """Return what the system prompt is to say.

    Args:
        tool: the spelling of the supplied tool; None where nobody is there to ask.
    """
    if tool is None:
        return (
            f"No human operator can be reached in this session. {NATIVE} is not available, and a question in your "
            "text is read by nobody while you work. Proceed alone: where something is left open, choose the most "
            "reasonable and least destructive way, go on, and say at the end what you assumed."
        )
    return (
        f"A human operator can be reached while you work, through the tool {tool}: call it whenever you need a "
        f"decision, a preference or a fact that only the operator has, and wait for its result. {NATIVE} is not "
        "available in this session, and a question in your text is read by nobody while you work."
    )


def native_refusal(tool: str | None) -> str:
    """Return what the model is told when its call of the native ask tool is denied.

    Args:
        tool: the spelling of the supplied tool; None where nobody is there to ask.
    """
    if tool is None:
        return f"{NATIVE} reaches nobody: no human operator is there in this session. Proceed without this input."
    return (
        f"{NATIVE} does not reach the operator in this session. Call {tool} with the same questions instead."
    )
