"""What a probe finds in a run, by the events alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from opask.events import Event, QuestionAsked, QuestionCorrelated, TextSaid, ToolAnnounced, ToolFinished
from opask.permissions import PermissionRequested
from opask_probes.playing import Take
from opask_probes.verdicts import correlated, heard, of_a_sub_agent, unasked

ANNOUNCED = ToolAnnounced(tool="ask", ask="supplied", tool_call_id="call")


def asked(question: str = "q", call: str | None = "call", agent: str | None = None) -> QuestionAsked:
    """Make the event of a question."""
    now = datetime.now(UTC)
    return QuestionAsked(
        question_id=question, questions=(), asked_at=now, deadline=None, tool_call_id=call, agent_id=agent
    )


def correlated_later(call: str = "call", agent: str | None = None) -> QuestionCorrelated:
    """Make the event that tells later whose a question is."""
    return QuestionCorrelated(question_id="q", tool_call_id=call, agent_id=agent)


@pytest.mark.parametrize(
    ("events", "problems"),
    [
        ([TextSaid(text="It is SQLite.")], []),
        ([TextSaid(text="It is SQ"), TextSaid(text="Lite.")], []),
        ([TextSaid(text="It is SQ"), TextSaid(text="no", agent_id="a"), TextSaid(text="Lite.")], []),
        (
            [TextSaid(text="SQLite?"), ANNOUNCED, TextSaid(text="Done.")],
            ["the agent's last words lack 'SQLite': 'Done.'"],
        ),
        (
            [TextSaid(text="SQLite?"), ToolFinished(tool="ask", is_error=False, tool_call_id="call")],
            ["the agent's last words lack 'SQLite': ''"],
        ),
        (
            [TextSaid(text="SQLite.", agent_id="a")],
            ["the agent's last words lack 'SQLite': ''"],
        ),
    ],
    ids=["whole", "pieces", "between-a-sub-agents", "before-a-call", "before-a-result", "a-sub-agents"],
)
def test_the_last_words_may_come_in_pieces(events: list[Event], problems: list[str]) -> None:
    """What the main agent said since its last call is read as one text, and nothing else is."""
    assert list(heard(Take(events=events), "SQLite")) == problems


@pytest.mark.parametrize(
    ("events", "unknown", "problems"),
    [
        ([ANNOUNCED, asked()], 0, []),
        ([ANNOUNCED, asked(call=None), correlated_later()], 0, []),
        ([asked(call=None)], 1, []),
        ([asked(call=None)], 0, ["1 questions are of no call that is known, and 0 were to be"]),
        ([ANNOUNCED, asked()], 1, ["0 questions are of no call that is known, and 1 were to be"]),
        (
            [asked()],
            0,
            ["a question is said to be of call call, which was not announced as one of the ask tool"],
        ),
        ([ANNOUNCED, asked("q"), asked("p")], 0, ["call call has 2 questions"] * 2),
    ],
    ids=["at-once", "later", "to-be-unknown", "unknown", "known", "not-announced", "two-of-one-call"],
)
def test_each_question_is_of_a_call(events: list[Event], unknown: int, problems: list[str]) -> None:
    """Each question has one call that was announced, but for as many as nothing is to be known of."""
    assert list(correlated(Take(events=events), unknown=unknown)) == problems


@pytest.mark.parametrize(
    ("events", "told", "problems"),
    [
        ([asked(agent="a")], True, []),
        ([asked(), correlated_later(agent="a")], True, []),
        ([asked()], True, ["nothing tells that it was a sub-agent's question"]),
        ([asked()], False, []),
        (
            [asked(agent="a")],
            False,
            ["the row says that a sub-agent's question is not known to be one, and it is"],
        ),
    ],
    ids=["at-once", "later", "untold", "to-be-untold", "told-against-the-row"],
)
def test_a_sub_agents_question_is_known_as_one(events: list[Event], told: bool, problems: list[str]) -> None:
    """Whether a question is known to be a sub-agent's is as the row says."""
    assert list(of_a_sub_agent(Take(events=events), told=told)) == problems


def test_where_permissions_are_bypassed_none_is_asked_for() -> None:
    """A run that asks for permission, and is allowed, did not bypass it."""
    request = PermissionRequested(request_id="1", tool="ask")
    assert list(unasked(Take(events=[ANNOUNCED, request]))) == [
        "permission was asked for ask, so that it was not bypassed"
    ]
    assert list(unasked(Take(events=[ANNOUNCED]))) == []
