from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import opask.cli.demo_adapter
from cli_runtimes import DATABASE, PARTS, SECONDS

AGENT = Path(opask.cli.demo_adapter.__file__).with_name("demo_agent.py")
SERVER = """
import json, sys
def hear(): return json.loads(sys.stdin.readline())
def say(id, **more): print(json.dumps({"jsonrpc": "2.0", "id": id, **more}), flush=True)
def result(id, value): say(id, result=value)
def greet():
    result(hear()["id"], {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {}})
    assert hear()["method"] == "notifications/initialized"
def list_tools(*names): result(hear()["id"], {"tools": [{"name": name} for name in names]})
"""


def agent(script: str) -> subprocess.Popen[str]:
    """Start the agent with an ask server of a few lines."""
    server = json.dumps([sys.executable, "-I", "-S", "-c", SERVER + script])
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(AGENT), "--server", server, "--", "work"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(script: str) -> tuple[int, list[dict[str, Any]], str]:
    """Run the agent to its end; give exit code, events and stderr."""
    process = agent(script)
    out, err = process.communicate(timeout=SECONDS)
    return process.returncode, [json.loads(line) for line in out.splitlines()], err


def said(events: list[dict[str, Any]]) -> str:
    """Give what the agent said."""
    return "".join(event["text"] for event in events if event["type"] == "text")


def test_the_agent_speaks_the_protocol_as_a_runtime_does() -> None:
    """It initializes, lists the tools, calls the one, passes over what it did not ask for, and tells the answers."""
    code, events, err = run(
        "greet(); list_tools('other', 'ask_user_question'); call = hear()\n"
        "assert call['params']['_meta'] == {'opask-demo/call': 'call-3'}\n"
        "assert [q['multiSelect'] for q in call['params']['arguments']['questions']] == [False, True]\n"
        "print(json.dumps({'jsonrpc': '2.0', 'method': 'notifications/progress', 'params': {}}), flush=True)\n"
        "say(99, result={}); say(call['id'], method='ping')\n"
        f"answers = {{{DATABASE!r}: 'my, own', {PARTS!r}: ['API', 'a, b']}}\n"
        "result(call['id'], {'structuredContent': {'answers': answers}, 'content': []})\n"
        "assert sys.stdin.read() == ''"
    )
    assert (code, err) == (0, "")
    kinds = [event["type"] for event in events if event["type"] != "text"]
    assert kinds == ["ready", "turn_started", "tool_call", "tool_result", "turn_ended"]
    assert said(events).endswith("The service will use “my, own”. I will do first: “API”, “a, b”. \n")


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("greet(); list_tools('other')", "the ask server has no tool ask_user_question"),
        ("greet(); say(hear()['id'], error={'code': -1, 'message': 'no'})", "tools/list: no"),
        ("greet(); list_tools('ask_user_question'); hear()", "the ask server has ended"),
        ("sys.exit(1)", "the ask server has ended"),
        ("print('garbage', flush=True); sys.stdin.read()", "Expecting value"),
    ],
)
def test_an_ask_server_that_fails_ends_the_turn_in_an_error(script: str, told: str) -> None:
    """The agent says on stderr what was wrong, ends its turn as failed, and exits with 1."""
    code, events, err = run(script)
    assert code == 1
    assert err.startswith(f"demo agent: {told}")
    assert events[-1] == {"type": "turn_ended", "reason": "failed", "is_error": True}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_agent_cancels_what_it_asked(number: signal.Signals) -> None:
    """As runtimes do, it sends the cancel before it ends."""
    process = agent(
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "greet(); list_tools('ask_user_question'); call = hear(); sys.stderr.write('asked\\n'); sys.stderr.flush()\n"
        "cancel = hear(); sys.stderr.write(f\"{cancel['method']} {cancel['params']['requestId'] == call['id']}\")"
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "asked\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (130, "notifications/cancelled True")
    assert json.loads(out.splitlines()[-1]) == {
        "type": "turn_ended",
        "reason": "interrupted",
        "is_error": True,
    }
