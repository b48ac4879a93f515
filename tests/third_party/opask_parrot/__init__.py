"""An adapter of somebody else's: for parrot, an agent that speaks ACP.

Use it as ``from opask_parrot import adapter``, or by name: ``opask.adapter("parrot")``.
"""

from __future__ import annotations

from typing import Final

from opask_acp import AcpAdapter, Profile

__all__ = ["ParrotAdapter", "adapter"]

_PROFILE: Final = Profile(
    runtime="parrot",
    templates=("mcp__{server}__{tool}",),
    native=frozenset({"AskUserQuestion"}),
    written=(("_meta", "toolName"),),  # beside a title that its model writes
    unknowns=(),
)


class ParrotAdapter(AcpAdapter):
    """The adapter of parrot; keeps the contract of `opask.adapters.Adapter`."""

    program: str = "parrot"


adapter = ParrotAdapter(_PROFILE)
