"""The bridge: opening, attaching, listing, closing, on whatever loop the host has."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from bridge_peers import ONE, Held, PlainAdapter, attach, attach_sync, connected, opened, socket_of
from opask import Answer, Answered, Ask, Cancelled, LaunchPlan, LaunchRequest, Outcome, Reply
from opask.bridge import Bridge, serving
from opask.bridge.sockets import BridgeFolder, sweep
from opask.errors import BridgeError, RelayError, SocketPathError, UnverifiedRouteError, WaitTooLongError
from opask.events import Event
from opask.launch import LaunchFile
from opask.testing import Agent, Scripted

SHORT = timedelta(milliseconds=100)


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    """A folder of this test's own, with a path short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="o", dir="/tmp") as name:
        yield Path(name)


def left_in(folder: Path) -> list[str]:
    """Return the names in a folder."""
    return [path.name for path in folder.iterdir()]


def open_files() -> int:
    """Return how many file descriptors this process has."""
    return len(list(Path("/dev/fd").iterdir()))


def private_socket(path: Path) -> bool:
    """Tell whether it is a socket in folders that only its owner can look into."""
    folders = (path.parent, path.parent.parent)
    return stat.S_ISSOCK(path.stat().st_mode) and all(
        stat.S_IMODE(folder.stat().st_mode) == 0o700 for folder in folders
    )


async def test_nothing_is_left_when_the_bridge_closes(base: Path) -> None:
    """Folders and sockets go, whatever was open; the folder was private while it was there."""
    before = threading.enumerate()
    async with Bridge(folder=base) as bridge:
        session = await attach(bridge, "s", PlainAdapter(), Scripted({}))
        socket = socket_of(session)
        assert private_socket(socket)
        assert len(os.fsencode(socket)) <= 103
    assert left_in(base) == []
    new = [thread for thread in threading.enumerate() if thread not in before]
    assert not [thread for thread in new if thread.name.startswith("opask-")]


def test_a_host_without_a_loop_has_prompters_of_both_kinds(base: Path) -> None:
    """`with Bridge()` runs a coroutine prompter on a loop of the bridge's own."""
    prompter = Scripted({"Which?": "b"})
    with Bridge(folder=base) as bridge, attach_sync(bridge, "s", PlainAdapter(), prompter) as session:
        session.plan_launch(LaunchRequest(["runtime"]))
        assert Agent(session).ask_sync(ONE).structured == {"answers": {"Which?": "b"}}
    assert left_in(base) == []


def test_a_host_without_a_loop_is_not_held_up_by_a_prompter_that_blocks() -> None:
    """Closing ends the wait of a plain function that never returns."""
    asked, release = threading.Event(), threading.Event()
    outcomes: list[Outcome] = []

    class Blocking:
        def ask(self, ask: Ask, /) -> Reply:
            asked.set()
            release.wait()
            return Answered((Answer((0,)),), "late")

        def settled(self, ask: Ask, outcome: Outcome, /) -> None:
            outcomes.append(outcome)

        def available(self, session_id: str, /) -> bool:
            return True

    with Bridge() as bridge:
        session = attach_sync(bridge, "s", PlainAdapter(), Blocking())
        call = session.call(ONE, {})
        asked.wait()
    assert outcomes == [Cancelled("shutdown")]
    assert call.result().is_error
    release.set()


async def test_a_bridge_opens_once() -> None:
    """A second opening, and an attach outside of its block, say what is wrong."""
    bridge = Bridge()
    with pytest.raises(BridgeError, match="not open"):
        await attach(bridge, "s", PlainAdapter())
    async with bridge:
        with pytest.raises(ValueError, match="wait"):
            await attach(bridge, "s", PlainAdapter(), wait=timedelta(0))
    with pytest.raises(BridgeError, match="once"):
        async with bridge:
            pass
    with pytest.raises(BridgeError, match="closed"):
        await attach(bridge, "s", PlainAdapter())


@pytest.mark.parametrize("interpreter", ["/nowhere/python", "/bin/false", "/bin/true"])
async def test_an_interpreter_that_cannot_run_the_relay_is_refused(interpreter: str) -> None:
    """The fault is found when the bridge opens, not when an agent lacks its tool."""
    with pytest.raises(RelayError, match=interpreter):
        async with Bridge(interpreter=interpreter):
            pass


async def test_a_folder_with_too_long_a_path_is_refused(tmp_path: Path) -> None:
    """The message names the limit and what to do."""
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    with pytest.raises(SocketPathError, match=r"103 is the limit.*folder="):
        async with Bridge(folder=deep):
            pass


async def test_an_error_in_the_hosts_block_closes_the_bridge(base: Path) -> None:
    """The host's own exception comes through as it is, and nothing is left."""
    held = Held()

    async def host() -> None:
        async with Bridge(folder=base) as bridge:
            session = await attach(bridge, "s", PlainAdapter(), held)
            session.call(ONE, {})
            await held.next()
            raise KeyError("host")

    with pytest.raises(KeyError, match="host"):
        await host()
    assert await held.outcome() == [Cancelled("shutdown")]
    assert left_in(base) == []


async def test_a_cancelled_host_settles_its_asks(base: Path) -> None:
    """Each wait ends with a named outcome on shutdown, and `settled` is heard."""
    held = Held()
    with anyio.CancelScope() as scope:
        async with Bridge(folder=base) as bridge:
            session = await attach(bridge, "s", PlainAdapter(), held)
            session.call(ONE, {})
            await held.next()
            scope.cancel()
            await anyio.sleep_forever()
    assert [outcome for _, outcome in held.settlements] == [Cancelled("shutdown")]
    assert left_in(base) == []


async def test_sessions_do_not_touch_each_other() -> None:
    """One session's operator is silent and another's prompter fails; the third gets its answer."""
    held = Held()
    async with Bridge() as bridge:
        waiting = await attach(bridge, "waiting", PlainAdapter(), held)
        waiting_call = waiting.call(ONE, {})
        ask = await held.next()

        class Failing(Scripted):
            async def ask(self, ask: Ask, /) -> Reply:
                raise RuntimeError("mine alone")

        failing = await attach(bridge, "failing", PlainAdapter(), Failing({}))
        assert (await Agent(failing).ask(ONE)).is_error
        third = await attach(bridge, "third", PlainAdapter(), Scripted({"Which?": "a"}))
        assert not (await Agent(third).ask(ONE)).is_error
        await third.aclose()
        await third.aclose()
        held.reply(ask)
        assert await anyio.to_thread.run_sync(waiting_call.result) is not None


async def test_a_blocked_host_does_not_delay_the_listing() -> None:
    """The tool is listed while the host's loop does not run at all."""
    async with Bridge() as bridge:
        session = await attach(bridge, "s", PlainAdapter(), Scripted({"Which?": "a"}))
        socket = socket_of(session)
        listed = threading.Event()

        def client() -> None:
            import json
            import socket as sockets

            with sockets.socket(sockets.AF_UNIX) as connection:
                connection.connect(os.fspath(socket))
                stream = connection.makefile("rwb")
                hello = {"protocolVersion": "2025-11-25", "capabilities": {}}
                hello["clientInfo"] = {"name": "t", "version": "0"}
                for request in (
                    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
                    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
                ):
                    stream.write(json.dumps(request).encode() + b"\n")
                    stream.flush()
                    stream.readline()
                listed.set()

        thread = threading.Thread(target=client)
        thread.start()
        assert listed.wait(30)  # blocks this loop, and the bridge must not mind
        thread.join()


async def test_a_wait_for_the_list_ends_with_the_session() -> None:
    """Closing a session ends a wait that was given up too, so that none outlives it, and tells of no timeout."""
    async with Bridge() as bridge:
        session = await attach(bridge, "s", PlainAdapter(), Scripted({}))
        events: list[Event] = []
        session.subscribe(events.append)
        listed: list[bool] = []
        ended = threading.Event()

        def wait() -> None:
            listed.append(session.listed_sync(timedelta(hours=1)))
            ended.set()

        threading.Thread(target=wait).start()
        await session.aclose()
        assert await anyio.to_thread.run_sync(ended.wait, 30)
        assert listed == [False]
        assert events == []


async def test_listed_tells_the_runtime_from_a_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that lists and goes away does not count; the connection that stays does."""
    monkeypatch.setattr(serving, "_KEPT_S", 3600.0)  # the copy is gone in time, however busy the machine
    async with Bridge() as bridge:
        session = await attach(bridge, "s", PlainAdapter(), Scripted({}))
        async with anyio.create_task_group() as tasks:
            probe = await opened(session, tasks)
            await probe.shake_hands()
            await probe.request("tools/list")
            await probe.close()
            assert not await session.listed(timedelta(milliseconds=300))
            silent = await opened(session, tasks)
            await silent.shake_hands()
            assert not await session.listed(SHORT)
            monkeypatch.setattr(serving, "_KEPT_S", 0.1)
            runtime = await opened(session, tasks)
            await runtime.shake_hands()
            await runtime.request("tools/list")
            assert await session.listed(timedelta(seconds=30))
            tasks.cancel_scope.cancel()


async def test_a_stranger_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """A process of a user id that is not named gets nothing, and the log says how to name it."""
    async with Bridge(peer_uids=frozenset({os.getuid() + 1})) as bridge:
        session = await attach(bridge, "s", PlainAdapter(), Scripted({}))
        socket = socket_of(session)
        assert stat.S_IMODE(socket.stat().st_mode) == 0o666
        async with anyio.create_task_group() as tasks:
            peer = await opened(session, tasks)
            await peer.ended.wait()
            await peer.close()
    assert "peer_uids" in caplog.text


async def test_the_files_of_a_plan_are_written_privately(base: Path) -> None:
    """They are there when `plan_launch` returns, and gone with the session."""

    class WithFile(PlainAdapter):
        def plan_launch(self, request: LaunchRequest, endpoint: Any, /) -> LaunchPlan:
            file = LaunchFile(endpoint.folder / "sub" / "config.json", '{"é": 1}')
            return LaunchPlan(request.argv, request.env, files=(file,), endpoint=endpoint, questions=True)

    async with Bridge(folder=base) as bridge:
        async with await attach(bridge, "s", WithFile(), Scripted({})) as session:
            (file,) = session.plan_launch(LaunchRequest(["x"])).files
            assert file.path.read_text(encoding="utf-8") == '{"é": 1}'
            assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
        assert not file.path.exists()


async def test_a_route_that_nobody_has_seen_is_refused() -> None:
    """A host has to say that it wants it all the same; where nobody is there to ask it does not matter."""
    async with Bridge() as bridge:
        async with await bridge.attach("s", PlainAdapter(), Scripted({})) as session:
            with pytest.raises(UnverifiedRouteError, match=r"plain.*allow_unverified=True"):
                session.plan_launch(LaunchRequest(["x"]))
        async with await bridge.attach("s", PlainAdapter()) as session:
            assert not session.plan_launch(LaunchRequest(["x"])).questions


@pytest.mark.parametrize("wait", [None, timedelta(seconds=60)])
async def test_a_wait_that_the_route_cannot_hold_is_refused(wait: timedelta | None) -> None:
    """The error names the ceiling and the longest wait that can be had."""

    class Bounded(PlainAdapter):
        def plan_launch(self, request: LaunchRequest, endpoint: Any, /) -> LaunchPlan:
            return LaunchPlan(request.argv, request.env, ceiling=timedelta(seconds=60), endpoint=endpoint)

    async with Bridge() as bridge:
        async with await attach(bridge, "s", Bounded(), Scripted({}), wait=wait) as session:
            with pytest.raises(WaitTooLongError, match=r"60 s at most; attach with wait=55 s"):
                session.plan_launch(LaunchRequest(["x"]))
        async with await attach(bridge, "s", Bounded(), Scripted({}), wait=timedelta(seconds=55)) as session:
            session.plan_launch(LaunchRequest(["x"]))


def test_what_a_killed_bridge_left_is_swept(base: Path) -> None:
    """The next bridge removes an abandoned folder, and leaves one whose process lives."""
    script = (
        "import os, pathlib, sys\n"
        "from opask.bridge.sockets import BridgeFolder\n"
        "folder = BridgeFolder(pathlib.Path(sys.argv[1])); folder.session()\n"
        "print(folder.path, flush=True); os._exit(9)\n"
    )
    left = subprocess.run(
        [sys.executable, "-c", script, str(base)], capture_output=True, text=True, check=False
    ).stdout.strip()
    alive = BridgeFolder(base)
    for folder in (Path(left), alive.path):
        old = time.time() - 3600
        os.utime(folder, (old, old))
    sweep(base)
    assert [folder.name for folder in base.iterdir()] == [alive.path.name]
    alive.close()
    assert left_in(base) == []


def test_a_host_that_forgets_to_close_still_ends(base: Path) -> None:
    """Its process exits, and takes sockets and folder along."""
    script = (
        "import pathlib, sys\n"
        "from opask.bridge import Bridge\n"
        "bridge = Bridge(folder=pathlib.Path(sys.argv[1])).__enter__()\n"
        "print('open')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(base)], capture_output=True, text=True, timeout=150, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "open\n", "")
    assert left_in(base) == []


async def test_a_hundred_sessions_come_and_go() -> None:
    """File descriptors are back at the start value afterwards."""
    async with Bridge() as bridge:
        before = open_files()
        sessions = [
            await attach(bridge, f"s{number}", PlainAdapter(), Scripted({"Which?": "a"}))
            for number in range(100)
        ]
        async with anyio.create_task_group() as tasks:
            for session in sessions:
                tasks.start_soon(_ask_over_socket, session)
        for session in sessions:
            await session.aclose()
        with anyio.fail_after(30):
            while open_files() > before:  # the bridge closes the last ones in its own thread
                await anyio.lowlevel.checkpoint()


async def _ask_over_socket(session: Any) -> None:
    async with connected(session) as peer:
        response = await peer.response(await peer.call(ONE))
        assert response["result"]["structuredContent"] == {"answers": {"Which?": "a"}}
