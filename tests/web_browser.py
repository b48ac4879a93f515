"""What the tests that drive a browser work with: Chromium, and an inbox with its host, served on a thread of its own."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.applications import Starlette

from opask.http_serving import listen
from opask.inbox import Entry, InboxPrompter, SqliteStore, State, Store
from opask.outcomes import Outcome
from opask.questions import Ask, Question
from opask.surfaces.web import Auth, TokenAuth, application
from opask.surfaces.web.feed import Feeds
from opask.surfaces.web.serving import served
from web_actors import Actor, acting

if TYPE_CHECKING:
    from playwright.sync_api import APIResponse, Dialog, Locator, Page, Route, expect
else:

    def expect(actual):
        """Assert something of a page that may take a moment."""
        from playwright.sync_api import expect as expecting

        return expecting(actual)


__all__ = [
    "INBOX",
    "TOKEN",
    "WAIT_S",
    "Held",
    "Late",
    "Stand",
    "Watch",
    "card_in",
    "chromium_path",
    "drawn",
    "expect",
    "standing",
    "still",
    "violations",
]

T = TypeVar("T")
TOKEN = "the-token-of-the-browser-tests-0123456789ab"
WAIT_S = 30
"""How long a test waits for an outcome before it fails; never how long one takes."""

INBOX = "import('./page/inbox.js').then(({ borrow }) => borrow(new URL('./', location.href)))"
"""An expression for a page: the promise of what it knows of the inbox."""

_JUMP_S = 20  # more than a slow machine takes from asking for the time to stopping it
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium_path() -> str | None:
    """Return where Chromium is: what ``CHROMIUM`` names, else the system's."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)


def card_in(page: Page, name: str = "") -> Locator:
    """Return the card of an ask, by its header or text, once it is there and has stood still for a while.

    Before that the page takes no click in it.
    """
    card = page.get_by_role("article", name=name) if name else page.get_by_role("article")
    expect(card).to_be_visible()
    expect(page.locator("[data-stirred]")).to_have_count(0)
    return card


def still(page: Page) -> None:
    """Let a page's clock, which was installed, stand still, after whatever moves has come to rest."""
    page.clock.pause_at(page.evaluate("Date.now()") + 1000 * _JUMP_S)


def drawn(page: Page, state: State, count: int = 1) -> None:
    """Let a page whose clock stands still draw, once it knows of so many asks in that state."""
    known = (
        f"{INBOX}.then((inbox) => [...inbox.asks.values()].filter((ask) => ask.state === '{state}').length)"
    )
    until = time.monotonic() + WAIT_S
    while page.evaluate(known) < count:
        assert time.monotonic() < until, f"the page knows of no {count} asks that are {state}"
    page.clock.run_for(50)


def violations(page: Page) -> list[str]:
    """Return what axe-core finds, best practices included, once nothing moves."""
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate("Promise.all(document.getAnimations().map(each => each.finished.catch(() => {})))")
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


class Watch:
    """Collects what a page must never do, whatever it is shown: break, show a dialog, offend against its policy."""

    def __init__(self, page: Page) -> None:
        self.wrongs: list[str] = []
        page.on("pageerror", lambda error: self.wrongs.append(f"error: {error}"))
        page.on("console", lambda message: self._hear(message.type, message.text))
        page.on("dialog", self._dismiss)

    def _dismiss(self, dialog: Dialog) -> None:
        self.wrongs.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _hear(self, kind: str, text: str) -> None:
        # The browser itself tells of refused and lost requests, which tests bring about.
        if kind in {"error", "warning"} and not text.startswith("Failed to load resource"):
            self.wrongs.append(f"{kind}: {text}")


class Late:
    """Holds back what the server answers first to requests for such an address, as it was when it was asked for.

    Args:
        page: whose requests.
        address: a glob pattern.
        until_next: let it go right before the next such request does.
    """

    def __init__(self, page: Page, address: str, *, until_next: bool = False) -> None:
        self._page = page
        self._until_next = until_next
        self._held: tuple[Route, APIResponse] | None = None
        self._is_over = False
        page.route(address, self._hear)

    def wait(self) -> None:
        """Wait until an answer is held."""
        _until(self._page, lambda: self._held is not None)

    def arrives(self) -> None:
        """Let the page have the answer."""
        assert self._held is not None
        route, response = self._held
        self._is_over = True
        route.fulfill(response=response)

    def _hear(self, route: Route) -> None:
        if self._held is None:
            self._held = (route, route.fetch())
            return
        if self._until_next and not self._is_over:
            self.arrives()
        route.continue_()


class Held:
    """Holds back every request for such an address.

    Args:
        page: whose requests.
        address: a glob pattern.
    """

    def __init__(self, page: Page, address: str) -> None:
        self._page = page
        self._held: list[Route] = []
        self._is_over = False
        page.route(address, self._hear)

    def wait(self) -> None:
        """Wait until one is held."""
        _until(self._page, lambda: bool(self._held))

    def go_on(self) -> None:
        """Let them through, and what comes after them."""
        self._is_over = True
        for route in self._held:
            route.continue_()

    def _hear(self, route: Route) -> None:
        if self._is_over:
            route.continue_()
        else:
            self._held.append(route)


def _until(page: Page, happens: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not happens():
        assert time.monotonic() < until, "there was no such request"
        page.evaluate("null")  # the browser is heard meanwhile


class Stand:
    """An inbox in a file, a host with agents in it, and the web surface, which opens the same file anew each time.

    Made by `standing`. Its methods may be called from the test's thread.
    """

    def __init__(self, portal: BlockingPortal, path: Path, host: Store, prompter: InboxPrompter) -> None:
        self._portal = portal
        self._path = path
        self._host = host
        self._prompter = prompter
        self._actors = ExitStack()
        self._server = ExitStack()
        self._asked: list[Future[Outcome]] = []
        self._port = 0

    # -- the server --------------------------------------------------------------------------------------------------

    def serve(
        self,
        *,
        token: str = TOKEN,
        auth: Auth | None = None,
        around: Callable[[Starlette], Starlette] = lambda app: app,
        beat_s: float | None = None,
        store: Store | None = None,
    ) -> None:
        """Start the web surface, on the port that it had before.

        Args:
            token: the token that it takes.
            auth: what tells who makes a request, in place of the token.
            around: makes the application that is served of that of the surface.
            beat_s: how often its feeds beat.
            store: another inbox than the host's.
        """
        store = store or self._server.enter_context(self._async(SqliteStore(self._path)))
        listener = listen("127.0.0.1", self._port)
        self._port = listener.getsockname()[1]
        feeds = None if beat_s is None else Feeds(store, surface="web", beat_s=beat_s)
        surface = application(store, auth=auth or TokenAuth(token), feeds=feeds)
        app = around(surface)
        app.state.feeds = surface.state.feeds
        self._server.enter_context(self._async(served(app, listener)))

    def stop(self) -> None:
        """Stop the web surface; the host goes on."""
        self._server.close()

    def tunnel(self) -> Tunnel:
        """Open another port, by which the surface is reached too."""
        made: Tunnel = self._actors.enter_context(self._async(_tunnel(self._port)))
        return made

    def remove_inbox(self) -> None:
        """Delete the inbox's files while they are in use."""
        for file in self._path.parent.glob(f"{self._path.name}*"):
            if file.is_file():
                file.unlink()

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://127.0.0.1:{self._port}/"

    @property
    def link(self) -> str:
        """The address that signs a browser in."""
        return f"{self.url}?token={TOKEN}"

    # -- the host ----------------------------------------------------------------------------------------------------

    def begin(
        self, session_id: str = "s1", *, title: str = "Set up the service", runtime: str = "claude"
    ) -> Actor:
        """Begin a session with an agent in it."""
        cm = acting(self._prompter, session_id, runtime=runtime, title=title)
        actor: Actor = self._actors.enter_context(self._async(cm))
        return actor

    def asks(self, actor: Actor, *questions: Question, **options: Any) -> Future[Outcome]:
        """Let an agent ask, in a task that waits for the outcome; once this returns the ask is in the inbox and the log."""
        before = len(self.entries())
        future: Future[Outcome] = self._portal.start_task_soon(lambda: actor.asks(*questions, **options))
        self._asked.append(future)
        while len(self.entries()) == before:
            if future.done():
                break
        self.call(actor.written)
        return future

    def puts(self, *questions: Question, wait: timedelta, latest: timedelta) -> Ask:
        """Put an ask whose wait can be extended into the inbox, with nobody who waits for it."""
        now = datetime.now(UTC)
        ask = Ask(f"ask_put_{now.timestamp()}", "s1", questions, now, now + wait)
        self.call(lambda: self._host.put(ask, self._prompter.host_id, latest=now + latest))
        return ask

    def happens(self, actor: Actor, do: Callable[[Actor], object]) -> None:
        """Let an agent do something that is only logged; once this returns it is in the log."""
        self._portal.call(do, actor)
        self.call(actor.written)

    def entry(self, ask_id: str) -> Entry:
        """Return how an ask stands."""
        return self.call(lambda: self._host.entry(ask_id))

    def entries(self) -> tuple[Entry, ...]:
        """Return every ask."""
        return self.call(self._host.entries)

    @property
    def store(self) -> Store:
        """The host's store."""
        return self._host

    def call(self, do: Callable[[], Awaitable[T]]) -> T:
        """Run an async function on the host's loop."""
        return self._portal.call(do)

    def end_sessions(self) -> None:
        """End every session, and close every tunnel."""
        self._actors.close()

    def close(self) -> None:
        """Stop everything, with the asks that are still waiting."""
        self._server.close()
        for future in self._asked:
            future.cancel()
        self._actors.close()

    def _async(self, cm: Any) -> AbstractContextManager[Any]:
        return self._portal.wrap_async_context_manager(cm)


class Tunnel:
    """A port before the server's.

    Args:
        port: its own.
    """

    def __init__(self, port: int) -> None:
        self.link = f"http://127.0.0.1:{port}/?token={TOKEN}"
        self.frozen = anyio.Event()

    def freeze(self, stand: Stand) -> None:
        """Let nothing more through of the feeds that are open, without an end of them; what connects from now on gets through.

        What else is connected ends, so that nothing is asked for by a connection that is lost.
        """

        async def freeze() -> None:
            self.frozen.set()
            self.frozen = anyio.Event()

        stand.call(freeze)


@asynccontextmanager
async def _tunnel(port: int) -> AsyncIterator[Tunnel]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    tunnel = Tunnel(listener.extra(SocketAttribute.local_port))

    async def copy(
        source: SocketStream, target: SocketStream, last: bytearray, ended: anyio.CancelScope
    ) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while True:
                last[:] = await source.receive()
                await target.send(bytes(last))
        ended.cancel()

    async def carry(client: SocketStream) -> None:
        async with client, await anyio.connect_tcp("127.0.0.1", port) as server:
            request = bytearray()
            with anyio.CancelScope() as ended:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(copy, client, server, request, ended)
                    tasks.start_soon(copy, server, client, bytearray(), ended)
                    await tunnel.frozen.wait()
                    tasks.cancel_scope.cancel()
                if request.startswith(b"GET /api/feed"):
                    await anyio.sleep_forever()

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, carry)
        yield tunnel
        tasks.cancel_scope.cancel()


@contextmanager
def standing(path: Path) -> Iterator[Stand]:
    """Open an inbox with a host, and serve it, for the block."""
    with start_blocking_portal("asyncio") as portal:
        enter = portal.wrap_async_context_manager
        with enter(SqliteStore(path)) as store, enter(InboxPrompter(store, when_absent="attach")) as prompter:
            stand = Stand(portal, path, store, prompter)
            try:
                stand.serve()
                yield stand
            finally:
                stand.close()
