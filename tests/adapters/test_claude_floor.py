"""The read-only floor on claude: what the launch changes, and how the gate's hook is read and answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opask.errors import LaunchError
from opask.events import GateMissing, PermissionWithdrawn
from opask.launch import Endpoint, LaunchPlan, LaunchRequest
from opask.permissions import Allow, Defer, Deny, PermissionRequested
from opask_claude import adapter
from opask_claude.conversation import ClaudeConversation
from opask_claude.floor import CHANGES

CONTROL = (
    "claude",
    "-p",
    "--input-format=stream-json",
    "--output-format=stream-json",
    "--permission-prompt-tool=stdio",
)
ENDPOINT = Endpoint(("python", "relay"), folder=Path("/run/opask"), wait=None)
ASK = "mcp__opask__ask_user_question"
MANDATORY = ("write-gate", "no-bypass", "no-settings")


def plan(*more: str, endpoint: Endpoint | None = ENDPOINT, **request: Any) -> LaunchPlan:
    """Plan a launch with a read-only floor."""
    return adapter.plan_launch(LaunchRequest((*CONTROL, *more), read_only=True, **request), endpoint)


@pytest.mark.parametrize("endpoint", [ENDPOINT, None], ids=["operator", "nobody"])
def test_the_floor_is_laid_whoever_is_there(endpoint: Endpoint | None) -> None:
    """The gate, the settings and git's own settings are changes of every launch with a floor, each listed."""
    made = plan(endpoint=endpoint)
    assert made.read_only
    assert {change.name for change in made.changes} >= {"write-gate", "no-settings", "git-guard"}
    assert "no-bypass" not in {change.name for change in made.changes}
    assert "--setting-sources=" in made.argv


def test_without_a_floor_nothing_of_it_is_changed() -> None:
    """A launch that asks for no floor is as it ever was."""
    made = adapter.plan_launch(LaunchRequest((*CONTROL, "--permission-mode", "bypassPermissions")), ENDPOINT)
    assert not made.read_only
    assert not {change.name for change in made.changes} & CHANGES.keys()
    assert "bypassPermissions" in made.argv


@pytest.mark.parametrize(
    ("own", "kept"),
    [
        (("--dangerously-skip-permissions", "--verbose"), ("--verbose",)),
        (("--allow-dangerously-skip-permissions",), ()),
        (("--permission-mode", "bypassPermissions"), ("--permission-mode", "default")),
        (("--permission-mode=acceptEdits",), ("--permission-mode=default",)),
        (
            ("--permission-mode=plan", "--permission-mode=auto"),
            ("--permission-mode=plan", "--permission-mode=default"),
        ),
    ],
    ids=" ".join,
)
def test_the_bypass_is_taken_away(own: tuple[str, ...], kept: tuple[str, ...]) -> None:
    """What lets changes through unasked is taken out of the host's arguments, and that is listed."""
    made = plan(*own)
    assert made.argv[len(CONTROL) :][: len(kept)] == kept
    assert not [argument for argument in made.argv if "dangerously" in argument]
    assert "no-bypass" in {change.name for change in made.changes}


@pytest.mark.parametrize("mode", ["default", "plan", "manual", "dontAsk"])
def test_a_mode_that_lets_nothing_through_stays(mode: str) -> None:
    """A mode under which changes are asked about or denied is the host's own affair."""
    made = plan(f"--permission-mode={mode}")
    assert f"--permission-mode={mode}" in made.argv
    assert "no-bypass" not in {change.name for change in made.changes}


def test_the_hosts_own_setting_sources_are_replaced() -> None:
    """Sources that the host names are left out too; settings that it gives itself stay."""
    made = plan("--setting-sources", "user,project", "--settings", '{"model": "x"}')
    assert made.argv[len(CONTROL) :][:4] == ("--setting-sources", "", "--settings", '{"model": "x"}')


@pytest.mark.parametrize("name", MANDATORY)
def test_refusing_what_the_floor_needs_refuses_the_launch(name: str) -> None:
    """A floor with a hole in it is none: the launch is refused, by the change's name."""
    with pytest.raises(LaunchError, match=name):
        plan("--permission-mode=bypassPermissions", refuse=frozenset({name}))


def test_the_guard_of_git_may_be_refused() -> None:
    """Git's own settings are no part of the gate; who refuses that change gets the launch without it."""
    made = plan(refuse=frozenset({"git-guard"}), env={"PATH": "/bin"})
    assert not [name for name in made.env if name.startswith("GIT_")]


def test_the_guard_of_git_keeps_what_is_there() -> None:
    """Settings for git that the environment has stay, in their places."""
    env = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "c"}
    made = plan(env=env).env
    assert made["GIT_CONFIG_COUNT"] == "3"
    assert made["GIT_CONFIG_KEY_0"] == "a.b"
    assert {made["GIT_CONFIG_KEY_1"], made["GIT_CONFIG_KEY_2"]} == {"core.fsmonitor", "safe.bareRepository"}
    assert made["GIT_OPTIONAL_LOCKS"] == "0"


@pytest.mark.parametrize(
    ("argv", "env", "what"),
    [
        (("claude", "-p", "Do it."), {}, "--input-format"),
        (("claude", "-p", "--input-format=stream-json"), {}, "--permission-prompt-tool"),
        ((*CONTROL, "--bare"), {}, "--bare"),
        ((*CONTROL, "--settings", "mine.json"), {}, "--settings"),
        ((*CONTROL, "--settings", '{"disableAllHooks": true}'), {}, "--settings"),
        ((*CONTROL, "--settings=[1]", "--settings={}"), {}, "--settings"),
        (CONTROL, {"CLAUDE_CODE_SIMPLE": "1"}, "CLAUDE_CODE_SIMPLE"),
        (CONTROL, {"CLAUDE_CODE_SIMPLE": "whatever"}, "CLAUDE_CODE_SIMPLE"),
        (CONTROL, {"CLAUDE_AGENT_SDK_MCP_NO_PREFIX": "1"}, "CLAUDE_AGENT_SDK_MCP_NO_PREFIX"),
    ],
)
def test_a_launch_over_which_the_gate_cannot_stand_is_refused(
    argv: tuple[str, ...], env: dict[str, str], what: str
) -> None:
    """Without the control channel, or where the CLI runs no hooks, there is no floor; what is at fault is named."""
    with pytest.raises(LaunchError) as caught:
        adapter.plan_launch(LaunchRequest(argv, env, read_only=True), None)
    assert caught.value.what == what


# -- the conversation ------------------------------------------------------------------------------------------------


def conversation() -> ClaudeConversation:
    """Begin a conversation under a floor."""
    return adapter.conversation(plan())


def hook(tool: str = "Edit", arguments: Any = None, **call: Any) -> dict[str, Any]:
    """Make what the CLI asks the hook."""
    asked = {"tool_name": tool, "tool_input": arguments or {"file_path": "x"}, "tool_use_id": "t1", **call}
    request = {
        "subtype": "hook_callback",
        "callback_id": "opask-write-gate",
        "input": asked,
        "tool_use_id": "t1",
    }
    return {"type": "control_request", "request_id": "r1", "request": request}


def asked(talk: ClaudeConversation, message: dict[str, Any]) -> PermissionRequested:
    """Take in a request."""
    (found,) = talk.receive(message)
    assert isinstance(found, PermissionRequested)
    return found


def decision(message: Any) -> tuple[str, str]:
    """Give what a reply to the hook decides."""
    output = message["response"]["response"]["hookSpecificOutput"]
    assert message["response"]["subtype"] == "success"
    assert output["hookEventName"] == "PreToolUse"
    return output["permissionDecision"], output["permissionDecisionReason"]


def test_the_first_prompt_sets_the_gate() -> None:
    """A hook for every tool is registered before the first prompt, and once."""
    talk = conversation()
    first, prompt = talk.prompt("Go.")
    (entry,) = first["request"]["hooks"]["PreToolUse"]
    assert entry["matcher"] is None
    assert entry["hookCallbackIds"] == ["opask-write-gate"]
    assert 1_000_000 * 1000 < entry["timeout"] * 1000 < 2**31
    assert prompt["type"] == "user"
    assert [message["type"] for message in talk.prompt("On.")] == ["user"]


def test_without_a_floor_no_hook_is_set() -> None:
    """A conversation without a floor sends the prompt alone, and leaves hooks to whoever set them."""
    talk = adapter.conversation(adapter.plan_launch(LaunchRequest(CONTROL), ENDPOINT))
    assert [message["type"] for message in talk.prompt("Go.")] == ["user"]
    assert talk.receive({**hook(), "request": {**hook()["request"], "callback_id": "theirs"}}) == []


def test_a_call_before_it_runs_is_a_permission_request() -> None:
    """What the hook is asked has tool, arguments, call and sub-agent, and is the host's to decide."""
    talk = conversation()
    request = asked(talk, hook(agent_id="a1"))
    assert (request.tool, request.arguments, request.tool_call_id) == ("Edit", {"file_path": "x"}, "t1")
    assert request.agent_id == "a1"
    assert talk.decide(request) == Defer()


def test_every_reply_to_the_hook_decides() -> None:
    """An allow allows, a deny denies with its reason, and no opinion denies: an empty answer would let it through."""
    talk = conversation()
    request = asked(talk, hook())
    assert decision(talk.reply(request, Deny("because")))[0:2] == ("deny", "because")
    assert decision(talk.reply(request, Defer()))[0] == "deny"
    assert decision(talk.reply(request, Allow("gate")))[0] == "allow"


def test_the_ask_tools_at_the_hook() -> None:
    """The supplied ask tool is let through, and the native one denied whatever the verdict."""
    talk = conversation()
    supplied = asked(talk, hook(ASK, {"questions": []}))
    assert talk.decide(supplied) == Allow("supplied ask tool")
    native = asked(talk, hook("AskUserQuestion", {"questions": []}))
    assert isinstance(talk.decide(native), Deny)
    assert decision(talk.reply(native, Allow("host")))[0] == "deny"


@pytest.mark.parametrize(
    "spoilt", [{"tool_name": 1}, {"tool_name": None, "tool_input": []}, {"tool_use_id": {}}]
)
def test_a_request_that_cannot_be_read_can_still_be_denied(spoilt: dict[str, Any]) -> None:
    """Whatever stands in the hook's input, there is a request to decide on."""
    talk = conversation()
    request = asked(talk, hook(**spoilt))
    assert decision(talk.reply(request, Defer()))[0] == "deny"


def test_what_was_let_through_is_not_asked_about_twice() -> None:
    """The CLI's own permission request for the very call that the hook let through is allowed; for another it is not."""
    talk = conversation()
    request = asked(talk, hook())

    def again(arguments: Any, call_id: str = "t1") -> Any:
        body = {"subtype": "can_use_tool", "tool_name": "Edit", "input": arguments, "tool_use_id": call_id}
        return talk.decide(asked(talk, {"type": "control_request", "request_id": "r2", "request": body}))

    assert again({"file_path": "x"}) == Defer()
    talk.reply(request, Deny("no"))
    assert again({"file_path": "x"}) == Defer()
    talk.reply(request, Allow("gate"))
    assert again({"file_path": "x"}) == Allow("let through before")
    assert again({"file_path": "y"}) == Defer()
    assert again({"file_path": "x"}, "t2") == Defer()


def used(talk: ClaudeConversation, tool: str, **outcome: Any) -> list[Any]:
    """Let a call be announced and come back; give the events of its end."""
    call = {"type": "tool_use", "id": "t1", "name": tool, "input": {}}
    talk.receive({"type": "assistant", "message": {"content": [call]}})
    done = {"type": "tool_result", "tool_use_id": "t1", "content": "x", **outcome}
    return talk.receive({"type": "user", "message": {"content": [done]}})


def test_a_call_that_ran_past_the_gate_is_told() -> None:
    """A change that came about without the hook is an event of its own; a failed call, or a read, is none."""
    assert [event.event for event in used(conversation(), "Bash")] == ["tool_finished", "gate_missing"]
    assert [event.event for event in used(conversation(), "Bash", is_error=True)] == ["tool_finished"]
    assert [event.event for event in used(conversation(), "Read")] == ["tool_finished"]
    gated = conversation()
    gated.receive(hook("Bash"))
    assert [event.event for event in used(gated, "Bash")] == ["tool_finished"]
    plain = adapter.conversation(adapter.plan_launch(LaunchRequest(CONTROL), ENDPOINT))
    assert [event.event for event in used(plain, "Bash")] == ["tool_finished"]


def test_a_gate_that_is_not_taken_is_told() -> None:
    """Where the CLI refuses the hook, the gate is missing; its yes is no event."""
    talk = conversation()
    talk.prompt("Go.")
    response = {"subtype": "error", "request_id": "opask-gate", "error": "no such thing"}
    assert talk.receive({"type": "control_response", "response": response}) == [
        GateMissing(reason="no such thing")
    ]
    assert talk.receive({"type": "control_response", "response": {**response, "subtype": "success"}}) == []
    assert talk.receive({"type": "control_response", "response": {**response, "request_id": "theirs"}}) == []


def test_a_request_that_the_cli_takes_back_is_told() -> None:
    """When a turn is interrupted the CLI takes back what it asked: whoever decides on it is to stop."""
    talk = conversation()
    assert talk.receive({"type": "control_cancel_request", "request_id": "r1"}) == [
        PermissionWithdrawn(request_id="r1")
    ]
    assert talk.receive({"type": "control_cancel_request"}) == []
