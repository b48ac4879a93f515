"""Sessions that are driven: real bridge, driver and processes, with runtimes of a few lines."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from cli_runtimes import ScriptedRuntime
from opask import Answer, Answered
from opask.adapters import Conversation, Message
from opask.cli import runs
from opask.cli.driven import Run
from opask.cli.runs import DEMO, Runs, RunSettings
from opask.driver import Bounds, start
from opask.errors import OpaskError, RuntimeUnavailableError
from opask.inbox import Entry, InboxPrompter, MemoryStore
from opask.launch import LaunchPlan, LaunchRequest
from opask.surfaces.mcp import DrivingError
from opask.surfaces.mcp.driving import TurnEnd
from opask_claude import adapter as claude


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio alone, as the command does."""
    return "asyncio"


_PRELUDE = """
import json, os, signal, sys, time
def say(type, **more): print(json.dumps({"type": type, **more}), flush=True)
def end(reason="done", is_error=False): say("turn_ended", reason=reason, is_error=is_error)
def turns():
    for line in sys.stdin:
        say("turn_started")
        yield json.loads(line)
"""
_READY = "say('ready', tools=['ask_user_question'])\n"


class Conversant(ScriptedRuntime):
    """A runtime of a few lines that takes several prompts, each a line of its input.

    Args:
        script: what it does.
        ready: what it does before, once it has its servers; unless told, it says that it has the ask tool.
    """

    def __init__(self, script: str, ready: str = _READY) -> None:
        super().__init__(ready + script)

    def conversation_argv(self, program: str, arguments: Sequence[str], /) -> Sequence[str]:
        """Return the launch of the script."""
        return (sys.executable, "-I", "-S", "-c", _PRELUDE + self._script, *arguments, "--", "")

    def conversation(self, plan: LaunchPlan, /) -> Conversation:
        """Return the demo's conversation, prompted and interrupted by messages."""
        talk: Any = super().conversation(plan)

        def prompt(text: str) -> list[Message]:
            return [{"prompt": text}]

        def interrupt() -> list[Message]:
            return [{"interrupt": True}]

        talk.prompt, talk.interrupt = prompt, interrupt
        return talk  # type: ignore[no-any-return]


class Stand:
    """Runs over an inbox in memory."""

    def __init__(self, runs: Runs, store: MemoryStore) -> None:
        self.runs = runs
        self.store = store

    async def pending(self) -> Entry:
        """Wait for a question."""
        async for update in self.store.watch():
            entries: Any = getattr(update, "entries", None) or [getattr(update, "entry", None)]
            for entry in entries:
                if entry is not None and entry.state == "pending":
                    found: Entry = entry
                    return found
        raise AssertionError


@asynccontextmanager
async def stand(folder: Path, **more: Any) -> AsyncIterator[Stand]:
    """Give runs of the demo's agent, of ``x`` and of ACP."""
    store = MemoryStore()
    settings = RunSettings(
        runtimes=(DEMO, "x", "acp"), env={"PATH": "/usr/bin:/bin"}, cwd=folder, allow_unverified=True, **more
    )
    async with AsyncExitStack() as stack:
        prompter = await stack.enter_async_context(InboxPrompter(store, when_absent="attach"))
        yield Stand(await stack.enter_async_context(Runs(prompter, settings)), store)


def use(monkeypatch: pytest.MonkeyPatch, runtime: object) -> None:
    """Let this be runtime ``x``."""
    monkeypatch.setattr(runs, "adapter", lambda name: runtime)


async def test_the_demo_is_driven_to_its_end(tmp_path: Path) -> None:
    """A runtime of one prompt asks by the real way, goes on with the inbox's answer, and its session ends with it."""
    async with stand(tmp_path) as there:
        run = await there.runs.start(DEMO, "Go.", None)
        assert (run.state, run.turns, run.cwd) == ("working", 1, tmp_path)
        entry = await there.pending()
        assert (entry.session_id, entry.runtime) == (run.id, DEMO)
        await there.store.resolve(entry.id, Answered((Answer((1,)), Answer((0,))), "test"))
        end = await run.turn_over()
        assert (end.outcome, end.text.strip()) == (
            "done",
            "The service will use “SQLite”. I will do first: “API”.",
        )
        assert run.state == "ended"
        with pytest.raises(DrivingError, match="has ended and takes no prompt"):
            run.prompt("On.")
        assert there.runs.session(run.id) is run
    logged = [logged.event["event"] for logged in await there.store.events(run.id)]
    assert {"question_asked", "question_resolved", "turn_ended"} <= set(logged)
    assert (await there.store.session(run.id)).ending == "ended"


async def test_a_session_takes_prompt_after_prompt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A runtime that takes several prompts keeps its process between them, and each turn has its own text."""
    script = "for turn in turns(): say('text', text=f\"{os.getpid()} {turn['prompt']}\"); end(is_error=turn['prompt'] == 'fail')"
    use(monkeypatch, Conversant(script))
    async with stand(tmp_path) as there:
        run = await there.runs.start("x", "one", None)
        first = await run.turn_over()
        assert (first.outcome, run.state) == ("done", "idle")
        run.prompt("two")
        assert run.state == "working"
        with pytest.raises(DrivingError, match="at work"):
            run.prompt("three")
        second = await run.turn_over()
        assert second.text == first.text.replace("one", "two")
        run.prompt("fail")
        assert (await run.turn_over()).outcome == "failed"
        await run.cancel(keep=False)
        assert (run.state, run.turns) == ("ended", 3)


async def test_a_turn_is_interrupted_and_the_session_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An interrupted turn ends as cancelled, and the next prompt is taken by the same process."""
    script = """
for turn in turns():
    say("text", text=turn["prompt"])
    if turn["prompt"] == "wait":
        assert json.loads(sys.stdin.readline()) == {"interrupt": True}
        end("interrupted", True)
    else:
        end()
"""
    use(monkeypatch, Conversant(script))
    async with stand(tmp_path) as there:
        run = await there.runs.start("x", "wait", None)
        while run.said != "wait":
            await anyio.lowlevel.checkpoint()
        await run.cancel(keep=True)
        assert (run.state, (await run.turn_over()).outcome) == ("idle", "cancelled")
        run.prompt("on")
        assert (await run.turn_over()).text == "on"


@pytest.mark.parametrize("takes_back", [True, False])
async def test_a_turn_is_interrupted_before_its_questions_end(takes_back: bool, tmp_path: Path) -> None:
    """An agent that heard first that its question is cancelled would go on with that; one that only waits is told then."""
    run = Run("s1", "x", "go", tmp_path)
    run._begin("go")
    did: list[str] = []

    class Told:
        def cancel(self) -> None:
            did.append("questions cancelled")
            run._turn_ended(TurnEnd("failed", "", "cancelled"))

        async def interrupt(self) -> None:
            did.append("interrupted")
            if takes_back:
                run._turn_ended(TurnEnd("failed", "", "cancelled"))

    run._session = run._runtime = Told()  # type: ignore[assignment]
    with anyio.fail_after(30):
        await run.cancel(keep=True)
    assert did == ["interrupted", "questions cancelled"]
    assert (await run.turn_over()).outcome == "cancelled"
    run.over("the end", cancelled=True)


async def test_a_runtime_that_dies_fails_its_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A process that ends in the middle of a turn ends the session, with what it said last as the reason."""
    use(monkeypatch, Conversant("next(turns()); print('out of luck', file=sys.stderr); sys.exit(3)"))
    async with stand(tmp_path) as there:
        run = await there.runs.start("x", "go", None)
        end = await run.turn_over()
        assert end.outcome == "failed"
        assert end.reason is not None
        assert end.reason.endswith("exit code 3; it said: out of luck")
        assert run.state == "ended"


async def test_an_agent_that_was_given_no_ask_tool_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A runtime that lists no ask tool works alone, and its session says so; one that has it does not."""
    script = "for turn in turns(): end()"
    use(monkeypatch, Conversant(script, ready="say('ready', tools=[])\n"))
    async with stand(tmp_path) as there:
        run = await there.runs.start("x", "go", None)
        await run.turn_over()
        assert run.cannot_ask == "its runtime was given no way to ask"
        use(monkeypatch, Conversant(script))
        other = await there.runs.start("x", "go", None)
        await other.turn_over()
        assert other.cannot_ask is None


async def test_what_cannot_be_started_is_the_starters_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An unknown runtime, a folder that is not there and a missing program are told to whoever starts; nothing is left of it."""
    async with stand(tmp_path, programs={"x": "/no/such/program"}) as there:
        with pytest.raises(DrivingError, match="no runtime 'y' here; there is: demo, x, acp"):
            await there.runs.start("y", "go", None)
        with pytest.raises(DrivingError, match=r"no folder .*gone"):
            await there.runs.start(DEMO, "go", "gone")
        use(monkeypatch, ScriptedRuntime(""))
        with pytest.raises(RuntimeUnavailableError, match="no program '/no/such/program'"):
            await there.runs.start("x", "go", None)
        use(monkeypatch, object())
        with pytest.raises(OpaskError, match="does not say how it is started"):
            await there.runs.start("x", "go", None)
        assert there.runs.sessions() == ()
        with pytest.raises(DrivingError, match="no session 'nope' here"):
            there.runs.session("nope")


async def test_a_session_works_in_the_folder_that_it_was_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A folder that is named is where the process runs."""
    (tmp_path / "inner").mkdir()
    use(monkeypatch, Conversant("next(turns()); say('text', text=os.getcwd()); end()"))
    async with stand(tmp_path) as there:
        run = await there.runs.start("x", "go", str(tmp_path / "inner"))
        assert (await run.turn_over()).text == str((tmp_path / "inner").resolve())


async def test_sessions_are_bounded_and_those_that_ended_are_forgotten_in_turn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No more than so many sessions are open at once, which names the idle ones; of ended ones the last are kept."""
    use(monkeypatch, Conversant("for turn in turns(): end()"))
    async with stand(tmp_path, most=2, kept=1) as there:
        first = await there.runs.start("x", "go", None)
        second = await there.runs.start("x", "go", None)
        await first.turn_over()
        await second.turn_over()
        with pytest.raises(DrivingError, match=rf"2 sessions are open.*{first.id}, {second.id}"):
            await there.runs.start("x", "go", None)
        await first.cancel(keep=False)
        third = await there.runs.start("x", "go", None)
        await second.cancel(keep=False)
        assert [run.id for run in there.runs.sessions()] == [second.id, third.id]


async def test_all_ends_with_the_block(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Leaving the block ends every process, and a question that waited is settled as cancelled by the host."""
    use(monkeypatch, Conversant("for turn in turns(): say('text', text=str(os.getpid())); time.sleep(60)"))
    async with stand(tmp_path) as there:
        silent = await there.runs.start("x", "go", None)
        asking = await there.runs.start(DEMO, "go", None)
        entry = await there.pending()
        while not silent.said:
            await anyio.lowlevel.checkpoint()
    assert not await anyio.Path(f"/proc/{silent.said}").exists()
    assert (silent.state, asking.state) == ("ended", "ended")
    assert (await asking.turn_over()).outcome == "cancelled"
    settled = await there.store.entry(entry.id)
    assert (settled.state, settled.by) == ("cancelled", "host")


async def test_a_question_waits_no_longer_than_it_may(tmp_path: Path) -> None:
    """Where nobody answers, the question times out and the agent goes on without."""
    async with stand(tmp_path, wait=timedelta(seconds=2)) as there:
        run = await there.runs.start(DEMO, "go", None)
        end = await run.turn_over()
        assert end.outcome == "done"
        assert "I got no answer" in end.text
        (entry,) = await there.store.entries()
        assert entry.state == "timed_out"


async def test_a_runtime_that_does_not_mind_is_killed_at_once_where_there_is_hurry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Hastened, a session whose runtime minds neither its input nor signals is over long before the polite way is."""
    script = """
signal.signal(signal.SIGINT, signal.SIG_IGN)
for turn in turns():
    say("text", text=str(os.getpid()))
    time.sleep(600)
"""
    use(monkeypatch, Conversant(script))
    minute = timedelta(minutes=1)
    patient = partial(start, bounds=Bounds(interrupt=minute, sigint=minute))
    monkeypatch.setattr(runs, "start", patient)
    async with stand(tmp_path) as there:
        run = await there.runs.start("x", "go", None)
        while not run.said:
            await anyio.lowlevel.checkpoint()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(run.cancel, keep=False))
            await anyio.lowlevel.checkpoint()
            there.runs.hasten()
            with anyio.fail_after(30):  # half of the first step of the polite way
                await run.turn_over()
        assert not await anyio.Path(f"/proc/{run.said}").exists()


def test_claude_is_started_for_several_prompts() -> None:
    """Claude's launch for a conversation takes prompt after prompt by messages, and keeps the user's own arguments."""
    argv = claude.conversation_argv("claude", ["--model", "x"])
    assert tuple(argv[-2:]) == ("--model", "x")
    talk = claude.conversation(claude.plan_launch(LaunchRequest(argv, {}), None))
    assert [len(talk.prompt(text)) for text in ("one", "two")] == [1, 1]


async def test_an_agent_behind_acp_is_driven_turn_by_turn(tmp_path: Path) -> None:
    """A server of ACP asks in each of two turns of one session, which is one process and one conversation."""
    asks = json.dumps({"ask": {"questions": [{"question": "Which?", "options": ["a", "b"]}]}})
    acts = [str(Path(__file__).parent.parent / "acp_agent.py"), json.dumps({"echo": True}), asks]
    async with stand(tmp_path, programs={"acp": sys.executable}, arguments={"acp": acts}) as there:
        run = await there.runs.start("acp", "one", None)
        for prompt in ("one", "two"):
            entry = await there.pending()
            await there.store.resolve(entry.id, Answered((Answer((1,)),), "test"))
            end = await run.turn_over()
            assert (end.outcome, run.state) == ("done", "idle")
            echoed, answered = json.loads(end.text)
            assert echoed[0] == prompt
            assert json.loads(answered) == {"answers": {"Which?": "b"}}
            if prompt == "one":
                run.prompt("two")
