"""The real omp, run by ``opask run`` against a scripted model: what is asked, answered, refused and told of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from live_runs import Run, opask_run
from live_scenes import DATABASE, PARTS, QUESTIONS, answers, ask, given, says, scenario
from opask_probes.install import InstallError, installed
from opask_probes.model import Call, Expect, Scenario
from opask_probes.runtimes import RUNTIMES
from opask_probes.sandbox import Isolation, NoNamespace, loopback_namespace
from opask_probes.stage import Stage, stage

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

ASK = "mcp__opask_ask_user_question"
DEVICE = f"xd://{ASK}"
XDEV = "tools: {xdev: true, intentTracing: true}\n"
TERMINAL = ("--surface", "terminal")  # its stdin is a pipe that nothing comes from: the question waits
REST = ("--no-title",)
START_S = 90.0  # omp is slow to start, several at once above all
ASKED = {text: {"questions": [question]} for text, question in QUESTIONS.items()}


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio alone: what is tested is the real runtime, and the command line's own loop is asyncio's."""
    return "asyncio"


@pytest.fixture(scope="module")
def omp() -> Path:
    """Give the pinned omp."""
    try:
        return installed("omp")
    except InstallError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def isolation() -> Isolation:
    """Give a namespace with loopback alone; a runtime is not run without one here."""
    found = loopback_namespace()
    if isinstance(found, NoNamespace):
        pytest.skip(found.reason)
    return found


@asynccontextmanager
async def set_stage(play: Scenario, isolation: Isolation) -> AsyncIterator[Stage]:
    """Set a stage with omp's own files in its home."""
    async with stage(play, isolation) as stage_:
        RUNTIMES["omp"].prepare(stage_.sandbox.home, stage_.url)
        yield stage_


def ours(text: str) -> Call:
    """Make the call that asks a question."""
    return ask(text, ASK)


async def played(stage_: Stage) -> None:
    """Hold that the scenario was played to its end, as written."""
    await stage_.close()
    assert stage_.failures == ()


def correlated(run: Run) -> dict[str, str]:
    """Give the call of each question, at once or told later."""
    asked = {event["question_id"]: event["tool_call_id"] for event in run.of("question_asked")}
    later = {event["question_id"]: event["tool_call_id"] for event in run.of("question_correlated")}
    assert all(asked[question] is None for question in later)
    found = asked | later
    assert len(set(found.values())) == len(found)
    return found


async def test_both_kinds_of_question_are_answered(omp: Path, isolation: Isolation) -> None:
    """A single and a multiple choice are answered and quoted exactly, each correlated with its own call."""
    both = scenario(
        says(
            "I ask.", ours(DATABASE), expect=Expect(offered=(ASK,), absent=("ask",), system_contains=(ASK,))
        ),
        says("And {{result}}", ours(PARTS), expect=given("SQLite", lacks=("PostgreSQL",), error=None)),
        says("Picked {{result}}", expect=given("API", "Docs", lacks=("Web page",), error=None)),
    )
    async with set_stage(both, isolation) as stage_:
        options = ("--allow-unverified", "--answers", answers(DATABASE, PARTS))
        async with opask_run(stage_, omp, *options, runtime="omp", rest=REST) as run:
            with anyio.fail_after(START_S):
                await run.ends(0)
        await played(stage_)
    assert [end["answers"] for end in run.of("question_resolved")] == [
        {DATABASE: "SQLite"},
        {PARTS: ["API", "Docs"]},
    ]
    assert list(correlated(run).values()) == [
        event["tool_call_id"] for event in run.of("tool_announced", ask="supplied", tool=ASK)
    ]
    said = "".join(event["text"] for event in run.of("text"))
    for answer in ({DATABASE: "SQLite"}, {PARTS: ["API", "Docs"]}):
        assert json.dumps({"answers": answer}) in said
    (ready,) = run.of("session_ready")
    assert (ready["questions"], ready["version"]) == (True, "18.2.3")
