"""opask's adapter for agents that speak ACP, the Agent Client Protocol, over stdio.

Use it as ``from opask_acp import adapter``, or by name: ``opask.adapter("acp")``. It serves an agent that nobody has
probed; what is known of one is put into a `Profile`, and the adapters of known runtimes are made of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from opask.launch import Change, Endpoint, LaunchPlan, LaunchRequest
from opask.names import ToolName
from opask_acp.client import HostClient
from opask_acp.conversation import AcpConversation
from opask_acp.launch import changes_of, plan_launch
from opask_acp.profile import Profile

__all__ = ["AcpAdapter", "HostClient", "Profile", "adapter"]


class AcpAdapter:
    """The adapter of an ACP agent; keeps the contract of `opask.adapters.Adapter`.

    Args:
        profile: how the agent speaks the protocol; by default as one that nobody has probed.
        client: what the host brings to the connection.
    """

    runtime: str = "acp"
    program: str = ""

    def __init__(self, profile: Profile | None = None, client: HostClient | None = None) -> None:
        self.profile = Profile() if profile is None else profile
        self.client = HostClient() if client is None else client
        self.runtime = self.profile.runtime

    def with_client(self, client: HostClient) -> Self:
        """Return the same adapter for a host that brings something to the connection, a session to resume say."""
        return type(self)(self.profile, client)

    @property
    def changes(self) -> Mapping[str, Change]:
        """Every lever that a launch may pull, by name; the registry's linter holds the rows' levers against it."""
        return changes_of(self.profile)

    def spellings(self, name: ToolName, /) -> Mapping[str, str]:
        """Return an MCP tool's name as the model, the events and the permission requests have it, where one is known."""
        spellings = self.profile.spellings(name)
        return dict.fromkeys(("model", "events", "permission"), spellings[0]) if len(spellings) == 1 else {}

    def default_argv(self, program: str, prompt: str, arguments: Sequence[str], /) -> Sequence[str]:
        """Return the launch of the agent; the prompt goes by the protocol."""
        return (program, *arguments)

    def plan_launch(self, request: LaunchRequest, endpoint: Endpoint | None, /) -> LaunchPlan:
        """Merge the ask tool into the host's own launch.

        Args:
            request: the host's launch; its argv starts the agent as an ACP server, its ``cwd`` is where it works.
            endpoint: where the tool is served; None where nobody is there to ask.

        Raises:
            LaunchError: the host's own launch stands against it; ``what`` names what does.
            WaitTooLongError: the endpoint's wait is longer than this launch can hold.
        """
        return plan_launch(request, endpoint, self.profile, self.client)

    def conversation(self, plan: LaunchPlan, /) -> AcpConversation:
        """Return the conversation with a process that is started by this plan."""
        return AcpConversation(plan, self.profile, self.client)


adapter = AcpAdapter()
