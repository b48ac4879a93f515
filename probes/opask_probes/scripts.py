"""Scenarios for the scripted model, in few words: the questions that every probe asks, and how a step is written."""

from __future__ import annotations

from typing import Any, Final

from .model import Call, Conversation, Expect, ExpectedResult, Reply, Scenario, Step, When

__all__ = [
    "DATABASE",
    "MAIN",
    "NAME",
    "PARTS",
    "QUESTIONS",
    "REPORT",
    "SUB",
    "asked",
    "failed",
    "given",
    "says",
    "scenario",
    "two_given",
]

MAIN: Final = "The main agent of a probe."
"""What the prompt of every main agent says."""

SUB: Final = "A sub-agent of a probe."
"""The prompt of every sub-agent."""

REPORT: Final = "That was all there was to ask, and nothing else is left to be done. " * 3
"""What a sub-agent says behind its answer: some runtimes send a short report back, for more."""

DATABASE: Final = "Which database should the service use?"
PARTS: Final = "Which parts should be done first?"
NAME: Final = "What should the service be called?"


def _question(text: str, header: str, *options: tuple[str, str], several: bool = False) -> dict[str, Any]:
    described = [{"label": label, "description": description} for label, description in options]
    return {"question": text, "header": header, "options": described, "multiSelect": several}


QUESTIONS: Final[dict[str, dict[str, Any]]] = {
    DATABASE: _question(
        DATABASE, "Database", ("PostgreSQL", "A server of its own"), ("SQLite", "A file beside the service")
    ),
    PARTS: _question(
        PARTS,
        "Parts",
        ("API", "What other services call"),
        ("Web page", "What people see"),
        ("Docs", "What both are told"),
        several=True,
    ),
    NAME: _question(NAME, "Name", ("Atlas", "The one that carries"), ("Boreas", "The one from the north")),
}


def asked(*texts: str) -> dict[str, Any]:
    """Give the arguments of a call that asks questions."""
    return {"questions": [QUESTIONS[text] for text in texts]}


def says(text: str, *calls: Call, expect: Expect | None = None, **more: Any) -> Step:
    """Make a step.

    Args:
        text: what the model says.
        calls: what it calls.
        expect: what its request must look like.
        more: ``hold`` and ``releases``, see `Step`.
    """
    return Step(Reply(text, calls), expect or Expect(), **more)


def given(*parts: str, lacks: tuple[str, ...] = (), error: bool | None = False) -> Expect:
    """Expect the result of the one call before."""
    return Expect(results=(ExpectedResult(parts, lacks, error),))


def failed(*parts: str, lacks: tuple[str, ...] = ()) -> Expect:
    """Expect that the one call before failed."""
    return given(*parts, lacks=lacks, error=True)


def two_given(first: str, second: str) -> Expect:
    """Expect the results of the two calls before, each with its own word and without the other's."""
    return Expect(
        results=(
            ExpectedResult((first,), (second,), is_error=False),
            ExpectedResult((second,), (first,), is_error=False),
        )
    )


def scenario(name: str, *steps: Step, sub: tuple[Step, ...] = ()) -> Scenario:
    """Make a scenario of a main agent's steps, and of its sub-agent's where there is one."""
    main = Conversation("main", steps, When(prompt_contains=(MAIN,)))
    others = (Conversation("sub", sub, When(prompt_contains=(SUB,))),) if sub else ()
    return Scenario(name, (main, *others))
