"""Launches of Kimi Code and of the older Kimi CLI: what is set, what a host may refuse, what stands against it."""

from __future__ import annotations

import json
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from kimi_samples import ASK, BARE, NATIVE, settings
from opask.errors import LaunchError, WaitTooLongError
from opask.launch import Endpoint, LaunchPlan, LaunchRequest, Overlay
from opask_acp import HostClient
from opask_kimi import KimiAdapter, LegacyAdapter, adapter, legacy_adapter

FOLDER = Path("/run/opask/session")
HOME = Path("/home/agent")
ENV = {"PATH": "/usr/bin", "HOME": str(HOME)}
ENDPOINT = Endpoint(command=("/opt/python", "relay.py", "s"), folder=FOLDER, wait=timedelta(minutes=5))
PRINT = ("kimi", "-p", "do it", "--output-format", "stream-json")


def request(*argv: str, env: dict[str, str] | None = None, **more: Any) -> LaunchRequest:
    """Give a host's launch."""
    return LaunchRequest(
        argv or ("kimi", "acp"), ENV if env is None else env, cwd="/srv/project", folder=FOLDER, **more
    )


def planned(asked: LaunchRequest | None = None, endpoint: Endpoint | None = ENDPOINT) -> LaunchPlan:
    """Plan a launch of Kimi Code."""
    return adapter.plan_launch(request() if asked is None else asked, endpoint)


def legacy(asked: LaunchRequest | None = None, endpoint: Endpoint | None = ENDPOINT) -> LaunchPlan:
    """Plan a launch of the older CLI."""
    return legacy_adapter.plan_launch(request("kimi-cli", "acp") if asked is None else asked, endpoint)


def changed(plan: LaunchPlan) -> list[str]:
    """Give the levers that a plan pulls."""
    return [change.name for change in plan.changes]


def overlay(plan: LaunchPlan) -> Overlay:
    """Give the folder that a plan stands in for the user's."""
    (found,) = plan.overlays
    return found


# -- Kimi Code over ACP --------------------------------------------------------------------------------------------


def test_the_session_gets_a_folder_in_place_of_the_users() -> None:
    """The environment names a folder of the session's, which stands in for the one below the user's HOME."""
    plan = planned()
    assert plan.argv == ("kimi", "acp")
    assert plan.env == {
        **ENV,
        "KIMI_CODE_HOME": str(FOLDER / "home"),
        "KIMI_MCP_TOOL_TIMEOUT_MS": "2147483647",
    }
    assert (overlay(plan).path, overlay(plan).original) == (FOLDER / "home", HOME / ".kimi-code")
    assert {file.name for file in overlay(plan).files} == {"config.toml", "AGENTS.md"}
    assert set(overlay(plan).folders) == {"credentials", "sessions"}
    assert changed(plan) == ["ask-server", "native-ask-denied", "clause", "session-home", "call-timeout"]


@pytest.mark.parametrize(
    ("named", "original"), [("/srv/kimi", "/srv/kimi"), ("own/kimi", "/srv/project/own/kimi")]
)
def test_a_home_that_the_host_names_is_the_users(named: str, original: str) -> None:
    """A persistent home of the host's own is what the session's folder is linked to, a relative one from the cwd."""
    plan = planned(request(env={**ENV, "KIMI_CODE_HOME": named}))
    assert overlay(plan).original == Path(original)
    assert plan.env["KIMI_CODE_HOME"] == str(FOLDER / "home")


def test_a_user_whose_folder_is_not_known_is_refused() -> None:
    """Without HOME there is no telling where a login is; the host may go without the folder."""
    with pytest.raises(LaunchError, match="neither KIMI_CODE_HOME nor HOME"):
        planned(request(env={"PATH": "/usr/bin"}))
    plan = planned(request(env={"PATH": "/usr/bin"}, refuse={"session-home"}))
    assert plan.overlays == ()


def test_without_the_folder_the_first_prompt_and_the_permission_channel_do() -> None:
    """Where the folder is refused, the clause goes behind the first prompt and nothing else of the user's changes."""
    plan = planned(request(refuse={"session-home"}))
    assert plan.overlays == ()
    assert "KIMI_CODE_HOME" not in plan.env
    assert changed(plan) == ["ask-server", "clause", "call-timeout"]
    (_, prompted) = _first_prompt(adapter, plan)
    assert ASK in prompted


def test_the_clause_goes_by_the_folder_alone() -> None:
    """Where AGENTS.md has the clause, the first prompt is the host's own text and nothing else."""
    plan = planned()
    assert plan.clause is not None
    assert plan.clause in settings(plan, "AGENTS.md")
    assert _first_prompt(adapter, plan) == ["Go."]


def test_a_conversation_that_is_resumed_is_told_in_its_prompt() -> None:
    """A resumed conversation keeps its old system prompt: the clause goes behind the first prompt."""
    resuming = KimiAdapter(client=HostClient(resume="session_1"))
    plan = resuming.plan_launch(request(), ENDPOINT)
    assert {file.name for file in overlay(plan).files} == {"config.toml"}
    assert _first_prompt(resuming, plan) == ["Go.", f"\n\n{plan.clause}"]


def test_nobody_there_is_said_by_the_same_way() -> None:
    """Without an operator the native tool is off too, and AGENTS.md says to proceed alone."""
    plan = planned(endpoint=None)
    assert tomllib.loads(settings(plan)) == {"tools": {"disabled": [NATIVE]}}
    assert "No human operator" in settings(plan, "AGENTS.md")
    assert changed(plan) == ["native-ask-denied", "clause", "session-home"]
    alone = planned(evolve(request(), folder=None), None)
    assert (alone.overlays, "No human operator" in str(alone.clause)) == ((), True)


def test_a_host_that_wants_nothing_changed_gets_nothing() -> None:
    """With all that can be refused refused, the environment is as it was."""
    plan = planned(
        request(refuse={"native-ask-denied", "clause", "call-timeout"}),
        evolve(ENDPOINT, wait=timedelta(seconds=9)),
    )
    assert (plan.env, plan.overlays) == (ENV, ())


@pytest.mark.parametrize(
    ("env", "ceiling"),
    [({}, 60), ({"KIMI_MCP_TOOL_TIMEOUT_MS": "90000"}, 90), ({"KIMI_MCP_TOOL_TIMEOUT_MS": "0"}, 60)],
)
def test_a_limit_that_is_not_lifted_bounds_the_wait(env: dict[str, str], ceiling: int) -> None:
    """With the lever refused the host's own limit holds, or Kimi's 60 s where that is none; a longer wait is refused."""
    asked = request(env={**ENV, **env}, refuse={"call-timeout"})
    plan = planned(asked, evolve(ENDPOINT, wait=timedelta(seconds=ceiling - 10)))
    assert plan.ceiling == timedelta(seconds=ceiling)
    with pytest.raises(WaitTooLongError):
        planned(asked, evolve(ENDPOINT, wait=timedelta(seconds=ceiling)))
    with pytest.raises(WaitTooLongError):
        planned(asked, evolve(ENDPOINT, wait=None))


def test_an_unbounded_wait_can_be_had() -> None:
    """The longest limit there is, more than three weeks, counts as none."""
    assert planned(endpoint=evolve(ENDPOINT, wait=None)).ceiling is None


def test_over_http_a_silent_answer_bounds_the_wait() -> None:
    """A server by its address holds a call for 300 s only."""
    by_url = evolve(ENDPOINT, command=(), url="http://127.0.0.1:9/mcp", wait=timedelta(seconds=200))
    plan = planned(endpoint=by_url)
    assert (plan.route, plan.ceiling) == ("mcp-http", timedelta(seconds=300))


@pytest.mark.parametrize(
    ("own", "given"), [("2000", "30000"), ("60000", "60000"), ("0", "0"), (None, None), ("x", "x")]
)
def test_servers_get_at_least_the_usual_time_to_start(own: str | None, given: str | None) -> None:
    """A shorter time that the host's environment gives is raised to Kimi's own default, and nothing else is touched."""
    name = "KIMI_MCP_STARTUP_TIMEOUT_MS"
    env = ENV if own is None else {**ENV, name: own}
    plan = planned(request(env=env))
    assert plan.env.get(name) == given
    assert ("startup-timeout" in changed(plan)) is (own != given)
    assert planned(request(env=env, refuse={"startup-timeout"})).env.get(name) == own


@pytest.mark.parametrize("argv", [("kimi",), ("kimi", "--yolo"), ("kimi", "--model", "acp"), ("kimi", "web")])
def test_a_session_on_a_terminal_is_refused(argv: tuple[str, ...]) -> None:
    """What is no server of ACP and no single prompt would wait for a terminal, or worse, and is not planned."""
    with pytest.raises(LaunchError, match="wants a terminal"):
        planned(request(*argv))


def test_a_server_of_the_hosts_that_spells_the_ask_tool_moves_ours() -> None:
    """A server of the host's own called as ours takes no question: ours gets a name of this session's own."""
    host = KimiAdapter(
        client=HostClient(mcp_servers=({"name": "opask", "command": "x", "args": [], "env": []},))
    )
    plan = host.plan_launch(request(), ENDPOINT)
    assert plan.endpoint is not None
    assert plan.endpoint.server != "opask"
    assert f"mcp__{plan.endpoint.server}__ask_user_question" in str(plan.clause)
    assert [server["name"] for server in plan.mcp_servers] == ["opask", plan.endpoint.server]


def test_another_product_of_the_name_is_refused() -> None:
    """A version of the older product is not planned as Kimi Code, nor the other way, nor one that runs no agent."""
    for version in ("0.43.1", "2.1.0", None):
        planned(request(version=version))
    with pytest.raises(LaunchError, match=r"run it as 'kimi-cli'.*npm install"):
        planned(request(version="1.50.0"))
    for version in ("0.9.0", "1.50.0", "1.51.0", None):
        legacy(request("kimi-cli", "acp", version=version))
    with pytest.raises(LaunchError, match=r"runs no agent.*npm install.*pip install kimi-cli==1.50.0"):
        legacy(request("kimi-cli", "acp", version="1.52.0"))
    with pytest.raises(LaunchError, match="run it as 'kimi'"):
        legacy(request("kimi-cli", "acp", version="2.1.0"))


# -- Kimi Code for one prompt --------------------------------------------------------------------------------------


def test_one_prompt_gets_the_server_in_a_file() -> None:
    """The ask server is in mcp.json of the session's folder, with limits of its own; the environment has none."""
    plan = planned(request(*PRINT))
    assert (plan.route, plan.serves, plan.mcp_servers) == ("mcp-stdio-print", False, ())
    assert plan.argv == PRINT
    assert plan.env == {**ENV, "KIMI_CODE_HOME": str(FOLDER / "home")}
    assert json.loads(settings(plan, "mcp.json")) == {
        "mcpServers": {
            "opask": {
                "command": "/opt/python",
                "args": ["relay.py", "s"],
                "toolTimeoutMs": 2147483647,
                "startupTimeoutMs": 30000,
            }
        }
    }
    scopes = {change.name: change.scope for change in plan.changes}
    assert (scopes["call-timeout"], scopes["session-home"]) == ("server", "process")


def test_the_users_servers_stay() -> None:
    """The user's own servers are in mcp.json beside ours; one of our name is refused, and so is what is no JSON."""
    plan = planned(request(*PRINT))
    own = {"mcpServers": {"files": {"command": "x"}}, "more": 1}
    made = json.loads(settings(plan, "mcp.json", json.dumps(own)))
    assert made.pop("mcpServers").keys() == {"files", "opask"}
    assert made == {"more": 1}
    for text, why in [
        ('{"mcpServers": {"opask": {}}}', "cannot be told from the ask server"),
        ("{", "no JSON"),
        ("[]", "has to be an object"),
        ('{"mcpServers": []}', "has to be an object"),
    ]:
        with pytest.raises(LaunchError, match=rf"mcp\.json: .*{why}"):
            settings(plan, "mcp.json", text)


@pytest.mark.parametrize(
    ("argv", "env"),
    [
        (("kimi", "-p", "x", "--output-format=stream-json"), {}),
        (("kimi", "--prompt=x", "--output-format", "stream-json"), {}),
        (("kimi", "-px"), {"KIMI_MODEL_OUTPUT_FORMAT": "stream-json"}),
    ],
)
def test_one_prompt_can_be_given_in_any_spelling(argv: tuple[str, ...], env: dict[str, str]) -> None:
    """The options may have their values behind a sign or a space, and the format may come from the environment."""
    assert planned(request(*argv, env={**ENV, **env})).route == "mcp-stdio-print"


@pytest.mark.parametrize(
    "argv", [("kimi", "-p", "x"), ("kimi", "-p", "x", "--output-format", "text"), ("kimi", "-p", "acp")]
)
def test_an_output_that_cannot_be_heard_is_refused(argv: tuple[str, ...]) -> None:
    """One prompt with its output as text is not planned."""
    with pytest.raises(LaunchError, match="--output-format stream-json"):
        planned(request(*argv))


def test_one_prompt_needs_the_folder() -> None:
    """Without a folder of the session's own there is nowhere to name the server."""
    with pytest.raises(LaunchError, match="kimi acp"):
        planned(request(*PRINT, refuse={"session-home"}))
    assert planned(request(*PRINT, refuse={"session-home"}), None).overlays == ()


def test_one_prompt_takes_nothing_in_band() -> None:
    """What only ACP can carry is refused: the host's own servers, and a session to resume."""
    for client in (HostClient(mcp_servers=({"name": "x"},)), HostClient(resume="s")):
        with pytest.raises(LaunchError, match=r"mcp\.json and a session by --session"):
            KimiAdapter(client=client).plan_launch(request(*PRINT), ENDPOINT)


def test_the_folder_that_it_works_in_need_not_be_named() -> None:
    """One prompt works where it is started: no cwd is wanted, as over ACP."""
    asked = evolve(request(*PRINT), cwd=None)
    assert planned(asked).cwd is None
    with pytest.raises(LaunchError, match="cwd"):
        planned(evolve(request(), cwd=None))


# -- the older CLI -------------------------------------------------------------------------------------------------


def test_the_older_cli_gets_a_hook_and_a_limit() -> None:
    """Its settings block the native tool with words for the model, and lift the limit on calls."""
    plan = legacy()
    made = tomllib.loads(settings(plan, own='default_model = "m"\n'))
    (hook,) = made["hooks"]
    assert (hook["event"], hook["matcher"]) == ("PreToolUse", f"^{NATIVE}$")
    assert BARE in hook["command"]
    assert hook["command"].endswith(">&2; exit 2")
    assert made["mcp"]["client"]["tool_call_timeout_ms"] == 2147483647
    assert made["default_model"] == "m"
    assert plan.env == {**ENV, "KIMI_SHARE_DIR": str(FOLDER / "home")}
    assert overlay(plan).original == HOME / ".kimi"
    assert changed(plan) == ["ask-server", "clause", "native-ask-hook", "call-timeout", "session-home"]


def test_the_older_cli_without_its_levers() -> None:
    """With both refused its settings are the user's own and a question has 60 s; one lever alone can be had too."""
    short = evolve(ENDPOINT, wait=timedelta(seconds=50))
    plan = legacy(request("kimi-cli", "acp", refuse={"native-ask-hook", "call-timeout"}), short)
    assert (plan.overlays, plan.ceiling, plan.env) == ((), timedelta(seconds=60), ENV)
    assert legacy(request("kimi-cli", "acp", refuse={"session-home"}), short).overlays == ()
    hooked = legacy(request("kimi-cli", "acp", refuse={"call-timeout"}), short)
    assert tomllib.loads(settings(hooked)).keys() == {"hooks"}
    lifted = legacy(request("kimi-cli", "acp", refuse={"native-ask-hook"}))
    assert tomllib.loads(settings(lifted)).keys() == {"mcp"}
    with pytest.raises(WaitTooLongError):
        legacy(request("kimi-cli", "acp", refuse={"call-timeout"}))


def test_a_host_clause_with_a_quote_stays_one_word_of_the_shell() -> None:
    """The words that the hook says are quoted, whatever the ask tool is called."""
    odd = evolve(ENDPOINT, tool="ask'; touch x #")
    (hook,) = tomllib.loads(settings(legacy(endpoint=odd)))["hooks"]
    assert "'\"'\"'" in hook["command"]


def test_the_older_cli_takes_no_servers_beside_ours() -> None:
    """Its names say nothing of a server, so that any other could have the ask tool's name: the launch is refused."""
    host = LegacyAdapter(
        client=HostClient(mcp_servers=({"name": "files", "command": "x", "args": [], "env": []},))
    )
    with pytest.raises(LaunchError, match="leave it out"):
        host.plan_launch(request("kimi-cli", "acp"), ENDPOINT)
    assert host.plan_launch(request("kimi-cli", "acp"), None).questions is False


@pytest.mark.parametrize("argv", [("kimi-cli",), ("kimi",), ("kimi-cli", "--print", "-p", "x")])
def test_the_older_cli_is_started_for_acp_alone(argv: tuple[str, ...]) -> None:
    """A bare program, which may be one that installs another, is never planned."""
    with pytest.raises(LaunchError, match="acp"):
        legacy(request(*argv))


# -- the command line ----------------------------------------------------------------------------------------------


def test_the_command_lines_start_servers() -> None:
    """`opask run` starts both as servers of ACP, and Kimi Code for one prompt where its output is chosen."""
    assert adapter.default_argv("kimi", "do it", ["--login"]) == ("kimi", "acp", "--login")
    printing = adapter.default_argv("kimi", "-do it", ["--output-format", "stream-json", "-m", "x"])
    assert printing == ("kimi", "--prompt=-do it", "--output-format", "stream-json", "-m", "x")
    assert planned(request(*printing)).route == "mcp-stdio-print"
    assert legacy_adapter.default_argv("kimi-cli", "do it", []) == ("kimi-cli", "acp")
    assert legacy_adapter.version_argv("kimi-cli", ()) == ("kimi-cli", "--version")
    assert (adapter.program, legacy_adapter.program) == ("kimi", "kimi-cli")


def _first_prompt(used: KimiAdapter, plan: LaunchPlan) -> list[str]:
    """Open a session and give the texts of its first prompt."""
    conversation: Any = used.conversation(plan)
    (initialize,) = conversation.outgoing()
    capabilities = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
    answers = {
        "initialize": {"protocolVersion": 1, "agentCapabilities": capabilities},
        "session/new": {"sessionId": "session_1"},
        "session/resume": {},
    }
    waiting = initialize
    while waiting["method"] in answers:
        conversation.receive({"jsonrpc": "2.0", "id": waiting["id"], "result": answers[waiting["method"]]})
        due = [*conversation.outgoing()] or [*conversation.prompt("Go.")]
        (waiting,) = due
    return [block["text"] for block in waiting["params"]["prompt"]]
