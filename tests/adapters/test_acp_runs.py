"""Whole runs of an ACP agent: driver, adapter, session, relay and bridge, with an agent made by somebody else's code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve, field, frozen

from bridge_peers import Held, PlainAdapter
from opask import Answer, Answered
from opask.adapters import Adapter
from opask.bridge import Bridge, Session
from opask.driver import RunningRuntime, RunResult, run, start
from opask.errors import LaunchError
from opask.events import (
    AskToolMissing,
    Event,
    NativeAskRefused,
    PermissionDecided,
    QuestionAsked,
    QuestionCorrelated,
    QuestionResolved,
    SessionReady,
    TextSaid,
    ToolAnnounced,
    ToolFinished,
    TurnEnded,
    TurnStarted,
)
from opask.launch import LaunchRequest
from opask.permissions import Allow, PermissionRequested
from opask.prompter import Prompter
from opask.testing import Scripted
from opask_acp import HostClient, adapter
from slow_relay import slow_interpreter

AGENT = Path(__file__).resolve().parent.parent / "acp_agent.py"
DATABASE = {"question": "Which database?", "options": ["PostgreSQL", "SQLite"]}
PARTS = {"question": "Which parts?", "options": ["API", "Web page", "Docs"], "multiSelect": True}
ASK: Mapping[str, Any] = {"ask": {"questions": [DATABASE, PARTS]}}
ANSWERS = {"Which database?": "SQLite", "Which parts?": ["API", "Docs"]}


@frozen
class Seen:
    """A session, and all that went on in it.

    Args:
        session: it.
        events: its events, in order.
    """

    session: Session
    events: list[Event] = field(factory=list)

    def of(self, kind: type[Any]) -> list[Any]:
        """Give the events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]


@asynccontextmanager
async def attached(
    prompter: Prompter | None, *, adapter: Adapter = adapter, interpreter: Path | None = None
) -> AsyncIterator[Seen]:
    """Attach a session of the agent."""
    async with (
        Bridge(interpreter=None if interpreter is None else str(interpreter)) as bridge,
        await bridge.attach("s", adapter, prompter, allow_unverified=True) as session,
    ):
        seen = Seen(session)
        session.subscribe(seen.events.append)
        yield seen


def launch(*acts: Mapping[str, Any], **more: Any) -> LaunchRequest:
    """Give the launch of an agent that does this."""
    argv = (sys.executable, str(AGENT), *map(json.dumps, acts))
    return LaunchRequest(argv, {"PATH": os.environ["PATH"]}, cwd=Path("/"), **more)


def outcome(result: RunResult) -> Any:
    """Give what the agent says that came of its acts."""
    assert result.ok, result
    return json.loads(result.text)


async def test_an_agent_asks_and_goes_on_with_the_answers() -> None:
    """A question takes the whole way to the operator and back, and each event of it knows its call."""
    async with attached(Scripted(ANSWERS, by="test")) as seen:
        plan = seen.session.plan_launch(launch({"say": "Let me see."}, ASK))
        result = await run(seen.session, plan, "Set it up.")
        (text,) = outcome(result)
    assert json.loads(text) == {"answers": ANSWERS}
    (ready,), (resolved,) = seen.of(SessionReady), seen.of(QuestionResolved)
    assert seen.events[0] == ready
    assert (ready.questions, ready.version, ready.route) == (True, "4.5.6", "mcp-stdio")
    assert (resolved.outcome, resolved.answers) == ("answered", ANSWERS)
    for kind in (TurnStarted, ToolAnnounced, QuestionAsked, ToolFinished, TurnEnded):
        assert [event.turn_id for event in seen.of(kind)] == ["turn-1"]
    # The question may be here before the line that announces its call is.
    (question,) = seen.of(QuestionAsked)
    correlated = [question.tool_call_id, *(event.tool_call_id for event in seen.of(QuestionCorrelated))]
    assert [call_id for call_id in correlated if call_id] == ["call-1"]
    assert resolved.tool_call_id == "call-1"
    assert result.stop_reason == "end_turn"


async def test_the_first_prompt_waits_until_the_list_was_read(tmp_path: Path) -> None:
    """An agent that does not wait for its servers has the tool in its first turn, however slow the list is to arrive."""
    slow = slow_interpreter(tmp_path, 0.5)
    async with attached(Scripted({}), interpreter=slow) as seen:
        plan = seen.session.plan_launch(launch({"late": True}, {"tools": True}))
        result = await run(seen.session, plan, "Go.")
    assert outcome(result) == [["ask_user_question"]]
    assert not seen.of(AskToolMissing)


async def test_a_turn_of_no_time_does_not_lack_the_tool() -> None:
    """A first turn that is over before it is sure that the list was taken is not said to have gone by without it."""
    async with attached(Scripted({})) as seen:
        plan = evolve(seen.session.plan_launch(launch({"say": "Done."})), hold_prompt=False)
        assert (await run(seen.session, plan, "Go.")).ok
    assert not seen.of(AskToolMissing)


async def test_the_first_prompt_says_how_the_operator_is_reached() -> None:
    """The agent gets the host's own text as it is, and the clause in a block behind it, in the first prompt alone."""
    async with attached(Scripted({})) as seen:
        plan = seen.session.plan_launch(launch({"echo": True}))
        async with start(seen.session, plan) as runtime:
            texts = []
            for prompt in ("/status", "Set it up.", "Go on."):
                await runtime.prompt(prompt)
                await runtime.turn_over()
                texts.append(json.loads(seen.of(TextSaid)[-1].text)[0])
            await runtime.finish()
    assert texts == [["/status"], ["Set it up.", f"\n\n{plan.clause}"], ["Go on."]]


async def test_a_permission_for_the_ask_tool_is_given_and_one_for_its_own_is_not() -> None:
    """The supplied tool is allowed by its name; the native one, its answers disguised as options, is skipped."""
    acts = ({**ASK, "permission": True}, {"native": "AskUserQuestion"}, {"native": "Asking user questions"})
    async with attached(Scripted(ANSWERS)) as seen:
        plan = seen.session.plan_launch(launch(*acts))
        allow_all = lambda request: Allow("all")  # noqa: E731 - whatever the host says
        result = await run(seen.session, plan, "Go.", policy=allow_all)
        asked, *refused = outcome(result)
    assert json.loads(asked) == {"answers": ANSWERS}
    assert refused == ["q0_skip", "q0_skip"]
    assert [event.verdict for event in seen.of(PermissionDecided)] == ["allow", "deny", "deny"]
    assert [(event.tool, event.channel) for event in seen.of(NativeAskRefused)] == [
        ("AskUserQuestion", "permission"),
        ("Asking user questions", "permission"),
    ]
    assert len(seen.of(QuestionAsked)) == 1


async def test_a_form_of_the_native_ask_tool_is_declined() -> None:
    """A form that the agent's own ask tool puts up is declined, though none was to be put up."""
    async with attached(Scripted({})) as seen:
        result = await run(seen.session, seen.session.plan_launch(launch({"form": "Which?"})), "Go.")
        assert outcome(result) == ["decline"]
    (refused,) = seen.of(NativeAskRefused)
    assert (refused.tool, refused.channel) == ("AskUserQuestion", "elicitation")
    assert not seen.of(PermissionRequested)


async def test_what_the_client_cannot_do_is_answered() -> None:
    """A request for a file, which this client does not serve, is answered as unknown, and the agent goes on."""
    async with attached(Scripted({})) as seen:
        plan = seen.session.plan_launch(launch({"read": "/etc/hosts"}))
        assert outcome(await run(seen.session, plan, "Go.")) == [-32601]


async def test_without_an_operator_nothing_is_attached() -> None:
    """Where nobody is there the session names no server, the agent is told so, and the turn runs all the same."""
    async with attached(None) as seen:
        plan = seen.session.plan_launch(launch(ASK, {"echo": True}))
        missing, (_, clause) = outcome(await run(seen.session, plan, "Go."))
    assert missing == "no ask tool"
    assert "No human operator" in clause
    (ready,) = seen.of(SessionReady)
    assert (ready.questions, ready.reason) == (False, "no prompter: the host attached none")
    assert not seen.of(AskToolMissing)


async def test_an_agent_that_gives_no_session_takes_no_prompt() -> None:
    """An agent that wants a log-in first is told of at once, in its own words and with what to do."""
    async with attached(Scripted({})) as seen:
        plan = seen.session.plan_launch(launch({"fail": "Authentication required"}))
        with (
            anyio.fail_after(40),
            pytest.raises(LaunchError, match=r"required \(-32000\).*browser") as caught,
        ):
            await run(seen.session, plan, "Go.")
    (ready,) = seen.of(SessionReady)
    assert (ready.questions, f"acp: {ready.reason}") == (False, str(caught.value))


async def test_a_prompt_that_was_kept_ends_with_its_session() -> None:
    """A prompt that came before the agent refused the session ends in an error, with the agent's own words."""
    async with attached(None) as seen:
        plan = seen.session.plan_launch(launch({"fail": "No licence"}))
        result = await run(seen.session, plan, "Go.")
    assert not result.ok
    assert "No licence" in str(result.stop_reason)
    assert [type(event) for event in seen.events] == [SessionReady, TurnStarted, TurnEnded]


async def test_an_agent_that_dies_ends_its_turn() -> None:
    """A turn whose agent exits in it is over, in an error."""
    async with attached(Scripted({})) as seen:
        result = await run(seen.session, seen.session.plan_launch(launch({"exit": 3})), "Go.")
    assert (result.exit_code, result.stop_reason, result.ok) == (3, "exited", False)


async def test_a_session_is_resumed_with_its_servers() -> None:
    """A resumed session gets the ask server again, and what it replays of its past is not taken for news."""
    resuming = adapter.with_client(HostClient(resume="sess_made_up"))
    async with attached(Scripted(ANSWERS), adapter=resuming) as seen:
        (text,) = outcome(await run(seen.session, seen.session.plan_launch(launch(ASK)), "Go on."))
    assert json.loads(text) == {"answers": ANSWERS}
    assert [event.tool_call_id for event in seen.of(ToolAnnounced)] == ["call-1"]
    assert "long ago" not in "".join(event.text for event in seen.of(TextSaid))


async def test_a_question_that_waits_holds_the_next_prompt_off() -> None:
    """While a question waits another prompt is refused; after an interrupt it is taken once the turn is over.

    The agent tells its server nothing of the cancel; the question is settled with its turn all the same.
    """
    prompter = Held()
    async with attached(prompter) as seen:
        plan = seen.session.plan_launch(launch(ASK))
        async with start(seen.session, plan) as runtime:
            await runtime.prompt("Go.")
            await prompter.next()
            with pytest.raises(LaunchError, match="a turn runs"):
                await runtime.prompt("And this.")
            await _interrupted(runtime, seen)
            await runtime.prompt("Now this.")
            ask = await prompter.next()
            prompter.reply(ask, Answered((Answer((0,)), Answer((1, 2))), by="test"))
            assert (await runtime.turn_over() or TurnStarted()) == seen.of(TurnEnded)[-1]
            assert (await runtime.finish()).ok
    first, second = seen.of(QuestionResolved)
    assert (first.outcome, first.reason, second.outcome) == ("abandoned", "turn_end", "answered")
    assert [event.stop_reason for event in seen.of(TurnEnded)] == ["cancelled", "end_turn"]


async def _interrupted(runtime: RunningRuntime, seen: Seen) -> None:
    with anyio.fail_after(30):
        await runtime.interrupt()
        turn = await runtime.turn_over()
    assert turn is not None
    assert (turn.stop_reason, turn.is_error) == ("cancelled", False)


async def test_ending_a_run_that_asks_leaves_nothing() -> None:
    """A run that is left while its question waits ends the agent within the driver's bounds."""
    prompter = Held()
    async with attached(prompter) as seen:
        plan = seen.session.plan_launch(launch(ASK))
        with anyio.fail_after(40):
            async with start(seen.session, plan) as runtime:
                await runtime.prompt("Go.")
                await prompter.next()
        # Which of the two the agent heard first, the interrupt or the end of its question, is its own affair.
        assert (await runtime.wait()).stop_reason in ("cancelled", "end_turn")
    (resolved,) = seen.of(QuestionResolved)
    assert (resolved.outcome, resolved.by) == ("cancelled", "host")


async def test_a_session_of_another_protocol_has_nothing_due() -> None:
    """Where the protocol has no handshake a host that asks for what is due, or tells what it sent, is told nothing."""
    async with attached(Scripted({}), adapter=PlainAdapter()) as seen:
        seen.session.plan_launch(LaunchRequest(["x"]))
        assert seen.session.outgoing() == []
        assert seen.session.sent({"method": "session/prompt"}) == []
        seen.session.tool_listed()
    assert seen.events == []


# -- the command line ------------------------------------------------------------------------------------------------


def opask(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    command = ("run", "acp", "Set it up.", *arguments)
    return subprocess.run(
        [sys.executable, "-c", "from opask.cli import main; raise SystemExit(main())", *command],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def test_the_command_line_runs_an_agent_by_its_program() -> None:
    """`opask run acp --bin` asks the operator for whatever agent it is given, and says what is not known of it."""
    agent = ("--bin", sys.executable, "--allow-unverified", "--answers", json.dumps(ANSWERS))
    done = opask(*agent, "--", str(AGENT), json.dumps({"say": "Hello.\n"}), json.dumps(ASK))
    assert done.returncode == 0, done.stderr
    assert "Hello." in done.stdout
    assert r"{\"answers\": {\"Which database?\": \"SQLite\"" in done.stdout
    assert "not known: how long it lets one call wait" in done.stderr


def test_the_command_line_wants_to_know_which_agent_and_whether_it_may() -> None:
    """Without a program there is nothing to run, and an agent that nobody has probed is not run unasked."""
    assert (opask().returncode, "--bin" in opask().stderr) == (2, True)
    done = opask("--bin", sys.executable, "--answers", "{}", "--", str(AGENT))
    assert (done.returncode, "--allow-unverified" in done.stderr) == (2, True)


def test_the_command_line_says_why_an_agent_gives_no_session() -> None:
    """An agent that wants a log-in first fails the run in its own words."""
    done = opask(
        "--bin",
        sys.executable,
        "--allow-unverified",
        "--answers",
        "{}",
        "--",
        str(AGENT),
        '{"fail": "Log in"}',
    )
    assert done.returncode != 0
    assert "Log in (-32000)" in done.stderr
    assert "Traceback" not in done.stderr
