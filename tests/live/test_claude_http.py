"""The real claude over streamable HTTP in place of the relay: it asks, is answered, gives up, and waits."""

from __future__ import annotations

import json
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve

from live_scenes import ANSWERS, ASK, DATABASE, NAME, NATIVE, PARTS, ask, given, says, scenario
from opask.events import QuestionAsked, QuestionResolved, SessionReady, ToolAnnounced
from opask.questions import Ask
from opask_claude import adapter
from opask_probes.model import Expect
from opask_probes.playing import Operator, Playing, Setting, Take, playing
from opask_probes.runtimes import RUNTIMES
from opask_probes.sandbox import Isolation
from opask_probes.stage import processes_below

pytestmark = pytest.mark.live

STREAM = ("--output-format", "stream-json", "--verbose")
CONTROL = ("--input-format", "stream-json", *STREAM, "--permission-prompt-tool", "stdio")


@pytest.fixture
def setting(claude: Path, isolation: Isolation) -> Setting:
    """Give what the runs here have in common."""
    return Setting(
        runtime=RUNTIMES["claude"],
        adapter=adapter,
        program=claude,
        isolation=isolation,
        transport="http",
        wait=timedelta(minutes=10),
    )


def text_mode(setting: Setting) -> list[str]:
    """Give the launch of one prompt."""
    return [str(setting.program), "-p", "Go.", *STREAM]


def clean(take: Take, *outcomes: str) -> None:
    """Hold that the scenario was played as written, the asks ended so, and nothing is left."""
    assert take.failures == ()
    assert take.left == ()
    assert take.plan is not None
    assert take.plan.route == "mcp-http"
    assert [end.outcome for end in take.of(QuestionResolved)] == list(outcomes)
    announced = [call.tool_call_id for call in take.of(ToolAnnounced) if call.ask == "supplied"]
    assert sorted(str(asked.tool_call_id) for asked in take.of(QuestionAsked)) == sorted(map(str, announced))


async def test_every_kind_of_answer_reaches_the_agent(setting: Setting) -> None:
    """A single choice, several choices and the operator's own words are quoted in one conversation."""
    steps = scenario(
        says("I ask.", ask(DATABASE), expect=Expect(offered=(ASK,), absent=(NATIVE,))),
        says("And {{result}}", ask(PARTS), expect=given("SQLite", lacks=("PostgreSQL",))),
        says("And {{result}}", ask(NAME), expect=given("API", "Docs", lacks=("Web page",))),
        says("All {{result}}", expect=given("Cirrus", lacks=("Atlas", "Boreas"))),
    )
    async with playing(setting, steps, text_mode(setting), prompt="Go.", prompter=Operator(ANSWERS)) as run:
        await run.prompt()
        await run.to_the_end()
    clean(run.take, "answered", "answered", "answered")
    assert [end.answers for end in run.take.of(QuestionResolved)] == [
        {text: answer} for text, answer in ANSWERS.items()
    ]
    (ready,) = run.take.of(SessionReady)
    assert ready.questions is True
    assert ready.route == "mcp-http"


async def test_the_token_is_in_its_file_alone(setting: Setting) -> None:
    """No command line and no environment below the host has it, and its file is the user's own."""
    asked = anyio.Event()

    async def look(_: Ask) -> None:
        asked.set()

    steps = scenario(says("I ask.", ask(NAME)), says("Got {{result}}", expect=given("Cirrus")))
    operator = Operator(ANSWERS, before=look)
    async with playing(setting, steps, text_mode(setting), prompt="Go.", prompter=operator) as run:
        await run.prompt()
        await asked.wait()
        assert run.take.plan is not None
        endpoint, (file,) = run.take.plan.endpoint, run.take.plan.files
        assert endpoint is not None
        token = str(endpoint.token)
        assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
        assert token in file.path.read_text()
        seen = told_to_processes(run)
        await run.to_the_end()
    assert any("claude" in text for text in seen)
    assert not [text for text in seen if token in text]
    assert not [line for line in run.take.lines if token in str(line.message)]
    assert not file.path.exists()
    clean(run.take, "answered")


def told_to_processes(run: Playing) -> list[str]:
    """Give the command line and the environment of each process below the host's runtime."""
    return [
        text
        for pid, line in processes_below(run.runtime.pid)
        for text in (line, Path(f"/proc/{pid}/environ").read_text(errors="replace"))
    ]


async def test_an_interrupt_closes_the_stream_and_takes_the_question_back(setting: Setting) -> None:
    """The operator's question goes when the turn is interrupted, and the CLI itself ends the call."""
    held = Operator({}, before=lambda _: anyio.sleep_forever())
    argv = [str(setting.program), "-p", *CONTROL]
    async with playing(
        setting, scenario(says("I ask.", ask(NAME))), argv, prompt="Go.", prompter=held
    ) as run:
        await run.prompt()
        await run.until(QuestionAsked)
        await run.runtime.interrupt()
        with anyio.fail_after(60):
            assert run.passage is not None
            await run.passage.idle()
            end = await run.until(QuestionResolved)
        assert end.reason in {"turn_end", "disconnect", "agent"}
        await run.to_the_end()
    clean(run.take, "abandoned")


async def test_a_wait_that_runs_out_is_told(setting: Setting) -> None:
    """The agent is told that nobody answered, as an error, and goes on."""
    held = Operator({}, before=lambda _: anyio.sleep_forever())
    steps = scenario(
        says("I ask.", ask(NAME)),
        says("Then {{result}}", expect=given("did not answer", error=True)),
    )
    brief = evolve(setting, wait=timedelta(seconds=2))
    async with playing(brief, steps, text_mode(setting), prompt="Go.", prompter=held) as run:
        await run.prompt()
        await run.to_the_end()
    clean(run.take, "timed_out")


@pytest.mark.long
@pytest.mark.timeout(480)
async def test_an_answer_after_330_seconds_is_not_lost(setting: Setting) -> None:
    """Past the 300 s in which the CLI gives up a silent stream: progress holds the call."""

    async def take_time(_: Ask) -> None:
        await anyio.sleep(330)

    steps = scenario(says("I ask.", ask(NAME)), says("Got {{result}}", expect=given("Cirrus")))
    operator = Operator(ANSWERS, before=take_time)
    async with playing(setting, steps, text_mode(setting), prompt="Go.", prompter=operator) as run:
        await run.prompt()
        await run.to_the_end()
    clean(run.take, "answered")
    ticks: list[dict[str, Any]] = [
        message
        for line in run.take.lines
        if line.source == "runtime"
        and (message := json.loads(str(line.message))).get("type") == "tool_progress"
    ]
    assert len(ticks) >= 10
