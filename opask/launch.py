"""What a host wants to start, and what it has to start for the agent to be able to ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from attrs import Factory, field, frozen

from opask.wire import SERVER_NAME, TOOL_NAME

__all__ = [
    "Change",
    "Endpoint",
    "LaunchFile",
    "LaunchPlan",
    "LaunchRequest",
    "Overlay",
    "OverlayFile",
    "OverlayRecord",
]


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
        folder: a private folder (0700) for files of the launch; the session gives its own where this is None.
        version: the runtime's version, where it is known; the session gives the one that it was attached with.
        read_only: whether the agent starts with a read-only floor: nothing may be changed that a policy does not let
            through, such as `opask.write_gate.WriteGate`. A runtime that cannot hold that is not launched.
    """

    argv: tuple[str, ...] = field(converter=_strings)
    env: Mapping[str, str] = field(default=Factory(dict), repr=False)
    clause: str | None = None
    refuse: frozenset[str] = field(default=frozenset(), converter=_names)
    cwd: Path | None = field(default=None, converter=_path)
    folder: Path | None = field(default=None, converter=_path)
    version: str | None = None
    read_only: bool = False


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
class OverlayFile:
    """A file of an overlay that is made from the user's own, which is only read.

    Args:
        name: its name in the folder.
        make: gives its text from the user's, None where there is none. It does no I/O, and raises `LaunchError` where
            the user's stands against the launch. Bytes that are no UTF-8 are in the text as lone surrogates.
        sources: where the user's own may be, absolute; the first that is there is it. By default it has the same name
            in the user's folder.
    """

    name: str
    make: Callable[[str | None], str] = field(repr=False)
    sources: tuple[Path, ...] | None = None


@frozen
class OverlayRecord:
    """A file that a runtime keeps records in, by putting another in its place, link or not.

    Args:
        name: its name in the folder.
        join: gives what the user's own is to hold, from what it holds when the session ends (None: there is none) and
            what the runtime wrote. It does no I/O, and raises `ValueError` where it cannot read them.
    """

    name: str
    join: Callable[[str | None, str], str] = field(repr=False)


@frozen
class Overlay:
    """A folder that stands in for one of the user's while a session lasts, or has only files made from the user's.

    It has a link to everything in the user's folder, so that what the runtime keeps (logins that rotate, saved
    conversations) stays there, and a few files of its own.

    Args:
        path: the folder, made anew with mode 0700.
        original: the user's folder, absolute; it need not be there yet. None where it stands in for none.
        files: what is made anew, with mode 0600.
        folders: names of folders that the runtime keeps things in; where the user has none, one is made there.
        records: files that the runtime replaces; linked where the user has none yet, too, and brought back at the end.
    """

    path: Path
    original: Path | None
    files: tuple[OverlayFile, ...] = field(default=(), converter=tuple[OverlayFile, ...])
    folders: tuple[str, ...] = ()
    records: tuple[OverlayRecord, ...] = field(default=(), converter=tuple[OverlayRecord, ...])


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
        overlays: made by the session's `plan_launch` before it returns, gone with the session.
        read_only: whether every call that may change something comes to this process before it runs.
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
    overlays: tuple[Overlay, ...] = field(default=(), converter=tuple[Overlay, ...])
    read_only: bool = False
