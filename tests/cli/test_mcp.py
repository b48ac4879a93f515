"""`opask mcp` in a process of its own, driven by the official SDK's client over stdio and HTTP; the agent is the demo's."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from httpx2 import AsyncClient
from mcp import Client, StdioServerParameters
from mcp.client.context import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestParams, ElicitResult, Implementation

from cli_runtimes import DATABASE, PARTS, SECONDS, Command, main_of, read_line
from mcp_clients import call, pending
from opask import Answer, Answered
from opask.cli import main
from opask.inbox import SqliteStore
from opask.surfaces.mcp.tools import tools

ERAS = ("legacy", "2026-07-28")
SAID = "The service will use “SQLite”. I will do first: “API”, “Docs”."
ANSWERED = Answered((Answer((1,)), Answer((0, 2))), "web:alice")
GO = {"runtime": "demo", "prompt": "Go."}
# What a client does by itself is done sooner than by any person, however busy the machine.
_UNHURRIED = """
from datetime import timedelta
from opask.surfaces.mcp import McpSurface
McpSurface.__init__.__kwdefaults__["human"] = timedelta(hours=1)
"""


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio alone: what is tested is another process."""
    return "asyncio"


class Served:
    """Where a server is: how to connect to it, and its inbox."""

    def __init__(self, folder: Path, url: str | None = None, token: str = "") -> None:
        self.folder = folder
        self.inbox = folder / "inbox.db"
        self.url = url
        self.token = token

    @asynccontextmanager
    async def client(
        self, era: str, fill_in: Callable[[ElicitRequestParams], Any] | None = None
    ) -> AsyncIterator[Client]:
        """Connect; with ``fill_in``, as a client that shows forms."""

        async def elicited(context: ClientRequestContext, params: ElicitRequestParams) -> Any:
            assert fill_in is not None
            return await fill_in(params)

        async with AsyncExitStack() as stack:
            server: Any
            if self.url is None:
                program, *rest = arguments(self.inbox)
                env = {**os.environ, "TMPDIR": str(self.folder)}
                server = StdioServerParameters(command=program, args=rest, env=env)
            else:
                headers = {"Authorization": f"Bearer {self.token}"}
                http = await stack.enter_async_context(AsyncClient(headers=headers, timeout=None))
                server = streamable_http_client(self.url, http_client=http)
            yield await stack.enter_async_context(
                Client(
                    server,
                    mode=era,
                    elicitation_callback=None if fill_in is None else elicited,
                    client_info=Implementation(name="tester", version="1"),
                )
            )


def arguments(inbox: Path, *more: str) -> list[str]:
    """Give the command line of a server."""
    program = main_of(more=_UNHURRIED)
    return [sys.executable, "-c", *program, "mcp", "--inbox", str(inbox), "--runtime", "demo", *more]


@pytest.fixture(params=["stdio", "http"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    """Give a server over each transport."""
    if request.param == "stdio":
        yield Served(tmp_path)
        return
    running = http_server(tmp_path)
    with running as (server, _):
        yield server
    assert running.err == ""


class http_server:  # noqa: N801 - a context manager
    """A server over HTTP; ``err`` is what it has said on stderr beside where it is, once it has ended."""

    def __init__(self, folder: Path, env: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            arguments(folder / "inbox.db", "--http", "--port", "0"),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(folder), **(env or {})},
            text=True,
        )

    def __enter__(self) -> tuple[Served, subprocess.Popen[str]]:
        assert self.process.stderr is not None
        url = re.search(r"http://\S+", read_line(self.process.stderr.fileno()))
        token = re.search(r"Bearer (\S+)", read_line(self.process.stderr.fileno()))
        assert url
        assert token
        return Served(self.folder, url.group(), token.group(1)), self.process

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        said: tuple[object, str] = self.process.communicate(timeout=SECONDS)
        self.err = said[1]


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_drives_answers_and_hears_the_outcome(served: Served, era: str) -> None:
    """Without forms: drive, the question, the answer, the outcome, with the real ask path in between."""
    async with served.client(era) as client:
        asked = await call(client, "session_drive", **GO)
        assert [question["question"] for question in asked["questions"]] == [DATABASE, PARTS]
        last = await call(
            client,
            "session_answer",
            question_id=asked["question_id"],
            answers=[{"labels": ["SQLite"]}, {"selected": [0, 2]}],
        )
        assert (last["outcome"], last["text"]) == ("done", SAID)
        (session,) = (await call(client, "sessions_list"))["sessions"]
        assert (session["session_id"], session["runtime"], session["state"]) == (
            asked["session_id"],
            "demo",
            "ended",
        )
    async with SqliteStore(served.inbox) as store:
        (entry,) = await store.entries()
    assert (entry.state, entry.by, entry.session_id) == ("delivered", "mcp:tester", asked["session_id"])


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_shows_forms_drives_in_one_call(served: Served, era: str) -> None:
    """With forms the one call returns the outcome, and the form had both questions."""

    async def fill_in(params: ElicitRequestParams) -> ElicitResult:
        assert DATABASE in params.message
        return ElicitResult(action="accept", content={"q1": "SQLite", "q2": ["API", "Docs"]})

    async with served.client(era, fill_in) as client:
        assert (await call(client, "session_drive", **GO))["text"] == SAID
    async with SqliteStore(served.inbox) as store:
        (entry,) = await store.entries()
    assert (entry.state, entry.by) == ("delivered", "elicitation:tester")


async def test_a_form_that_the_client_turns_down_by_itself_is_no_answer(served: Served) -> None:
    """A decline sooner than any person's leaves the question open, and the client is given it."""

    async def fill_in(params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="decline")

    async with served.client("2026-07-28", fill_in) as client:
        parked = await call(client, "session_drive", **GO)
        assert parked["awaiting_operator"] is True
        assert "no person's" in parked["form"]
        last = await call(client, "session_answer", question_id=parked["question_id"], skip=True)
        assert last["outcome"] == "done"


async def test_an_answer_by_another_process_is_seen_by_a_client_that_waits(served: Served) -> None:
    """While the client waits with a form open, another process answers in the inbox: the form goes, and both hear of it."""
    shown, gone = anyio.Event(), anyio.Event()

    async def fill_in(params: ElicitRequestParams) -> ElicitResult:
        shown.set()
        try:
            await anyio.sleep_forever()
        finally:
            gone.set()
        raise AssertionError

    results: list[dict[str, Any]] = []
    async with served.client("legacy", fill_in) as client, SqliteStore(served.inbox) as store:

        async def drives() -> None:
            results.append(await call(client, "session_drive", **GO))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drives)
            await shown.wait()
            entry = await pending(store)
            await store.resolve(entry.id, ANSWERED)
            await gone.wait()
        assert results[0]["text"] == SAID
        assert [(one["by"], one["state"]) for one in results[0]["resolved"]] in (
            [("web:alice", "delivered")],
            [("web:alice", "answered")],
        )
        assert (await store.entry(entry.id)).by == "web:alice"


@asynccontextmanager
async def web(server: Served) -> AsyncIterator[AsyncClient]:
    """Serve the page over a server's inbox; give a client that is signed in there."""
    argv = [sys.executable, "-c", *main_of(), "serve", "--inbox", str(server.inbox), "--port", "0"]
    env = {**os.environ, "XDG_STATE_HOME": str(server.folder), "XDG_RUNTIME_DIR": str(server.folder)}
    failure: Exception | None = None
    async with await anyio.open_process(argv, stdin=subprocess.DEVNULL, stderr=None, env=env) as page:
        assert page.stdout is not None
        link = (await BufferedByteReceiveStream(page.stdout).receive_until(b"\n", 4096)).decode()
        url, _, token = link.partition("?token=")
        try:
            headers = {"Authorization": f"Bearer {token}"}
            async with AsyncClient(base_url=url, headers=headers, timeout=SECONDS) as client:
                yield client
        except Exception as error:  # raised below, once the page has ended
            failure = error
        page.terminate()
    if failure is not None:
        raise failure


async def test_a_question_answered_on_the_web_is_seen_by_both(tmp_path: Path) -> None:
    """While the client waits with a form open the page answers: the agent goes on, and both say that it was the web."""
    shown = anyio.Event()

    async def fill_in(params: ElicitRequestParams) -> ElicitResult:
        shown.set()
        await anyio.sleep_forever()
        raise AssertionError

    server = Served(tmp_path)
    results: list[dict[str, Any]] = []
    async with server.client("legacy", fill_in) as client, web(server) as page:

        async def drives() -> None:
            results.append(await call(client, "session_drive", **GO, max_wait_s=60))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drives)
            await shown.wait()
            (asked,) = (await page.get("api/asks")).json()["asks"]
            answers = [{"labels": ["SQLite"]}, {"selected": [0, 2]}]
            body = {"session_id": asked["session_id"], "answers": answers}
            response = await page.post(f"api/asks/{asked['id']}/answer", json=body)
            assert response.status_code == 200
        assert results[0]["text"] == SAID
        assert [one["by"] for one in results[0]["resolved"]] == ["web"]
        entry = (await page.get(f"api/asks/{asked['id']}")).json()["ask"]
        assert (entry["state"], entry["by"]) == ("delivered", "web")


async def test_the_web_is_told_that_the_client_was_faster(tmp_path: Path) -> None:
    """After the client's answer the page's own is refused, with whose it was."""
    server = Served(tmp_path)
    async with server.client("2026-07-28") as client, web(server) as page:
        asked = await call(client, "session_drive", **GO)
        await call(client, "session_answer", question_id=asked["question_id"], skip=True)
        body = {"session_id": asked["session_id"], "answers": [{"selected": [0]}, None]}
        response = await page.post(f"api/asks/{asked['question_id']}/answer", json=body)
        assert response.status_code == 409
        entry = response.json()["error"]["ask"]
        assert (entry["state"], entry["by"]) == ("skipped", "mcp:tester")


HELLO = (
    {
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
)
DRIVE = {"id": 1, "method": "tools/call", "params": {"name": "session_drive", "arguments": GO}}


def lines(*messages: dict[str, Any]) -> str:
    """Write messages as a client does."""
    return "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)


def start(folder: Path, *messages: dict[str, Any]) -> Command:
    """Start a server on stdin and stdout and write to it."""
    inbox = folder / "state" / "inbox.db"
    command = Command(folder / "tmp", "mcp", "--inbox", str(inbox), "--runtime", "demo")
    assert command.process.stdin is not None
    command.process.stdin.write(lines(*messages))
    command.process.stdin.flush()
    return command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one for temporary files and one for the inbox."""
    for name in ("tmp", "state"):
        (tmp_path / name).mkdir()
    return tmp_path


async def test_a_client_that_goes_away_leaves_the_question_in_the_inbox(folder: Path) -> None:
    """When stdin ends, the question waits on, another surface answers it, the agent goes on, and then the server ends."""
    command = start(folder, *HELLO, DRIVE)
    async with SqliteStore(folder / "state" / "inbox.db") as store:
        entry = await pending(store)
        assert command.process.stdin is not None
        command.process.stdin.close()
        with anyio.move_on_after(0.3):  # nothing is to happen
            async for changed in store.watch_ask(entry.id):
                assert changed.state == "pending"
        assert command.process.poll() is None
        await store.resolve(entry.id, ANSWERED)
        code = await anyio.to_thread.run_sync(command.process.wait, SECONDS)
        assert code == 0
        assert (await store.entry(entry.id)).state == "delivered"
        events = [logged.event for logged in await store.events(entry.session_id)]
        assert "".join(event["text"] for event in events if event["event"] == "text").endswith(f"{SAID} \n")
    command.process.stdin = None
    assert command.ends()[2] == ""
    assert list((folder / "tmp").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_server_and_all_that_it_runs(folder: Path, number: signal.Signals) -> None:
    """With a question open a signal cancels it, ends the agent and leaves no folder behind."""
    command = start(folder, *HELLO, DRIVE)
    async with SqliteStore(folder / "state" / "inbox.db") as store:
        entry = await pending(store)
        command.process.send_signal(number)
        code = await anyio.to_thread.run_sync(command.process.wait, SECONDS)
        assert code == 128 + number
        assert (await store.entry(entry.id)).state == "cancelled"
        assert not (await store.session(entry.session_id)).is_running
    assert list((folder / "tmp").iterdir()) == []
    command.ends()


def test_a_client_that_has_driven_nothing_ends_the_server_by_going(folder: Path) -> None:
    """With no turn running the end of stdin is the end of the server; nonsense before it did no harm."""
    command = start(folder, *HELLO)
    code, out, err = command.ends("no JSON\n\n" + lines({"id": 7, "method": "tools/list"}))
    assert (code, err) == (0, "")
    replies = [json.loads(line) for line in out.splitlines()]
    assert [reply.get("id") for reply in replies if "result" in reply] == [0, 7]


# -- HTTP ----------------------------------------------------------------------------------------------------------


async def test_http_lets_in_who_has_the_token_and_comes_from_here(tmp_path: Path) -> None:
    """Without the token, from another page or by another name there is no way in; nothing of it reaches the tools."""
    body = {"jsonrpc": "2.0", **HELLO[0]}
    with http_server(tmp_path) as (server, _):
        assert server.url is not None
        good = {
            "Authorization": f"Bearer {server.token}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        async with AsyncClient(timeout=SECONDS) as client:
            for more, status in (
                ({}, 200),
                ({"Authorization": ""}, 401),
                ({"Authorization": "Bearer wrong"}, 401),
                ({"Host": "evil.example"}, 421),
                ({"Origin": "http://evil.example"}, 403),
            ):
                response = await client.post(server.url, json=body, headers={**good, **more})
                assert response.status_code == status, more
            elsewhere = server.url.replace("/mcp", "/other")
            assert (await client.post(elsewhere, json=body, headers=good)).status_code == 404


@pytest.mark.parametrize("head", ["", "Authorization: Bearer {token}\r\n"])
async def test_what_clients_do_wrong_over_http_is_no_trouble(tmp_path: Path, head: str) -> None:
    """Who sends nonsense or leaves in the middle, with the token or without, is not told of; a good client is served."""
    running = http_server(tmp_path)
    with running as (server, _):
        url = urlsplit(server.url or "")
        assert url.port
        start = f"POST {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\n{head.format(token=server.token)}"
        start += "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
        body = json.dumps({"jsonrpc": "2.0", **HELLO[0]})
        for sent in (
            "no HTTP\r\n\r\n",
            f"{start}Content-Length: {len(body) + 9}\r\n\r\n{body}",
            f"{start}Content-Length: {len(body)}\r\n\r\n{body}",
            f"{start}Content-Length: {len(body)}\r\n\r\n{body} and what is no HTTP\r\n\r\n",
            f"{start}Content-Length: 9\r\n\r\n{{nonsense",
            f"{start}Upgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n",
            f"{start}Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        ):
            for linger in (b"", struct.pack("ii", 1, 0)):  # closed, or reset
                with socket.create_connection(("127.0.0.1", url.port)) as raw:
                    if linger:
                        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    raw.sendall(sent.encode())
        async with server.client("legacy") as client:
            assert (await call(client, "sessions_list")) == {"sessions": []}
    assert running.err == ""


async def test_the_token_is_the_users_own_where_there_is_one(tmp_path: Path) -> None:
    """A token from the environment is the one that clients send."""
    token = "a-token-of-my-own"
    with http_server(tmp_path, {"OPASK_MCP_TOKEN": token}) as (server, _):
        assert server.token == token
        async with server.client("2026-07-28") as client:
            assert (await call(client, "sessions_list")) == {"sessions": []}


async def test_a_signal_ends_the_http_server_with_a_call_under_way(tmp_path: Path) -> None:
    """A call that waits, its form open at the client, is told of the end, and its question is cancelled."""
    shown, told = anyio.Event(), anyio.Event()
    results: list[Any] = []

    async def fill_in(params: ElicitRequestParams) -> ElicitResult:
        shown.set()
        await anyio.sleep_forever()
        raise AssertionError

    with http_server(tmp_path) as (server, process):

        async def drive() -> None:
            with suppress(Exception):  # whatever a client makes of a connection that ends
                async with server.client("legacy", fill_in) as client:
                    results.append(await client.call_tool("session_drive", GO))
                    told.set()

        async with SqliteStore(server.inbox) as store, anyio.create_task_group() as tasks:
            tasks.start_soon(drive)
            await shown.wait()
            entry = await pending(store)
            process.terminate()
            code = await anyio.to_thread.run_sync(process.wait, SECONDS)
            assert code == 128 + signal.SIGTERM
            assert (await store.entry(entry.id)).state == "cancelled"
            await told.wait()
            tasks.cancel_scope.cancel()
    assert results[0].is_error
    assert "is stopping" in results[0].content[0].text


# -- the command line ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--port", "1"], "--port is for --http"),
        (["--http", "--port", "70000"], "--port 70000: has to be from 0 to 65535"),
        (["--runtime", "nope"], "--runtime nope: no adapter serves it; there is: "),
        (["--bin", "claude"], "--bin claude: has to be NAME=…"),
        (
            ["--runtime", "demo", "--args", "claude=-x"],
            "--args claude=-x: has to be NAME=…, with a runtime of: demo",
        ),
        (["--args", "claude='"], "--args claude=…: cannot be split into arguments"),
        (["--sessions", "0"], "--sessions 0: has to be from 1 to 100"),
        (["--cwd", "/no/such/folder"], "--cwd /no/such/folder: there is no such folder"),
        (["--wait", "soon"], "'soon' is no number of seconds"),
    ],
)
def test_what_cannot_be_used_is_told(given: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong arguments are one line on stderr and exit code 2."""
    assert main(["mcp", *given]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("opask mcp: ")
    assert told in err
    assert err.count("\n") == 1


def test_a_weak_token_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A token that could be guessed is not taken."""
    monkeypatch.setenv("OPASK_MCP_TOKEN", "short")
    assert main(["mcp", "--http", "--port", "0"]) == 2
    assert "OPASK_MCP_TOKEN" in capsys.readouterr().err


def test_the_page_names_every_option_and_tool(capsys: pytest.CaptureFixture[str]) -> None:
    """docs/mcp.md has each option of the command and each tool with its arguments."""
    page = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")
    main(["mcp", "--help"])
    for option in set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help", "--permission-mode"}:
        assert f"`{option}" in page, option
    for tool in tools(()):
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{tool.name}`")]
        for argument in tool.input_schema["properties"]:
            assert f"`{argument}`" in row, argument
