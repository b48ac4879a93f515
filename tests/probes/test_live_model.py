"""The round trip with a real model, with the fake claude and a script in place of both."""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_claude import fake_claude_at
from opask_probes.live_model import LIVE_CLAIMS, live_probe
from opask_probes.model import Call, Conversation, Scenario, Step, When
from opask_probes.probe import Report
from opask_probes.sandbox import NoNamespace
from opask_probes.scripts import DATABASE, PARTS, asked, says
from opask_probes.stage import stage
from opask_probes.verdicts import Held, NotHeld

ASK = "mcp__opask__ask_user_question"
HERE = NoNamespace("the fake reaches for nothing")


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio: a probe needs it."""
    return "asyncio"


async def tried(folder: Path, single: tuple[Step, ...], multi: tuple[Step, ...], flaw: str = "") -> Report:
    """Try both claims on a model that plays these steps."""
    script = Scenario(
        "live",
        (
            Conversation("single", single, When(prompt_contains=("PostgreSQL or SQLite",))),
            Conversation("multi", multi, When(prompt_contains=("may choose several",))),
        ),
    )
    async with stage(script, HERE) as set_:
        env = set_.sandbox.environment({"ANTHROPIC_BASE_URL": set_.url, "ANTHROPIC_API_KEY": "sk-test"})
        report = await live_probe("claude", fake_claude_at(folder, flaw), env=env)
        await set_.close()
        assert flaw or set_.failures == ()
    return report


def reasons(report: Report) -> dict[str, tuple[str, ...]]:
    """Give what was found, claim by claim."""
    assert [finding.claim.id for finding in report.findings] == [claim.id for claim in LIVE_CLAIMS]
    return {finding.claim.id: finding.verdict.reasons for finding in report.findings}


GOOD_SINGLE = (
    says("I ask.", Call(ASK, asked(DATABASE))),
    says("They said {{result}}"),
)
GOOD_MULTI = (
    says("I ask.", Call(ASK, asked(PARTS))),
    says("They said {{result}}"),
)


async def test_a_model_that_asks(tmp_path: Path) -> None:
    """It is asked without a tool's name, chooses by what is there, and the claims are held where the words come back."""
    report = await tried(tmp_path, GOOD_SINGLE, GOOD_MULTI)
    assert [finding.verdict for finding in report.findings] == [Held(), Held()], reasons(report)
    assert (report.version, report.support.status, report.contradicts) == ("2.1.332", "verified", False)
    assert not any(word in claim.prompt for claim in LIVE_CLAIMS for word in ("tool", "ask_user", ASK))


async def test_a_model_that_does_not(tmp_path: Path) -> None:
    """One that tries its own tool first, asks for one choice of several, or forgets what was said, is told of."""
    single = (
        says("I ask.", Call("AskUserQuestion", asked(DATABASE))),
        says("I ask.", Call(ASK, asked(DATABASE))),
        says("It is settled."),
    )
    multi = (says("I ask.", Call(ASK, asked(DATABASE))), says("They said {{result}}"))
    report = await tried(tmp_path, single, multi)
    found = reasons(report)
    assert found["live-single"] == (
        "the model called AskUserQuestion first",
        "the agent's last words lack 'SQLite': 'It is settled.'",
    )
    assert found["live-multi"] == ("the model did not ask for several choices",)
    assert report.contradicts


async def test_a_model_that_asks_in_prose(tmp_path: Path) -> None:
    """A question that is only written is no question."""
    prose = (says("Which database should it be?"),)
    report = await tried(tmp_path, prose, GOOD_MULTI)
    single, multi = (finding.verdict for finding in report.findings)
    assert single == NotHeld(("the model did not ask by the supplied tool",))
    assert multi == Held()


async def test_a_runtime_that_dies(tmp_path: Path) -> None:
    """What the runtime does wrong is a finding, and no error."""
    report = await tried(tmp_path, GOOD_SINGLE, GOOD_MULTI, flaw="dies")
    for why in reasons(report).values():
        assert any("exit code 3" in reason for reason in why)
