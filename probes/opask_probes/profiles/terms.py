"""What a probe has to know of a runtime, on one route, that neither its adapter nor its row says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from attrs import Factory, field, frozen

from opask.adapters import Adapter
from opask_probes.model import Call

__all__ = ["Device", "Launch", "LongWait", "Mode", "Profile", "ServerAdder"]

Mode: TypeAlias = Literal["plain", "bypass", "interruptible"]
"""How a runtime is launched: as ``opask run`` does it, with permissions bypassed, or so that its turn can be interrupted."""


def _as_it_is(adapter: Adapter) -> Adapter:
    return adapter


@frozen
class Launch:
    """How a host without opask starts a runtime.

    Args:
        argv: program and arguments.
        env: variables of its user.
        settings: what its user has at the top of files that the runtime reads anyway: path below HOME to text.
        adapted: gives the adapter as that host uses it; for what a host names when it opens a session.
    """

    argv: Sequence[str]
    env: Mapping[str, str] = Factory(dict)
    settings: Mapping[str, str] = Factory(dict)
    adapted: Callable[[Adapter], Adapter] = field(default=_as_it_is, repr=False)


ServerAdder: TypeAlias = Callable[[Launch, str, Sequence[str]], Launch]
"""Gives a launch with one more stdio MCP server, from its name and command."""


@frozen
class LongWait:
    """A wait that is longer than the runtime holds a call by itself.

    Args:
        seconds: how long.
        limit: the limit that is passed, in words.
        env: variables that a user may have set, under which that limit is in force.
    """

    seconds: float
    limit: str
    env: Mapping[str, str] = Factory(dict)


@frozen
class Device:
    """How a model finds and calls a tool of an MCP server where such tools are not on its list.

    Args:
        listed: from the tool's name, what the system prompt has of it.
        call: from the tool's name and the arguments, the call.
    """

    listed: Callable[[str], str]
    call: Callable[[str, Mapping[str, Any]], Call]


@frozen(kw_only=True)
class Profile:
    """A runtime on one route, as the scenarios play to it.

    Args:
        runtime: its name in the registry.
        route: the route's id.
        launch: gives the launch of a host without opask, from the program, the prompt and the mode.
        native: gives the call of its own ask tool that asks a question; None where it has none.
        sub_agent: gives the call that has a sub-agent do a prompt, and waits for it; None where it has none.
        with_server: see `ServerAdder`; None where a launch cannot name another server.
        near_miss: the name of a foreign server whose tool is spelled nearly as the ask tool.
        device: see `Device`; None where MCP tools are on the model's list.
        refuse: changes of the launch that are not wanted on this route.
        clause_in: where the model finds the text that tells it how the operator is reached.
        unless: ids of claims that do not apply, and why.
        marks_errors: whether the model's service can say that a tool's result is an error.
        slow_start: seconds that the ask server may take to start, as it may on a busy machine.
        long_wait: see `LongWait`; None where no limit is known.
        unrecorded: fields of its messages that recordings leave out: a vendor's catalogues, bills, accounts.
    """

    runtime: str
    route: str
    launch: Callable[[str, str, Mode], Launch] = field(repr=False)
    native: Callable[[str], Call] | None = field(default=None, repr=False)
    sub_agent: Callable[[str], Call] | None = field(default=None, repr=False)
    with_server: ServerAdder | None = field(default=None, repr=False)
    near_miss: str = "my_opask"
    device: Device | None = None
    refuse: frozenset[str] = frozenset()
    clause_in: Literal["system", "prompt"] = "system"
    unless: Mapping[str, str] = Factory(dict)
    marks_errors: bool = True
    slow_start: float = 2.0
    long_wait: LongWait | None = None
    unrecorded: frozenset[str] = frozenset()
