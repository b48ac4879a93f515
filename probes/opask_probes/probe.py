"""Try claims on a real runtime, one after the other, and say what held."""

from __future__ import annotations

import platform
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final, Protocol

import anyio
from attrs import evolve, frozen

from opask.adapters import adapter
from opask.errors import OpaskError
from opask.registry import Registry, Support
from opask.registry_schema import RouteRow, RuntimeRow
from opask.versions import find_version

from .case import Case
from .claims import Claim, claims_of
from .playing import Setting
from .profiles import Profile, profile
from .runtimes import probed_runtime
from .sandbox import NoNamespace, fresh_sandbox, loopback_namespace
from .verdicts import Held, NotApplicable, NotHeld, Verdict, sound

__all__ = ["Claimed", "Finding", "Report", "Watch", "case_of", "probe", "this_platform", "try_claim"]

HTTP: Final = "mcp-http"
_VERSION_S: Final = 60.0  # an older claude is a large script, and the machine may be busy
_SECONDS: Final = 1  # digits


class Claimed(Protocol):
    """What a finding is about."""

    @property
    def id(self) -> str:
        """Its name."""
        ...

    @property
    def says(self) -> str:
        """What it says, in a sentence."""
        ...


@frozen
class Finding:
    """What was found of a claim.

    Args:
        claim: the claim.
        verdict: what was found.
        seconds: how long it took.
    """

    claim: Claimed
    verdict: Verdict
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Give the finding as plain data."""
        return {
            "claim": self.claim.id,
            "says": self.claim.says,
            "verdict": self.verdict.word,
            "reasons": list(self.verdict.reasons),
            "seconds": self.seconds,
        }


@frozen(kw_only=True)
class Report:
    """What a probe found.

    Args:
        runtime: the runtime's id.
        route: the route's.
        version: what the program says that it is; None where it says nothing.
        platform: where it ran, such as ``linux-x86_64``.
        isolation: how it was kept away from the network, or why it was not.
        support: what the registry says of this version.
        day: the day, UTC.
        findings: one a claim.
        is_live: whether it was a real model.
    """

    runtime: str
    route: str
    version: str | None
    platform: str
    isolation: str
    support: Support
    day: date
    findings: tuple[Finding, ...]
    is_live: bool = False

    def count(self, kind: type[Verdict]) -> int:
        """Count the claims of a verdict."""
        return sum(isinstance(finding.verdict, kind) for finding in self.findings)

    @property
    def contradicts(self) -> bool:
        """Whether what was found is against what the registry says, or a real model did not do what was asked for."""
        if self.is_live or self.support.status == "verified":
            return self.count(NotHeld) > 0
        return self.support.status == "refuted" and self.count(Held) > 0 and not self.count(NotHeld)

    def to_json(self) -> dict[str, Any]:
        """Give the report as plain data."""
        return {
            "runtime": self.runtime,
            "route": self.route,
            "version": self.version,
            "platform": self.platform,
            "live_model": self.is_live,
            "isolation": self.isolation,
            "status": self.support.status,
            "seen_version": self.support.seen_version,
            "drift": self.support.drift,
            "date": self.day.isoformat(),
            "claims": [finding.to_json() for finding in self.findings],
        }


@frozen
class Watch:
    """Who wants to know how a probe goes on.

    Args:
        begins: called as a claim is about to be tried, with the claim.
        ends: called with what was found of it.
    """

    begins: Callable[[Claimed], object] = lambda claim: None
    ends: Callable[[Finding], object] = lambda finding: None


def this_platform() -> str:
    """Give this machine's platform, such as ``linux-x86_64``."""
    return f"{platform.system()}-{platform.machine()}".lower()


def case_of(runtime: str, route: str | None, program: Path, *, registry: Registry | None = None) -> Case:
    """Give a runtime as the scenarios play to it.

    Args:
        runtime: its name.
        route: the route; the first that is probed by default.
        program: its program.
        registry: where its row stands; the shipped one by default.

    Raises:
        OpaskError: there is no probe for it, no row, or no adapter.
    """
    known = profile(runtime, route)
    setting = Setting(
        runtime=probed_runtime(runtime),
        adapter=adapter(runtime),
        program=program,
        isolation=loopback_namespace(),
        transport="http" if known.route == HTTP else "stdio",
    )
    return Case(setting, known, _row(registry or Registry.shipped(), known)[1], Path())


def _row(registry: Registry, known: Profile) -> tuple[RuntimeRow, RouteRow]:
    runtime = registry.runtimes.get(known.runtime)
    for route in runtime.routes if runtime else ():
        if route.id == known.route:
            assert runtime is not None
            return runtime, route
    raise OpaskError(
        f"the registry has no row {known.runtime}/{known.route}; a probe holds a row against a runtime"
    )


async def probe(
    case: Case,
    *,
    long: bool = False,
    only: Sequence[str] = (),
    registry: Registry | None = None,
    watch: Watch | None = None,
) -> Report:
    """Try the claims on a runtime; runs on asyncio.

    Args:
        case: the runtime, from `case_of`.
        long: whether the claims that take minutes are tried too.
        only: ids of the claims to try; all by default.
        registry: what it is held against; the shipped one by default.
        watch: told how it goes on.

    Returns:
        What was found; whatever the runtime does is a finding, not an error.

    Raises:
        OpaskError: none of the claims that are named is about the route.
    """
    registry = registry or Registry.shipped()
    watch = watch or Watch()
    claims = claims_of(case.row)
    if only and not any(claim.id in only for claim in claims):
        known = ", ".join(claim.id for claim in claims)
        raise OpaskError(
            f"{case.profile.runtime}/{case.profile.route} has no claim {', '.join(only)}; it has {known}"
        )
    version = await version_of(case.setting.program, _row(registry, case.profile)[0])
    findings = []
    for claim in claims:
        if only and claim.id not in only:
            continue
        reason = case.profile.unless.get(claim.id) or claim.unless(case)
        if reason is None and claim.is_long and not long:
            reason = "it takes minutes and was not asked for; --long tries it"
        if reason is not None:
            finding = Finding(claim, NotApplicable(reason))
        else:
            watch.begins(claim)
            finding = await try_claim(case, claim)
        watch.ends(finding)
        findings.append(finding)
    isolation = case.setting.isolation
    return Report(
        runtime=case.profile.runtime,
        route=case.profile.route,
        version=version,
        platform=this_platform(),
        isolation=f"none: {isolation.reason}"
        if isinstance(isolation, NoNamespace)
        else "a network namespace with nothing but loopback",
        support=registry.support(case.profile.runtime, version, route=case.profile.route),
        day=datetime.now(UTC).date(),
        findings=tuple(findings),
    )


async def try_claim(case: Case, claim: Claim) -> Finding:
    """Try one claim, within its bound."""
    begin = time.monotonic()
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="opask-") as scratch:
        case = evolve(case, scratch=Path(scratch), takes=[])
        with anyio.move_on_after(claim.bound) as bound:
            try:
                problems += await claim.play(case)
            except (OpaskError, EOFError) as error:
                problems.append(str(error))
            except Exception as error:
                problems.append(f"{type(error).__name__}: {error}")
    if bound.cancelled_caught:
        problems.append(f"it did not end within {claim.bound:g} s")
    for take in case.takes if problems else ():
        problems += sound(take, ends_well=False)
    verdict = NotHeld(tuple(dict.fromkeys(problems))) if problems else Held()
    return Finding(claim, verdict, round(time.monotonic() - begin, _SECONDS))


async def version_of(program: Path, row: RuntimeRow) -> str | None:
    """Ask a program for its version, in a sandbox; None where it does not say it in time."""
    options = row.version_command[1:] if row.version_command else ("--version",)
    with fresh_sandbox() as sandbox, anyio.move_on_after(_VERSION_S):
        try:
            done = await anyio.run_process(
                [str(program), *options], cwd=sandbox.work, env=sandbox.environment(), check=False
            )
        except OSError:
            return None
        said = done.stdout.decode(errors="replace")
        if row.version_pattern is None:
            return find_version(said)
        found = re.search(row.version_pattern, said, re.MULTILINE)
        return found.group(1) if found else None
    return None
