"""The generic adapter of ACP on real agents that it does not know, and whose row says that nobody has seen them ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from live_runs import Run, opask_run
from live_scenes import ANSWERS, DATABASE, answers, ask, given, says, scenario
from opask.registry import support
from opask_probes.claims import CLAIMS, Claim
from opask_probes.install import InstallError, installed
from opask_probes.probe import try_claim
from opask_probes.profiles.generic import GENERIC, case_of_agent
from opask_probes.runtimes import RUNTIMES
from opask_probes.sandbox import Isolation
from opask_probes.stage import stage
from opask_probes.verdicts import Held

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

NOT_TRIED = {  # in each of the agents' own words
    "long-wait": set(GENERIC),
    "sub-agent": {"kimi", "omp"},  # of kimi's nothing tells this adapter; omp's have no tool
}
SHORT = {"single", "multi", "native"}
# omp gives a server 250 ms, which a busy machine may not keep; its own adapter makes that longer.
IN_A_HURRY = {"omp"}
UNKNOWN = ("whether this agent gives the ask tool", "how long it lets one call wait", "how it spells")


def program_of(agent: str) -> Path:
    """Give an agent's program."""
    try:
        return installed(agent)
    except InstallError as error:
        pytest.skip(str(error))


def every() -> Iterator[Any]:
    """Give each agent with each claim; those that are probed by an adapter of their own, with a few in the short run."""
    for agent in GENERIC:
        for claim in CLAIMS:
            is_short = support(agent).questions and claim.id in SHORT and agent not in IN_A_HURRY
            marks = () if is_short else (pytest.mark.long,)
            yield pytest.param(agent, claim, marks=marks, id=f"{agent}-{claim.id}")


@pytest.mark.parametrize(("agent", "claim"), tuple(every()))
async def test_a_claim_holds_on_an_agent_that_is_not_known(
    agent: str, claim: Claim, isolation: Isolation
) -> None:
    """What a probe claims of a known runtime holds by the generic adapter too, but for what needs to know the agent."""
    case = case_of_agent(agent, isolation, program_of(agent))
    reason = case.profile.unless.get(claim.id) or claim.unless(case)
    assert (reason is not None) is (agent in NOT_TRIED.get(claim.id, set()))
    if reason is None:
        finding = await try_claim(case, claim)
        assert finding.verdict == Held()


@pytest.mark.parametrize("agent", ["kimi", "omp"])
async def test_an_agent_that_is_not_known_is_not_run_unasked(agent: str, isolation: Isolation) -> None:
    """Without --allow-unverified the run is refused, and the agent is not started."""
    async with stage(scenario(says("Never.")), isolation) as stage_:
        run = opask_run(
            stage_, program_of(agent), "--answers", "{}", runtime="acp", agent=agent, rest=("acp",)
        )
        async with run as running:
            with anyio.fail_after(120):
                await running.ends(2)
        assert running.events == []
        assert "--allow-unverified" in running.stderr
        assert stage_.exchanges == []


@pytest.mark.parametrize("agent", ["kimi", pytest.param("omp", marks=pytest.mark.long)])
async def test_an_agent_that_is_not_known_asks_where_it_may(agent: str, isolation: Isolation) -> None:
    """With it the agent asks and gets its answer, and the run says what nobody knows of it; so does its first event."""
    case = case_of_agent(agent, isolation, program_of(agent))
    launch = case.profile.launch(str(case.setting.program), "Go.", "plain")
    one = scenario(
        says("I ask.", ask(DATABASE, case.tool)),
        says("Picked {{result}}", expect=given("SQLite", error=None)),
    )
    async with stage(one, isolation) as stage_:
        RUNTIMES[agent].prepare(stage_.sandbox.home, stage_.url)
        for name, text in launch.settings.items():
            path = stage_.sandbox.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        run = opask_run(
            stage_,
            program_of(agent),
            *("--allow-unverified", "--answers", answers(DATABASE)),
            runtime="acp",
            agent=agent,
            rest=tuple(launch.argv[1:]),
        )
        async with run as running:
            with anyio.fail_after(150):
                await running.ends(0)
        await stage_.close()
        assert stage_.failures == ()
    _asked(running)


def _asked(run: Run) -> None:
    (ready,) = run.of("session_ready")
    assert (ready["questions"], ready["status"]) == (True, "untested")
    (resolved,) = run.of("question_resolved")
    assert resolved["answers"] == {DATABASE: ANSWERS[DATABASE]}
    assert all(f"not known: {part}" in run.stderr for part in UNKNOWN)


async def test_a_request_that_proves_nothing_is_left_to_the_host(isolation: Isolation) -> None:
    """Kimi Code asks for permission with the tool's name in a title alone: that lets nothing through by itself."""
    one = scenario(
        says("I ask.", ask(DATABASE, "mcp__opask__ask_user_question")),
        says("Denied: {{result}}", expect=given("rejected", error=None)),
    )
    async with stage(one, isolation) as stage_:
        run = opask_run(
            stage_,
            program_of("kimi"),
            *("--allow-unverified", "--answers", answers(DATABASE)),
            runtime="acp",
            agent="kimi",
            rest=("acp",),
        )
        async with run as running:
            with anyio.fail_after(120):
                await running.ends(0)
        await stage_.close()
        assert stage_.failures == ()
    assert running.of("question_asked") == []
    (requested,) = running.of("permission_requested")
    (decided,) = running.of("permission_decided", request_id=requested["request_id"])
    assert (decided["verdict"], requested["tool"]) == ("defer", "mcp__opask__ask_user_question")
