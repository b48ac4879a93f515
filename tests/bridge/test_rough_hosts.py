"""Hosts that do what they must not: the bridge holds, and their other sessions never feel it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from bridge_peers import ONE, Held, PlainAdapter, attach, attach_sync, socket_of
from opask import Answer, Answered, Ask, LaunchRequest, Outcome, Reply, Unavailable
from opask.bridge import Bridge
from opask.errors import BridgeError
from opask.events import Event
from opask.testing import Agent, Scripted

ANSWERED = Answered((Answer((0,)),), "test")


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder of this test's own, with a path short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="o", dir="/tmp") as name:
        yield Path(name)


class Rough(Held):
    """A prompter that raises where it is told to."""

    def __init__(self, where: str, error: BaseException) -> None:
        super().__init__()
        self.where = where
        self.error = error

    def _reach(self, where: str) -> None:
        if where == self.where:
            raise self.error

    async def ask(self, ask: Ask, /) -> Reply:
        self._reach("ask")
        return ANSWERED

    def settled(self, ask: Ask, outcome: Outcome, /) -> None:
        super().settled(ask, outcome)
        self._reach("settled")

    def available(self, session_id: str, /) -> bool:
        self._reach("available")
        return True


class RoughPlain(Rough):
    """The same, with a plain function to ask by."""

    def ask(self, ask: Ask, /) -> Reply:  # type: ignore[override]
        self._reach("plain ask")
        return ANSWERED


class Own(BaseException):
    """An error that is no Exception."""


@pytest.mark.parametrize(
    ("where", "error"),
    [
        *((where, error) for where in ("ask", "plain ask", "settled", "available") for error in (Own(),)),
        *((where, asyncio.CancelledError()) for where in ("ask", "plain ask", "settled", "available")),
        ("plain ask", SystemExit(3)),
        ("plain ask", KeyboardInterrupt()),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_no_error_of_a_prompter_reaches_another_session(
    where: str, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it raises is logged; its ask settles, and a question that waits elsewhere goes on to wait."""
    held = Held()
    rough = (RoughPlain if where == "plain ask" else Rough)(where, error)
    async with Bridge() as bridge:
        waiting = await attach(bridge, "waiting", PlainAdapter(), held)
        call = waiting.call(ONE, {})
        ask = await held.next()
        session = await attach(bridge, "rough", PlainAdapter(), rough)
        result = await Agent(session).ask(ONE)
        (outcome,) = await rough.outcome()
        assert result.is_error == isinstance(outcome, Unavailable) == (where != "settled")
        held.reply(ask)
        assert not (await anyio.to_thread.run_sync(call.result)).is_error
        assert await held.outcome() == [ANSWERED]
        assert held.cancelled == 0
    assert "failed" in caplog.text


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), SystemExit(3), KeyboardInterrupt(), Own()], ids=repr
)
def test_no_error_ends_the_loop_of_a_host_without_one(error: BaseException) -> None:
    """Prompters and listeners that raise in threads of the bridge's own end nothing."""

    def listener(event: Event) -> None:
        raise error

    with Bridge() as bridge:
        rough = attach_sync(bridge, "rough", PlainAdapter(), Rough("ask", error))
        assert Agent(rough).ask_sync(ONE).is_error
        heard = attach_sync(bridge, "heard", PlainAdapter(), Scripted({"Which?": "a"}))
        heard.subscribe(listener)
        for _ in range(2):
            assert not Agent(heard).ask_sync(ONE).is_error


async def test_a_plain_function_may_run_a_loop_of_its_own() -> None:
    """Nothing on its thread says that the host's loop would run there."""

    class Looping(Held):
        def ask(self, ask: Ask, /) -> Reply:  # type: ignore[override]
            anyio.run(anyio.sleep, 0)
            return ANSWERED

    async with Bridge() as bridge:
        session = await attach(bridge, "s", PlainAdapter(), Looping())
        assert not (await Agent(session).ask(ONE)).is_error


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_prompter_that_blocks_for_ever_does_not_keep_the_process(backend: str) -> None:
    """The host ends its bridge and itself; the thread that waits for its operator goes along."""
    script = """
import sys, threading
import anyio
from bridge_peers import ONE, PlainAdapter
from opask.bridge import Bridge

class Blocking:
    def ask(self, ask): asked.set(); threading.Event().wait()
    def settled(self, ask, outcome): print(outcome.kind, flush=True)
    def available(self, session_id): return True

async def main():
    async with Bridge() as bridge:
        session = await bridge.attach("s", PlainAdapter(), Blocking())
        session.call(ONE, {})
        await anyio.to_thread.run_sync(asked.wait)

asked = threading.Event()
anyio.run(main, backend=sys.argv[1])
"""
    assert _run(script, backend) == "cancelled\n"


def test_a_fork_of_the_host_leaves_the_bridge_alone(base: Path) -> None:
    """A child that exits by itself ends, and takes nothing of its parent's along; what it asks is refused."""
    script = """
import os, pathlib, sys
from bridge_peers import ONE, PlainAdapter, socket_of
from opask.bridge import Bridge
from opask.errors import BridgeError
from opask.testing import Agent, Scripted

with Bridge(folder=pathlib.Path(sys.argv[1])) as bridge:
    session = bridge.attach_sync("s", PlainAdapter(), Scripted({"Which?": "a"}), allow_unverified=True)
    path = socket_of(session)
    child = os.fork()
    if not child:
        try:
            Agent(session).ask_sync(ONE)
        except BridgeError:
            sys.exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), path.exists())
    print(Agent(session).ask_sync(ONE).text)
"""
    assert _run(script, str(base)) == '7 True\n{"answers": {"Which?": "a"}}\n'


def test_a_bridge_that_was_made_before_a_fork_opens_in_the_child(base: Path) -> None:
    """What counts is the process that it was opened in, as with servers that fork their workers."""
    script = """
import os, pathlib, sys
from bridge_peers import ONE, PlainAdapter
from opask.bridge import Bridge
from opask.testing import Agent, Scripted

bridge = Bridge(folder=pathlib.Path(sys.argv[1]))
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
with bridge:
    session = bridge.attach_sync("s", PlainAdapter(), Scripted({"Which?": "a"}))
    print(Agent(session).ask_sync(ONE).text, flush=True)
print(list(pathlib.Path(sys.argv[1]).iterdir()))
"""
    assert _run(script, str(base)) == '{"answers": {"Which?": "a"}}\n[]\n'


def test_threads_that_ask_while_the_bridge_closes_are_told() -> None:
    """Nobody is left waiting for a call that came in between."""

    def ask() -> None:
        try:
            while True:
                Agent(session).ask_sync(ONE)
                asking.set()
        except BridgeError:
            pass

    for _ in range(10):
        asking = threading.Event()
        with Bridge() as bridge:
            session = attach_sync(bridge, "s", PlainAdapter(), Scripted({"Which?": "a"}))
            threads = [threading.Thread(target=ask, daemon=True) for _ in range(3)]
            for thread in threads:
                thread.start()
            assert asking.wait(30)
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()


@pytest.mark.parametrize("through", ["ask", "receive"])
async def test_a_listener_may_close_its_session(through: str) -> None:
    """Called by the bridge or by the host, it only begins what it could not wait for; other sessions go on."""
    held = Held()
    async with Bridge() as bridge:
        session = await attach(bridge, "s", PlainAdapter(), held)
        session.plan_launch(LaunchRequest(["runtime"]))
        if through == "receive":
            session.call(ONE, {})
            await held.next()
        session.subscribe(lambda event: session.close())
        if through == "receive":
            session.receive("end")
        else:
            session.call(ONE, {})
        assert len(await held.outcome()) == 1
        other = await attach(bridge, "other", PlainAdapter(), Scripted({"Which?": "a"}))
        assert not (await Agent(other).ask(ONE)).is_error


def test_a_listener_that_would_wait_for_the_bridge_is_told() -> None:
    """What can only be waited for raises there, in place of waiting for ever."""
    told: list[BaseException] = []

    def listener(event: Event) -> None:
        waits: tuple[Callable[[], object], ...] = (
            lambda: Agent(other).ask_sync(ONE),
            lambda: attach_sync(bridge, "third", PlainAdapter()),
            lambda: other.listed_sync(timedelta(hours=1)),
            lambda: bridge.__exit__(None, None, None),
        )
        for wait in waits:
            with pytest.raises(BridgeError, match="another thread") as raised:
                wait()
            told.append(raised.value)

    with Bridge() as bridge:
        other = attach_sync(bridge, "other", PlainAdapter(), Held())
        session = attach_sync(bridge, "s", PlainAdapter(), Scripted({"Which?": "a"}))
        end = session.subscribe(listener)
        assert not Agent(session).ask_sync(ONE).is_error
        end()
        assert len(told) == 8  # asked and resolved


def test_a_bridge_may_close_while_threads_attach() -> None:
    """Each gets its session, or is told that the bridge is closed; nobody waits for ever."""

    def attach_on() -> None:
        try:
            while True:
                attach_sync(bridge, "s", PlainAdapter(), Scripted({}))
                attached.set()
        except BridgeError:
            pass

    for _ in range(10):
        attached = threading.Event()
        with Bridge() as bridge:
            threads = [threading.Thread(target=attach_on, daemon=True) for _ in range(3)]
            for thread in threads:
                thread.start()
            assert attached.wait(30)
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()


def test_a_call_that_is_cancelled_at_once_is_cancelled() -> None:
    """However early the agent's cancel comes, the operator's answer is not waited for."""
    with Bridge() as bridge:
        session = attach_sync(bridge, "s", PlainAdapter(), Held())
        for _ in range(50):
            call = session.call(ONE, {})
            call.cancel()
            with pytest.raises(BridgeError, match="cancelled"):
                call.result()


async def test_a_closed_session_plans_no_launch(base: Path) -> None:
    """It says so, and makes no folder anew."""
    async with Bridge(folder=base) as bridge:
        session = await attach(bridge, "s", PlainAdapter(), Scripted({}))
        await session.aclose()
        with pytest.raises(BridgeError, match="closed"):
            session.plan_launch(LaunchRequest(["runtime"]))


_FULL = """
import logging, os, resource, socket, sys, threading
from bridge_peers import ONE, PlainAdapter, socket_of
from opask.bridge import Bridge
from opask.errors import BridgeError
from opask.testing import Agent, Scripted

def fill():
    highest = max(map(int, os.listdir("/dev/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 16, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    held = []
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return held
"""


def test_a_connection_waits_until_there_is_a_descriptor_for_it() -> None:
    """A process that has none left takes no session along; the runtime is served once there is one."""
    script = (
        _FULL
        + """
class Told(logging.Handler):
    def emit(self, record): print(record.levelname, "accept" in record.getMessage(), flush=True); told.set()

told = threading.Event()
logging.getLogger("opask.bridge").addHandler(Told())
with Bridge() as bridge:
    session = bridge.attach_sync("s", PlainAdapter(), Scripted({"Which?": "a"}), allow_unverified=True)
    runtime, path = socket.socket(socket.AF_UNIX), str(socket_of(session))
    held = fill()
    runtime.connect(path)
    runtime.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\\n')
    assert told.wait(30)
    print(Agent(session).ask_sync(ONE).text)
    for descriptor in held:
        os.close(descriptor)
    print(b'"id":1' in runtime.recv(4096))
"""
    )
    assert _run(script) == 'WARNING True\n{"answers": {"Which?": "a"}}\nTrue\n'


def test_a_bridge_that_finds_no_descriptors_says_so(base: Path) -> None:
    """However many there are, it opens or raises an error of its own, and leaves nothing."""
    script = (
        _FULL
        + """
import pathlib
from opask.bridge import bridge

bridge._WARM_UP_S = 0.25
logging.getLogger("opask.bridge").disabled = True
base = pathlib.Path(sys.argv[1])
held = fill()
while True:
    for _ in range(min(4, len(held))):  # before 3.11.4 a Popen that finds too few of them loses up to three
        os.close(held.pop())
    bridge._WARM_UP_S *= 2  # that it was too short is no reason, however busy the machine
    try:
        with Bridge(folder=base):
            break
    except BridgeError as error:
        print("relay" if "relay" in str(error) else "descriptors")
for descriptor in held:
    os.close(descriptor)
print(list(base.iterdir()))
"""
    )
    told = _run(script, str(base)).splitlines()
    assert "descriptors" in told
    assert told[-1] == "[]"


@pytest.mark.parametrize("given", ["argument", "XDG_RUNTIME_DIR"])
async def test_a_relative_folder_is_one_of_this_processs(
    base: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """The socket's path holds wherever the runtime works, and the folder goes wherever the host works by then."""
    (base / "run").mkdir()
    monkeypatch.chdir(base)
    if given != "argument":
        monkeypatch.setenv(given, "run")
    async with Bridge(folder=Path("run") if given == "argument" else None) as bridge:
        session = await attach(bridge, "s", PlainAdapter(), Scripted({}))
        assert socket_of(session).is_relative_to(base / "run")
        monkeypatch.chdir("/")
    assert not list((base / "run").iterdir())


@pytest.mark.parametrize("wait", [timedelta(0), timedelta(seconds=-1), timedelta.max])
async def test_a_wait_that_has_no_deadline_is_refused(wait: timedelta) -> None:
    """No time at all, and one that ends beyond the calendar, are told when they are given."""
    async with Bridge() as bridge:
        with pytest.raises(ValueError, match="None waits for as long as it takes"):
            await attach(bridge, "s", PlainAdapter(), Scripted({}), wait=wait)


def _run(script: str, *arguments: str) -> str:
    """Run a host of its own, and return what it printed."""
    paths = os.pathsep.join([str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
