"""The routes that are a runtime's own ask tool: what is tried of them, and what is kept as evidence against them."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from attrs import evolve

from fake_claude import fake_claude_at
from opask.errors import OpaskError
from opask.events import Event, NativeAskRefused, TextSaid, ToolAnnounced, ToolFinished
from opask.launch import Endpoint, LaunchRequest
from opask.permissions import PermissionRequested
from opask.recording import read_recording, replay
from opask.registry import Registry
from opask_acp import AcpAdapter
from opask_claude import adapter as claude
from opask_probes.case import Case
from opask_probes.claims import CLAIMS, NATIVE_CLAIMS
from opask_probes.playing import Take
from opask_probes.probe import Finding, Report, case_of, probe
from opask_probes.recordings import RecordError, lines_of, tour
from opask_probes.unaided import Unaided
from opask_probes.verdicts import Held, NotHeld, Verdict, reached_host

TOOL = "AskUserQuestion"
HELD, LOST = Held(), NotHeld(("it hung",))


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio, which a probe needs."""
    return "asyncio"


def native(folder: Path, flaw: str = "") -> Case:
    """Give a fake runtime on its native route."""
    return case_of("claude", "native", fake_claude_at(folder, flaw))


async def test_a_tool_that_answers_itself_does_not_hold(tmp_path: Path) -> None:
    """A runtime whose own tool answers without asking its host is found out, with what it told the agent."""
    answer = '{"answers": {"Which database should the service use?": "PostgreSQL"}}'
    report = await probe(native(tmp_path))
    (finding,) = report.findings
    assert (finding.claim.id, finding.verdict.word) == ("own-tool", "not held")
    assert finding.verdict.reasons == (
        f"the agent is not offered {TOOL}",
        f"the host was asked nothing, and the agent went on: 'I was told {answer}'",
    )
    assert not report.contradicts


@pytest.mark.parametrize(
    "asked",
    [
        PermissionRequested(request_id="1", tool=TOOL, ask="native"),
        NativeAskRefused(tool=TOOL, channel="elicitation"),
    ],
    ids=lambda event: event.event,
)
def test_a_request_to_the_host_holds(asked: Event) -> None:
    """A question that comes as a permission request or as a form has reached the host."""
    assert list(reached_host(Take(events=[ToolAnnounced(tool=TOOL, ask="native"), asked]), TOOL)) == []


def test_no_other_request_to_the_host_holds() -> None:
    """A permission for another tool, and a refusal that the runtime made itself, reach no operator; an offer is seen."""
    take = Take(
        events=[
            PermissionRequested(request_id="1", tool="Bash"),
            NativeAskRefused(tool=TOOL, channel="launch"),
            ToolFinished(tool=TOOL, is_error=True),
            TextSaid(text="I was "),
            TextSaid(text="told"),
        ],
        exchanges=[
            {"kind": "side", "body": {"tools": [{"name": "Other"}]}},
            {"kind": "scripted", "body": {"tools": [{"function": {"name": TOOL}}]}},
        ],
    )
    assert list(reached_host(take, TOOL)) == [
        "the host was asked nothing, and the agent went on: 'I was told'"
    ]
    assert len(list(reached_host(take, "Other"))) == 2


@pytest.mark.parametrize(
    ("status", "verdicts", "contradicts"),
    [
        ("refuted", [HELD], True),
        ("refuted", [LOST], False),
        ("refuted", [HELD, LOST], False),
        ("refuted", [], False),
        ("untested", [HELD], False),
        ("untested", [LOST], False),
    ],
)
def test_a_refuted_route_that_works_is_a_contradiction(
    status: str, verdicts: list[Verdict], contradicts: bool
) -> None:
    """What is called refuted and holds all that was tried is against the registry; what is untested never is."""
    route = {"refuted": "native", "untested": "mcp-http"}[status]
    runtime = {"refuted": "claude", "untested": "kimi"}[status]
    support = Registry.shipped().support(runtime, None, route=route)
    assert support.status == status
    report = Report(
        runtime=runtime,
        route=route,
        version=None,
        platform="linux-x86_64",
        isolation="none",
        support=support,
        day=date(2026, 3, 1),
        findings=tuple(Finding(NATIVE_CLAIMS[0], verdict) for verdict in verdicts),
    )
    assert report.contradicts is contradicts


async def test_what_is_recorded_is_what_the_runtime_does(tmp_path: Path) -> None:
    """The recording has the call, nothing of opask's in the launch, and says that nobody was there to ask."""
    case = native(tmp_path)
    report = await probe(case)
    recording = read_recording("\n".join(lines_of(case, await tour(case), report)))
    assert recording.header.more["questions"] is False
    assert recording.header.more["claims"] == {"own-tool": "not held"}
    assert recording.header.command == (
        *("claude", "-p", "The main agent of a probe.", "--output-format", "stream-json", "--verbose"),
        f"--allowedTools={TOOL}",
    )
    assert {entry.source for entry in recording.entries} == {"runtime"}
    events = [event for _, made in replay(case.setting.adapter, recording) for event in made]
    assert [event.ask for event in events if isinstance(event, ToolAnnounced)] == ["native"]


async def test_a_run_that_goes_wrong_is_no_evidence(tmp_path: Path) -> None:
    """A runtime that ends before it calls its tool refutes nothing."""
    with pytest.raises(RecordError, match=r"did not go as it should.*exit code 3"):
        await tour(native(tmp_path, "dies"))


@pytest.mark.parametrize(
    ("route", "claim", "known"),
    [("native", "single", "own-tool"), ("mcp-stdio", "own-tool", "single, multi")],
)
async def test_a_claim_of_another_route_is_refused(
    route: str, claim: str, known: str, tmp_path: Path
) -> None:
    """A claim that is not about the route is named, with those that are, and nothing is run."""
    with pytest.raises(OpaskError, match=rf"claude/{route} has no claim {claim}; it has {known}"):
        await probe(case_of("claude", route, tmp_path / "none"), only=(claim,))


def test_claims_have_one_name_each() -> None:
    """No two claims have the same name, whatever they are about."""
    names = [claim.id for claim in (*CLAIMS, *NATIVE_CLAIMS)]
    assert len(set(names)) == len(names)


def test_a_host_without_opask_changes_nothing(tmp_path: Path) -> None:
    """The launch stays as it is, with what an adapter would refuse in it, and a server of ACP stays a server."""
    request = LaunchRequest(("it", "-p", f"--allowedTools={TOOL}"), {"A": "b"}, cwd=tmp_path)
    endpoint = Endpoint(command=("relay",), folder=tmp_path, wait=None)
    for adapter, serves in ((claude, False), (AcpAdapter(), True)):
        plan = Unaided(adapter).plan_launch(request, endpoint)
        assert Unaided(adapter).runtime == adapter.runtime
        assert (plan.argv, plan.env, plan.cwd, plan.serves) == (request.argv, request.env, tmp_path, serves)
        assert (plan.questions, plan.endpoint, plan.changes, plan.files) == (False, None, (), ())


async def test_only_the_native_route_is_unaided(tmp_path: Path) -> None:
    """On the route of opask's tool the same scenario has the tool taken away."""
    case = native(tmp_path)
    aided = evolve(case, row=case.row.model_copy(update={"id": "mcp-stdio"}))
    with pytest.raises(OpaskError, match="--allowedTools names AskUserQuestion"):
        await tour(aided)
