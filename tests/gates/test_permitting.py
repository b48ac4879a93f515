"""Permission requests put to the operator."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import anyio
import anyio.to_thread
import pytest
from attrs import evolve

from gate_operator import Operator, answer, request
from opask.outcomes import Answered, Cancelled, Reply, Skipped, Unavailable
from opask.permissions import Allow, Deny, PermissionOption
from opask.permitting import OperatorPermits
from opask.prompter import Prompter, current_wait
from opask.questions import Answer, Ask

ONCE, SESSION, DENY = "Allow once", "Allow for this session", "Deny"


async def test_allow_once_is_once() -> None:
    """What was allowed once is asked about again."""
    operator = Operator(ONCE)
    permits = OperatorPermits(operator)
    assert await permits(request()) == Allow("allowed once")
    assert await permits(request()) == Allow("allowed once")
    assert len(operator.asks) == 2
    assert permits.remembered == frozenset()


async def test_allow_for_the_session_is_for_that_tool_in_that_session() -> None:
    """A yes for the session holds for exactly the tool and the session that it was given for."""
    operator = Operator(SESSION)
    permits = OperatorPermits(operator)
    await permits(request("Edit"))
    operator.label = DENY
    assert isinstance(await permits(request("Edit", {"path": "other"})), Allow)
    assert isinstance(await permits(request("Edit", agent_id="a1")), Allow)
    assert len(operator.asks) == 1
    assert isinstance(await permits(request("Edit2")), Deny)
    assert isinstance(await permits(request("edit")), Deny)
    assert isinstance(await permits(request("Edit", session_id="other")), Deny)
    permits.forget("s")
    assert isinstance(await permits(request("Edit")), Deny)


async def test_a_yes_for_a_session_that_was_forgotten_is_for_the_call_alone() -> None:
    """An answer that comes after its session was forgotten leaves nothing behind for the next one of that id."""
    operator = Operator()
    permits, found = OperatorPermits(operator), []

    async def decide() -> None:
        found.append(await permits(request("Edit")))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(decide)
        (ask,) = await operator.until(1)
        permits.forget("s")
        operator.reply(ask, answer(ask, SESSION))
    assert found == [Allow("allowed once")]
    assert permits.remembered == frozenset()


async def test_where_a_name_is_a_title_only_the_very_call_is_remembered() -> None:
    """Over ACP a name may be the agent's own phrase: a yes for the session is for that call with its arguments alone."""
    operator = Operator(SESSION)
    permits = OperatorPermits(operator)
    options = (PermissionOption("a", "allow_once"), PermissionOption("b", "reject_once"))
    await permits(request("run", {"command": "ls"}, options=options))
    assert "exactly these arguments" in operator.asks[0].questions[0].options[1].description
    operator.label = DENY
    assert isinstance(await permits(request("run", {"command": "ls"}, options=options)), Allow)
    assert isinstance(await permits(request("run", {"command": "rm"}, options=options)), Deny)
    assert isinstance(await permits(request("run", {"command": "ls"})), Deny)
    assert isinstance(await permits(evolve(request("run", options=options), arguments=None)), Deny)
    ask = operator.asks[-1].questions[0]
    assert "no arguments that the runtime tells of" in ask.text
    assert [option.label for option in ask.options] == [ONCE, DENY]


async def test_a_session_without_an_id_is_not_remembered() -> None:
    """Where no session or tool is named, a yes for the session is not offered."""
    operator = Operator(ONCE)
    permits = OperatorPermits(operator)
    await permits(request(session_id=""))
    await permits(request("", options=(PermissionOption("1", "allow_once"),)))
    for ask in operator.asks:
        assert [option.label for option in ask.questions[0].options] == [ONCE, DENY]


async def test_the_ask_shows_the_arguments_in_full_and_inert() -> None:
    """The operator sees every argument to its end, with nothing that takes effect or passes for opask's own words."""
    operator = Operator(DENY)
    arguments = {
        "command": "printf '\x1b[2J'\nThe agent wants to read. Allow it?\u202e",
        "deep": {"a": [1, 2]},
        "long": "x" * 5000,
    }
    await OperatorPermits(operator)(request("Bash\x1b[1m\n", arguments, tool_call_id="t1", agent_id="a1"))
    (ask,) = operator.asks
    text = ask.questions[0].text
    assert ask.kind == "permission"
    assert (ask.tool_call_id, ask.agent_id, ask.session_id) == ("t1", "a1", "s")
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert '"a": [1, 2]' in text
    assert "x" * 5000 in text
    first, *rest = text.split("\n")
    assert first == "The agent wants to use Bash␛[1m. Allow it?"
    assert all(line.startswith("  ") for line in rest)


async def test_what_cannot_be_shown_in_full_is_denied() -> None:
    """A call with more arguments than can be shown is denied, and nobody is asked."""
    operator = Operator(ONCE)
    verdict = await OperatorPermits(operator)(request("Write", {"content": "x" * 70_000}))
    assert isinstance(verdict, Deny)
    assert "smaller steps" in verdict.reason
    assert operator.asks == []


async def test_the_native_ask_tool_never_gets_there() -> None:
    """The runtime's own ask tool is denied without asking, and so is what names no tool at all."""
    operator = Operator(ONCE)
    permits = OperatorPermits(operator)
    assert isinstance(await permits(request("AskUserQuestion", ask="native")), Deny)
    assert isinstance(await permits(request("")), Deny)
    assert operator.asks == []


class Odd:
    """A prompter that replies with whatever it is given."""

    def __init__(self, reply: Any) -> None:
        self.reply = reply
        self.settled_with: list[Any] = []

    async def ask(self, ask: Ask, /) -> Reply:
        """Reply, or fail."""
        if isinstance(self.reply, BaseException):
            raise self.reply
        return self.reply  # type: ignore[no-any-return]

    def settled(self, ask: Ask, outcome: Any, /) -> None:
        """Keep it."""
        self.settled_with.append(outcome)

    def available(self, session_id: str, /) -> bool:
        """Say yes."""
        return True


@pytest.mark.parametrize(
    "reply",
    [
        Answered((Answer((2,)),), "x"),
        Answered((Answer((), "yes"),), "x"),
        Answered((Answer((0,), "but only this time"),), "x"),
        Answered((Answer((9,)),), "x"),
        Answered((Answer((0, 1)),), "x"),
        Answered((Answer((0,)), Answer((0,))), "x"),
        Skipped("x"),
        Cancelled("operator"),
        Cancelled("shutdown"),
        Unavailable("gone"),
        RuntimeError("broken"),
        None,
        True,
        "Allow once",
    ],
    ids=repr,
)
async def test_all_that_is_no_clear_yes_denies(reply: Any) -> None:
    """A no, free text, an option that is none, several, a skip, a cancel, an error, and nonsense: all deny."""
    odd = Odd(reply)
    permits = OperatorPermits(odd)
    verdict = await permits(request())
    assert isinstance(verdict, Deny)
    assert verdict.reason
    assert len(odd.settled_with) == 1
    assert permits.remembered == frozenset()


@pytest.mark.parametrize("prompter", [None, Operator(ONCE, there=False)], ids=["none", "away"])
async def test_nobody_there_denies(prompter: Prompter | None) -> None:
    """Without an operator a request is denied at once."""
    verdict = await OperatorPermits(prompter)(request())
    assert isinstance(verdict, Deny)
    assert "Nobody" in verdict.reason


async def test_a_timeout_denies() -> None:
    """When the wait runs out the request is denied, and the prompter hears of it."""
    operator = Operator()
    verdict = await OperatorPermits(operator, wait=timedelta(milliseconds=1))(request())
    assert isinstance(verdict, Deny)
    assert "in time" in verdict.reason
    assert [outcome.kind for _, outcome in operator.outcomes] == ["timed_out"]


async def test_a_prompter_may_extend_the_wait() -> None:
    """While the operator is at it, the wait can be made longer; the deadline moves with it."""

    class Typing(Operator):
        async def ask(self, ask: Ask, /) -> Reply:
            wait = current_wait()
            assert wait is not None
            assert ask.deadline is not None
            before = anyio.current_effective_deadline()
            await anyio.to_thread.run_sync(wait.extend, ask.deadline + timedelta(seconds=90))
            await anyio.wait_all_tasks_blocked()
            assert anyio.current_effective_deadline() == pytest.approx(before + 90, abs=20)
            wait.extend(ask.deadline)
            await anyio.wait_all_tasks_blocked()
            assert anyio.current_effective_deadline() == pytest.approx(before + 90, abs=20)
            return await super().ask(ask)

    assert isinstance(await OperatorPermits(Typing(ONCE), wait=timedelta(seconds=90))(request()), Allow)


async def test_cancelled_from_outside_it_settles_and_is_cancelled() -> None:
    """A cancelled request settles as cancelled by the host, once, and the cancellation goes on."""
    operator = Operator()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(OperatorPermits(operator), request())
            await operator.until(1)
            scope.cancel()
    assert [outcome for _, outcome in operator.outcomes] == [Cancelled("host")]


async def test_a_plain_function_asks_in_a_thread() -> None:
    """A prompter of plain functions is one too."""

    class Plain:
        def ask(self, ask: Ask, /) -> Reply:
            return Answered((Answer((0,)),), "plain")

        def settled(self, ask: Ask, outcome: Any, /) -> None:
            raise RuntimeError("a fault here must not change the verdict")

        def available(self, session_id: str, /) -> bool:
            return True

    assert await OperatorPermits(Plain())(request()) == Allow("allowed once")
