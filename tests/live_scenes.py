"""Scenarios for the scripted model, in few words."""

from __future__ import annotations

import json
from typing import Any

from opask_probes.model import Call, Conversation, Expect, ExpectedResult, Reply, Scenario, Step, When

ASK = "mcp__opask__ask_user_question"
NATIVE = "AskUserQuestion"

DATABASE = "Which database should the service use?"
PARTS = "Which parts should be done first?"
NAME = "What is the service called?"


def question(text: str, header: str, *labels: str, several: bool = False) -> dict[str, Any]:
    """Make a question."""
    options = [{"label": label, "description": ""} for label in labels]
    return {"question": text, "header": header, "options": options, "multiSelect": several}


QUESTIONS = {
    DATABASE: question(DATABASE, "Database", "PostgreSQL", "SQLite"),
    PARTS: question(PARTS, "Parts", "API", "Web page", "Docs", several=True),
    NAME: question(NAME, "Name", "Atlas", "Boreas"),
}
ANSWERS = {DATABASE: "SQLite", PARTS: ["API", "Docs"], NAME: "Cirrus"}


def answers(*texts: str) -> str:
    """Give ``--answers`` for some of the questions, or all."""
    return json.dumps({text: ANSWERS[text] for text in texts or ANSWERS})


def ask(text: str, tool: str = ASK) -> Call:
    """Make the call that asks a question."""
    return Call(tool, {"questions": [QUESTIONS[text]]})


def says(text: str | None, *calls: Call, **more: Any) -> Step:
    """Make a step that expects nothing, or what is named: ``expect``, ``hold``, ``releases``."""
    return Step(Reply(text, calls), more.pop("expect", Expect()), **more)


def given(*parts: str, lacks: tuple[str, ...] = (), error: bool | None = False, **more: Any) -> Expect:
    """Expect the one result to have these parts."""
    return Expect(results=(ExpectedResult(parts, lacks, error),), **more)


def scenario(*steps: Step, **others: tuple[When, tuple[Step, ...]]) -> Scenario:
    """Make a scenario of a main conversation, and of others beside it."""
    more = [Conversation(name, steps_, when) for name, (when, steps_) in others.items()]
    main = When(prompt_contains=("MAIN",)) if others else When()
    return Scenario("live", (Conversation("main", steps, main), *more))
