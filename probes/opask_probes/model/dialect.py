"""A request to a model and its reply, in words that every dialect can be read into and written from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol

from attrs import frozen

from opask.errors import OpaskError

__all__ = [
    "Dialect",
    "MalformedRequestError",
    "Message",
    "ModelRequest",
    "ToolCall",
    "ToolOffer",
    "ToolResult",
    "Turn",
]


class MalformedRequestError(OpaskError):
    """A request that the real service would refuse."""


@frozen
class ToolOffer:
    """A tool that the request offers to the model."""

    name: str
    description: str
    schema: Mapping[str, Any]


@frozen
class ToolCall:
    """A call that the model made, with the id by which its result comes back."""

    id: str
    tool: str
    arguments: Mapping[str, Any]


@frozen
class ToolResult:
    """What the runtime answered to a call.

    Args:
        call_id: the call's id.
        text: what the model reads.
        is_error: whether it is marked as an error; None where the dialect has no such mark.
    """

    call_id: str
    text: str
    is_error: bool | None


@frozen
class Turn:
    """One message of the history."""

    role: Literal["user", "assistant"]
    text: str
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()


@frozen
class ModelRequest:
    """What a runtime asks the model.

    Args:
        model: the model's name, as the runtime gave it.
        system: every instruction of the runtime's own: the system prompt and system messages.
        tools: what the model may call.
        turns: the history, oldest first.
        stream: whether the reply is to be streamed.
        side: why the request is none of an agent's turns (a title, a check of the quota), in a few words;
            None for an agent's turn.
    """

    model: str
    system: str
    tools: tuple[ToolOffer, ...]
    turns: tuple[Turn, ...]
    stream: bool
    side: str | None = None

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools on offer."""
        return tuple(tool.name for tool in self.tools)

    @property
    def prompt(self) -> str:
        """The text of the user messages before the first reply."""
        first = next((at for at, turn in enumerate(self.turns) if turn.role == "assistant"), len(self.turns))
        return "\n".join(turn.text for turn in self.turns[:first])

    @property
    def replies(self) -> tuple[Turn, ...]:
        """The model's own messages."""
        return tuple(turn for turn in self.turns if turn.role == "assistant")

    @property
    def latest(self) -> tuple[Turn, ...]:
        """The user messages since the last reply."""
        last = max((at for at, turn in enumerate(self.turns) if turn.role == "assistant"), default=-1)
        return self.turns[last + 1 :]


@frozen
class Message:
    """A reply of the model, as it goes out: text, then calls."""

    id: str
    text: str
    calls: tuple[ToolCall, ...] = ()


class Dialect(Protocol):
    """How one model service speaks over HTTP. Has no state and does no I/O.

    Attributes:
        name: what the dialect is called in a log.
        call_prefix: what the ids of tool calls begin with.
    """

    name: str
    call_prefix: str

    def takes(self, method: str, path: str) -> bool:
        """Tell whether this is the path of a request that takes a turn of the model."""
        ...

    def read(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> ModelRequest:
        """Read such a request.

        Raises:
            MalformedRequestError: the service would refuse it.
        """
        ...

    def side_text(self, body: Mapping[str, Any]) -> str:
        """Give a harmless text for a request beside the script, in the form that it demands."""
        ...

    def whole(self, request: ModelRequest, message: Message) -> dict[str, Any]:
        """Write a reply in one piece."""
        ...

    def stream(self, request: ModelRequest, message: Message) -> Iterator[bytes]:
        """Write a reply as server-sent events."""
        ...

    def error(self, reason: str) -> tuple[int, dict[str, Any]]:
        """Write a status and a body that end the runtime's turn, with the reason in it."""
        ...

    def other(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> tuple[int, dict[str, Any]] | None:
        """Answer another path of the service with a status and a body; None for a path that it has not."""
        ...
