"""The gates under the driver: a gate that is missing ends the runtime, and proposals of an interrupted turn are denied."""

from __future__ import annotations

import json

import anyio
import pytest

from driver_fakes import FakeSession, plan
from gate_operator import Operator, answer, request, traced
from opask.driver import run, start
from opask.driver.permissions import PermissionDesk
from opask.errors import GateError
from opask.events import Event, GateMissing, PermissionWithdrawn
from opask.permissions import Allow, Deny, PermissionRequested
from opask.write_gate import WriteGate

ASKS = "hear(); say('turn'); say('permission', id='1'); say('permission', id='2')\n"


class MissingGate(FakeSession):
    """A session whose gate turns out to be missing."""

    def receive(self, message: str, /) -> list[Event]:
        """Take in one line."""
        if json.loads(message)["type"] == "past":
            return self._saw(GateMissing(reason="Bash ran without being put to the gate"))
        return super().receive(message)


class Withdrawing(FakeSession):
    """A session of a runtime that takes a request back."""

    def receive(self, message: str, /) -> list[Event]:
        """Take in one line."""
        told = json.loads(message)
        if told["type"] == "withdraw":
            return self._saw(PermissionWithdrawn(request_id=told["id"]))
        return super().receive(message)


class DecidingSession(FakeSession):
    """A session that tells when something was decided."""

    def __init__(self) -> None:
        super().__init__()
        self.was_decided = anyio.Event()

    def host_decided(self, request: PermissionRequested, verdict: Allow | Deny, by: str) -> None:
        """Remember, and tell."""
        super().host_decided(request, verdict, by)
        self.was_decided.set()


async def never(_: object) -> None:
    """Stand in for what is not to be called."""
    raise AssertionError


async def test_a_missing_gate_ends_the_runtime() -> None:
    """A runtime that goes past the gate is ended at once, and whoever runs it is told why."""
    with pytest.raises(GateError, match="not in force: Bash ran"), anyio.fail_after(30):
        await run(MissingGate(), plan("hear(); say('past'); time.sleep(600)"), "go")


async def test_two_proposals_of_one_runtime_are_answered_apart() -> None:
    """Two requests that wait at once get each its own reply, in the order of the answers."""
    operator, session = Operator(), DecidingSession()
    script = (
        ASKS
        + "print(json.dumps({'type': 'end', 'reason': json.dumps([hear(), hear()])}), flush=True); hear()"
    )
    async with start(session, plan(script), policy=WriteGate(prompter=operator)) as runtime:
        await runtime.prompt("go")
        with anyio.fail_after(30):
            await session.until(PermissionRequested, 2)
            first, second = await operator.until(2)
            operator.reply(second, answer(second, "Deny"))
            await session.was_decided.wait()
            operator.reply(first, answer(first, "Allow this action"))
            ended = await runtime.turn_over()
    assert ended is not None
    replies = json.loads(ended.stop_reason)
    assert [reply["allowed"] for reply in replies] == [False, True]
    assert {reply["id"] for reply in replies} == {"1", "2"}


async def test_a_request_that_is_taken_back_is_asked_no_longer() -> None:
    """A proposal whose call the runtime gave up settles as cancelled and denied; the other one waits on, and is answered."""
    operator, session = Operator(), Withdrawing()
    script = (
        ASKS
        + "hear(); say('withdraw', id='1'); say('withdraw', id='3')\n"
        + "print(json.dumps({'type': 'end', 'reason': json.dumps(hear())}), flush=True); hear()"
    )
    async with start(session, plan(script), policy=WriteGate(prompter=operator)) as runtime:
        await runtime.prompt("go")
        with anyio.fail_after(30):
            await operator.until(2)
            await runtime.prompt("on")
            await session.until(PermissionWithdrawn, 2)
            while not operator.outcomes:
                await operator.heard.wait()
            ((gone, outcome),) = operator.outcomes
            (left,) = [ask for ask in operator.asks if ask.id != gone]
            operator.reply(left, answer(left, "Allow this action"))
            ended = await runtime.turn_over()
    assert outcome.kind == "cancelled"
    assert ended is not None
    assert json.loads(ended.stop_reason) == {"id": "2", "allowed": True}
    assert [(request_id, verdict.kind) for request_id, verdict, _ in session.decided] == [
        ("1", "deny"),
        ("2", "allow"),
    ]


async def test_a_runtime_that_goes_takes_its_proposals_along() -> None:
    """A proposal whose runtime has gone settles as cancelled, and its verdict is traced as a denial."""
    operator, session = Operator(), FakeSession()
    with traced() as rows, anyio.fail_after(30):
        async with start(
            session,
            plan("hear(); say('turn'); say('permission', id='1'); hear()"),
            policy=WriteGate(prompter=operator),
        ) as runtime:
            await runtime.prompt("go")
            await operator.until(1)
            await runtime.end()
    assert [outcome.kind for _, outcome in operator.outcomes] == ["cancelled"]
    assert [(row["source"], row["verdict"]) for row in rows] == [("headless_denied", "deny")]


async def test_a_run_that_is_cancelled_as_a_proposal_comes_traces_it() -> None:
    """However early that is, each proposal has its verdict, in the trace and for the session."""
    session = FakeSession()
    with traced() as rows:
        async with anyio.create_task_group() as tasks:
            desk = PermissionDesk(
                session,
                WriteGate(prompter=Operator()),
                8,
                tasks=tasks,
                send=never,
                fail=lambda error: pytest.fail(str(error)),
            )
            await desk.decide(request())
            tasks.cancel_scope.cancel()
    assert [(row["source"], row["verdict"]) for row in rows] == [("headless_denied", "deny")]
    assert [(verdict.kind, by) for _, verdict, by in session.decided] == [("deny", "opask")]
