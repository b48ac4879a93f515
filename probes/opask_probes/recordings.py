"""Record what a runtime does when it asks in every way that it can, and write that down as evidence."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import opask
from opask.errors import OpaskError
from opask.recording import RecordingHeader
from opask.registry_edit import record_observation
from opask.registry_lint import machine_names
from opask.registry_lint.evidence import RECORDINGS

from .case import Case
from .comparison import CLAIMS_FIELD
from .model import Step
from .playing import Operator, Take
from .probe import Report
from .scenarios import own_question
from .scripts import DATABASE, NAME, PARTS, REPORT, SUB, failed, given, says, two_given
from .scrub import Scrubber
from .verdicts import NotHeld, answered, correlated, sound

__all__ = ["RecordError", "check", "lines_of", "tour", "write"]

PROBE: Final = "probes/opask_probes/scenarios.py"
"""Where the scenarios stand, below the registry's folder."""

_OWN_WORDS: Final = "Cirrus, as in the sky"


class RecordError(OpaskError):
    """There is nothing that could be recorded."""


async def tour(case: Case) -> Take:
    """Run the runtime once, its agent asking in every way that the row and the profile know of.

    Raises:
        RecordError: it did not go as it should.
    """
    if case.row.is_native:
        return await _native_tour(case)
    answers = {DATABASE: "SQLite", PARTS: ["API", "Docs"], NAME: _OWN_WORDS}
    expected: list[dict[str, Any]] = [{text: answer} for text, answer in answers.items()]
    steps: list[Step] = [
        says("I ask.", case.ask(DATABASE), expect=case.offer),
        says("I ask for several.", case.ask(PARTS), expect=given("SQLite")),
        says("I ask for words.", case.ask(NAME), expect=given("API", "Docs")),
        says("I ask twice.", case.ask(DATABASE), case.ask(NAME), expect=given(_OWN_WORDS)),
    ]
    last = two_given("SQLite", _OWN_WORDS)
    expected += [{DATABASE: "SQLite"}, {NAME: _OWN_WORDS}]
    if case.profile.native is not None:
        steps.append(says("I ask by other means.", case.profile.native(DATABASE), expect=last))
        last = failed(lacks=("PostgreSQL", "SQLite"))
    sub: tuple[Step, ...] = ()
    unknown = 0
    if case.profile.sub_agent is not None and case.row.subagents != "none":
        steps.append(says("I delegate.", case.profile.sub_agent(SUB), expect=last))
        sub = (
            says("I ask.", case.ask(PARTS)),
            says(f"The operator said {{{{result}}}}. {REPORT}", expect=given("API", "Docs")),
        )
        last = given("API", "Docs")
        expected.append({PARTS: ["API", "Docs"]})
        unknown = 0 if case.row.subagents_told is not False else 1
    take = await case.run(*steps, says("That is all.", expect=last), sub=sub, operator=Operator(answers))
    return _gone_well(take, [*sound(take), *answered(take, *expected), *correlated(take, unknown=unknown)])


async def _native_tour(case: Case) -> Take:
    """Run the runtime once, its agent asking by the runtime's own tool; whatever comes of that is what is recorded."""
    take = await own_question(case)
    return _gone_well(take, sound(take))


def _gone_well(take: Take, problems: Iterable[str]) -> Take:
    if said := "; ".join(problems):
        raise RecordError(f"the run that was to be recorded did not go as it should: {said}")
    return take


def check(case: Case, report: Report, registry: Path) -> None:
    """See whether what a probe found can be recorded.

    Args:
        case: the runtime.
        report: what was found of it.
        registry: the registry's file.

    Raises:
        RecordError: the registry lies in no checkout, the runtime does not say its version, or a verified
            observation would lose its evidence.
    """
    if not (registry.resolve().parent / PROBE).is_file():
        raise RecordError(
            f"{registry.name} lies in no checkout of opask ({PROBE} is not beside it); record in a clone"
        )
    if report.version is None:
        raise RecordError(f"{report.runtime} does not say its version, so nothing can be recorded of it")
    verified = any(
        (seen.version, seen.platform, seen.status) == (report.version, report.platform, "verified")
        for seen in case.row.observations
    )
    if verified and report.count(NotHeld):
        raise RecordError(
            f"{report.runtime} {report.version} is verified and {report.count(NotHeld)} claims did not hold: its "
            "evidence is left as it is; look into them, or take the status back in the row first"
        )


def write(case: Case, take: Take, report: Report, registry: Path) -> tuple[Path, bool]:
    """Write a recording, and the row's observation.

    The observation is not called verified by this: a person does that, who has looked at what was found.

    Args:
        case: the runtime.
        take: what is to be recorded, from `tour`.
        report: what was found.
        registry: the registry's file.

    Returns:
        The recording, and whether the registry was changed.

    Raises:
        OpaskError: the files cannot be written.
    """
    registry = registry.resolve()
    place = f"{RECORDINGS}/{report.runtime}/{report.version}/{report.route}.jsonl"
    path = registry.parent / place
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines_of(case, take, report)), encoding="utf-8")
    except OSError as error:
        raise RecordError(f"{place} cannot be written: {error.strerror or error}") from None
    changed = record_observation(
        registry,
        runtime=report.runtime,
        route=report.route,
        version=report.version or "",
        platform=report.platform,
        probe=PROBE,
        recording=place,
        day=report.day,
    )
    return path, changed


def lines_of(case: Case, take: Take, report: Report) -> Iterable[str]:
    """Give the lines of a recording of a run.

    Args:
        case: the runtime.
        take: what was seen.
        report: for the header.
    """
    assert take.plan is not None
    program = str(case.setting.program)
    scrubber = Scrubber(
        {**take.places, sys.executable: "<python>", str(Path(opask.__file__).parent): "<opask>"},
        machine_names(),
        case.profile.unrecorded,
    )
    command = [
        case.profile.runtime if part == program else scrubber.text(part, cut=False) for part in take.plan.argv
    ]
    header = RecordingHeader(
        runtime=report.runtime,
        version=str(report.version),
        route=report.route,
        date=report.day,
        command=tuple(command),
        more={
            "platform": report.platform,
            "model": "scripted",
            **({} if take.plan.questions else {"questions": False}),
            CLAIMS_FIELD: {finding.claim.id: finding.verdict.word for finding in report.findings},
        },
    )
    yield _written(header.to_json())
    for line in take.lines:
        message = (
            scrubber.line(line.message) if isinstance(line.message, str) else scrubber.value(line.message)
        )
        yield _written({"t": line.t, "from": line.source, "message": message})


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
