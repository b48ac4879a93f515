"""Rules about rows: their order, their status, and what they say against what the adapter says."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise

from opask.names import ToolName
from opask.registry import verified_observation
from opask.registry_lint.evidence import Evidence
from opask.registry_lint.rule import Problem, RouteSubject, RuntimeSubject, rule
from opask.versions import compare_versions, drift
from opask.wire import SERVER_NAME, TOOL_NAME

__all__ = ["RULES", "STALE_AFTER"]

STALE_AFTER = timedelta(days=180)


@rule()
def sorted_rows(registry: Evidence, _: Evidence) -> Iterator[Problem]:
    """Runtimes stand in the order of their ids."""
    for one, other in pairwise(registry.document.runtimes):
        if one > other:
            yield Problem(f"it stands after {one}", "sort the runtimes by id", where=other)


@rule()
def sorted_observations(route: RouteSubject, _: Evidence) -> Iterator[Problem]:
    """A route's observations stand newest version first."""
    for one, other in pairwise(route.row.observations):
        if compare_versions(one.version, other.version) == -1:
            yield Problem(
                f"version {other.version} stands after {one.version}", "put the newest version first"
            )


@rule()
def status_has_evidence(route: RouteSubject, _: Evidence) -> Iterator[Problem]:
    """A verified or refuted route has an observation of that status."""
    status = route.row.status
    if status != "untested" and not any(seen.status == status for seen in route.row.observations):
        yield Problem(
            f"it is called {status}, and no observation is",
            f"record one with `opask probe {route.runtime.id} --route {route.row.id} --record`, "
            "or set the status to untested",
        )


@rule()
def status_keeps_up(route: RouteSubject, _: Evidence) -> Iterator[Problem]:
    """A route whose observations were judged is not called untested."""
    judged = [seen for seen in route.row.observations if seen.status != "untested"]
    if route.row.status == "untested" and judged:
        yield Problem(
            f"it is called untested, and version {judged[0].version} was {judged[0].status}",
            f"set the route's status to {judged[0].status}, or the observation's to untested",
        )


@rule()
def verified_is_complete(route: RouteSubject, _: Evidence) -> Iterator[Problem]:
    """A verified route states what a host has to know of it."""
    row = route.row
    if row.status != "verified":
        return
    stated = {
        "spellings.model": row.spellings.model,
        "spellings.events": row.spellings.events,
        "arguments": row.arguments,
        "correlation": row.correlation,
        "native_ask.names": row.native_ask.names or None,
        "native_ask.denied_by": row.native_ask.denied_by or None,
        "permission.asked": row.permission.asked,
        "wait.default_s": row.wait.default_s,
    }
    for name, value in stated.items():
        if value is None:
            yield Problem(f"{name} is not stated", f"state {name} as the recording shows it")


@rule()
def adapter_is_installed(runtime: RuntimeSubject, evidence: Evidence) -> Iterator[Problem]:
    """A runtime with a verified route names an adapter that is there, so that its recording can be read."""
    if not any(route.status == "verified" for route in runtime.row.routes):
        return
    name = runtime.row.adapter
    if name is None:
        yield Problem("it has a verified route and names no adapter", "name the adapter that was used")
    elif evidence.adapter(name) is None:
        yield Problem(
            f"its adapter {name!r} cannot be loaded here, so its claims cannot be checked",
            f"install the package that registers {name!r} in the entry-point group 'opask'",
        )


@rule()
def spellings_are_real(route: RouteSubject, evidence: Evidence) -> Iterator[Problem]:
    """The tool's spellings are those that the adapter's own mangling gives."""
    spell = getattr(evidence.adapter(route.runtime.row.adapter), "spellings", None)
    if spell is None or not route.row.id.startswith("mcp-"):
        return
    computed = spell(ToolName(SERVER_NAME, TOOL_NAME))
    for kind, written in route.row.spellings.model_dump(exclude_none=True).items():
        real = computed.get(kind)
        if real is not None and real != written:
            yield Problem(
                f"spellings.{kind} is {written!r}, and the adapter spells it {real!r}",
                f"write {real!r}, or correct the adapter",
            )


@rule()
def levers_are_real(route: RouteSubject, evidence: Evidence) -> Iterator[Problem]:
    """A route's levers are those that the adapter has."""
    changes = getattr(evidence.adapter(route.runtime.row.adapter), "changes", None)
    if changes is None:
        return
    for lever in route.row.levers:
        if lever not in changes:
            yield Problem(
                f"it names the lever {lever!r}, and the adapter has {', '.join(changes) or 'none'}",
                "name one of the adapter's changes",
            )


@rule("warning")
def not_stale(route: RouteSubject, evidence: Evidence) -> Iterator[Problem]:
    """A verified route was seen to work within the last 180 days."""
    seen = verified_observation(route.row)
    if seen is not None and evidence.today - seen.date > STALE_AFTER:
        days = (evidence.today - seen.date).days
        yield Problem(
            f"it was verified {days} days ago, at version {seen.version}",
            f"probe it again: `opask probe {route.runtime.id} --route {route.row.id} --record`",
        )


@rule("warning")
def no_drift(route: RouteSubject, evidence: Evidence) -> Iterator[Problem]:
    """A verified route was seen at the pinned version, and at the one that is installed."""
    seen = verified_observation(route.row)
    if seen is None:
        return
    package = route.runtime.row.package
    others = {
        "the pinned version": package.version if package else None,
        "the version installed here": evidence.installed.get(route.runtime.id),
    }
    for name, version in others.items():
        if version is not None and drift(version, seen.version) != "same":
            yield Problem(
                f"{name} is {version}, and it was verified at {seen.version}",
                f"probe that version: `opask probe {route.runtime.id} --route {route.row.id} --record`",
            )


RULES = (
    sorted_rows,
    sorted_observations,
    status_has_evidence,
    status_keeps_up,
    verified_is_complete,
    adapter_is_installed,
    spellings_are_real,
    levers_are_real,
    not_stale,
    no_drift,
)
