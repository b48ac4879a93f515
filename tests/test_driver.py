from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from attrs import evolve

from driver_fakes import FakeSession, plan
from opask.bridge import Session
from opask.driver import Bounds, DrivenSession, Policy, RunResult, run, start
from opask.errors import LaunchError, RuntimeUnavailableError
from opask.events import MessageUnreadable, TextSaid, TurnEnded, TurnStarted
from opask.launch import LaunchPlan
from opask.permissions import Allow, Defer, Deny, PermissionRequested, Verdict
from quickness import tries

linux = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells of processes that are not one's own"
)
NOW = timedelta(seconds=0.05)
SECONDS = timedelta(seconds=60)  # far more than anything here takes


def held(session: Session) -> DrivenSession:
    """Hold, for the type checker, that the bridge's session is one that the driver can drive."""
    return session


def texts(session: FakeSession) -> list[str]:
    """Give what the agent said."""
    return [event.text for event in session.events if isinstance(event, TextSaid)]


def descriptors() -> list[Path]:
    """Give this process's open file descriptors."""
    return sorted(Path("/dev/fd").iterdir())


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    """Hold that a test leaves no file descriptor of this process open."""
    await anyio.lowlevel.checkpoint()  # the loop's own descriptors are there
    before = set(descriptors())
    yield
    assert set(descriptors()) <= before  # what tests before left to the collector may go meanwhile


# -- a run -------------------------------------------------------------------------------------------------------


async def test_a_prompt_in_the_argv_closes_the_input() -> None:
    """Where the session has nothing to send, the runtime sees the end of its input at once."""
    session = FakeSession(prompts=False)
    result = await run(
        session, plan("say('turn'); say('text', text=repr(sys.stdin.read())); say('end')"), "go"
    )
    assert result == RunResult(exit_code=0, stop_reason="done", is_error=False, text="''", stderr="")
    assert result.ok
    assert session.log == ["prompt go", "end_turn exited"]


async def test_a_prompt_by_message_keeps_the_input_open_until_the_turn_is_over() -> None:
    """The runtime is sent the prompt; once its turn is over its input ends, and it exits by itself."""
    session = FakeSession()
    script = "say('turn'); say('text', text=hear()['prompt']); say('end', reason='fine'); sys.exit(len(sys.stdin.read()))"
    result = await run(session, plan(script), "Größe \ud800 \u2028")
    assert (result.exit_code, result.stop_reason, result.text) == (0, "fine", "Größe \ud800 \u2028")


async def test_a_conversation_of_two_turns() -> None:
    """One process takes one prompt after the other, and each turn's end is told."""
    session = FakeSession()
    script = "for line in sys.stdin: say('turn'); say('text', text=json.loads(line)['prompt']); say('end', reason=line[2:8])"
    async with start(session, plan(script)) as runtime:
        for prompt in ("one", "two"):
            await runtime.prompt(prompt)
            turn = await runtime.turn_over()
            assert turn is not None
            assert turn.stop_reason == "prompt"
        runtime.close_input()
        assert (await runtime.wait()).text == "two"
    assert texts(session) == ["one", "two"]


async def test_the_text_is_what_was_said_after_the_last_tool_call() -> None:
    """A result's text leaves out what came before the last tool call, and what a sub-agent said."""
    script = (
        "say('turn'); say('text', text='before'); say('tool'); say('text', text='af');"
        "say('text', text='not mine', agent='sub'); say('text', text='ter'); say('end')"
    )
    assert (await run(FakeSession(prompts=False), plan(script), "go")).text == "after"


async def test_the_runtime_gets_folder_and_environment(tmp_path: Path) -> None:
    """Working directory and environment are the plan's; there is no terminal, and the guard is its parent."""
    script = (
        "say('text', text='%s %s %s' % (os.getcwd(), sorted(k for k in os.environ if k != 'LC_CTYPE'),"
        "os.getsid(0) == os.getppid())); say('end')"
    )
    result = await run(FakeSession(prompts=False), plan(script, env={"X": "1"}), "go", cwd=tmp_path)
    assert result.text == f"{tmp_path} ['PATH', 'X'] True"


async def test_a_turn_that_failed_is_told() -> None:
    """A turn that ends in an error is a result that is not ok, whatever the exit code."""
    result = await run(FakeSession(prompts=False), plan("say('end', reason='failed', error=True)"), "go")
    assert (result.exit_code, result.stop_reason, result.is_error, result.ok) == (0, "failed", True, False)


async def test_every_line_is_seen_as_it_was() -> None:
    """A tee sees what crossed the runtime's stdio, both ways and in order."""
    lines: list[tuple[str, str]] = []
    script = "hear(); print('garbage  '); say('end')"
    await run(FakeSession(), plan(script), "go", tee=lambda source, line: lines.append((source, line)))
    assert lines == [("host", '{"prompt":"go"}'), ("runtime", "garbage  "), ("runtime", '{"type": "end"}')]


# -- runtimes that misbehave -------------------------------------------------------------------------------------


async def test_garbage_is_passed_over() -> None:
    """Lines that are no JSON, no UTF-8 or blank do not keep what follows from being heard."""
    session = FakeSession(prompts=False)
    script = (
        'os.write(1, b\'\\x00\\xff\\xfe garbage\\n\\n   \\r\\n{"type": "text", "text": "\\xe9"}\\r\\n{]\\n\');'
        "say('end')"
    )
    assert (await run(session, plan(script), "go")).ok
    assert [type(event) for event in session.events] == [
        MessageUnreadable,
        TextSaid,
        MessageUnreadable,
        TurnEnded,
    ]
    assert texts(session) == ["\N{REPLACEMENT CHARACTER}"]


async def test_a_line_without_end_is_unreadable() -> None:
    """A line beyond the bound is passed over as unreadable and not kept; the next one is heard."""
    session = FakeSession(prompts=False)
    script = "sys.stdout.write('[1,' * 2_000_000 + '\\n'); say('text', text='x' * 900); say('end')"
    assert (await run(session, plan(script), "go", bounds=Bounds(line=1000))).ok
    assert [event for event in session.events if isinstance(event, MessageUnreadable)] == [
        MessageUnreadable(reason="(a line of more than 1000 bytes, passed over)")
    ]
    assert texts(session) == ["x" * 900]


async def test_a_long_line_is_heard_whole() -> None:
    """A message of some megabytes, as one with a picture is, arrives as it was."""
    session = FakeSession(prompts=False)
    assert (await run(session, plan("say('text', text='x' * 5_000_000); say('end')"), "go")).ok
    assert [len(text) for text in texts(session)] == [5_000_000]


async def test_a_host_that_cannot_keep_up_holds_the_runtime_back() -> None:
    """No more is read until the host wants it; a runtime that is to end is not held."""
    script = "say('turn')\nwhile True: say('text', text='x' * 1000)"
    session = FakeSession()
    asked = anyio.Event()

    async def pace() -> None:
        asked.set()
        await anyio.sleep_forever()

    async with start(session, plan(script), pace=pace, bounds=Bounds(interrupt=NOW, sigint=NOW)):
        await asked.wait()
        seen = len(session.events)
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
        assert len(session.events) == seen
    assert len(session.events) > seen


async def test_what_an_exited_runtime_has_said_is_heard_at_any_pace() -> None:
    """A host that is held up loses nothing of a runtime that is done meanwhile."""
    # All of it fits into the pipe, so that the runtime can exit before it is heard.
    script = "say('turn')\nfor n in range(100): say('text', text=str(n) + ' ' * 400)\nsay('end')"
    session = FakeSession(prompts=False)
    result = await run(session, plan(script), "go", pace=anyio.sleep_forever)
    assert result.ok
    assert len(texts(session)) == 100


async def test_a_last_line_without_newline_is_heard() -> None:
    """The end of the output ends the last line."""
    assert (await run(FakeSession(prompts=False), plan('sys.stdout.write(\'{"type": "end"}\')'), "go")).ok


async def test_a_runtime_that_exits_at_once() -> None:
    """A runtime that says nothing gives its exit code and its stderr; its turn ended with it."""
    session = FakeSession()
    result = await run(session, plan("sys.exit('no key \\x1b[31m')"), "go")
    assert result == RunResult(
        exit_code=1, stop_reason="exited", is_error=True, text="", stderr="no key ␛[31m"
    )
    assert result.signal is None
    assert session.log[-1] == "end_turn exited"


async def test_a_runtime_that_is_killed() -> None:
    """A runtime that a signal ended names it."""
    result = await run(FakeSession(), plan("os.kill(os.getpid(), signal.SIGKILL)"), "go")
    assert (result.signal, result.exit_code, result.ok) == (signal.SIGKILL, 137, False)


async def test_much_on_stderr_does_not_block() -> None:
    """A runtime may write to stderr what it likes; the end of it is kept."""
    script = "sys.stderr.write('x' * 3_000_000 + ' the end'); sys.stderr.flush(); say('end')"
    result = await run(FakeSession(prompts=False), plan(script), "go", bounds=Bounds(stderr=20))
    assert result.stderr == "x" * 12 + " the end"
    assert result.ok


async def test_a_runtime_that_does_not_read_does_not_block_the_session() -> None:
    """What it says is heard while what was sent to it waits in the pipe."""
    session = FakeSession()
    script = "say('text', text='heard'); sys.stdin.close(); os.close(0); say('end')"
    assert (await run(session, plan(script), "x" * 1_000_000)).exit_code == 0
    assert texts(session) == ["heard"]


async def test_a_runtime_that_closes_its_output_is_ended() -> None:
    """Without stdout it can neither ask nor say that it is done: it is ended, and nothing counts as done."""
    session = FakeSession(interrupts=True)
    script = "try: say('turn'); os.close(1); time.sleep(60)\nexcept KeyboardInterrupt: os._exit(9)"
    result = await run(session, plan(script), "go", bounds=Bounds(silence=NOW, sigint=SECONDS))
    assert (result.exit_code, result.stop_reason, result.is_error) == (9, "exited", True)
    assert "cancel" not in session.log


async def test_a_runtime_that_stays_when_its_turn_is_over() -> None:
    """It may stay as long as the host allows, and is ended then; its turn stands."""
    session = FakeSession(prompts=False)
    script = "try: say('end'); time.sleep(60)\nexcept KeyboardInterrupt: os._exit(0)"
    result = await run(session, plan(script), "go", bounds=Bounds(linger=NOW, interrupt=NOW, sigint=SECONDS))
    assert result.ok
    assert "interrupt" not in session.log


async def test_what_comes_after_the_turn_is_heard() -> None:
    """A sub-agent that outlives its turn is heard until the runtime exits."""
    session = FakeSession()
    assert (
        await run(session, plan("say('end'); sys.stdin.read(); say('text', text='late', agent='sub')"), "go")
    ).ok
    assert texts(session) == ["late"]


# -- the end by the host -----------------------------------------------------------------------------------------


async def cancelled(session: FakeSession, script: str, **bounds: Any) -> RunResult:
    """Cancel a run once the runtime said ``turn``; give how it ended."""
    result = None
    with anyio.CancelScope() as scope:
        async with start(session, plan(script), bounds=Bounds(**bounds)) as runtime:
            try:
                await runtime.prompt("go")
                await session.until(TurnStarted)
                scope.cancel()
                await runtime.wait()
            finally:
                with anyio.CancelScope(shield=True):
                    await runtime.end()
                    result = await runtime.wait()
    assert scope.cancelled_caught
    assert result is not None
    return result


async def test_a_cancelled_run_is_interrupted_in_the_protocol() -> None:
    """What is asked is cancelled; the interrupt ends the turn, the end of input the process: no signal is sent."""
    session = FakeSession(interrupts=True)
    script = (
        "signal.signal(signal.SIGINT, lambda *_: os._exit(9))\n"
        "hear(); say('turn'); assert hear() == {'interrupt': True}; say('end', reason='interrupted'); sys.stdin.read()"
    )
    result = await cancelled(session, script, interrupt=SECONDS)
    assert (result.exit_code, result.stop_reason, result.stderr) == (0, "interrupted", "")
    assert session.log == ["prompt go", "interrupt", "cancel", "end_turn exited"]


async def test_a_cancelled_run_without_interrupt_is_ended_by_sigint() -> None:
    """A protocol without an interrupt has SIGINT, at once."""
    session = FakeSession(prompts=False)
    script = (
        "try: say('turn'); time.sleep(60)\nexcept KeyboardInterrupt: say('end', reason='sigint'); os._exit(0)"
    )
    result = await cancelled(session, script, interrupt=SECONDS, sigint=SECONDS)
    assert (result.exit_code, result.stop_reason) == (0, "sigint")


async def test_a_runtime_deaf_to_all_is_killed() -> None:
    """Interrupt, end of input, SIGINT and SIGTERM ignored: then SIGKILL, in the time that the bounds give."""
    script = (
        "for n in (signal.SIGINT, signal.SIGHUP): signal.signal(n, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGTERM, lambda *_: say('text', text='term'))\n"
        "say('turn')\nwhile True: time.sleep(60)"
    )
    for timed in tries(3.0):  # which is the bound of one of the steps, unless it is told otherwise
        session = FakeSession(interrupts=True)
        with timed:
            result = await cancelled(session, script, interrupt=NOW, sigint=NOW)
        assert result.signal == signal.SIGKILL
        assert texts(session) == ["term"]


async def test_a_run_can_be_cancelled() -> None:
    """Cancelling `run` ends the runtime before the cancellation goes on."""
    session = FakeSession()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, session, plan("say('turn'); time.sleep(60)"), "go")
            await session.until(TurnStarted)
            scope.cancel()
    assert session.log == ["prompt go", "interrupt", "cancel", "end_turn exited"]


async def test_leaving_the_block_ends_the_runtime() -> None:
    """A runtime does not outlive its block, and an error in the block is raised as itself."""
    session = FakeSession()
    results = []

    async def fail() -> None:
        script = "say('turn'); sys.stdin.read(); time.sleep(60)"
        async with start(session, plan(script), bounds=Bounds(interrupt=NOW, sigint=SECONDS)) as runtime:
            results.append(runtime.wait)
            await session.until(TurnStarted)
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await fail()
    assert (await results[0]()).signal == signal.SIGINT


async def test_a_host_can_interrupt_by_message() -> None:
    """An interrupt ends the turn, and the process takes the next prompt."""
    session = FakeSession(interrupts=True)
    script = "hear(); say('turn'); hear(); say('end', reason='interrupted'); hear(); say('end')"
    async with start(session, plan(script)) as runtime:
        await runtime.prompt("one")
        await session.until(TurnStarted)
        await runtime.interrupt()
        turn = await runtime.turn_over()
        assert turn is not None
        assert turn.stop_reason == "interrupted"
        await runtime.prompt("two")
        assert (await runtime.wait()).ok


async def test_a_host_can_interrupt_by_signal() -> None:
    """Without a message for it, an interrupt is SIGINT to the runtime."""
    session = FakeSession(prompts=False)
    script = "try: say('turn'); time.sleep(60)\nexcept KeyboardInterrupt: say('end', reason='sigint')"
    async with start(session, plan(script)) as runtime:
        await session.until(TurnStarted)
        await runtime.interrupt()
        assert (await runtime.wait()).stop_reason == "sigint"


async def test_kill_does_not_wait() -> None:
    """A host that has no time ends a deaf runtime in about a second."""
    script = "for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\nsay('turn')\nwhile True: time.sleep(60)"
    for timed in tries(3.0):
        session = FakeSession()
        async with start(session, plan(script), bounds=Bounds(interrupt=SECONDS, sigint=SECONDS)) as runtime:
            await session.until(TurnStarted)
            with timed:
                runtime.kill()
                assert (await runtime.wait()).signal == signal.SIGKILL


@linux
async def test_what_holds_the_output_open_does_not_hold_the_result() -> None:
    """A daemon that the runtime left, with its pipes, is ended with it."""
    script = "if os.fork() == 0: os.setsid(); time.sleep(60)\nsay('end'); os._exit(0)"
    with anyio.fail_after(0.5 * SECONDS.total_seconds()):
        assert (await run(FakeSession(prompts=False), plan(script), "go", bounds=Bounds(silence=SECONDS))).ok


@linux
async def test_a_killed_guard_takes_the_runtime_along() -> None:
    """Where the guard can end nothing any more, the driver ends what is deaf, and what that started."""
    session = FakeSession()
    script = (
        "for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n"
        "child = os.fork()\n"
        "if child: say('text', text=f'{os.getpid()} {child}')\n"
        "while True: time.sleep(60)"
    )
    async with start(session, plan(script)) as runtime:
        await session.until(TextSaid)
        handles = [os.pidfd_open(int(pid)) for pid in texts(session)[0].split()]
        os.kill(runtime.pid, signal.SIGKILL)
        with anyio.fail_after(30):
            assert (await runtime.wait()).signal == signal.SIGKILL
            for handle in handles:
                await anyio.wait_readable(handle)
                os.close(handle)


HOST = """
import sys, anyio
sys.path.insert(0, {path!r})
from driver_fakes import FakeSession, plan
from opask.driver import start
from opask.events import TextSaid
from pathlib import Path

async def main():
    session = FakeSession(folders=[Path({folder!r})])
    script = "signal.signal(signal.SIGTERM, signal.SIG_IGN); say('text', text=str(os.getpid())); time.sleep(60)"
    async with start(session, plan(script)) as runtime:
        await session.until(TextSaid)
        print(f"{{runtime.pid}} {{session.events[0].text}}", flush=True)
        await runtime.wait()

anyio.run(main, backend={backend!r})
"""


@linux
async def test_a_killed_host_leaves_nothing(tmp_path: Path, anyio_backend_name: str) -> None:
    """When the host is killed, a runtime that is deaf to SIGTERM and its folders are gone within two seconds."""
    folder = tmp_path / "session"
    host = HOST.format(path=str(Path(__file__).parent), folder=str(folder), backend=anyio_backend_name)
    for timed in tries(2.0):
        folder.mkdir()
        async with await anyio.open_process([sys.executable, "-c", host], stderr=None) as process:
            assert process.stdout is not None
            pids = (await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 100)).split()
            handles = [os.pidfd_open(int(pid)) for pid in pids]
            with timed, anyio.fail_after(30):
                process.kill()
                for handle in handles:
                    await anyio.wait_readable(handle)
                    os.close(handle)
        assert len(handles) == 2
        assert not folder.exists()


# -- permissions -------------------------------------------------------------------------------------------------

ASKS = "say('permission', id='1'); say('text', text=str(hear())); say('end')"


@pytest.mark.parametrize(
    ("verdict", "allowed"), [(Allow("supplied"), True), (Deny("native"), False), (Defer(), False)]
)
async def test_a_permission_request_is_answered(verdict: Verdict, allowed: bool) -> None:
    """The session's verdict is sent to the runtime; what it defers is denied where the host has no policy."""
    session = FakeSession(prompts=True, verdict=verdict)
    result = await run(session, plan("hear();" + ASKS), "go")
    assert result.text == f"{{'id': '1', 'allowed': {allowed}}}"
    assert session.decided == []


async def asynchronous(request: PermissionRequested) -> Verdict:
    """Allow."""
    return Allow("host")


def plain(request: PermissionRequested) -> Verdict:
    """Allow, in a thread."""
    assert threading.current_thread() is not threading.main_thread()
    return Allow("host")


def fails(request: PermissionRequested) -> Verdict:
    """Fail."""
    raise ValueError("broken")


async def undecided(request: PermissionRequested) -> Verdict:
    """Decide nothing."""
    return Defer()


@pytest.mark.parametrize(
    ("policy", "verdict"),
    [
        (asynchronous, Allow("host")),
        (plain, Allow("host")),
        (lambda request: asynchronous(request), Allow("host")),
        (fails, Deny("This could not be decided on, so it is denied.", rule="policy failed")),
        (undecided, Deny("Nobody decided on this, so it is denied.", rule="no decision")),
    ],
)
async def test_what_is_deferred_is_the_hosts(policy: Policy, verdict: Allow | Deny) -> None:
    """A policy decides what opask has no opinion on; one that fails or does not decide denies."""
    session = FakeSession()
    result = await run(session, plan("hear();" + ASKS), "go", policy=policy)
    assert result.text == f"{{'id': '1', 'allowed': {isinstance(verdict, Allow)}}}"
    assert session.decided == [("1", verdict, "host")]


async def test_a_policy_is_not_asked_about_what_is_decided() -> None:
    """A host's policy cannot allow what opask denies."""
    session = FakeSession(verdict=Deny("never"))
    result = await run(session, plan("hear();" + ASKS), "go", policy=asynchronous)
    assert "False" in result.text


async def test_a_policy_that_takes_its_time_holds_nothing_up() -> None:
    """The runtime is heard while the host decides; more requests than the bound are denied meanwhile."""
    session = FakeSession()
    decide = anyio.Event()

    async def slow(request: PermissionRequested) -> Verdict:
        await decide.wait()
        return Allow("late")

    script = (
        "hear(); say('permission', id='1'); say('permission', id='2'); say('text', text=str(hear()));"
        "say('text', text=str(hear())); say('end')"
    )
    async with start(session, plan(script), policy=slow, bounds=Bounds(permissions=1)) as runtime:
        await runtime.prompt("go")
        await session.until(TextSaid)
        assert texts(session) == ["{'id': '2', 'allowed': False}"]
        decide.set()
        await runtime.wait()
    assert texts(session)[1:] == ["{'id': '1', 'allowed': True}"]
    assert [(request, by) for request, _, by in session.decided] == [("2", "opask"), ("1", "host")]


async def test_a_policy_that_still_decides_when_the_runtime_is_gone_is_cancelled() -> None:
    """A decision that nobody waits for is not waited for."""
    session = FakeSession()
    told = anyio.Event()

    async def never(request: PermissionRequested) -> Verdict:
        try:
            await anyio.sleep_forever()
        finally:
            told.set()
        raise AssertionError

    assert (await run(session, plan("say('permission', id='1'); say('end')"), "go", policy=never)).ok
    assert told.is_set()
    assert session.decided == []


# -- the first prompt --------------------------------------------------------------------------------------------


async def test_the_first_prompt_waits_for_the_tool() -> None:
    """Where the plan says so, nothing is sent before the runtime has listed the tool, and only the first waits."""
    session = FakeSession()
    script = "say('turn'); hear(); say('end'); hear(); say('end')"
    async with start(session, plan(script, hold_prompt=True)) as runtime, anyio.create_task_group() as tasks:
        tasks.start_soon(runtime.prompt, "one")
        await session.until(TurnStarted)
        assert session.log == ["listed?"]
        session.is_listed.set()
        await session.until(TurnEnded)
        await runtime.prompt("two")
        assert (await runtime.wait()).ok
    assert session.log == ["listed?", "prompt one", "prompt two", "end_turn exited"]


async def test_a_tool_that_is_never_listed_does_not_hold_the_prompt_for_ever() -> None:
    """When the wait for the tool is over the prompt is sent all the same: the agent goes on without."""
    session = FakeSession()
    assert (
        await run(session, plan("hear(); say('end')", hold_prompt=True), "go", bounds=Bounds(listed=NOW))
    ).ok


async def test_a_runtime_that_exits_before_it_lists_the_tool() -> None:
    """The wait for the tool ends with the runtime."""
    result = await run(
        FakeSession(), plan("sys.exit(3)", hold_prompt=True), "go", bounds=Bounds(listed=SECONDS)
    )
    assert result.exit_code == 3


# -- faults ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", ["there-is-no-such-program", "./no-such-program"])
async def test_a_missing_program_is_named(program: str) -> None:
    """A runtime that is not installed is an error that names it and says what to do."""
    session = FakeSession()
    with pytest.raises(RuntimeUnavailableError, match=f"fake: there is no program '{program}'.*install it"):
        await run(session, evolve(plan(""), argv=(program,)), "go")
    assert session.log == []


async def test_what_is_no_program_is_told_from_what_is_missing(tmp_path: Path) -> None:
    """A file that is there and cannot be run is an error that says so, and so is a folder."""
    (tmp_path / "notes.txt").touch(mode=0o600)
    for name in ("notes.txt", "."):
        with pytest.raises(
            RuntimeUnavailableError, match=r"fake: '\./.+' cannot be run by this user; give the path"
        ):
            await run(FakeSession(), evolve(plan(""), argv=(f"./{name}",)), "go", cwd=tmp_path)


async def test_a_program_is_looked_up_where_it_will_run(tmp_path: Path) -> None:
    """A relative path is relative to the runtime's folder, a name is on the PATH of its environment."""
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\necho \'{"type": "end"}\'\n', encoding="utf-8")
    program.chmod(0o700)
    there = evolve(plan(""), argv=("./program",))
    assert (await run(FakeSession(prompts=False), there, "go", cwd=tmp_path)).ok
    there = LaunchPlan(argv=("program",), env={"PATH": str(tmp_path)})
    assert (await run(FakeSession(prompts=False), there, "go")).ok


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """A working directory that is not there is an error that names it."""
    with pytest.raises(RuntimeUnavailableError, match=r"cannot be started: .*/nowhere.*is the folder there"):
        await run(FakeSession(), plan(""), "go", cwd=tmp_path / "nowhere")


async def test_a_launch_that_is_too_long_is_told() -> None:
    """What the system refuses for its length is named as that."""
    long = evolve(plan(""), argv=(sys.executable, "-c", "pass", "x" * 4_000_000))
    with pytest.raises(RuntimeUnavailableError, match="too long for this system; give it a shorter prompt"):
        await run(FakeSession(), long, "go")


async def test_a_prompt_that_is_not_taken_ends_the_runtime() -> None:
    """An error of the session's reaches the host as itself, and the runtime does not stay."""

    class Refuses(FakeSession):
        def prompt(self, text: str, /) -> list[Mapping[str, Any]]:
            raise LaunchError("no prompt", runtime="fake", what="prompt")

    session = Refuses()
    with pytest.raises(LaunchError, match="no prompt"):
        await run(session, plan("sys.stdin.read()"), "go", bounds=Bounds(interrupt=NOW))
    assert session.log[-1] == "end_turn exited"


@pytest.mark.parametrize("broken", ["runtime", "host"])
async def test_a_fault_of_the_host_reaches_it(broken: str) -> None:
    """A tee that fails ends the run, and its error reaches the host as itself."""

    def tee(source: str, line: str) -> None:
        if source == broken:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await run(FakeSession(), plan("hear(); say('turn'); time.sleep(60)"), "go", tee=tee)
