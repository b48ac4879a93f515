"""What a probe of another version says beside the one by which the row is verified."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from opask.errors import OpaskError
from opask.registry import Registry, shipped_path
from opask.registry_schema import RouteRow
from opask_probes.claims import CLAIMS
from opask_probes.command import Errand, Result
from opask_probes.comparison import Comparison, Difference, compare
from opask_probes.probe import Finding, Report
from opask_probes.verdicts import Held, NotApplicable, NotHeld, Verdict

ROW = next(route for route in Registry.shipped().runtimes["claude"].routes if route.id == "mcp-stdio")
NAMES = [claim.id for claim in CLAIMS]


def report(*verdicts: Verdict, version: str | None = "2.0.76") -> Report:
    """Give what a probe would have found of the first claims."""
    return Report(
        runtime="claude",
        route="mcp-stdio",
        version=version,
        platform="linux-x86_64",
        isolation="none",
        support=Registry.shipped().support("claude", version, route="mcp-stdio"),
        day=date(2026, 3, 1),
        findings=tuple(Finding(claim, verdict) for claim, verdict in zip(CLAIMS, verdicts, strict=False)),
    )


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    """Give the place of a registry whose recordings lie beside it."""
    return tmp_path / "registry.toml"


def recorded(registry: Path, row: RouteRow, more: Mapping[str, Any] | None) -> None:
    """Write the header of the recording by which a row is verified."""
    seen = row.observations[0]
    path = registry.parent / seen.recording
    path.parent.mkdir(parents=True)
    header = {"runtime": "claude", "version": seen.version, "route": "mcp-stdio", "date": "2026-03-01"}
    path.write_text(json.dumps({**header, "command": ["claude"], **(more or {})}) + "\n", encoding="utf-8")


def test_each_claim_is_held_beside_the_verified_version(registry: Path) -> None:
    """A claim that both versions were tried for is the same or otherwise; the others are in neither."""
    words = ["held", "held", "not held", "held", "not applicable"]
    recorded(registry, ROW, {"claims": dict(zip(NAMES, words, strict=False))})
    lost = NotHeld(("it hung",))
    found = compare(report(Held(), lost, Held(), NotApplicable("x"), Held(), Held()), ROW, registry)
    assert found == Comparison(
        ROW.observations[0].version,
        NAMES[:1],
        [Difference(NAMES[1], "held", "not held"), Difference(NAMES[2], "not held", "held")],
    )
    assert Result(report(Held()), found).to_json()["compared"] == found.to_json()


def test_there_may_be_nothing_to_compare_with(registry: Path) -> None:
    """The verified version itself, a row that is not verified, and a recording without claims give no comparison."""
    assert compare(report(Held()), ROW, registry) is None, "there is no recording"
    recorded(registry, ROW, None)
    assert compare(report(Held()), ROW, registry) is None, "it says nothing of claims"
    assert compare(report(Held(), version=ROW.observations[0].version), ROW, shipped_path()) is None
    untested = ROW.model_copy(update={"status": "untested"})
    assert compare(report(Held()), untested, shipped_path()) is None


def test_the_shipped_evidence_can_be_compared_with() -> None:
    """The recording by which claude's row is verified says what was found of each claim."""
    found = compare(report(*[Held() for _ in CLAIMS]), ROW, shipped_path())
    assert found is not None
    assert set(found.same) == set(NAMES)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"version": "2.0.76", "program": "claude"}, "leave --version out, or --bin"),
        ({"version": "latest"}, "name it exactly"),
    ],
)
def test_a_version_is_named_exactly_and_alone(fields: dict[str, str], says: str) -> None:
    """A tag such as latest, or a version beside a program of one's own, is refused."""
    with pytest.raises(OpaskError, match=says):
        Errand(runtime="claude", **fields)  # type: ignore[arg-type] # the fields are of various types
    assert Errand(runtime="claude", version="2.0.76").version == "2.0.76"
