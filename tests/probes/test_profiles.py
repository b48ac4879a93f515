"""What the probes know of a runtime: it fits the registry, the claims and the adapter, and a host's launch."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import get_args

import pytest

import opask
from opask.errors import OpaskError
from opask.registry import Registry
from opask_acp import AcpAdapter
from opask_omp.profile import OmpProfile
from opask_probes.case import Case
from opask_probes.claims import CLAIMS
from opask_probes.model import Expect, ExpectedResult
from opask_probes.playing import Setting
from opask_probes.profiles import PROFILES, Mode, Profile, profile
from opask_probes.runtimes import RUNTIMES, probed_runtime
from opask_probes.sandbox import NoNamespace
from opask_probes.scripts import NAME, asked, failed, given, says

ALL = pytest.mark.parametrize("known", PROFILES.values(), ids=lambda one: f"{one.runtime}-{one.route}")
SERVED = pytest.mark.parametrize(
    "known",
    [one for one in PROFILES.values() if one.with_server is not None],
    ids=lambda one: f"{one.runtime}-{one.route}",
)
COMMAND = ("python3", "-I", "server.py")


@ALL
def test_a_profile_is_of_a_row(known: Profile) -> None:
    """Each route that is probed has a row in the registry, an adapter, and claims that are passed over by their ids."""
    row = Registry.shipped().runtimes[known.runtime]
    assert known.route in [route.id for route in row.routes]
    assert row.adapter == opask.adapter(known.runtime).runtime
    assert set(known.unless) <= {claim.id for claim in CLAIMS}
    assert all(known.unless.values())


@ALL
def test_a_profile_launches_in_every_mode(known: Profile) -> None:
    """Each mode starts the program, and only a bypass has settings of the user's that a plain launch has not."""
    launches = {mode: known.launch("the-program", "Go.", mode) for mode in get_args(Mode)}
    assert {launch.argv[0] for launch in launches.values()} == {"the-program"}
    assert launches["plain"].settings == launches["interruptible"].settings == {}
    assert launches["bypass"] != launches["plain"]


@SERVED
def test_a_launch_names_another_server(known: Profile) -> None:
    """A foreign server is in the argv, in a file of the user's, or among what the host opens the session with."""
    assert known.with_server is not None
    plain = known.launch("the-program", "Go.", "plain")
    launch = known.with_server(plain, "other", COMMAND)
    adapter = launch.adapted(opask.adapter(known.runtime))
    opened = adapter.client.mcp_servers if isinstance(adapter, AcpAdapter) else ()
    told = json.dumps([launch.argv, dict(launch.settings), *map(dict, opened)])
    assert all(word in told for word in ("other", *COMMAND))


def test_settings_go_on_top_of_what_the_runtime_needs() -> None:
    """What a user sets stands above the tables of the file that sends the program to the model."""
    launch = profile("kimi-cli").launch("kimi-cli", "Go.", "bypass")
    ((name, text),) = launch.settings.items()
    whole = tomllib.loads(text + RUNTIMES["kimi-cli"].files("http://model")[name])
    assert (whole["default_yolo"], whole["default_model"]) == (True, "scripted")


def test_what_a_model_cannot_be_told_is_not_expected() -> None:
    """Where no result can be marked as an error, no scenario looks at the mark, and at the rest all the same."""
    known = profile("kimi")
    setting = Setting(
        runtime=probed_runtime("kimi"),
        adapter=opask.adapter("kimi"),
        program=Path("kimi"),
        isolation=NoNamespace("none is needed"),
    )
    row = Registry.shipped().runtimes["kimi"].routes[0]
    case = Case(setting, known, row, Path())
    for step in (
        says("On.", expect=failed("no", lacks=("yes",))),
        says("On.", expect=given("no", lacks=("yes",))),
    ):
        assert case.heard(step).expect == Expect(results=(ExpectedResult(("no",), ("yes",), None),))
    marked = says("On.", expect=failed("no"))
    assert Case(setting, profile("claude"), row, Path()).heard(marked) == marked


@pytest.mark.parametrize(
    ("route", "tool"),
    [("mcp-stdio", "mcp__opask_ask_user_question"), ("mcp-stdio-device", "write")],
)
def test_a_device_is_written_to(route: str, tool: str) -> None:
    """Where MCP tools are not on the model's list the script looks for the tool elsewhere, and calls another for it."""
    known = profile("omp", route)
    setting = Setting(
        runtime=probed_runtime("omp"),
        adapter=opask.adapter("omp"),
        program=Path("omp"),
        isolation=NoNamespace("none is needed"),
    )
    (row,) = [one for one in Registry.shipped().runtimes["omp"].routes if one.id == route]
    case = Case(setting, known, row, Path())
    call = case.ask(NAME)
    assert call.tool == tool
    assert (case.tool in case.offer.offered) is (tool == case.tool)
    assert (case.tool in case.offer.absent) is (tool != case.tool)
    written = call.arguments if tool == case.tool else json.loads(call.arguments["content"])
    assert written == asked(NAME)
    assert tool == case.tool or call.arguments["path"] == f"xd://{case.tool}"
    assert known.refuse <= set(AcpAdapter(OmpProfile()).changes)


def test_a_route_that_is_not_probed() -> None:
    """A runtime or a route without a profile is refused with those that there are."""
    with pytest.raises(OpaskError, match=r"no probe for kimi by mcp-http; .*kimi \(mcp-stdio-print\)"):
        profile("kimi", "mcp-http")
