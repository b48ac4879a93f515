"""What every live test needs: one backend, the pinned runtime, and a namespace with loopback alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from opask_probes.install import InstallError, installed
from opask_probes.sandbox import Isolation, NoNamespace, loopback_namespace


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio alone: what is tested is the real runtime, and the command line's own loop is asyncio's."""
    return "asyncio"


@pytest.fixture(scope="session")
def claude() -> Path:
    """Give the pinned claude."""
    try:
        return installed("claude")
    except InstallError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def isolation() -> Isolation:
    """Give a namespace with loopback alone; a runtime is not run without one here."""
    found = loopback_namespace()
    if isinstance(found, NoNamespace):
        pytest.skip(found.reason)
    return found
