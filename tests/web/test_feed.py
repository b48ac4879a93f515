"""The feed: nothing is missed, an open one is an operator who is there, and no reader is in another one's way."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from opask import http_serving
from opask.inbox import InboxPrompter, MemoryStore, SqliteStore, Store
from opask.outcomes import Skipped
from opask.questions import Ask
from opask.surfaces.web.feed import Feeds
from web_actors import acting
from web_play import DATABASE, NAME
from web_site import Line, Site, reading, sited


async def put(store: Store, prompter: InboxPrompter, ask_id: str) -> None:
    """Put an ask into session s1."""
    await store.put(Ask(ask_id, "s1", (NAME,), datetime.now(UTC)), prompter.host_id)


async def nobody_is_there(store: Store) -> None:
    """Wait until no lease is left."""
    with anyio.fail_after(5):
        while await store.leases():  # noqa: ASYNC110 - a lease that ends wakes only whoever waits for an ask
            await anyio.sleep(0.01)


async def somebody_is_there(store: Store) -> None:
    """Wait until there is a lease."""
    with anyio.fail_after(5):
        while not await store.leases():  # noqa: ASYNC110 - the same for one that begins
            await anyio.sleep(0.01)


async def until(lines: AsyncIterator[Line], ask_id: str, state: str) -> Line:
    """Read up to an ask in a state."""
    async for line in lines:
        entry = line.data.get("entry", {})
        if (entry.get("id"), entry.get("state")) == (ask_id, state):
            return line
    raise AssertionError("the feed ended")


async def test_a_feed_begins_with_all_that_is_open_and_goes_on_with_each_change(
    site: Site, prompter: InboxPrompter
) -> None:
    """The first event is a snapshot; then each change comes once, in order, under an id of the inbox's own."""
    await put(site.store, prompter, "ask_1")
    async with reading(site) as lines:
        first = await anext(lines)
        assert first.event == "snapshot"
        assert [entry["id"] for entry in first.data["entries"]] == ["ask_1"]
        assert [session["id"] for session in first.data["sessions"]] == ["s1"]
        await put(site.store, prompter, "ask_2")
        await site.store.resolve("ask_1", Skipped("web"))
        seen = [await anext(lines), await anext(lines)]
    assert [(line.event, line.data["entry"]["id"], line.data["entry"]["state"]) for line in seen] == [
        ("entry", "ask_2", "pending"),
        ("entry", "ask_1", "skipped"),
    ]
    assert [line.id for line in seen] == [f"{site.store.id}-{line.data['seq']}" for line in seen]


@pytest.mark.parametrize("way", ["header", "query"])
async def test_a_feed_that_broke_off_goes_on_where_it_was(
    site: Site, prompter: InboxPrompter, way: str
) -> None:
    """With the last id a reader is sent what came meanwhile, and nothing twice."""
    await put(site.store, prompter, "ask_1")
    async with reading(site) as lines:
        last = (await anext(lines)).id
    await put(site.store, prompter, "ask_2")
    path = "/api/feed" if way == "header" else f"/api/feed?last={last}"
    async with reading(site, path, last=last if way == "header" else None) as lines:
        line = await anext(lines)
        assert (line.event, line.data["entry"]["id"]) == ("entry", "ask_2")


@pytest.mark.parametrize(
    "last",
    ["inbox_other-1", "1", "", "-", "{id}-", "{id}--1", "{id}-x", "{id}-99", f"{{id}}-{'9' * 40}"],
)
async def test_an_id_that_says_nothing_gives_a_snapshot(
    site: Site, prompter: InboxPrompter, last: str
) -> None:
    """An id of another inbox, of the future, or none at all: everything that is open comes again."""
    await put(site.store, prompter, "ask_1")
    async with reading(site, last=last.replace("{id}", site.store.id)) as lines:
        assert (await anext(lines)).event == "snapshot"


async def test_a_sessions_feed_gives_its_events_and_goes_on(site: Site, prompter: InboxPrompter) -> None:
    """What was logged comes first and what is logged comes as it is; positions resume."""
    async with acting(prompter, "s1") as actor:
        actor.says("one")
        async with reading(site, "/api/sessions/s1/feed") as lines:
            assert (await anext(lines)).data["event"]["event"] == "turn_started"
            one = await anext(lines)
            assert (one.event, one.data["event"]["text"]) == ("log", "one")
            actor.says("two")
            assert (await anext(lines)).data["event"]["text"] == "two"
        async with reading(site, "/api/sessions/s1/feed", last=one.id) as lines:
            assert (await anext(lines)).data["event"]["text"] == "two"
        async with reading(site, f"/api/sessions/s1/feed?after={one.id}") as lines:
            assert (await anext(lines)).data["event"]["text"] == "two"


async def test_an_open_feed_is_an_operator_who_is_there_until_the_last_one_closes(site: Site) -> None:
    """The first page that opens begins the presence, the last that closes ends it at once; `watch=0` is nobody."""
    async with reading(site, watch="0") as quiet:
        await anext(quiet)
        assert await site.store.leases() == ()
        async with reading(site) as first:
            await anext(first)
            await somebody_is_there(site.store)
            async with reading(site) as second:
                await anext(second)
                (lease,) = await site.store.leases()
                assert lease.surface == "web"
                assert lease.session_ids is None
            while site.feeds.count > 2:  # noqa: ASYNC110 - the server hears of it by the socket
                await anyio.sleep(0.01)
            assert len(await site.store.leases()) == 1
        await nobody_is_there(site.store)


async def test_a_question_waits_for_as_long_as_a_page_is_open(site: Site) -> None:
    """With the last page gone, a host that does not hold questions is told that nobody is there."""
    async with InboxPrompter(site.store, when_absent="unavailable") as prompter:
        assert not prompter.available("s1")
        async with reading(site) as lines:
            await anext(lines)
            await somebody_is_there(site.store)
            assert prompter.available("s1")


async def test_a_quiet_feed_beats(store: Store) -> None:
    """When nothing happens a beat comes, so that either side notices that the other is gone; it says how often."""
    feeds = Feeds(store, surface="web", beat_s=0.01)
    beat = Line("", "beat", {"every_s": 0.01})
    async with sited(store, feeds=feeds) as site, reading(site, beats=True) as lines:
        assert await anext(lines) == beat
        while (line := await anext(lines)) == beat:
            pass  # the first read of the inbox may take longer than that
        assert line.event == "snapshot"
        assert [await anext(lines) for _ in range(3)] == [beat] * 3


async def test_more_feeds_than_there_may_be_are_refused(store: Store) -> None:
    """Beyond the limit a reader is told to come again, and those who are there stay."""
    feeds = Feeds(store, surface="web", limit=1)
    async with sited(store, feeds=feeds) as site, reading(site) as lines:
        await anext(lines)
        refused = await site.client.get("/api/feed")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "too_many")
        assert refused.headers["retry-after"] == "5"


async def test_a_server_that_ends_ends_its_feeds(store: Store) -> None:
    """Open feeds end in good order and do not hold the end up, and nobody is there any more."""
    async with anyio.create_task_group() as tasks:
        ended = anyio.Event()

        async def read(site: Site, *, task_status: anyio.abc.TaskStatus[None]) -> None:
            async with reading(site) as lines:
                await anext(lines)
                task_status.started()
                assert [line async for line in lines] == []
            ended.set()

        with anyio.fail_after(5):
            async with sited(store) as site:
                await tasks.start(read, site)
                await somebody_is_there(store)
                site.feeds.close()
                await ended.wait()
    assert await store.leases() == ()


async def test_a_feed_goes_on_at_the_server_that_comes_after(tmp_path: Path) -> None:
    """A restart while a question waits loses nothing: same link, same cookie, same ids, and the agent is answered."""
    async with (
        SqliteStore(tmp_path / "inbox.db") as hosts,
        InboxPrompter(hosts, when_absent="attach") as prompter,
        acting(prompter, "s1") as actor,
        anyio.create_task_group() as tasks,
    ):
        outcomes: list[object] = []

        async def ask() -> None:
            outcomes.append(await actor.asks(DATABASE))

        tasks.start_soon(ask)
        async with SqliteStore(tmp_path / "inbox.db") as store, sited(store) as site:
            async with reading(site) as lines:
                last = await anext(lines)
                while not last.data.get("entries") and "entry" not in last.data:
                    last = await anext(lines)
            port = site.port
        async with SqliteStore(tmp_path / "inbox.db") as store, sited(store, port=port) as site:
            await put(hosts, prompter, "ask_meanwhile")
            async with reading(site, last=last.id) as lines:
                line = await anext(lines)
                assert line.data["entry"]["id"] == "ask_meanwhile"
                ask_form = next(
                    each for each in (await site.get("/api/asks"))["asks"] if each["id"] != "ask_meanwhile"
                )
                assert (await site.answer(ask_form, {"selected": [0]})).status_code == 200
                await until(lines, ask_form["id"], "delivered")
        assert [type(outcome).__name__ for outcome in outcomes] == ["Answered"]


# -- clients that do not behave ----------------------------------------------------------------------------------------


async def _open_raw(site: Site, path: str, receive_buffer: int | None = None) -> socket.socket:
    """Open a feed on a bare socket that nobody reads from."""
    raw = socket.socket()
    if receive_buffer is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    raw.connect(("127.0.0.1", site.port))
    raw.sendall(
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {site.token}\r\n\r\n".encode()
    )
    return raw


async def test_a_reader_that_takes_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what a stalled reader does not take little waits, others are served meanwhile, and it is let go of."""
    monkeypatch.setattr(http_serving, "_STALL_S", 3.0)  # a slow machine's reader takes something in that time
    store = MemoryStore()
    async with (
        sited(store) as site,
        InboxPrompter(store, when_absent="attach") as prompter,
        acting(prompter, "s1"),
    ):
        with await _open_raw(site, "/api/sessions/s1/feed", 4096):
            with anyio.fail_after(30):
                while not site.feeds.count:  # noqa: ASYNC110 - the server takes it when it does
                    await anyio.sleep(0.01)
            await store.append("s1", [{"event": "text", "text": "x" * 100_000}] * 200)
            async with reading(site, "/api/sessions/s1/feed") as lines:
                for _ in range(201):
                    await anext(lines)
            with anyio.fail_after(30):
                while site.feeds.count:  # noqa: ASYNC110 - the server's own time
                    await anyio.sleep(0.01)


async def test_a_client_that_shuts_its_half_is_gone(site: Site) -> None:
    """A reader that closes its sending half counts as gone, and with it the operator."""
    with await _open_raw(site, "/api/feed") as raw:
        await somebody_is_there(site.store)
        raw.shutdown(socket.SHUT_WR)
        await nobody_is_there(site.store)


@pytest.mark.timeout(120)
async def test_a_thousand_readers_are_told_and_the_server_stays_up() -> None:
    """Each of a thousand open feeds hears of a change, and a request in between is answered."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4096:
        pytest.skip("this process may not have so many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    store = MemoryStore()
    told = 0
    try:
        async with (
            sited(store) as site,
            InboxPrompter(store, when_absent="attach") as prompter,
            anyio.create_task_group() as tasks,
        ):

            async def read(*, task_status: anyio.abc.TaskStatus[None]) -> None:
                nonlocal told
                async with await anyio.connect_tcp("127.0.0.1", site.port) as stream:
                    await stream.send(
                        f"GET /api/feed HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {site.token}\r\n\r\n".encode()
                    )
                    seen = b""
                    while b"event: snapshot" not in seen:
                        seen += await stream.receive()
                    task_status.started()
                    while b"ask_1" not in seen:
                        seen += await stream.receive()
                    told += 1
                    await anyio.sleep_forever()

            for _ in range(1000):
                await tasks.start(read)
            assert site.feeds.count == 1000
            assert len(await store.leases()) == 1
            await put(store, prompter, "ask_1")
            assert [ask["id"] for ask in (await site.get("/api/asks"))["asks"]] == ["ask_1"]
            while told < 1000:  # noqa: ASYNC110 - counted by a thousand tasks
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_feed_of_a_failed_inbox_is_refused(tmp_path: Path) -> None:
    """Where the inbox's file is gone a feed is refused with a status that says so, and does not begin."""
    path = tmp_path / "inbox.db"
    async with SqliteStore(path) as opened, sited(opened) as site:
        path.unlink()
        with anyio.fail_after(30):
            while (await site.client.get("/api/asks")).status_code == 200:
                pass
        response = await site.client.get("/api/feed")
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "inbox_unavailable"
