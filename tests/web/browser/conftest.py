"""Chromium, and something to look at with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from web_browser import Stand, Watch, chromium_path, standing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE_MS = 20_000
"""How long what a page is to show may take before a test fails."""


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Give a running Chromium without a window."""
    api = pytest.importorskip("playwright.sync_api", reason="make browser installs what drives a browser")
    path = chromium_path()
    if path is None:
        pytest.skip("there is no Chromium; Debian and Ubuntu have it in the package chromium")
    api.expect.set_options(timeout=PATIENCE_MS)
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    """Give a served inbox with its host."""
    with standing(tmp_path / "inbox.db") as made:
        yield made


@pytest.fixture
def new_page(chromium: Browser, stand: Stand) -> Iterator[Callable[..., Page]]:
    """Give what opens a page in a window of its own; whatever it shows, nothing may go wrong in it."""
    contexts = []
    watches = []

    def opened(*, signed_in: bool = True, **options: Any) -> Page:
        context = chromium.new_context(**options)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        watches.append(Watch(page))
        if signed_in:
            page.goto(stand.link)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [wrong for watch in watches for wrong in watch.wrongs] == []


@pytest.fixture
def page(new_page: Callable[..., Page]) -> Page:
    """Give the page, signed in."""
    return new_page()
