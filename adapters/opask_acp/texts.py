"""What the agent says, told once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opask.events import TextSaid
from opask_acp.jsonrpc import Message, at, items, mapping, text
from opask_acp.profile import Place

__all__ = ["Texts"]


class Texts:
    """The messages of one session.

    Args:
        agent: where a message of a sub-agent names the call that started it.
    """

    def __init__(self, agent: Place) -> None:
        self._agent = agent
        self._told: set[str] = set()
        self._answer: list[str] | None = None

    def prompted(self, *, keeps: bool) -> None:
        """Take in that the agent was prompted.

        Args:
            keeps: whether what it says then is to be kept for `answer`.
        """
        self._answer = [] if keeps else None

    @property
    def answer(self) -> str:
        """What was said since the last prompt, where that was to be kept."""
        return "".join(self._answer or ())

    def piece(self, update: Message) -> list[TextSaid]:
        """Take in a piece of a message."""
        self._told.add(text(update, "messageId") or "")
        return self._said(update, [mapping(update, "content")])

    def whole(self, update: Message) -> list[TextSaid]:
        """Take in a whole message (version 2); of one that was told in pieces nothing is told again."""
        message_id = text(update, "messageId") or ""
        if message_id in self._told:
            return []
        self._told.add(message_id)
        return self._said(update, items(update, "content"))

    def _said(self, update: Message, blocks: Sequence[Any]) -> list[TextSaid]:
        texts = (
            text(each, "text") for each in blocks if isinstance(each, Mapping) and each.get("type") == "text"
        )
        said = "".join(filter(None, texts))
        agent = at(update, *self._agent)
        agent_id = agent if isinstance(agent, str) and agent else None
        if self._answer is not None:
            self._answer.append(said)
        return [TextSaid(text=said, agent_id=agent_id)] if said else []
