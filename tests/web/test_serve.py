"""`opask serve`, and runs that ask on the page: real processes on one inbox."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from attrs import frozen

from opask.cli import conduct, main
from opask.cli.webpage import first_watcher, page_of
from opask.inbox import MemoryStore, SqliteStore, attend
from opask.surfaces.web.serverfile import ServerFile
from web_site import Line, lines_of

OPASK = Path(sys.executable).with_name("opask")


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@frozen
class Served:
    """A process that serves a page.

    Args:
        process: the process.
        link: the link that it printed.
    """

    process: subprocess.Popen[str]
    link: str

    @property
    def url(self) -> str:
        """The page's address, without the slash at its end."""
        return self.link.partition("/?")[0]

    @property
    def token(self) -> str:
        """The token."""
        return self.link.partition("token=")[2]

    def client(self) -> httpx2.AsyncClient:
        """Make a client with the token."""
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx2.AsyncClient(base_url=self.url, headers=headers, trust_env=False, timeout=20)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[AsyncIterator[Line]]:
        """Read the feed as an open page does."""
        async with self.client() as client, client.stream("GET", "/api/feed") as response:
            assert response.status_code == 200
            yield lines_of(response)

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """End it; give its exit code and what it said."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=20)
        return self.process.returncode, said


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Give what starts a command and waits for its link; whatever it started is ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(*words: str) -> Served:
        env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
        process = subprocess.Popen(
            [OPASK, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
        )
        started.append(process)
        assert process.stdout is not None
        found = re.search(r"http://\S+", line := process.stdout.readline())
        if found is None:
            raise AssertionError((line, *process.communicate(timeout=20)))
        return Served(process, found[0])

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


async def test_serve_prints_a_link_and_leaves_a_private_file_for_scripts(
    start: Callable[..., Served], tmp_path: Path
) -> None:
    """The file beside the inbox has the link's token as long as it serves, for this user alone."""
    served = start("serve", "--port", "0", "--inbox", str(tmp_path / "in.db"))
    file = tmp_path / "in.db.d" / "web.json"
    kept = json.loads(file.read_text(encoding="ascii"))
    assert kept == {"url": f"{served.url}/", "token": served.token, "pid": served.process.pid}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "in.db.d" / "web.token").stat().st_mode) == 0o600
    async with served.client() as client:
        assert (await client.get("/api/asks")).json() == {"asks": []}
    code, said = served.end()
    assert code == 128 + signal.SIGTERM
    assert str(file) in said
    assert served.token not in said
    assert not file.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
async def test_a_signal_ends_it_in_good_order(
    start: Callable[..., Served], tmp_path: Path, number: signal.Signals
) -> None:
    """With a page open it ends all the same, with the signal's exit code and no traceback."""
    served = start("serve", "--port", "0", "--inbox", str(tmp_path / "in.db"))
    async with served.watching() as lines:
        await anext(lines)
        code, said = await anyio.to_thread.run_sync(served.end, number)
        assert [line async for line in lines] == []
    assert code == 128 + number
    assert "Traceback" not in said
    assert len(said.splitlines()) == 2


async def test_a_page_comes_back_by_itself_after_a_restart(
    start: Callable[..., Served], tmp_path: Path
) -> None:
    """The token outlives the server, even one that was killed, until another one is asked for."""
    words = ("serve", "--port", str(free_port()), "--inbox", str(tmp_path / "in.db"))
    first = start(*words)
    first.process.kill()
    first.process.communicate()
    second = start(*words)
    assert second.link == first.link
    second.end()
    third = start(*words, "--new-token")
    assert third.url == first.url
    assert third.token != first.token
    async with first.client() as client:
        assert (await client.get("/api/asks")).status_code == 401


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--host", "0.0.0.0"], 2, "--allow-remote"),  # noqa: S104 - refused
        (["--host", "::"], 2, "--allow-remote"),
        (["--host", ""], 2, "no such address"),
        (["--host", "no.such.host.invalid"], 2, "no such address"),
        (["--port", "65536"], 2, "is no port"),
        (["--port", "-1"], 2, "is no port"),
        (["--port", "x"], 2, "is no port"),
        (["--inbox", "/dev/null/in.db"], 2, "cannot be opened"),
    ],
)
def test_what_cannot_be_served_is_said_in_a_line(
    words: list[str], code: int, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bad address, port or inbox is wrong usage, told in one line with what to do."""
    inbox = [] if "--inbox" in words else ["--inbox", str(tmp_path / "in.db")]
    assert main(["serve", *inbox, *words]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert len(err.splitlines()) == 1


def test_a_port_that_is_taken_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody else's port is told as such, with the option that chooses another."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", "--inbox", str(tmp_path / "in.db"), "--port", str(port)]) == 1
    assert f"port {port} of 127.0.0.1 is taken; choose another with --port" in capsys.readouterr().err


def test_one_inbox_is_served_once(
    start: Callable[..., Served], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second server of the same inbox is told where the first one is."""
    served = start("serve", "--port", "0", "--inbox", str(tmp_path / "in.db"))
    assert main(["serve", "--port", "0", "--inbox", str(tmp_path / "in.db")]) == 1
    err = capsys.readouterr().err
    assert f"served already at {served.url}/ by process {served.process.pid}" in err


async def test_a_server_for_other_machines_says_what_that_means(
    start: Callable[..., Served], tmp_path: Path
) -> None:
    """Reached by any address but by no other name, with a warning that nothing is encrypted."""
    served = start(
        "serve",
        "--port",
        "0",
        "--inbox",
        str(tmp_path / "in.db"),
        "--host",
        "0.0.0.0",  # noqa: S104
        "--allow-remote",
    )
    assert served.url.startswith("http://127.0.0.1:")
    async with served.client() as client:
        for host, status in (("10.1.2.3:80", 200), (socket.gethostname(), 200), ("evil.example", 421)):
            assert (await client.get("/api/asks", headers={"Host": host})).status_code == status
    assert "nothing on the way is encrypted" in served.end()[1]


# -- runs --------------------------------------------------------------------------------------------------------------


async def _answer_all(served: Served, lines: AsyncIterator[Line]) -> dict[str, Any]:
    """Answer the first question that waits with its first options; give it as it was."""
    async with served.client() as client:
        async for line in lines:
            for ask in [*line.data.get("entries", ()), line.data.get("entry")]:
                if ask is None or ask["state"] != "pending":
                    continue
                answers = [{"selected": [0]} for _ in ask["questions"]]
                body = {"session_id": ask["session_id"], "answers": answers}
                response = await client.post(f"/api/asks/{ask['id']}/answer", json=body)
                assert response.status_code == 200
                found: dict[str, Any] = ask
                return found
    raise AssertionError("the feed ended")


async def test_a_demo_asks_on_the_page_and_goes_on_with_the_answer(start: Callable[..., Served]) -> None:
    """The link is printed, the page sees the question, the answer and the session's end, and the agent goes on."""
    served = start("demo", "--surface", "web")
    async with served.watching() as lines:
        ask = await _answer_all(served, lines)
        last = [line async for line in lines]
    states = [line.data["entry"]["state"] for line in last if line.event == "entry"]
    assert states[-1] == "delivered"
    assert last[-1].data["session"]["ending"] == "ended"
    out, err = await anyio.to_thread.run_sync(served.process.communicate)
    assert served.process.returncode == 0, err
    assert f"? {ask['questions'][0]['question']}\n" in out
    assert "answered by web: PostgreSQL; API" in out
    assert "The service will use “PostgreSQL”." in out
    assert "demo is done: asked once, 1 answered" in out


async def test_a_run_that_waits_for_its_page_can_be_interrupted(start: Callable[..., Served]) -> None:
    """Ctrl-C while nobody has opened the page ends the run at once, with its exit code."""
    code, said = start("demo", "--surface", "web").end(signal.SIGINT)
    assert code == 128 + signal.SIGINT
    assert "Traceback" not in said
    assert "ended by SIGINT" in said


async def test_a_run_uses_the_page_that_is_there(start: Callable[..., Served], tmp_path: Path) -> None:
    """Where the inbox is served already, the run prints that link and needs no page of its own."""
    inbox = str(tmp_path / "state" / "opask" / "inbox.db")
    server = start("serve", "--port", "0", "--inbox", inbox)
    async with server.watching() as lines:
        demo = start("demo", "--surface", "web")
        assert demo.link == server.link
        await _answer_all(server, lines)
        await anyio.to_thread.run_sync(demo.process.communicate)
    assert demo.process.returncode == 0
    assert server.end()[0] == 128 + signal.SIGTERM


def test_a_run_that_nobody_watches_attaches_no_tool_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When the time for the first page is over the agent runs without the ask tool."""
    monkeypatch.setattr(conduct, "_FIRST_WATCHER", timedelta(milliseconds=50))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    code = main(["demo", "--surface", "web"])
    out, err = capsys.readouterr()
    assert "the agent runs without the ask tool; nobody has opened the page" in err
    assert "asked once" not in out
    assert code in {0, 1}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_page_of_a_run_that_ends_goes_to_the_next(tmp_path: Path) -> None:
    """Two runs share a page; when the one that serves it ends, the other serves it at the same address."""
    links: dict[str, list[str]] = {"first": [], "second": []}
    async with SqliteStore(tmp_path / "in.db") as one, SqliteStore(tmp_path / "in.db") as two:
        second_ends = anyio.Event()

        async def second(*, task_status: anyio.abc.TaskStatus[None]) -> None:
            async with page_of(two, links["second"].append):
                task_status.started()
                await second_ends.wait()

        async with anyio.create_task_group() as tasks:
            async with page_of(one, links["first"].append):
                await tasks.start(second)
                assert links["second"] == links["first"]
            place = ServerFile(two.folder)
            with anyio.fail_after(10):
                while place.found() is None:  # noqa: ASYNC110 - another process's file
                    await anyio.sleep(0.01)
            url, _, token = links["first"][0].partition("?token=")
            async with httpx2.AsyncClient(trust_env=False) as client:
                got = await client.get(f"{url}api/asks", headers={"Authorization": f"Bearer {token}"})
                assert got.status_code == 200
            assert links["second"] == links["first"]  # told once
            second_ends.set()


async def test_the_first_watcher_is_waited_for() -> None:
    """It says whether anybody came, and does not wait where somebody is there."""
    store = MemoryStore()
    assert not await first_watcher(store, "s1", timedelta(0))
    async with attend(store, "web"):
        assert await first_watcher(store, "s1", timedelta(seconds=30))


def test_a_token_that_is_no_token_is_made_anew(tmp_path: Path) -> None:
    """What stands in the token's file is held to its form, and files are written with mode 0600."""
    place = ServerFile(tmp_path)
    assert place.claim()
    for kept in ("", "short", "é" * 60):
        (tmp_path / "web.token").write_text(kept, encoding="utf-8")
        token = place.token()
        assert len(token) == 43
        assert place.token() == token
        assert stat.S_IMODE((tmp_path / "web.token").stat().st_mode) == 0o600
    assert not ServerFile(tmp_path).claim()
    (tmp_path / "web.json").write_text("[]", encoding="ascii")
    assert place.found() is None
    place.release()


def test_what_a_killed_server_left_is_not_taken_for_a_server(tmp_path: Path) -> None:
    """Whoever takes the place after it clears away where it was."""
    place = ServerFile(tmp_path)
    assert place.claim()
    place.announce("http://127.0.0.1:1/", "t" * 43)
    left = place.path.read_bytes()
    place.release()
    assert not place.path.exists()
    place.path.write_bytes(left)
    again = ServerFile(tmp_path)
    assert again.found() is not None
    assert again.claim()
    assert again.found() is None
    again.release()
