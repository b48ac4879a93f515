"""What holds of the read-only profile whatever the command."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from commands_of_shell import EXTERNAL, READS, WRITES
from opask.shell import ReadOnly, Write, classify

# What is in one line and closed in itself, so that it can stand inside of another command.
CLOSED_READS = [command for command in READS if "\n" not in command and "#" not in command and command]
CLOSED_WRITES = [
    command
    for command in [*WRITES, *EXTERNAL]
    if command.strip()
    and len(command) < 200
    and command.isprintable()
    and command.isascii()
    and not command.endswith(("\\", "|", "&&", "("))
    and command.count("'") % 2 == 0
    and command.count('"') % 2 == 0
    and "<<E" not in command
    and "<<'" not in command
    and "<<-" not in command
    and "#" not in command
    and not command.endswith(")")
    and not command.startswith("&&")
]

COMPOSED = {
    "list": "{0}; {1}",
    "and": "{0} && {1}",
    "or": "{0} || {1}",
    "pipe": "{0} | {1}",
    "lines": "{0}\n{1}",
    "subshell": "( {0}; {1})",
    "group": "{{ {0}; {1}; }}",
    "substitution": "echo $( {0}) $( {1})",
    "quoted": 'echo "$( {0})" "x $( {1}) y"',
    "process": "cat <( {0}) <( {1})",
    "negated": "! ( {0} ); ( {1} )",
    "if": "if {0}; then {1}; fi",
    "else": "if true; then {0}; else {1}; fi",
    "for": "for f in a b; do {0}; {1}; done",
    "in": "for f in $( {0}); do {1}; done",
    "deep": "echo $(cat <(echo $( {0}; {1})))",
}
READ = st.sampled_from(CLOSED_READS)
WRITE = st.sampled_from(CLOSED_WRITES)
FORM = st.sampled_from(sorted(COMPOSED))


@given(form=FORM, first=READ, second=READ)
def test_reads_compose_to_reads(form: str, first: str, second: str) -> None:
    """Reads put together are a read, but for git once the folder was changed."""
    command = COMPOSED[form].format(first, second)
    verdict = classify(command)
    moved = isinstance(verdict, Write) and "another folder" in verdict.reason
    assert verdict == ReadOnly() or moved


@given(form=FORM, outer=FORM, read=READ, write=WRITE, flip=st.booleans())
def test_a_write_in_it_makes_a_write_of_anything(
    form: str, outer: str, read: str, write: str, flip: bool
) -> None:
    """However a write is put together with reads, pipes, lists and substitutions, it is never a read."""
    pair = (write, read) if flip else (read, write)
    inner = COMPOSED[form].format(*pair)
    assert isinstance(classify(inner), Write)
    assert isinstance(classify(COMPOSED[outer].format("true", inner)), Write)


@given(read=READ, write=WRITE)
def test_a_read_may_name_a_write_in_quotes(read: str, write: str) -> None:
    """Text in single quotes is text, whatever it says."""
    if "'" not in write and "`" not in write:
        assert classify(f"( {read} ) | grep -e '{write}'") == ReadOnly()


@given(st.text())
def test_no_text_raises(text: str) -> None:
    """Any text gets a verdict."""
    assert isinstance(classify(text), ReadOnly | Write)


@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    """Bytes of any kind, taken for text in the way of the file system, get a verdict."""
    assert isinstance(classify(data.decode("utf-8", "surrogateescape")), ReadOnly | Write)
    assert isinstance(classify(data.decode("latin-1")), ReadOnly | Write)


@given(st.text(alphabet="ls cat$(){}[]<>|&;'\"`\\\n#=*?!~-o0", max_size=40))
def test_no_jumble_of_the_shells_own_characters_raises(text: str) -> None:
    """Any jumble of metacharacters gets a verdict."""
    assert isinstance(classify(text), ReadOnly | Write)


@given(
    command=READ,
    at=st.integers(0, 200),
    character=st.sampled_from("\x00\x01\x07\x1b\r\x7f\x85\u00a0\u2028\u200b\u202e"),
)
def test_a_character_that_cannot_be_seen_makes_a_write(command: str, at: int, character: str) -> None:
    """A control or invisible character anywhere makes a command a write."""
    at %= len(command) + 1
    assert isinstance(classify(command[:at] + character + command[at:]), Write)
