"""What a probe has to know of a runtime, on one route, that neither its adapter nor its row says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from attrs import Factory, field, frozen

from opask.errors import OpaskError

from .model import Call
from .scripts import QUESTIONS

__all__ = ["PROFILES", "LongWait", "Mode", "Profile", "profile"]

Mode: TypeAlias = Literal["plain", "bypass", "interruptible"]
"""How a runtime is launched: as ``opask run`` does it, with permissions bypassed, or so that its turn can be interrupted."""


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


@frozen(kw_only=True)
class Profile:
    """A runtime on one route, as the scenarios play to it.

    Args:
        runtime: its name in the registry.
        route: the route's id.
        launch: gives the launch of a host without opask, from the program, the prompt and the mode.
        native: gives the call of its own ask tool that asks a question; None where it has none.
        sub_agent: gives the call that has a sub-agent do a prompt, and waits for it; None where it has none.
        with_server: adds a stdio MCP server to a launch, from its name and command; None where a launch cannot.
        near_miss: the name of a foreign server whose tool is spelled nearly as the ask tool.
        marks_errors: whether the model's service can say that a tool's result is an error.
        slow_start: seconds that the ask server may take to start, as it may on a busy machine.
        long_wait: see `LongWait`; None where no limit is known.
        unrecorded: fields of its messages that recordings leave out: a vendor's catalogues, bills, accounts.
    """

    runtime: str
    route: str
    launch: Callable[[str, str, Mode], Sequence[str]] = field(repr=False)
    native: Callable[[str], Call] | None = field(default=None, repr=False)
    sub_agent: Callable[[str], Call] | None = field(default=None, repr=False)
    with_server: Callable[[Sequence[str], str, Sequence[str]], Sequence[str]] | None = field(
        default=None, repr=False
    )
    near_miss: str = "my_opask"
    marks_errors: bool = True
    slow_start: float = 2.0
    long_wait: LongWait | None = None
    unrecorded: frozenset[str] = frozenset()


# -- claude ----------------------------------------------------------------------------------------------------------

_STREAM: Final = ("--output-format", "stream-json", "--verbose")
_CONTROL: Final = ("--input-format", "stream-json", *_STREAM, "--permission-prompt-tool", "stdio")


def _claude_launch(program: str, prompt: str, mode: Mode) -> Sequence[str]:
    match mode:
        case "plain":
            return (program, "-p", prompt, *_STREAM)
        case "bypass":
            return (program, "-p", prompt, *_STREAM, "--permission-mode", "bypassPermissions")
        case "interruptible":  # a turn in text mode ends only with its process
            return (program, "-p", *_CONTROL)


def _claude_sub_agent(prompt: str) -> Call:
    how = {"subagent_type": "general-purpose", "run_in_background": False}
    # Up to 2.0 it was called Task, as the list of tools in `system/init` has it to this day.
    return Call("Agent", {"description": "Ask the operator", "prompt": prompt, **how}, ("Task",))


def _claude_with_server(argv: Sequence[str], name: str, command: Sequence[str]) -> Sequence[str]:
    server = {"type": "stdio", "command": command[0], "args": list(command[1:]), "alwaysLoad": True}
    return (*argv, f"--mcp-config={json.dumps({'mcpServers': {name: server}})}")


_CLAUDE: Final = Profile(
    runtime="claude",
    route="mcp-stdio",
    launch=_claude_launch,
    native=lambda text: Call("AskUserQuestion", {"questions": [QUESTIONS[text]]}),
    sub_agent=_claude_sub_agent,
    with_server=_claude_with_server,
    long_wait=LongWait(
        150,
        "a call of 120 s is moved to the background where the user's environment says so, and its answer is lost",
        {"CLAUDE_AUTO_BACKGROUND_TASKS": "1"},
    ),
    unrecorded=frozenset(
        {
            "agents",
            "commands",
            "memory_paths",
            "modelUsage",
            "models",
            "plugins",
            "skills",
            "slash_commands",
            "terminal_slash_commands",
            "total_cost_usd",
            "usage",
        }
    ),
)

PROFILES: Final[Mapping[tuple[str, str], Profile]] = {(one.runtime, one.route): one for one in (_CLAUDE,)}


def profile(runtime: str, route: str | None = None) -> Profile:
    """Give the profile of a runtime's route, by default of the first that is probed.

    Raises:
        OpaskError: it is not probed.
    """
    found = [one for one in PROFILES.values() if one.runtime == runtime and route in (None, one.route)]
    if found:
        return found[0]
    known = ", ".join(f"{one.runtime} ({one.route})" for one in PROFILES.values())
    what = runtime if route is None else f"{runtime} by {route}"
    raise OpaskError(f"there is no probe for {what}; there is one for {known}")
