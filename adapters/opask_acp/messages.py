"""The messages that a client sends, in the forms of ACP's versions 1 and 2.

Version 1 is what is spoken; an agent that knows only version 2 (a draft) answers so, and gets the forms of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from attrs import frozen

from opask.launch import Endpoint
from opask_acp.jsonrpc import Message, at, items, mapping, text

__all__ = [
    "PROTOCOL_VERSION",
    "Agent",
    "cancelled_permission",
    "initialize",
    "prompt_blocks",
    "prompt_text",
    "selected_permission",
    "server_entry",
    "server_entry_for",
    "servers_for",
]

PROTOCOL_VERSION: Final = 1


@frozen
class Agent:
    """What an agent said of itself in its answer to ``initialize``.

    Args:
        answer: that answer.
    """

    answer: Message

    @property
    def protocol(self) -> int:
        """The version of the protocol that the agent speaks; 1 where it does not say."""
        version = self.answer.get("protocolVersion")
        return version if isinstance(version, int) and not isinstance(version, bool) else PROTOCOL_VERSION

    @property
    def takes_http(self) -> bool:
        """Whether it reaches an MCP server over HTTP."""
        if self.protocol >= 2:
            return at(self.answer, "capabilities", "session", "mcp", "http") is not None
        return at(self.answer, "agentCapabilities", "mcpCapabilities", "http") is True

    @property
    def takes_stdio(self) -> bool:
        """Whether it starts MCP servers; in version 1 every agent has to."""
        return self.protocol < 2 or at(self.answer, "capabilities", "session", "mcp", "stdio") is not None

    @property
    def resumes_by(self) -> Literal["session/resume", "session/load"] | None:
        """The method by which it goes on with a session, the one without a replay preferred."""
        capabilities = mapping(self.answer, "agentCapabilities")
        if self.protocol >= 2 or at(capabilities, "sessionCapabilities", "resume") is not None:
            return "session/resume"
        return "session/load" if capabilities.get("loadSession") is True else None


def initialize(info: Mapping[str, str], capabilities: Mapping[str, Any], *, elicitation: bool) -> Message:
    """Return the parameters of ``initialize``.

    Args:
        info: who the client is.
        capabilities: what the host can do for the agent.
        elicitation: whether forms are among it; whatever the capabilities say of them does not count.
    """
    able: dict[str, Any] = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
    able |= capabilities
    able.pop("elicitation", None)
    if elicitation:
        able["elicitation"] = {"form": {}}
    return {"protocolVersion": PROTOCOL_VERSION, "clientCapabilities": able, "clientInfo": dict(info)}


def server_entry(endpoint: Endpoint, transport: Literal["stdio", "http"]) -> Message:
    """Return the ask server as ``session/new`` names it in version 1.

    A stdio entry has no ``type``, and needs ``args`` and ``env`` even where they are empty, the latter as a list.
    """
    if transport == "http":
        token = () if endpoint.token is None else (("Authorization", f"Bearer {endpoint.token}"),)
        headers = [{"name": name, "value": value} for name, value in token]
        return {"type": "http", "name": endpoint.server, "url": endpoint.url or "", "headers": headers}
    program, *arguments = endpoint.command
    env = [{"name": name, "value": value} for name, value in endpoint.env.items()]
    return {"name": endpoint.server, "command": program, "args": arguments, "env": env}


def server_entry_for(agent: Agent, entry: Message, endpoint: Endpoint) -> Message | None:
    """Return the ask server's entry as an agent can use it.

    Args:
        agent: who is to use it.
        entry: as it was planned.
        endpoint: what it is of.

    Returns:
        The entry, over another transport where the agent has not the planned one; None where it has neither.
    """
    wants_http = entry.get("type") == "http"
    if wants_http and not agent.takes_http and endpoint.command and agent.takes_stdio:
        entry, wants_http = server_entry(endpoint, "stdio"), False
    elif not wants_http and not agent.takes_stdio and endpoint.url and agent.takes_http:
        entry, wants_http = server_entry(endpoint, "http"), True
    return entry if (agent.takes_http if wants_http else agent.takes_stdio) else None


def servers_for(agent: Agent, entries: Iterable[Message]) -> list[Message]:
    """Return entries in the form of the version that an agent speaks: in version 2 each names its type."""
    if agent.protocol < 2:
        return [dict(entry) for entry in entries]
    return [{"type": "stdio", **entry} for entry in entries]


def prompt_blocks(text: str, clause: str | None) -> Sequence[Message]:
    """Return a prompt's content: the host's own text, and what else the agent has to be told in a block behind it."""
    texts = [text] if clause is None else [text, f"\n\n{clause}"]
    return [{"type": "text", "text": each} for each in texts]


def prompt_text(params: Message) -> str | None:
    """Return the text that a prompt begins with, by which an agent knows a command; None where it has none."""
    first = next(iter(items(params, "prompt")), None)
    return text(first, "text") if isinstance(first, Mapping) and first.get("type") == "text" else None


def selected_permission(option_id: str) -> Message:
    """Return the answer to a permission request that takes one of its options."""
    return {"outcome": {"outcome": "selected", "optionId": option_id}}


def cancelled_permission() -> Message:
    """Return the answer to a permission request that takes none of its options."""
    return {"outcome": {"outcome": "cancelled"}}
