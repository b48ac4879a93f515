"""The client's half of a connection: its state, its requests, and the handshake that opens a session."""

from __future__ import annotations

from typing import Any, Final

from opask.inert import shorten
from opask.launch import Endpoint, LaunchPlan
from opask_acp import jsonrpc
from opask_acp.client import HostClient
from opask_acp.jsonrpc import Id, Message, items, text
from opask_acp.messages import Agent, initialize, server_entry_for, servers_for
from opask_acp.profile import Profile
from opask_acp.states import State, Step, after

__all__ = ["OPENS", "PROMPT", "Connection"]

OPENS: Final = ("session/new", "session/load", "session/resume")
"""The requests that open a session."""

PROMPT: Final = "session/prompt"

_STEPS: Final = {
    "initialize": Step.INITIALIZE,
    "authenticate": Step.AUTHENTICATE,
    "auth/login": Step.AUTHENTICATE,
    **dict.fromkeys(OPENS, Step.OPEN),
    PROMPT: Step.PROMPT,
}
_NEWEST: Final = 2
_AUTH_REQUIRED: Final = -32000
_REASON_LENGTH: Final = 300
_WAY_LENGTH: Final = 60


class Connection:
    """The connection to one agent, for one session.

    Args:
        plan: the launch that the agent was started by.
        profile: how it speaks the protocol.
        client: what the host brings.

    Attributes:
        state: where it stands.
        agent: what the agent said of itself.
        session_id: the session's, None while that is not known.
        failure: why the agent gave no session.
        is_prompted: whether prompts are heard of here, so that a turn is known to run by its prompt.
    """

    def __init__(self, plan: LaunchPlan, profile: Profile, client: HostClient) -> None:
        self.state = State.NEW
        self.agent = Agent({})
        self.session_id: str | None = None
        self.failure: str | None = None
        self.is_prompted = False
        self._plan = plan
        self._profile = profile
        self._client = client
        self._requests: dict[Id, str] = {}  # not answered yet: id -> method
        self._next_id = 1

    @property
    def in_turn(self) -> bool:
        """Whether a turn runs."""
        return self.state in (State.BUSY, State.CANCELLING)

    @property
    def is_prompting(self) -> bool:
        """Whether a prompt has no answer yet."""
        return PROMPT in self._requests.values()

    def steps(self, step: Step) -> None:
        """Take in a step."""
        self.state = after(self.state, step)

    def is_foreign(self, params: Message) -> bool:
        """Tell whether a message is of another session."""
        session_id = params.get("sessionId")
        return None not in (session_id, self.session_id) and session_id != self.session_id

    # -- requests -------------------------------------------------------------------------------------------------

    def request(self, method: str, params: Message) -> Message:
        """Return a request to be sent, and follow it."""
        request = jsonrpc.request(self._next_id, method, params)
        self._next_id += 1
        self.follow(request["id"], method, params)
        return request

    def follow(self, id_: Id, method: str, params: Message) -> None:
        """Take in a request that goes to the agent, whoever made it."""
        step = _STEPS.get(method)
        if step is None or (method not in OPENS and self.is_foreign(params)):
            return
        if method == PROMPT:
            self.is_prompted = True
            self.session_id = self.session_id or text(params, "sessionId")
        elif after(self.state, step) is self.state:
            return  # of another session, by a client of the host's
        elif method in OPENS:
            self.session_id = text(params, "sessionId")
        self._requests[id_] = method
        self.steps(step)

    def answered(self, id_: Id) -> str | None:
        """Return the method of the request that an answer is to, None where there is none."""
        return self._requests.pop(id_, None)

    def forget_prompts(self) -> None:
        """Forget the prompts that have no answer: it counts no more."""
        self._requests = {id_: name for id_, name in self._requests.items() if name != PROMPT}

    def ended(self) -> None:
        """Take in that the agent's process ended."""
        self._requests.clear()
        self.steps(Step.EXIT)

    # -- the handshake --------------------------------------------------------------------------------------------

    def handshake(self) -> Message | None:
        """Return the next request of the handshake, None where none is due."""
        match self.state:
            case State.NEW:
                self.is_prompted = True  # from now on, by nobody else
                able = self._client.capabilities
                params = initialize(self._client.info, able, elicitation=self._profile.elicitation)
                return self.request("initialize", params)
            case State.INITIALIZED if self._client.authenticate is not None:
                method = "authenticate" if self.agent.protocol < 2 else "auth/login"
                return self.request(method, {"methodId": self._client.authenticate})
            case State.INITIALIZED | State.AUTHENTICATED:
                return self._opening()
        return None

    def _opening(self) -> Message:
        entries = self.entries()
        params: dict[str, Any] = {
            "cwd": str(self._plan.cwd or ""),
            "mcpServers": servers_for(self.agent, self._client.mcp_servers if entries is None else entries),
        }
        if meta := self._profile.session_meta(self._plan):
            params["_meta"] = dict(meta)
        if self._client.resume is None:
            return self.request("session/new", params)
        method = self.agent.resumes_by or "session/resume"
        return self.request(method, {"sessionId": self._client.resume, **params})

    def entries(self) -> list[Message] | None:
        """Return the MCP servers that the session is opened with; None where the ask server cannot be among them."""
        endpoint: Endpoint | None = self._plan.endpoint
        found = []
        for entry in self._plan.mcp_servers:
            usable: Message | None = entry
            if endpoint is not None and entry.get("name") == endpoint.server:
                usable = server_entry_for(self.agent, entry, endpoint)
            if usable is None:
                return None
            found.append(usable)
        return found

    def initialized(self, answer: Message) -> str | None:
        """Take in the answer to ``initialize``; return why nothing can come of it, None where it is well."""
        self.agent = Agent(answer)
        self.steps(Step.INITIALIZED)
        if self.agent.protocol > _NEWEST:
            return f"the agent speaks version {self.agent.protocol} of the protocol, which is not known here"
        if self._client.resume is not None and self.agent.resumes_by is None and not self._client.talks:
            return "this agent cannot go on with a session that it had before"
        return self._profile.unfit(answer)

    def opened(self, answer: Message) -> str | None:
        """Take in the answer to the request that opens a session; return why there is none, None where there is."""
        self.session_id = self.session_id or text(answer, "sessionId")
        if self.session_id is None:
            return "session/new gave no session"
        self.steps(Step.OPENED)
        return None

    def refused(self, method: str, error: Message) -> str:
        """Return, in words, why the agent refused a request."""
        said = filter(None, (text(error, "message"), _details(error.get("data"))))
        why, code = shorten(": ".join(said) or "no reason given", _REASON_LENGTH), error.get("code")
        told = f"{method} failed: {why}" + (f" ({code})" if isinstance(code, int) else "")
        if code != _AUTH_REQUIRED or method not in OPENS:
            return told
        ways = [way for each in items(self.agent.answer, "authMethods") if (way := _method_id(each))]
        named = (
            f", or name one of its methods ({', '.join(ways)}): HostClient(authenticate=…)" if ways else ""
        )
        return f"{told}; log in with the agent's own command{named}"

    def failed(self, reason: str) -> None:
        """Take in that the agent gives no session."""
        self.failure = reason
        self.steps(Step.FAIL)


def _details(data: object) -> str:
    """Return what an error says beside its message, which often says nothing; empty where there is no more."""
    if not isinstance(data, dict):
        return data if isinstance(data, str) else ""
    return next((said for name in ("details", "error", "message") if (said := text(data, name))), "")


def _method_id(way: object) -> str | None:
    """Return the id of an authentication method, in the form of either version."""
    if not isinstance(way, dict):
        return None
    told = text(way, "id") or text(way, "methodId")
    return None if told is None else shorten(told, _WAY_LENGTH)
