"""Each claim of a probe, on a runtime that is sound and on one that has exactly one flaw."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from pathlib import Path

import pytest
from attrs import evolve

from fake_claude import fake_claude_at
from opask.driver import Bounds
from opask_probes.case import Case
from opask_probes.claims import CLAIMS, NATIVE_CLAIMS, Claim
from opask_probes.playing import Operator
from opask_probes.probe import Finding, Watch, case_of, probe, try_claim
from opask_probes.profiles import LongWait
from opask_probes.scripts import says
from opask_probes.verdicts import Held, NotHeld

SOON = timedelta(seconds=0.5)
CLAIM = {claim.id: claim for claim in CLAIMS}


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio, which a probe needs."""
    return "asyncio"


def case(folder: Path, flaw: str = "") -> Case:
    """Give a fake runtime as the scenarios play to it, quickly."""
    found = case_of("claude", None, fake_claude_at(folder, flaw))
    profile = evolve(found.profile, long_wait=LongWait(5.0, "a limit of its own"))
    bounds = Bounds(interrupt=SOON, sigint=SOON, silence=SOON)
    return evolve(found, profile=profile, setting=evolve(found.setting, bounds=bounds))


async def verdicts(case: Case, *only: str) -> dict[str, str]:
    """Try claims, all by default; give each one's verdict in a word."""
    report = await probe(case, long=True, only=only)
    return {finding.claim.id: finding.verdict.word for finding in report.findings}


@pytest.mark.timeout(300)
async def test_every_claim_holds_for_a_sound_runtime(tmp_path: Path) -> None:
    """A runtime that does all as it should is found to hold every claim."""
    told: list[str] = []
    watch = Watch(
        begins=lambda claim: told.append(claim.id), ends=lambda finding: told.append(finding.claim.id)
    )
    report = await probe(case(tmp_path), long=True, watch=watch)
    assert {finding.claim.id: finding.verdict for finding in report.findings} == dict.fromkeys(CLAIM, Held())
    assert told == [name for name in CLAIM for _ in range(2)]
    assert (report.version, report.support.drift, report.contradicts) == ("2.1.332", "same", False)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("flaw", CLAIM)
async def test_a_flaw_turns_its_claim(flaw: str, tmp_path: Path) -> None:
    """A runtime with one flaw is found not to hold the claim about it, and why, and another claim still holds."""
    other = "multi" if flaw == "single" else "single"
    broken = case(tmp_path, flaw)
    report = await probe(broken, long=True, only=(flaw, other))
    found = {finding.claim.id: finding.verdict for finding in report.findings}
    assert isinstance(found[flaw], NotHeld)
    assert all(found[flaw].reasons)
    assert found[other] == Held()
    assert report.contradicts


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("flaw", CLAIM)
async def test_a_flaw_turns_no_other_claim(flaw: str, tmp_path: Path) -> None:
    """A runtime with one flaw is found to hold every other claim."""
    found = await verdicts(case(tmp_path, flaw))
    assert [name for name, word in found.items() if word != "held"] == [flaw]


@pytest.mark.parametrize(
    ("flaw", "reason"),
    [
        ("never-starts", "the ask tool did not reach the agent: not_listed"),
        ("garbage", "20 messages of the runtime cannot be read; the first: the line is not JSON"),
        ("dies", "the runtime ended with no end of its turn, exit code 3"),
    ],
)
async def test_a_runtime_that_does_nothing_right(flaw: str, reason: str, tmp_path: Path) -> None:
    """A runtime that never starts the server, prints garbage or dies holds nothing, and each reason says so."""
    report = await probe(case(tmp_path, flaw), only=("single", "cancel"))
    assert report.count(NotHeld) == 2
    assert reason in report.findings[0].verdict.reasons


async def test_a_runtime_that_hangs_ends_in_the_claims_bound(tmp_path: Path) -> None:
    """A scenario that does not end is ended at its bound, with all that it started."""
    begin = time.monotonic()
    finding = await try_claim(case(tmp_path, "hangs"), evolve(CLAIM["single"], bound=6.0))
    assert time.monotonic() - begin < 100
    assert isinstance(finding.verdict, NotHeld)
    assert finding.verdict.reasons[0] == "it did not end within 6 s"
    assert not [reason for reason in finding.verdict.reasons if "left behind" in reason]


async def test_a_fault_of_the_probe_itself_is_no_verdict_in_its_favour(tmp_path: Path) -> None:
    """A scenario that fails in itself makes the claim not held, and the fault is named."""

    async def fails(case: Case) -> list[str]:
        raise ZeroDivisionError("by nothing")

    claim = Claim(id="faulty", says="Nothing", play=fails)
    finding = await try_claim(case(tmp_path), claim)
    assert finding.verdict == NotHeld(("ZeroDivisionError: by nothing",))


async def test_what_does_not_apply_is_not_tried(tmp_path: Path) -> None:
    """A claim that is long, or about what the runtime has not, is passed over with the reason."""
    found = case(tmp_path, "dies")
    bare = evolve(found, profile=evolve(found.profile, native=None, sub_agent=None, with_server=None))
    report = await probe(bare, only=("native", "sub-agent", "foreign", "long-wait"))
    reasons = {finding.claim.id: finding.verdict.reasons for finding in report.findings}
    assert reasons == {
        "native": ("this runtime has no ask tool of its own",),
        "sub-agent": ("this runtime has no sub-agents",),
        "foreign": ("a launch cannot name another MCP server",),
        "long-wait": ("it takes minutes and was not asked for; --long tries it",),
    }
    apart = evolve(found, profile=evolve(found.profile, unless={"multi": "it chooses one at a time"}))
    (finding,) = (await probe(apart, only=("multi",))).findings
    assert finding.verdict.reasons == ("it chooses one at a time",)
    none = evolve(found, row=found.row.model_copy(update={"subagents": "none"}))
    (finding,) = (await probe(none, only=("sub-agent",))).findings
    assert finding.verdict.reasons == ("its sub-agents do not have the ask tool",)


async def test_whose_a_question_is_has_to_be_known_as_the_row_says(tmp_path: Path) -> None:
    """Where the row says that a sub-agent's question is not known to be one, a runtime that tells it is against the row."""
    found = case(tmp_path)
    untold = evolve(found, row=found.row.model_copy(update={"subagents_told": False}))
    (finding,) = (await probe(untold, only=("sub-agent",))).findings
    assert finding.verdict.reasons == (
        "0 questions are of no call that is known, and 1 were to be",
        "the row says that a sub-agent's question is not known to be one, and it is",
    )


async def test_a_users_settings_stand_on_top(tmp_path: Path) -> None:
    """What a launch has set of its user is at the top of the runtime's own file, or in a file of its own."""
    found = case(tmp_path)
    settings = {".fake/set": "user's\n", ".fake/new": "alone"}
    profile = evolve(found.profile, launch=lambda *how: evolve(found.profile.launch(*how), settings=settings))
    runtime = evolve(found.setting.runtime, files=lambda url: {".fake/set": "runtime's\n"})
    played = evolve(found, profile=profile, setting=evolve(found.setting, runtime=runtime))
    async with played.playing(says("Nothing to ask."), operator=Operator({})) as run:
        folder = run.stage.sandbox.home / ".fake"
        texts = {path.name: path.read_text() for path in folder.iterdir()}
        await run.to_the_end()
    assert texts == {"set": "user's\nruntime's\n", "new": "alone"}


def test_a_finding_is_plain_data() -> None:
    """A finding is written with the claim, the verdict in words and its reasons."""
    finding = Finding(CLAIM["single"], NotHeld(("it hung",)), 1.5)
    assert finding.to_json() == {
        "claim": "single",
        "says": CLAIM["single"].says,
        "verdict": "not held",
        "reasons": ["it hung"],
        "seconds": 1.5,
    }


def test_the_page_has_every_claim() -> None:
    """docs/probes.md lists the claims as they are."""
    page = (Path(__file__).resolve().parents[2] / "docs/probes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| (.+)\. \|$", page, re.MULTILINE)
    assert rows == [(claim.id, claim.says) for claim in (*CLAIMS, *NATIVE_CLAIMS)]
