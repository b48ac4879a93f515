"""opask's adapter for the claude CLI (Claude Code): its launch, its stream-json, its permission requests.

Use it as ``from opask_claude import adapter``, or by name: ``opask.adapter("claude")``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opask.effects import Tools
from opask.launch import Change, Endpoint, LaunchPlan, LaunchRequest
from opask.names import ToolName
from opask_claude.arguments import CommandLine
from opask_claude.conversation import ClaudeConversation
from opask_claude.floor import TOOLS
from opask_claude.launch import CHANGES, plan_launch, resumes
from opask_claude.tools import RUNTIME, spelling

__all__ = ["ClaudeAdapter", "adapter"]


class ClaudeAdapter:
    """The adapter of the claude CLI; keeps the contract of `opask.adapters.Adapter`."""

    runtime: str = RUNTIME
    program: str = "claude"

    @property
    def changes(self) -> Mapping[str, Change]:
        """Every lever that a launch may pull, by name; the registry's linter holds the rows' levers against it."""
        return CHANGES

    @property
    def tools(self) -> Tools:
        """What the CLI's own tools change, for `opask.write_gate.WriteGate`."""
        return TOOLS

    def spellings(self, name: ToolName, /) -> Mapping[str, str]:
        """Return an MCP tool's name as the model, the events and the permission requests have it."""
        return dict.fromkeys(("model", "events", "permission"), spelling(name))

    def default_argv(self, program: str, prompt: str, arguments: Sequence[str], /) -> Sequence[str]:
        """Return the launch of one prompt in text mode, with events as stream-json."""
        options = ("--output-format", "stream-json", "--verbose", *arguments)
        if prompt.startswith("-"):  # only behind a `--` is it not taken for an option
            return (program, "-p", *options, "--", prompt)
        return (program, "-p", prompt, *options)

    def conversation_argv(self, program: str, arguments: Sequence[str], /) -> Sequence[str]:
        """Return the launch of a conversation of several turns, each prompted by a message."""
        streams = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
        return (program, "-p", *streams, "--permission-prompt-tool", "stdio", *arguments)

    def version_argv(self, program: str, arguments: Sequence[str], /) -> Sequence[str]:
        """Return the command that tells the version, where a launch depends on it: only one that resumes does."""
        return (program, "--version") if resumes(CommandLine((program, *arguments))) else ()

    def plan_launch(self, request: LaunchRequest, endpoint: Endpoint | None, /) -> LaunchPlan:
        """Merge the ask tool into the host's own launch.

        Args:
            request: the host's launch. What is read of the argv is the CLI's own options, behind whatever starts
                the CLI. ``--input-format stream-json`` (with ``--output-format stream-json``) makes it a
                conversation of several turns, ``--permission-prompt-tool stdio`` brings the permission requests.
            endpoint: where the tool is served; None where nobody is there to ask.

        Raises:
            LaunchError: the host's own arguments stand against it; ``what`` names the one.
            WaitTooLongError: the endpoint's wait is longer than this launch can hold.
        """
        return plan_launch(request, endpoint)

    def conversation(self, plan: LaunchPlan, /) -> ClaudeConversation:
        """Return the conversation with a process that is started by this plan."""
        return ClaudeConversation(plan)


adapter = ClaudeAdapter()
