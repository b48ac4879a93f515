"""Samples taken in turn with their baseline, and what they come to: medians, quartiles and ratios."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Figure", "Interleaved", "Quartiles", "Target", "table"]

Unit = Literal["ms", "MiB", "KiB", "fds"]


@dataclass(frozen=True)
class Quartiles:
    """The middle of some samples and the spread around it."""

    low: float
    median: float
    high: float
    count: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> Quartiles:
        """Take them of at least one sample."""
        if len(samples) == 1:
            return cls(samples[0], samples[0], samples[0], 1)
        low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
        return cls(low, median, high, len(samples))


@dataclass(frozen=True)
class Target:
    """What a figure has to show.

    Attributes:
        what: ``ratio`` to the baseline, ``speedup`` over it (the baseline by the subject), or the ``value`` itself.
        limit: the most it may be; for a speedup the least.
    """

    what: Literal["ratio", "speedup", "value"]
    limit: float

    def text(self, unit: Unit) -> str:
        """Say it in short."""
        match self.what:
            case "ratio":
                return f"≤ {self.limit:g}×"
            case "speedup":
                return f"≤ 1/{self.limit:g}"
            case "value":
                return f"≤ {self.limit:g} {unit}"


@dataclass(frozen=True)
class Figure:
    """One line of the table: a subject, its baseline, and the ratio of the two.

    Attributes:
        name: what was measured.
        unit: of the samples.
        subject: opask's samples.
        baseline: the baseline's, taken in turn with them.
        against: what the baseline is.
        ratio: subject by baseline, of the pairs that were taken in the same round.
        target: what it has to show, None where it only informs.
        note: what else there is to say of it.
    """

    name: str
    unit: Unit
    subject: Quartiles
    against: str
    baseline: Quartiles
    ratio: Quartiles
    target: Target | None = None
    note: str = ""

    @classmethod
    def of_pairs(
        cls,
        name: str,
        unit: Unit,
        pairs: Sequence[tuple[float, float]],
        *,
        against: str,
        target: Target | None = None,
        note: str = "",
    ) -> Figure:
        """Make it of (subject, baseline) pairs."""
        return cls(
            name,
            unit,
            Quartiles.of([subject for subject, _ in pairs]),
            against,
            Quartiles.of([baseline for _, baseline in pairs]),
            Quartiles.of([subject / baseline for subject, baseline in pairs]),
            target,
            note,
        )

    @property
    def met(self) -> bool | None:
        """Whether the target is met at the median; None without one."""
        match self.target:
            case None:
                return None
            case Target("ratio", limit):
                return self.ratio.median <= limit
            case Target("speedup", limit):
                return self.ratio.median <= 1 / limit
            case Target(_, limit):
                return self.subject.median <= limit


@dataclass
class Interleaved:
    """Measures several things in turn, so that whatever else the machine does meets all of them alike."""

    _measures: dict[str, tuple[Callable[[], float], int]] = field(default_factory=dict)
    _samples: dict[str, dict[int, float]] = field(default_factory=dict)

    def add(self, name: str, measure: Callable[[], float], *, every: int = 1) -> None:
        """Add one; what is slow is measured only every so many rounds."""
        self._measures[name] = (measure, every)
        self._samples[name] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._measures

    def run(self, rounds: int) -> None:
        """Measure, each round beginning with another one; the first round of all is thrown away."""
        names = list(self._measures)
        for number in range(-1, rounds):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                measure, every = self._measures[name]
                if number < 0 or number % every == 0:
                    sample = measure()
                    if number >= 0:
                        self._samples[name][number] = sample

    def pairs(self, subject: str, baseline: str) -> list[tuple[float, float]]:
        """Return the two's samples of the rounds in which both were measured."""
        ours, theirs = self._samples[subject], self._samples[baseline]
        return [(ours[number], theirs[number]) for number in ours if number in theirs]


_COLUMNS = ("figure", "opask", "baseline", "", "ratio [quartiles]", "target", "")


def table(figures: Iterable[Figure]) -> str:
    """Lay the figures out as text."""
    rows = [_COLUMNS, *(_row(figure) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    right = (1, 3)
    lines = [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "─" * max(map(len, lines)))
    return "\n".join(lines)


def _row(figure: Figure) -> tuple[str, ...]:
    verdict = {True: "met", False: "MISSED", None: ""}[figure.met]
    ratio = figure.ratio
    return (
        figure.name,
        f"{_number(figure.subject.median)} {figure.unit}",
        figure.against,
        f"{_number(figure.baseline.median)} {figure.unit}",
        f"{_number(ratio.median)}× [{_number(ratio.low)}–{_number(ratio.high)}]",
        figure.target.text(figure.unit) if figure.target else "",
        verdict,
    )


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
