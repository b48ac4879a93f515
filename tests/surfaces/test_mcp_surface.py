"""The MCP surface, driven by the official SDK's client in both eras, with and without forms; agents are coroutines."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import anyio
import jsonschema  # type: ignore[import-untyped]
import mcp.client.session as sdk_session
import pytest
from mcp import Client, MCPError
from mcp.client.context import ClientRequestContext
from mcp_types import (
    CallToolResult,
    ClientCapabilities,
    ElicitationCapability,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    FormElicitationCapability,
    Implementation,
    UrlElicitationCapability,
)

from mcp_driver import Agent, FakeSession, Stand, one, several, stand
from opask import Answer, Answered, Ask, Cancelled, Skipped
from opask.surfaces.mcp.eliciting import Elicitor, takes_forms

ERAS = ("legacy", "2026-07-28")
BEAT = timedelta(milliseconds=10)
SINGLE = one("Which database?", "PostgreSQL", "SQLite", header="Database")
MULTI = one("Which parts?", "API", "Docs", multi=True)
FREE = one("What is it called?")
BY = "elicitation:tester"


def asks(*asked: Any) -> Agent:
    """Make an agent that asks one ask after the other, and says what came of each."""

    async def agent(session: FakeSession, prompt: str) -> str:
        return " / ".join(
            [await session.ask_and_say(*(ask if isinstance(ask, tuple) else (ask,))) for ask in asked]
        )

    return agent


async def echo(session: FakeSession, prompt: str) -> str:
    """Say what was prompted."""
    return f"did {prompt}"


async def never(session: FakeSession, prompt: str) -> str:
    """Work without end."""
    await anyio.sleep_forever()
    raise AssertionError


class Human:
    """Whoever fills in forms: gives prepared results, and remembers the forms."""

    def __init__(self, *results: ElicitResult | ErrorData | Callable[[], Any]) -> None:
        self.results = list(results)
        self.forms: list[ElicitRequestParams] = []
        self.shown = anyio.Event()
        self.withdrawn = anyio.Event()

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> Any:
        """Fill in a form."""
        self.forms.append(params)
        self.shown.set()
        result = self.results.pop(0)
        if not callable(result):
            return result
        try:
            return await result()
        except anyio.get_cancelled_exc_class():
            self.withdrawn.set()
            raise


def accept(**content: Any) -> ElicitResult:
    """Make an accept."""
    return ElicitResult(action="accept", content=content)


@asynccontextmanager
async def client(there: Stand, era: str, human: Human | None = None) -> AsyncIterator[Client]:
    """Connect a client."""
    info = Implementation(name="tester", version="1")
    failure: Exception | None = None
    async with Client(
        there.surface.mcp, mode=era, elicitation_callback=human, client_info=info, cache=None
    ) as connected:
        try:
            yield connected
        except Exception as error:  # raised below: the client's task group would wrap it
            failure = error
    if failure is not None:
        raise failure


async def call(connected: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool; hold that its result says the same twice and fits its schema."""
    result = await connected.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    text = result.content[0].text  # type: ignore[union-attr]
    assert not result.is_error, text
    assert json.loads(text) == result.structured_content
    schemas = {listed.name: listed.output_schema for listed in (await connected.list_tools()).tools}
    jsonschema.validate(result.structured_content, schemas[tool] or {})
    content: dict[str, Any] = result.structured_content
    return content


async def refused(connected: Client, tool: str, **arguments: Any) -> str:
    """Call a tool that refuses; give what it says."""
    result = await connected.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    assert result.is_error
    assert result.structured_content is None
    return str(result.content[0].text)  # type: ignore[union-attr]


async def drive(connected: Client, **more: Any) -> dict[str, Any]:
    """Start a session."""
    return await call(connected, "session_drive", runtime="fake", prompt="Go.", **more)


# -- without forms -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_a_turn_without_questions_gives_its_outcome_and_can_be_followed(era: str) -> None:
    """A session is started, gives its turn's outcome and text, takes a further prompt, and is listed."""
    async with stand(echo) as there, client(there, era) as connected:
        first = await drive(connected)
        assert (first["outcome"], first["text"], first["session_id"]) == ("done", "did Go.", "s1")
        second = await call(connected, "session_drive", session_id="s1", prompt="On.")
        assert (second["outcome"], second["text"]) == ("done", "did On.")
        (listed,) = (await call(connected, "sessions_list"))["sessions"]
        assert (listed["session_id"], listed["state"], listed["turns"], listed["title"]) == (
            "s1",
            "idle",
            2,
            "Go.",
        )


@pytest.mark.parametrize("era", ERAS)
async def test_without_forms_a_question_is_parked_and_answered(era: str) -> None:
    """A client without elicitation is given the question; its answer brings the next one, and then the outcome."""
    async with stand(asks(SINGLE, several(MULTI, FREE))) as there, client(there, era) as connected:
        first = await drive(connected)
        assert first["awaiting_operator"] is True
        assert (first["session_id"], first["question_id"]) == ("s1", "s1-q1")
        assert first["questions"] == [
            {
                "question": "Which database?",
                "header": "Database",
                "options": [
                    {"label": "PostgreSQL", "description": ""},
                    {"label": "SQLite", "description": ""},
                ],
                "multiSelect": False,
            }
        ]
        second = await call(
            connected,
            "session_answer",
            question_id="s1-q1",
            session_id="s1",
            answers=[{"labels": ["SQLite"]}],
        )
        assert second["question_id"] == "s1-q2"
        assert "resolved" not in second  # its own answer is no news
        third = await call(
            connected, "session_answer", question_id="s1-q2", answers=[{"selected": [0, 1]}, {"text": "Ada"}]
        )
        assert (third["outcome"], third["text"]) == ("done", "answered SQLite / answered API+Docs; Ada")
        assert [entry.by for entry in await there.store.entries()] == ["mcp:tester"] * 2


@pytest.mark.parametrize(
    ("given", "said", "state"),
    [({"skip": True}, "skipped", "skipped"), ({"cancel": True}, "cancelled", "cancelled")],
)
async def test_a_question_is_skipped_or_cancelled(given: dict[str, Any], said: str, state: str) -> None:
    """A skip and an operator's cancel reach the agent as such."""
    async with stand(asks(SINGLE)) as there, client(there, "auto") as connected:
        await drive(connected)
        assert (await call(connected, "session_answer", question_id="s1-q1", **given))["text"] == said
        (entry,) = await there.store.entries()
        assert (entry.state, entry.by) == (state, "mcp:tester")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"answers": [{"labels": ["MySQL"]}]}, "has no option 'MySQL'; the question stays open"),
        ({"answers": [{"selected": [2]}]}, "none at position 2; the question stays open"),
        ({"answers": [{"selected": [0, 1]}]}, "takes one option, got 2; the question stays open"),
        ({"answers": [{}]}, "needs a chosen option or some text; leave the question out to skip it"),
        ({"answers": [None]}, "no answer at all"),
        ({"answers": []}, "have to be a list of 1"),
        ({"answers": [{"selected": [0]}, None]}, "have to be a list of 1"),
        ({"answers": [{"label": "SQLite"}]}, "answers.0.label: Extra inputs"),
        ({"answers": {"Which database?": "SQLite"}}, "answers: Input should be a valid list"),
        ({}, "exactly one of answers, skip: true and cancel: true"),
        ({"skip": True, "cancel": True}, "exactly one of"),
        ({"skip": True, "session_id": "s2"}, "s1"),
        ({"skip": True, "max_wait_s": 99_999}, "max_wait_s: Input should be less than"),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open(
    arguments: dict[str, Any], why: str
) -> None:
    """What is no answer to this question is refused with the reason; then a good one is taken."""
    async with stand(asks(SINGLE)) as there, client(there, "auto") as connected:
        await drive(connected)
        assert why in await refused(connected, "session_answer", question_id="s1-q1", **arguments)
        assert (await there.store.entry("s1-q1")).state == "pending"
        last = await call(connected, "session_answer", question_id="s1-q1", answers=[{"selected": [0]}])
        assert last["text"] == "answered PostgreSQL"


async def test_what_cannot_be_done_is_told() -> None:
    """Calls that name nothing that is there, or come at the wrong time, say what to do instead."""
    async with stand(asks(SINGLE)) as there, client(there, "auto") as connected:
        assert "exactly one of the two" in await refused(connected, "session_drive", prompt="Go.")
        assert "no session 's9'" in await refused(connected, "session_drive", session_id="s9", prompt="Go.")
        assert "no runtime 'x'" in await refused(connected, "session_drive", runtime="x", prompt="Go.")
        assert "prompt" in await refused(connected, "session_drive", runtime="fake", prompt="")
        assert "prompt: Field required" in await refused(connected, "session_drive", runtime="fake")
        assert "q9" in await refused(connected, "session_answer", question_id="q9", skip=True)
        assert "no session 's9'" in await refused(connected, "session_status", session_id="s9")
        assert "no session 's9'" in await refused(connected, "session_cancel", session_id="s9")
        await drive(connected)
        said = await refused(connected, "session_drive", session_id="s1", prompt="More.")
        assert "at work" in said
        assert "s1-q1: call session_answer" in said
        said = await refused(connected, "session_drive", session_id="s1", prompt="More.", cwd="/")
        assert "stays where it is" in said
        with pytest.raises(MCPError):
            await connected.call_tool("no_such_tool", {})


async def test_a_question_of_another_servers_session_is_left_to_that_one() -> None:
    """An inbox has others' questions too: an answer to one of these is refused, with who takes it, and it stays open."""
    async with stand(asks(SINGLE)) as there, client(there, "auto") as connected:
        now = datetime.now(UTC)
        ask = Ask("q-theirs", "theirs", (SINGLE,), now, now + timedelta(minutes=5))
        await there.store.put(ask, there.driver.host.id, runtime="fake")
        said = await refused(connected, "session_answer", question_id="q-theirs", answers=[{"selected": [0]}])
        assert "no session of this server" in said
        assert "where session theirs is driven, or in the inbox" in said
        assert (await there.store.entry("q-theirs")).state == "pending"


async def test_a_question_with_several_open_names_all() -> None:
    """Of questions that wait at once the oldest is given whole, and all are named."""

    async def both(session: FakeSession, prompt: str) -> str:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.ask, SINGLE)
            await there.pending()
            tasks.start_soon(session.ask, FREE)
        return f"{len(session.outcomes)} answers"

    async with stand(both) as there, client(there, "auto") as connected:
        await drive(connected)
        while len((status := await call(connected, "session_status", session_id="s1"))["open_questions"]) < 2:
            await anyio.lowlevel.checkpoint()
        assert status["question_id"] == "s1-q1"
        assert status["open_questions"] == ["s1-q1", "s1-q2"]
        waited = await call(connected, "session_status", session_id="s1", max_wait_s=60)
        assert (waited["question_id"], waited["open_questions"]) == ("s1-q1", ["s1-q1", "s1-q2"])
        left = await call(connected, "session_answer", question_id="s1-q2", answers=[{"text": "Ada"}])
        assert left["question_id"] == "s1-q1"
        assert "open_questions" not in left
        last = await call(connected, "session_answer", question_id="s1-q1", skip=True)
        assert last["text"] == "2 answers"


async def test_a_question_that_outlives_its_turn_is_named_beside_the_outcome() -> None:
    """Where a sub-agent still asks when the turn is over, the outcome is told, and which question is open."""

    async def delegates(session: FakeSession, prompt: str) -> str:
        there.driver.tasks.start_soon(session.ask, SINGLE)
        await there.pending()
        return "the rest is done"

    async with stand(delegates) as there, client(there, "auto", Human()) as connected:
        await there.driver.start("fake", "Go.", None)
        await there.driver.session("s1").turn_over()
        status = await call(connected, "session_status", session_id="s1", max_wait_s=60)
        assert (status["outcome"], status["open_questions"]) == ("done", ["s1-q1"])
        last = await call(connected, "session_answer", question_id="s1-q1", answers=[{"selected": [0]}])
        assert last["outcome"] == "done"
        assert there.driver.session("s1").outcomes == [Answered((Answer((0,)),), "mcp:tester")]


async def test_calls_that_wait_are_bounded() -> None:
    """No more than so many calls wait at once; the next one is told so, and one that ends makes room."""
    async with stand(never) as there, client(there, "auto") as connected:
        await drive(connected, max_wait_s=0)
        async with anyio.create_task_group() as tasks:
            for _ in range(64):
                tasks.start_soon(partial(call, connected, "session_status", session_id="s1", max_wait_s=600))
            said = ""
            while "64 calls wait already" not in said:
                result = await connected.call_tool("sessions_list", {})
                said = str(result.content[0].text)  # type: ignore[union-attr]
            await there.driver.session("s1").cancel(keep=True)
        assert await call(connected, "sessions_list")


async def test_a_surface_that_closes_ends_the_calls_that_wait() -> None:
    """A call that waits, and any that comes later, is told that the server stops."""
    async with stand(never) as there, client(there, "auto") as connected:
        said: list[str] = []

        async def waits() -> None:
            said.append(await refused(connected, "session_drive", runtime="fake", prompt="Go."))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(waits)
            while not there.driver.sessions():
                await anyio.lowlevel.checkpoint()
            await there.surface.close()
        said.append(await refused(connected, "sessions_list"))
        assert said == ["this server is stopping, and its sessions end with it"] * 2


# -- time ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_a_turn_that_takes_longer_than_the_wait_runs_on(era: str) -> None:
    """When the time is over the client is told that it runs, with what was said; a status waits on for the end."""
    go_on = anyio.Event()

    async def slow(session: FakeSession, prompt: str) -> str:
        session.said = "I work."
        await go_on.wait()
        return "done at last"

    async with stand(slow) as there, client(there, era) as connected:
        first = await drive(connected, max_wait_s=0.01)
        assert (first["running"], first["session_id"], first["text"]) == (True, "s1", "I work.")
        assert (await call(connected, "session_status", session_id="s1"))["state"] == "working"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(there.driver.session("s1").turn_over)
            go_on.set()
            status = await call(connected, "session_status", session_id="s1", max_wait_s=60)
        assert (status["outcome"], status["text"], status["state"]) == ("done", "done at last", "idle")


@pytest.mark.parametrize("era", ERAS)
async def test_progress_is_told_while_a_call_waits(era: str) -> None:
    """A call that carries a progress token hears that the agent works, again and again, with rising numbers."""
    go_on = anyio.Event()
    beats: list[tuple[float, str | None]] = []

    async def slow(session: FakeSession, prompt: str) -> str:
        await go_on.wait()
        return "done"

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        beats.append((progress, message))
        if len(beats) == 3:
            go_on.set()

    async with stand(slow, heartbeat=BEAT) as there, client(there, era) as connected:
        arguments = {"runtime": "fake", "prompt": "Go."}
        await connected.call_tool("session_drive", arguments, progress_callback=on_progress)
    assert [message for _, message in beats[:3]] == ["fake works"] * 3
    assert beats == sorted(beats)


async def test_a_client_that_goes_away_leaves_the_question_to_others() -> None:
    """A call that its client gives up changes nothing: the question waits in the inbox, and the agent goes on with an answer from there."""
    async with stand(asks(SINGLE)) as there:
        async with client(there, "legacy") as connected, anyio.create_task_group() as tasks:
            tasks.start_soon(drive, connected)
            entry = await there.pending()
            tasks.cancel_scope.cancel()
        assert (await there.store.entry(entry.id)).state == "pending"
        await there.store.resolve(entry.id, Answered((Answer((1,)),), "web:alice"))
        assert (await there.driver.session("s1").turn_over()).text == "answered SQLite"
        async with client(there, "legacy") as connected:
            status = await call(connected, "session_status", session_id="s1")
        assert (status["outcome"], status["text"]) == ("done", "answered SQLite")
        (resolved,) = status["resolved"]
        assert (resolved["by"], resolved["answers"]) == ("web:alice", {"Which database?": "SQLite"})


# -- several surfaces ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_an_answer_from_elsewhere_is_seen_by_a_client_that_waits(era: str) -> None:
    """While the client waits for the next thing, an answer given elsewhere moves the agent on, and the result says whose it was."""
    gate = anyio.Event()

    async def agent(session: FakeSession, prompt: str) -> str:
        said = await session.ask_and_say(SINGLE)
        await gate.wait()
        return said

    async with stand(agent) as there, client(there, era) as connected:
        asked = await drive(connected)
        results: list[dict[str, Any]] = []

        async def waits() -> None:
            results.append(await call(connected, "session_status", session_id="s1", max_wait_s=60))

        await there.store.resolve(asked["question_id"], Answered((Answer((1,)),), "web:alice"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(waits)
            gate.set()
        assert results[0]["text"] == "answered SQLite"
        assert [(one["question_id"], one["by"]) for one in results[0]["resolved"]] == [("s1-q1", "web:alice")]
        assert "resolved" not in await call(connected, "session_status", session_id="s1")  # told once


async def test_an_answer_that_comes_second_is_told_who_was_faster() -> None:
    """The first answer wins: the client that answers after it hears whose it is and what it says."""
    gate = anyio.Event()

    async def agent(session: FakeSession, prompt: str) -> str:
        said = await session.ask_and_say(SINGLE)
        await gate.wait()
        return said

    async with stand(agent) as there, client(there, "auto") as connected:
        asked = await drive(connected)
        await there.store.resolve(asked["question_id"], Answered((Answer((1,)),), "web:alice"))
        said = await refused(
            connected, "session_answer", question_id=asked["question_id"], answers=[{"selected": [0]}]
        )
        assert said.startswith("web:alice was faster: the question is ")
        assert "SQLite" in said
        gate.set()
        assert (await call(connected, "session_status", session_id="s1", max_wait_s=60))[
            "text"
        ] == "answered SQLite"


async def test_a_late_answer_is_refused() -> None:
    """An answer to a question that the agent has let go of is refused, with the way to say it all the same."""
    async with stand(asks(SINGLE)) as there, client(there, "auto") as connected:
        asked = await drive(connected)
        cancelled = await call(connected, "session_cancel", session_id="s1", keep=True)
        assert (cancelled["outcome"], cancelled["state"]) == ("cancelled", "idle")
        said = await refused(connected, "session_answer", question_id=asked["question_id"], skip=True)
        assert "next prompt of session_drive" in said


async def test_a_session_is_cancelled() -> None:
    """Cancelling ends the turn and the session, whose questions are open no more; it takes no further prompt."""
    async with stand(asks(SINGLE)) as there, client(there, "auto") as connected:
        await drive(connected)
        ended = await call(connected, "session_cancel", session_id="s1")
        assert (ended["state"], ended["outcome"]) == ("ended", "cancelled")
        assert "awaiting_operator" not in ended
        assert (await there.store.entry("s1-q1")).state == "cancelled"
        await refused(connected, "session_drive", session_id="s1", prompt="On.")


# -- with forms ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_questions_of_every_kind_are_put_as_forms(era: str) -> None:
    """With elicitation one call drives to the end: single, several, free text and several questions, each as a form."""
    human = Human(
        accept(q1="SQLite"),
        accept(q1=["Docs", "API"]),
        accept(q1="Ada"),
        accept(q1="PostgreSQL", q2=["API"], q3_skip=True),
    )
    agent = asks(SINGLE, MULTI, FREE, several(SINGLE, MULTI, FREE))
    async with stand(agent) as there, client(there, era, human) as connected:
        result = await drive(connected)
        assert result["text"] == (
            "answered SQLite / answered Docs+API / answered Ada / answered PostgreSQL; API; skipped"
        )
        entries = await there.store.entries()
    assert [entry.by for entry in entries] == [BY] * 4
    assert [one["by"] for one in result["resolved"]] == [BY] * 4
    assert [form.message for form in human.forms[:3]] == [
        "An agent on fake asks: Which database?",
        "An agent on fake asks: Which parts?",
        "An agent on fake asks: What is it called?",
    ]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (ElicitResult(action="decline"), Skipped(BY)),
        (ElicitResult(action="cancel"), Cancelled("operator")),
    ],
)
async def test_a_persons_decline_and_cancel_are_told_apart(
    era: str, result: ElicitResult, outcome: Skipped | Cancelled
) -> None:
    """A decline that a person had the time for is a skip; a cancel is the operator's cancel."""
    async with (
        stand(asks(SINGLE), human=timedelta(0)) as there,
        client(there, era, Human(result)) as connected,
    ):
        assert (await drive(connected))["outcome"] == "done"
        assert there.driver.session("s1").outcomes == [outcome]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("result", "why"),
    [
        (ElicitResult(action="accept"), "no answer to question 1"),
        (accept(), "no answer to question 1"),
        (accept(q1="MySQL"), "no option 'MySQL'"),
    ],
)
async def test_an_accept_that_is_no_answer_leaves_the_question_open(
    era: str, result: ElicitResult, why: str
) -> None:
    """A form that comes back without an answer, or with one that is no option, parks the question; it is then answered otherwise."""
    human = Human(result)
    async with stand(asks(SINGLE)) as there, client(there, era, human) as connected:
        parked = await drive(connected)
        assert parked["awaiting_operator"] is True
        assert why in parked["form"]
        assert (await there.store.entry("s1-q1")).state == "pending"
        human.results.append(accept(q1="SQLite"))  # it can be shown again
        assert (await call(connected, "session_status", session_id="s1", max_wait_s=60))["outcome"] == "done"
        assert there.driver.session("s1").outcomes == [Answered((Answer((1,)),), BY)]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_refusal_sooner_than_a_persons_is_none(era: str, action: Any) -> None:
    """A client that turns forms down by itself is not asked by a form again: the questions of the session are parked."""
    human = Human(ElicitResult(action=action))
    clock = iter([0.0, 0.299, 1.0, 2.0]).__next__
    async with (
        stand(asks(SINGLE, MULTI), clock=clock) as there,
        client(there, era, human) as connected,
    ):
        parked = await drive(connected)
        assert parked["question_id"] == "s1-q1"
        assert f"with a {action} in 299 ms, which is no person's" in parked["form"]
        then = await call(connected, "session_answer", question_id="s1-q1", answers=[{"selected": [1]}])
        assert then["question_id"] == "s1-q2"
        assert "no person's" in then["form"]
    assert len(human.forms) == 1


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ErrorData(code=-32601, message="Method not found"), "knows no elicitation/create"),
        (ErrorData(code=-32603, message="broken\x1b[2J"), "could not show the form: broken␛[2J (-32603)"),
    ],
)
async def test_a_client_that_cannot_show_forms_is_asked_otherwise(error: ErrorData, why: str) -> None:
    """An error in place of a reply parks the question, and no form is tried again in that session."""
    human = Human(error)
    async with stand(asks(SINGLE, MULTI)) as there, client(there, "legacy", human) as connected:
        parked = await drive(connected)
        assert why in parked["form"]
        then = await call(connected, "session_answer", question_id="s1-q1", answers=[{"selected": [1]}])
        assert then["question_id"] == "s1-q2"
    assert len(human.forms) == 1


async def test_a_form_that_never_comes_back_is_not_offered_again() -> None:
    """In revision 2026-07-28 a client whose form fails gives its call up; its next call is given the question itself."""
    human = Human(ErrorData(code=-32601, message="Method not found"))
    async with stand(asks(SINGLE)) as there, client(there, "2026-07-28", human) as connected:
        with pytest.raises(MCPError):
            await drive(connected)
        parked = await call(connected, "session_status", session_id="s1", max_wait_s=60)
        assert parked["question_id"] == "s1-q1"
        assert "not come back" in parked["form"]
        last = await call(connected, "session_answer", question_id="s1-q1", answers=[{"selected": [1]}])
        assert last["text"] == "answered SQLite"
    assert len(human.forms) == 1


async def test_a_call_offers_no_more_forms_than_clients_follow() -> None:
    """In revision 2026-07-28 a call that has offered many forms gives the next question itself, before the client gives up."""
    human = Human(*[accept(q1="SQLite")] * 8)
    async with stand(asks(*[SINGLE] * 9)) as there, client(there, "2026-07-28", human) as connected:
        parked = await drive(connected)
        assert parked["question_id"] == "s1-q9"
        assert parked["awaiting_operator"] is True


async def test_a_call_that_comes_back_with_a_form_that_is_not_known_is_refused() -> None:
    """A made-up state starts no session and answers no question."""
    async with stand(echo) as there, client(there, "2026-07-28", Human()) as connected:
        result = await connected.session.call_tool(
            "session_drive", {"runtime": "fake", "prompt": "Go."}, request_state="made up"
        )
        assert result.is_error
        assert there.driver.sessions() == ()


async def test_a_form_is_withdrawn_when_the_question_is_answered_elsewhere() -> None:
    """In the handshake revisions an answer from another surface takes the open form away, and the turn goes on."""
    human = Human(anyio.sleep_forever)
    async with stand(asks(SINGLE)) as there, client(there, "legacy", human) as connected:
        results: list[dict[str, Any]] = []

        async def drives() -> None:
            results.append(await drive(connected))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drives)
            await human.shown.wait()
            (entry,) = await there.store.entries()
            await there.store.resolve(entry.id, Answered((Answer((1,)),), "web:alice"))
            await human.withdrawn.wait()
        assert results[0]["text"] == "answered SQLite"
        assert [one["by"] for one in results[0]["resolved"]] == ["web:alice"]


async def test_a_form_that_comes_back_second_is_told_who_was_faster() -> None:
    """In revision 2026-07-28 a form that is filled in after another surface answered changes nothing, and the result says whose answer stands."""
    async with stand(asks(SINGLE)) as there:

        async def slowly() -> ElicitResult:
            (entry,) = await there.store.entries()
            await there.store.resolve(entry.id, Answered((Answer((1,)),), "web:alice"))
            return accept(q1="PostgreSQL")

        async with client(there, "2026-07-28", Human(slowly)) as connected:
            result = await drive(connected)
        assert result["text"] == "answered SQLite"
        assert [one["by"] for one in result["resolved"]] == ["web:alice"]


async def test_a_reply_that_came_in_time_is_taken_though_the_inbox_is_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A form that came back decides, even where the call's time is over before the inbox has stored it."""

    async def elicit_form(*_: object, **__: object) -> ElicitResult:
        return accept(q1="SQLite")

    said = SimpleNamespace(elicit_form=elicit_form, protocol_version="2025-11-25", client_params=None)
    ctx: Any = SimpleNamespace(session=said, request_id=1)
    async with stand(asks(SINGLE)) as there:
        session = await there.driver.start("fake", "Go.", None)
        entry = await there.pending()
        resolve = there.store.resolve

        async def slowly(*given: Any, **more: Any) -> Any:
            await anyio.sleep(0.1)
            return await resolve(*given, **more)

        monkeypatch.setattr(there.store, "resolve", slowly)
        elicitor = Elicitor(there.store, timedelta(0), anyio.current_time)
        assert await elicitor.ask(ctx, session, entry, 0.01) is None
        assert (await there.store.entry(entry.id)).by == "elicitation:client"


async def test_a_form_is_told_who_was_faster_at_the_last_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another answer is stored while this one is on its way, that one stands and the turn goes on."""
    async with stand(asks(SINGLE)) as there:
        resolve = there.store.resolve

        async def raced(ask_id: str, *given: Any, **more: Any) -> Any:
            await resolve(ask_id, Answered((Answer((1,)),), "web:alice"))
            return await resolve(ask_id, *given, **more)

        monkeypatch.setattr(there.store, "resolve", raced)
        async with client(there, "2026-07-28", Human(accept(q1="PostgreSQL"))) as connected:
            result = await drive(connected)
        assert (result["text"], [one["by"] for one in result["resolved"]]) == (
            "answered SQLite",
            ["web:alice"],
        )


async def test_a_client_of_a_revision_without_lists_chooses_option_by_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client of 2025-06-18 is shown a yes or no for each option of a multiple choice."""
    monkeypatch.setattr(sdk_session, "LATEST_HANDSHAKE_VERSION", "2025-06-18")
    human = Human(accept(q1_o1=False, q1_o2=True))
    async with stand(asks(MULTI)) as there, client(there, "legacy", human) as connected:
        assert connected.protocol_version == "2025-06-18"
        assert (await drive(connected))["text"] == "answered Docs"


@pytest.mark.parametrize(
    ("capabilities", "shows"),
    [
        (None, False),
        (ClientCapabilities(), False),
        (ClientCapabilities(elicitation=ElicitationCapability()), True),
        (ClientCapabilities(elicitation=ElicitationCapability(form=FormElicitationCapability())), True),
        (ClientCapabilities(elicitation=ElicitationCapability(url=UrlElicitationCapability())), False),
    ],
)
def test_who_shows_forms_is_read_from_what_the_client_advertises(
    capabilities: ClientCapabilities | None, shows: bool
) -> None:
    """A bare capability means forms, as before there were modes; one of URLs alone does not."""
    ctx: Any = SimpleNamespace(session=SimpleNamespace(client_capabilities=capabilities))
    assert takes_forms(ctx) is shows


async def test_a_form_that_nobody_fills_in_is_withdrawn_in_time() -> None:
    """In the handshake revisions the call returns when its time is over, the question open and the form gone."""
    human = Human(anyio.sleep_forever, accept(q1="SQLite"))
    async with stand(asks(SINGLE)) as there, client(there, "legacy", human) as connected:
        await there.driver.start("fake", "Go.", None)
        await there.pending()
        parked: dict[str, Any] = {}
        while not human.forms:  # a machine that is held up may be later than the form
            parked = await call(connected, "session_status", session_id="s1", max_wait_s=0.2)
        assert parked["question_id"] == "s1-q1"
        assert "form" not in parked
        await human.withdrawn.wait()
        again = await call(connected, "session_status", session_id="s1", max_wait_s=60)
        assert again["text"] == "answered SQLite"


async def test_without_time_a_question_that_is_open_is_told_and_no_form_is_shown() -> None:
    """A call that is not to wait gives the next question at once, and leaves a client that shows forms alone."""

    async def both(session: FakeSession, prompt: str) -> str:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.ask, SINGLE)
            tasks.start_soon(session.ask, FREE)
        return "both"

    human = Human()
    async with stand(both) as there, client(there, "legacy", human) as connected:
        await there.driver.start("fake", "Go.", None)
        while len(await there.store.entries(states=("pending",))) < 2:
            await anyio.lowlevel.checkpoint()
        left = await call(connected, "session_answer", question_id="s1-q1", skip=True, max_wait_s=0)
        assert (left["question_id"], left["awaiting_operator"]) == ("s1-q2", True)
        assert human.forms == []


# -- what is told --------------------------------------------------------------------------------------------------


async def test_the_tools_are_listed_with_plain_schemas() -> None:
    """Every tool has strict arguments without references, and an output schema; what only looks says so."""
    async with stand(echo) as there, client(there, "auto") as connected:
        listed = (await connected.list_tools()).tools
    assert [tool.name for tool in listed] == [
        "session_drive",
        "session_answer",
        "session_cancel",
        "session_status",
        "sessions_list",
    ]
    for tool in listed:
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.input_schema["additionalProperties"] is False
        assert "$ref" not in json.dumps(tool.input_schema)
        assert tool.output_schema is not None
        for name, argument in tool.input_schema["properties"].items():
            assert "type" in argument, name
    read_only = {tool.name for tool in listed if tool.annotations and tool.annotations.read_only_hint}
    assert read_only == {"session_status", "sessions_list"}
    (drive_,) = [tool for tool in listed if tool.name == "session_drive"]
    assert drive_.input_schema["properties"]["runtime"]["enum"] == ["fake"]


async def test_that_an_agent_cannot_ask_is_told() -> None:
    """Where the agent has no way to ask, every result of the session says so, and why."""

    async def alone(session: FakeSession, prompt: str) -> str:
        session.cannot_ask = "no\x1b way"
        return "done alone"

    async with stand(alone) as there, client(there, "auto") as connected:
        for content in (await drive(connected), await call(connected, "session_status", session_id="s1")):
            assert (content["outcome"], content["cannot_ask"]) == ("done", "no␛ way")


async def test_what_an_agent_says_is_bounded_and_inert() -> None:
    """A very long text is cut at its beginning, which is said, and escapes in texts and questions are visible."""

    async def talks(session: FakeSession, prompt: str) -> str:
        await session.ask(one("Sure\x1b[2J?", "yes\x1b[31m"))
        return "x" * 30_000 + "\x1b[31mend"

    async with stand(talks) as there, client(there, "auto") as connected:
        asked = await drive(connected)
        assert "\x1b" not in json.dumps(asked, ensure_ascii=False)
        label = asked["questions"][0]["options"][0]["label"]
        last = await call(connected, "session_answer", question_id="s1-q1", answers=[{"labels": [label]}])
    assert last["text"].startswith("[1")
    assert "characters left out] xxx" in last["text"]
    assert last["text"].endswith("x␛[31mend")
    assert len(last["text"]) < 21_000
