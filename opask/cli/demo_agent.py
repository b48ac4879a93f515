"""The agent of `opask demo`: a runtime in small, with a script in place of a model.

Run as ``python -I -S demo_agent.py [--server JSON] [--pace SECONDS] -- TASK``. ``--server`` is the command of a
stdio MCP server, which it starts as any runtime does; it asks by that server's tool, waits, and says on stdout, in
JSON lines, what it does: ``ready``, ``turn_started``, ``text``, ``tool_call``, ``tool_result``, ``turn_ended``.

Standard library alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

PROTOCOL = "2025-06-18"
TOOL = "ask_user_question"
DATABASE = "Which database should the service use?"
PARTS = "Which parts should be done first?"
QUESTIONS = [
    {
        "question": DATABASE,
        "header": "Database",
        "multiSelect": False,
        "options": [
            {"label": "PostgreSQL", "description": "a server of its own; many writers at once"},
            {"label": "SQLite", "description": "one file; nothing to run"},
        ],
    },
    {
        "question": PARTS,
        "header": "First parts",
        "multiSelect": True,
        "options": [
            {"label": "API", "description": "what other programs talk to"},
            {"label": "Web page", "description": "what people look at"},
            {"label": "Docs", "description": "what both read"},
        ],
    },
]


class ServerError(Exception):
    """The ask server does not do what a server has to."""


def say(kind: str, **more: object) -> None:
    """Write an event."""
    print(json.dumps({"type": kind, **more}), flush=True)


class Speech:
    """Says text in pieces, as a model does."""

    def __init__(self, pace: float) -> None:
        self.pace = pace

    def __call__(self, text: str) -> None:
        """Say some text."""
        for piece in text.split(" "):
            say("text", text=f"{piece} ")
            time.sleep(self.pace)
        say("text", text="\n")


class Server:
    """An MCP server as a child, over its stdio."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.last_id = 0

    def send(self, method: str, params: object = None, **more: object) -> None:
        """Send a request or a notification."""
        message: dict[str, object] = {"jsonrpc": "2.0", "method": method, **more}
        if params is not None:
            message["params"] = params
        try:
            self.stdin.write(json.dumps(message).encode() + b"\n")
            self.stdin.flush()
        except OSError as error:
            raise ServerError("the ask server has ended") from error

    def request(self, method: str, params: object = None) -> Any:
        """Send a request and wait for its result, however long that takes."""
        self.last_id += 1
        self.send(method, params, id=self.last_id)
        for line in self.stdout:
            message = json.loads(line)
            if message.get("id") == self.last_id and "method" not in message:
                if "result" not in message:
                    raise ServerError(f"{method}: {message.get('error', {}).get('message')}")
                return message["result"]
        raise ServerError("the ask server has ended")

    def cancel(self) -> None:
        """Say that the result of the last request is not waited for any more."""
        self.send("notifications/cancelled", {"requestId": self.last_id, "reason": "interrupted"})

    def close(self) -> None:
        """End the server."""
        self.stdin.close()
        self.process.wait()


def connected(command: list[str]) -> Server:
    """Start the server and list its tools, as a runtime does before its first turn."""
    server = Server(command)
    client = {"name": "opask-demo", "version": "1"}
    server.request("initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client})
    server.send("notifications/initialized")
    tools = [tool["name"] for tool in server.request("tools/list")["tools"]]
    say("ready", tools=tools)
    if TOOL not in tools:
        raise ServerError(f"the ask server has no tool {TOOL}")
    return server


def asked(server: Server) -> Any:
    """Ask both questions and wait; give the tool's result."""
    call = f"call-{server.last_id + 1}"
    say("tool_call", id=call, tool=TOOL)
    meta = {"opask-demo/call": call}
    result = server.request(
        "tools/call", {"name": TOOL, "arguments": {"questions": QUESTIONS}, "_meta": meta}
    )
    say("tool_result", id=call, tool=TOOL, is_error=bool(result.get("isError")))
    return result


def quoted(answer: str | list[str]) -> str:
    """Quote an answer: what was picked and nothing else."""
    return ", ".join(f"“{part}”" for part in ([answer] if isinstance(answer, str) else answer))


def reply(result: Any) -> str:
    """Give what the agent says to a result of its ask."""
    if result.get("isError"):
        told = " ".join(block.get("text", "") for block in result.get("content", []))
        return f"I got no answer and was told: “{told}” So I leave both open."
    answers = (result.get("structuredContent") or {}).get("answers", {})
    database = answers.get(DATABASE)
    parts = answers.get(PARTS)
    return (f"The service will use {quoted(database)}. " if database else "You left the database open. ") + (
        f"I will do first: {quoted(parts)}." if parts else "You left open what comes first."
    )


def work(task: str, command: list[str] | None, speak: Speech) -> str:
    """Do the turn; give how it ended."""
    server = connected(command) if command else None
    say("turn_started")
    if server is None:
        speak("Nobody is there to ask, so I leave open what only a person can decide.")
        return "done"
    try:
        speak(f"I was asked to: {task}. Two things are not mine to decide, so I ask.")
        speak(reply(asked(server)))
        server.close()
    except KeyboardInterrupt:
        server.cancel()
        return "interrupted"
    return "done"


def main(arguments: list[str]) -> int:
    """Run as the module's docstring says; give the exit code."""
    options = dict(zip(arguments[::2], arguments[1::2], strict=False))
    command = json.loads(options.get("--server", "null"))
    speak = Speech(float(options.get("--pace", "0")))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        reason = work(options.get("--", "nothing"), command, speak)
    except KeyboardInterrupt:
        reason = "interrupted"
    except (ServerError, ValueError, OSError) as error:
        print(f"demo agent: {error}", file=sys.stderr)
        say("turn_ended", reason="failed", is_error=True)
        return 1
    say("turn_ended", reason=reason, is_error=reason != "done")
    return 0 if reason == "done" else 130


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
