"""The clarification gate: the same workflow with an operator, without one, and replayed."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import anyio
import pytest

from gate_operator import Operator, answer
from opask.clarify import Clarification, clarify
from opask.errors import GateError
from opask.events import Event, HostCalled, HostReturned, event_to_json
from opask.outcomes import Answered, Skipped
from opask.prompter import Prompter, use_prompter
from opask.questions import Answer, Ask, Option, Question

QUESTIONS = (
    Question("Which database?", "Database", (Option("PostgreSQL"), Option("SQLite", "a file"))),
    Question("Which parts?", "Parts", (Option("API"), Option("Docs")), multi_select=True),
)


async def workflow(
    prompter: Prompter | None, told: list[Event], recorded: Any = None
) -> tuple[str, Clarification]:
    """Play a host's workflow, whoever is there."""
    result = await clarify(
        QUESTIONS, prompter=prompter, session_id="s", call_id="start", recorded=recorded, tell=told.append
    )
    database = result.answer_texts().get("Which database?", "to be decided")
    return f"Plan with {database}", result


class Answering(Operator):
    """Answers both questions."""

    async def ask(self, ask: Ask, /) -> Answered:
        """Answer."""
        self.asks.append(ask)
        return Answered((Answer((1,)), Answer((0, 1), "and tests")), "web:alice")


async def test_the_same_workflow_with_an_operator_without_and_replayed() -> None:
    """In all three cases the workflow takes the same path and gets, and shows, data of the same shape."""
    told: dict[str, list[Event]] = {"asked": [], "alone": [], "replayed": []}
    plan, result = await workflow(Answering(), told["asked"])
    alone, unanswered = await workflow(None, told["alone"])
    again, replayed = await workflow(None, told["replayed"], json.loads(json.dumps(result.to_json())))
    assert (plan, alone, again) == ("Plan with SQLite", "Plan with to be decided", "Plan with SQLite")
    assert replayed == result
    assert result.by == "web:alice"
    assert result.answer_texts()["Which parts?"] == ["API", "Docs", "and tests"]
    assert (unanswered.status, unanswered.questions) == ("not_answered", QUESTIONS)
    shapes = [{name: type(value) for name, value in each.to_json().items()} for each in (result, replayed)]
    assert shapes[0] == shapes[1]
    assert unanswered.to_json().keys() == result.to_json().keys()
    for case, events in told.items():
        called, returned = events
        assert isinstance(called, HostCalled)
        assert isinstance(returned, HostReturned)
        assert called.call_id == returned.call_id == "start"
        assert event_to_json(called)["input"]["questions"][0]["question"] == "Which database?"
        assert Clarification.from_json(returned.output).questions == QUESTIONS
        assert returned.replayed == (case == "replayed")


async def test_without_an_operator_the_result_is_stable() -> None:
    """Nobody there, by no prompter or by one that says so, is the same result every time, at once."""
    with anyio.fail_after(30):
        results = [
            await clarify(QUESTIONS),
            await clarify(QUESTIONS),
            await clarify(QUESTIONS, prompter=Operator(there=False)),
        ]
    assert results[0] == results[1] == results[2]
    assert results[0].to_json()["outcome"] == "unavailable"


async def test_a_prompter_in_the_context_is_taken() -> None:
    """A workflow deep in a call stack needs no prompter handed down."""
    with use_prompter(Answering()):
        assert (await clarify(QUESTIONS)).is_answered


async def test_a_record_of_an_unanswered_one_is_given_back() -> None:
    """A recorded result without answers is replayed as such; nobody is asked again."""
    operator = Answering()
    record = (await clarify(QUESTIONS)).to_json()
    result = await clarify(QUESTIONS, prompter=operator, recorded=record)
    assert not result.is_answered
    assert operator.asks == []


async def test_a_record_of_other_questions_is_refused() -> None:
    """A workflow that asks something else than was recorded is told so."""
    record = (await clarify(QUESTIONS)).to_json()
    with pytest.raises(GateError, match="other questions"):
        await clarify(QUESTIONS[:1], recorded=record)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data.pop("questions"),
        lambda data: data.update(status="maybe"),
        lambda data: data.update(status="answered"),
        lambda data: data.update(answers=[]),
        lambda data: data.update(answers=[{"selected": [0], "text": None}, None]),
        lambda data: data.update(questions=[1]),
        lambda data: data.update(outcome="answered"),
        lambda data: data.update(outcome="approved"),
        lambda data: data.update(outcome=[]),
        lambda data: data.update(by={}),
        lambda data: data["questions"][0].update(question=5),
        lambda data: data["questions"][0].update(multiSelect="yes"),
        lambda data: data["questions"][0]["options"][0].update(label=None),
    ],
)
async def test_what_is_no_record_is_refused(spoil: Any) -> None:
    """Data that is no record of a clarification is refused in one sentence."""
    data = (await clarify(QUESTIONS)).to_json()
    spoil(data)
    with pytest.raises(GateError, match="no recorded clarification"):
        Clarification.from_json(data)


async def test_a_record_that_does_not_fit_is_no_call() -> None:
    """A replay that fails tells of no call, which would never return."""
    heard: list[Event] = []
    record = (await clarify(QUESTIONS)).to_json()
    for recorded in (record, {}):
        with pytest.raises(GateError):
            await clarify(QUESTIONS[:1], recorded=recorded, tell=heard.append)
    assert heard == []


@pytest.mark.parametrize("count", [0, 5])
async def test_one_to_four_questions(count: int) -> None:
    """No questions, or more than a surface shows, are refused."""
    with pytest.raises(GateError, match="one to four"):
        await clarify(QUESTIONS[:1] * count)


async def test_a_skip_and_a_timeout_are_no_answers() -> None:
    """Whatever the operator does but answer, the status is the same; the outcome tells which."""

    class Skipping(Operator):
        async def ask(self, ask: Ask, /) -> Skipped:
            return Skipped("test")

    skipped = await clarify(QUESTIONS, prompter=Skipping())
    timed_out = await clarify(QUESTIONS, prompter=Operator(), wait=timedelta(milliseconds=1))
    assert [(each.status, each.outcome) for each in (skipped, timed_out)] == [
        ("not_answered", "skipped"),
        ("not_answered", "timed_out"),
    ]


async def test_two_at_once_are_each_answered_on_their_own() -> None:
    """Two clarifications that wait together get each their own answer."""
    operator, found = Operator(), {}

    async def ask(text: str) -> None:
        question = Question(text, options=(Option("yes"), Option("no")))
        found[text] = (await clarify((question,), prompter=operator)).answer_texts()[text]

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "One?")
        tasks.start_soon(ask, "Two?")
        asks = {ask.questions[0].text: ask for ask in await operator.until(2)}
        operator.reply(asks["Two?"], answer(asks["Two?"], "no"))
        operator.reply(asks["One?"], answer(asks["One?"], "yes"))
    assert found == {"One?": "yes", "Two?": "no"}
