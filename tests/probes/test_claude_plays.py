"""The real claude against the scripted model, in a namespace of its own: the model is good enough for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from opask_probes.install import installed
from opask_probes.runtimes import RUNTIMES
from opask_probes.sandbox import NoNamespace, fresh_sandbox, loopback_namespace

pytestmark = pytest.mark.live

# Runs inside: plays a scenario to the command of argv, and tells what both sides saw.
INSIDE = """
import json, os, subprocess, sys
import anyio
from opask_probes.model import from_json, serve
from opask_probes.runtimes import RUNTIMES

async def main(scenario, argv):
    async with serve(from_json(scenario), verify=False) as model:
        env = {**os.environ, **RUNTIMES["claude"].model(model.url)}
        done = await anyio.run_process(argv, env=env, stdin=subprocess.DEVNULL, check=False)
    failures = [str(failure) for failure in model.failures + model.unplayed]
    kinds = [exchange.kind for exchange in model.requests]
    print(json.dumps({"failures": failures, "kinds": kinds, "code": done.returncode, "output": done.stdout.decode()}))

anyio.run(main, sys.argv[1], sys.argv[2:])
"""


def run(scenario: object, *arguments: str) -> dict[str, object]:
    """Play a scenario to claude; give what the model and claude said."""
    namespace = loopback_namespace()
    if isinstance(namespace, NoNamespace):
        pytest.skip(namespace.reason)
    argv = [str(installed("claude")), "-p", "Go.", "--output-format", "json", *arguments]
    inside = namespace.wrap([sys.executable, "-c", INSIDE, json.dumps(scenario), *argv])
    with fresh_sandbox() as sandbox:
        # The probes are found where this process found them; claude gets no more than the rest.
        packages = {"PYTHONPATH": ":".join(path for path in sys.path if path and Path(path).is_dir())}
        done = subprocess.run(
            inside,
            env=sandbox.environment(packages),
            cwd=sandbox.work,
            capture_output=True,
            text=True,
            check=False,
            timeout=150,
        )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def scenario(*steps: object) -> object:
    """Make a scenario of one conversation."""
    return {"name": "claude", "conversations": [{"name": "main", "steps": steps}]}


def test_claude_plays_a_scenario_to_its_end() -> None:
    """Claude takes the streamed call, runs the tool, sends a well-formed result, and prints the reply that quotes it."""
    call = {"tool": "Bash", "arguments": {"command": "echo seen-$((40+2))", "description": "Say it"}}
    found = run(
        scenario(
            {
                "expect": {
                    "offered": ["Bash"],
                    "absent": ["AskUserQuestion"],
                    "system_contains": ["CLAUSE-MARK"],
                },
                "reply": {"text": "I look.", "calls": [call]},
            },
            {
                "expect": {"results": [{"contains": ["seen-42"], "is_error": False}]},
                "reply": {"text": "Got {{result}}"},
            },
        ),
        *("--allowedTools", "Bash", "--append-system-prompt", "CLAUSE-MARK"),
    )
    assert found["failures"] == []
    assert found["code"] == 0
    assert json.loads(str(found["output"]))["result"] == "Got seen-42"


def test_a_scenario_that_does_not_fit_ends_claude_quickly() -> None:
    """A request that is not as expected ends claude's run with the model's reason, and is one failure."""
    found = run(scenario({"expect": {"offered": ["NoSuchTool"]}, "reply": {"text": "Done."}}))
    failures = found["failures"]
    assert isinstance(failures, list)
    assert "tool NoSuchTool is not offered" in failures[0]
    assert failures[1:] == ["conversation main, step 1: not played to its end: 0 of 1 steps"]
    result = json.loads(str(found["output"]))
    assert (found["code"], result["is_error"]) == (1, True)
    assert "tool NoSuchTool is not offered" in result["result"]


def test_the_pinned_claude_is_what_is_installed() -> None:
    """The program that was installed says the version that is pinned."""
    with fresh_sandbox() as sandbox:
        argv = [str(installed("claude")), "--version"]
        done = subprocess.run(
            argv, env=sandbox.environment(), capture_output=True, text=True, check=True, timeout=120
        )
    assert done.stdout.split()[0] == RUNTIMES["claude"].version
