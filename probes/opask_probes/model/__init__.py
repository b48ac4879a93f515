"""A scripted model: an HTTP server on loopback that plays a scenario to an agent runtime.

It offers what the runtime's model service offers, replies what the scenario says, keeps all that it was sent,
and fails loudly when the runtime asks for something else.
"""

from .dialect import MalformedRequestError, Message, ModelRequest, ToolCall, ToolOffer, ToolResult, Turn
from .player import MismatchError
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
from .scenario_json import from_data, from_json, to_data, to_json
from .server import Exchange, Failure, ModelError, ScenarioFailedError, ScriptedModel, serve

__all__ = [
    "Call",
    "Conversation",
    "Exchange",
    "Expect",
    "ExpectedResult",
    "Failure",
    "MalformedRequestError",
    "Message",
    "MismatchError",
    "ModelError",
    "ModelRequest",
    "Reply",
    "Scenario",
    "ScenarioError",
    "ScenarioFailedError",
    "ScriptedModel",
    "Step",
    "ToolCall",
    "ToolOffer",
    "ToolResult",
    "Turn",
    "When",
    "from_data",
    "from_json",
    "serve",
    "to_data",
    "to_json",
]
