"""The write gate."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from gate_operator import Operator, answer, request, traced
from opask.effects import ShellTool, Tools
from opask.events import SessionReady, TurnEnded
from opask.outcomes import Answered, Skipped
from opask.permissions import Allow, Deny
from opask.questions import Answer
from opask.write_gate import WriteGate

TURN, ACTION, SESSION, DENY = "Allow for this turn", "Allow this action", "Allow for this session", "Deny"
TOOLS = Tools(
    reads=("Read",),
    writes=("Edit",),
    external=("WebFetch",),
    shells={"Bash": ShellTool("command", ("description", "timeout"))},
)


def bash(command: Any, **more: Any) -> Any:
    """Make a request to run a shell command."""
    return request("Bash", {"command": command, "description": "x"}, **more)


async def test_reads_pass_and_are_not_asked_about() -> None:
    """A tool that reads and a shell command that the profile admits run, operator or not; nothing is traced."""
    with traced() as rows:
        for operator in (None, Operator(DENY)):
            gate = WriteGate(TOOLS, operator)
            for each in (request("Read"), bash("git status"), bash("ls | wc -l")):
                assert await gate(each) == Allow("read-only")
    assert rows == []


@pytest.mark.parametrize(
    ("each", "effect"),
    [
        (request("Edit"), "write"),
        (request("mcp__x__y"), "external"),
        (request("Unheard"), "external"),
        (bash("touch x"), "write"),
        (bash("sed -i s/a/b/ x"), "write"),
        (bash(None), "write"),
        (request("Bash", {}), "write"),
        (request("Bash", {"command": "ls", "dangerouslyDisableSandbox": True}), "write"),
        (bash("git push"), "external"),
        (bash("opask inbox answer x"), "external"),
        (request("WebFetch", {"url": "https://example.invalid"}), "external"),
    ],
    ids=lambda value: str(getattr(value, "arguments", value)),
)
async def test_without_an_operator_every_write_is_denied(each: Any, effect: str) -> None:
    """With nobody there what is no read is denied with a reason, and traced so."""
    with traced() as rows:
        verdict = await WriteGate(TOOLS)(each)
    assert isinstance(verdict, Deny)
    assert "Nobody can allow this" in verdict.reason
    assert [(row["source"], row["verdict"], row["scope"], row["effect"], row["tool"]) for row in rows] == [
        ("headless_denied", "deny", None, effect, each.tool)
    ]


async def test_a_proposal_offers_the_turn_first() -> None:
    """A write is proposed in words, with the arguments, with the turn as the surfaced default."""
    operator = Operator(DENY)
    verdict = await WriteGate(TOOLS, operator)(bash("touch x", tool_call_id="t1"))
    (ask,) = operator.asks
    assert ask.kind == "write"
    assert ask.tool_call_id == "t1"
    assert ask.questions[0].text.startswith(
        "The agent wants to run a shell command. Allow this write action?"
    )
    assert "  command: touch x" in ask.questions[0].text
    assert [option.label for option in ask.questions[0].options] == [TURN, ACTION, SESSION, DENY]
    assert isinstance(verdict, Deny)


async def test_an_external_effect_is_asked_each_time() -> None:
    """What reaches other machines offers neither turn nor session, and no grant covers it."""
    operator = Operator(SESSION)
    gate = WriteGate(TOOLS, operator)
    assert await gate(request("Edit")) == Allow("write gate: session")
    operator.label = ACTION
    with traced() as rows:
        for _ in range(2):
            assert await gate(bash("git push")) == Allow("write gate: action")
    assert len(operator.asks) == 3
    assert [option.label for option in operator.asks[1].questions[0].options] == [ACTION, DENY]
    assert [(row["source"], row["scope"], row["effect"]) for row in rows] == [
        ("operator", "action", "external")
    ] * 2


async def test_an_action_is_that_action() -> None:
    """What is allowed as an action is asked about again."""
    operator = Operator(ACTION)
    gate = WriteGate(TOOLS, operator)
    for _ in range(2):
        assert await gate(request("Edit")) == Allow("write gate: action")
    assert len(operator.asks) == 2


async def test_a_turn_grant_is_one_agents_and_ends_with_its_turn() -> None:
    """A grant for the turn covers that agent's writes in that turn, and no other agent, turn or session."""
    operator = Operator(TURN)
    gate = WriteGate(TOOLS, operator)
    with traced() as rows:
        await gate(request("Edit"))
        operator.label = DENY
        assert isinstance(await gate(bash("touch x")), Allow)
        for other in ({"turn_id": "turn-2"}, {"agent_id": "a1"}, {"session_id": "z"}, {"turn_id": None}):
            assert isinstance(await gate(request("Edit", **other)), Deny)
        gate.hear(TurnEnded(session_id="s", turn_id="turn-1", stop_reason="end_turn"))
        assert isinstance(await gate(request("Edit")), Deny)
    assert [row["source"] for row in rows] == ["operator", "active_scope", *["operator"] * 5]
    assert [row["scope"] for row in rows] == ["turn", "turn", *[None] * 5]


async def test_a_sub_agents_turn_grant_does_not_outlive_the_turn() -> None:
    """A sub-agent that works on after the turn, or is resumed in a later one, has to ask again."""
    operator = Operator(TURN)
    gate = WriteGate(TOOLS, operator)
    await gate(request("Edit", agent_id="a1"))
    operator.label = DENY
    assert isinstance(await gate(request("Edit", agent_id="a1")), Allow)
    assert isinstance(await gate(request("Edit")), Deny)
    gate.hear(TurnEnded(session_id="s", turn_id="turn-1", stop_reason="end_turn"))
    for turn in (None, "turn-1", "turn-2"):
        assert isinstance(await gate(request("Edit", agent_id="a1", turn_id=turn)), Deny)


async def test_a_yes_for_a_turn_that_is_over_opens_nothing() -> None:
    """An answer that comes when the turn has ended allows the waiting call alone."""
    operator = Operator()
    gate, found = WriteGate(TOOLS, operator), []

    async def decide() -> None:
        found.append(await gate(request("Edit")))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(decide)
        (ask,) = await operator.until(1)
        gate.hear(TurnEnded(session_id="s", turn_id="turn-1", stop_reason="end_turn"))
        operator.reply(ask, answer(ask, TURN))
    assert found == [Allow("write gate: action")]
    operator.label = DENY
    assert isinstance(await gate(request("Edit")), Deny)


@pytest.mark.parametrize("label", [TURN, SESSION])
@pytest.mark.parametrize("by_event", [True, False])
async def test_a_yes_for_a_session_that_is_over_opens_nothing(label: str, by_event: bool) -> None:
    """A late answer allows its call alone, though a session of the same id, with turns of the same names, has begun."""
    operator = Operator()
    gate, found = WriteGate(TOOLS, operator), []

    async def decide() -> None:
        found.append(await gate(request("Edit")))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(decide)
        (ask,) = await operator.until(1)
        if by_event:
            gate.hear(SessionReady(session_id="s", questions=True))
        else:
            gate.end_session("s")
        operator.reply(ask, answer(ask, label))
    assert found == [Allow("write gate: action")]
    operator.label = DENY
    assert isinstance(await gate(request("Edit")), Deny)


async def test_a_session_grant_is_that_sessions() -> None:
    """A grant for the session covers all its agents and turns; a new session of the same id begins with none."""
    operator = Operator(SESSION)
    gate = WriteGate(TOOLS, operator)
    await gate(request("Edit"))
    operator.label = DENY
    assert isinstance(await gate(bash("touch x", turn_id="turn-9", agent_id="a1")), Allow)
    assert isinstance(await gate(request("Edit", session_id="z")), Deny)
    gate.hear(SessionReady(session_id="s", questions=True))
    assert isinstance(await gate(request("Edit")), Deny)


async def test_two_proposals_at_once_are_each_answered_on_their_own() -> None:
    """Two writes that wait together get each its own verdict, whatever the other was granted."""
    operator = Operator()
    gate, found = WriteGate(TOOLS, operator), {}

    async def decide(path: str) -> None:
        found[path] = await gate(request("Edit", {"path": path}))

    with traced() as rows:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(decide, "one")
            tasks.start_soon(decide, "two")
            asks = {
                "one" if "path: one" in ask.questions[0].text else "two": ask
                for ask in await operator.until(2)
            }
            operator.reply(asks["one"], answer(asks["one"], SESSION))
            operator.reply(asks["two"], answer(asks["two"], DENY))
    assert found["one"] == Allow("write gate: session")
    assert isinstance(found["two"], Deny)
    assert {row["question_id"]: row["verdict"] for row in rows} == {
        asks["one"].id: "allow",
        asks["two"].id: "deny",
    }


@pytest.mark.parametrize(
    "reply", [Answered((Answer((), "turn"),), "x"), Answered((Answer((7,)),), "x"), Skipped("x")], ids=repr
)
async def test_an_unknown_answer_is_a_no(reply: Any) -> None:
    """Free text, an option that is none, and a skip deny and grant nothing."""
    operator = Operator()
    gate, found = WriteGate(TOOLS, operator), []

    async def decide() -> None:
        found.append(await gate(request("Edit")))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(decide)
        (ask,) = await operator.until(1)
        operator.reply(ask, reply)
    assert isinstance(found[0], Deny)
    operator.label = DENY
    assert isinstance(await gate(request("Edit")), Deny)


async def test_a_timeout_denies_and_is_traced_as_nobodys() -> None:
    """When the wait runs out, nobody has decided."""
    with traced() as rows:
        verdict = await WriteGate(TOOLS, Operator(), wait=timedelta(milliseconds=1))(request("Edit"))
    assert isinstance(verdict, Deny)
    assert [row["source"] for row in rows] == ["headless_denied"]


async def test_a_cancelled_proposal_is_traced_as_denied() -> None:
    """A proposal whose turn is interrupted leaves its verdict in the trace too."""
    operator = Operator()
    with traced() as rows, anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(WriteGate(TOOLS, operator), request("Edit"))
            await operator.until(1)
            scope.cancel()
    assert [(row["source"], row["verdict"]) for row in rows] == [("headless_denied", "deny")]


async def test_the_inbox_itself_is_asked_about_each_time() -> None:
    """What names the inbox that answers these questions is under no grant."""
    operator = Operator(SESSION)
    gate = WriteGate(TOOLS, operator, protects=(Path("/state/inbox.sqlite"),))
    await gate(request("Edit"))
    operator.label = DENY
    for each in (
        request("Edit", {"path": "/state/inbox.sqlite"}),
        bash("sqlite3 inbox.sqlite 'update x'"),
        bash("opask inbox answer x"),
    ):
        assert isinstance(await gate(each), Deny)
    assert isinstance(await gate(request("Edit")), Allow)


@pytest.mark.parametrize(
    "command",
    [
        "rm /State/INBOX.sqlite",
        "rm in''box.sqlite",
        'rm "inb"ox.sqlite',
        "rm inb\\ox.sqlite",
        "rm inb\\\nox.sqlite",
        "rm '/state'/x",
    ],
)
async def test_the_inbox_is_known_however_a_shell_lets_it_be_written(command: str) -> None:
    """Quotes, backslashes and the case of letters do not hide the inbox's files from the gate."""
    gate = WriteGate(TOOLS, protects=(Path("/state/inbox.sqlite"), Path("/state/x")))
    assert gate.finding("Bash", {"command": command}).effect == "external"


def _circle() -> dict[str, Any]:
    circle: dict[str, Any] = {}
    circle["command"] = circle
    return circle


def _deep() -> list[Any]:
    deep: list[Any] = []
    for _ in range(50_000):
        deep = [deep]
    return deep


@pytest.mark.parametrize(
    "arguments", [_circle(), {"path": _deep()}, {"path": {(1, 2): "x"}}], ids=["circle", "deep", "key"]
)
@pytest.mark.parametrize("tool", ["Edit", "Bash", "Unheard"])
async def test_arguments_that_cannot_be_shown_in_full_are_denied(
    tool: str, arguments: dict[str, Any]
) -> None:
    """Arguments that nobody could read whole are denied with a reason and traced, and nobody is asked."""
    operator = Operator(SESSION)
    gate = WriteGate(TOOLS, operator, protects=(Path("/state/inbox.sqlite"),))
    with traced() as rows:
        verdict = await gate(request(tool, arguments))
    assert isinstance(verdict, Deny)
    assert "cannot be shown" in verdict.reason
    assert operator.asks == []
    assert [row["source"] for row in rows] == ["headless_denied"]


async def test_a_huge_name_leaves_the_question_readable() -> None:
    """A tool's name, and what makes it a write, are cut in the question; they cannot push the arguments away."""
    operator = Operator(DENY)
    tools = TOOLS.with_names(writes=("x" * 100_000,))
    await WriteGate(tools, operator)(request("x" * 100_000, {"path": "kept"}))
    await WriteGate(tools, operator)(request("Unheard " + "y" * 100_000, {"path": "kept"}))
    for ask in operator.asks:
        assert len(ask.questions[0].text) < 1000
        assert "  path: kept" in ask.questions[0].text


@pytest.mark.parametrize(
    "tool", ["read", "Read ", " Read", "READ", "Re\u0430d", "mcp__x__Read", "Read\u200b", "NotebookRead"]
)
def test_a_near_miss_of_a_read_is_no_read(tool: str) -> None:
    """Only the exact spelling of a tool that reads is one."""
    assert WriteGate(TOOLS).finding(tool, {"path": "a.txt"}).effect == "external"


async def test_a_hosts_own_call_is_proposed() -> None:
    """A host's call of effect write falls under the same grants; one of effect external is asked about each time."""
    operator = Operator(TURN)
    gate = WriteGate(TOOLS, operator)
    where: dict[str, Any] = {"call": "save", "session_id": "s", "turn_id": "turn-1"}
    assert await gate.propose("save the plan", effect="write", **where) == Allow("write gate: turn")
    assert isinstance(await gate(request("Edit")), Allow)
    operator.label = DENY
    with traced() as rows:
        denied = await gate.propose(
            "open a pull request", effect="external", arguments={"title": "x"}, **where
        )
    assert isinstance(denied, Deny)
    assert operator.asks[-1].questions[0].text.startswith("The agent wants to open a pull request.")
    assert rows[0]["tool"] == "save"


async def test_native_ask_tools_and_nameless_requests_are_denied() -> None:
    """The runtime's own ask tool, and what names no tool, never become a proposal."""
    operator = Operator(SESSION)
    gate = WriteGate(TOOLS, operator)
    assert isinstance(await gate(request("Read", ask="native")), Deny)
    assert isinstance(await gate(request("")), Deny)
    assert operator.asks == []


def test_a_host_adds_its_own_tools() -> None:
    """What a host says of its own MCP servers' tools is taken in; external goes before read."""
    tools = TOOLS.with_names(
        reads=("mcp__h__list", "mcp__h__send"), writes=("mcp__h__save",), external=("mcp__h__send",)
    )
    gate = WriteGate(tools)
    assert gate.finding("mcp__h__list", {}).effect == "read"
    assert gate.finding("mcp__h__send", {}).effect == "external"
    assert gate.finding("mcp__h__save", {}).effect == "write"
    assert gate.finding("mcp__h__other", {}).effect == "external"
