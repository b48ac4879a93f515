"""A wait that a prompter makes longer while the operator answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio
from attrs import evolve

from bridge_peers import ONE, PlainAdapter, attach_sync
from opask import Answer, Answered, Ask, LaunchPlan, LaunchRequest, Outcome, Reply
from opask.bridge import Bridge
from opask.launch import Endpoint
from opask.outcomes import TimedOut
from opask.prompter import current_wait
from opask.testing import Agent

FIRST = timedelta(seconds=2)  # much more than a busy machine takes to extend it in


class Patient:
    """A prompter that extends the wait and then takes longer than the first one."""

    def __init__(self, by: timedelta, after: float, *, answers: bool) -> None:
        self.by = by
        self.after = after
        self.answers = answers
        self.latest: datetime | None = None
        self.outcomes: list[Outcome] = []

    async def ask(self, ask: Ask, /) -> Reply:
        """Extend, wait, answer."""
        wait = current_wait()
        assert wait is not None
        self.latest = wait.latest
        wait.extend(datetime.now(UTC) - timedelta(hours=1))  # never shorter
        wait.extend(datetime.now(UTC) + self.by)
        await anyio.sleep(self.after if self.answers else 60)
        return Answered((Answer((0,)),), "test")

    def settled(self, ask: Ask, outcome: Outcome, /) -> None:
        """Remember it."""
        self.outcomes.append(outcome)

    def available(self, session_id: str, /) -> bool:
        """Be there."""
        return True


class Capped(PlainAdapter):
    """An adapter whose launch holds a call for so long and no longer."""

    def __init__(self, ceiling: timedelta) -> None:
        self.ceiling = ceiling

    def plan_launch(self, request: LaunchRequest, endpoint: Endpoint | None, /) -> LaunchPlan:
        """State the ceiling."""
        return evolve(super().plan_launch(request, endpoint), ceiling=self.ceiling)


async def test_an_extended_wait_outlasts_the_first_one() -> None:
    """An answer that comes after the first deadline and before the extended one reaches the agent."""
    prompter = Patient(timedelta(seconds=60), FIRST.total_seconds() + 0.3, answers=True)
    async with (
        Bridge() as bridge,
        await bridge.attach("s", PlainAdapter(), prompter, wait=FIRST, allow_unverified=True) as session,
    ):
        session.plan_launch(LaunchRequest(["x"], {}))
        result = await Agent(session).ask(ONE)
        assert not result.is_error
        assert result.structured == {"answers": {"Which?": "a"}}
    assert prompter.latest is None
    assert [outcome.kind for outcome in prompter.outcomes] == ["answered"]


async def test_an_extension_ends_at_the_ceiling_of_the_launch() -> None:
    """However far a prompter extends, the wait ends a margin before the runtime gives up the call."""
    prompter = Patient(timedelta(hours=1), 0, answers=False)
    async with (
        Bridge() as bridge,
        await bridge.attach(
            "s",
            Capped(FIRST + timedelta(seconds=5.3)),
            prompter,
            wait=FIRST,
            allow_unverified=True,
        ) as session,
    ):
        session.plan_launch(LaunchRequest(["x"], {}))
        result = await Agent(session).ask(ONE)
        assert result.is_error
    assert prompter.outcomes == [TimedOut(FIRST + timedelta(seconds=0.3))]


def test_a_ceiling_beyond_all_time_bounds_nothing() -> None:
    """A limit that no date can hold is taken for none."""
    prompter = Patient(timedelta(seconds=30), 0, answers=True)
    with (
        Bridge() as bridge,
        attach_sync(bridge, "s", Capped(timedelta(days=999_999_999)), prompter) as session,
    ):
        session.plan_launch(LaunchRequest(["x"], {}))
        call = session.call(ONE, {})
        assert not call.result().is_error
    assert prompter.latest is None


async def test_there_is_no_wait_to_extend_where_it_is_unbounded() -> None:
    """A prompter that is given all the time there is finds no wait in its context."""
    found: list[object] = []

    class Curious(Patient):
        async def ask(self, ask: Ask, /) -> Reply:
            found.append(current_wait())
            return Answered((Answer((0,)),), "test")

    async with (
        Bridge() as bridge,
        await bridge.attach(
            "s", PlainAdapter(), Curious(timedelta(), 0, answers=True), wait=None, allow_unverified=True
        ) as session,
    ):
        session.plan_launch(LaunchRequest(["x"], {}))
        await Agent(session).ask(ONE)
    assert found == [None]
