"""What a rule of the registry's linter is, what it looks at, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from attrs import frozen

from opask.registry_lint.evidence import Evidence, RecordingFile
from opask.registry_schema import Observation, RouteRow, RuntimeRow

__all__ = [
    "Finding",
    "ObservationSubject",
    "Problem",
    "RouteSubject",
    "Rule",
    "RuntimeSubject",
    "Scope",
    "Severity",
    "rule",
]

Severity: TypeAlias = Literal["error", "warning"]
Scope: TypeAlias = Literal["registry", "runtime", "route", "observation", "recording"]


@frozen
class RuntimeSubject:
    """One runtime's row."""

    id: str
    row: RuntimeRow

    @property
    def where(self) -> str:
        """The row, as a finding names it."""
        return self.id


@frozen
class RouteSubject:
    """One route's row, within its runtime's."""

    runtime: RuntimeSubject
    row: RouteRow

    @property
    def where(self) -> str:
        """The row, as a finding names it."""
        return f"{self.runtime.id}/{self.row.id}"


@frozen
class ObservationSubject:
    """One observation, within its route's row."""

    route: RouteSubject
    row: Observation

    @property
    def where(self) -> str:
        """The row, as a finding names it."""
        return f"{self.route.where}@{self.row.version}"


@frozen
class Problem:
    """What a rule says of one subject.

    Args:
        message: what is wrong.
        remedy: what to do about it.
        line: the line of the recording that it is about.
        where: another place than the subject's own.
    """

    message: str
    remedy: str
    line: int | None = None
    where: str | None = None


@frozen
class Finding:
    """A problem in its place.

    Args:
        rule: the rule's name.
        severity: an ``error`` makes the check fail, a ``warning`` does not.
        where: the row (``claude/mcp-stdio@2.1.332``) or the recording's path.
        message: what is wrong.
        remedy: what to do about it.
        line: the line of the recording.
    """

    rule: str
    severity: Severity
    where: str
    message: str
    remedy: str
    line: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the finding as the JSON object that the command line prints."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "where": self.where,
            "line": self.line,
            "message": self.message,
            "remedy": self.remedy,
        }


S = TypeVar("S", Evidence, RuntimeSubject, RouteSubject, ObservationSubject, RecordingFile)
Check: TypeAlias = Callable[[S, Evidence], Iterable[Problem]]

_SCOPES: dict[str, Scope] = {
    "Evidence": "registry",
    "RuntimeSubject": "runtime",
    "RouteSubject": "route",
    "ObservationSubject": "observation",
    "RecordingFile": "recording",
}


@frozen
class Rule(Generic[S]):
    """One rule.

    Args:
        name: what a finding, and an exception to it, calls the rule.
        scope: what it is asked about, one at a time.
        severity: how bad it is when it fires.
        message: the rule itself, in a sentence.
        check: says what is wrong with a subject, nothing where all is well.
    """

    name: str
    scope: Scope
    severity: Severity
    message: str
    check: Check[S]


def rule(severity: Severity = "error") -> Callable[[Check[S]], Rule[S]]:
    """Make a rule of a function: its name, its first parameter's type and its docstring say which.

    Args:
        severity: how bad it is when it fires.
    """

    def decorate(check: Check[S]) -> Rule[S]:
        name = check.__name__.replace("_", "-")
        scope = _SCOPES[next(iter(check.__annotations__.values()))]
        return Rule(name, scope, severity, (check.__doc__ or "").strip(), check)

    return decorate
