"""Whether the agent can ask: told once it is known, and what is told where the tool does not turn up."""

from __future__ import annotations

from opask.events import AskToolMissing, Event, SessionReady
from opask.launch import LaunchPlan
from opask_acp.profile import Profile

__all__ = ["Readiness"]


class Readiness:
    """What is known of one session's ask tool.

    The protocol says nothing of it: that the agent took the tool's list, or called the tool, is the proof.

    Args:
        plan: the launch that the agent was started by.
        profile: how the agent speaks the protocol.

    Attributes:
        version: the runtime's version, once it has said that.
    """

    def __init__(self, plan: LaunchPlan, profile: Profile) -> None:
        self.version: str | None = None
        self._is_attached = plan.questions and plan.endpoint is not None
        self._why_not = plan.reason
        self._lists_apart = profile.lists_apart
        self._is_told = False  # whether the agent can ask
        self._is_listed = False
        self._is_missing = False  # that was told

    def listed(self) -> list[Event]:
        """Take in that the agent has taken the tool's list."""
        self._is_listed = True
        return self.proven()

    def proven(self) -> list[Event]:
        """Take in that the agent can ask; it can not where nothing was attached, whatever it calls."""
        return self._told(True, None) if self._is_attached else []

    def impossible(self, reason: str) -> list[Event]:
        """Take in that the agent will not be able to ask; why, where nothing was attached, the plan says."""
        return self._told(False, reason if self._is_attached else self._why_not)

    def unattached(self) -> list[Event]:
        """Take in that the agent has begun to talk: where nothing was attached, that is all there is to know."""
        return [] if self._is_attached else self._told(False, self._why_not)

    def unreachable(self, reason: str) -> list[Event]:
        """Take in that the server cannot be named to the agent."""
        self._is_missing = True
        return [*self.impossible(reason), AskToolMissing(reason="failed")]

    def turn_over(self) -> list[Event]:
        """Take in the end of a turn of the model's: one that went by without the tool's list is told of, once."""
        if not self._is_attached:
            return self.unattached()
        if self._is_listed or self._is_told or self._is_missing or self._lists_apart:
            return []
        self._is_missing = True
        return [AskToolMissing(reason="not_listed")]

    def command_over(self, told: AskToolMissing | None) -> list[Event]:
        """Take in the end of a command's turn, and what the agent itself said of the tool in it."""
        if not self._is_attached:
            return self.unattached()
        return [] if told is None or self._is_listed else [told]

    def _told(self, questions: bool, reason: str | None) -> list[Event]:
        if self._is_told:
            return []
        self._is_told = True
        return [SessionReady(questions=questions, version=self.version, reason=reason)]
