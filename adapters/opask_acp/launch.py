"""Merge the ask tool into a host's own launch of an ACP agent.

The protocol names MCP servers when a session is opened, so the host's argv stays as it is. What a runtime needs
beside that (variables, files, options) is its profile's business: `opask_acp.profile.Profile.pull`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, Literal

from attrs import define, field

from opask.errors import LaunchError, WaitTooLongError
from opask.launch import Change, Endpoint, LaunchFile, LaunchPlan, LaunchRequest, Overlay
from opask.names import ToolName
from opask_acp.client import HostClient
from opask_acp.messages import server_entry
from opask_acp.naming import ask_tools, unmistakable
from opask_acp.profile import Profile

__all__ = ["CHANGES", "Planning", "changes_of", "plan_launch"]

CHANGES: Final[Mapping[str, Change]] = {
    change.name: change
    for change in (
        Change(
            "ask-server",
            "process",
            "the request that opens the session names the MCP server that has the ask tool; the host's own stay",
        ),
        Change(
            "clause",
            "process",
            "a text behind the first prompt tells the agent how the operator is reached, or that nobody is there",
        ),
        Change(
            "session-server-name",
            "server",
            "the ask server gets a name of this session's own, since a tool of another server could have the name of "
            "the ask tool under its usual one",
        ),
    )
}
"""The levers of the protocol itself, by name."""

_MARGIN: Final = timedelta(seconds=5)


def changes_of(profile: Profile) -> Mapping[str, Change]:
    """Return every lever that a launch of this runtime may pull, by name."""
    return {**CHANGES, **profile.own_changes}


def plan_launch(
    request: LaunchRequest, endpoint: Endpoint | None, profile: Profile, client: HostClient
) -> LaunchPlan:
    """Return the host's launch with the ask tool in it, or with nobody there to ask.

    Args:
        request: the host's launch.
        endpoint: where the tool is served; None where nobody is there.
        profile: how the runtime speaks the protocol.
        client: what the host brings to the connection.

    Raises:
        LaunchError: the host's own launch stands against it.
        WaitTooLongError: the endpoint's wait cannot be had.
    """
    planning = Planning(request, endpoint, profile, client)
    planning.check()
    if endpoint is not None:
        planning.attach(endpoint)
    planning.add_clause()
    profile.pull(planning)
    return planning.plan()


@define
class Planning:
    """One launch on its way to its plan; what a profile's `pull` works on.

    Attributes:
        request: the host's launch.
        endpoint: where the tool is served, under the name that it is given; None where nobody is there.
        argv: program and arguments, to be changed only where there is no other lever.
        env: the environment.
        files: what has to be written.
        overlays: the folders that stand in for the user's own.
        ceiling: the longest that the runtime lets a call wait; None where there is no limit, or none is known.
        text: the clause, as it is delivered.
    """

    request: LaunchRequest
    endpoint: Endpoint | None
    profile: Profile
    client: HostClient
    argv: list[str] = field(init=False)
    env: dict[str, str] = field(init=False)
    files: list[LaunchFile] = field(init=False, factory=list)
    overlays: list[Overlay] = field(init=False, factory=list)
    ceiling: timedelta | None = field(init=False, default=None)
    text: str | None = field(init=False, default=None)
    _servers: list[Mapping[str, Any]] = field(init=False)
    _transport: Literal["stdio", "http"] | None = field(init=False, default=None)
    _pulled: list[Change] = field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self.argv = list(self.request.argv)
        self.env = dict(self.request.env)
        self._servers = list(self.client.mcp_servers)

    # -- for profiles ----------------------------------------------------------------------------------------------

    def pulls(self, name: str) -> bool:
        """Tell whether a lever may be pulled, and list it if so."""
        if name in self.request.refuse:
            return False
        change = changes_of(self.profile)[name]
        if change not in self._pulled:
            self._pulled.append(change)
        return True

    def refused(self, message: str, what: str) -> LaunchError:
        """Return the error of a launch that cannot be had.

        Args:
            message: what is wrong and what to do.
            what: the argument, variable or setting at fault.
        """
        runtime = self.profile.runtime
        return LaunchError(f"{runtime}: {message}", runtime=runtime, what=what)

    def without_servers(self) -> None:
        """Leave the ask server out of what opens the session: the runtime takes it from elsewhere."""
        if self.endpoint is not None:
            self._servers = [server for server in self._servers if server.get("name") != self.endpoint.server]

    @property
    def tool(self) -> str | None:
        """The likeliest spelling of the ask tool, None where nobody is there."""
        spellings = ask_tools(self.profile, self.endpoint, self.client.servers).supplied
        if self.endpoint is None or not spellings:
            return None
        name = ToolName(self.endpoint.server, self.endpoint.tool)
        return next(spelling for spelling in self.profile.spellings(name) if spelling in spellings)

    @property
    def words(self) -> str:
        """What the agent is to be told of how the operator is reached; empty for nothing."""
        words = self.request.clause
        return self.profile.clause(self.endpoint) if words is None else words

    # -- the protocol's own ---------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check what of the host's stands against it."""
        request, known = self.request, changes_of(self.profile)
        for name in sorted(request.refuse):
            if name not in known:
                raise self.refused(
                    f"there is no change {name!r} to refuse; there is {', '.join(known)}", f"refuse {name}"
                )
        if request.read_only:
            raise self.refused(
                f"it cannot hold a read-only floor: {self.profile.floorless}. Launch without one (opask run --permissions "
                "ask), or in a sandbox that is read-only itself",
                "read_only",
            )
        if not request.argv:
            raise self.refused("the argv is empty; it has to start with the agent's program", "argv")
        if self.profile.names_folder and (request.cwd is None or not request.cwd.is_absolute()):
            raise self.refused(
                "the protocol wants the folder that the agent works in, absolute: LaunchRequest(…, cwd=…)",
                "cwd",
            )
        if self.client.capabilities.get("elicitation") is not None and not self.profile.elicitation:
            raise self.refused(
                "an agent that is told of forms (elicitation) may bring up an ask tool of its own beside the supplied "
                "one; leave that out of the client's capabilities",
                "elicitation",
            )

    def attach(self, endpoint: Endpoint) -> None:
        """Put the ask server among the session's."""
        if not self.pulls("ask-server"):
            raise self.refused(
                "with the change 'ask-server' refused there is nothing to ask with; attach the session without a "
                "prompter instead",
                "refuse ask-server",
            )
        offered = {"stdio": bool(endpoint.command), "http": bool(endpoint.url)}
        transport = next((each for each in self.profile.transports if offered[each]), None)
        if transport is None:
            raise self.refused(
                f"it reaches an MCP server by {' or '.join(self.profile.transports)}, and the bridge offers this "
                "session by neither",
                "transport",
            )
        self.endpoint = self._named(endpoint)
        self._transport = transport
        self._servers.append(server_entry(self.endpoint, transport))

    def _named(self, endpoint: Endpoint) -> Endpoint:
        servers = self.client.servers
        named = unmistakable(self.profile, endpoint, servers)
        if named is None:
            raise self.refused(
                f"a tool of one of the servers {', '.join(map(repr, servers))} can get the name of the ask tool, "
                "whatever the ask server is called; give that server another name, or leave it out",
                "mcp_servers",
            )
        if named.server != endpoint.server and not self.pulls("session-server-name"):
            raise self.refused(
                f"one of the servers {', '.join(map(repr, servers))} cannot be told from the ask server "
                f"{endpoint.server!r}; give it another name, or do not refuse the change 'session-server-name'",
                "refuse session-server-name",
            )
        return named

    def add_clause(self) -> None:
        """Say how the operator is reached; the first prompt will, unless the profile's launch does."""
        if self.words and self.profile.clause_by == "prompt" and self.pulls("clause"):
            self.text = self.words

    def plan(self) -> LaunchPlan:
        """Return the plan.

        Raises:
            WaitTooLongError: the endpoint's wait is longer than the runtime lets a call wait.
        """
        endpoint = self.endpoint
        if endpoint is not None:
            self._check_wait(endpoint)
        return LaunchPlan(
            argv=self.argv,
            env=self.env,
            files=self.files,
            overlays=self.overlays,
            mcp_servers=self._servers,
            clause=self.text,
            route=None if self._transport is None else f"mcp-{self._transport}",
            questions=endpoint is not None,
            reason=None if endpoint is not None else "nobody is there to ask",
            hold_prompt=endpoint is not None and self.profile.hold_prompt and not self.profile.lists_apart,
            wait=None if endpoint is None else endpoint.wait,
            ceiling=self.ceiling,
            changes=self._pulled,
            endpoint=endpoint,
            cwd=self.request.cwd,
            serves=True,
            unknowns=self.profile.unknowns if endpoint is not None else (),
        )

    def _check_wait(self, endpoint: Endpoint) -> None:
        if self.ceiling is None or (endpoint.wait is not None and endpoint.wait <= self.ceiling - _MARGIN):
            return
        runtime = self.profile.runtime
        wait = endpoint.wait
        asked = "an unbounded wait" if wait is None else f"a wait of {wait.total_seconds():g} s"
        raise WaitTooLongError(
            f"{runtime}: {asked} cannot be had, this launch holds a call for {self.ceiling.total_seconds():g} s: wait "
            "less, or do not refuse the change that lifts the limit",
            runtime=runtime,
            what="wait",
        )
