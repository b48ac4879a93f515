"""The claims that a probe tries: what each says, the scenario that tries it, and where it does not apply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from attrs import field, frozen

from opask.registry_schema import RouteRow

from . import mishaps, scenarios
from .case import Case

__all__ = ["CLAIMS", "NATIVE_CLAIMS", "Claim", "claims_of"]


def _always(case: Case) -> str | None:
    return None


@frozen(kw_only=True)
class Claim:
    """One claim.

    Args:
        id: its name.
        says: what it says, in a sentence.
        play: plays its scenario; gives what was seen that is against the claim, nothing where it holds.
        unless: gives why the claim does not apply to a runtime; None where it does.
        bound: seconds that the scenario may take.
        is_long: whether it is left out unless it is asked for.
    """

    id: str
    says: str
    play: Callable[[Case], Awaitable[list[str]]] = field(repr=False)
    unless: Callable[[Case], str | None] = field(default=_always, repr=False)
    bound: float = 60.0
    is_long: bool = False


def _without_native(case: Case) -> str | None:
    return None if case.profile.native else "this runtime has no ask tool of its own"


def _without_sub_agents(case: Case) -> str | None:
    if case.row.subagents == "none":
        return "its sub-agents do not have the ask tool"
    return None if case.profile.sub_agent else "this runtime has no sub-agents"


def _without_limit(case: Case) -> str | None:
    return None if case.profile.long_wait else "no limit of its own on a call is known"


def _without_servers(case: Case) -> str | None:
    return None if case.profile.with_server else "a launch cannot name another MCP server"


CLAIMS: Final = (
    Claim(
        id="single",
        says="A question with one choice is answered, and the agent goes on with the answer",
        play=scenarios.single,
    ),
    Claim(
        id="multi",
        says="A question with several choices is answered with exactly those that were made",
        play=scenarios.multi,
    ),
    Claim(
        id="free-text",
        says="An answer in the operator's own words reaches the agent word for word",
        play=scenarios.free_text,
    ),
    Claim(
        id="native",
        says="The runtime's own ask tool is offered only where nothing takes it away, answers nothing, and its refusal is told",
        play=scenarios.native,
        unless=_without_native,
    ),
    Claim(
        id="two",
        says="Two asks in one message each get their own answer",
        play=scenarios.two,
    ),
    Claim(
        id="sub-agent",
        says="A sub-agent's question is answered, and is known to be a sub-agent's, unless the row says that it is not",
        play=scenarios.sub_agent,
        unless=_without_sub_agents,
    ),
    Claim(
        id="cancel",
        says="An interrupted turn takes its question back",
        play=mishaps.cancel,
    ),
    Claim(
        id="slow-start",
        says="An ask server that is slow to start is waited for",
        play=mishaps.slow_start,
    ),
    Claim(
        id="bypass",
        says="With permissions bypassed the operator is asked all the same",
        play=scenarios.bypass,
    ),
    Claim(
        id="foreign",
        says="A foreign tool of nearly the same name is not taken for the ask tool",
        play=scenarios.foreign_server,
        unless=_without_servers,
    ),
    Claim(
        id="relay-crash",
        says="The question of a relay that dies, or over HTTP of a connection that is cut, is settled once, and the next "
        "one is answered",
        play=mishaps.relay_crash,
    ),
    Claim(
        id="long-wait",
        says="An answer that comes after the runtime's own limit on a call is not lost",
        play=mishaps.long_wait,
        unless=_without_limit,
        bound=600.0,
        is_long=True,
    ),
)
"""What is tried where opask's tool is the route."""

NATIVE_CLAIMS: Final = (
    Claim(
        id="own-tool",
        says="A question by the runtime's own ask tool reaches the host that started it",
        play=scenarios.own_tool,
    ),
)
"""What is tried where the runtime's own ask tool is the route, and the host is one without opask."""


def claims_of(row: RouteRow) -> tuple[Claim, ...]:
    """Give the claims that are tried on a route."""
    return NATIVE_CLAIMS if row.is_native else CLAIMS
