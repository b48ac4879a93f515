"""An ACP agent made with the protocol's own Python package: it does what it is told to in its argv, and reports back.

Run as a program. Each argument is one act of a turn, a JSON object: ``{"say": text}``, ``{"ask": arguments}`` (by the
ask tool that the session names), ``{"native": …}`` and ``{"form": …}`` (its own ask tool, in its two disguises),
``{"read": path}`` (a file of the client's), ``{"echo": true}`` (says what it was prompted with), ``{"tools": true}`` (says
what the server has listed), ``{"exit": code}``. The last thing that it says in a turn is what came of the acts, as JSON.
``{"fail": text}`` gives no session, with ``{"late": true}`` the session does not wait for its server.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import acp
from acp.schema import (
    AgentCapabilities,
    AuthMethodAgent,
    ElicitationFormSessionMode,
    ElicitationSchema,
    Implementation,
    McpServerStdio,
    PermissionOption,
    ToolCallUpdate,
)

SESSION = "sess_made_up"


class AskServer:
    """An MCP client of few words, over the stdio of the server that the session names."""

    def __init__(self, entry: McpServerStdio) -> None:
        self._entry = entry
        self._ids = itertools.count(1)
        self._waiting: dict[object, asyncio.Future[Any]] = {}
        self._process: asyncio.subprocess.Process
        self._reader: asyncio.Task[None]  # ends with the process

    async def start(self) -> list[str]:
        """Start the server; return the names of its tools."""
        env = {each.name: each.value for each in self._entry.env}
        self._process = await asyncio.create_subprocess_exec(
            self._entry.command,
            *self._entry.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={"PATH": os.environ["PATH"], **env},
        )
        self._reader = asyncio.create_task(self._read())
        client = {"name": "acp-agent", "version": "1"}
        await self.call(
            "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        )
        self._send({"method": "notifications/initialized"})
        return [tool["name"] for tool in (await self.call("tools/list", {}))["tools"]]

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """Make a request and wait for its answer."""
        request_id = next(self._ids)
        self._waiting[request_id] = asyncio.get_running_loop().create_future()
        self._send({"id": request_id, "method": method, "params": params})
        return await self._waiting[request_id]

    async def _read(self) -> None:
        """Give answers to who waits for them, and answer pings, until the server is gone."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            message = json.loads(line)
            if message.get("method") == "ping":
                self._send({"id": message["id"], "result": {}})
            elif "method" not in message:
                waiting = self._waiting.pop(message["id"])
                if not waiting.done():  # the turn that it was in may have been cancelled
                    waiting.set_result(message.get("result", message.get("error")))
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("the ask server went away"))


class MadeUpAgent:
    """The agent."""

    def __init__(self, acts: Sequence[Mapping[str, Any]]) -> None:
        self._acts = acts
        self._client: acp.Client
        self._server: AskServer | None = None
        self._name = ""
        self._tools: list[str] = []
        self._cancelled = asyncio.Event()
        self._calls = itertools.count(1)
        self._serving: asyncio.Task[None] | None = None

    def on_connect(self, client: acp.Client) -> None:
        """Remember who is talked to."""
        self._client = client

    async def initialize(self, protocol_version: int, **more: Any) -> acp.InitializeResponse:
        """Say what it is."""
        return acp.InitializeResponse(
            protocol_version=protocol_version,
            agent_capabilities=AgentCapabilities(load_session=True),
            agent_info=Implementation(name="made-up", version="4.5.6"),
            auth_methods=[AuthMethodAgent(id="browser", name="In a browser")],
        )

    async def new_session(self, cwd: str, mcp_servers: Any = None, **more: Any) -> acp.NewSessionResponse:
        """Start the session's server, as an agent does."""
        for act in self._acts:
            if "fail" in act:
                raise acp.RequestError(-32000, act["fail"])
        serving = self._serve(mcp_servers)
        if {"late": True} in self._acts:
            self._serving = asyncio.create_task(serving)
        else:
            await serving
        return acp.NewSessionResponse(session_id=SESSION)

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, **more: Any
    ) -> acp.LoadSessionResponse:
        """Replay a past in which something was asked, then go on."""
        await self._say("This was said long ago.")
        await self._client.session_update(
            session_id, acp.start_tool_call("old", "Asked long ago", raw_input={"questions": []})
        )
        await self._serve(mcp_servers)
        return acp.LoadSessionResponse()

    async def _serve(self, servers: Sequence[Any] | None) -> None:
        for entry in servers or ():
            if isinstance(entry, McpServerStdio) and entry.name.startswith("opask"):
                self._server, self._name = AskServer(entry), entry.name
                self._tools = await self._server.start()

    async def cancel(self, session_id: str, **more: Any) -> None:
        """End the turn; the server is told nothing."""
        self._cancelled.set()

    async def prompt(self, session_id: str, prompt: Sequence[Any], **more: Any) -> acp.PromptResponse:
        """Act, unless cancelled."""
        self._cancelled.clear()
        acting = asyncio.ensure_future(self._act([block.text for block in prompt]))
        stopping = asyncio.ensure_future(self._cancelled.wait())
        await asyncio.wait({acting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if acting.done():
            await self._say(json.dumps(acting.result()))
            return acp.PromptResponse(stop_reason="end_turn")
        acting.cancel()
        return acp.PromptResponse(stop_reason="cancelled")

    async def _say(self, text: str) -> None:
        await self._client.session_update(SESSION, acp.update_agent_message_text(text))

    async def _act(self, prompted: list[str]) -> list[Any]:
        results = []
        for act in self._acts:
            match act:
                case {"say": text}:
                    await self._say(text)
                case {"ask": arguments}:
                    results.append(await self._ask(arguments, is_asked_for=act.get("permission", False)))
                case {"native": name}:
                    results.append(await self._native(name))
                case {"form": message}:
                    results.append(await self._form(message))
                case {"read": path}:
                    results.append(await self._read(path))
                case {"echo": _}:
                    results.append(prompted)
                case {"tools": _}:
                    results.append(self._tools)
                case {"exit": code}:
                    os._exit(code)
        return results

    async def _ask(self, arguments: Any, *, is_asked_for: bool) -> Any:
        if self._server is None:
            return "no ask tool"
        call_id, tool = f"call-{next(self._calls)}", f"mcp__{self._name}__{self._tools[0]}"
        call = acp.start_tool_call(call_id, "Asking the operator", kind="other", status="pending")
        call.field_meta = {"toolName": tool}
        await self._client.session_update(SESSION, call)
        if is_asked_for:
            outcome = await self._permitted(
                ToolCallUpdate(tool_call_id=call_id), [("y", "allow_once"), ("n", "reject_once")]
            )
            if outcome != "y":
                await self._over(call_id, "failed")
                return f"not allowed: {outcome}"
        await self._client.session_update(SESSION, acp.update_tool_call(call_id, raw_input=arguments))
        result = await self._server.call("tools/call", {"name": self._tools[0], "arguments": arguments})
        await self._over(call_id, "failed" if result.get("isError") else "completed")
        return result["content"][0]["text"]

    async def _over(self, call_id: str, status: Any) -> None:
        await self._client.session_update(SESSION, acp.update_tool_call(call_id, status=status))

    async def _permitted(self, call: ToolCallUpdate, options: Sequence[tuple[str, Any]]) -> str:
        offered = [PermissionOption(option_id=id_, name=id_, kind=kind) for id_, kind in options]
        answer = await self._client.request_permission(SESSION, call, offered)
        return getattr(answer.outcome, "option_id", answer.outcome.outcome)

    async def _native(self, name: str) -> str:
        call_id = f"call-{next(self._calls)}"
        await self._client.session_update(
            SESSION, acp.start_tool_call(call_id, name, raw_input={"questions": ["Which?"]})
        )
        answers = [("q0_opt_0", "allow_once"), ("q0_opt_1", "allow_once"), ("q0_skip", "reject_once")]
        picked = await self._permitted(ToolCallUpdate(tool_call_id=call_id, title=name), answers)
        await self._over(call_id, "failed")
        return picked

    async def _form(self, message: str) -> str:
        call_id = f"call-{next(self._calls)}"
        await self._client.session_update(SESSION, acp.start_tool_call(call_id, "AskUserQuestion"))
        schema = ElicitationSchema(properties={})
        mode = ElicitationFormSessionMode(session_id=SESSION, tool_call_id=call_id, requested_schema=schema)
        return (await self._client.create_elicitation(message, mode)).action

    async def _read(self, path: str) -> Any:
        try:
            return (await self._client.read_text_file(SESSION, path)).content
        except acp.RequestError as error:
            return error.code


if __name__ == "__main__":
    agent = MadeUpAgent([json.loads(act) for act in sys.argv[1:]])
    asyncio.run(acp.run_agent(cast(acp.Agent, agent), use_unstable_protocol=True))
