"""`opask mcp` at work: inbox, bridge, sessions and the MCP surface in one process."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from pathlib import Path

import anyio

from opask.cli.logs import logging_to
from opask.cli.output import Stream
from opask.cli.runs import Runs, RunSettings
from opask.cli.stopping import Stopping
from opask.inbox import InboxPrompter, SqliteStore, default_path
from opask.surfaces.mcp import HttpAddress, McpSurface, serve_http, serve_stdio

__all__ = ["serve"]


def serve(settings: RunSettings, inbox: Path | None, address: HttpAddress | None, version: str) -> int:
    """Serve until the client is gone and no turn runs any more, or until a signal comes.

    Args:
        settings: of the sessions.
        inbox: the inbox's file; by default the user's own.
        address: where to listen; None for stdin and stdout.
        version: opask's, told to clients.

    Returns:
        0, or 128+n where signal n ended it.
    """
    return anyio.run(_serve, settings, inbox, address, version, backend="asyncio")


async def _serve(settings: RunSettings, inbox: Path | None, address: HttpAddress | None, version: str) -> int:
    stopping = Stopping()
    with logging_to(Stream(sys.stderr)):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stopping.watch)
            with stopping.scope:
                async with AsyncExitStack() as stack:
                    store = await stack.enter_async_context(SqliteStore(inbox or default_path()))
                    # A question waits in the inbox for whoever looks there, and the client that drives is told of it.
                    prompter = await stack.enter_async_context(InboxPrompter(store, when_absent="attach"))
                    runs = await stack.enter_async_context(Runs(prompter, settings))
                    stopping.hasten = runs.hasten
                    surface = McpSurface(runs, store, version=version)
                    if address is None:
                        await serve_stdio(surface)
                        await runs.quiet()  # the client is gone: the agents go on, and others may answer them
                    else:
                        _tell(address)
                        await serve_http(surface, address)
            tasks.cancel_scope.cancel()
    return 0 if stopping.by is None else 128 + stopping.by


def _tell(address: HttpAddress) -> None:
    print(
        f"opask mcp: serving {address.url}\nopask mcp: clients send the header: Authorization: Bearer {address.token}",
        file=sys.stderr,
        flush=True,
    )
