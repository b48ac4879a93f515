"""A runtime that does what the probes need of claude, in a few lines, and does one thing wrong where it is told to.

Made into a program by `fake_claude_at`. It knows claude's options, its stream-json, its MCP servers over stdio, its
sub-agents and its way to a model, each only as far as the scenarios of the probes go. Standard library alone.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

FLAW = ""
VERSION = "2.1.332 (Claude Code)"
NATIVE = "AskUserQuestion"
DATABASE = "Which database should the service use?"
LOCK = threading.Lock()
INTERRUPTED = threading.Event()


def fake_claude_at(folder: Path, flaw: str = "") -> Path:
    """Write the program, with a flaw or none, and give its path."""
    source = Path(__file__).read_text(encoding="utf-8").replace('FLAW = ""', f"FLAW = {flaw!r}", 1)
    program = folder / "claude"
    program.write_text(f"#!{sys.executable} -IS\n{source}", encoding="utf-8")
    program.chmod(0o755)
    return program


def say(kind: str, **more: Any) -> None:
    """Write a message."""
    write(json.dumps({"type": kind, **more}))


def write(line: str) -> None:
    """Write a line."""
    with LOCK:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


class GoneError(Exception):
    """A server's connection ended."""


class Server:
    """A stdio MCP server, started when it is needed."""

    def __init__(self, name: str, config: dict[str, Any]) -> None:
        self.name = name
        self.argv = [config["command"], *config["args"]]
        self.process: subprocess.Popen[bytes] | None = None
        self.waiting: dict[int, queue.Queue[Any]] = {}
        self.number = 0
        self.starts = 0
        self.lock = threading.Lock()

    def start(self) -> None:
        """Start it, unless it runs."""
        with self.lock:
            if self.process is not None and self.process.poll() is None:
                return
            if FLAW == "relay-crash" and self.starts:
                raise GoneError
            self.starts += 1
            self.process = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            threading.Thread(target=self.read, args=(self.process,), daemon=True).start()
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "fake", "version": "1"},
        }
        self.request("initialize", hello)
        self.send({"method": "notifications/initialized"})

    def read(self, process: subprocess.Popen[bytes]) -> None:
        """Take in what it says until it ends."""
        assert process.stdout is not None
        for line in process.stdout:
            message = json.loads(line)
            if message.get("id") in self.waiting:
                self.waiting.pop(message["id"]).put(message)
        for one in list(self.waiting.values()):
            one.put(None)

    def send(self, message: dict[str, Any]) -> None:
        """Write a message to it."""
        assert self.process is not None
        assert self.process.stdin is not None
        try:
            with self.lock:
                self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
                self.process.stdin.flush()
        except OSError:
            raise GoneError from None

    def request(self, method: str, params: dict[str, Any], seconds: float = 900) -> Any:
        """Make a request and wait for its result."""
        self.number += 1
        number, reply = self.number, queue.Queue[Any]()
        self.waiting[number] = reply
        self.send({"id": number, "method": method, "params": params})
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                message = reply.get(timeout=0.05)
            except queue.Empty:
                if INTERRUPTED.is_set():
                    self.send({"method": "notifications/cancelled", "params": {"requestId": number}})
                    raise InterruptedError from None
                continue
            if message is None:
                raise GoneError
            return message["result"]
        raise TimeoutError

    def tools(self) -> list[dict[str, Any]]:
        """List its tools, named as the model has them."""
        patience = 1.0 if FLAW == "slow-start" else 30.0
        begun: queue.Queue[Any] = queue.Queue()

        def begin() -> None:
            try:
                self.start()
                begun.put(self.request("tools/list", {})["tools"])
            except GoneError:
                begun.put([])

        threading.Thread(target=begin, daemon=True).start()
        try:
            listed = begun.get(timeout=patience)
        except queue.Empty:
            return []
        return [{**tool, "name": f"mcp__{self.name}__{tool['name']}"} for tool in listed]


class Options:
    """The command line, as far as it matters."""

    def __init__(self, argv: list[str]) -> None:
        self.found: dict[str, list[str]] = {}
        self.prompt: str | None = None
        rest = iter(argv)
        for argument in rest:
            name, glued, value = argument.partition("=")
            if name in {"-p", "--verbose"}:
                continue
            if not argument.startswith("--"):
                self.prompt = argument
            else:
                self.found.setdefault(name, []).append(value if glued else next(rest))

    def values(self, name: str) -> list[str]:
        """Give the values of an option, in all its places."""
        return [part for value in self.found.get(name, []) for part in value.split(",")]

    def servers(self) -> Iterator[Server]:
        """Give the MCP servers."""
        for value in self.found.get("--mcp-config", []):
            text = value if value.startswith("{") else Path(value).read_text(encoding="utf-8")
            for name, config in json.loads(text)["mcpServers"].items():
                yield Server(name, config)


class Agents:
    """The main agent and its sub-agents."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.servers = {} if FLAW == "never-starts" else {server.name: server for server in options.servers()}
        self.tools = {tool["name"]: tool for server in self.servers.values() for tool in server.tools()}
        self.bypasses = options.values("--permission-mode") == ["bypassPermissions"]
        self.allowed = options.values("--allowedTools")
        self.refuses_native = NATIVE in options.values("--disallowedTools") and FLAW != "native"

    def init(self) -> None:
        """Say what there is."""
        servers = [
            {
                "name": server.name,
                "status": "connected"
                if any(f"mcp__{server.name}__" in tool for tool in self.tools)
                else "failed",
                "source": "dynamic",
            }
            for server in self.servers.values()
        ]
        say(
            "system",
            subtype="init",
            tools=["Task", *self.tools],
            mcp_servers=servers,
            claude_code_version=VERSION.split(maxsplit=1)[0],
        )

    def turn(self, prompt: str) -> bool:
        """Have the main agent do a prompt; tell whether it went well."""
        self.init()
        try:
            text = self.converse(prompt, {"parent_tool_use_id": None})
        except (InterruptedError, ValueError) as error:
            say("result", subtype="error_during_execution", is_error=True, errors=[str(error)])
            return False
        say("result", subtype="success", is_error=False, result=text, stop_reason="end_turn")
        return True

    def converse(self, prompt: str, agent: dict[str, Any]) -> str:
        """Go on until the model calls nothing more; give its last words."""
        tools = {"Agent": {"name": "Agent"}, **self.tools}
        if FLAW == "sub-agent" and agent["parent_tool_use_id"]:
            tools = {"Read": {"name": "Read"}}
        messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
        while True:
            reply = self.ask_model(messages, tools)
            for block in reply["content"]:
                say("assistant", message={"role": "assistant", "content": [block]}, **agent)
            calls = [block for block in reply["content"] if block["type"] == "tool_use"]
            if not calls:
                return "".join(block["text"] for block in reply["content"])
            results = self.results(calls, set(tools), agent)
            messages += [
                {"role": "assistant", "content": reply["content"]},
                {"role": "user", "content": results},
            ]

    def ask_model(self, messages: list[dict[str, Any]], tools: dict[str, dict[str, Any]]) -> Any:
        """Ask the model."""
        offered = [
            {
                "name": name,
                "description": tool.get("description", ""),
                "input_schema": tool.get("inputSchema", {"type": "object"}),
            }
            for name, tool in tools.items()
        ]
        body = {
            "model": "fake",
            "max_tokens": 1000,
            "system": "\n".join(self.options.found.get("--append-system-prompt", [""])),
            "tools": offered,
            "messages": messages,
        }
        host = os.environ["ANTHROPIC_BASE_URL"].removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=60)
        headers = {
            "anthropic-version": "2023-06-01",
            "x-api-key": "sk-test",
            "content-type": "application/json",
        }
        connection.request("POST", "/v1/messages", json.dumps(body), headers)
        response = connection.getresponse()
        reply = json.loads(response.read())
        if response.status != 200:
            raise ValueError(reply["error"]["message"])
        return reply

    def results(
        self, calls: list[dict[str, Any]], known: set[str], agent: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Run calls at once, and give their results in order."""
        results = []
        with ThreadPoolExecutor(1 if FLAW == "two" else 8) as pool:
            futures = [pool.submit(self.result, call, known) for call in calls]
            for call, future in zip(calls, futures, strict=True):
                text, is_error = future.result()
                block = {"type": "tool_result", "tool_use_id": call["id"], "content": text}
                block |= {"is_error": True} if is_error else {}
                results.append(block)
                say("user", message={"role": "user", "content": [block]}, **agent)
        return results

    def result(self, call: dict[str, Any], known: set[str]) -> tuple[str, bool]:
        """Run one call; give its result, and whether it is an error."""
        name, arguments = call["name"], call["input"]
        if name == NATIVE:
            if self.refuses_native:
                return f"No such tool available: {NATIVE}", True
            return answer_of_its_own(arguments), False
        if name not in known:
            return f"No such tool available: {name}", True
        if name == "Agent":
            agent = {"parent_tool_use_id": call["id"], "agent_id": f"agent-{call['id']}"}
            return self.converse(arguments["prompt"], agent), False
        if not self.may(name):
            return f"You have not been granted {name}.", True
        if (FLAW == "single" and arguments["questions"][0]["question"] == DATABASE) or (
            FLAW == "bypass" and self.bypasses
        ):
            return answer_of_its_own(arguments), False
        _, server, tool = name.split("__", 2)
        meta = {"claudecode/toolUseId": call["id"], "progressToken": 1}
        patience = 4.0 if FLAW == "long-wait" else 900.0
        try:
            self.servers[server].start()
            params = {"name": tool, "arguments": arguments, "_meta": meta}
            answer = self.servers[server].request("tools/call", params, patience)
        except (GoneError, TimeoutError):
            return "Connection closed", True
        return spoilt(answer["content"][0]["text"], arguments), answer.get("isError", False)

    def may(self, name: str) -> bool:
        """Tell whether a tool may run."""
        alike = FLAW == "foreign" and any(name.endswith(rule.removeprefix("mcp__")) for rule in self.allowed)
        return self.bypasses or name in self.allowed or alike


def answer_of_its_own(arguments: dict[str, Any]) -> str:
    """Answer in the operator's place, with the first option."""
    answers = {one["question"]: one["options"][0]["label"] for one in arguments["questions"]}
    return json.dumps({"answers": answers})


def spoilt(text: str, arguments: dict[str, Any]) -> str:
    """Give a result as it is, or less."""
    try:
        answers = json.loads(text)["answers"]
    except (ValueError, KeyError):
        return text
    for question in arguments["questions"]:
        key, labels = question["question"], [option["label"] for option in question["options"]]
        if FLAW == "multi" and isinstance(answers[key], list):
            answers[key] = answers[key][:1]
        if FLAW == "free-text" and isinstance(answers[key], str) and answers[key] not in labels:
            answers[key] = labels[0]
    return json.dumps({"answers": answers}, ensure_ascii=False)


def talk(agents: Agents) -> int:
    """Hold a conversation over stdin."""
    went_well = True
    turns: list[threading.Thread] = []

    def turn(prompt: str) -> None:
        nonlocal went_well
        went_well = agents.turn(prompt)

    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "user":
            prompt = message["message"]["content"][0]["text"]
            turns.append(threading.Thread(target=turn, args=(prompt,)))
            turns[-1].start()
        elif message["type"] == "control_request" and FLAW != "cancel":
            INTERRUPTED.set()
            response = {"subtype": "success", "request_id": message["request_id"], "response": {}}
            say("control_response", response=response)
    for one in turns:
        one.join()
    return 0 if went_well else 1


def main(argv: list[str]) -> int:
    """Run as claude would."""
    if argv == ["--version"]:
        write(VERSION)
        return 0
    if FLAW == "dies":
        return 3
    if FLAW == "hangs":
        time.sleep(3600)
    if FLAW == "garbage":
        for number in range(20):
            write(f"\x1b[31m{number}: {{not json")
        return 0
    options = Options(argv)
    agents = Agents(options)
    if "stream-json" in options.values("--input-format"):
        return talk(agents)
    assert options.prompt is not None
    return 0 if agents.turn(options.prompt) else 1


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
