"""Launching an ACP agent: the host's own launch with the ask server beside it, and what stands against that."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from acp_samples import ASK, ENDPOINT, planned
from opask.errors import LaunchError, WaitTooLongError
from opask.launch import Change, LaunchFile
from opask.names import ToolName
from opask_acp import AcpAdapter, HostClient, Profile, adapter
from opask_acp.client import VERSION
from opask_acp.launch import Planning

MINE = {"name": "mine", "command": "/bin/mine", "args": [], "env": []}


class Patient(Profile):
    """A runtime with a lever for how long a call may wait, and a file and a variable of its own."""

    def pull(self, planning: Planning) -> None:
        planning.env["AGENT_HOME"] = "/elsewhere"
        planning.files.append(LaunchFile(Path("/run/opask/session/agent.toml"), "x = 1"))
        planning.argv.append("--more")
        if not planning.pulls("call-timeout"):
            planning.ceiling = timedelta(seconds=60)
        if planning.endpoint is None:
            assert planning.tool is None
        else:
            assert planning.tool == ASK


PATIENT = AcpAdapter(
    Patient(
        runtime="patient",
        templates=("mcp__{server}__{tool}",),
        own_changes={
            "call-timeout": Change("call-timeout", "process", "lets a call wait as long as it takes")
        },
        unknowns=(),
    )
)


def with_servers(*names: str, profile: Profile | None = None) -> AcpAdapter:
    """Give the adapter for a host with servers of these names."""
    return AcpAdapter(profile, HostClient(mcp_servers=[{**MINE, "name": name} for name in names]))


def test_the_hosts_argv_and_environment_stay() -> None:
    """Nothing at launch is changed: the server goes into the request that opens the session."""
    plan = planned(argv=("npx", "agent", "--acp"), env={"KEY": "1"})
    assert plan.argv == ("npx", "agent", "--acp")
    assert plan.env == {"KEY": "1"}
    assert plan.files == ()
    assert [change.name for change in plan.changes] == ["ask-server", "clause"]
    assert (plan.serves, plan.hold_prompt, plan.cwd) == (True, True, Path("/srv/project"))


def test_an_agent_that_nobody_has_probed_is_said_to_be_one() -> None:
    """The plan says what is not known of the agent; with nobody there, nothing depends on it."""
    assert any("how long" in unknown for unknown in planned().unknowns)
    assert planned(endpoint=None).unknowns == ()
    assert planned(PATIENT).unknowns == ()


def test_the_hosts_own_servers_stay() -> None:
    """The host's servers are in the plan as they are, before the ask server; and alone where nobody is there."""
    mine = with_servers("mine")
    assert [server["name"] for server in planned(mine).mcp_servers] == ["mine", "opask"]
    assert planned(mine, endpoint=None).mcp_servers == (MINE,)


def test_a_token_does_not_show() -> None:
    """A token that is in a server's entry is not in what the plan prints as."""
    plan = planned(endpoint=evolve(ENDPOINT, command=(), url="http://127.0.0.1:9/mcp", token="secret"))
    assert "secret" not in repr(plan)
    assert plan.route == "mcp-http"


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"cwd": None}, "cwd"),
        ({"cwd": "relative"}, "cwd"),
        ({"argv": ()}, "argv"),
        ({"refuse": {"nonsense"}}, "refuse nonsense"),
        ({"refuse": {"ask-server"}}, "refuse ask-server"),
    ],
)
def test_what_stands_against_it_is_named(changes: dict[str, Any], what: str) -> None:
    """A launch that cannot be had is refused, and the error names what is at fault."""
    with pytest.raises(LaunchError) as caught:
        planned(**changes)
    assert (caught.value.runtime, caught.value.what) == ("acp", what)


def test_a_host_may_not_offer_forms() -> None:
    """A host that fills in forms would bring up an ask tool of the agent's own; a profile may say that it does not."""
    client = HostClient(capabilities={"elicitation": {"form": {}}})
    with pytest.raises(LaunchError) as caught:
        planned(adapter.with_client(client))
    assert caught.value.what == "elicitation"
    assert planned(AcpAdapter(Profile(elicitation=True), client)).questions


def test_a_transport_that_the_bridge_does_not_offer_is_refused() -> None:
    """A runtime that takes only HTTP cannot be given a socket's relay."""
    with pytest.raises(LaunchError) as caught:
        planned(AcpAdapter(Profile(transports=("http",))))
    assert caught.value.what == "transport"


def test_a_profile_pulls_its_own_levers() -> None:
    """A profile's file, variable, argument and change are in the plan, also where nobody is there."""
    for endpoint in (ENDPOINT, None):
        plan = planned(PATIENT, endpoint)
        assert plan.env["AGENT_HOME"] == "/elsewhere"
        assert [file.path.name for file in plan.files] == ["agent.toml"]
        assert plan.argv == ("agent", "acp", "--more")
        assert "call-timeout" in [change.name for change in plan.changes]
    assert set(PATIENT.changes) >= {"ask-server", "clause", "call-timeout"}


@pytest.mark.parametrize(
    ("wait", "fits"), [(timedelta(seconds=55), True), (timedelta(seconds=56), False), (None, False)]
)
def test_a_wait_beyond_a_profiles_ceiling_is_refused(wait: timedelta | None, fits: bool) -> None:
    """Where the lever is refused the wait has to be below the runtime's own limit by a margin."""
    endpoint = evolve(ENDPOINT, wait=wait)
    assert planned(PATIENT, endpoint).ceiling is None
    if fits:
        assert planned(PATIENT, endpoint, refuse={"call-timeout"}).ceiling == timedelta(seconds=60)
    else:
        with pytest.raises(WaitTooLongError):
            planned(PATIENT, endpoint, refuse={"call-timeout"})


def test_a_profile_may_have_the_server_elsewhere() -> None:
    """A profile that gives the server to the runtime in another way leaves it out of the session's opening."""

    class Elsewhere(Profile):
        def pull(self, planning: Planning) -> None:
            planning.without_servers()

    plan = planned(with_servers("mine", profile=Elsewhere()))
    assert plan.mcp_servers == (MINE,)
    assert plan.questions


@pytest.mark.parametrize("clause_by", ["prompt", "launch"])
def test_a_profile_may_say_the_clause_at_launch(clause_by: Any) -> None:
    """A clause that the launch delivers is not said again in the prompt."""
    talk = AcpAdapter(Profile(clause_by=clause_by))
    assert (planned(talk).clause is not None) is (clause_by == "prompt")


# -- whose tool it is ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["opask", "op", "opask_ask"])
def test_a_server_that_could_be_taken_for_ours_gets_ours_another_name(name: str) -> None:
    """Where a server of the host's could spell the ask tool, ours gets a name of this session's own, a listed change."""
    mine = with_servers(name, profile=Profile(templates=("{server}_{tool}",)))
    plan = planned(mine)
    if name == "op":  # its tools begin with `op_`, and ours does not
        assert plan.endpoint == ENDPOINT
        return
    assert plan.endpoint is not None
    assert plan.endpoint.server.startswith("opask")
    assert plan.endpoint.server.isalnum()
    assert len(plan.endpoint.server) == 15
    assert plan.mcp_servers[-1]["name"] == plan.endpoint.server
    assert f"{plan.endpoint.server}_ask_user_question" in str(plan.clause)
    assert "session-server-name" in [change.name for change in plan.changes]
    assert planned(mine) == plan
    other = planned(mine, evolve(ENDPOINT, folder=Path("/run/opask/other")))
    assert other.endpoint is not None
    assert other.endpoint.server != plan.endpoint.server
    with pytest.raises(LaunchError) as caught:
        planned(mine, refuse={"session-server-name"})
    assert caught.value.what == "refuse session-server-name"


def test_a_server_under_our_very_name_is_told_from_ours() -> None:
    """Two servers of one name are never in one session, however the runtime would spell their tools."""

    class Sure(Profile):
        def can_spell(self, server: str, spelling: str) -> bool:
            return False

    plan = planned(with_servers("opask", profile=Sure()))
    assert len({server["name"] for server in plan.mcp_servers}) == 2


def test_where_no_name_helps_the_launch_is_refused() -> None:
    """A runtime that does not tell servers apart cannot have another server beside ours."""
    with pytest.raises(LaunchError) as caught:
        planned(with_servers("mine", profile=Profile(templates=("{tool}",))))
    assert caught.value.what == "mcp_servers"
    assert planned(AcpAdapter(Profile(templates=("{tool}",)))).questions


def test_the_spelling_is_told_where_it_is_known() -> None:
    """The registry is told how the tool is spelled where there is one way, and nothing where nobody knows."""
    name = ToolName("opask", "ask_user_question")
    assert dict(PATIENT.spellings(name)) == dict.fromkeys(("model", "events", "permission"), ASK)
    assert dict(adapter.spellings(name)) == {}


def test_the_adapter_starts_whatever_the_user_names() -> None:
    """The command line starts the user's own program with the user's own arguments; the prompt goes by messages."""
    assert adapter.program == ""
    assert adapter.default_argv("/bin/agent", "-do it", ("acp", "--x")) == ("/bin/agent", "acp", "--x")


def test_the_version_told_to_agents_is_ours() -> None:
    """The version in ``clientInfo`` is that of the package that is installed."""
    from importlib.metadata import version

    assert version("opask") == VERSION
