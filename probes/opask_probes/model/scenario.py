"""What the scripted model is to be asked and what it is to reply, as plain data.

A scenario has conversations (the main agent, each sub-agent), a conversation has steps, and a step says what
the request must look like and what to reply. `scenario_json` has the same in JSON.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from attrs import Attribute, Factory, field, frozen

from opask.errors import OpaskError

__all__ = [
    "PLACEHOLDER",
    "Call",
    "Conversation",
    "Expect",
    "ExpectedResult",
    "Reply",
    "Scenario",
    "ScenarioError",
    "Step",
    "When",
]

PLACEHOLDER: Final = re.compile(r"\{\{([^{}]*)\}\}")
_RESULT: Final = re.compile(r"result(?::[1-9][0-9]*)?")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")


class ScenarioError(OpaskError):
    """A scenario that cannot be played as it is written."""


@frozen
class Call:
    """One tool call of a reply.

    Args:
        tool: the tool's name, as the runtime spells it to the model.
        arguments: its arguments, sent as they are.
        otherwise: other names of it, at other versions of the runtime: the first that is offered is called where
            `tool` is not offered.
    """

    tool: str
    arguments: Mapping[str, Any] = Factory(dict)
    otherwise: tuple[str, ...] = ()

    def name(self, offered: Collection[str]) -> str:
        """Give the name that is called, of those that are offered; `tool` where none of its names is."""
        return next((name for name in (self.tool, *self.otherwise) if name in offered), self.tool)


@frozen
class Reply:
    """What the model says at a step: text, tool calls, or text and then tool calls.

    Args:
        text: what it says. ``{{result}}`` stands for every tool result of the request, one a line, verbatim;
            ``{{result:2}}`` for that of the second call of the reply before.
        calls: what it calls, all in one message.
    """

    text: str | None = None
    calls: tuple[Call, ...] = ()

    def __attrs_post_init__(self) -> None:
        if not self.text and not self.calls:
            raise ScenarioError("a reply needs text or calls")
        for name in PLACEHOLDER.findall(self.text or ""):
            if not _RESULT.fullmatch(name):
                raise ScenarioError(
                    f"unknown placeholder {{{{{name}}}}}: use {{{{result}}}} or {{{{result:N}}}}"
                )


@frozen
class ExpectedResult:
    """What one tool result must be.

    Args:
        contains: texts that it has.
        lacks: texts that it has not.
        is_error: whether it is marked as an error; None for either, and where the dialect has no such mark.
    """

    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    is_error: bool | None = None


@frozen
class Expect:
    """What a request must look like. What is not named is not looked at.

    Args:
        offered: exact names of tools that are on offer.
        absent: exact names of tools that are not.
        system_contains: texts of the system prompt.
        system_lacks: texts that it has not.
        text_contains: texts of the user messages since the last reply.
        text_lacks: texts that these have not.
        results: one item for each call of the reply before, in the order of those calls.
    """

    offered: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    system_contains: tuple[str, ...] = ()
    system_lacks: tuple[str, ...] = ()
    text_contains: tuple[str, ...] = ()
    text_lacks: tuple[str, ...] = ()
    results: tuple[ExpectedResult, ...] | None = None


@frozen
class Step:
    """One request and its reply.

    Args:
        reply: what the model says.
        expect: what the request must look like.
        hold: a gate that the reply waits at until it is opened, by a step that releases it or by the caller.
        releases: the gate that opens once this reply is on its way.
    """

    reply: Reply
    expect: Expect = Factory(Expect)
    hold: str | None = None
    releases: str | None = None


@frozen
class When:
    """How the requests of a conversation are told from those of another; all that is named must hold.

    Args:
        prompt_contains: texts of the user messages before the first reply.
        system_contains: texts of the system prompt.
        offered: exact names of tools that are on offer.
        absent: exact names of tools that are not.
    """

    prompt_contains: tuple[str, ...] = ()
    system_contains: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


@frozen
class Conversation:
    """The steps of one agent, in order.

    Args:
        name: letters, digits and dashes; it is part of the ids that the model gives.
        steps: at least one.
        when: how its requests are recognised; by default every request is.
    """

    name: str = field()
    steps: tuple[Step, ...] = field()
    when: When = Factory(When)

    @name.validator
    def _check_name(self, _attribute: Attribute[str], value: str) -> None:
        if not _NAME.fullmatch(value):
            raise ScenarioError(f"conversation name {value!r}: use letters, digits and dashes")

    @steps.validator
    def _check_steps(self, _attribute: Attribute[tuple[Step, ...]], value: tuple[Step, ...]) -> None:
        if not value:
            raise ScenarioError(f"conversation {self.name}: it has no steps")


@frozen
class Scenario:
    """A play for the scripted model; every step of every conversation is to be played."""

    name: str
    conversations: tuple[Conversation, ...]

    def __attrs_post_init__(self) -> None:
        if not self.conversations:
            raise ScenarioError(f"scenario {self.name}: it has no conversations")
        names = [conversation.name for conversation in self.conversations]
        if len(set(names)) != len(names):
            raise ScenarioError(f"scenario {self.name}: two conversations have one name: {', '.join(names)}")
        steps = [step for conversation in self.conversations for step in conversation.steps]
        held = {step.hold for step in steps}
        for step in steps:
            if step.releases and step.releases not in held:
                raise ScenarioError(f"scenario {self.name}: no step is held at {step.releases}")
