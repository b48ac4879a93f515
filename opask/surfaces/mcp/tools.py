"""The tools: their arguments, their schemas and what a client is told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar

import mcp_types as types
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from opask.inert import inert_line
from opask.intake import LIMITS
from opask.surfaces.mcp.driving import DrivingError

__all__ = [
    "INSTRUCTIONS",
    "LONGEST_WAIT_S",
    "WAIT_S",
    "AnswerArgument",
    "Cancel",
    "Drive",
    "Give",
    "List",
    "Status",
    "arguments_of",
    "tools",
]

WAIT_S: Final = 50.0  # some clients give a call up after 60 s
LONGEST_WAIT_S: Final = 3600.0
_PROMPT_MAX: Final = 200_000
_ID_MAX: Final = 200
_PATH_MAX: Final = 4096
_SHOWN: Final = 3  # faults of a call's arguments that are told at once

INSTRUCTIONS: Final = (
    "Drives coding agents on this machine, which can ask questions while they work. session_drive starts one or "
    "gives it a further prompt, and returns what comes next: {outcome, text} when its turn is over; "
    "{awaiting_operator, question_id, questions} when it asks: then have the user decide, unless the decision is "
    "yours, and call session_answer, which returns what comes next again; {running, session_id} when max_wait_s is "
    "over: then call session_status with max_wait_s to wait on. Sessions go on working between calls."
)

_Id = Annotated[str, Field(min_length=1, max_length=_ID_MAX)]
_Wait = Annotated[
    float,
    Field(
        ge=0,
        le=LONGEST_WAIT_S,
        description="How many seconds to wait for what comes next before this returns {running: true}; more than "
        "your client waits for a call loses the result. The session goes on in any case.",
    ),
]


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Drive(_Arguments):
    """Arguments of ``session_drive``."""

    runtime: _Id | None = Field(
        None, description="Which runtime to start a new session on. Give this or session_id."
    )
    session_id: _Id | None = Field(None, description="An idle session to give a further prompt.")
    prompt: str = Field(min_length=1, max_length=_PROMPT_MAX, description="What the agent is to do.")
    cwd: str | None = Field(
        None,
        min_length=1,
        max_length=_PATH_MAX,
        description="The folder a new session works in, absolute; by default the server's own.",
    )
    max_wait_s: _Wait = WAIT_S


class AnswerArgument(_Arguments):
    """The answer to one question."""

    selected: list[Annotated[int, Field(ge=0)]] | None = Field(
        None, max_length=LIMITS.options, description="Positions of the chosen options, from 0."
    )
    labels: list[str] | None = Field(
        None, max_length=LIMITS.options, description="In place of selected: the chosen labels, exactly."
    )
    text: str | None = Field(None, description="Free text, alone or beside a choice.")


class Give(_Arguments):
    """Arguments of ``session_answer``."""

    question_id: _Id = Field(description="The question_id that came with the questions.")
    session_id: _Id | None = Field(
        None, description="The session that asked; where it is given it has to be the question's."
    )
    answers: list[AnswerArgument | None] | None = Field(
        None,
        max_length=LIMITS.questions,
        description="One a question, in their order; null skips that question.",
    )
    skip: bool = Field(False, description="true in place of answers: the agent is to go on without.")
    cancel: bool = Field(
        False, description="true in place of answers: the agent is to do nothing that depends on it."
    )
    max_wait_s: _Wait = WAIT_S


class Cancel(_Arguments):
    """Arguments of ``session_cancel``."""

    session_id: _Id
    keep: bool = Field(
        False, description="true: only interrupt the turn, so that the session can be driven on."
    )


class Status(_Arguments):
    """Arguments of ``session_status``."""

    session_id: _Id
    max_wait_s: _Wait = 0.0


class List(_Arguments):
    """Arguments of ``sessions_list``."""


_ArgumentsT = TypeVar("_ArgumentsT", bound=_Arguments)


def arguments_of(model: type[_ArgumentsT], arguments: Mapping[str, Any] | None) -> _ArgumentsT:
    """Read a call's arguments.

    Raises:
        DrivingError: they do not fit the schema.
    """
    try:
        return model.model_validate(arguments or {})
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False)[:_SHOWN]
        ]
        raise DrivingError(inert_line(f"the arguments do not fit the schema: {'; '.join(faults)}")) from None


def tools(runtimes: Sequence[str]) -> list[types.Tool]:
    """Return the tools as they are listed.

    Args:
        runtimes: those that can be started.
    """
    drive = _schema(Drive)
    drive["properties"]["runtime"]["enum"] = list(runtimes)
    return [
        _tool(
            "session_drive",
            "Drive an agent",
            "Start an agent on a runtime, or give an idle session its next prompt, and wait for what comes next: "
            "{outcome, text}, {awaiting_operator, question_id, questions} or {running, session_id}.",
            drive,
            _NEXT,
        ),
        _tool(
            "session_answer",
            "Answer an agent's question",
            "Answer, skip or cancel a question that an agent waits with, and wait for what comes next. The first "
            "answer wins; one that does not fit is refused and the question stays open.",
            _schema(Give),
            _NEXT,
        ),
        _tool(
            "session_cancel",
            "Stop an agent",
            "Interrupt an agent's turn, cancel its open questions and end its session.",
            _schema(Cancel),
            _STANDING,
            destructive=True,
        ),
        _tool(
            "session_status",
            "Look at a session",
            "Tell how a session stands and which questions are open; with max_wait_s, wait for what comes next.",
            _schema(Status),
            _STANDING,
            read_only=True,
        ),
        _tool(
            "sessions_list",
            "List the sessions",
            "List this server's sessions, oldest first.",
            _schema(List),
            {
                "type": "object",
                "properties": {"sessions": {"type": "array", "items": _STANDING}},
                "required": ["sessions"],
            },
            read_only=True,
        ),
    ]


def _tool(
    name: str,
    title: str,
    description: str,
    arguments: dict[str, Any],
    output: Mapping[str, Any],
    *,
    read_only: bool = False,
    destructive: bool = False,
) -> types.Tool:
    return types.Tool(
        name=name,
        title=title,
        description=description,
        input_schema=arguments,
        output_schema=dict(output),
        annotations=types.ToolAnnotations(
            title=title,
            read_only_hint=read_only,
            destructive_hint=destructive,
            idempotent_hint=read_only,
            open_world_hint=not read_only,
        ),
        _meta={"anthropic/alwaysLoad": True},  # an agent that drives needs them from its first turn on
    )


# -- schemas -------------------------------------------------------------------------------------------------------


def _schema(model: type[_Arguments]) -> dict[str, Any]:
    """Return a model's schema in the plain form that every client reads: no references, titles or nulls."""
    schema = model.model_json_schema()
    return {"properties": {}, **_plain(schema, schema.pop("$defs", {}))}


def _plain(schema: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return _plain(dict(known[schema["$ref"].rpartition("/")[2]]), known)
    kept = {
        key: value
        for key, value in schema.items()
        if key not in {"title", "description"} or not isinstance(value, str) or key == "description"
    }
    if kept.get("default", ...) is None:  # an argument that is left out
        del kept["default"]
        kept |= next(one for one in kept.pop("anyOf") if one != {"type": "null"})
    if "properties" in kept:
        kept["properties"] = {name: _plain(one, known) for name, one in kept["properties"].items()}
        kept.pop("description", None)  # the model's own, which says nothing of the argument
    if "items" in kept:
        kept["items"] = _plain(kept["items"], known)
    if "anyOf" in kept:
        kept["anyOf"] = [_plain(one, known) for one in kept["anyOf"]]
    return kept


def _texts(*names: str) -> dict[str, Any]:
    return {name: {"type": "string"} for name in names}


_QUESTIONS: Final[Mapping[str, Any]] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            **_texts("question", "header"),
            "multiSelect": {"type": "boolean"},
            "options": {
                "type": "array",
                "items": {"type": "object", "properties": _texts("label", "description")},
            },
        },
    },
}
_RESOLVED: Final[Mapping[str, Any]] = {
    "type": "array",
    "description": "Questions that were decided since this was told last, by whomever.",
    "items": {"type": "object", "properties": {**_texts("question_id", "state", "by"), "answers": {}}},
}
_NEXT_PROPERTIES: Final[Mapping[str, Any]] = {
    **_texts("session_id", "question_id", "text", "reason", "deadline", "form", "cannot_ask", "next"),
    "running": {"type": "boolean"},
    "awaiting_operator": {"type": "boolean"},
    "outcome": {"type": "string", "enum": ["done", "failed", "cancelled"]},
    "questions": _QUESTIONS,
    "open_questions": {"type": "array", "items": {"type": "string"}},
    "resolved": _RESOLVED,
}
_NEXT: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": _NEXT_PROPERTIES,
    "required": ["session_id"],
}
_STANDING: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        **_NEXT_PROPERTIES,
        **_texts("runtime", "title", "cwd", "started_at"),
        "state": {"type": "string", "enum": ["working", "idle", "ended"]},
        "turns": {"type": "integer"},
    },
    "required": ["session_id"],
}
