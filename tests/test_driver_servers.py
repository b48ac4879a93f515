"""The driver with a runtime that is a server of its protocol: a handshake, requests both ways, no exit of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import anyio
import pytest

from driver_fakes import FakeSession, plan
from opask.driver import Bounds, run, start
from opask.events import Event, SessionReady, TextSaid, TurnEnded, TurnStarted
from opask.launch import LaunchPlan
from opask.permissions import Allow, Defer, PermissionRequested, Verdict

SECONDS = timedelta(seconds=60)  # far more than anything here takes
NOW = timedelta(seconds=0.05)


class Server(FakeSession):
    """A session of a protocol with a handshake: ``ready`` from the runtime makes it send the prompt that it kept."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.due = [{"hello": True}]
        self.kept: str | None = None

    def receive(self, message: str, /) -> list[Event]:
        if message == '{"type": "ready"}':
            if self.kept is not None:
                self.due.append({"prompt": self.kept})
            return []
        if message == '{"type": "unable"}':
            return self._saw(SessionReady(questions=False))
        return super().receive(message)

    def prompt(self, text: str, /) -> list[Mapping[str, Any]]:
        self.log.append(f"prompt {text}")
        self.kept = text
        return []


def server(script: str, **more: Any) -> LaunchPlan:
    """Give the plan of a runtime that serves."""
    return plan(script, serves=True, **more)


async def test_what_is_due_is_sent_first_and_after_every_line() -> None:
    """The handshake begins before the runtime says anything, and a prompt that was kept is sent when it can be."""
    session = Server()
    script = "assert hear() == {'hello': True}; say('ready'); say('text', text=hear()['prompt']); say('end')"
    result = await run(session, server(script), "go")
    assert (result.text, result.stop_reason, result.ok) == ("go", "done", True)


async def test_a_prompt_that_is_kept_leaves_the_input_open() -> None:
    """That there is nothing to send yet does not close the input of a server, as it does where the prompt is in the argv."""
    session = Server()
    script = "hear(); time.sleep(0.2); say('ready'); hear(); say('end'); sys.exit(sys.stdin.readline() != '')"
    assert (await run(session, server(script), "go", bounds=Bounds(interrupt=SECONDS))).exit_code == 0


@pytest.mark.parametrize("code", [0, 3])
async def test_the_exit_code_of_a_server_does_not_count(code: int) -> None:
    """A turn that ended well is a success, whatever the server exits with when its input ends."""
    script = f"hear(); say('ready'); hear(); say('end'); sys.stdin.read(); sys.exit({code})"
    result = await run(Server(), server(script), "go", bounds=Bounds(interrupt=SECONDS))
    assert (result.exit_code, result.exit_counts, result.ok) == (code, False, True)


async def test_a_server_that_does_not_mind_its_input_is_ended() -> None:
    """A server that goes on after its input ended is ended within the bounds, and the turn counts."""
    script = "hear(); say('ready'); hear(); say('end'); time.sleep(60)"
    with anyio.fail_after(30):
        result = await run(Server(), server(script), "go", bounds=Bounds(interrupt=NOW, sigint=SECONDS))
    assert result.ok
    assert result.exit_code != 0


async def test_a_server_without_a_turn_is_not_interrupted() -> None:
    """There is nothing to end where no turn runs: no signal is sent, and the server lives on."""
    session = Server()
    script = "hear(); say('ready'); say('text', text=hear()['prompt']); say('end'); sys.stdin.read()"
    async with start(session, server(script), bounds=Bounds(interrupt=SECONDS)) as runtime:
        await runtime.interrupt()
        await runtime.prompt("go")
        await runtime.turn_over()
        await runtime.interrupt()
        assert (await runtime.finish()).exit_code == 0


async def test_a_hold_ends_with_the_news_that_there_will_be_no_tool() -> None:
    """A first prompt that waits for the tool's list does not wait on once the runtime is known not to get it."""
    session = Server()
    script = "hear(); say('unable'); say('ready'); time.sleep(0.1); say('ready'); hear(); say('end')"
    with anyio.fail_after(30):
        await run(
            session, server(script, hold_prompt=True), "go", bounds=Bounds(listed=timedelta(seconds=60))
        )
    assert session.log[:2] == ["listed?", "prompt go"]


async def test_a_prompt_after_an_interrupt_waits_for_the_turn() -> None:
    """The next prompt goes to the session once the turn that was interrupted is over, and its end is its own."""
    session = Server(interrupts=True)
    script = (
        "hear(); say('ready'); hear(); say('turn'); assert hear() == {'interrupt': True}; say('end', reason='cut');"
        "say('ready'); hear(); say('end', reason='whole'); sys.stdin.read()"
    )
    async with start(session, server(script)) as runtime:
        await runtime.prompt("one")
        await session.until(TurnStarted)
        await runtime.interrupt()
        await runtime.prompt("two")
        turn = await runtime.turn_over()
        await runtime.finish()
    assert turn == TurnEnded(stop_reason="whole")
    assert session.log[:3] == ["prompt one", "interrupt", "prompt two"]


async def test_an_interrupt_answers_what_waits_for_the_policy() -> None:
    """A permission request that the host has not decided on is denied when its turn is interrupted, since a server waits."""
    session = Server(interrupts=True, verdict=Defer())
    asked = anyio.Event()

    async def policy(request: PermissionRequested) -> Verdict:
        asked.set()
        await anyio.sleep_forever()
        return Allow("never")

    script = (
        "hear(); say('ready'); hear(); say('permission', id='p1'); assert hear() == {'interrupt': True};"
        "assert hear() == {'id': 'p1', 'allowed': False}; say('end'); sys.stdin.read()"
    )
    async with start(session, server(script), policy=policy, bounds=Bounds(interrupt=SECONDS)) as runtime:
        await runtime.prompt("go")
        await asked.wait()
        await runtime.interrupt()
        with anyio.fail_after(30):
            await runtime.turn_over()
        assert (await runtime.finish()).exit_code == 0
    ((request_id, verdict, by),) = session.decided
    assert (request_id, verdict.kind, by) == ("p1", "deny", "opask")


async def test_ending_a_server_closes_its_input_politely() -> None:
    """Left in the handshake, a server sees the end of its input and may exit by itself: no signal hurries it."""
    session = Server()
    script = "hear(); say('text', text='x'); sys.stdin.read(); time.sleep(0.2); sys.exit(7)"
    async with start(session, server(script), bounds=Bounds(interrupt=SECONDS)) as runtime:
        await runtime.prompt("go")
        await session.until(TextSaid)
    assert (await runtime.wait()).exit_code == 7


async def test_the_plan_says_where_to_run(tmp_path: Any) -> None:
    """A plan's folder is where the runtime runs, unless the host names another."""
    script = "hear(); say('text', text=os.getcwd()); say('ready'); hear(); say('text', text=os.getcwd()); say('end')"
    assert (await run(Server(), server(script, cwd=tmp_path), "go")).text.endswith(str(tmp_path))
    assert (await run(Server(), server(script, cwd=tmp_path), "go", cwd=sys.prefix)).text.endswith(sys.prefix)
