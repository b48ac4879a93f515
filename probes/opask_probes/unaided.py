"""A host without opask: it starts the runtime as it is, and nobody is there whom the agent could ask."""

from __future__ import annotations

from attrs import Factory, define, evolve, field

from opask.adapters import Adapter, Conversation, DuplexConversation
from opask.launch import Endpoint, LaunchPlan, LaunchRequest

__all__ = ["Unaided"]


@define
class Unaided:
    """Reads a runtime as its adapter does, and leaves the launch as the host's own; keeps the contract of an adapter.

    So the runtime's own ask tool is there, where an adapter takes it away. What it asks permission for is refused.

    Args:
        adapter: the runtime's adapter.
    """

    adapter: Adapter
    runtime: str = field(init=False, default=Factory(lambda self: self.adapter.runtime, takes_self=True))

    def plan_launch(self, request: LaunchRequest, endpoint: Endpoint | None, /) -> LaunchPlan:
        """Change nothing: the adapter is not even asked, since it refuses what lets that tool run."""
        plan = LaunchPlan(argv=request.argv, env=request.env, cwd=request.cwd)
        return evolve(plan, serves=isinstance(self.conversation(plan), DuplexConversation))

    def conversation(self, plan: LaunchPlan, /) -> Conversation:
        """Converse as the adapter does."""
        return self.adapter.conversation(plan)
