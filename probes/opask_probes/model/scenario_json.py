"""The JSON form of a scenario: the same names, and nothing that is at its default.

For example::

    {
        "name": "ask-once",
        "conversations": [
            {
                "name": "main",
                "steps": [
                    {
                        "expect": {
                            "offered": ["mcp__opask__ask_user_question"],
                            "absent": ["AskUserQuestion"],
                        },
                        "reply": {
                            "calls": [
                                {"tool": "mcp__opask__ask_user_question", "arguments": {"questions": []}}
                            ]
                        },
                    },
                    {
                        "expect": {"results": [{"contains": ["SQLite"], "is_error": false}]},
                        "reply": {"text": "The operator said: {{result}}"},
                    },
                ],
            }
        ],
    }
"""

from __future__ import annotations

import json
from typing import Any

from .scenario import (
    Call,
    Conversation,
    Expect,
    ExpectedResult,
    Reply,
    Scenario,
    ScenarioError,
    Step,
    When,
)

__all__ = ["from_data", "from_json", "to_data", "to_json"]


def from_json(text: str) -> Scenario:
    """Read a scenario from its JSON form.

    Raises:
        ScenarioError: it is no JSON, or a field is unknown, missing or of the wrong kind; the message says where.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ScenarioError(f"the scenario is not JSON: {error}") from error
    return from_data(data)


def from_data(data: object) -> Scenario:
    """Read a scenario from the objects that its JSON form decodes to.

    Raises:
        ScenarioError: as for `from_json`.
    """
    fields = _Fields(data, "scenario")
    name = fields.text("name")
    conversations = tuple(_conversation(item) for item in fields.objects("conversations"))
    fields.end()
    return Scenario(name, conversations)


def to_json(scenario: Scenario) -> str:
    """Write the JSON form of a scenario."""
    return json.dumps(to_data(scenario), ensure_ascii=False, indent=2)


def to_data(scenario: Scenario) -> dict[str, Any]:
    """Give the objects of the JSON form of a scenario."""
    return {"name": scenario.name, "conversations": [_conversation_data(c) for c in scenario.conversations]}


def _conversation_data(conversation: Conversation) -> dict[str, Any]:
    steps = [_step_data(step) for step in conversation.steps]
    return {**_compact(name=conversation.name, when=_plain(conversation.when)), "steps": steps}


def _step_data(step: Step) -> dict[str, Any]:
    expect = _plain(step.expect)
    if step.expect.results is not None:
        expect["results"] = [_plain(result) for result in step.expect.results]
    calls = [
        {"tool": call.tool, **_compact(arguments=dict(call.arguments), otherwise=list(call.otherwise))}
        for call in step.reply.calls
    ]
    reply = _compact(text=step.reply.text, calls=calls)
    return _compact(expect=expect, hold=step.hold, reply=reply, releases=step.releases)


def _plain(value: When | Expect | ExpectedResult) -> dict[str, Any]:
    names = [attribute.name for attribute in value.__attrs_attrs__ if attribute.name != "results"]
    items = {name: getattr(value, name) for name in names}
    return _compact(**{name: list(item) if isinstance(item, tuple) else item for name, item in items.items()})


def _compact(**items: Any) -> dict[str, Any]:
    return {name: item for name, item in items.items() if item is not None and item not in ([], {})}


def _conversation(fields: _Fields) -> Conversation:
    name = fields.text("name")
    fields.where = f"conversation {name}"
    found = fields.object("when")
    when = When(
        prompt_contains=found.texts("prompt_contains"),
        system_contains=found.texts("system_contains"),
        offered=found.texts("offered"),
        absent=found.texts("absent"),
    )
    found.end()
    steps = tuple(_step(item) for item in fields.objects("steps"))
    fields.end()
    return Conversation(name, steps, when)


def _step(fields: _Fields) -> Step:
    if "reply" not in fields.data:
        raise ScenarioError(f"{fields.where}: it has no reply")
    reply = _reply(fields.object("reply"))
    expect = _expect(fields.object("expect"))
    hold, releases = fields.take("hold", str, None), fields.take("releases", str, None)
    fields.end()
    return Step(reply, expect, hold, releases)


def _reply(fields: _Fields) -> Reply:
    calls = []
    for item in fields.objects("calls"):
        calls.append(Call(item.text("tool"), item.take("arguments", dict, {}), item.texts("otherwise")))
        item.end()
    text = fields.take("text", str, None)
    fields.end()
    try:
        return Reply(text, tuple(calls))
    except ScenarioError as error:
        raise ScenarioError(f"{fields.where}: {error}") from None


def _expect(fields: _Fields) -> Expect:
    results = None
    if "results" in fields.data:
        results = tuple(_result(item) for item in fields.objects("results"))
    expect = Expect(
        offered=fields.texts("offered"),
        absent=fields.texts("absent"),
        system_contains=fields.texts("system_contains"),
        system_lacks=fields.texts("system_lacks"),
        text_contains=fields.texts("text_contains"),
        text_lacks=fields.texts("text_lacks"),
        results=results,
    )
    fields.end()
    return expect


def _result(fields: _Fields) -> ExpectedResult:
    result = ExpectedResult(
        contains=fields.texts("contains"),
        lacks=fields.texts("lacks"),
        is_error=fields.take("is_error", bool, None),
    )
    fields.end()
    return result


class _Fields:
    """An object of the JSON form that is read field by field, so that what is left over is an error."""

    def __init__(self, data: object, where: str) -> None:
        if not isinstance(data, dict):
            raise ScenarioError(f"{where}: expected an object, found {type(data).__name__}")
        self.data: dict[str, Any] = dict(data)
        self.where = where

    def take(self, name: str, kind: type, default: Any) -> Any:
        if name not in self.data:
            return default
        value = self.data.pop(name)
        if not isinstance(value, kind):
            raise ScenarioError(f"{self.where}: {name} must be {kind.__name__}, found {type(value).__name__}")
        return value

    def text(self, name: str) -> str:
        value = self.take(name, str, None)
        if value is None:
            raise ScenarioError(f"{self.where}: it has no {name}")
        return str(value)

    def texts(self, name: str) -> tuple[str, ...]:
        values: list[str] = self.take(name, list, [])
        if not all(isinstance(value, str) for value in values):
            raise ScenarioError(f"{self.where}: {name} must be a list of strings")
        return tuple(values)

    def object(self, name: str) -> _Fields:
        return _Fields(self.data.pop(name, {}), f"{self.where}, {name}")

    def objects(self, name: str) -> list[_Fields]:
        values = self.take(name, list, [])
        return [_Fields(value, f"{self.where}, {name} {number}") for number, value in enumerate(values, 1)]

    def end(self) -> None:
        if self.data:
            raise ScenarioError(f"{self.where}: unknown field {', '.join(sorted(map(str, self.data)))}")
