"""opask's adapter for omp (oh-my-pi), started as a server of ACP: ``omp acp``.

Use it as ``from opask_omp import adapter``, or by name: ``opask.adapter("omp")``.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from opask.launch import Endpoint, LaunchPlan, LaunchRequest
from opask_acp import AcpAdapter, HostClient
from opask_acp.conversation import AcpConversation
from opask_acp.launch import plan_launch
from opask_omp.launch import RUNTIME, can_have_files, has_clause
from opask_omp.profile import OmpProfile

__all__ = ["HostClient", "OmpAdapter", "adapter"]

_LISTED = "mcp-stdio"
_DEVICE = "mcp-stdio-device"
"""The registry's routes, with MCP tools on the model's list or as devices that it writes to."""

_ALWAYS_ASKS = (
    "whether the ask tool may run: with the change 'ask-allowed' refused, the approval mode always-ask denies it without "
    "a word"
)


class OmpAdapter(AcpAdapter):
    """The adapter of omp; keeps the contract of `opask.adapters.Adapter`.

    Args:
        profile: how omp speaks ACP.
        client: what the host brings to the connection.
    """

    program: str = RUNTIME

    def __init__(self, profile: OmpProfile | None = None, client: HostClient | None = None) -> None:
        self._profile = OmpProfile() if profile is None else profile
        super().__init__(self._profile, client)

    def with_client(self, client: HostClient) -> OmpAdapter:
        """Return the same adapter for a host that brings something to the connection, a session to resume say."""
        return OmpAdapter(self._profile, client)

    def default_argv(self, program: str, prompt: str, arguments: Sequence[str], /) -> Sequence[str]:
        """Return the launch of a server of ACP; the prompt goes by the protocol."""
        return (program, "acp", *arguments)

    def plan_launch(self, request: LaunchRequest, endpoint: Endpoint | None, /) -> LaunchPlan:
        """Merge the ask tool into the host's own launch.

        Args:
            request: the host's launch: ``omp acp`` with whatever options, ``cwd`` where it works. The user's own settings
                below HOME are read by omp as ever, and written by nobody here.
            endpoint: where the tool is served; None where nobody is there to ask.

        Raises:
            LaunchError: the host's own launch stands against it; ``what`` names what does.
            WaitTooLongError: the endpoint's wait is longer than this launch can hold.
        """
        folder = request.folder if endpoint is None else endpoint.folder
        by_launch = can_have_files(request, folder)
        plan = plan_launch(
            request,
            endpoint,
            evolve(
                self._profile,
                clause_by="launch" if by_launch else "prompt",
                direct=folder is not None and "direct-tools" not in request.refuse,
            ),
            self.client,
        )
        if plan.route == _LISTED and not _has(plan, "direct-tools"):
            plan = evolve(plan, route=_DEVICE)
        if endpoint is not None and not _has(plan, "ask-allowed"):
            plan = evolve(plan, unknowns=(*plan.unknowns, _ALWAYS_ASKS))
        return plan

    def conversation(self, plan: LaunchPlan, /) -> AcpConversation:
        """Return the conversation with a process that is started by this plan."""
        profile = evolve(
            self._profile,
            clause_by="launch" if has_clause(plan) else "prompt",
            direct=_has(plan, "direct-tools"),
        )
        return AcpConversation(plan, profile, self.client)


def _has(plan: LaunchPlan, change: str) -> bool:
    return any(each.name == change for each in plan.changes)


adapter = OmpAdapter()
