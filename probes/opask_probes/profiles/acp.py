"""What the runtimes that speak ACP have in common: the prompt goes over stdio, and so do the session's servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import evolve

from opask.adapters import Adapter
from opask_acp import AcpAdapter

from .terms import Launch, Mode

__all__ = ["launched_by", "with_server"]


def launched_by(*arguments: str, bypass: Callable[[Launch], Launch]) -> Callable[[str, str, Mode], Launch]:
    """Give the launch of a server of ACP; each of its turns can be interrupted.

    Args:
        arguments: what stands behind the program.
        bypass: changes a launch so that permissions are bypassed.
    """

    def launch(program: str, prompt: str, mode: Mode) -> Launch:
        plain = Launch((program, *arguments))
        return bypass(plain) if mode == "bypass" else plain

    return launch


def with_server(launch: Launch, name: str, command: Sequence[str]) -> Launch:
    """Have the host name a server when it opens the session; see `ServerAdder`."""
    server = {"name": name, "command": command[0], "args": list(command[1:]), "env": []}
    before = launch.adapted

    def adapted(adapter: Adapter) -> Adapter:
        found = before(adapter)
        assert isinstance(found, AcpAdapter)
        servers = (*found.client.mcp_servers, server)
        return found.with_client(evolve(found.client, mcp_servers=servers))

    return evolve(launch, adapted=adapted)
