"""Relays and runtimes that are killed at any moment: every ask settles once, and nothing is left behind."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from attrs import frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge_peers import socket_of
from fuzz_hosts import FuzzedHost, Operator, fuzzed_host, resident_kib
from fuzz_lines import PATIENCE_S, Lines, ask
from opask import Answered
from opask.bridge import Session

RUNTIME = Path(__file__).resolve().parents[1] / "fuzz_runtime.py"
# A few seconds' worth in the tests, several hundred under the fuzz profile.
KILLS = min(settings().max_examples * 3 // 10, 400)
killing = settings(max_examples=KILLS, suppress_health_check=list(HealthCheck))
MOMENTS = ("spawned", "shaken", "half a call", "called", "asked", "answered", "read")

# How long to wait before a kill, in milliseconds: what races with it is the point.
jitter = st.sampled_from([0, 0, 1, 2, 5, 15])


@pytest.fixture(scope="module")
def patient() -> Iterator[FuzzedHost]:
    """One bridge for all kills, with a grace that no load makes too short; at the end nothing of them is left."""
    yield from _host(timedelta(seconds=20))


@pytest.fixture(scope="module")
def hasty() -> Iterator[FuzzedHost]:
    """The same, with a grace that soon runs out."""
    yield from _host(timedelta(milliseconds=100))


def _host(grace: timedelta) -> Iterator[FuzzedHost]:
    with (
        tempfile.TemporaryDirectory(prefix="o", dir="/tmp") as folder,
        fuzzed_host(Path(folder), grace=grace) as host,
    ):
        yield host


def relay_of(session: Session) -> tuple[str, ...]:
    """Return the command of the session's relay."""
    socket_of(session)
    assert session.plan is not None
    assert session.plan.endpoint is not None
    return session.plan.endpoint.command


@contextmanager
def relayed(command: Sequence[str]) -> Iterator[tuple[Lines, subprocess.Popen[bytes]]]:
    """Start a relay; at the end it is gone."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Lines(pipes=(process.stdout.fileno(), process.stdin.fileno())), process
    finally:
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):
                stream.close()
        process.wait(PATIENCE_S)


@frozen
class Kill:
    """When a relay is killed, and what the runtime does then."""

    moment: str
    after_ms: int
    again: bool


kills = st.builds(Kill, st.sampled_from(MOMENTS), jitter, st.booleans())


@killing
@given(plan=st.lists(kills, min_size=1, max_size=4))
def test_a_relay_killed_at_any_moment_costs_no_ask(patient: FuzzedHost, plan: list[Kill]) -> None:
    """A call that is sent again right after each kill is asked once, and gets the operator's one answer."""
    with patient.session() as (session, _, operator):
        command = relay_of(session)
        for kill in plan:
            if not _until_killed(command, operator, kill):
                return
        with relayed(command) as (lines, _process):
            lines.shake_hands()
            lines.call("c", "later")
            operator.answer_all()
            assert lines.response("c")["result"]["structuredContent"] == {"answers": {"later": "a"}}
        assert len(operator.asked) == 1, "the operator was asked twice"
        operator.wait_settled()
        assert isinstance(operator.outcomes[operator.asked[0].id], Answered)


def _until_killed(command: Sequence[str], operator: Operator, kill: Kill) -> bool:
    """Go as far as the moment, kill the relay, and tell whether the runtime goes on."""
    with relayed(command) as (lines, process):
        with suppress(EOFError, BrokenPipeError):
            for moment in MOMENTS[: MOMENTS.index(kill.moment) + 1]:
                if moment == "shaken":
                    lines.shake_hands()
                elif moment == "half a call":
                    lines.send(ask("c", "later")[:-10])
                elif moment == "called":
                    lines.send(ask("c", "later")[-10:])
                elif moment == "asked":
                    operator.wait_asked(1)
                elif moment == "answered":
                    operator.answer_all()
                elif moment == "read":
                    lines.response("c")
        time.sleep(kill.after_ms / 1000)
        process.kill()
    return kill.again


@killing
@given(times=st.integers(1, 200), after_ms=st.integers(0, 60))
def test_a_runtime_killed_at_any_moment_takes_its_relay_along(
    hasty: FuzzedHost, times: int, after_ms: int
) -> None:
    """The relay ends by itself, and what was asked settles within the grace."""
    with hasty.session() as (session, _, operator):
        # Held by the runtime and its relay alone: its end tells that both have gone.
        ours, theirs = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-S", str(RUNTIME), str(times), *relay_of(session)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs,
        )
        os.close(theirs)
        assert process.stdout is not None
        with process:
            process.stdout.readline()
            time.sleep(after_ms / 1000)
            process.kill()
        with os.fdopen(ours, "rb") as end:
            assert select.select([end], [], [], PATIENCE_S)[0], "the relay outlives its runtime"
            assert end.read() == b""
        operator.wait_settled()


def test_memory_is_flat(hasty: FuzzedHost) -> None:
    """What many sessions with killed relays have used is used again by as many more."""

    def serve(times: int) -> None:
        for _ in range(times):
            with hasty.session() as (session, _, operator), relayed(relay_of(session)) as (lines, process):
                lines.shake_hands()
                lines.call(1, "later")
                operator.wait_asked(1)
                process.kill()

    rounds = max(10, KILLS // 4)
    serve(rounds)
    grown: list[int] = []
    while len(grown) < 4:  # what is lost is lost each time; another thread's first memory is not
        before = resident_kib()
        serve(rounds)
        grown.append(resident_kib() - before)
        if grown[-1] < 4096:
            return
    raise AssertionError(f"{grown} KiB more after {rounds} sessions each")
