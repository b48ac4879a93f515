"""What a host itself brings to an ACP connection, and what it takes on itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import Factory, field, frozen

__all__ = ["VERSION", "HostClient"]

VERSION: Final = "0.1.0"
"""This package's version, told to agents."""


def _names(value: Iterable[str]) -> frozenset[str]:
    return frozenset({value} if isinstance(value, str) else value)


@frozen(kw_only=True)
class HostClient:
    """The host's part in a connection.

    Args:
        mcp_servers: the host's own MCP servers, in the protocol's form; given to the agent beside the ask server.
        resume: the id of a session to go on with, None to begin one.
        authenticate: the id of the authentication method to use, where the agent asks for one.
        capabilities: what the host can do for the agent (``clientCapabilities``), elicitation aside.
        methods: requests of the agent that the host answers itself, such as ``fs/read_text_file``; every other one
            that opask does not know is answered as unknown, so that the agent does not wait for ever. Permission
            requests, and the forms of the agent's own ask tool, are never among them.
        talks: whether the host has a client of its own, which opens the session and prompts. The conversation then
            only listens, and answers what is its business; give the client's messages to `sent`.
        info: who the agent is told that it talks to.
    """

    mcp_servers: tuple[Mapping[str, Any], ...] = field(default=(), converter=tuple[Mapping[str, Any], ...])
    resume: str | None = None
    authenticate: str | None = None
    capabilities: Mapping[str, Any] = Factory(dict)
    methods: frozenset[str] = field(default=frozenset(), converter=_names)
    talks: bool = False
    info: Mapping[str, str] = field(factory=lambda: {"name": "opask", "version": VERSION})

    @property
    def servers(self) -> tuple[str, ...]:
        """The names of the host's own MCP servers."""
        return tuple(name for server in self.mcp_servers if isinstance(name := server.get("name"), str))
