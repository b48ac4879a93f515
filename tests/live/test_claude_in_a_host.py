"""The real claude in a host of one's own: its raw messages, permission requests, sub-agents, and other sessions."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve

from live_runs import GONE_S
from live_scenes import (
    ANSWERS,
    ASK,
    DATABASE,
    NAME,
    NATIVE,
    ask,
    given,
    says,
    scenario,
)
from opask.bridge import Bridge
from opask.driver import start
from opask.events import (
    Event,
    NativeAskRefused,
    PermissionDecided,
    QuestionAsked,
    QuestionCorrelated,
    QuestionResolved,
    SessionReady,
    ToolAnnounced,
    TurnEnded,
)
from opask.launch import LaunchRequest
from opask.outcomes import Reply
from opask.prompter import Prompter
from opask.questions import Ask
from opask.testing import Scripted
from opask_claude import adapter
from opask_probes.model import Call, Expect, When
from opask_probes.playing import Setting, Take, playing
from opask_probes.runtimes import RUNTIMES
from opask_probes.sandbox import Isolation
from opask_probes.stage import Stage, all_gone, stage

pytestmark = pytest.mark.live

MODES = ("default", "acceptEdits", "dontAsk", "plan", "bypassPermissions")
STREAM = ("--output-format", "stream-json", "--verbose")
CONTROL = ("--input-format", "stream-json", *STREAM, "--permission-prompt-tool", "stdio")


@pytest.fixture
def setting(claude: Path, isolation: Isolation) -> Setting:
    """Give what the runs here have in common."""
    return Setting(runtime=RUNTIMES["claude"], adapter=adapter, program=claude, isolation=isolation)


def text_mode(setting: Setting, prompt: str = "Go.") -> list[str]:
    """Give the launch of one prompt."""
    return [str(setting.program), "-p", prompt, *STREAM]


def control_mode(setting: Setting, *more: str) -> list[str]:
    """Give the launch of a conversation with permission requests."""
    return [str(setting.program), "-p", *CONTROL, *more]


def said(take: Take, kind: str, subtype: str | None = None) -> list[dict[str, Any]]:
    """Give the runtime's own messages of a type."""
    messages = [json.loads(str(line.message)) for line in take.lines if line.source == "runtime"]
    return [one for one in messages if one["type"] == kind and subtype in (None, one.get("subtype"))]


def clean(take: Take) -> None:
    """Hold that the scenario was played as written, and nothing is left."""
    assert take.failures == ()
    assert take.left == ()


@pytest.mark.parametrize("prompter", [Scripted(ANSWERS), None], ids=["operator", "nobody"])
async def test_what_the_runtime_lists(prompter: Prompter | None, setting: Setting) -> None:
    """The CLI's own list has the supplied tool where an operator is there, and the native tool never."""
    argv, hello = text_mode(setting), scenario(says("Hello."))
    async with playing(setting, hello, argv, prompt="Go.", prompter=prompter) as run:
        await run.prompt()
        await run.to_the_end()
    clean(run.take)
    (init,) = said(run.take, "system", "init")
    assert NATIVE not in init["tools"]
    assert (ASK in init["tools"]) is (prompter is not None)
    (ready,) = run.take.of(SessionReady)
    assert ready.questions is (prompter is not None)


@pytest.mark.parametrize("mode", MODES)
async def test_the_native_tool_is_denied_at_the_permission_channel(mode: str, setting: Setting) -> None:
    """Offered since launch denial is refused, it is denied in every mode, by words that point to the supplied tool."""
    # In this mode the CLI denies it by itself and asks no one.
    own_words = "Permission to use AskUserQuestion has been denied" if mode == "dontAsk" else f"Call {ASK}"
    native = scenario(
        says("I ask.", ask(DATABASE, NATIVE), expect=Expect(offered=(ASK, NATIVE))),
        says("I ask again.", ask(DATABASE), expect=given(own_words, error=True, lacks=("SQLite",))),
        says("Picked {{result}}", expect=given("SQLite")),
    )
    operator = Scripted(ANSWERS)
    argv = control_mode(setting, "--permission-mode", mode)
    refuse = frozenset({"native-ask-denied"})
    async with playing(setting, native, argv, prompt="Go.", prompter=operator, refuse=refuse) as run:
        await run.prompt()
        await run.to_the_end()
    clean(run.take)
    assert said(run.take, "system", "init")[0]["permissionMode"] == mode
    (refused,) = run.take.of(NativeAskRefused)
    assert (refused.tool, refused.channel) == (NATIVE, "permission")
    assert [decided.verdict for decided in run.take.of(PermissionDecided)] == ["deny"] * (mode != "dontAsk")
    (asked,) = run.take.of(QuestionAsked)
    assert run.take.index(refused) < run.take.index(asked)
    assert len(operator.asked) == 1


async def test_a_sub_agent_asks_after_the_turn(setting: Setting) -> None:
    """A sub-agent that outlives its turn asks, is answered, and its answer comes back into the next turn."""
    work = {"description": "sub work", "prompt": "SUB", "subagent_type": "general-purpose"}
    with_sub = scenario(
        says("I delegate.", Call("Agent", work)),
        says("It works."),
        says("It is done.", expect=Expect(text_contains=("SQLite",))),
        sub=(
            When(prompt_contains=("SUB",)),
            (
                says("I ask.", ask(DATABASE), hold="turn over"),
                says("Sub has {{result}}", expect=given("SQLite")),
            ),
        ),
    )
    argv = control_mode(setting)
    async with playing(setting, with_sub, argv, prompt="MAIN", prompter=Scripted(ANSWERS)) as run:
        await run.prompt()
        ended = await run.until(TurnEnded)
        assert run.take.of(QuestionAsked) == []
        await run.stage.release("turn over")
        await run.until(TurnEnded, 2)
        await run.to_the_end()
    clean(run.take)
    (asked,), (end,) = run.take.of(QuestionAsked), run.take.of(QuestionResolved)
    assert run.take.index(asked) > run.take.index(ended)
    announced = run.take.of(ToolAnnounced)[-1]
    assert asked.tool_call_id == announced.tool_call_id
    # Where the call reached the bridge before the CLI announced it, whose it is is told later.
    told = [asked, *run.take.of(QuestionCorrelated)]
    assert {event.agent_id for event in told} - {None} == {announced.agent_id}
    assert (end.outcome, end.answers) == ("answered", {DATABASE: "SQLite"})


# -- two sessions in one host ----------------------------------------------------------------------------------------


class Two:
    """Sessions of one bridge, each with a claude of its own that asks one question and then waits."""

    def __init__(self, setting: Setting, bridge: Bridge, stack: AsyncExitStack) -> None:
        self.setting = setting
        self.bridge = bridge
        self.stack = stack
        self.events: dict[str, list[Event]] = {}
        self.served: dict[str, list[Mapping[str, Any]]] = {}
        self.stages: dict[str, Stage] = {}

    async def start(self, name: str, prompter: Prompter, text: str) -> None:
        """Start a claude that asks a question."""
        steps = (says("I ask.", ask(text)), says("Got {{result}}"))
        stage_ = await self.stack.enter_async_context(stage(scenario(*steps), self.setting.isolation))
        session = await self.stack.enter_async_context(await self.bridge.attach(name, adapter, prompter))
        self.stages[name], self.events[name], self.served[name] = stage_, [], []
        session.subscribe(self.events[name].append)
        session.observe(lambda record: self.served[name].append(record))
        request = LaunchRequest(text_mode(self.setting), stage_.environment(self.setting.runtime))
        plan = session.plan_launch(request)
        plan = evolve(plan, argv=(*stage_.enter, *plan.argv))
        runtime = await self.stack.enter_async_context(start(session, plan, cwd=stage_.sandbox.work))
        await runtime.prompt("Go.")

    async def nothing_left(self) -> None:
        """Hold that all has gone."""
        for stage_ in self.stages.values():
            assert await all_gone(stage_.sandbox.root, GONE_S) == []

    def lists(self, name: str) -> list[str]:
        """Give the requests for the tool list that were served to a session's runtime."""
        served = [record["served"]["method"] for record in self.served[name] if "served" in record]
        return [method for method in served if method == "tools/list"]

    def outcomes(self, name: str) -> list[str]:
        """Give how a session's questions ended."""
        return [event.outcome for event in self.events[name] if isinstance(event, QuestionResolved)]


class Raises(Scripted):
    async def ask(self, ask: Ask, /) -> Reply:
        """Fail."""
        raise RuntimeError("the surface is broken")


class Blocks(Scripted):
    def __init__(self) -> None:
        super().__init__({})
        self.began = anyio.Event()

    async def ask(self, ask: Ask, /) -> Reply:
        """Never come back."""
        self.began.set()
        await anyio.sleep_forever()
        raise AssertionError


def traced(caplog: pytest.LogCaptureFixture, session_id: str) -> list[tuple[str, str | None]]:
    """Give the trace of a session: names and outcomes."""
    records: list[Any] = [record for record in caplog.records if record.name == "opask.trace"]
    return [
        (record.message.rpartition(".")[2], record.outcome)
        for record in records
        if record.session_id == session_id
    ]


async def test_a_prompter_that_raises_is_its_own_sessions_affair(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    """The first session's agent is told that nobody could be asked; the second one's gets its answer."""
    caplog.set_level(logging.INFO, "opask.trace")
    async with AsyncExitStack() as stack:
        two = Two(setting, await stack.enter_async_context(Bridge()), stack)
        await two.start("one", Raises({}), DATABASE)
        await two.start("two", Scripted(ANSWERS), NAME)
        for stage_ in two.stages.values():
            await stage_.played("main", 2)
    await two.nothing_left()
    assert traced(caplog, "one") == [("asked", None), ("unanswered", "unavailable")]
    assert traced(caplog, "two") == [("asked", None), ("answered", "answered")]


async def test_a_prompter_that_blocks_is_its_own_sessions_affair(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    """While the first session's question waits for ever, the second one asks and goes on; then the first is cancelled."""
    caplog.set_level(logging.INFO, "opask.trace")
    blocks = Blocks()
    async with AsyncExitStack() as stack:
        two = Two(setting, await stack.enter_async_context(Bridge()), stack)
        await two.start("one", blocks, DATABASE)
        await blocks.began.wait()
        await two.start("two", Scripted(ANSWERS), NAME)
        await two.stages["two"].played("main", 2)
        assert (two.outcomes("one"), two.outcomes("two")) == ([], ["answered"])
    await two.nothing_left()
    assert traced(caplog, "one") == [("asked", None), ("unanswered", "cancelled")]
    assert traced(caplog, "two") == [("asked", None), ("answered", "answered")]


async def test_a_host_whose_loop_is_blocked_delays_no_runtime(setting: Setting) -> None:
    """While the host's loop stands still for seconds, a runtime that starts takes the tool list from the bridge."""
    async with AsyncExitStack() as stack:
        two = Two(setting, await stack.enter_async_context(Bridge()), stack)
        blocks = Blocks()
        await two.start("one", blocks, DATABASE)
        await blocks.began.wait()
        await two.start("two", Scripted(ANSWERS), NAME)
        deadline = time.monotonic() + 60
        while not two.lists("two") and time.monotonic() < deadline:
            time.sleep(0.1)  # noqa: ASYNC251 - the loop is blocked on purpose
        assert two.lists("two") == ["tools/list"]
        await two.stages["two"].played("main", 2)
        assert (two.outcomes("one"), two.outcomes("two")) == ([], ["answered"])
