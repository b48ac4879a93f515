"""What the tests of the web surface share: a store of each kind, a prompter on it, and the site that serves it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from opask.inbox import InboxPrompter, MemoryStore, SqliteStore, Store
from web_site import Site, sited


@pytest.fixture
def anyio_backend() -> str:
    """Use asyncio alone: it is what uvicorn serves on."""
    return "asyncio"


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """Give an open store."""
    if request.param == "memory":
        yield MemoryStore()
    else:
        async with SqliteStore(tmp_path / "inbox.db") as opened:
            yield opened


@pytest.fixture
async def prompter(store: Store) -> AsyncIterator[InboxPrompter]:
    """Give a prompter that needs nobody to watch."""
    async with InboxPrompter(store, when_absent="attach") as opened:
        yield opened


@pytest.fixture
async def site(store: Store) -> AsyncIterator[Site]:
    """Give the store, served."""
    async with sited(store) as served:
        yield served
