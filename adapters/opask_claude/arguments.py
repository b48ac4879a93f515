"""Read and extend a command line of the claude CLI.

The CLI reads its options as commander does: a long option takes its value from the next argument, whatever that
looks like, or after ``=``; an option with several values goes on to swallow what follows up to the next dash;
one with an optional value takes the next argument unless that starts with a dash; ``--`` ends them all. Which
option takes what was read in the CLI's own table (2.1.332) and holds from 2.0 on for the ones that matter here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from attrs import field, frozen

__all__ = ["Argument", "CommandLine", "tool_rules"]

# Words in a row read better than eighty quoted ones, hence `split`.
_SEVERAL: Final = (  # noqa: SIM905
    "--allowedTools --disallowedTools --tools --add-dir --mcp-config --betas --file --channels "
    "--dangerously-load-development-channels"
).split()
_MAYBE: Final = (  # noqa: SIM905
    "--debug --resume --from-pr --worktree --teleport --cloud --remote --project --remote-control --rc "
    "--prompt-suggestions"
).split()
_ONE: Final = (  # noqa: SIM905
    "--prefill --prefill-b64 --deep-link-repo --deep-link-last-fetch --deep-link-cwd-b64 --handle-uri --settings "
    "--managed-settings --initialize-fields --setting-sources --client-data-url --watch-artifact "
    "--watch-artifact-no-autoreact --team-name --agent-id --agent-name --agent-color --parent-session-id "
    "--lead-verify-key --agent-type --model --agent --routine --effort --fast-mode --permission-mode "
    "--inherit-permission-mode --proactivity --debug-file --system-prompt --system-prompt-file "
    "--append-system-prompt --append-system-prompt-file --system-prompt-snapshot --append-subagent-system-prompt "
    "--append-subagent-system-prompt-file --plan-mode-instructions --permission-prompt-tool --permission-prompts "
    "--json-schema --fallback-model --advisor --agents --name --plugin-dir --plugin-dir-no-mcp --plugin-url "
    "--remote-control-session-name-prefix --sdk-url --thinking --thinking-display --max-thinking-tokens "
    "--max-turns --max-budget-usd --task-budget --autocompact --rewind-files --resume-session-at "
    "--resume-drops-turn --workload --output-format --input-format --teammate-mode --messaging-socket-path "
    "--session-id --environment --pool --ref --on-branch --correlation-id --metadata --forward-home-settings "
    "--project-config-root --attach-serve --runner-declares --session-began-as-copy"
).split()

_Takes = Literal["one", "several", "maybe", "none"]
_TAKES: Final[dict[str, _Takes]] = {
    **dict.fromkeys(_ONE, "one"),
    **dict.fromkeys(_SEVERAL, "several"),
    **dict.fromkeys(_MAYBE, "maybe"),
}
_ALIASES: Final = {
    "--allowed-tools": "--allowedTools",
    "--disallowed-tools": "--disallowedTools",
    "--background": "--bg",
    "-p": "--print",
    "-c": "--continue",
    "-r": "--resume",
    "-d": "--debug",
    "-n": "--name",
    "-w": "--worktree",
    "-v": "--version",
    "-h": "--help",
}
_PROGRAM = re.compile(r"claude(?:\.exe|\.cmd)?|cli\.js|@anthropic-ai/claude-code(?:@.*)?")


def _strings(value: Iterable[str]) -> tuple[str, ...]:
    return tuple(value)


@frozen
class Argument:
    """One option with its values, or one positional argument.

    Args:
        name: the option's chief name; empty for a positional argument.
        values: what it was given.
        start: where it begins in the argv.
        end: where the next one begins.
        glued: whether the value stands in the same argument as the option.
    """

    name: str
    values: tuple[str, ...]
    start: int
    end: int
    glued: bool = False

    @property
    def wants_value(self) -> bool:
        """Whether it lacks the value that it has to have."""
        return not self.values and _TAKES.get(self.name) in ("one", "several")


@frozen
class CommandLine:
    """A command line of the CLI, with whatever starts it in front.

    Args:
        argv: program and arguments.
    """

    argv: tuple[str, ...] = field(converter=_strings)
    program: int | None = field(
        init=False, repr=False, eq=False
    )  # where the CLI stands, if one is recognised
    arguments: tuple[Argument, ...] = field(init=False, repr=False, eq=False)
    end: int = field(
        init=False, repr=False, eq=False
    )  # where more options can be put: before a ``--``, or last

    def __attrs_post_init__(self) -> None:
        program = _program(self.argv)
        arguments, end = _read(self.argv, (program or 0) + 1)
        object.__setattr__(self, "program", program)
        object.__setattr__(self, "arguments", arguments)
        object.__setattr__(self, "end", end)

    def has(self, name: str) -> bool:
        """Tell whether an option is there, under any of its names."""
        return any(argument.name == name for argument in self.arguments)

    def values(self, name: str) -> tuple[str, ...]:
        """Return every value that an option was given, in order."""
        return tuple(
            value for argument in self.arguments if argument.name == name for value in argument.values
        )

    def last(self, name: str) -> str | None:
        """Return the value that counts for an option of one value: its last."""
        values = self.values(name)
        return values[-1] if values else None

    @property
    def prompt(self) -> str | None:
        """The prompt, where it is in the argv."""
        return next((argument.values[0] for argument in self.arguments if not argument.name), None)

    @property
    def unfinished(self) -> Argument | None:
        """The option at the end that lacks its value, and would take the next thing for it."""
        last = self.arguments[-1] if self.arguments else None
        return last if last is not None and last.wants_value else None

    def with_options(self, *options: str) -> CommandLine:
        """Return the command line with more options, each complete in itself (``--name=value``)."""
        return CommandLine((*self.argv[: self.end], *options, *self.argv[self.end :]))

    def without(self, name: str) -> CommandLine:
        """Return the command line without an option, wherever it stands."""
        gone = {
            at
            for argument in self.arguments
            if argument.name == name
            for at in range(argument.start, argument.end)
        }
        return CommandLine(value for at, value in enumerate(self.argv) if at not in gone)

    def with_value(self, name: str, value: str) -> CommandLine:
        """Return the command line with the value that counts for an option replaced, or the option added."""
        found = [argument for argument in self.arguments if argument.name == name]
        if not found:
            return self.with_options(f"{name}={value}")
        new = f"{name}={value}" if found[-1].glued else value
        at = found[-1].end - 1
        return CommandLine((*self.argv[:at], new, *self.argv[at + 1 :]))


def _program(argv: Sequence[str]) -> int | None:
    """Return where the CLI itself stands, behind whatever starts it (node, npx, a sandbox)."""
    found = [index for index, argument in enumerate(argv) if _is_program(argument)]
    if found and found[0] == 0:
        return 0
    # A starter that ends its own options with ``--`` must not hide what is behind it.
    behind = [index for index in found if argv[index - 1] == "--"]
    return next(iter(behind or found), None)


def _is_program(argument: str) -> bool:
    return _PROGRAM.fullmatch(re.split(r"[/\\]", argument)[-1]) is not None or (
        _PROGRAM.fullmatch(argument) is not None
    )


def _is_option(argument: str) -> bool:
    return len(argument) > 1 and argument.startswith("-")


def _read(argv: Sequence[str], at: int) -> tuple[tuple[Argument, ...], int]:
    found: list[Argument] = []
    while at < len(argv):
        argument = argv[at]
        if argument == "--":
            found.extend(Argument("", (value,), index, index + 1) for index, value in _from(argv, at + 1))
            return tuple(found), at
        if not _is_option(argument):
            found.append(Argument("", (argument,), at, at + 1))
            at += 1
            continue
        read = _long(argv, at) if argument.startswith("--") else _short(argv, at)
        found.extend(read)
        at = read[-1].end
    return tuple(found), len(argv)


def _from(argv: Sequence[str], start: int) -> Iterable[tuple[int, str]]:
    return ((index, argv[index]) for index in range(start, len(argv)))


def _long(argv: Sequence[str], at: int) -> list[Argument]:
    name, glue, value = argv[at].partition("=")
    if glue:
        return [Argument(_ALIASES.get(name, name), (value,), at, at + 1, glued=True)]
    return [_spaced(_ALIASES.get(name, name), argv, at)]


def _short(argv: Sequence[str], at: int) -> list[Argument]:
    """Read ``-p``, ``-pc`` (two options) or ``-nNAME`` (an option and its value)."""
    found: list[Argument] = []
    letters = argv[at][1:]
    while letters:
        name = _ALIASES.get(f"-{letters[0]}", f"-{letters[0]}")
        letters = letters[1:]
        if _TAKES.get(name, "none") == "none":
            found.append(Argument(name, (), at, at + 1))
        elif letters:
            return [*found, Argument(name, (letters,), at, at + 1, glued=True)]
        else:
            return [*found, _spaced(name, argv, at)]
    return found


def _spaced(name: str, argv: Sequence[str], at: int) -> Argument:
    """Read an option whose values, if any, are the arguments behind it."""
    takes, end = _TAKES.get(name, "none"), at + 1
    if takes in ("one", "several") and end < len(argv):
        end += 1
        while takes == "several" and end < len(argv) and not _is_option(argv[end]):
            end += 1
    elif takes == "maybe" and end < len(argv) and not _is_option(argv[end]):
        end += 1
    return Argument(name, tuple(argv[at + 1 : end]), at, end)


def tool_rules(values: Iterable[str]) -> tuple[str, ...]:
    """Return the tool rules in the values of ``--allowedTools`` and its like.

    Each value may hold several, parted by commas or spaces outside of parentheses.
    """
    rules: list[str] = []
    for value in values:
        depth, rule = 0, ""
        for character in value:
            depth += {"(": 1, ")": -1}.get(character, 0)
            if depth <= 0 and character in ", \t\n":
                rules.append(rule)
                rule = ""
            else:
                rule += character
        rules.append(rule)
    return tuple(rule for rule in rules if rule)
