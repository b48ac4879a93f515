"""The evidence that a probe writes: what it holds, that it bears its row, and when none is written."""

from __future__ import annotations

import json
import re
import shutil
from datetime import date
from pathlib import Path

import pytest
from attrs import evolve

from fake_claude import fake_claude_at
from opask.events import NativeAskRefused, QuestionAsked, ToolAnnounced
from opask.recording import read_recording, replay
from opask.registry import Registry, shipped_path
from opask.registry_lint import lint
from opask_probes.case import Case
from opask_probes.claims import CLAIMS
from opask_probes.playing import Take
from opask_probes.probe import Finding, Report, case_of
from opask_probes.recordings import PROBE, RecordError, check, lines_of, tour, write
from opask_probes.scripts import DATABASE, NAME, PARTS
from opask_probes.verdicts import Held, NotHeld, Verdict

DAY = date(2026, 3, 1)
HELD, LOST = Held(), NotHeld(("it hung",))


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio, which a probe needs."""
    return "asyncio"


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """Give a sound runtime as the scenarios play to it."""
    return case_of("claude", None, fake_claude_at(tmp_path))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Give the registry of a checkout that has no evidence yet."""
    folder = tmp_path / "checkout"
    (folder / PROBE).parent.mkdir(parents=True)
    shutil.copy(shipped_path().resolve().parent / PROBE, folder / PROBE)
    text = re.sub(
        r"\[\[runtimes\.[\w-]+\.routes\.observations\]\]\n(?:\w+ = .*\n)+\n?",
        "",
        shipped_path().read_text("utf-8"),
    )
    registry = folder / "registry.toml"
    text = re.sub(r'status = "(?:verified|refuted)"', 'status = "untested"', text)
    registry.write_text(text, encoding="utf-8")
    return registry


def report(verdict: Verdict = HELD, version: str | None = "2.1.332", registry: Path | None = None) -> Report:
    """Give what a probe would have found."""
    shelf = Registry.shipped() if registry is None else Registry.load(registry)
    return Report(
        runtime="claude",
        route="mcp-stdio",
        version=version,
        platform="linux-x86_64",
        isolation="none",
        support=shelf.support("claude", version, route="mcp-stdio"),
        day=DAY,
        findings=(Finding(CLAIMS[0], verdict),),
    )


async def test_the_tour_is_recorded_clean_and_whole(case: Case) -> None:
    """A recording has its header, every line both ways and what crossed the bridge, and names no place of this machine."""
    take = await tour(case)
    text = "".join(f"{line}\n" for line in lines_of(case, take, report()))
    recording = read_recording(text)
    header = recording.header
    assert (header.runtime, header.version, header.route, header.date) == (
        "claude",
        "2.1.332",
        "mcp-stdio",
        DAY,
    )
    assert header.command[:3] == ("claude", "-p", "The main agent of a probe.")
    assert "--mcp-config=<session>/claude-mcp.json" in header.command
    assert header.more == {
        "platform": "linux-x86_64",
        "model": "scripted",
        "claims": {CLAIMS[0].id: "held"},
    }
    assert [entry.t for entry in recording.entries] == sorted(entry.t for entry in recording.entries)
    for private in (str(case.setting.program), "/tmp/", "127.0.0.1", "sk-test"):
        assert private not in text
    served = [one["method"] for entry in recording.entries if (one := entry.part("served"))]
    assert served == ["initialize", "tools/list"]
    answers = [one["answers"] for entry in recording.entries if (one := entry.part("outcome"))]
    assert [next(iter(answer)) for answer in answers[:3]] == [DATABASE, PARTS, NAME]
    assert len(answers) == 6
    events = [event for _, made in replay(case.setting.adapter, recording) for event in made]
    assert sum(isinstance(event, QuestionAsked) for event in events) == 6
    assert sum(isinstance(event, NativeAskRefused) for event in events) == 1
    announced = [event for event in events if isinstance(event, ToolAnnounced) and event.ask == "supplied"]
    assert [call.agent_id is not None for call in announced] == [False] * 5 + [True]


async def test_what_is_written_bears_its_row(case: Case, checkout: Path) -> None:
    """A person can call the row verified by what was written, and the linter is content; written again, nothing changes."""
    take = await tour(case)
    check(case, report(), checkout)
    path, changed = write(case, take, report(), checkout)
    assert path == checkout.parent / "probes/recordings/claude/2.1.332/mcp-stdio.jsonl"
    assert changed
    call_verified(checkout)
    assert [finding for finding in lint(checkout, today=DAY) if finding.severity == "error"] == []
    assert Registry.load(checkout).support("claude", "2.1.332").questions
    assert write(case, take, report(), checkout) == (path, False)


def call_verified(registry: Path) -> None:
    """Do what a person does: call claude's first route and its one observation verified."""
    text = registry.read_text(encoding="utf-8")
    assert text.count('sha256 = "') == 1
    assert 'status = "verified"' not in text
    at = text.index("[[runtimes.claude.routes]]")
    after = text[at:].replace('status = "untested"', 'status = "verified"', 2)
    registry.write_text(text[:at] + after, encoding="utf-8")


async def test_a_run_that_goes_wrong_is_not_recorded(tmp_path: Path) -> None:
    """A runtime that spoils an answer gives no recording, and the reason is told."""
    case = case_of("claude", None, fake_claude_at(tmp_path, "multi"))
    with pytest.raises(RecordError, match=r"did not go as it should.*lacks 'Docs'"):
        await tour(case)


async def test_what_a_runtime_has_not_is_left_out_of_the_tour(case: Case) -> None:
    """A runtime without an ask tool of its own and without sub-agents is recorded without them."""
    bare = evolve(case, profile=evolve(case.profile, native=None, sub_agent=None))
    take = await tour(bare)
    assert len(take.of(QuestionAsked)) == 5
    assert take.of(NativeAskRefused) == []


def test_evidence_is_not_spoilt(case: Case, checkout: Path, tmp_path: Path) -> None:
    """Nothing is recorded outside of a checkout, without a version, or over verified evidence that no longer holds."""
    with pytest.raises(RecordError, match=r"lies in no checkout of opask"):
        check(case, report(), tmp_path / "registry.toml")
    with pytest.raises(RecordError, match="does not say its version"):
        check(case, report(version=None), checkout)
    with pytest.raises(RecordError, match=r"is verified and 1 claims did not hold"):
        check(case, report(LOST), checkout)
    check(case, report(HELD), checkout)
    check(case, report(LOST, version="2.1.198"), checkout)


def test_a_recording_that_cannot_be_written(case: Case, checkout: Path) -> None:
    """A place that cannot be written to is named."""
    (checkout.parent / "probes/recordings").write_text("in the way")
    take = Take(plan=None)
    with pytest.raises(
        RecordError, match=r"probes/recordings/claude/2\.1\.332/mcp-stdio\.jsonl cannot be written"
    ):
        write(case, take, report(), checkout)


def test_lines_are_compact_json(case: Case) -> None:
    """The shipped recording is written as a recording of today would be: one compact object a line."""
    folder = shipped_path().resolve().parent / "probes/recordings"
    for path in folder.rglob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert json.dumps(json.loads(line), ensure_ascii=False, separators=(",", ":")) == line
