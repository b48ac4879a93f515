"""Which names mean this session's ask tool, and no other server's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from attrs import evolve

from opask.launch import Endpoint
from opask.names import AskTools, ToolName
from opask_acp.profile import Profile

__all__ = ["ask_tools", "session_server", "unmistakable"]


def session_server(endpoint: Endpoint) -> str:
    """Return a server name that is this session's alone: letters and digits, made from its private folder.

    It has no separator in it, so that no name before it can be part of it.
    """
    secret = "\0".join((str(endpoint.folder), *endpoint.command, endpoint.url or ""))
    return f"{endpoint.server}{hashlib.sha256(secret.encode(errors='replace')).hexdigest()[:10]}"


def _own_spellings(profile: Profile, endpoint: Endpoint, servers: Iterable[str]) -> tuple[str, ...]:
    """Return the spellings of the ask tool that no tool of the other servers can have."""
    others = tuple(servers)
    spellings = profile.spellings(ToolName(endpoint.server, endpoint.tool))
    return tuple(
        spelling
        for spelling in spellings
        if spelling not in profile.native
        and not any(profile.can_spell(server, spelling) for server in others)
    )


def unmistakable(profile: Profile, endpoint: Endpoint, servers: Iterable[str]) -> Endpoint | None:
    """Return the endpoint under a name by which its tool cannot be taken for another server's, nor the other way.

    Args:
        profile: how the runtime spells tools.
        endpoint: where the ask tool is served.
        servers: the other MCP servers that are known at launch.

    Returns:
        The endpoint as it is, or with a server name of this session's own; None where neither helps.
    """
    others = tuple(servers)
    renamed = evolve(endpoint, server=session_server(endpoint))
    whole = len(profile.spellings(ToolName(endpoint.server, endpoint.tool)))
    if len(_own_spellings(profile, endpoint, others)) == whole and endpoint.server not in others:
        return endpoint
    return renamed if _own_spellings(profile, renamed, others) and renamed.server not in others else None


def ask_tools(profile: Profile, endpoint: Endpoint | None, servers: Iterable[str]) -> AskTools:
    """Return the ask tools of a session; without an endpoint there is only the native one, to be denied.

    Args:
        profile: how the runtime spells tools.
        endpoint: where the ask tool is served.
        servers: the other MCP servers that are known at launch.
    """
    supplied = () if endpoint is None else _own_spellings(profile, endpoint, servers)
    return AskTools(supplied=supplied, native=profile.native)
