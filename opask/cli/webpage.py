"""The page of an inbox, served by this process: for `opask serve`, and for a run that brings its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio

from opask.cli import UsageError
from opask.errors import SurfaceError

if TYPE_CHECKING:
    from opask.inbox import SqliteStore, Store
    from opask.surfaces.web.serverfile import ServerFile

__all__ = ["PORT", "claimed", "first_watcher", "hosting", "page_of"]

PORT: Final = 8787
_HOST: Final = "127.0.0.1"
_LOOK_S: Final = 0.25


@contextmanager
def claimed(store: SqliteStore) -> Iterator[ServerFile]:
    """Have the place of the one who serves an inbox's page, for the block.

    Raises:
        SurfaceError: another process has it.
        UsageError: the extra is not installed.
    """
    place = server_file(store)
    if not place.claim():
        serving = place.found()
        where = "" if serving is None else f" at {serving.url} by process {serving.pid}"
        raise SurfaceError(
            f"the inbox {store.path} is served already{where}; use that page, or end that process first"
        )
    try:
        yield place
    finally:
        place.release()


def server_file(store: SqliteStore) -> ServerFile:
    """Return the place of the one who serves an inbox's page, not taken yet.

    Raises:
        UsageError: the extra is not installed.
    """
    try:
        from opask.surfaces.web.serverfile import ServerFile
    except ImportError as error:
        raise UsageError(f"the web surface needs the extra web ({error}); pip install 'opask[web]'") from None
    return ServerFile(store.folder)


@asynccontextmanager
async def hosting(
    store: SqliteStore,
    place: ServerFile,
    host: str,
    port: int,
    *,
    hosts: Collection[str],
    new_token: bool = False,
) -> AsyncIterator[str]:
    """Serve an inbox's page, for the block; on asyncio.

    Args:
        store: the inbox.
        place: its place, taken.
        host: the address to listen on.
        port: the port; 0 for any.
        hosts: the host names that it is reached by.
        new_token: whether the token is to be another.

    Returns:
        The link.

    Raises:
        SurfaceError: the address or port cannot be had.
    """
    from opask.http_serving import listen
    from opask.surfaces.web import TokenAuth, application
    from opask.surfaces.web.serving import served

    listener = listen(host, port)
    with listener:
        auth = TokenAuth(place.token(new=new_token))
        url = f"http://{_shown(host)}:{listener.getsockname()[1]}/"
        async with served(application(store, auth=auth, hosts=hosts), listener):
            place.announce(url, auth.token)
            yield auth.link(url)


def _shown(host: str) -> str:
    """Return a host as it stands in a URL; for every address, this machine's own."""
    if host in {"", "0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        return "127.0.0.1" if host != "::" else "[::1]"
    return f"[{host}]" if ":" in host else host


@asynccontextmanager
async def page_of(store: SqliteStore, tell: Callable[[str], object]) -> AsyncIterator[None]:
    """Have an inbox's page served for the block; on asyncio.

    Where another process serves it, that is its page, and this process goes on with it once the other one ends, at
    the same address where it can, so that a page that is open stays so.

    Args:
        store: the inbox.
        tell: told the link, and each other one that comes after it.

    Raises:
        UsageError: the extra is not installed.
    """
    async with anyio.create_task_group() as tasks:
        await tasks.start(_keep_page, store, tell)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()


async def _keep_page(
    store: SqliteStore, tell: Callable[[str], object], *, task_status: anyio.abc.TaskStatus[None]
) -> None:
    from opask.surfaces.web import TokenAuth
    from opask.surfaces.web.guards import LOOPBACK

    place = server_file(store)
    told: str | None = None
    port = PORT

    def tell_once(link: str) -> None:
        nonlocal told
        if link != told:
            if told is None:
                task_status.started()
            tell(link)
            told = link

    while not place.claim():
        serving = place.found()  # not yet there for a moment
        if serving is not None:
            port = urlsplit(serving.url).port or port
            tell_once(TokenAuth(serving.token).link(serving.url))
        await anyio.sleep(_LOOK_S)
    try:
        async with AsyncExitStack() as stack:
            try:
                link = await stack.enter_async_context(hosting(store, place, _HOST, port, hosts=LOOPBACK))
            except SurfaceError:
                link = await stack.enter_async_context(hosting(store, place, _HOST, 0, hosts=LOOPBACK))
            tell_once(link)
            await anyio.sleep_forever()
    finally:
        place.release()


async def first_watcher(store: Store, session_id: str, within: timedelta) -> bool:
    """Wait until somebody can see a session's questions; tell whether anybody came in time."""
    with anyio.move_on_after(within.total_seconds()):
        while store.present_until(session_id) is None:  # noqa: ASYNC110 - no event tells of a lease alone
            await anyio.sleep(_LOOK_S)
        return True
    return False
