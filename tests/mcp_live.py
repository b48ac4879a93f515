"""Run inside a namespace of its own: the real claude drives a second one by `opask mcp`, both against the scripted model.

``python mcp_live.py CLAUDE HOW``; prints what did not fit, what the driving claude said, and the inbox's entry. HOW the
question is answered: ``parked``, by the driving agent, since claude without a host turns forms down by itself; ``form``,
by the driving claude's host, which claude hands the form to; ``elsewhere``, in the inbox, before that host fills it in;
``turns``: nothing is asked, and the driven claude is given a second prompt.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from live_scenes import ASK, DATABASE, NATIVE, ask, given, says
from opask import Answer, Answered
from opask.inbox import Entry, SessionChanged, SqliteStore, entry_to_json
from opask_probes.model import Call, Conversation, Expect, Scenario, When, serve
from opask_probes.runtimes import RUNTIMES

OPASK = Path(sys.executable).with_name("opask")
TOOLS = tuple(
    f"mcp__driver__{name}"
    for name in ("session_drive", "session_answer", "session_cancel", "session_status", "sessions_list")
)
PRINTS = ("parked", "turns")  # without a host of the driving claude
STREAM = ("--output-format", "stream-json", "--verbose")


def scenario(how: str, answer: dict[str, Any]) -> Scenario:
    """Make the scenario of both agents; the driving one takes the question's or the session's id from ``answer``."""
    if how == "turns":
        return turns(answer)
    drive = Call("mcp__driver__session_drive", {"runtime": "claude", "prompt": "SUB work"})
    first = says("I drive.", drive, expect=Expect(offered=TOOLS))
    others = ('"by":"web:alice"',) if how == "elsewhere" else ()
    outcome = given('"outcome":"done"', "Picked", "SQLite", *others, lacks=("PostgreSQL",))
    last = says("It is done.", expect=outcome)
    parked = says(
        "It asks.",
        Call("mcp__driver__session_answer", answer),
        expect=given('"awaiting_operator":true', DATABASE, "no person's"),
        hold="known",
    )
    main = (first, parked, last) if how == "parked" else (first, last)
    sub = (
        says("I ask.", ask(DATABASE), expect=Expect(offered=(ASK,), absent=(NATIVE, *TOOLS))),
        says("Picked {{result}}", expect=given("SQLite")),
    )
    return Scenario(
        "driven",
        (
            Conversation("main", main, When(prompt_contains=("MAIN",))),
            Conversation("sub", sub, When(prompt_contains=("SUB",))),
        ),
    )


def turns(again: dict[str, Any]) -> Scenario:
    """Make the scenario in which nothing is asked, and a second prompt follows the first one."""
    drive = "mcp__driver__session_drive"
    main = (
        says("I drive.", Call(drive, {"runtime": "claude", "prompt": "SUB first"})),
        says("And on.", Call(drive, again), expect=given('"outcome":"done"', "One."), hold="known"),
        says("It is done.", expect=given('"outcome":"done"', "Two.")),
    )
    sub = (says("One."), says("Two.", expect=Expect(text_contains=("then",))))
    return Scenario(
        "turns",
        (
            Conversation("main", main, When(prompt_contains=("MAIN",))),
            Conversation("sub", sub, When(prompt_contains=("SUB",))),
        ),
    )


async def pending(store: SqliteStore) -> Entry:
    """Wait for a question."""
    async for update in store.watch():
        entries: Any = getattr(update, "entries", None) or [getattr(update, "entry", None)]
        for entry in entries:
            if entry is not None and entry.state == "pending":
                found: Entry = entry
                return found
    raise AssertionError


async def write(process: Process, message: dict[str, Any]) -> None:
    """Send the driving claude a message."""
    assert process.stdin is not None
    await process.stdin.send(json.dumps(message).encode() + b"\n")


async def main(claude: str, how: str) -> None:
    """Play it."""
    inbox = Path.cwd() / "inbox.db"
    answer: dict[str, Any] = {"question_id": "", "answers": [{"labels": ["SQLite"]}]}
    if how == "turns":
        answer = {"session_id": "", "prompt": "then"}
    said: list[dict[str, Any]] = []
    forms: list[dict[str, Any]] = []
    async with serve(scenario(how, answer), verify=False) as model, SqliteStore(inbox) as store:
        way = dict(RUNTIMES["claude"].model(model.url))
        arguments = ["mcp", "--inbox", str(inbox), "--runtime", "claude", "--bin", f"claude={claude}"]
        server = {"command": str(OPASK), "args": arguments, "env": way}
        prompt = ("MAIN",) if how in PRINTS else ("--input-format", "stream-json")
        argv = [claude, "-p", *prompt, *STREAM, "--strict-mcp-config"]
        argv += [
            "--mcp-config",
            json.dumps({"mcpServers": {"driver": server}}),
            "--allowedTools",
            ",".join(TOOLS),
        ]
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | way
        started = await anyio.open_process(argv, env=env, stderr=subprocess.DEVNULL)
        async with started as process, anyio.create_task_group() as tasks:

            async def answers() -> None:
                if how == "turns":
                    async for update in store.watch():
                        if isinstance(update, SessionChanged):
                            answer["session_id"] = update.session.id
                            model.release("known")
                entry = await pending(store)
                answer["question_id"] = entry.id
                if how == "parked":
                    model.release("known")

            tasks.start_soon(answers)
            if how in PRINTS:
                assert process.stdin is not None
                await process.stdin.aclose()
            else:
                content = [{"type": "text", "text": "MAIN"}]
                await write(process, {"type": "user", "message": {"role": "user", "content": content}})
            assert process.stdout is not None
            stream = BufferedByteReceiveStream(process.stdout)
            while True:
                try:
                    message = json.loads(await stream.receive_until(b"\n", 1 << 26))
                except (anyio.EndOfStream, anyio.IncompleteRead):
                    break
                said.append(message)
                request = message.get("request", {})
                if message["type"] == "control_request" and request.get("subtype") == "elicitation":
                    forms.append(request)
                    if how == "elsewhere":
                        await store.resolve(answer["question_id"], Answered((Answer((1,)),), "web:alice"))
                    chosen = (
                        "SQLite" if how == "form" else "PostgreSQL"
                    )  # which comes second, and counts for nothing
                    reply = {"action": "accept", "content": {"q1": chosen}}
                    response = {"subtype": "success", "request_id": message["request_id"], "response": reply}
                    await write(process, {"type": "control_response", "response": response})
                if message["type"] == "result":
                    assert process.stdin is not None
                    await process.stdin.aclose()
            code = await process.wait()
            tasks.cancel_scope.cancel()
        entries = [entry_to_json(entry) for entry in await store.entries()]
        failures = [str(failure) for failure in model.failures + model.unplayed]
    results = [message["result"] for message in said if message["type"] == "result"]
    json.dump(
        {"failures": failures, "entries": entries, "results": results, "forms": forms, "code": code},
        sys.stdout,
    )


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])
