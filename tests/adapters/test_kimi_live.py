"""The real Kimi Code and Kimi CLI against a scripted model: asked, answered, refused, interrupted, and nothing lost."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve

from live_runs import Run, opask_run
from live_scenes import ANSWERS, ASK, DATABASE, NATIVE, PARTS, QUESTIONS, answers, ask, given, says, scenario
from opask.bridge import Bridge
from opask.driver import start
from opask.events import (
    AskToolMissing,
    Event,
    NativeAskRefused,
    PermissionDecided,
    QuestionAsked,
    QuestionResolved,
    SessionReady,
    TextSaid,
    ToolAnnounced,
    ToolFinished,
    TurnEnded,
)
from opask.launch import LaunchPlan, LaunchRequest
from opask_acp import HostClient
from opask_kimi import KimiAdapter, adapter, legacy_adapter
from opask_probes.install import InstallError, installed
from opask_probes.model import Call, Expect, ExpectedResult, Scenario, When
from opask_probes.playing import Operator, Setting, Take, playing
from opask_probes.runtimes import RUNTIMES, ProbedRuntime
from opask_probes.sandbox import Isolation, NoNamespace, loopback_namespace
from opask_probes.stage import Stage, stage

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

BARE = "ask_user_question"
TERMINAL = ("--surface", "terminal")  # its stdin is a pipe that nothing comes from: the question waits
PRINT = ("--output-format", "stream-json")
BOUND_S = 200.0  # with a wait of 90 s in it, on a machine that is busy
BOTH = [{DATABASE: ANSWERS[DATABASE]}, {PARTS: ANSWERS[PARTS]}]
AGENT = {"description": "sub", "prompt": "SUB", "subagent_type": "coder"}
Route = tuple[
    str, str, Sequence[str]
]  # a runtime, its spelling of the ask tool, and what is said behind `--`
every_route = pytest.mark.parametrize(
    "route",
    [("kimi", ASK, ()), ("kimi", ASK, PRINT), ("kimi-cli", BARE, ())],
    ids=["kimi", "kimi-print", "kimi-cli"],
)
REPORT = "This is a report that is long enough, so that nobody asks for a longer one. " * 6

USER = """\
# The user's own.
default_model = "own"

[providers.own]
type = "openai"
base_url = "{url}/v1"
api_key = "sk-test"

[models.own]
provider = "own"
model = "scripted"
max_context_size = 100000
capabilities = ["tool_use"]

[tools]
disabled = [ "CronCreate" ] # the user's
"""


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio alone: what is tested is the real runtime, and the command line's own loop is asyncio's."""
    return "asyncio"


def _program(name: str) -> Path:
    try:
        return installed(name)
    except InstallError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def isolation() -> Isolation:
    """Give a namespace with loopback alone; a runtime is not run without one here."""
    found = loopback_namespace()
    if isinstance(found, NoNamespace):
        pytest.skip(found.reason)
    return found


@pytest.fixture(scope="module")
def kimi() -> Path:
    """Give the pinned Kimi Code."""
    return _program("kimi")


@pytest.fixture(scope="module")
def kimi_cli() -> Path:
    """Give the pinned Kimi CLI."""
    return _program("kimi-cli")


@pytest.fixture
def setting(kimi: Path, isolation: Isolation) -> Setting:
    """Give what runs of Kimi Code in a host of one's own have in common."""
    return Setting(runtime=RUNTIMES["kimi"], adapter=adapter, program=kimi, isolation=isolation)


@pytest.fixture
def legacy(kimi_cli: Path, isolation: Isolation) -> Setting:
    """Give what runs of the older CLI in a host of one's own have in common."""
    return Setting(
        runtime=RUNTIMES["kimi-cli"], adapter=legacy_adapter, program=kimi_cli, isolation=isolation
    )


# -- pieces ----------------------------------------------------------------------------------------------------------


def result(*parts: str, lacks: tuple[str, ...] = ()) -> Expect:
    """Expect the one result to have these parts; the model is not told whether it is an error."""
    return given(*parts, lacks=lacks, error=None)


def native(text: str) -> Call:
    """Make the call that asks a question by the native tool, in its own spelling of the arguments."""
    question = {key: value for key, value in QUESTIONS[text].items() if key != "multiSelect"}
    return Call(NATIVE, {"questions": [{**question, "multi_select": QUESTIONS[text]["multiSelect"]}]})


@asynccontextmanager
async def running(
    play: Scenario,
    program: Path,
    isolation: Isolation,
    *options: str,
    runtime: str = "kimi",
    rest: Sequence[str] = (),
) -> AsyncIterator[Run]:
    """Run ``opask run`` on a stage of its own; it has to be done in time, and well, and the scenario played."""
    async with stage(play, isolation) as stage_:
        RUNTIMES[runtime].prepare(stage_.sandbox.home, stage_.url)
        started = opask_run(stage_, program, *options, runtime=runtime, rest=rest)
        async with started as run:
            with anyio.fail_after(BOUND_S):
                yield run
                await run.ends(0)
        await stage_.close()
        assert stage_.failures == ()


def correlated(run: Run) -> list[str]:
    """Give the calls of the questions, told at once or later: one each."""
    asked = {event["question_id"]: event["tool_call_id"] for event in run.of("question_asked")}
    later = {event["question_id"]: event["tool_call_id"] for event in run.of("question_correlated")}
    found = list((asked | later).values())
    assert None not in found
    assert len(set(found)) == len(found)
    return found


def announced(run: Run) -> list[str]:
    """Give the calls that were announced as the ask tool's."""
    return [event["tool_call_id"] for event in run.of("tool_announced", ask="supplied")]


def said(run: Run) -> str:
    """Give what the agent said, in one piece."""
    return "".join(event["text"] for event in run.of("text"))


def quoted(text: str) -> str:
    """Give an answer as the model reads it."""
    return json.dumps({"answers": {text: ANSWERS[text]}})


def host(
    setting: Setting, play: Scenario, prompter: Any, *argv: str, prompt: str = "Go.", **more: Any
) -> Any:
    """Start the runtime in a host of one's own."""
    launch = [str(setting.program), *(argv or ("acp",))]
    return playing(setting, play, launch, prompt=prompt, prompter=prompter, **more)


def clean(take: Take) -> None:
    """Hold that the scenario was played as written, and nothing is left."""
    assert take.failures == ()
    assert take.left == ()


def resolved(take: Take) -> list[tuple[str, Any]]:
    """Give how the questions ended."""
    return [(event.outcome, event.answers) for event in take.of(QuestionResolved)]


class Held(Operator):
    """An operator who answers when told to."""

    def __init__(self) -> None:
        super().__init__(ANSWERS, before=self._wait)
        self.asked_once = anyio.Event()
        self.go = anyio.Event()

    async def _wait(self, ask: object) -> None:
        self.asked_once.set()
        await self.go.wait()


# -- round trips -----------------------------------------------------------------------------------------------------


@every_route
async def test_both_kinds_of_question_are_answered(route: Route, isolation: Isolation) -> None:
    """A single and a multiple choice are answered and quoted exactly, each correlated with its own call."""
    runtime, tool, rest = route
    is_new = runtime == "kimi"
    both = scenario(
        says(
            "I ask.",
            ask(DATABASE, tool),
            expect=Expect(
                offered=(tool,),
                absent=(NATIVE,) if is_new else (),
                system_contains=(ASK,) if is_new else (),
                text_contains=() if is_new else (BARE,),
            ),
        ),
        says("And {{result}}", ask(PARTS, tool), expect=result("SQLite", lacks=("PostgreSQL",))),
        says("Picked {{result}}", expect=result("API", "Docs", lacks=("Web page",))),
    )
    scripted = ("--answers", answers(DATABASE, PARTS))
    async with running(both, _program(runtime), isolation, *scripted, runtime=runtime, rest=rest) as run:
        pass
    assert [event["answers"] for event in run.of("question_resolved", outcome="answered")] == BOTH
    assert correlated(run) == announced(run)
    assert said(run).count(quoted(DATABASE)) == said(run).count(quoted(PARTS)) == 1
    (ready,) = run.of("session_ready")
    assert (ready["questions"], ready["version"]) == (True, RUNTIMES[runtime].version)
    assert run.of("ask_tool_missing") == []


@pytest.mark.parametrize(
    ("runtime", "tool", "at_once"), [("kimi", ASK, 1), ("kimi-cli", BARE, 2)], ids=["kimi", "kimi-cli"]
)
async def test_two_asks_of_one_message_each_get_their_own_answer(
    runtime: str, tool: str, at_once: int, isolation: Isolation
) -> None:
    """Kimi Code puts one question after the other, the older CLI both at once; each answer goes to its own call."""
    two = scenario(
        says("I ask.", ask(DATABASE, tool), ask(PARTS, tool)),
        says(
            "Done.",
            expect=Expect(
                results=(ExpectedResult(("SQLite",), ("API",)), ExpectedResult(("API", "Docs"), ("SQLite",)))
            ),
        ),
    )
    typed = {DATABASE: "2", PARTS: "1, 3"}
    async with running(two, _program(runtime), isolation, *TERMINAL, runtime=runtime) as run:
        await run.until("question_asked", at_once)
        assert run.of("question_resolved") == []
        for number in (1, 2):
            asked = await run.until("question_asked", number)
            await run.write(typed[asked["questions"][0]["question"]])
    assert sorted(correlated(run)) == sorted(announced(run))


async def test_a_sub_agent_asks(setting: Setting) -> None:
    """A sub-agent's ask is known to be its own by nothing but its permission request, and its answer is the sub-agent's."""
    play = scenario(
        says("I delegate.", Call("Agent", AGENT)),
        says("It says {{result}}", expect=result("Sub has", "SQLite")),
        sub=(
            When(prompt_contains=("SUB",)),
            (
                says("I ask.", ask(DATABASE), expect=Expect(offered=(ASK,), absent=(NATIVE,))),
                says(f"Sub has {{{{result}}}}. {REPORT}", expect=result("SQLite")),
            ),
        ),
    )
    async with host(setting, play, Operator(ANSWERS), prompt="MAIN") as run:
        await run.prompt()
        await run.to_the_end()
    clean(run.take)
    delegated, announced_ = run.take.of(ToolAnnounced)
    (asked,) = run.take.of(QuestionAsked)
    assert (delegated.tool, delegated.agent_id) == ("Agent", None)
    assert (announced_.ask, announced_.agent_id) == ("supplied", delegated.tool_call_id)
    assert (asked.tool_call_id, asked.agent_id) == (announced_.tool_call_id, delegated.tool_call_id)
    assert resolved(run.take) == [("answered", BOTH[0])]


# -- the native ask tool ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rest", [(), PRINT], ids=["acp", "print"])
async def test_the_native_tool_is_off(rest: Sequence[str], kimi: Path, isolation: Isolation) -> None:
    """Called though it is not offered, it fails, no question is drawn, and the turn goes on to the supplied tool."""
    play = scenario(
        says("I ask.", native(DATABASE), expect=Expect(offered=(ASK,), absent=(NATIVE,))),
        says(
            "Otherwise.", ask(PARTS), expect=result("disabled by the active tool policy", lacks=("SQLite",))
        ),
        says("Picked {{result}}", expect=result("API", "Docs")),
    )
    async with running(play, kimi, isolation, "--answers", answers(PARTS), rest=rest) as run:
        pass
    (refused,) = run.of("native_ask_refused")
    assert (refused["tool"], refused["channel"]) == (NATIVE, "launch")
    (asked,) = run.of("question_asked")
    assert asked["questions"][0]["question"] == PARTS
    assert correlated(run) == announced(run)
    assert [event["is_error"] for event in run.of("tool_finished")] == [True, False]


@pytest.mark.parametrize("refuse", ["native-ask-denied", "session-home"])
async def test_the_native_tools_answers_are_not_taken(refuse: str, setting: Setting) -> None:
    """Offered since its lever is refused, it comes as a permission request of answers: it is skipped, and ours is used."""
    play = scenario(
        says("I ask.", native(DATABASE), expect=Expect(offered=(ASK, NATIVE))),
        says("Otherwise.", ask(PARTS), expect=result("dismissed", lacks=("PostgreSQL", "SQLite"))),
        says("Picked {{result}}", expect=result("API", "Docs")),
    )
    operator = Operator(ANSWERS)
    async with host(setting, play, operator, refuse=frozenset({refuse})) as run:
        await run.prompt()
        await run.to_the_end()
    clean(run.take)
    (refused,) = run.take.of(NativeAskRefused)
    assert (refused.tool, refused.channel) == (NATIVE, "permission")
    assert [event.verdict for event in run.take.of(PermissionDecided)] == ["deny", "allow"]
    assert [one.questions[0].text for one in operator.asked] == [PARTS]
    answers_ = [json.loads(str(line.message)) for line in run.take.lines if line.source == "host"]
    taken = [
        each["result"]["outcome"].get("optionId") for each in answers_ if "outcome" in each.get("result", {})
    ]
    assert taken == ["q0_skip", "approve_once"]


async def test_the_older_clis_native_tool_is_blocked(legacy: Setting) -> None:
    """The hook blocks what would answer itself, tells the model what to call, and the turn goes on to that."""
    play = scenario(
        says("I ask.", native(DATABASE), expect=Expect(offered=(BARE, NATIVE))),
        says("Otherwise.", ask(PARTS, BARE), expect=result(f"Call {BARE}", lacks=("dismissed",))),
        says("Picked {{result}}", expect=result("API", "Docs")),
    )
    async with host(legacy, play, Operator(ANSWERS)) as run:
        await run.prompt()
        await run.to_the_end()
    clean(run.take)
    (refused,) = run.take.of(NativeAskRefused)
    assert (refused.tool, refused.channel) == (NATIVE, "launch")
    assert [event.questions[0].text for event in run.take.of(QuestionAsked)] == [PARTS]


# -- starts ----------------------------------------------------------------------------------------------------------

FIRST = {
    ASK: Expect(offered=(ASK,), absent=(NATIVE,), system_contains=(ASK,)),
    BARE: Expect(offered=(BARE,), text_contains=(BARE,)),
}


async def start_one(route: Route, isolation: Isolation) -> None:
    """Start a runtime; its first request has to have the ask tool, and to say how the operator is reached."""
    runtime, tool, rest = route
    play = scenario(
        says("I ask.", ask(DATABASE, tool), expect=FIRST[tool]),
        says("Picked {{result}}", expect=result("SQLite")),
    )
    scripted = ("--answers", answers(DATABASE))
    async with running(play, _program(runtime), isolation, *scripted, runtime=runtime, rest=rest):
        pass


@pytest.mark.long
@pytest.mark.timeout(600)
@every_route
async def test_the_tool_is_in_the_first_request_ten_times(route: Route, isolation: Isolation) -> None:
    """Of ten starts one after the other, each has the ask tool in the first request to the model."""
    for _ in range(10):
        await start_one(route, isolation)


@every_route
async def test_the_tool_is_in_the_first_request_of_four_at_once(route: Route, isolation: Isolation) -> None:
    """Of four that start at once, each has it too."""
    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(start_one, route, isolation)


# -- waits and mishaps -----------------------------------------------------------------------------------------------


@pytest.mark.long
@every_route
async def test_an_answer_after_kimis_own_limit_arrives(route: Route, isolation: Isolation) -> None:
    """An answer after 90 s, where Kimi alone would have given up after 60, reaches the agent."""
    runtime, tool, rest = route
    late = scenario(says("I ask.", ask(DATABASE, tool)), says("Picked {{result}}", expect=result("SQLite")))
    async with running(late, _program(runtime), isolation, *TERMINAL, runtime=runtime, rest=rest) as run:
        await run.until("question_asked")
        await anyio.sleep(90)
        await run.write("2")
        (end,) = [await run.until("question_resolved")]
    assert end["outcome"] == "answered"
    assert end["duration_ms"] > 90_000


@pytest.mark.parametrize("product", ["kimi", "kimi-cli"])
async def test_an_interrupted_turn_takes_its_question_back(
    product: str, setting: Setting, legacy: Setting
) -> None:
    """A cancel while a question waits settles it at once; the older CLI tells its server nothing of it."""
    used, tool = (setting, ASK) if product == "kimi" else (legacy, BARE)
    play = scenario(says("I ask.", ask(DATABASE, tool)))
    operator = Held()
    async with host(used, play, operator) as run:
        await run.prompt()
        await operator.asked_once.wait()
        with anyio.fail_after(30):
            await run.runtime.interrupt()
            await run.until(QuestionResolved)
            ended = await run.until(TurnEnded)
        await run.runtime.finish()
    assert (ended.stop_reason, ended.is_error) == ("cancelled", False)
    (end,) = run.take.of(QuestionResolved)
    assert (end.outcome, end.reason) == ("abandoned", "agent" if product == "kimi" else "turn_end")
    assert run.take.left == ()


async def test_a_killed_relay_is_asked_once(setting: Setting) -> None:
    """Kimi Code starts the server anew and sends the call again: the operator sees one question, and the agent its answer."""
    play = scenario(says("I ask.", ask(DATABASE)), says("Picked {{result}}", expect=result("SQLite")))
    operator = Held()
    async with host(setting, play, operator) as run:
        await run.prompt()
        await operator.asked_once.wait()
        (relay,) = run.relays()
        lists = run.served("tools/list")
        os.kill(relay, signal.SIGKILL)
        await run.until_served("tools/list", lists + 1)
        (other,) = run.relays()
        assert other != relay
        operator.go.set()
        await run.to_the_end()
    clean(run.take)
    assert len(operator.asked) == 1
    (asked,) = run.take.of(QuestionAsked)
    (finished,) = run.take.of(ToolFinished)
    assert (finished.tool, finished.is_error, finished.tool_call_id) == (ASK, False, asked.tool_call_id)
    assert resolved(run.take) == [("answered", BOTH[0])]


async def test_the_older_clis_call_fails_with_its_relay(legacy: Setting) -> None:
    """The older CLI does not send the call again: it fails there, the question is settled, and the next one is answered."""
    play = scenario(
        says("I ask.", ask(DATABASE, BARE)),
        says("I ask again.", ask(PARTS, BARE), expect=result("Error", lacks=("SQLite",))),
        says("Picked {{result}}", expect=result("API", "Docs")),
    )
    operator = Held()
    async with host(legacy, play, operator) as run:
        await run.prompt()
        await operator.asked_once.wait()
        (relay,) = run.relays()
        os.kill(relay, signal.SIGKILL)
        await run.until(QuestionAsked, 2)
        operator.go.set()
        await run.to_the_end()
    clean(run.take)
    assert [end[0] for end in resolved(run.take)].count("answered") == 1
    assert sorted(end[0] for end in resolved(run.take)) == ["abandoned", "answered"]


# -- a missing tool --------------------------------------------------------------------------------------------------


async def test_a_server_that_fails_is_told(setting: Setting, tmp_path: Path) -> None:
    """A turn that went by without the tool is told of, and `/mcp` brings Kimi's own word for why, with no model called."""
    broken = tmp_path / "python"
    # It can be checked, and fails once it is to serve.
    broken.write_text('#!/bin/sh\n[ $# -gt 3 ] && { echo boom >&2; exit 3; }\nexec python3 "$@"\n')
    broken.chmod(0o700)
    play = scenario(says("No tool.", expect=Expect(absent=(ASK, NATIVE))))
    async with host(setting, play, Operator({}), interpreter=broken) as run:
        await run.prompt()
        await run.until(TurnEnded)
        await run.prompt("/mcp")
        await run.until(TurnEnded, 2)
        await run.to_the_end()
    clean(run.take)
    first, second = run.take.of(AskToolMissing)
    assert (first.reason, second.reason) == ("not_listed", "failed")
    assert str(second.server_status).startswith("failed: ")


# -- the user's own --------------------------------------------------------------------------------------------------


def digests(folder: Path) -> dict[str, str]:
    """Give the digest of every file in a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        with suppress(FileNotFoundError):  # what the runtime has taken away meanwhile
            if path.is_file():
                found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def owned(setting: Setting) -> Setting:
    """Give a setting in which the user has files, the provider in one of them, and nothing is in the environment."""
    runtime: ProbedRuntime = evolve(
        setting.runtime,
        model=lambda url: {"KIMI_CODE_NO_AUTO_UPDATE": "1", "KIMI_DISABLE_TELEMETRY": "1"},
        files=lambda url: {name: text.format(url=url) for name, text in FILES.items()},
    )
    return evolve(setting, runtime=runtime)


FILES = {
    ".kimi-code/config.toml": USER,
    ".kimi-code/AGENTS.md": "USER-RULES\n",
    ".kimi-code/credentials/kimi-code.json": '{{"access_token": "one"}}',
    ".kimi-code/mcp.json": '{{"mcpServers": {{}}}}',
}


@pytest.mark.parametrize("argv", [("acp",), ("--prompt=Go.", *PRINT)], ids=["acp", "print"])
async def test_the_users_own_files_stay_as_they_are(argv: Sequence[str], setting: Setting) -> None:
    """Provider, rules, login and conversations of the user's are used, none of the files changes, and a rotated login stays."""
    used = owned(setting)
    play = scenario(
        says(
            "I ask.",
            ask(DATABASE),
            expect=Expect(offered=(ASK,), absent=(NATIVE, "CronCreate"), system_contains=("USER-RULES", ASK)),
        ),
        says("Picked {{result}}", expect=result("SQLite")),
    )
    before: dict[str, str] = {}
    operator = Held()
    async with host(used, play, operator, *argv) as run:
        home = run.stage.sandbox.home / ".kimi-code"
        before |= {name: digests(home)[name.removeprefix(".kimi-code/")] for name in FILES}
        await run.prompt()
        await operator.asked_once.wait()
        rotate(run.session.plan)
        operator.go.set()
        await run.to_the_end()
        after = digests(home)
    clean(run.take)
    rotated = ".kimi-code/credentials/kimi-code.json"
    assert [name for name in FILES if before[name] != after[name.removeprefix(".kimi-code/")]] == [rotated]
    assert any(name.startswith("sessions/") for name in after)
    assert not run.take.plan or not run.take.plan.overlays[0].path.exists()


def rotate(plan: LaunchPlan | None) -> None:
    """Replace the login as Kimi does, by a new file in the folder that it knows."""
    assert plan is not None
    folder = plan.overlays[0].path / "credentials"
    part = folder / "kimi-code.json.part"
    part.write_text('{"access_token": "two"}', encoding="utf-8")
    part.replace(folder / "kimi-code.json")


@asynccontextmanager
async def again(
    stage_: Stage, kimi: Path, used: KimiAdapter, home: Path
) -> AsyncIterator[tuple[Any, list[Event]]]:
    """Start Kimi Code on a stage, where another ran before, in a session of its own; it has ended afterwards."""
    environment = stage_.environment(RUNTIMES["kimi"], {"KIMI_CODE_HOME": str(home)})
    request = LaunchRequest((str(kimi), "acp"), environment, cwd=stage_.sandbox.work)
    heard: list[Event] = []
    async with (
        Bridge() as bridge,
        await bridge.attach("again", used, Operator(ANSWERS)) as session,
    ):
        session.subscribe(heard.append)
        plan = session.plan_launch(request)
        started = evolve(plan, argv=(*stage_.enter, *plan.argv))
        async with start(session, started) as runtime:
            yield runtime, heard
            assert (await runtime.finish()).ok


async def test_a_conversation_is_found_again(kimi: Path, isolation: Isolation, tmp_path: Path) -> None:
    """What was said through one session's folder is resumed through another's, told of the operator in the prompt."""
    home = tmp_path / "kept"  # a persistent home of the host's own, which is not there yet
    play = scenario(
        says("Noted: BLUE.", expect=Expect(offered=(ASK,), system_contains=(ASK,))),
        says("I ask.", ask(DATABASE), expect=Expect(offered=(ASK,), absent=(NATIVE,), text_contains=(ASK,))),
        says("Picked {{result}}", expect=result("SQLite")),
    )
    async with stage(play, isolation) as stage_:
        async with again(stage_, kimi, adapter, home) as (runtime, _):
            await runtime.prompt("Go.")
            await runtime.turn_over()
        (index,) = (home / "session_index.jsonl").read_text().splitlines()
        resumed = adapter.with_client(HostClient(resume=json.loads(index)["sessionId"]))
        async with again(stage_, kimi, resumed, home) as (runtime, heard):
            await runtime.prompt("Go on.")
            await runtime.turn_over()
        await stage_.close()
    assert stage_.failures == ()
    assert (home / "workspaces.json").is_file()
    ends = [event for event in heard if isinstance(event, QuestionResolved)]
    assert [(event.outcome, event.answers) for event in ends] == [("answered", BOTH[0])]
    assert "BLUE" not in "".join(event.text for event in heard if isinstance(event, TextSaid))


async def test_the_older_clis_own_files_stay_as_they_are(legacy: Setting) -> None:
    """Its settings and login are unchanged, and its record of folders knows the one that the session worked in."""
    play = scenario(says("I ask.", ask(DATABASE, BARE)), says("Picked {{result}}", expect=result("SQLite")))
    work = ""
    async with host(legacy, play, Operator(ANSWERS)) as run:
        home = run.stage.sandbox.home / ".kimi"
        before = digests(home)
        await run.prompt()
        await run.to_the_end()
        work = str(run.stage.sandbox.work)
        await run.session.aclose()
        after = digests(home)
        known = json.loads((home / "kimi.json").read_text())
    clean(run.take)
    assert {name: after[name] for name in before} == before
    assert [entry["path"] for entry in known["work_dirs"]] == [work]


async def test_nobody_there(setting: Setting) -> None:
    """Without an operator no ask tool is there, the native one neither, and the agent is told to go on alone."""
    play = scenario(
        says(
            "Alone.",
            expect=Expect(absent=(ASK, NATIVE), system_contains=("No human operator can be reached",)),
        )
    )
    async with host(setting, play, None) as run:
        await run.prompt()
        await run.to_the_end()
    clean(run.take)
    (ready,) = run.take.of(SessionReady)
    assert (ready.questions, ready.reason) == (False, "no prompter: the host attached none")


async def test_a_release_that_runs_no_agent_is_refused(
    kimi_cli: Path, isolation: Isolation, tmp_path: Path
) -> None:
    """A program that tells the last version of the older CLI is not started for anything else."""
    program = tmp_path / "kimi-cli"
    log = tmp_path / "log"
    program.write_text(f'#!/bin/sh\necho "run: $*" >> {log}\necho "kimi, version 1.52.0"\n', encoding="utf-8")
    program.chmod(0o700)
    async with stage(scenario(says("Never.")), isolation) as stage_:
        run_ = opask_run(stage_, program, "--answers", "{}", runtime="kimi-cli")
        async with run_ as run:
            await run.ends(2)
    assert "npm install -g @moonshot-ai/kimi-code" in run.stderr
    assert "pip install kimi-cli==1.50.0" in run.stderr
    assert log.read_text().splitlines() == ["run: --version"]
