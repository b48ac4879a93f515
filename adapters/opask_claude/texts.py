"""What the agent says, told once.

With ``--include-partial-messages`` the CLI sends each text block in pieces, and then again as a whole: the
``assistant`` line comes before the block's ``content_block_stop`` (2.1.332).
"""

from __future__ import annotations

from opask.events import TextSaid
from opask_claude.messages import Message, mapping, text

__all__ = ["Texts"]


class Texts:
    """The texts of one process, by agent."""

    def __init__(self) -> None:
        self._streamed: dict[
            str | None, dict[int, str]
        ] = {}  # agent -> index of the block -> what came of it

    def piece(self, agent_id: str | None, event: Message) -> list[TextSaid]:
        """Take in an event of the model's stream."""
        kind, said = event.get("type"), text(mapping(event, "delta"), "text")
        if kind == "message_start":
            self._streamed[agent_id] = {}
        if kind != "content_block_delta" or said is None:
            return []
        index = event.get("index")
        block = index if isinstance(index, int) else -1
        streamed = self._streamed.setdefault(agent_id, {})
        streamed[block] = streamed.get(block, "") + said
        return [TextSaid(text=said, agent_id=agent_id)]

    def whole(self, agent_id: str | None, said: str) -> list[TextSaid]:
        """Take in a whole block; return what is new in it."""
        streamed = self._streamed.get(agent_id, {})
        told = next((block for block, part in streamed.items() if said.startswith(part)), None)
        if told is not None:
            said = said.removeprefix(streamed.pop(told))
        return [TextSaid(text=said, agent_id=agent_id)] if said else []

    def ended(self, agent_id: str | None) -> None:
        """Take in that an agent's turn ended."""
        self._streamed.pop(agent_id, None)
