"""What is sent to an ACP agent, held against the protocol's own Python package: its models read it as it was meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from acp import schema
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from acp_samples import (
    ENDPOINT,
    INITIALIZED,
    OPTIONS,
    SESSION,
    answer,
    begun,
    due,
    hear,
    in_turn,
    of,
    opened,
    permission,
    request,
)
from opask.adapters import Message
from opask.permissions import Allow, Defer, Deny, PermissionRequested, Verdict
from opask_acp import AcpAdapter, HostClient, Profile, adapter

MODELS: dict[str, type[BaseModel]] = {
    "initialize": schema.InitializeRequest,
    "authenticate": schema.AuthenticateRequest,
    "session/new": schema.NewSessionRequest,
    "session/load": schema.LoadSessionRequest,
    "session/resume": schema.ResumeSessionRequest,
    "session/prompt": schema.PromptRequest,
    "session/cancel": schema.CancelNotification,
}
ELICITED: TypeAdapter[Any] = TypeAdapter(schema.CreateElicitationResponse)


def held(message: Message) -> BaseModel:
    """Hold a message against its model, strictly: what the model does not know or drops would be lost on the agent."""
    assert message["jsonrpc"] == "2.0"
    model = MODELS[message["method"]]
    read = model.model_validate(message["params"], strict=True, extra="forbid")
    told = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert told == message["params"]
    return read


def conversations() -> Iterator[tuple[str, Any]]:
    """Give adapters and endpoints of many kinds, and a name for each."""
    http = evolve(ENDPOINT, command=(), url="http://127.0.0.1:9/mcp", token="secret")
    resuming, mine = HostClient(resume="old"), {"name": "mine", "command": "/x", "args": ["-y"], "env": []}
    full = HostClient(
        authenticate="key",
        mcp_servers=[mine],
        capabilities={"fs": {"readTextFile": True, "writeTextFile": False}, "terminal": True},
        info={"name": "host", "title": "A host", "version": "2"},
    )
    yield "plain", (adapter, ENDPOINT)
    yield "http", (adapter, http)
    yield "http without a token", (adapter, evolve(http, token=None))
    yield "no environment", (adapter, evolve(ENDPOINT, env={}))
    yield "nobody", (adapter, None)
    yield "resuming", (adapter.with_client(resuming), ENDPOINT)
    yield "full", (adapter.with_client(full), ENDPOINT)
    yield "forms", (AcpAdapter(Profile(elicitation=True)), ENDPOINT)


KINDS = dict(conversations())


@pytest.mark.parametrize("loads", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_the_handshake_is_of_the_protocol(kind: str, loads: bool) -> None:
    """Every request of the handshake, and the prompt behind it, is whole and has nothing too much."""
    conversation = begun(*KINDS[kind])
    able = {**INITIALIZED["agentCapabilities"], **({"sessionCapabilities": {}} if loads else {})}
    (first,) = conversation.prompt("Größe \N{PILE OF POO}")
    messages = [first]
    answers: dict[str, dict[str, Any]] = {
        "initialize": {**INITIALIZED, "agentCapabilities": able},
        "session/new": {"sessionId": "s1"},
    }
    while messages[-1]["method"] != "session/prompt":
        last = messages[-1]
        hear(conversation, answer(last["id"], **answers.get(last["method"], {})))
        messages.append(due(conversation))
    messages += conversation.interrupt()
    for message in messages:
        held(message)
    assert messages[0]["method"] == "initialize"
    assert messages[-1]["method"] == "session/cancel"


def test_a_stdio_server_is_read_as_one() -> None:
    """An entry without a type is a stdio server to the protocol's own models, command, arguments, variables and all."""
    conversation = begun()
    hear(conversation, answer(due(conversation)["id"], **INITIALIZED))
    opening = held(due(conversation))
    assert isinstance(opening, schema.NewSessionRequest)
    (server,) = opening.mcp_servers
    assert isinstance(server, schema.McpServerStdio)
    assert [server.command, *server.args] == list(ENDPOINT.command)
    assert [(each.name, each.value) for each in server.env] == [("X", "1")]


VERDICTS: st.SearchStrategy[Verdict] = st.sampled_from([Allow("x"), Deny("no"), Defer()])


@given(VERDICTS, st.lists(st.sampled_from(OPTIONS), max_size=4), st.booleans())
def test_a_permissions_answer_is_of_the_protocol(
    verdict: Verdict, options: list[Message], interrupted: bool
) -> None:
    """An answer takes one of the options that were there, or none, in the protocol's form."""
    conversation, _ = in_turn()
    (asked,) = of(PermissionRequested, hear(conversation, permission(3, {"toolCallId": "c1"}, options)))
    if interrupted:
        conversation.interrupt()
    result = conversation.reply(asked, verdict)["result"]
    read = schema.RequestPermissionResponse.model_validate(result, strict=True, extra="forbid")
    if isinstance(read.outcome, schema.AllowedOutcome):
        assert read.outcome.option_id in {option["optionId"] for option in options}


@pytest.mark.parametrize("elicits", ["native", "server"])
def test_a_forms_answer_is_of_the_protocol(elicits: Any) -> None:
    """A form is answered as declined or cancelled, in the protocol's form, and never as accepted."""
    conversation = opened(AcpAdapter(Profile(elicits=elicits)))
    events = hear(conversation, request(5, "elicitation/create", sessionId=SESSION, mode="form", message="?"))
    replies = [
        *conversation.outgoing(),
        *(conversation.reply(each, Allow("x")) for each in of(PermissionRequested, events)),
    ]
    (reply,) = replies
    read = ELICITED.validate_python(reply["result"])
    assert isinstance(read, schema.DeclineElicitationResponse | schema.CancelElicitationResponse)


@given(st.sampled_from(["fs/read_text_file", "x"]), st.one_of(st.none(), st.integers(), st.text(max_size=4)))
def test_a_refusal_is_of_the_protocol(method: str, request_id: Any) -> None:
    """An error has a code, a sentence, and the id of what it answers."""
    conversation = opened()
    hear(conversation, request(request_id, method))
    reply = due(conversation)
    assert reply["id"] == request_id
    schema.Error.model_validate(reply["error"], strict=True, extra="forbid")
