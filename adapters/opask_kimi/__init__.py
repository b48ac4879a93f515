"""opask's adapters for Kimi Code, and for the older Kimi CLI, a product of the same command name.

Use them as ``from opask_kimi import adapter, legacy_adapter``, or by name: ``opask.adapter("kimi")`` and
``opask.adapter("kimi-cli")``. Kimi Code is started as a server of ACP (``kimi acp``) or for one prompt
(``kimi -p … --output-format stream-json``), the older one as a server of ACP.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from opask.errors import LaunchError
from opask.launch import Endpoint, LaunchPlan, LaunchRequest
from opask_acp import AcpAdapter, HostClient
from opask_acp.conversation import AcpConversation
from opask_acp.launch import plan_launch
from opask_acp.profile import Profile
from opask_kimi.commands import OUTPUT, mode_of
from opask_kimi.launch import INSTRUCTIONS, can_have_home
from opask_kimi.legacy import LegacyProfile
from opask_kimi.printing import PrintConversation, plan_print
from opask_kimi.profile import KimiProfile
from opask_kimi.versions import LEGACY, RUNTIME, check

__all__ = ["HostClient", "KimiAdapter", "LegacyAdapter", "adapter", "legacy_adapter"]


class KimiAdapter(AcpAdapter):
    """The adapter of Kimi Code; keeps the contract of `opask.adapters.Adapter`.

    Args:
        profile: how Kimi speaks ACP.
        client: what the host brings to the connection.
    """

    program: str = RUNTIME

    def __init__(self, profile: Profile | None = None, client: HostClient | None = None) -> None:
        super().__init__(KimiProfile() if profile is None else profile, client)

    def default_argv(self, program: str, prompt: str, arguments: Sequence[str], /) -> Sequence[str]:
        """Return the launch of a server of ACP; of one prompt where the user's arguments choose its output."""
        if any(argument.partition("=")[0] == OUTPUT[0] for argument in arguments):
            return (program, f"--prompt={prompt}", *arguments)
        return (program, "acp", *arguments)

    def plan_launch(self, request: LaunchRequest, endpoint: Endpoint | None, /) -> LaunchPlan:
        """Merge the ask tool into the host's own launch.

        Args:
            request: the host's launch. ``KIMI_CODE_HOME`` in its environment, else ``.kimi-code`` in its HOME, is the
                user's own folder, in which a login, providers and saved conversations stay.
            endpoint: where the tool is served; None where nobody is there to ask.

        Raises:
            LaunchError: the host's own launch stands against it; ``what`` names what does.
            WaitTooLongError: the endpoint's wait is longer than this launch can hold.
        """
        check(RUNTIME, request.version)
        mode = mode_of(request.argv) if request.argv else "acp"
        if mode == "print":
            return plan_print(request, endpoint, self.client)
        if mode is None:
            raise LaunchError(
                f"{RUNTIME}: {' '.join(request.argv)} wants a terminal; start it as `kimi acp`, or for one prompt as "
                f"`kimi -p PROMPT {' '.join(OUTPUT)}`",
                runtime=RUNTIME,
                what="argv",
            )
        folder = request.folder if endpoint is None else endpoint.folder
        by_launch = can_have_home(request, folder) and self.client.resume is None
        profile = evolve(self.profile, clause_by="launch" if by_launch else "prompt")
        return plan_launch(request, endpoint, profile, self.client)

    def conversation(self, plan: LaunchPlan, /) -> AcpConversation | PrintConversation:  # type: ignore[override]
        """Return the conversation with a process that is started by this plan."""
        if mode_of(plan.argv) == "print":
            return PrintConversation(plan)
        made = {file.name for overlay in plan.overlays for file in overlay.files}
        profile = evolve(self.profile, clause_by="launch" if INSTRUCTIONS in made else "prompt")
        return AcpConversation(plan, profile, self.client)


class LegacyAdapter(AcpAdapter):
    """The adapter of the older Kimi CLI; keeps the contract of `opask.adapters.Adapter`.

    Args:
        profile: how it speaks ACP.
        client: what the host brings to the connection; no other MCP servers, which could not be told from ours.
    """

    program: str = LEGACY

    def __init__(self, profile: Profile | None = None, client: HostClient | None = None) -> None:
        super().__init__(LegacyProfile() if profile is None else profile, client)

    def default_argv(self, program: str, prompt: str, arguments: Sequence[str], /) -> Sequence[str]:
        """Return the launch of a server of ACP."""
        return (program, "acp", *arguments)

    def version_argv(self, program: str, arguments: Sequence[str], /) -> Sequence[str]:
        """Return the command that tells the version, to be asked before a launch: the last release runs no agent."""
        return (program, "--version")

    def plan_launch(self, request: LaunchRequest, endpoint: Endpoint | None, /) -> LaunchPlan:
        """Merge the ask tool into the host's own launch.

        Args:
            request: the host's launch. ``KIMI_SHARE_DIR`` in its environment, else ``.kimi`` in its HOME, is the user's
                own folder.
            endpoint: where the tool is served; None where nobody is there to ask.

        Raises:
            LaunchError: the host's own launch stands against it, or its version runs no agent.
            WaitTooLongError: the endpoint's wait is longer than this launch can hold.
        """
        check(LEGACY, request.version)
        if request.argv and mode_of(request.argv) != "acp":
            raise LaunchError(
                f"{LEGACY}: {' '.join(request.argv)} starts no server of ACP; start it as `{LEGACY} acp`",
                runtime=LEGACY,
                what="argv",
            )
        return super().plan_launch(request, endpoint)


adapter = KimiAdapter()
legacy_adapter = LegacyAdapter()
