"""The README keeps its promises: its host example runs as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

CLAUDE = '''\
#!{python}
"""Speaks as much of the CLI as the example needs: it starts the server it was given, asks, and quotes the answer."""
import json, subprocess, sys

arguments = sys.argv[1:]
assert arguments[:2] == ["-p", "Set up the service"], arguments
(config,) = [json.load(open(it.partition("=")[2])) for it in arguments if it.startswith("--mcp-config=")]
(server,) = config["mcpServers"].values()
relay = subprocess.Popen([server["command"], *server["args"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def request(number, method, **params):
    message = dict(jsonrpc="2.0", id=number, method=method, params=params)
    relay.stdin.write(json.dumps(message).encode() + b"\\n")
    relay.stdin.flush()
    return json.loads(relay.stdout.readline())["result"]


def say(**message):
    print(json.dumps(message), flush=True)


request(1, "initialize", protocolVersion="2025-11-25", capabilities={{}}, clientInfo=dict(name="c", version="0"))
(tool,) = request(2, "tools/list")["tools"]
name = "mcp__opask__" + tool["name"]
say(type="system", subtype="init", tools=[name], mcp_servers=[dict(name="opask", status="connected")],
    claude_code_version="2.1.332")
asked = dict(questions=[dict(question="Which database?", options=["SQLite", "PostgreSQL"])])
say(type="assistant", message=dict(role="assistant", content=[
    dict(type="tool_use", id="toolu_1", name=name, input=asked)]))
result = request(3, "tools/call", name=tool["name"], arguments=asked, _meta={{"claudecode/toolUseId": "toolu_1"}})
answer = result["structuredContent"]["answers"]
say(type="user", message=dict(role="user", content=[
    dict(type="tool_result", tool_use_id="toolu_1", content=json.dumps(answer))]))
say(type="assistant", message=dict(role="assistant", content=[dict(type="text", text=json.dumps(answer))]))
say(type="result", subtype="success", is_error=False, result=json.dumps(answer))
relay.stdin.close()
relay.wait()
'''


def blocks(language: str) -> list[str]:
    """Return the README's code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_the_host_example_runs_as_it_stands(tmp_path: Path) -> None:
    """A runtime asks, the operator types a number, and the host sees the question resolved."""
    (example,) = blocks("python")
    claude = tmp_path / "claude"
    claude.write_text(CLAUDE.format(python=sys.executable), encoding="utf-8")
    claude.chmod(0o700)
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", example],
        input="2\n",
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    shown = done.stdout.splitlines()
    assert "Which database?" in shown
    assert any("PostgreSQL" in line for line in shown)
    # Two threads print: a line's end may come after the other one's word.
    for event in ("session_ready", "question_asked", "question_resolved", "turn_ended"):
        assert done.stdout.count(event) == 1
    assert done.stdout.count("answered") == 1


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)#]+)\)", README))
def test_what_the_readme_points_to_is_there(path: str) -> None:
    """No link of the README is dead."""
    assert (ROOT / path).exists()


def test_the_two_commands_come_first() -> None:
    """What it is, a picture, the two commands: nothing stands before them."""
    (first, *_) = blocks("sh")
    assert [line.split("  ")[0].strip() for line in first.splitlines()] == ["make demo", "make test"]
    assert README.index("make demo") < README.index("## ")
    assert README.index("![") < README.index("make demo")
