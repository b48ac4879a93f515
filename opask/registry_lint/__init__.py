"""The registry's linter: small rules that hold rows against their evidence. They report, and never raise."""

from __future__ import annotations

import getpass
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import opask.adapters
from opask.adapters import Adapter
from opask.errors import RegistryError
from opask.registry import Registry
from opask.registry_lint import content, observations, rows
from opask.registry_lint.evidence import Evidence
from opask.registry_lint.rule import (
    Finding,
    ObservationSubject,
    Problem,
    RouteSubject,
    Rule,
    RuntimeSubject,
)

__all__ = ["RULES", "Finding", "Rule", "lint", "machine_names"]

RULES: tuple[Rule[Any], ...] = (*rows.RULES, *observations.RULES, *content.RULES)
"""Every rule, beside two that are no functions of a subject: ``schema`` (the file can be read at all) and
``exception-is-needed`` (an exception names a rule and silences something)."""

_SCHEMA, _EXCEPTION = "schema", "exception-is-needed"
# Too common to be anybody's name, or words that a recording has to hold.
_NOBODY = frozenset(
    {"admin", "agent", "build", "builder", "claude", "codespace", "debian", "docker", "host", "kimi", "local"}
    | {
        "localhost",
        "node",
        "nobody",
        "opask",
        "root",
        "runner",
        "test",
        "ubuntu",
        "user",
        "users",
        "vscode",
        "work",
    }
)


def machine_names() -> frozenset[str]:
    """Return the names of this machine and its user that no recording may hold; common ones are left out."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        user = ""
    node = platform.node()
    return frozenset(
        name for name in (user, node, node.partition(".")[0]) if len(name) > 3 and name.lower() not in _NOBODY
    )


def lint(
    path: Path | str,
    *,
    today: date | None = None,
    names: Iterable[str] | None = None,
    installed: Mapping[str, str] | None = None,
    find_adapter: Callable[[str], Adapter] = opask.adapters.adapter,
    rules: Sequence[Rule[Any]] = RULES,
) -> list[Finding]:
    """Hold a registry file against its evidence, which lies below the file's own folder.

    Args:
        path: the registry file; a link is followed first.
        today: the day, UTC; the clock's by default.
        names: what no recording may hold; this machine's and its user's names by default.
        installed: version by runtime id, of those that are installed here, where that was looked up.
        find_adapter: gives a runtime's adapter.
        rules: the rules to go by.

    Returns:
        What was found, errors first, in the file's order; nothing where all is well. A file that cannot be read
        is a finding too.
    """
    path = Path(path).resolve()
    try:
        registry = Registry.load(path)
    except RegistryError as error:
        return [_unreadable(path, fault) for fault in error.faults]
    evidence = Evidence(
        document=registry.document,
        folder=path.parent,
        today=today or datetime.now(UTC).date(),
        names=machine_names() if names is None else frozenset(names),
        installed=installed or {},
        find_adapter=find_adapter,
    )
    found = [
        finding
        for rule in rules
        for subject in _subjects(rule, evidence)
        for finding in _apply(rule, subject, evidence)
    ]
    found = list(_without_exceptions(found, evidence, {rule.name for rule in rules}))
    return sorted(found, key=lambda finding: finding.severity != "error")


def _unreadable(path: Path, fault: tuple[str | None, str | None, str]) -> Finding:
    row, _, message = fault
    message = message.removeprefix(f"{path.name}: ")  # which a finding says by itself
    return Finding(_SCHEMA, "error", row or path.name, message, "docs/registry.md explains every field")


def _subjects(rule: Rule[Any], evidence: Evidence) -> Iterator[Any]:
    """Give what a rule is asked about."""
    if rule.scope == "registry":
        yield evidence
        return
    if rule.scope == "recording":
        yield from evidence.recordings()
        return
    for id_, row in evidence.document.runtimes.items():
        runtime = RuntimeSubject(id_, row)
        if rule.scope == "runtime":
            yield runtime
            continue
        for route in (RouteSubject(runtime, row) for row in row.routes):
            if rule.scope == "route":
                yield route
            else:
                yield from (ObservationSubject(route, seen) for seen in route.row.observations)


def _apply(rule: Rule[Any], subject: Any, evidence: Evidence) -> Iterator[Finding]:
    where = getattr(subject, "where", "registry")
    try:
        problems = list(rule.check(subject, evidence))
    except Exception as error:
        problems = [
            Problem(
                f"the rule itself failed: {type(error).__name__}: {error}",
                "report it, with the row or the recording: a rule has to hold whatever it reads",
            )
        ]
    for problem in problems:
        yield Finding(
            rule.name, rule.severity, problem.where or where, problem.message, problem.remedy, problem.line
        )


def _without_exceptions(found: Sequence[Finding], evidence: Evidence, known: set[str]) -> Iterator[Finding]:
    """Take out what the registry accepts; find the exceptions that take out nothing."""
    excepted = {(exemption.rule, exemption.where) for exemption in evidence.document.exceptions}
    yield from (finding for finding in found if (finding.rule, finding.where) not in excepted)
    silenced = {(finding.rule, finding.where) for finding in found}
    for exemption in evidence.document.exceptions:
        if exemption.rule not in known:
            message = f"its exception names a rule that is none, {exemption.rule!r}"
        elif (exemption.rule, exemption.where) not in silenced:
            message = f"its exception from {exemption.rule} is no longer needed"
        else:
            continue
        yield Finding(_EXCEPTION, "error", exemption.where, message, "take the entry out of [[exceptions]]")
