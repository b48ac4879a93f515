"""The stage of a run: the model in a process of its own, its gates and log, and what a sandbox leaves running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import pytest

from opask_probes.model import Reply, Step
from opask_probes.runtimes import RUNTIMES
from opask_probes.sandbox import Namespace, NoNamespace, loopback_namespace
from opask_probes.scripts import MAIN, scenario
from opask_probes.stage import Stage, StageError, all_gone, processes_below, processes_in, stage

OPEN = NoNamespace("not wanted here")
HELLO = scenario("hello", Step(Reply("Hello.")))
HELD = scenario("held", Step(Reply("Hello."), hold="gate"))
BODY = {
    "model": "claude-x",
    "max_tokens": 9,
    "tools": [{"name": "T", "input_schema": {"type": "object"}}],
    "messages": [{"role": "user", "content": MAIN}],
}
HEADERS = {"anthropic-version": "2023-06-01", "x-api-key": "sk-test"}
linux = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells of processes that are not one's own"
)


def entries(folder: Path) -> list[str]:
    """Give the names of what is in a folder."""
    return [path.name for path in folder.iterdir()]


async def play(set_: Stage) -> int:
    """Send the request that the scenarios here wait for; give the status."""

    def send() -> int:
        url = f"{set_.url}/v1/messages"
        return httpx2.post(url, json=BODY, headers=HEADERS, timeout=30, trust_env=False).status_code

    return await anyio.to_thread.run_sync(send)


async def test_a_scenario_that_is_played(tmp_path: Path) -> None:
    """What the model was sent is seen as it happens, and its verdict is there once the stage is closed."""
    async with stage(HELLO, OPEN, parent=tmp_path) as set_:
        assert set_.enter == ()
        assert await play(set_) == 200
        await set_.played("main", 1)
        assert [one["kind"] for one in set_.exchanges] == ["scripted"]
        await set_.close()
        assert set_.failures == ()
        await set_.close()
    assert entries(tmp_path) == []


async def test_a_scenario_that_is_left_early(tmp_path: Path) -> None:
    """What was not played is a failure, also where the stage is left without being closed."""
    async with stage(HELLO, OPEN, parent=tmp_path) as set_:
        pass
    assert set_.failures == ("conversation main, step 1: not played to its end: 0 of 1 steps",)
    with pytest.raises(StageError, match="ended before step 1 of conversation main"):
        await set_.played("main", 1)


async def test_a_gate_is_opened_from_outside(tmp_path: Path) -> None:
    """A held reply goes out once its gate is released, and not before."""
    async with stage(HELD, OPEN, parent=tmp_path) as set_, anyio.create_task_group() as tasks:
        status: list[int] = []

        async def ask() -> None:
            status.append(await play(set_))

        tasks.start_soon(ask)
        with anyio.move_on_after(0.3):
            await set_.played("main", 1)
            raise AssertionError("it was not held")
        await set_.release("gate")
        await set_.played("main", 1)
    assert status == [200]


async def test_an_error_in_the_block_comes_out_as_it_is(tmp_path: Path) -> None:
    """The stage wraps no error, and is gone after it."""
    with pytest.raises(ZeroDivisionError):
        async with stage(HELLO, OPEN, parent=tmp_path):
            raise ZeroDivisionError
    assert entries(tmp_path) == []


async def test_a_cancelled_block_leaves_nothing(tmp_path: Path) -> None:
    """A stage that is left by a cancelled task ends its model at once, and takes its verdict."""
    with anyio.CancelScope() as scope:
        async with stage(HELLO, OPEN, parent=tmp_path) as set_:
            scope.cancel()
            await anyio.sleep_forever()
    assert len(set_.failures) == 1
    assert entries(tmp_path) == []


async def test_a_model_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the program of the model cannot be run, that is said."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(StageError, match="did not start"):
        async with stage(HELLO, OPEN, parent=tmp_path):
            pass


def start(env: dict[str, str], *argv: str) -> subprocess.Popen[bytes]:
    """Start a process with an environment, in a session of its own."""
    return subprocess.Popen(
        argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )


@linux
async def test_what_runs_in_a_sandbox_is_found(tmp_path: Path) -> None:
    """A process is found by its environment wherever it went, for as long as it runs."""
    async with stage(HELLO, OPEN, parent=tmp_path) as set_:
        root = set_.sandbox.root
        assert processes_in(root) == []
        process = start(set_.environment(RUNTIMES["claude"]), "sh", "-c", "sleep 60 & echo; wait")
        assert process.stdout is not None
        process.stdout.readline()
        (child,) = (pid for pid, _ in processes_below(process.pid))
        assert {pid for pid, _ in processes_in(root)} == {process.pid, child}
        assert dict(processes_in(root))[process.pid] == "sh -c sleep 60 & echo; wait"
        assert len(await all_gone(root, 0.1)) == 2
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert await all_gone(root, 10) == []


@linux
async def test_a_program_enters_the_models_namespace(tmp_path: Path) -> None:
    """What runs behind the prefix reaches the model, and nothing else."""
    namespace = loopback_namespace()
    if isinstance(namespace, NoNamespace):
        pytest.skip(namespace.reason)
    assert isinstance(namespace, Namespace)
    script = (
        "import socket, sys; from opask_probes.sandbox import is_loopback_only; "
        "socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=60); print(is_loopback_only())"
    )
    async with stage(HELLO, namespace, parent=tmp_path) as set_:
        port = set_.url.rpartition(":")[2]
        done = await anyio.run_process([*set_.enter, sys.executable, "-c", script, port])
    assert done.stdout == b"True\n"
