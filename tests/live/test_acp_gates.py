"""Permission requests of the real Kimi Code and omp put to the operator; a read-only floor, which they cannot hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from live_runs import Run, opask_run
from live_scenes import says, scenario
from opask_probes.install import InstallError, installed
from opask_probes.model import Call, Scenario
from opask_probes.runtimes import RUNTIMES
from opask_probes.sandbox import Isolation
from opask_probes.stage import Stage, stage

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

KIMI = scenario(
    says("I make.", Call("Bash", {"command": "touch one"})),
    says("I write.", Call("Write", {"path": "two", "content": "x"})),
    says("I read.", Call("Read", {"path": "notes.txt"})),
    says("I push.", Call("Bash", {"command": "git push"})),
    says("Done."),
)
OMP = scenario(
    says("I make.", Call("bash", {"command": "touch one", "i": "Making"})),
    says("I push.", Call("bash", {"command": "git push", "i": "Pushing"})),
    says("Done."),
)
SCENES = {"kimi": KIMI, "omp": OMP}


def allows(tool: str) -> str:
    """Give the first line of the question whether a tool may run."""
    return f"The agent wants to use {tool}. Allow it?"


def program(runtime: str) -> Path:
    """Give a pinned runtime."""
    try:
        return installed(runtime)
    except InstallError as error:
        pytest.skip(str(error))


def prepared(stage_: Stage, runtime: str) -> Path:
    """Give the work folder, with what the runtime needs in its home."""
    RUNTIMES[runtime].prepare(stage_.sandbox.home, stage_.url)
    (stage_.sandbox.work / "notes.txt").write_text("foo\n")
    return stage_.sandbox.work


async def played(
    isolation: Isolation, runtime: str, *options: str, play: Scenario | None = None
) -> tuple[Run, list[str]]:
    """Run a scene with these options; give the run, and the files that are there."""
    rest = ("--no-title",) if runtime == "omp" else ()
    async with stage(play or SCENES[runtime], isolation) as stage_:
        work = prepared(stage_, runtime)
        async with opask_run(stage_, program(runtime), *options, runtime=runtime, rest=rest) as run:
            await run.ends(0)
        await stage_.close()
        assert stage_.failures == ()
        return run, sorted(path.name for path in work.iterdir() if not path.name.startswith("."))


async def test_kimi_asks_the_operator(isolation: Isolation) -> None:
    """Each request is put with its arguments, and answered by the option of its kind; what is denied is not done."""
    answers = json.dumps({allows("Bash"): "Allow once", allows("Write"): "Deny"})
    run, files = await played(isolation, "kimi", "--answers", answers, "--permissions", "ask")
    assert files == ["notes.txt", "one"]
    requested = {event["tool"]: event["arguments"] for event in run.of("permission_requested")}
    assert requested == {"Bash": {"command": "git push"}, "Write": {"path": "two", "content": "x"}}
    decided = [(event["verdict"], event["rule"]) for event in run.of("permission_decided", by="host")]
    assert decided == [("allow", "allowed once"), ("deny", "operator"), ("allow", "allowed once")]


async def test_omp_asks_the_operator(isolation: Isolation) -> None:
    """A command of omp's is put with its arguments under the title that it has; what is denied is not done."""
    answers = json.dumps({allows("touch one"): "Allow once", allows("git push"): "Deny"})
    run, files = await played(isolation, "omp", "--answers", answers, "--permissions", "ask")
    assert files == ["notes.txt", "one"]
    assert [event["arguments"]["command"] for event in run.of("permission_requested")] == [
        "touch one",
        "git push",
    ]
    decided = [(event["verdict"], event["rule"]) for event in run.of("permission_decided", by="host")]
    assert decided == [("allow", "allowed once"), ("deny", "operator")]


@pytest.mark.parametrize("runtime", ["kimi", "omp"])
async def test_nobody_there_nothing_runs_that_is_asked_about(runtime: str, isolation: Isolation) -> None:
    """Without an operator every request is denied."""
    run, files = await played(isolation, runtime, "--surface", "none", "--permissions", "ask")
    assert files == ["notes.txt"]
    assert {event["verdict"] for event in run.of("permission_decided", by="host")} == {"deny"}


async def test_omp_writes_files_unasked(isolation: Isolation) -> None:
    """What the row and the refusal say of omp holds: a file is written with no permission request at all."""
    play = scenario(
        says("I write.", Call("write", {"path": "two", "content": "x", "i": "Writing"})), says("Done.")
    )
    run, files = await played(isolation, "omp", "--surface", "none", "--permissions", "ask", play=play)
    assert files == ["notes.txt", "two"]
    assert run.of("permission_requested") == []


@pytest.mark.parametrize("runtime", ["kimi", "omp"])
async def test_a_read_only_floor_is_refused(runtime: str, isolation: Isolation) -> None:
    """--permissions gate is refused before anything starts, and says what the runtime changes without asking."""
    async with stage(scenario(says("No.")), isolation) as stage_:
        options = ("--surface", "none", "--permissions", "gate")
        async with opask_run(stage_, program(runtime), *options, runtime=runtime) as run:
            await run.ends(2)
    assert f"{runtime}: it cannot hold a read-only floor" in run.stderr
    assert run.events == []
