"""An agent runtime as a model service sees it, whatever the dialect: a history, and one request after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar, TypeVar

import anyio
import httpx2
from attrs import frozen

from opask_probes.model import (
    Call,
    Conversation,
    Expect,
    ExpectedResult,
    Reply,
    Scenario,
    ScriptedModel,
    Step,
    ToolCall,
    serve,
)
from opask_probes.model.dialect import Dialect

ARGUMENTS = {"questions": [{"question": "Which “database”?", "options": [{"label": "SQLite"}]}]}
SECRET = "k-test-secret"
TITLE = {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}}


@frozen
class Said:
    """A reply, as a runtime understands it."""

    text: str
    calls: tuple[ToolCall, ...] = ()


class Speaker(ABC):
    """The part of a runtime that talks to its model.

    Attributes:
        dialect: what it speaks.
        ask_tool: the ask tool's name, and `other_tool` another's, both of which it offers.
        credential: the header with its key.
        demand: what is said where that is missing.
        marks_errors: whether it can say that a result is an error.
        side: fields of a request that offers no tools, by the text that it gets.
        beside: method and path of requests of other kinds, with the kind that they are logged as.
        history: what it sends, in its own words; the first of it is to get going.
    """

    dialect: ClassVar[Dialect]
    ask_tool: ClassVar[str]
    other_tool: ClassVar[str]
    credential: ClassVar[tuple[str, str]] = ("authorization", f"Bearer {SECRET}")
    demand: ClassVar[str] = "authorization: a bearer token is required"
    marks_errors: ClassVar[bool] = False
    side: ClassVar[Mapping[str, Mapping[str, Any]]]
    beside: ClassVar[Mapping[tuple[str, str], str]]

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client
        self.history: list[dict[str, Any]] = self.begun()

    @classmethod
    def once(cls) -> Scenario:
        """Make a scenario in which the agent asks once and quotes the answer."""
        ask = Step(
            Reply("I ask.", (Call(cls.ask_tool, ARGUMENTS),)), Expect(offered=(cls.ask_tool, cls.other_tool))
        )
        wanted = ExpectedResult(contains=("SQ",), is_error=False if cls.marks_errors else None)
        quote = Step(Reply("You said: {{result}}"), Expect(results=(wanted,)))
        return Scenario("ask-once", (Conversation("main", (ask, quote)),))

    async def turn(self, **more: Any) -> Said:
        """Send the history, and put the reply into it."""
        response = await self.ask(**more)
        assert response.status_code == 200, response.text
        return self.heard(response.json())

    @staticmethod
    @abstractmethod
    def begun() -> list[dict[str, Any]]:
        """Give the history that a run begins with."""

    @abstractmethod
    async def ask(self, *, streams: bool = False, **more: Any) -> httpx2.Response:
        """Send the history as it is, with more fields or others in the request."""

    @abstractmethod
    def heard(self, reply: dict[str, Any]) -> Said:
        """Put a reply into the history, and understand it."""

    @abstractmethod
    def answer(self, *results: str) -> None:
        """Put a result for each of the last calls into the history."""

    @abstractmethod
    def shuffle(self) -> None:
        """Turn round the order of the results that were put in last, two of them."""

    @staticmethod
    @abstractmethod
    def assembled(stream: str) -> dict[str, Any]:
        """Put a reply together from its events, as a client does, holding them to the documented form."""

    @staticmethod
    @abstractmethod
    def is_invalid(error: dict[str, Any]) -> bool:
        """Tell whether an error's body says that the request was at fault."""


S = TypeVar("S", bound=Speaker)


@asynccontextmanager
async def playing(
    speaker: type[S], scenario: Scenario | None = None, **options: Any
) -> AsyncIterator[tuple[ScriptedModel, S]]:
    """Serve a scenario, by default that of one ask, and give a runtime that is pointed at it."""
    with anyio.fail_after(40):
        async with (
            serve(scenario or speaker.once(), **options) as model,
            httpx2.AsyncClient(base_url=model.url, headers=[speaker.credential], timeout=30) as client,
        ):
            yield model, speaker(client)


def one_step(expect: Expect, first: Reply | None = None) -> Scenario:
    """Make a scenario whose last step expects something, after a first reply if one is given."""
    steps = [Step(first)] if first else []
    return Scenario("one", (Conversation("main", (*steps, Step(Reply("Done."), expect))),))


async def is_refused(speaker: type[Speaker], fields: dict[str, Any], reason: str) -> None:
    """See that a request with other fields is refused for a reason, and is a failure of the run."""
    async with playing(speaker, verify=False) as (model, runtime):
        response = await runtime.ask(**fields)
        assert response.status_code == 400
        assert runtime.is_invalid(response.json()["error"])
        assert reason in response.json()["error"]["message"]
        assert reason in model.failures[0].reason
        assert model.requests[0].kind == "refused"
