"""What a host wants to start, and what it has to start for the agent to be able to ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from attrs import Factory, field, frozen

from opask.wire import SERVER_NAME, TOOL_NAME

__all__ = ["Change", "Endpoint", "LaunchFile", "LaunchPlan", "LaunchRequest"]


def _strings(value: Any) -> tuple[str, ...]:
    if isinstance(value, str | bytes):
        raise TypeError(f"give the program and its arguments one by one, not as one string: {value!r}")
    return tuple(str(item) for item in value)


def _names(value: Iterable[str]) -> frozenset[str]:
    return frozenset(value)


def _path(value: Path | str | None) -> Path | None:
    return None if value is None else Path(value)


@frozen
class LaunchRequest:
    """The launch as the host would do it alone: complete, its own.

    Args:
        argv: program and arguments.
        env: the environment, whole.
        clause: a text of the host's own in place of the adapter's clause for the system prompt.
        refuse: names of changes (`Change.name`) that the host does not want.
        cwd: where the agent is to work, absolute; needed by protocols that name the folder in-band (ACP).
    """

    argv: tuple[str, ...] = field(converter=_strings)
    env: Mapping[str, str] = field(default=Factory(dict), repr=False)
    clause: str | None = None
    refuse: frozenset[str] = field(default=frozenset(), converter=_names)
    cwd: Path | None = field(default=None, converter=_path)


@frozen
class Endpoint:
    """Where the session's ask tool is served.

    Args:
        command: program and arguments of the relay, to be run as a stdio MCP server.
        env: variables that the relay needs; empty as a rule.
        folder: the session's private folder (0700), for files of the launch; gone when the session closes.
        wait: how long the operator may take; None for as long as it takes.
        server: the name that the MCP server has to be configured under.
        tool: the tool's name on that server.
        url: the same server over streamable HTTP, where the bridge offers it.
        token: the bearer token for `url`.
    """

    command: tuple[str, ...] = field(converter=_strings)
    folder: Path
    wait: timedelta | None
    env: Mapping[str, str] = Factory(dict)
    server: str = SERVER_NAME
    tool: str = TOOL_NAME
    url: str | None = None
    token: str | None = field(default=None, repr=False)


@frozen
class Change:
    """One lever that the launch pulls.

    Args:
        name: its name, for `LaunchRequest.refuse`.
        scope: what it reaches: ``server``, the ask server alone; ``process``, this run of the runtime;
            ``user``, settings that outlive it.
        why: what it is for, in a sentence, and what else it changes.
    """

    name: str
    scope: Literal["server", "process", "user"]
    why: str


@frozen
class LaunchFile:
    """A file that has to be there before the runtime starts; written with mode 0600."""

    path: Path
    content: str = field(repr=False)


@frozen
class LaunchPlan:
    """The launch with the ask tool in it: merged, complete, ready to spawn.

    Args:
        argv: program and arguments.
        env: the environment, whole.
        files: written by the session's `plan_launch` before it returns.
        mcp_servers: for protocols that name servers in-band (ACP session/new), in the protocol's form.
        clause: what the system prompt was given.
        route: the registry's id of the route that it takes; None where nothing is attached.
        questions: whether the agent will be able to ask.
        reason: why it will not.
        hold_prompt: whether the first prompt has to wait until the runtime has listed the tool.
        wait: how long the operator may take, None for unbounded.
        ceiling: the longest wait this route can hold with the levers that are pulled; None for unbounded.
        changes: every lever that was pulled.
        endpoint: what it was planned for, None where nobody is there to ask.
        cwd: where the runtime is to run; None for wherever the host starts it.
        serves: whether the process is a server of its protocol: it begins with a handshake, takes prompts until it
            is ended, and its exit code says nothing of its work.
        unknowns: what nobody has seen of this runtime, in sentences for a person.
    """

    argv: tuple[str, ...] = field(converter=_strings)
    env: Mapping[str, str] = field(repr=False)
    files: tuple[LaunchFile, ...] = field(default=(), converter=tuple[LaunchFile, ...])
    mcp_servers: tuple[Mapping[str, Any], ...] = field(
        default=(),
        converter=tuple[Mapping[str, Any], ...],
        repr=False,  # may hold a token
    )
    clause: str | None = None
    route: str | None = None
    questions: bool = False
    reason: str | None = None
    hold_prompt: bool = False
    wait: timedelta | None = None
    ceiling: timedelta | None = None
    changes: tuple[Change, ...] = field(default=(), converter=tuple[Change, ...])
    endpoint: Endpoint | None = None
    cwd: Path | None = field(default=None, converter=_path)
    serves: bool = False
    unknowns: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
