"""Read a shell command and tell whether it only reads.

The syntax tree is tree-sitter-bash's. Whatever is not on a list is a write: node types, commands, options, expansions,
variables, redirections; and so is what the tree leaves out, and what a second reading of the quotes sees otherwise.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from opask.errors import GateError
from opask.inert import shorten
from opask.shell.options import check_words
from opask.shell.quoting import quoted_spans
from opask.shell.table import DEFAULT
from opask.shell.values import Effect, Profile, ReadOnly, Verdict, Word, Write
from opask.shell.words import UnreadableError, read_word, source_of

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

__all__ = ["classify", "ready"]

_LONGEST: Final = 16 * 1024
_DEEPEST: Final = 40
_WHERE: Final = 120
_GAP: Final = re.compile(rb"(?:[ \t\n]|(?<=[ \t])(?<!\\[ \t])\\\n)*")
_NOT_READ: Final = re.compile(r"[^\t\n\x20-\x7e\xa1-\U0010ffff]")
_FORMATTING: Final = re.compile(
    "[\u00ad\u034f\u061c\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]"
)
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*|:")
_VALUE: Final = re.compile(r"[A-Za-z0-9_.@-]*")
# A program, and what it has to be told for it to send. Two patterns, as one with `.*` takes the square of the length.
_SENDERS: Final = tuple(
    (re.compile(rf"\b(?:{programs})\b"), re.compile(rf"\b(?:{verbs})\b"))
    for programs, verbs in (
        ("git", "push|fetch|pull|clone|ls-remote|remote|submodule|send-email|svn|lfs"),
        ("npm|pnpm|yarn|bun|cargo|poetry|uv|flit|hatch|gem|mvn|gradle", "publish|push|deploy"),
        ("hg|bzr|jj|fossil", "push|clone|pull"),
    )
)
_REACHES: Final = re.compile(
    r"/dev/(?:tcp|udp)/|\bopask\.\w"
)  # the latter as a module, in a program of Python
_DEVICES: Final = re.compile(r"/+dev/+(?:tcp|udp)(?:/|$)")
_TESTS: Final = frozenset(f"-{letter}" for letter in "bcdefghkLnOprsSuwxzGN")  # `-v` evaluates a subscript
_COMPARED: Final = frozenset({"=", "==", "!=", "-ef", "-nt", "-ot"})  # `[ a > b ]` makes a file b
_QUIET: Final = frozenset({"/dev/null"})
_WORD_TYPES: Final = frozenset(
    {
        "word",
        "number",
        "string",
        "raw_string",
        "concatenation",
        "simple_expansion",
        "expansion",
        "command_substitution",
        "process_substitution",
        "arithmetic_expansion",
    }
)


@functools.cache
def _parser() -> Parser:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError as error:
        raise GateError(
            f"shell commands cannot be read without {error.name}; install opask with the extra 'gate'"
        ) from error
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def ready() -> None:
    """See that commands can be read.

    Raises:
        GateError: the extra ``gate`` is not installed.
    """
    _parser()


def classify(command: str, profile: Profile = DEFAULT) -> Verdict:
    """Tell whether a shell command only reads.

    Args:
        command: the command line, as it would be given to ``bash -c``.
        profile: what is a read.

    Returns:
        `ReadOnly`, or `Write` with what speaks against it; a command that cannot be read is a write.

    Raises:
        GateError: the extra ``gate`` is not installed.
    """
    parser = _parser()
    try:
        _Reading(command, profile).run(parser)
    except UnreadableError as error:
        where = shorten(error.where, _WHERE)
        return Write(error.reason, where, _effect(command, profile))
    return ReadOnly()


def _effect(command: str, profile: Profile) -> Effect:
    """Tell whether anywhere in a command, quoted or not, a program is named that reaches other machines."""
    command = command.lower()  # as some file systems do
    plain = re.sub(r"\\\n|[\\'\"]", "", command)
    for text in (command, plain):
        if profile.network & {word.rpartition("/")[2] for word in re.findall(r"[\w./+-]+", text)}:
            return "external"
        if _REACHES.search(text) or any(_told(text, *sender) for sender in _SENDERS):
            return "external"
    return "write"


def _told(text: str, programs: re.Pattern[str], verbs: re.Pattern[str]) -> bool:
    found = programs.search(text)
    return found is not None and verbs.search(text, found.end()) is not None


class _Reading:
    """One command being read."""

    def __init__(self, command: str, profile: Profile) -> None:
        self._command = command
        self._encoded = b""
        self._profile = profile
        self._moves = False  # goes to another folder
        self._git = False

    def run(self, parser: Parser) -> None:
        command = self._command
        if not command.strip():
            raise UnreadableError("is empty", command)
        if len(command) > _LONGEST:
            raise UnreadableError(f"is longer than {_LONGEST} characters", command[:_WHERE])
        found = _NOT_READ.search(command) or _FORMATTING.search(command)
        if found is not None:
            raise UnreadableError("has a control or invisible character", command[found.start() :])
        if "`" in command:
            raise UnreadableError("has a backtick; $(…) is read in its place", command)
        try:
            encoded = self._encoded = command.encode()
        except UnicodeEncodeError:
            raise UnreadableError("is not Unicode text", "") from None
        root = parser.parse(encoded).root_node
        if root.has_error or root.type != "program":
            raise UnreadableError("is no shell command that can be read", command)
        self._agree(root, encoded)
        self._statements(root, 0)
        if self._git and self._moves:
            raise UnreadableError(
                "runs git in another folder, whose settings may name programs; go there in a command of its own",
                command,
            )

    # -- the tree against the text ---------------------------------------------------------------------------------

    def _agree(self, root: Node, encoded: bytes) -> None:
        """See that the tree leaves nothing out, and that quotes and comments are where the shell sees them."""
        at = 0
        spans: set[tuple[str, int, int]] = set()
        for node, in_quotes in _leaves(root):
            if not _GAP.fullmatch(encoded[at : node.start_byte]) and not in_quotes:
                raise UnreadableError(
                    "has a part that is passed over", encoded[at : node.start_byte].decode(errors="replace")
                )
            at = max(at, node.end_byte)
            if node.type in ("raw_string", "comment"):
                spans.add((node.type, node.start_byte, node.end_byte))
        if encoded[at:].strip(b" \t\n"):
            raise UnreadableError("has a part that is passed over", encoded[at:].decode(errors="replace"))
        spans |= {("string", node.start_byte, node.end_byte) for node in _all(root) if node.type == "string"}
        text = encoded.decode("latin-1")  # so that places in it are those of the bytes
        seen = quoted_spans(text)
        if seen is None or set[tuple[str, int, int]](seen) != spans:
            raise UnreadableError("is quoted in a way that is not read", self._command)

    # -- statements ------------------------------------------------------------------------------------------------

    def _statements(self, node: Node, depth: int) -> None:
        """Read everything below a node that holds statements."""
        if depth > _DEEPEST:
            raise UnreadableError("is nested too deep", source_of(node))
        for child in node.children:
            if child.is_named:
                self._statement(child, depth + 1)
            elif child.type not in _PUNCTUATION.get(node.type, ()):
                raise UnreadableError(f"has {child.type!r}, which is not read", source_of(node))

    def _statement(self, node: Node, depth: int) -> None:
        handler = _STATEMENTS.get(node.type)
        if handler is None:
            raise UnreadableError(f"is a {node.type.replace('_', ' ')}, which is not read", source_of(node))
        handler(self, node, depth)

    def _comment(self, node: Node, depth: int) -> None:
        """Pass a comment over; that it is one, `_agree` has seen."""

    def _command_(self, node: Node, depth: int) -> None:
        words: list[Word] = []
        name: str | None = None
        for child in node.children:
            if child.type == "command_name":
                name = source_of(child)
            elif child.type == "variable_assignment" and name is None:
                self._assigned(child)
            elif child.type == "herestring_redirect":
                self._redirect(child, depth)
            elif child.type in _WORD_TYPES and name is not None:
                words.append(self._word(child, depth))
            else:
                raise UnreadableError(
                    f"has a {child.type.replace('_', ' ')}, which is not read", source_of(node)
                )
        if name is None or not _NAME.fullmatch(name):
            raise UnreadableError("runs a command that is not named by a plain word", source_of(node))
        known = self._profile.commands.get(name)
        if known is None:
            raise UnreadableError(f"runs {name}, which is not known to only read", source_of(node))
        fault = check_words(known, words)
        if fault is not None:
            raise UnreadableError(
                f"runs {name} with a word that {fault}" if words else f"runs {name}, which {fault}",
                source_of(node),
            )
        self._moves |= name in ("cd", "pushd", "popd")
        self._git |= name == "git"

    def _assigned(self, node: Node) -> None:
        source = source_of(node)
        name, glue, value = source.partition("=")
        is_plain = bool(glue) and name in self._profile.variables and _VALUE.fullmatch(value)
        if not is_plain and source not in self._profile.variables:
            raise UnreadableError("sets a variable that may change what a command does", source_of(node))

    def _word(self, node: Node, depth: int) -> Word:
        if depth > _DEEPEST:
            raise UnreadableError("is nested too deep", source_of(node))
        return read_word(node, lambda inner: self._statements(inner, depth + 1))

    def _redirected(self, node: Node, depth: int) -> None:
        for child in node.children:
            if child.type in ("file_redirect", "herestring_redirect"):
                self._redirect(child, depth)
            else:
                self._statement(child, depth + 1)

    def _redirect(self, node: Node, depth: int) -> None:
        if self._encoded[: node.start_byte].endswith(b"}"):
            # `{PATH}<file` sets a variable, of which the tree knows nothing.
            raise UnreadableError("redirects right behind a brace; put a blank between", source_of(node))
        parts = [child for child in node.children if child.type != "file_descriptor"]
        if len(parts) != 2 or parts[0].is_named:
            raise UnreadableError("redirects in a way that is not read", source_of(node))
        operator, target = parts[0].type, parts[1]
        word = self._word(target, depth + 1)
        if operator == "<<<":
            return
        if not word.is_fixed:
            raise UnreadableError("redirects to or from what is known only at run time", source_of(node))
        if operator == "<" and not _DEVICES.match(word.text):
            return
        if operator in (">&", "<&") and target.type == "number" and word.text.isdecimal():
            return
        if operator in (">", ">>", "&>", "&>>") and word.text in _QUIET:
            return
        raise UnreadableError(
            "writes to a file" if ">" in operator else "reads from the network", source_of(node)
        )

    def _test(self, node: Node, depth: int) -> None:
        children = node.children
        if len(children) != 3 or (children[0].type, children[2].type) not in (("[", "]"), ("[[", "]]")):
            raise UnreadableError("is a test in a form that is not read", source_of(node))
        self._tested(children[1], depth + 1)

    def _tested(self, node: Node, depth: int) -> None:
        if depth > _DEEPEST:
            raise UnreadableError("is nested too deep", source_of(node))
        kind = node.type
        if kind in ("string", "raw_string", "word"):
            self._tested_word(node, depth)
        elif kind == "unary_expression" and len(node.children) == 2:
            operator, operand = node.children
            if operator.type == "!":
                self._tested(operand, depth + 1)
                return
            if source_of(operator) not in _TESTS:
                raise UnreadableError("tests what is not read", source_of(node))
            self._tested_word(operand, depth)
        elif kind == "binary_expression" and len(node.children) == 3:
            left, operator, right = node.children
            if source_of(operator) not in _COMPARED:
                raise UnreadableError("compares in a way that is not read", source_of(node))
            self._tested_word(left, depth)
            self._tested_word(right, depth)
        else:
            raise UnreadableError("is a test in a form that is not read", source_of(node))

    def _tested_word(self, node: Node, depth: int) -> None:
        if not self._word(node, depth + 1).is_single:
            raise UnreadableError("tests a word that may become several; quote it", source_of(node))

    def _for(self, node: Node, depth: int) -> None:
        children = [child for child in node.children if child.type != ";"]
        kinds = [child.type for child in children]
        if kinds[:1] != ["for"] or kinds[1:3] != ["variable_name", "in"] or kinds[-1:] != ["do_group"]:
            raise UnreadableError("is a loop in a form that is not read", source_of(node))
        if source_of(children[1]) not in self._profile.loop_variables:
            raise UnreadableError("sets a variable that may change what a command does", source_of(node))
        for child in children[3:-1]:
            self._word(child, depth + 1)
        self._statements(children[-1], depth + 1)


def _leaves(root: Node) -> Iterator[tuple[Node, bool]]:
    """Return every leaf of a tree in order, and whether it is within double quotes, where blanks are no gap."""
    waiting = [(root, False)]
    while waiting:
        node, in_quotes = waiting.pop()
        if not node.children:
            yield node, in_quotes
            continue
        inside = node.type == "string" or (in_quotes and node.type != "command_substitution")
        waiting += [(child, inside) for child in reversed(node.children[1:])]
        waiting.append((node.children[0], in_quotes))


def _all(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.children


_PUNCTUATION: Final[Mapping[str, Sequence[str]]] = {
    "program": (";", "\n"),
    "list": ("&&", "||"),
    "pipeline": ("|", "|&"),
    "subshell": ("(", ")", ";", "\n"),
    "compound_statement": ("{", "}", ";", "\n"),
    "command_substitution": ("$(", ")", ";", "\n"),
    "process_substitution": ("<(", ")", ";", "\n"),
    "negated_command": ("!",),
    "do_group": ("do", "done", ";", "\n"),
    "if_statement": ("if", "then", "fi", ";", "\n"),
    "elif_clause": ("elif", "then", ";", "\n"),
    "else_clause": ("else", ";", "\n"),
}

_Handler = Callable[[_Reading, "Node", int], None]
_STATEMENTS: Final[Mapping[str, _Handler]] = {
    "command": _Reading._command_,
    "comment": _Reading._comment,
    "compound_statement": _Reading._statements,
    "elif_clause": _Reading._statements,
    "else_clause": _Reading._statements,
    "for_statement": _Reading._for,
    "if_statement": _Reading._statements,
    "list": _Reading._statements,
    "negated_command": _Reading._statements,
    "pipeline": _Reading._statements,
    "redirected_statement": _Reading._redirected,
    "subshell": _Reading._statements,
    "test_command": _Reading._test,
}
