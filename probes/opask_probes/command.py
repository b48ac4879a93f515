"""What ``opask probe`` does, without what a terminal shows of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen

from opask.adapters import adapter
from opask.errors import OpaskError
from opask.registry import shipped_path
from opask.versions import is_version

from . import recordings
from .claims import CLAIMS, NATIVE_CLAIMS
from .comparison import Comparison, compare
from .install import InstallError, install, installed
from .live_model import live_probe
from .probe import Report, Watch, case_of, probe
from .profiles import profile

__all__ = ["Errand", "InstallError", "Result", "conduct", "find_program"]


@frozen(kw_only=True)
class Errand:
    """One probe, as it is asked for.

    Args:
        runtime: the runtime's name.
        route: the route's id; the first that is probed by default.
        program: the runtime's program, a path or a name on the PATH; one that was installed by default.
        version: which of those; the pinned one by default.
        installs: whether it may be installed.
        records: whether a recording and the row's observation are to be written.
        is_long: whether the claims that take minutes are tried.
        only: ids of the claims to try; all by default.
        live_model: whether a real model is tried, on the user's own login, in place of the scripted one.

    Raises:
        OpaskError: there is no such claim, there would be too little to record, a program and a version are
            both named, or a real model is to be tried in what is the script's.
    """

    runtime: str
    route: str | None = None
    program: str | None = None
    version: str | None = None
    installs: bool = False
    records: bool = False
    is_long: bool = False
    only: tuple[str, ...] = ()
    live_model: bool = False

    def __attrs_post_init__(self) -> None:
        if self.version is not None and self.program is not None:
            raise OpaskError("a program has the version that it has: leave --version out, or --bin")
        if self.version is not None and not is_version(self.version):
            raise OpaskError(f"--version {self.version!r} is no version; name it exactly, such as 2.1.63")
        known = [claim.id for claim in (*CLAIMS, *NATIVE_CLAIMS)]
        for name in self.only:
            if name not in known:
                raise OpaskError(f"there is no claim {name!r}; there is {', '.join(known)}")
        if self.only and self.records:
            raise OpaskError("a recording stands for all claims: leave --claim out, or --record")
        for option, is_given in (
            ("--record", self.records),
            ("--claim", bool(self.only)),
            ("--long", self.is_long),
            ("--route", self.route is not None),
        ):
            if self.live_model and is_given:
                raise OpaskError(f"{option} is about the scripted model: leave it out, or --live-model")


@frozen
class Result:
    """What came of it.

    Args:
        report: what was found.
        comparison: how that differs from what was found of the verified version; None where nothing can be compared.
        recording: the recording that was written.
        changed: whether the registry was.
    """

    report: Report
    comparison: Comparison | None = None
    recording: Path | None = None
    changed: bool = False

    def to_json(self) -> dict[str, Any]:
        """Give it as plain data."""
        recording = None if self.recording is None else os.path.relpath(self.recording)
        compared = None if self.comparison is None else self.comparison.to_json()
        return {
            **self.report.to_json(),
            "compared": compared,
            "recording": recording,
            "registry_changed": self.changed,
        }


def find_program(errand: Errand, notify: Callable[[str], object]) -> Path:
    """Find the runtime's program, or install it.

    Args:
        errand: what is asked for.
        notify: told, in a line, of what takes its time.

    Raises:
        OpaskError: it is not there, is not to be installed, or cannot be.
    """
    named = errand.program
    if errand.live_model and named is None and errand.version is None and not errand.installs:
        named = getattr(adapter(errand.runtime), "program", "") or errand.runtime  # the user's own
    if named is not None:
        found = shutil.which(named)
        if found is None:
            where = f"--bin {named}" if errand.program else named
            raise OpaskError(f"{where}: there is no such program; name one that can be run with --bin")
        return Path(found).absolute()
    known = profile(errand.runtime, errand.route)
    if errand.installs:
        notify(f"installing {known.runtime}, unless it is there")
        return install(known.runtime, errand.version)
    return installed(known.runtime, errand.version)


async def conduct(errand: Errand, program: Path, watch: Watch, notify: Callable[[str], object]) -> Result:
    """Probe a runtime, and record it where that is asked for; runs on asyncio.

    Args:
        errand: what is asked for.
        program: from `find_program`.
        watch: told how it goes on.
        notify: told, in a line, of what takes its time.

    Raises:
        OpaskError: it cannot be probed, or not be recorded.
    """
    if errand.live_model:
        return Result(await live_probe(errand.runtime, program, watch=watch))
    case = case_of(errand.runtime, errand.route, program)
    report = await probe(case, long=errand.is_long, only=errand.only, watch=watch)
    comparison = compare(report, case.row, shipped_path())
    if not errand.records:
        return Result(report, comparison)
    recordings.check(case, report, shipped_path())
    notify("recording")
    take = await recordings.tour(case)
    return Result(report, comparison, *recordings.write(case, take, report, shipped_path()))
