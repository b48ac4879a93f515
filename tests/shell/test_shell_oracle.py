"""Commands that are classified as reads, run by the real bash in a scratch folder: nothing in it may change."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commands_of_shell import READS
from opask.shell import ReadOnly, classify

BASH = shutil.which("bash")
pytestmark = pytest.mark.skipif(BASH is None, reason="there is no bash")


class Scratch:
    """A folder with some files and a repository, and what is in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        work = self.work = root / "work"
        (work / "src").mkdir(parents=True)
        (work / "notes.txt").write_text("foo\nbar\nfoo baz\n")
        (work / "a b.txt").write_text("x\n")
        (work / "src/one.py").write_text("print(1)\n")
        # Files whose names are options, for whatever is expanded without care.
        for name in ("-delete", "-odd", "-i", "--output=y"):
            (work / name).write_text("name\n")
        self.env = {
            "HOME": str(root / "home"),
            "PATH": os.environ.get("PATH", os.defpath),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_AUTHOR_NAME": "me",
            "GIT_AUTHOR_EMAIL": "me@example.invalid",
            "GIT_COMMITTER_NAME": "me",
            "GIT_COMMITTER_EMAIL": "me@example.invalid",
            "TMPDIR": str(root / "tmp"),
        }
        for name in ("home", "tmp"):
            (root / name).mkdir()
        for arguments in (["init", "-q"], ["add", "notes.txt", "src"], ["commit", "-q", "-m", "first"]):
            subprocess.run(["git", *arguments], cwd=work, env=self.env, check=True, timeout=40)

    def state(self) -> dict[str, str]:
        """Give every path below the root with a digest of its content and mode."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            content = path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(self.root))] = (
                f"{path.lstat().st_mode:o} {hashlib.sha256(content).hexdigest()}"
            )
        return found

    def run(self, command: str) -> None:
        """Run a command; how it ends does not matter."""
        assert BASH is not None
        subprocess.run(
            [BASH, "--norc", "--noprofile", "-c", command],
            cwd=self.work,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=40,
        )


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    """Give a scratch folder."""
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    return Scratch(tmp_path_factory.mktemp("shell"))


def test_the_scratch_folder_shows_a_write(scratch: Scratch) -> None:
    """A command that does write is seen: the oracle is no blind one."""
    before = scratch.state()
    scratch.run("echo x > seen; sort -o sorted notes.txt")
    after = scratch.state()
    assert after.keys() - before.keys() == {"work/seen", "work/sorted"}
    scratch.run("rm seen sorted")
    assert scratch.state() == before


@pytest.mark.timeout(180)
def test_reads_change_nothing_under_the_real_bash(scratch: Scratch) -> None:
    """Every command of the table of reads leaves the folder byte for byte as it was."""
    before = scratch.state()
    for command in READS:
        assert classify(command) == ReadOnly()
        scratch.run(command)
        assert scratch.state() == before, command


PIECES = st.sampled_from(
    [
        *(
            "ls",
            "cat",
            "echo",
            "sort",
            "find",
            "printf",
            "grep",
            "uniq",
            "sed",
            "git",
            "touch",
            "rm",
            "tee",
            "cd",
            "head",
        ),
        *(
            "notes.txt",
            "x",
            "y",
            "-o",
            "-i",
            "-n",
            "-delete",
            "-name",
            "-exec",
            "--",
            "status",
            "diff",
            "--output=y",
            ".",
        ),
        *(
            "*",
            "?*",
            "./*",
            "$X",
            '"$X"',
            "${X}",
            "$(",
            ")",
            "<(",
            ">(",
            "`",
            "((",
            "))",
            "$((",
            "[",
            "]",
            "[[",
            "]]",
        ),
        *(
            ";",
            "|",
            "&",
            "&&",
            "||",
            ">",
            ">>",
            "<",
            "<<",
            "<<<",
            ">&",
            "2>&1",
            "/dev/null",
            "!",
            "{",
            "}",
            "(",
            "\n",
        ),
        *(
            "'",
            '"',
            "\\",
            "#",
            " #",
            "$'",
            '$"',
            "=",
            "~",
            "a=b",
            "-v",
            "%n",
            "%s",
            "p",
            "w y",
            "1p",
            "s/a/b/w y",
            "if",
        ),
        *(
            "then",
            "fi",
            "for",
            "f",
            "in",
            "do",
            "done",
            "while",
            "true",
            "EOF",
            "\\\n",
            "\t",
            "1",
            "{a,-o}",
            "..",
            "é",
        ),
    ]
)
SOUP = st.lists(st.tuples(PIECES, st.sampled_from([" ", " ", " ", ""])), min_size=1, max_size=14).map(
    lambda parts: "".join(piece + gap for piece, gap in parts)
)
SEEDED = st.builds(
    lambda command, at, extra: (
        command[: at % (len(command) + 1)] + extra + command[at % (len(command) + 1) :]
    ),
    st.sampled_from(READS),
    st.integers(0, 60),
    SOUP,
)


@pytest.mark.timeout(300)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(command=st.one_of(SOUP, SEEDED))
def test_whatever_is_taken_for_a_read_changes_nothing(scratch: Scratch, command: str) -> None:
    """Of any jumble of shell words, what is admitted as a read leaves the folder as it was under the real bash."""
    if classify(command) != ReadOnly():
        return
    before = scratch.state()
    scratch.run(command)
    assert scratch.state() == before
