"""The scenarios of a probe in which something goes wrong, or takes its time. Written once, for every runtime."""

from __future__ import annotations

import shlex
import sys
from datetime import timedelta
from typing import Final

import anyio
from attrs import evolve

from opask.events import QuestionAsked, QuestionResolved
from opask.questions import Ask

from .case import Case
from .playing import Operator, Playing
from .scripts import NAME, PARTS, failed, given, says
from .verdicts import answered, correlated, heard, sound

__all__ = ["cancel", "long_wait", "relay_crash", "slow_start"]

_SETTLES_S: Final = 15.0  # much more than it takes, on a machine that is busy too


async def _for_ever(_: Ask) -> None:
    await anyio.sleep_forever()


async def cancel(case: Case) -> list[str]:
    """Interrupt the turn while its question waits."""
    problems: list[str] = []
    operator = Operator({}, before=_for_ever)
    async with case.playing(
        says("I ask.", case.ask(NAME), expect=case.offer), operator=operator, mode="interruptible"
    ) as run:
        await run.until(QuestionAsked, in_turn=True)
        await run.runtime.interrupt()
        with anyio.move_on_after(_SETTLES_S) as waited:
            end = await run.until(QuestionResolved)
            # Whether its cancel or the end of the turn is seen first is a matter of chance.
            if end.outcome != "abandoned" or end.reason not in {"agent", "turn_end"}:
                problems.append(f"the question ended as {end.outcome}: {end.reason or end.by}")
        if waited.cancelled_caught:
            problems.append(f"the question still waits {_SETTLES_S:g} s after the interrupt")
        else:
            await run.to_the_end()
    return [*problems, *sound(run.take, ends_well=False), *correlated(run.take)]


async def slow_start(case: Case) -> list[str]:
    """Let the ask server take its time to start."""
    python = case.scratch / "slow-python"
    python.write_text(
        f'#!/bin/sh\nsleep {case.profile.slow_start:g}\nexec {shlex.quote(sys.executable)} "$@"\n',
        encoding="utf-8",
    )
    python.chmod(0o755)
    answer = {NAME: "Atlas"}
    take = await case.run(
        says("I ask.", case.ask(NAME), expect=case.offer),
        says("The operator said {{result}}", expect=given("Atlas")),
        operator=Operator(answer),
        interpreter=python,
    )
    return [*sound(take), *answered(take, answer), *correlated(take)]


async def long_wait(case: Case) -> list[str]:
    """Let the operator take longer than the runtime holds a call by itself."""
    wait = case.profile.long_wait
    assert wait is not None

    async def take_time(_: Ask) -> None:
        await anyio.sleep(wait.seconds)

    answer = {NAME: "Atlas"}
    longer = case.setting.wait + timedelta(seconds=wait.seconds)
    take = await evolve(case, setting=evolve(case.setting, wait=longer)).run(
        says("I ask.", case.ask(NAME), expect=case.offer),
        says("The operator said {{result}}", expect=given("Atlas")),
        operator=Operator(answer, before=take_time),
        env=wait.env,
    )
    return [*sound(take), *answered(take, answer), *heard(take, "Atlas")]


async def relay_crash(case: Case) -> list[str]:
    """Kill the relay, or over HTTP cut the connection, while a question waits; then the agent asks another one."""
    resent = case.row.resend_after_crash
    first_result = {True: given("Docs"), False: failed(lacks=("Docs",)), None: given(error=None)}
    crash_is_over = anyio.Event()

    async def wait(_: Ask) -> None:
        await crash_is_over.wait()

    operator = Operator({PARTS: ["Docs"], NAME: "Boreas"}, before=wait)
    async with case.playing(
        says("I ask.", case.ask(PARTS), expect=case.offer),
        says("I ask another.", case.ask(NAME), expect=first_result[resent]),
        says("The operator said {{result}}", expect=given("Boreas")),
        operator=operator,
    ) as run:
        asked = await run.until(QuestionAsked, in_turn=True)
        before = run.reached()
        lost = run.cut_off()
        with anyio.move_on_after(_SETTLES_S):
            await _crash_is_over(run, before, resent)
        crash_is_over.set()
        await run.to_the_end()
    problems = [] if lost else ["nothing leads from the runtime to the ask server"]
    first = [end for end in run.take.of(QuestionResolved) if end.question_id == asked.question_id]
    ends = [(end.outcome, end.reason) for end in first]
    if resent is False and ends != [("abandoned", "disconnect")]:
        problems.append(f"the question that lost its relay ended as {ends}, and not as abandoned")
    if resent is True and ends != [("answered", None)]:
        problems.append(f"the question that was sent again ended as {ends}, and not as answered")
    if len(run.take.of(QuestionAsked)) > 2:
        problems.append("the operator was asked the same again")
    if {NAME: "Boreas"} not in [end.answers for end in run.take.of(QuestionResolved)]:
        problems.append("the next question was not answered")
    return [*problems, *sound(run.take), *correlated(run.take)]


async def _crash_is_over(run: Playing, before: set[int], resent: bool | None) -> None:
    """Wait until the question that lost its relay is given up, or where it may be sent again, until it can have been."""
    while not run.take.of(QuestionResolved):
        if resent is not False and run.reached() - before:
            return
        await anyio.sleep(0.05)  # nothing tells of a process that is not one's child
