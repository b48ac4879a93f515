"""What a probe found, beside what was found of the version by which the row is verified."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from opask.errors import RecordingError
from opask.recording import read_recording
from opask.registry import verified_observation
from opask.registry_schema import RouteRow

from .probe import Report
from .verdicts import Held, NotHeld

__all__ = ["CLAIMS_FIELD", "Comparison", "Difference", "compare"]

CLAIMS_FIELD: Final = "claims"
"""The field of a recording's header that has the word found for each claim."""

_TRIED: Final = (Held.word, NotHeld.word)


@frozen
class Difference:
    """A claim of which something else was found.

    Args:
        claim: its id.
        there: the word found at the version that is compared with.
        here: the word found now.
    """

    claim: str
    there: str
    here: str


@frozen
class Comparison:
    """A probe's findings beside those of another version.

    Args:
        version: the other version.
        same: ids of the claims of which the same was found.
        differences: the others; a claim that was not tried at both is in neither.
    """

    version: str
    same: tuple[str, ...] = field(converter=tuple[str, ...])
    differences: tuple[Difference, ...] = field(converter=tuple[Difference, ...])

    def to_json(self) -> dict[str, Any]:
        """Give it as plain data."""
        return {
            "version": self.version,
            "same": list(self.same),
            "differences": [
                {"claim": one.claim, "there": one.there, "here": one.here} for one in self.differences
            ],
        }


def compare(report: Report, row: RouteRow, registry: Path) -> Comparison | None:
    """Compare a probe's findings with those in the recording by which a row is verified.

    Args:
        report: what the probe found.
        row: the route's row.
        registry: the registry's file, beside which the recordings lie.

    Returns:
        The comparison; None where the row is not verified, or by this very version, or by a recording that is not
        there or says nothing of claims.
    """
    seen = verified_observation(row)
    if seen is None or seen.version == report.version:
        return None
    try:
        header = read_recording((registry.resolve().parent / seen.recording).read_bytes()).header
    except (OSError, RecordingError):
        return None
    there = header.more.get(CLAIMS_FIELD)
    if not isinstance(there, Mapping):
        return None
    here = {finding.claim.id: finding.verdict.word for finding in report.findings}
    tried = [claim for claim, word in here.items() if word in _TRIED and there.get(claim) in _TRIED]
    return Comparison(
        seen.version,
        [claim for claim in tried if here[claim] == there[claim]],
        [Difference(claim, there[claim], here[claim]) for claim in tried if here[claim] != there[claim]],
    )
