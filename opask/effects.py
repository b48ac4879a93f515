"""What a tool call changes: nothing, something here, or something elsewhere.

A runtime's adapter says what it knows of its own tools (``adapter.tools``). Whatever nobody knows may reach anywhere, so that
it is asked about each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import Factory, evolve, field, frozen

from opask.proposals import Effect

__all__ = ["Finding", "ShellTool", "Tools"]


def _names(value: Iterable[str]) -> frozenset[str]:
    return frozenset(value)


@frozen
class ShellTool:
    """A tool that runs a shell command.

    Args:
        command: the argument that has it.
        harmless: other arguments that change nothing of what it does; any that is not here makes a write.
    """

    command: str = "command"
    harmless: frozenset[str] = field(default=frozenset(), converter=_names)


@frozen
class Tools:
    """What is known of a runtime's tools, by their spellings.

    Args:
        reads: those that change nothing, whatever their arguments.
        reads_with: those that change nothing as long as they have no other arguments than these.
        writes: those that change files here, and can do nothing else.
        external: those that reach other machines.
        shells: those that run shell commands.
    """

    reads: frozenset[str] = field(default=frozenset(), converter=_names)
    external: frozenset[str] = field(default=frozenset(), converter=_names)
    shells: Mapping[str, ShellTool] = Factory(dict)
    writes: frozenset[str] = field(default=frozenset(), converter=_names)
    reads_with: Mapping[str, frozenset[str]] = Factory(dict)

    def with_names(
        self, *, reads: Iterable[str] = (), writes: Iterable[str] = (), external: Iterable[str] = ()
    ) -> Tools:
        """Return the table with more tools in it, such as those of the host's own MCP servers."""
        added = frozenset(external)
        return evolve(
            self,
            reads=(self.reads | frozenset(reads)) - added,
            writes=(self.writes | frozenset(writes)) - added,
            external=self.external | added,
        )


@frozen
class Finding:
    """What a call changes.

    Args:
        effect: what.
        what: what the agent wants to do, in words of ours.
        why: what makes it no read, where that is worth telling.
    """

    effect: Effect
    what: str
    why: str = ""

    @classmethod
    def of_tool(cls, tools: Tools, tool: str, arguments: Mapping[str, Any] | None) -> Finding | None:
        """Tell what a call changes; None where it runs a shell command, which has to be read."""
        if tool in tools.external:
            return cls("external", f"use {tool}")
        if tool in tools.reads:
            return cls("read", f"use {tool}")
        if tool in tools.reads_with:
            other = sorted((arguments or {}).keys() - tools.reads_with[tool])
            return cls("write" if other else "read", f"use {tool}", ", ".join(other))
        if tool in tools.writes:
            return cls("write", f"use {tool}")
        if tool not in tools.shells:
            what = f"use {tool}" if tool else "use a tool that the runtime does not name"
            return cls("external", what, "it is not known what this tool does")
        shell, given = tools.shells[tool], arguments or {}
        if not isinstance(given.get(shell.command), str):
            return cls("write", "run a shell command", "there is no command that could be read")
        return None
