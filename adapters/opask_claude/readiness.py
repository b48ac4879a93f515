"""What the CLI's ``system/init`` says of the ask tool.

The CLI starts, and exits with 0, also where the ask server failed: its own list of tools and servers is the proof.
"""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from opask_claude.messages import Message, items, text
from opask_claude.tools import mangled

__all__ = ["Readiness", "read_init"]


@frozen
class Readiness:
    """Whether the agent has the ask tool.

    Args:
        missing: why it has not; None where it has.
        status: the CLI's own word for the server's state.
        reason: the same for a person to read.
        foreign: whether the tool of that name is, or may be, somebody else's.
    """

    missing: Literal["failed", "pending", "not_listed"] | None = None
    status: str | None = None
    reason: str | None = None
    foreign: bool = False


def read_init(init: Message, server: str, tool: str) -> Readiness:
    """Read a ``system/init``.

    Args:
        init: the message.
        server: the name of the ask server.
        tool: the spelling of the ask tool.
    """
    servers = [entry for entry in items(init, "mcp_servers") if isinstance(entry, dict)]
    same = [entry for entry in servers if mangled(text(entry, "name") or "") == mangled(server)]
    listed = tool in items(init, "tools")
    status = text(same[0], "status") if same else None
    if len(same) > 1:
        names = ", ".join(repr(entry.get("name")) for entry in same)
        return Readiness(
            "not_listed", status, f"the CLI has several servers that it calls alike: {names}", foreign=True
        )
    source = text(same[0], "source") if same else None
    if source not in (None, "dynamic"):  # ``dynamic`` is what --mcp-config gave
        reason = f"the CLI has its server {server!r} from {source} settings and not from this launch"
        return Readiness("not_listed", status, reason, foreign=True)
    if status == "pending":
        return Readiness("pending", status, "the ask server had not listed its tool when the turn began")
    if status not in (None, "connected"):
        return Readiness("failed", status, f"the CLI says that the ask server is {status!r}")
    if not listed:
        return Readiness("not_listed", status, f"the CLI does not list {tool}")
    return Readiness(status=status)
