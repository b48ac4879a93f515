"""What the conformance tests share: the npm packages, and one backend."""

from __future__ import annotations

import pytest

from node_packages import NodePackages, install


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio alone: what is tested is how the server speaks to another program."""
    return "asyncio"


@pytest.fixture(scope="session")
def packages() -> NodePackages:
    """Give the pinned npm packages, installed where they are not."""
    return install()
