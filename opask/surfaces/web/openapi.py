"""openapi.json, generated from the table of operations and the models: ``python -m opask.surfaces.web.openapi``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic.json_schema import models_json_schema

from opask.surfaces.web import models
from opask.surfaces.web.operations import OPERATIONS, Operation

__all__ = ["described_file", "description"]

_REFS: Final = "#/components/schemas/{model}"
_STATUSES: Final = {
    400: "not of the right form, or it does not fit the questions",
    401: "no token, or another one",
    403: "it comes from another page",
    404: "there is none of this id",
    408: "the body did not come in time",
    409: "something stands in the way",
    413: "the body is too long",
    415: "the body is no JSON",
    421: "the server is not reached by this host name",
    503: "too many readers, or the inbox cannot be used",
}


def described_file() -> Path:
    """Return the file that ships with the package."""
    return Path(__file__).with_name("openapi.json")


def description() -> str:
    """Return what the file has to hold."""
    return json.dumps(_document(), indent=2, sort_keys=True) + "\n"


def _document() -> dict[str, Any]:
    replies = {operation.reply for operation in OPERATIONS if operation.reply is not None} | {
        models.ErrorReply
    }
    bodies = {operation.body for operation in OPERATIONS if operation.takes_body}
    _, schemas = models_json_schema(
        sorted(
            [(each, "serialization") for each in replies] + [(each, "validation") for each in bodies],
            key=lambda pair: pair[0].__name__,
        ),
        ref_template=_REFS,
    )
    update = TypeAdapter(models.UpdateForm).json_schema(ref_template=_REFS, mode="serialization")
    components = {**schemas["$defs"], **update.pop("$defs"), "UpdateForm": update}
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "opask's inbox",
            "version": "1",
            "description": "Questions of agents to their operator. Texts in it are agents' and hostile until shown: as "
            "text, made inert. Requests are held to these schemas; readers of responses ignore what they do not know.",
        },
        "security": [{"cookie": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "opask-…",
                    "description": "set by the link that the server prints",
                },
            },
        },
    }


def _operation(operation: Operation[Any, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": _parameters(operation),
        "responses": {
            **_granted(operation),
            **{str(status): _refused(status) for status in _refusals(operation)},
        },
    }
    if operation.takes_body:
        made["requestBody"] = {"required": True, "content": _content(operation.body.__name__)}
    return made


def _granted(operation: Operation[Any, Any]) -> dict[str, Any]:
    if operation.streams:
        what = (
            "server-sent events: `event` is snapshot, entry, session or cleared, `data` an UpdateForm"
            if operation.name == "watch_inbox"
            else "server-sent events: `event` is log, `data` an EventForm"
        )
        return {
            "200": {"description": what, "content": {"text/event-stream": {"schema": {"type": "string"}}}}
        }
    if operation.reply is None:
        return {"204": {"description": "done"}}
    return {"200": {"description": "done", "content": _content(operation.reply.__name__)}}


def _refusals(operation: Operation[Any, Any]) -> list[int]:
    return sorted({400, 401, 403, 421, 503, *operation.refusals})


def _refused(status: int) -> dict[str, Any]:
    return {"description": _STATUSES[status], "content": _content(models.ErrorReply.__name__)}


def _content(model: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REFS.format(model=model)}}}


def _parameters(operation: Operation[Any, Any]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    if "{id}" in operation.path:
        made.append({"name": "id", "in": "path", "required": True, "schema": {"type": "string"}})
    schema = operation.query.model_json_schema()
    for name, of in schema.get("properties", {}).items():
        of.pop("title", None)
        made.append(
            {
                "name": name,
                "in": "query",
                "required": False,
                "description": of.pop("description"),
                "schema": of,
            }
        )
    if operation.streams:
        made.append(
            {
                "name": "Last-Event-ID",
                "in": "header",
                "required": False,
                "description": "the last event that the reader has; goes before the query",
                "schema": {"type": "string"},
            }
        )
    return made


if __name__ == "__main__":
    described_file().write_text(description(), encoding="utf-8")
