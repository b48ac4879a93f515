"""What every test runs under: time limits, property-test profiles, and an environment that says nothing of opask."""

from __future__ import annotations

import functools
import inspect
import os
import signal
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, settings

# A package of its own, whose tests run where it is installed.
collect_ignore = ["third_party"]

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
    max_examples=1_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("opask-ci" if os.environ.get("CI") else "opask")


def pytest_configure() -> None:
    """Take SIGINT again where this process was started in the background, with it ignored, as would its children."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that the project's own checks run the live, browser and tmux tests with."""
    parser.addoption("--no-skips", action="store_true", help="fail the run where a test was skipped")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run that skipped what it was asked for: a check that did not look has not passed."""
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # one of several processes: the one that started them counts
        return
    if session.config.getoption("--no-skips") and reporter.stats.get("skipped") and not exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what the caller's own environment tells opask."""
    for name in [name for name in os.environ if name.startswith("OPASK_")]:
        monkeypatch.delenv(name)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Cancel an async test shortly before its time limit.

    pytest-timeout raises wherever the main thread is, which on trio is outside the test: the run would go on
    waiting. It stays the limit for a test that blocks its loop, and for plain functions.
    """
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test) or hasattr(test, "hypothesis"):
        return
    marker = pyfuncitem.get_closest_marker("timeout")
    given = pyfuncitem.config.getoption("timeout", None)
    limit = float(
        marker.args[0]
        if marker and marker.args
        else pyfuncitem.config.getini("timeout")
        if given is None
        else given
    )
    if not limit:
        return

    @functools.wraps(test)
    async def bounded(**arguments: Any) -> None:
        with anyio.fail_after(0.9 * limit):
            await test(**arguments)

    pyfuncitem.obj = bounded
