"""The API's JSON as pydantic models: requests are held to them, and openapi.json is generated from them.

Responses are built by `opask.inbox`, not by these; the tests hold real ones against what is generated here.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from opask.inbox import State

__all__ = [
    "AnswerBody",
    "AskReply",
    "AsksQuery",
    "AsksReply",
    "ConversationQuery",
    "ConversationReply",
    "EmptyBody",
    "ErrorReply",
    "EventsQuery",
    "EventsReply",
    "FeedQuery",
    "FollowUpBody",
    "FollowUpReply",
    "LogQuery",
    "NoQuery",
    "SessionBody",
    "SessionReply",
    "SessionsQuery",
    "SessionsReply",
    "UpdateForm",
]


class _Strict(BaseModel):
    """Takes what it names and nothing else."""

    model_config = ConfigDict(extra="forbid")


class _Body(_Strict):
    """A request's body."""

    model_config = ConfigDict(strict=True)


# -- requests ----------------------------------------------------------------------------------------------------------


class AnswerForm(_Body):
    """The answer to one question: options by position or by label, and the operator's own words."""

    selected: list[int] | None = Field(None, description="positions of the chosen options, from 0")
    labels: list[str] | None = Field(None, description="the chosen options' labels, exactly; or `selected`")
    text: str | None = Field(None, description="the operator's own words")


_ANSWERS = Field(description="one a question, in order; null skips that question")


class AnswerBody(_Body):
    """An answer to an ask."""

    session_id: str = Field(description="the session that the ask was shown in; another one's is refused")
    answers: list[AnswerForm | None] = _ANSWERS


class SessionBody(_Body):
    """Something for an ask as it was shown in a session."""

    session_id: str = Field(description="the session that the ask was shown in; another one's is refused")


class FollowUpBody(_Body):
    """A late answer."""

    answers: list[AnswerForm | None] = _ANSWERS


class EmptyBody(_Body):
    """Nothing."""


class NoQuery(_Strict):
    """No parameters."""


class AsksQuery(_Strict):
    """Which asks."""

    state: Literal["open", "all"] = Field("open", description="open ones, or the history too")
    session: str | None = Field(None, description="of this session alone")
    limit: int = Field(500, ge=1, le=1000, description="the youngest so many of them")
    before: int | None = Field(None, ge=1, description="of those with a lower `number`: reads on backwards")


class SessionsQuery(_Strict):
    """Which sessions."""

    limit: int = Field(
        1000, ge=1, le=10_000, description="those that run, and the youngest so many of the others"
    )


class EventsQuery(_Strict):
    """Which events."""

    after: int = Field(0, ge=0, description="those behind this position")
    limit: int = Field(1000, ge=1, le=10_000, description="the oldest so many of them")


class ConversationQuery(_Strict):
    """Which part of a conversation."""

    limit: int = Field(1000, ge=1, le=10_000, description="the youngest so many items of it")
    before: int | None = Field(None, ge=1, description="of those before this position: reads on backwards")


class FeedQuery(_Strict):
    """From where on, and whether an operator is there."""

    last: str | None = Field(None, description="the id to go on after, where Last-Event-ID cannot be sent")
    watch: Literal["0", "1"] = Field("1", description="0: this reader is no operator who sees the questions")


class LogQuery(_Strict):
    """From where on."""

    after: int = Field(0, ge=0, description="the position to go on after; Last-Event-ID goes before")


# -- responses ---------------------------------------------------------------------------------------------------------

_Texts = "as the agent wrote it: show it as text, made inert"


class OptionForm(_Strict):
    """One choice."""

    label: str
    description: str


class QuestionForm(_Strict):
    """One question."""

    question: str = Field(description=_Texts)
    header: str
    options: list[OptionForm]
    multiSelect: bool  # noqa: N815 - as the ask tool's schema has it


class SelectionForm(_Strict):
    """What was answered to one question."""

    selected: list[int]
    text: str | None


class AskForm(_Strict):
    """One ask, with what became of it."""

    id: str
    session_id: str
    kind: Literal["question", "permission", "write"]
    runtime: str
    agent_id: str | None = Field(description="the sub-agent that asks; null for the main one")
    tool_call_id: str | None
    questions: list[QuestionForm]
    state: State
    asked_at: datetime
    deadline: datetime | None = Field(description="when the wait runs out; null: never")
    latest: datetime | None = Field(
        description="the latest that typing can move the deadline to; null: no bound"
    )
    siblings_running: int | None = Field(
        description="how many other calls of the agent ran on when it asked; null: not known"
    )
    answers: dict[str, str | list[str]] | None = Field(description="by question, as the agent gets them")
    selections: list[SelectionForm | None] | None = Field(description="by position, as they were given")
    by: str | None = Field(description="the surface that decided, and who, as in web:alice")
    reason: str | None = Field(description="why it ended without an answer, or an answer did not arrive")
    told: str | None = Field(description="the outcome that the agent was given; null: none yet")
    resolved_at: datetime | None
    settled_at: datetime | None
    number: int = Field(description="its place in the order of asks, from 1")
    seq: int = Field(description="the change that made it what it is here")


class SessionForm(_Strict):
    """One session."""

    id: str
    runtime: str
    title: str = Field(description=_Texts)
    host_id: str
    started_at: datetime
    ended_at: datetime | None
    ending: Literal["ended", "host_died"] | None
    running: bool
    seq: int


class EventForm(_Strict):
    """One event of a session's log."""

    position: int
    event: dict[str, Any] = Field(description="a normalised event; one that is not known is to be ignored")


class EventItem(EventForm):
    """One event, in its place."""

    kind: Literal["event"]


class CardItem(_Strict):
    """One ask, in its place."""

    kind: Literal["card"]
    ask: AskForm


class AskReply(_Strict):
    """One ask."""

    ask: AskForm


class AsksReply(_Strict):
    """Asks, oldest first."""

    asks: list[AskForm]


class FollowUpReply(_Strict):
    """The text of the agent's next prompt."""

    text: str


class SessionReply(_Strict):
    """One session."""

    session: SessionForm


class SessionsReply(_Strict):
    """Sessions, oldest first."""

    sessions: list[SessionForm]


class EventsReply(_Strict):
    """Events, oldest first."""

    events: list[EventForm]


class ConversationReply(_Strict):
    """A session's log with its asks in it."""

    items: list[Annotated[EventItem | CardItem, Field(discriminator="kind")]]
    pinned: list[AskForm] = Field(
        description="asks that belong to no call that was announced: open ones, and the youngest of the others; "
        "none where `before` was given"
    )
    position: int = Field(description="the session's last event's; its feed goes on after it")
    before: int | None = Field(description="what gives the part before this one; null: this is the first")


class SnapshotForm(_Strict):
    """All that is open."""

    kind: Literal["snapshot"]
    seq: int
    entries: list[AskForm]
    sessions: list[SessionForm]


class EntryForm(_Strict):
    """An ask came or changed."""

    kind: Literal["entry"]
    seq: int
    entry: AskForm


class SessionChangeForm(_Strict):
    """A session began or ended."""

    kind: Literal["session"]
    seq: int
    session: SessionForm


class ClearedForm(_Strict):
    """A conversation was cleared."""

    kind: Literal["cleared"]
    seq: int
    session_id: str


UpdateForm: TypeAlias = Annotated[
    SnapshotForm | EntryForm | SessionChangeForm | ClearedForm, Field(discriminator="kind")
]


class ErrorForm(_Strict):
    """What is wrong."""

    code: str
    message: str = Field(description="one sentence for a person")
    ask: AskForm | None = Field(None, description="the ask as it is, where it stands in the way")
    ask_ids: list[str] | None = Field(None, description="the asks that stand in the way")


class ErrorReply(_Strict):
    """A refusal."""

    error: ErrorForm
