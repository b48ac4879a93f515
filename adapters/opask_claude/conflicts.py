"""What in a host's own launch stands against the ask tool: refused by name, before anything is started.

Seen with 2.1.332: a rule of ``--disallowedTools`` or ``permissions.deny`` takes the tool away, with ``*`` as a
wildcard; ``permissions.ask`` beats ``--allowedTools``, and is a denial where nobody is asked; safe mode starts no
MCP server. A list of ``--tools`` is about the built-in ones alone, and ``--bare`` and ``--restricted`` leave what
``--mcp-config`` gave.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from opask.errors import LaunchError
from opask.launch import Endpoint, LaunchRequest
from opask_claude.arguments import CommandLine, tool_rules
from opask_claude.tools import NATIVE, RUNTIME, ask_tools, covers, mangled

__all__ = ["asks_host", "check", "is_on", "refusal"]

_ELSEWHERE: Final = ("--bg", "--cloud", "--remote", "--environment")
_SAFE_MODE: Final = "CLAUDE_CODE_SAFE_MODE"
_SHELL = re.compile(r"(?:.*[/\\])?(?:(?:ba|da|z|k|fi)?sh|cmd|powershell|pwsh)(?:\.exe)?")
_SHELL_COMMAND = re.compile(r"-[a-z]*c|/c|-command", re.IGNORECASE)
_ON: Final = frozenset({"1", "true", "yes", "on"})


def refusal(message: str, what: str) -> LaunchError:
    """Return the error that refuses a launch.

    Args:
        message: what is wrong, and what to do about it.
        what: the argument, variable or setting at fault.
    """
    return LaunchError(f"{RUNTIME}: {message}", runtime=RUNTIME, what=what)


def asks_host(line: CommandLine) -> bool:
    """Tell whether permission requests come to the host over the CLI's stdio."""
    return line.last("--permission-prompt-tool") == "stdio"


def is_on(env: Mapping[str, str], name: str) -> bool:
    """Tell whether a variable turns something on, as the CLI reads it."""
    return env.get(name, "").strip().lower() in _ON


def check(
    request: LaunchRequest, line: CommandLine, endpoint: Endpoint | None, known: Collection[str]
) -> None:
    """Check that nothing of the host's own stands against the launch.

    Args:
        request: the host's launch.
        line: its argv, as it was read.
        endpoint: where the ask tool is served, None where nobody is there.
        known: the names of changes that there are to refuse.

    Raises:
        LaunchError: something does.
    """
    for name in sorted(request.refuse):
        if name not in known:
            raise refusal(
                f"there is no change {name!r} to refuse; there is {', '.join(known)}", f"refuse {name}"
            )
    _check_extendable(line)
    for option in ("--allowedTools", "--tools"):
        for rule in tool_rules(line.values(option)):
            if rule.partition("(")[0] == NATIVE:
                raise refusal(
                    f"{option} names {NATIVE}, which resolves without an operator; take it out: opask's own tool "
                    "takes its place",
                    f"{option} {rule}",
                )
    if "native-ask-denied" in request.refuse:
        _check_native_asks_host(line)
    if endpoint is not None:
        _check_attachable(request, line, endpoint)


def _check_native_asks_host(line: CommandLine) -> None:
    """See that no rule of the host's lets the native ask tool run where only the permission channel denies it.

    With such a rule 2.1.63 makes no permission request: it tells the model that the user has answered, with nothing.
    """
    if NATIVE in tool_rules(line.values("--disallowedTools")):
        return
    for rule in _setting_rules(line, "allow"):
        if rule.partition("(")[0] == NATIVE:
            where = f"--settings permissions.allow {rule}"
            raise refusal(
                f"{where} lets {NATIVE} resolve without an operator at some versions; take it out, or do not refuse "
                "the change 'native-ask-denied'",
                where,
            )


def _setting_rules(line: CommandLine, kind: str) -> tuple[str, ...]:
    """Return the permission rules of a kind that ``--settings`` has inline."""
    listed = _object(_json(line.last("--settings")).get("permissions")).get(kind)
    return tuple(rule for rule in listed if isinstance(rule, str)) if isinstance(listed, list) else ()


def _check_extendable(line: CommandLine) -> None:
    argv = line.argv
    if not argv:
        raise refusal("the argv is empty; it has to start with the program", "argv")
    if line.program is None and _SHELL.fullmatch(argv[0]) and any(map(_SHELL_COMMAND.fullmatch, argv[1:2])):
        raise refusal(
            f"a command line for {argv[0]} cannot be extended; give the program and its arguments one by one",
            argv[0],
        )
    if line.unfinished is not None:
        name = argv[line.unfinished.start]
        raise refusal(f"{name} at the end of the argv has no value", name)


def _check_attachable(request: LaunchRequest, line: CommandLine, endpoint: Endpoint) -> None:
    (tool,) = ask_tools(endpoint).supplied
    for name in _ELSEWHERE:
        if line.has(name):
            raise refusal(f"with {name} the agent runs where the ask tool cannot be reached", name)
    safe = "--safe-mode" if line.has("--safe-mode") else _SAFE_MODE
    if safe == "--safe-mode" or is_on(request.env, safe):
        raise refusal(f"{safe} turns every MCP server off, and so the ask tool; launch without it", safe)
    for where, rules in _rules_against(line):
        for rule in rules:
            if covers(rule, tool):
                raise refusal(
                    f"{where} {rule} takes the ask tool {tool} away; take it out", f"{where} {rule}"
                )
    for name in _servers(line):
        if mangled(name) == mangled(endpoint.server):
            raise refusal(
                f"--mcp-config has a server {name!r}, which the CLI cannot tell from the ask server "
                f"{endpoint.server!r}; give it another name",
                f"--mcp-config {name}",
            )


def _rules_against(line: CommandLine) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Return the host's own rules under which the ask tool would not run, with where they stand."""
    yield "--disallowedTools", tool_rules(line.values("--disallowedTools"))
    for kind in ("deny",) if asks_host(line) else ("deny", "ask"):
        yield f"--settings permissions.{kind}", _setting_rules(line, kind)


def _servers(line: CommandLine) -> Iterable[str]:
    for value in line.values("--mcp-config"):
        yield from _object(_json(value).get("mcpServers"))


def _json(value: str | None) -> Mapping[str, Any]:
    """Read an option's value that is inline JSON; a path, or what is no JSON object, is empty."""
    if value is None or not value.lstrip().startswith("{"):
        return {}
    try:
        return _object(json.loads(value))
    except (ValueError, RecursionError):
        return {}  # the CLI itself says what is wrong with it


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
