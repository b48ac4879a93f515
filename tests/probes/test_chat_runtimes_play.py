"""The real kimi, kimi-cli and omp against the scripted model: the dialect is good enough for them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import anyio
import pytest

from opask_probes.install import InstallError, installed
from opask_probes.model import from_data
from opask_probes.runtimes import RUNTIMES
from opask_probes.sandbox import NoNamespace, fresh_sandbox, loopback_namespace
from opask_probes.stage import stage

pytestmark = pytest.mark.live

SHELL = {"kimi": "Bash", "kimi-cli": "Shell", "omp": "bash"}
LAUNCH = {
    "kimi": ("-p", "Go.", "--output-format", "stream-json"),
    "kimi-cli": ("--print", "-p", "Go.", "--output-format", "stream-json"),
    "omp": ("-p", "Go.", "--no-title", "--auto-approve"),
}


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio alone: what is tested is the real runtime."""
    return "asyncio"


def program(runtime: str) -> Path:
    """Give a pinned runtime, or skip the test."""
    try:
        return installed(runtime)
    except InstallError as error:
        pytest.skip(str(error))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("runtime", SHELL)
async def test_a_runtime_plays_a_scenario_to_its_end(runtime: str) -> None:
    """It takes the streamed call, runs the tool, sends a well-formed result, and says the reply that quotes it."""
    isolation = loopback_namespace()
    if isinstance(isolation, NoNamespace):
        pytest.skip(isolation.reason)
    command = {"command": "echo seen-$((40+2))", **({"i": "Saying it"} if runtime == "omp" else {})}
    steps = [
        {
            "expect": {"offered": [SHELL[runtime]], "text_contains": ["Go."]},
            "reply": {"text": "I look.", "calls": [{"tool": SHELL[runtime], "arguments": command}]},
        },
        {"expect": {"results": [{"contains": ["seen-42"]}]}, "reply": {"text": "Got {{result}}"}},
    ]
    scenario = from_data({"name": "chat", "conversations": [{"name": "main", "steps": steps}]})
    known = RUNTIMES[runtime]
    with anyio.fail_after(200):
        async with stage(scenario, isolation) as set_:
            known.prepare(set_.sandbox.home, set_.url)
            done = await anyio.run_process(
                [*set_.enter, str(program(runtime)), *LAUNCH[runtime]],
                env=set_.environment(known),
                cwd=set_.sandbox.work,
                stdin=subprocess.DEVNULL,
                check=False,
            )
            await set_.close()
    assert set_.failures == ()
    assert done.returncode == 0, done.stderr
    assert "seen-42" in done.stdout.decode()
    assert {one["dialect"] for one in set_.exchanges if one["kind"] == "scripted"} == {"openai-chat"}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("runtime", SHELL)
def test_the_pinned_runtime_is_what_is_installed(runtime: str) -> None:
    """The program that was installed says the version that is pinned."""
    with fresh_sandbox() as sandbox:
        done = subprocess.run(
            [program(runtime), "--version"],
            env=sandbox.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=150,
        )
    assert RUNTIMES[runtime].version in done.stdout
