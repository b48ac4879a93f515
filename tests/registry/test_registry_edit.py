"""Writing an observation into a registry file without touching the rest of it."""

from __future__ import annotations

import difflib
import hashlib
import stat
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opask.errors import RegistryError
from opask.registry import Registry, shipped_path
from opask.registry_edit import record_observation

DAY = date(2026, 11, 30)
RECORDING = "probes/recordings/acme.jsonl"
FILE = """\
# What works where.
schema_version = 1
data_version = 4

[runtimes.acme]
title = "Acme"  # the one with the anvils

# First choice.
[[runtimes.acme.routes]]
id = "mcp-stdio"
status   = "untested"   # aligned by hand
wait = { default_s = 60 }
# about the wait

# Only where there is no stdio.
[[runtimes.acme.routes]]
id = "mcp-http"
status = "untested"

[runtimes.acme.routes.wait]
default_s = 300

# ------------------------------------------------

[runtimes.zeta]
title = "Zeta"

[[runtimes.zeta.routes]]
id = "mcp-stdio"
status = "untested"
# the end
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give a registry file with comments in all places, and a recording beside it."""
    (tmp_path / "probes/recordings").mkdir(parents=True)
    (tmp_path / RECORDING).write_bytes(b"{}\n")
    path = tmp_path / "registry.toml"
    path.write_text(FILE)
    return path


def record(path: Path, route: str = "acme/mcp-stdio", version: str = "1.2.3", **more: Any) -> bool:
    """Record an observation."""
    runtime, _, id_ = route.partition("/")
    values = {
        "platform": "linux-x86_64",
        "probe": "probes/acme.py",
        "recording": RECORDING,
        "day": DAY,
        **more,
    }
    return record_observation(path, runtime=runtime, route=id_, version=version, **values)


def versions(path: Path, runtime: str = "acme", place: int = 0) -> list[str]:
    """Give the versions that a route's observations have, in the file's order."""
    return [seen.version for seen in Registry.load(path).runtimes[runtime].routes[place].observations]


def removed(before: str, after: str) -> list[str]:
    """Give the lines that an edit took away."""
    return [
        line[2:] for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line.startswith("- ")
    ]


def test_a_new_observation_is_all_that_is_added(path: Path) -> None:
    """The file gets the observation, a raised data version, and no other change; comments stay with their rows."""
    assert record(path)
    block = f"""
[[runtimes.acme.routes.observations]]
version = "1.2.3"
date = 2026-11-30
platform = "linux-x86_64"
probe = "probes/acme.py"
recording = "{RECORDING}"
sha256 = "{hashlib.sha256(b"{}" + bytes([10])).hexdigest()}"
status = "untested"
"""
    about = "# about the wait\n"
    expected = FILE.replace("data_version = 4", "data_version = 5").replace(about, about + block)
    assert path.read_text() == expected


@pytest.mark.parametrize("route", ["acme/mcp-stdio", "acme/mcp-http", "zeta/mcp-stdio"])
def test_every_row_can_be_recorded(path: Path, route: str) -> None:
    """Wherever the row stands, with a table below it or last in the file, only the data version's line goes."""
    record(path, route)
    assert removed(FILE, path.read_text()) == ["data_version = 4"]


def test_a_rule_between_runtimes_stays_between_them(path: Path) -> None:
    """A comment that leads to the next row stays before that row."""
    record(path, "acme/mcp-http")
    text = path.read_text()
    assert (
        text.index("[[runtimes.acme.routes.observations]]")
        < text.index("# ---")
        < text.index("[runtimes.zeta]")
    )


def test_a_second_time_changes_nothing(path: Path) -> None:
    """The same facts again leave the file as it is, byte for byte."""
    record(path)
    before = path.read_bytes()
    assert not record(path)
    assert path.read_bytes() == before


def test_the_newest_version_stands_first(path: Path) -> None:
    """Whatever the order of recording, observations stand newest first."""
    for version in ("1.2.3", "1.10.0", "1.2.1", "2.0.0", "1.2.10"):
        record(path, version=version)
    assert versions(path) == ["2.0.0", "1.10.0", "1.2.10", "1.2.3", "1.2.1"]


def test_the_same_version_again_is_replaced(path: Path) -> None:
    """An observation of that version and platform gets the new facts in its place, and keeps its status."""
    record(path, status="verified")
    record(path, version="1.2.2")
    record(path, probe="probes/other.py")
    first, second = Registry.load(path).runtimes["acme"].routes[0].observations
    assert (first.version, first.probe, first.status) == ("1.2.3", "probes/other.py", "verified")
    assert second.status == "untested"


def test_another_platform_is_another_observation(path: Path) -> None:
    """The same version elsewhere stands beside the first one."""
    record(path)
    record(path, platform="macos-arm64")
    assert versions(path) == ["1.2.3", "1.2.3"]


def test_the_route_s_status_is_a_person_s(path: Path) -> None:
    """Recording a verified observation leaves the route's own status alone."""
    record(path, status="verified")
    assert Registry.load(path).runtimes["acme"].routes[0].status == "untested"


def test_the_day_is_today_by_default(path: Path) -> None:
    """Without a day, the observation is of today."""
    record(path, day=None)
    assert Registry.load(path).runtimes["acme"].routes[0].observations[0].date == datetime.now(UTC).date()


def test_a_link_is_followed(path: Path, tmp_path: Path) -> None:
    """Through a link, the file that it leads to is edited, and the link stays one."""
    (tmp_path / "package").mkdir()
    link = tmp_path / "package/registry.toml"
    link.symlink_to("../registry.toml")
    record(link)
    assert link.is_symlink()
    assert versions(path) == ["1.2.3"]


def test_the_file_keeps_its_mode_and_leaves_nothing_beside_it(path: Path) -> None:
    """The new file has the old one's permissions, and no temporary file is left."""
    path.chmod(0o640)
    record(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(one.name for one in path.parent.iterdir()) == ["probes", "registry.toml"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"route": "acme/carrier-pigeon"}, "no such row"),
        ({"route": "other/mcp-stdio"}, "no such row"),
        ({"recording": "probes/recordings/gone.jsonl"}, "cannot be read"),
        ({"version": "latest"}, "no version"),
        ({"platform": ""}, "platform"),
        ({"probe": "/etc/passwd"}, "below the registry"),
    ],
)
def test_what_cannot_be_recorded_leaves_the_file_alone(
    path: Path, values: dict[str, Any], words: str
) -> None:
    """A row or a recording that is not there, and a fact that the schema refuses, are errors before any writing."""
    with pytest.raises(RegistryError, match=words) as caught:
        record(path, **values)
    assert caught.value.file == "registry.toml"
    assert path.read_text() == FILE


def test_a_file_that_cannot_be_read_is_not_edited(path: Path) -> None:
    """A registry that does not keep to its schema is refused as it is."""
    path.write_text(FILE + "colour = 1\n")
    with pytest.raises(RegistryError, match="no such field"):
        record(path)
    assert path.read_text() == FILE + "colour = 1\n"


def test_without_tomlkit_the_extra_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where tomlkit is not installed, the error names the extra that brings it."""
    monkeypatch.setitem(sys.modules, "tomlkit", None)
    with pytest.raises(RegistryError, match=r"opask\[probe\]"):
        record(path)


def assert_only_added(before: str, after: str) -> None:
    """Check that every line but the data version's is where it was."""
    left = iter(after.splitlines())  # each line is looked for behind the one before it
    assert all(line in left for line in before.splitlines() if not line.startswith("data_version = "))


ROUTES = st.sampled_from(["acme/mcp-stdio", "acme/mcp-http", "zeta/mcp-stdio"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.tuples(ROUTES, st.sampled_from(["1.0.0", "1.1.0", "2.0.0"])), max_size=7))
def test_edits_only_add(path: Path, edits: list[tuple[str, str]]) -> None:
    """In whatever order rows are recorded, each has its observation once, and every other line is where it was."""
    path.write_text(FILE)
    for route, version in edits:
        record(path, route, version)
    assert_only_added(FILE, path.read_text())
    assert path.read_text().count("[[runtimes.") - FILE.count("[[runtimes.") == len(set(edits))


def test_the_shipped_file_can_be_recorded(path: Path) -> None:
    """On the real file, first, last and in between, every other line stays where it was."""
    before = shipped_path().read_text()
    path.write_text(before)
    for route in ("acp/mcp-stdio", "claude/mcp-stdio", "claude/native", "vibe/mcp-stdio"):
        assert record(path, route, "0.0.1")
    assert_only_added(before, path.read_text())
