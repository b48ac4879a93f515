"""The real claude, launched as it is planned: what the host gave and what was added is seen in the model's request."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import claude_live
from opask_probes.install import installed
from opask_probes.sandbox import NoNamespace, Sandbox, fresh_sandbox, loopback_namespace

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

ASK = "mcp__opask__ask_user_question"
QUESTION = "Which database?"
ANSWERS = {QUESTION: "SQLite"}
CALL = {
    "tool": ASK,
    "arguments": {"questions": [{"question": QUESTION, "options": ["PostgreSQL", "SQLite"]}]},
}
PROMPT = "Set up the service."
STREAM = ("--output-format", "stream-json", "--verbose")
ANSWERED = {"results": [{"contains": ["SQLite"], "is_error": False}]}

# A server of the host's own, with one tool.
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    result = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "h", "version": "1"}},
        "tools/list": {"tools": [{"name": "ping", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "pong from the host"}]},
    }.get(asked.get("method"))
    if "id" in asked:
        body = {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **body}), flush=True)
"""


def play(sandbox: Sandbox, *launches: dict[str, Any]) -> list[dict[str, Any]]:
    """Run launches in a sandbox, one after the other, in a namespace of their own; give what became of them."""
    namespace = loopback_namespace()
    if isinstance(namespace, NoNamespace):
        pytest.skip(namespace.reason)
    packages = {"PYTHONPATH": ":".join(path for path in sys.path if path and Path(path).is_dir())}
    done = subprocess.run(
        namespace.wrap([sys.executable, claude_live.__file__, json.dumps(launches)]),
        env=sandbox.environment(packages),
        cwd=sandbox.work,
        capture_output=True,
        text=True,
        check=False,
        timeout=220,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def launch(*arguments: str, steps: Sequence[object], there: bool = True) -> dict[str, Any]:
    """Describe one launch: the host's own arguments and the steps of the scripted model."""
    return {
        "argv": [str(installed("claude")), *arguments],
        "prompt": PROMPT,
        "answers": ANSWERS if there else None,
        "scenario": {"name": "live", "conversations": [{"name": "main", "steps": steps}]},
    }


def asks(**expect: object) -> list[object]:
    """Give the steps of a model that asks, and quotes the answer."""
    offered = {"offered": [ASK], "absent": ["AskUserQuestion"]}
    return [
        {"expect": {**offered, **expect}, "reply": {"calls": [CALL]}},
        {"expect": ANSWERED, "reply": {"text": "The operator said: {{result}}"}},
    ]


def test_what_the_host_gave_survives_the_merge() -> None:
    """The host's appended prompt, its server and its rule are there beside the clause, the ask server and its rule."""
    with fresh_sandbox() as sandbox:
        (sandbox.work / "server.py").write_text(SERVER, encoding="utf-8")
        host = {"command": sys.executable, "args": ["server.py"], "alwaysLoad": True}
        (sandbox.work / "host.json").write_text(json.dumps({"mcpServers": {"host": host}}), encoding="utf-8")
        ping = {"tool": "mcp__host__ping", "arguments": {}}
        steps = [
            {
                "expect": {
                    "offered": [ASK, "mcp__host__ping"],
                    "absent": ["AskUserQuestion"],
                    "system_contains": ["HOST-MARK", ASK],
                    "text_contains": [PROMPT],
                },
                "reply": {"calls": [ping, CALL]},
            },
            {
                "expect": {
                    "results": [
                        {"contains": ["pong from the host"], "is_error": False},
                        {"contains": ["SQLite"], "is_error": False},
                    ]
                },
                "reply": {"text": "Done."},
            },
        ]
        own = (
            "--append-system-prompt",
            "HOST-MARK",
            "--mcp-config",
            "host.json",
            "--allowedTools",
            "mcp__host__ping",
        )
        (found,) = play(sandbox, launch("-p", PROMPT, *STREAM, *own, steps=steps))
    assert found["failures"] == []
    assert found["code"] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("-p", PROMPT, *STREAM),
        ("-p", *STREAM, "--", PROMPT),
        ("-p", *STREAM, "--add-dir=.", PROMPT),
        ("-p", PROMPT, *STREAM, "--tools", ""),
        ("-p", PROMPT, *STREAM, "--bare"),
        ("-p", PROMPT, *STREAM, "--restricted"),
        ("-p", PROMPT, *STREAM, "--strict-mcp-config"),
    ],
    ids=lambda arguments: " ".join(each for each in arguments if each not in (PROMPT, *STREAM)),
)
def test_the_prompt_and_the_tool_get_through(arguments: tuple[str, ...]) -> None:
    """Wherever the host puts the prompt, and whatever else it asks for, the model gets it, the tool and the clause."""
    steps = asks(text_contains=[PROMPT], system_contains=[ASK])
    with fresh_sandbox() as sandbox:
        (found,) = play(sandbox, launch(*arguments, steps=steps))
    assert found["failures"] == []


def test_an_appended_file_survives_the_merge() -> None:
    """A system prompt that the host appends from a file is there beside the clause."""
    with fresh_sandbox() as sandbox:
        (sandbox.work / "f.txt").write_text("FILE-MARK", encoding="utf-8")
        own = ("--append-system-prompt-file", "f.txt")
        steps = asks(system_contains=["FILE-MARK", ASK])
        (found,) = play(sandbox, launch("-p", PROMPT, *STREAM, *own, steps=steps))
    assert found["failures"] == []


def test_the_projects_server_of_our_name_does_not_answer() -> None:
    """A project that defines a server of the ask server's name gets none of its calls."""
    with fresh_sandbox() as sandbox:
        (sandbox.work / "server.py").write_text(SERVER.replace("ping", "ask_user_question"), encoding="utf-8")
        own = {"opask": {"command": sys.executable, "args": ["server.py"]}}
        (sandbox.work / ".mcp.json").write_text(json.dumps({"mcpServers": own}), encoding="utf-8")
        (found,) = play(sandbox, launch("-p", PROMPT, *STREAM, steps=asks()))
    assert found["failures"] == []


def test_nobody_there_is_told_and_a_resumed_run_is_told_anew() -> None:
    """Without an operator the model is told to go on alone; resumed with one, it is told how to ask, and no more."""
    session = "5d1f5a0e-3c1b-4b6e-9a55-0d3a5a1f7c11"
    alone = [
        {
            "expect": {"absent": [ASK, "AskUserQuestion"], "system_contains": ["Proceed alone"]},
            "reply": {"text": "I go on alone."},
        }
    ]
    later = asks(system_contains=[ASK], system_lacks=["Proceed alone"])
    with fresh_sandbox() as sandbox:
        first, second = play(
            sandbox,
            launch("-p", PROMPT, *STREAM, "--session-id", session, steps=alone, there=False),
            launch("-p", PROMPT, *STREAM, "--resume", session, steps=later),
        )
    assert first["failures"] == []
    assert second["failures"] == []
    ready = [
        next(event for event in run["events"] if event["event"] == "session_ready") for run in (first, second)
    ]
    assert [event["questions"] for event in ready] == [False, True]


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "dontAsk", "plan", "bypassPermissions"])
def test_no_mode_answers_or_hinders_a_question(mode: str) -> None:
    """In every permission mode the question is asked and answered, and correlated by the announced call's id."""
    with fresh_sandbox() as sandbox:
        (sandbox.home / ".claude").mkdir()
        (found,) = play(sandbox, launch("-p", PROMPT, *STREAM, "--permission-mode", mode, steps=asks()))
    assert found["failures"] == []
    events = {event["event"]: event for event in found["events"]}
    assert events["question_resolved"]["answers"] == {QUESTION: "SQLite"}
    assert events["question_asked"]["tool_call_id"] == events["tool_announced"]["tool_call_id"]


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "dontAsk", "plan", "bypassPermissions"])
def test_control_mode_needs_no_handshake(mode: str) -> None:
    """With prompts on stdin the first prompt may be sent at once, and the tool is there for it, in every mode."""
    control = ("-p", "--input-format", "stream-json", *STREAM, "--permission-prompt-tool", "stdio")
    with fresh_sandbox() as sandbox:
        (found,) = play(
            sandbox, launch(*control, "--permission-mode", mode, steps=asks(text_contains=[PROMPT]))
        )
    assert found["failures"] == []
