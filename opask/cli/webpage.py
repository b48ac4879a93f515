"""The page of an inbox, served by this process: for `opask serve`, and for a run that brings its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from opask.cli import UsageError
from opask.errors import SurfaceError

if TYPE_CHECKING:
    from opask.inbox import SqliteStore
    from opask.surfaces.web.serverfile import ServerFile

__all__ = ["claimed", "hosting"]


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
    from opask.surfaces.web import TokenAuth, application
    from opask.surfaces.web.serving import listen, served

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
