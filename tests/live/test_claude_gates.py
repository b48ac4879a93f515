"""The write gate and permission requests on the real claude: what it is told, what is written, what is traced."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from live_runs import Run, opask_run
from live_scenes import says, scenario
from opask_probes.model import Call, Conversation, Expect, ExpectedResult, Reply, Scenario, Step, When
from opask_probes.sandbox import Isolation
from opask_probes.stage import Stage, stage

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

MODES = ("default", "acceptEdits", "bypassPermissions")
SETTINGS = {"permissions": {"allow": ["Bash", "Edit", "Write", "Read"], "defaultMode": "bypassPermissions"}}
EDIT = "The agent wants to use Edit. Allow this write action?"
SHELL = "The agent wants to run a shell command. Allow this write action?"


def bash(command: str) -> Call:
    """Make a call of the shell tool."""
    return Call("Bash", {"command": command, "description": "x"})


def result(*parts: str, error: bool) -> ExpectedResult:
    """Expect one result."""
    return ExpectedResult(parts, (), error)


def prepared(stage_: Stage) -> Path:
    """Give the work folder with a repository in it, of a user whose settings allow everything."""
    work = stage_.sandbox.work
    settings = stage_.sandbox.home / ".claude/settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(SETTINGS))
    (work / "notes.txt").write_text("foo\n")
    for arguments in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *arguments], cwd=work, check=True)
    return work


def tree(work: Path) -> dict[str, bytes]:
    """Give every file of a folder."""
    return {
        str(path.relative_to(work)): path.read_bytes() for path in sorted(work.rglob("*")) if path.is_file()
    }


def verdicts(run: Run) -> list[tuple[str, str, str | None, str]]:
    """Give the trace of the gate: tool, verdict, scope and source."""
    rows = [row for row in run.traced if row["event"] == "machine.write_mode_granted"]
    return [(row["tool"], row["verdict"], row["scope"], row["source"]) for row in rows]


def steps(edit: bool, touch: bool, push: bool) -> Scenario:
    """Make the scene: a read, a shell read, an edit, a shell write and a push; whether each is denied."""
    path = {"file_path": "notes.txt"}
    said = "denied" if edit else "notes.txt"
    return scenario(
        says("I look.", Call("Read", path), bash("cat notes.txt | head -1 && git status --short")),
        says(
            "I edit.",
            Call("Edit", {**path, "old_string": "foo", "new_string": "bar"}),
            expect=Expect(results=(result("foo", error=False), result("foo", "A  notes.txt", error=False))),
        ),
        says("I make.", bash("touch made"), expect=Expect(results=(result(said, error=edit),))),
        says("I push.", bash("git push"), expect=Expect(results=(result(error=touch),))),
        says("Done.", expect=Expect(results=(result("denied" if push else "", error=True),))),
    )


@pytest.mark.parametrize("mode", MODES)
async def test_nobody_there_nothing_is_written(mode: str, claude: Path, isolation: Isolation) -> None:
    """Without an operator reads run and every write is denied, whatever mode and settings allow; each is traced."""
    async with stage(steps(True, True, True), isolation) as stage_:
        work = prepared(stage_)
        before = tree(work)
        options = ("--surface", "none", "--permissions", "gate")
        async with opask_run(stage_, claude, *options, rest=("--permission-mode", mode)) as run:
            await run.ends(0)
        await stage_.close()
        assert stage_.failures == ()
        assert tree(work) == before
    assert verdicts(run) == [
        ("Edit", "deny", None, "headless_denied"),
        ("Bash", "deny", None, "headless_denied"),
        ("Bash", "deny", None, "headless_denied"),
    ]
    effects = [row["effect"] for row in run.traced if row["event"] == "machine.write_mode_granted"]
    assert effects == ["write", "write", "external"]


@pytest.mark.parametrize("mode", MODES)
async def test_the_operator_denies(mode: str, claude: Path, isolation: Isolation) -> None:
    """What the operator denies is not done, in any mode."""
    answers = json.dumps({EDIT: "Deny", SHELL: "Deny"})
    async with stage(steps(True, True, True), isolation) as stage_:
        work = prepared(stage_)
        before = tree(work)
        options = ("--answers", answers, "--permissions", "gate")
        async with opask_run(stage_, claude, *options, rest=("--permission-mode", mode)) as run:
            await run.ends(0)
        await stage_.close()
        assert stage_.failures == ()
        assert tree(work) == before
    assert verdicts(run) == [
        ("Edit", "deny", None, "operator"),
        ("Bash", "deny", None, "operator"),
        ("Bash", "deny", None, "operator"),
    ]


@pytest.mark.parametrize("mode", MODES)
async def test_a_turn_is_granted_and_a_push_still_asked_about(
    mode: str, claude: Path, isolation: Isolation
) -> None:
    """A yes for the turn lets that turn's writes through; what reaches other machines is asked about all the same."""
    answers = json.dumps({EDIT: "Allow for this turn", SHELL: "Deny"})
    async with stage(steps(False, False, True), isolation) as stage_:
        work = prepared(stage_)
        options = ("--answers", answers, "--permissions", "gate")
        async with opask_run(stage_, claude, *options, rest=("--permission-mode", mode)) as run:
            await run.ends(0)
        await stage_.close()
        assert stage_.failures == ()
        assert (work / "notes.txt").read_text() == "bar\n"
        assert (work / "made").exists()
    assert verdicts(run) == [
        ("Edit", "allow", "turn", "operator"),
        ("Bash", "allow", "turn", "active_scope"),
        ("Bash", "deny", None, "operator"),
    ]
    decided = [(event["verdict"], event["by"]) for event in run.of("permission_decided")]
    assert decided.count(("allow", "host")) == 4


async def test_a_sub_agents_write_is_its_own(claude: Path, isolation: Isolation) -> None:
    """A sub-agent's write is put to the operator as the sub-agent's, and its agent's grant does not cover it."""
    agent = Call(
        "Agent",
        {
            "description": "d",
            "prompt": "SUB work",
            "subagent_type": "general-purpose",
            "run_in_background": False,
        },
    )
    main = When(prompt_contains=("MAIN",))
    scene = Scenario(
        "live",
        (
            Conversation(
                "main",
                (
                    Step(Reply("I make.", (bash("touch one"),)), Expect()),
                    Step(Reply("I delegate.", (agent,)), Expect(results=(result(error=False),))),
                    Step(Reply("Done."), Expect()),
                ),
                main,
            ),
            Conversation(
                "sub",
                (
                    Step(Reply("I make.", (bash("touch two"),)), Expect()),
                    Step(Reply("Denied."), Expect(results=(result("denied", error=True),))),
                ),
                When(prompt_contains=("SUB",)),
            ),
        ),
    )
    async with stage(scene, isolation) as stage_:
        work = prepared(stage_)
        options = ("--surface", "terminal", "--permissions", "gate")
        async with opask_run(stage_, claude, *options, prompt="MAIN") as run:
            await run.until("permission_requested", tool="Bash")
            await run.write("1")
            asked = await run.until("permission_requested", 2, tool="Bash")
            await run.write("4")
            await run.ends(0)
        await stage_.close()
        assert stage_.failures == ()
        assert (work / "one").exists()
        assert not (work / "two").exists()
    assert asked["agent_id"]
    assert verdicts(run) == [("Bash", "allow", "turn", "operator"), ("Bash", "deny", None, "operator")]


@pytest.mark.parametrize("option", ["--bare", "--input-format=text"])
async def test_a_launch_that_cannot_hold_the_gate_is_refused(
    option: str, claude: Path, isolation: Isolation
) -> None:
    """An option under which the CLI would run no hook is refused by name, before anything is started."""
    async with (
        stage(scenario(says("No.")), isolation) as stage_,
        opask_run(stage_, claude, "--surface", "none", "--permissions", "gate", rest=(option,)) as run,
    ):
        await run.ends(2)
    assert option.partition("=")[0] in run.stderr
    assert run.events == []


async def test_permissions_are_asked_about(claude: Path, isolation: Isolation) -> None:
    """With --permissions ask what the CLI asks permission for is put to the operator; a yes for the session is kept."""
    ask = "The agent wants to use {}. Allow it?"
    scene = scenario(
        says(
            "I make.",
            bash("touch one"),
            bash("touch two"),
            Call("Write", {"file_path": "three", "content": "x"}),
        ),
        says(
            "Done.",
            expect=Expect(results=(result(error=False), result(error=False), result("denied", error=True))),
        ),
    )
    answers = json.dumps({ask.format("Bash"): "Allow for this session", ask.format("Write"): "Deny"})
    async with stage(scene, isolation) as stage_:
        work = stage_.sandbox.work
        async with opask_run(stage_, claude, "--answers", answers, "--permissions", "ask") as run:
            await run.ends(0)
        await stage_.close()
        assert stage_.failures == ()
        assert sorted(path.name for path in work.iterdir()) == ["one", "two"]
    rules: list[Any] = [
        (event["verdict"], event["rule"]) for event in run.of("permission_decided", by="host")
    ]
    assert rules == [("allow", "allowed for this session")] * 2 + [("deny", "operator")]


async def test_an_interrupted_proposal_is_denied(claude: Path, isolation: Isolation) -> None:
    """Ctrl-C while a proposal waits ends the run; nothing was written, and the verdict is traced as nobody's yes."""
    async with stage(scenario(says("I make.", bash("touch one"))), isolation) as stage_:
        work = prepared(stage_)
        before = tree(work)
        options = ("--surface", "terminal", "--permissions", "gate")
        async with opask_run(stage_, claude, *options) as run:
            await run.until("permission_decided", verdict="defer")
            os.kill(run.process.pid, signal.SIGINT)
            await run.ends(130)
        assert tree(work) == before
    assert verdicts(run) == [("Bash", "deny", None, "headless_denied")]
    (decided,) = run.of("permission_decided", verdict="deny")
    assert decided["by"] == "opask"
