"""What every test runs under: property-test profiles and an environment that says nothing about opask."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# No deadlines: how long an example takes says more about the machine than about the code.
settings.register_profile("opask", deadline=None)
# The same examples every time, so that a red run is about the change that it tests.
settings.register_profile(
    "opask-ci",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=10_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("opask-ci" if os.environ.get("CI") else "opask")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what the caller's own environment tells opask."""
    for name in [name for name in os.environ if name.startswith("OPASK_")]:
        monkeypatch.delenv(name)
