"""The real omp against a scripted model: what is asked, answered and refused, by ``opask run`` and by a host of one's own."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

import omp_live
from live_runs import Run, opask_run
from live_scenes import ANSWERS, DATABASE, NAME, PARTS, QUESTIONS, answers, ask, given, says, scenario
from opask_probes.install import InstallError, installed
from opask_probes.model import Call, Expect, ExpectedResult, Scenario
from opask_probes.runtimes import RUNTIMES
from opask_probes.sandbox import Isolation, NoNamespace, loopback_namespace
from opask_probes.stage import Stage, stage
from slow_relay import slow_interpreter

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

ASK = "mcp__opask_ask_user_question"
DEVICE = f"xd://{ASK}"
DEVICES = ("direct-tools", "plain-titles")  # refused: the tool is a device then, and titles are the model's
TERMINAL = ("--surface", "terminal")  # its stdin is a pipe that nothing comes from: the question waits
BOUND_S = 120.0  # omp is slow to start, several at once above all
PACKAGES = ":".join(path for path in sys.path if path and Path(path).is_dir())


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


# -- scenes ----------------------------------------------------------------------------------------------------------


def ours(text: str) -> Call:
    """Make the call that asks a question, as any tool is called."""
    return ask(text, ASK)


def device(text: str, intent: str | None = "Asking the operator") -> Call:
    """Make the call that asks a question where the tool is a device: it is written to."""
    return written(json.dumps({"questions": [QUESTIONS[text]]}), intent)


def written(content: str, intent: str | None = None) -> Call:
    """Make a call that writes something to the device."""
    phrase = {} if intent is None else {"i": intent}
    return Call("write", {**phrase, "path": DEVICE, "content": content})


def result(*parts: str, lacks: tuple[str, ...] = ()) -> Expect:
    """Expect the one result to have these parts; the model is not told whether it is an error."""
    return given(*parts, lacks=lacks, error=None)


@asynccontextmanager
async def set_stage(play: Scenario, isolation: Isolation, **files: str) -> AsyncIterator[Stage]:
    """Set a stage with omp's files, and the user's own, in its home; the scenario is played to its end."""
    async with stage(play, isolation) as stage_:
        RUNTIMES["omp"].prepare(stage_.sandbox.home, stage_.url)
        for name, text in files.items():
            (stage_.sandbox.home / ".omp" / "agent" / name).write_text(text, encoding="utf-8")
        yield stage_
        await stage_.close()
        assert stage_.failures == ()


@asynccontextmanager
async def running(
    stage_: Stage, omp: Path, *options: str, rest: Sequence[str] = (), bound: float = BOUND_S
) -> AsyncIterator[Run]:
    """Run ``opask run omp``; it has to be done in time, and well."""
    run = opask_run(stage_, omp, *options, runtime="omp", rest=("--no-title", *rest))
    async with run as running_:
        with anyio.fail_after(bound):
            yield running_
            await running_.ends(0)


async def hosted(stage_: Stage, omp: Path, **todo: Any) -> Run:
    """Let a host of one's own do something; give what it heard."""
    env = stage_.environment(RUNTIMES["omp"], {"PYTHONPATH": PACKAGES})
    argv = [str(omp), "acp", "--no-title", *todo.pop("rest", ())]
    program = [sys.executable, omp_live.__file__, json.dumps({"argv": argv, **todo})]
    with anyio.fail_after(BOUND_S):
        done = await anyio.run_process(
            [*stage_.enter, *program], env=env, cwd=stage_.sandbox.work, check=False
        )
    assert done.returncode == 0, done.stderr.decode()
    told = json.loads(done.stdout)
    assert told["ok"], told
    return Run(stage_, omp, None, told["events"])  # type: ignore[arg-type] # its process is over


def correlated(run: Run) -> list[str]:
    """Give the calls of the questions, told at once or later: one each."""
    asked = {event["question_id"]: event["tool_call_id"] for event in run.of("question_asked")}
    later = {event["question_id"]: event["tool_call_id"] for event in run.of("question_correlated")}
    assert all(asked[question] is None for question in later)
    found = list((asked | later).values())
    assert None not in found
    assert len(set(found)) == len(found)
    return found


def announced(run: Run) -> list[str]:
    """Give the calls that were announced as the ask tool's."""
    return [event["tool_call_id"] for event in run.of("tool_announced", ask="supplied", tool=ASK)]


def said(run: Run) -> str:
    """Give what the agent said, in one piece."""
    return "".join(event["text"] for event in run.of("text"))


def quoted(*texts: str) -> str:
    """Give the answers as the model reads them."""
    return json.dumps({"answers": {text: ANSWERS[text] for text in texts}})


def given_answers(run: Run) -> list[Any]:
    """Give the answers to each question, in order."""
    return [event["answers"] for event in run.of("question_resolved", outcome="answered")]


BOTH = [{DATABASE: ANSWERS[DATABASE]}, {PARTS: ANSWERS[PARTS]}]


# -- round trips -----------------------------------------------------------------------------------------------------


async def test_both_kinds_of_question_are_answered(omp: Path, isolation: Isolation) -> None:
    """A single and a multiple choice are answered and quoted exactly, each correlated with its own call."""
    both = scenario(
        says(
            "I ask.", ours(DATABASE), expect=Expect(offered=(ASK,), absent=("ask",), system_contains=(ASK,))
        ),
        says("And {{result}}", ours(PARTS), expect=result("SQLite", lacks=("PostgreSQL",))),
        says("Picked {{result}}", expect=result("API", "Docs", lacks=("Web page",))),
    )
    async with (
        set_stage(both, isolation) as stage_,
        running(stage_, omp, "--answers", answers(DATABASE, PARTS)) as run,
    ):
        pass
    assert given_answers(run) == BOTH
    assert correlated(run) == announced(run)
    assert f"And {quoted(DATABASE)}" in said(run)
    assert f"Picked {quoted(PARTS)}" in said(run)
    (ready,) = run.of("session_ready")
    told = (ready["questions"], ready["version"], ready["route"], ready["status"])
    assert told == (True, "18.2.3", "mcp-stdio", "verified")


async def test_both_kinds_are_answered_where_the_tool_is_a_device(omp: Path, isolation: Isolation) -> None:
    """With the levers refused the model writes to a device, with a phrase or without: asked, answered, correlated."""
    both = scenario(
        says("I ask.", device(DATABASE), expect=Expect(absent=(ASK, "ask"), system_contains=(DEVICE,))),
        says("And {{result}}", device(PARTS, None), expect=result("SQLite", lacks=("PostgreSQL",))),
        says("Picked {{result}}", expect=result("API", "Docs", lacks=("Web page",))),
    )
    refuse = (f"--refuse={change}" for change in DEVICES)
    async with (
        set_stage(both, isolation) as stage_,
        running(stage_, omp, *refuse, "--answers", answers(DATABASE, PARTS)) as run,
    ):
        pass
    assert given_answers(run) == BOTH
    assert correlated(run) == announced(run)
    assert f"And {quoted(DATABASE)}" in said(run)
    assert f"Picked {quoted(PARTS)}" in said(run)
    (ready,) = run.of("session_ready")
    assert (ready["questions"], ready["route"], ready["status"]) == (True, "mcp-stdio-device", "verified")


async def test_the_dialect_of_anthropic_names_it_otherwise(omp: Path, isolation: Isolation) -> None:
    """A model of the other dialect sees one more underscore in front; what is told of the call has the name without it."""
    one = scenario(
        says("I ask.", ask(DATABASE, f"_{ASK}"), expect=Expect(offered=(f"_{ASK}",), absent=("ask", "_ask"))),
        says("Picked {{result}}", expect=result("SQLite")),
    )
    async with stage(one, isolation) as stage_:
        for name, text in RUNTIMES["omp"].files(stage_.url).items():
            path = stage_.sandbox.home / name
            path.parent.mkdir(parents=True)
            other = text.replace("/v1\n", "\n").replace("openai-completions", "anthropic-messages")
            path.write_text(other, encoding="utf-8")
        async with running(stage_, omp, "--answers", answers(DATABASE)) as run:
            pass
        await stage_.close()
        assert stage_.failures == ()
    assert given_answers(run) == BOTH[:1]
    assert correlated(run) == announced(run)


async def test_a_phrase_for_a_title_hides_the_name(omp: Path, isolation: Isolation) -> None:
    """Where the title is the model's phrase and nothing names the tool, the question is known by what it asks."""
    phrase = Call(ASK, {"i": "Asking about the database", "questions": [QUESTIONS[DATABASE]]})
    one = scenario(
        says("I ask.", phrase, expect=Expect(offered=(ASK,))),
        says("Picked {{result}}", expect=result("SQLite")),
    )
    async with set_stage(one, isolation) as stage_:
        run = await hosted(stage_, omp, answers=ANSWERS, refuse=("plain-titles",))
    assert [event["tool"] for event in run.of("tool_announced")] == ["Asking about the database"]
    assert [event["tool"] for event in run.of("tool_finished")] == [ASK]
    assert correlated(run) == [run.of("tool_announced")[0]["tool_call_id"]]
    assert given_answers(run) == BOTH[:1]


async def test_two_asks_of_one_message_wait_at_once(omp: Path, isolation: Isolation) -> None:
    """Two asks in one message are open together, and each gets its own answer."""
    two = scenario(
        says("I ask.", ours(DATABASE), ours(PARTS)),
        says(
            "Done.",
            expect=Expect(
                results=(ExpectedResult(("SQLite",), ("API",)), ExpectedResult(("API", "Docs"), ("SQLite",)))
            ),
        ),
    )
    typed = {DATABASE: "2", PARTS: "1, 3"}
    async with set_stage(two, isolation) as stage_, running(stage_, omp, *TERMINAL) as run:
        await run.until("question_asked", 2)
        assert run.of("question_resolved") == []
        for asked in run.of("question_asked"):
            await run.write(typed[asked["questions"][0]["question"]])
    assert sorted(correlated(run)) == sorted(announced(run))


# -- calls that ask nothing ------------------------------------------------------------------------------------------


async def test_a_first_attempt_that_is_rejected_asks_nothing(omp: Path, isolation: Isolation) -> None:
    """What is no JSON is rejected before the server, help and reading give help: one question, of the call that asks."""
    retried = scenario(
        says(None, written('{"questions": ['), expect=Expect(system_contains=(DEVICE,))),
        says(None, written("?"), expect=result("expects a JSON args object")),
        says(None, Call("read", {"path": DEVICE}), expect=result("questions")),
        says(None, device(DATABASE), expect=result("questions")),
        says("Picked {{result}}", expect=result("SQLite")),
    )
    async with set_stage(retried, isolation) as stage_:
        run = await hosted(stage_, omp, answers=ANSWERS, refuse=DEVICES)
    calls = [event["tool_call_id"] for event in run.of("tool_announced")]
    assert len(calls) == 4
    assert correlated(run) == calls[3:]
    assert announced(run) == [calls[0], calls[3]]
    assert [event["is_error"] for event in run.of("tool_finished")] == [True, False, False, False]
    assert given_answers(run) == BOTH[:1]


async def test_a_first_attempt_that_the_server_refuses_asks_nothing(omp: Path, isolation: Isolation) -> None:
    """Arguments without a question come back as an error, and the retry is the one question."""
    retried = scenario(
        says(None, Call(ASK, {})),
        says(None, ours(DATABASE), expect=result("Error")),
        says("Picked {{result}}", expect=result("SQLite")),
    )
    async with (
        set_stage(retried, isolation) as stage_,
        running(stage_, omp, "--answers", answers(DATABASE)) as run,
    ):
        pass
    assert correlated(run) == announced(run)[1:]
    assert [event["is_error"] for event in run.of("tool_finished")] == [True, False]


async def test_the_spelling_of_another_runtime_is_served_and_correlated(
    omp: Path, isolation: Isolation
) -> None:
    """Claude Code's spelling is served by omp as well, and reported so: the question is that call's, by what it asks."""
    one = scenario(
        says("I ask.", ask(DATABASE, "mcp__opask__ask_user_question")),
        says("Picked {{result}}", expect=result("SQLite")),
    )
    async with (
        set_stage(one, isolation) as stage_,
        running(stage_, omp, "--answers", answers(DATABASE)) as run,
    ):
        pass
    assert correlated(run) == [event["tool_call_id"] for event in run.of("tool_announced")]
    assert [event["tool"] for event in run.of("tool_finished")] == [ASK]


@pytest.mark.parametrize("refuse", [(), ("native-ask-denied",), DEVICES], ids=lambda names: " ".join(names))
async def test_the_native_ask_tool_is_refused(refuse: Sequence[str], omp: Path, isolation: Isolation) -> None:
    """The native tool is not on offer; called all the same it fails, asks nobody, and the turn goes on to ours."""
    native = scenario(
        says(None, ask(DATABASE, "ask"), expect=Expect(absent=("ask",))),
        says(None, device(PARTS) if refuse == DEVICES else ours(PARTS), expect=result("not found")),
        says("Picked {{result}}", expect=result("API", "Docs")),
    )
    async with set_stage(native, isolation) as stage_:
        run = await hosted(stage_, omp, answers=ANSWERS, refuse=refuse)
    (refused,) = run.of("native_ask_refused")
    assert (refused["tool"], refused["channel"]) == ("ask", "launch")
    assert [asked["questions"][0]["question"] for asked in run.of("question_asked")] == [PARTS]
    assert correlated(run) == announced(run)
    assert refused["tool_call_id"] not in correlated(run)


# -- the host's own launch -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refuse", [(), DEVICES], ids=["listed", "device"])
async def test_an_approval_mode_that_denies_it_is_overruled(
    refuse: Sequence[str], omp: Path, isolation: Isolation
) -> None:
    """In the approval mode in which omp would deny it without a word the ask tool runs."""
    call = device(DATABASE) if refuse else ours(DATABASE)
    one = scenario(says("I ask.", call), says("Picked {{result}}", expect=result("SQLite")))
    async with set_stage(one, isolation) as stage_:
        run = await hosted(
            stage_, omp, answers=ANSWERS, refuse=refuse, rest=("--approval-mode", "always-ask")
        )
    assert given_answers(run) == BOTH[:1]


async def test_the_hosts_options_stay(omp: Path, isolation: Isolation) -> None:
    """The host's settings file, its text for the system prompt and its list of tools are there beside what is added."""
    one = scenario(
        says(
            "I ask.",
            ours(DATABASE),
            expect=Expect(
                offered=(ASK, "read"), absent=("write",), system_contains=("HOST-MARK", "A human operator")
            ),
        ),
        says("Picked {{result}}", expect=result("SQLite")),
    )
    own = ("--config", "own.yml", "--append-system-prompt", "HOST-MARK", "--tools", "read")
    async with set_stage(one, isolation) as stage_:
        (stage_.sandbox.work / "own.yml").write_text("tools: {xdev: true}\n", encoding="utf-8")
        async with running(stage_, omp, "--answers", answers(DATABASE), rest=own) as run:
            pass
    assert given_answers(run) == BOTH[:1]


@pytest.mark.parametrize("option", ["mark.md", None], ids=["named file", "user's own"])
async def test_the_users_files_are_used_and_stay(option: str | None, omp: Path, isolation: Isolation) -> None:
    """The user's text for the system prompt is before the clause, and each of the user's files is what it was."""
    mark = "USER-MARK" if option is None else "FILE-MARK"
    one = scenario(
        says(
            "I ask.", ours(DATABASE), expect=Expect(system_contains=(mark, "A human operator", "AGENTS-MARK"))
        ),
        says("Picked {{result}}", expect=result("SQLite")),
    )
    mine = {
        "APPEND_SYSTEM.md": "USER-MARK\n",
        "AGENTS.md": "AGENTS-MARK\n",
        "config.yml": "# mine\ntools:\n  xdev: true\nask: {enabled: true}\n",
    }
    async with set_stage(one, isolation, **mine) as stage_:
        agent = stage_.sandbox.home / ".omp" / "agent"
        before = {path: path.read_bytes() for path in agent.rglob("*") if path.is_file()}
        assert {path.name for path in before} == {*mine, "models.yml"}
        (stage_.sandbox.work / "mark.md").write_text("FILE-MARK\n", encoding="utf-8")
        rest = () if option is None else ("--append-system-prompt", option)
        async with running(stage_, omp, "--answers", answers(DATABASE), rest=rest):
            pass
        assert {path: path.read_bytes() for path in before} == before


async def test_with_nobody_there_nothing_is_attached(omp: Path, isolation: Isolation) -> None:
    """Without an operator the model has neither ask tool, and is told to proceed alone."""
    alone = scenario(
        says(
            "Done.",
            expect=Expect(absent=(ASK, "ask"), system_contains=("Proceed alone",), system_lacks=(ASK,)),
        )
    )
    async with (
        set_stage(alone, isolation) as stage_,
        running(stage_, omp, "--surface", "none") as run,
    ):
        pass
    (ready,) = run.of("session_ready")
    assert ready["questions"] is False


async def test_a_resumed_session_is_given_the_tool_again(omp: Path, isolation: Isolation) -> None:
    """Another process that goes on with a session has the tool and the clause, and what was asked before is not again."""
    expect = Expect(offered=(ASK,), absent=("ask",), system_contains=("A human operator", ASK))
    twice = scenario(
        says("I ask.", ours(DATABASE), expect=expect),
        says("Picked {{result}}", expect=result("SQLite")),
        says("And this.", ours(PARTS), expect=expect),
        says("Picked {{result}}", expect=result("API", "Docs")),
    )
    async with set_stage(twice, isolation) as stage_:
        run = await hosted(stage_, omp, answers=ANSWERS, resume=True)
    assert given_answers(run) == BOTH[1:]
    assert correlated(run) == announced(run)


# -- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["interrupt", "cancel"])
async def test_a_cancel_settles_the_question_at_once(how: str, omp: Path, isolation: Isolation) -> None:
    """Of a cancel omp tells the server nothing; the host's settles the question long before its time is over, and omp stays usable."""
    steps = [says("I ask.", ours(DATABASE)), *([says("Alone.")] if how == "cancel" else []), says("Again.")]
    async with set_stage(scenario(*steps), isolation) as stage_:
        run = await hosted(stage_, omp, once_asked=how, then="And now?")
    (asked,), (end,) = run.of("question_asked"), run.of("question_resolved")
    outcome = ("abandoned", "turn_end") if how == "interrupt" else ("cancelled", None)
    assert (end["outcome"], end["reason"]) == outcome
    took = datetime.fromisoformat(end["time"]) - datetime.fromisoformat(asked["time"])
    assert took.total_seconds() < 60  # of five minutes
    first = "cancelled" if how == "interrupt" else "end_turn"
    assert [event["stop_reason"] for event in run.of("turn_ended")] == [first, "end_turn"]


@pytest.mark.parametrize("refuse", [(), DEVICES], ids=["listed", "device"])
async def test_a_killed_relay_asks_once(refuse: Sequence[str], omp: Path, isolation: Isolation) -> None:
    """A killed server is started anew and sent the same call again: one question, answered once, and the agent has it."""
    call = device(DATABASE) if refuse else ours(DATABASE)
    one = scenario(says("I ask.", call), says("Picked {{result}}", expect=result("SQLite")))
    async with set_stage(one, isolation) as stage_:
        run = await hosted(stage_, omp, answers=ANSWERS, refuse=refuse, once_asked="kill-relay")
    assert len(run.of("question_asked")) == len(run.of("question_resolved")) == 1
    assert given_answers(run) == BOTH[:1]
    assert quoted(DATABASE) in said(run)


@pytest.mark.long
@pytest.mark.parametrize("seconds", [35, 91])
async def test_a_wait_beyond_omps_own_limit(seconds: int, omp: Path, isolation: Isolation) -> None:
    """An answer that comes later than omp's 30 s arrives."""
    one = scenario(says("I ask.", ours(NAME)), says("Picked {{result}}", expect=result("Boreas")))
    async with (
        set_stage(one, isolation) as stage_,
        running(stage_, omp, *TERMINAL, bound=BOUND_S + seconds) as run,
    ):
        await run.until("question_asked")
        await anyio.sleep(seconds)
        await run.write("2")
    (end,) = run.of("question_resolved")
    assert end["answers"] == {NAME: "Boreas"}
    assert end["duration_ms"] > 1000 * seconds


# -- starts ----------------------------------------------------------------------------------------------------------


async def a_start(omp: Path, isolation: Isolation) -> None:
    """Start omp, and hold that its model has the tool in the first request."""
    first = scenario(says("Done.", expect=Expect(offered=(ASK,))))
    async with (
        set_stage(first, isolation) as stage_,
        running(stage_, omp, "--answers", "{}"),
    ):
        pass


async def test_four_starts_at_once_have_the_tool_at_once(omp: Path, isolation: Isolation) -> None:
    """However slow four starts make each other, the ask tool is in the first request of each."""
    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(a_start, omp, isolation)


@pytest.mark.parametrize("refuse", [(), DEVICES], ids=["listed", "device"])
async def test_a_list_that_is_long_under_way_is_waited_for(
    refuse: Sequence[str], omp: Path, isolation: Isolation, tmp_path: Path
) -> None:
    """Where the bridge's messages take much longer than omp waits, the tool is in the first request all the same."""
    # The clause names the device as well; in omp's own list stands a description behind it.
    expect = Expect(system_contains=(f"{DEVICE} — ",)) if refuse else Expect(offered=(ASK,))
    async with set_stage(scenario(says("Done.", expect=expect)), isolation) as stage_:
        slow = slow_interpreter(tmp_path, 1.5)
        run = await hosted(stage_, omp, answers={}, refuse=refuse, interpreter=str(slow))
    assert run.of("ask_tool_missing") == []


@pytest.mark.long
async def test_ten_starts_have_the_tool_at_once(omp: Path, isolation: Isolation) -> None:
    """The ask tool is in the model's first request, ten times of ten."""
    for _ in range(10):
        await a_start(omp, isolation)
