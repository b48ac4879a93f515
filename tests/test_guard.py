from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, TypeAlias

import pytest

from quickness import tries

GUARD = Path(__file__).resolve().parent.parent / "opask" / "guard.py"

# Takes away what only Linux has, then runs the guard as it would run elsewhere.
PORTABLE = """
import os, runpy, sys
for name in ("waitid", "pidfd_open"):
    if hasattr(os, name):
        delattr(os, name)
os.access = lambda *_: False
sys.modules["_ctypes"] = None
sys.argv[:1] = []
runpy.run_path(sys.argv[0], run_name="__main__")
"""
NATIVE = (sys.executable, "-I", "-S", str(GUARD))
VARIANTS = {"native": NATIVE, "portable": (sys.executable, "-I", "-S", "-c", PORTABLE, str(GUARD))}
linux = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux lets a process adopt what others leave"
)
SECONDS = 60


class Guarded:
    """A guard that a test started, and the host's end of its leash."""

    def __init__(
        self,
        command: Sequence[str],
        *argv: str,
        remove: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        leash, self._held = os.pipe()
        folders = [part for folder in remove for part in ("--remove", str(folder))]
        self.process = subprocess.Popen(
            [*command, "--leash", str(leash), *folders, "--", *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            pass_fds=(leash, *pass_fds),
            start_new_session=True,
        )
        os.close(leash)

    @property
    def stdout(self) -> IO[bytes]:
        """What the runtime says; its end proves that nothing is left that could say more."""
        assert self.process.stdout is not None
        return self.process.stdout

    def line(self) -> str:
        """Read the next line that the runtime says."""
        return self.stdout.readline().decode().strip()

    def let_go(self) -> None:
        """Do what the kernel does when the host ends."""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1

    def ends(self, data: bytes | None = None) -> tuple[int, bytes, bytes]:
        """Wait until it and everything that holds its pipes is gone; give exit code, stdout and stderr."""
        stdout, stderr = self.process.communicate(data, timeout=SECONDS)
        return self.process.returncode, stdout, stderr

    def close(self) -> None:
        """Leave nothing of it."""
        self.let_go()
        self.ends()


@pytest.fixture(params=VARIANTS)
def command(request: pytest.FixtureRequest) -> Sequence[str]:
    """The guard as it runs here, and as it runs where there is nothing but POSIX."""
    return VARIANTS[request.param]


Start: TypeAlias = Callable[..., Guarded]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start guards that are gone when the test is over."""
    with ExitStack() as stack:

        def start(*arguments: Any, **options: Any) -> Guarded:
            guarded = Guarded(*arguments, **options)
            stack.callback(guarded.close)
            return guarded

        yield start


def sh(script: str) -> tuple[str, ...]:
    """Give the argv that runs a shell script."""
    return ("/bin/sh", "-c", script)


def python(script: str) -> tuple[str, ...]:
    """Give the argv that runs a Python script."""
    return (sys.executable, "-I", "-S", "-c", script)


# -- what a runtime sees -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_an_exit_code_is_passed_on(command: Sequence[str], start: Start, code: int) -> None:
    """The guard exits with the runtime's own code."""
    assert start(command, *sh(f"exit {code}")).ends() == (code, b"", b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_an_end_by_a_signal_is_told_as_a_shell_tells_it(
    command: Sequence[str], start: Start, number: signal.Signals
) -> None:
    """A runtime that signal n ended gives exit code 128+n."""
    assert start(command, *sh(f"kill -{number.value} $$")).ends() == (128 + number, b"", b"")


def test_the_pipes_are_the_runtimes_own(command: Sequence[str], start: Start) -> None:
    """Bytes of any kind pass through stdin, stdout and stderr as they are."""
    data = bytes(range(256)) * 400
    assert start(command, *sh("cat; echo said >&2")).ends(data) == (0, data, b"said\n")


def test_the_runtime_gets_the_environment_as_it_was_given(command: Sequence[str], start: Start) -> None:
    """Neither Python's locale coercion nor anything else adds a variable or takes one away."""
    if command is not NATIVE and sys.platform != "linux":
        pytest.skip("the environment at the start can be read on Linux alone")
    env = {"PYTHONHOME": "/nowhere", "ODD": "\udcff=x", "EMPTY": ""}
    _, stdout, _ = start(command, "/usr/bin/env", env=env).ends()
    assert sorted(stdout.splitlines()) == [b"EMPTY=", b"ODD=\xff=x", b"PYTHONHOME=/nowhere"]


def test_arguments_are_passed_as_they_are(command: Sequence[str], start: Start) -> None:
    """What follows ``--`` is the runtime's alone, option-like words and undecodable bytes included."""
    guarded = start(command, "/usr/bin/printf", "%s|", "--leash", "--", "", "a b", "\udcff")
    assert guarded.ends()[1] == b"--leash|--||a b|\xff|"


def test_a_program_is_found_on_the_path(command: Sequence[str], start: Start) -> None:
    """A bare name is looked up on the PATH of the given environment."""
    assert start(command, "sh", "-c", "exit 4", env={"PATH": "/bin:/usr/bin"}).ends()[0] == 4


def test_no_descriptor_but_the_standard_ones_is_inherited(command: Sequence[str], start: Start) -> None:
    """Neither the leash nor what the host left inheritable reaches the runtime."""
    read_end, write_end = os.pipe()
    guarded = start(
        command, *python("import os; print(sorted(os.listdir('/dev/fd')))"), pass_fds=(write_end,)
    )
    os.close(write_end)
    # The fourth is the listing's own.
    assert guarded.ends()[1].decode().strip() == "['0', '1', '2', '3']"
    assert os.read(read_end, 1) == b""
    os.close(read_end)


@linux
def test_the_runtime_starts_with_default_signals(command: Sequence[str], start: Start) -> None:
    """What the host ignores or blocks, and what Python ignores, is not handed down."""
    host = (
        "import os, signal, sys\n"
        "for n in (1, 2, 15, 17): signal.signal(n, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, (1, 2, 15, 17))\n"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    guarded = start(
        (sys.executable, "-I", "-c", host, *command), *sh("grep -E '^Sig(Ign|Blk)' /proc/self/status")
    )
    masks = [int(line.split(b":")[1], 16) for line in guarded.ends()[1].splitlines()]
    # glibc ignores two signals of its own, 32 and 33, in whatever it spawns.
    assert [mask & (2**31 - 1) for mask in masks] == [0, 0]


def test_the_runtime_leads_a_group_of_its_own(command: Sequence[str], start: Start) -> None:
    """A signal to the runtime's group reaches neither the guard nor the host."""
    guarded = start(
        command, *python("import os; print(os.getpgrp() == os.getpid(), os.getppid(), flush=True)")
    )
    assert guarded.ends()[1].decode().split() == ["True", str(guarded.process.pid)]


def test_the_end_of_its_output_is_seen_while_it_lives(command: Sequence[str], start: Start) -> None:
    """The guard holds no end of the runtime's stdout."""
    guarded = start(command, *sh("echo last; exec >&-; read line; exit 6"))
    assert guarded.stdout.read() == b"last\n"
    assert guarded.process.poll() is None
    assert guarded.ends(b"go\n")[0] == 6


def test_a_runtime_that_closed_its_input_breaks_the_pipe(command: Sequence[str], start: Start) -> None:
    """The guard holds no end of the runtime's stdin, so that a host is not left writing to nobody."""
    guarded = start(command, *sh("exec <&-; echo closed; sleep 60"))
    assert guarded.line() == "closed"
    assert guarded.process.stdin is not None
    poll = select.poll()
    poll.register(guarded.process.stdin, 0)
    assert poll.poll(SECONDS * 1000) == [(guarded.process.stdin.fileno(), select.POLLERR)]


# -- signals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2"])
def test_a_signal_is_passed_on(command: Sequence[str], start: Start, name: str) -> None:
    """A signal to the guard reaches the runtime, and the guard lives for as long as the runtime does."""
    guarded = start(
        command,
        *sh(f"trap 'echo got; read line; exit 9' {name}; echo ready; while :; do read line || :; done"),
    )
    assert guarded.line() == "ready"
    guarded.process.send_signal(getattr(signal, f"SIG{name}"))
    assert guarded.ends(b"\n" * 64)[:2] == (9, b"got\n")


def test_a_signal_reaches_the_whole_group(command: Sequence[str], start: Start) -> None:
    """What the runtime started in its own group hears the signal too."""
    script = (
        "import os, signal\n"
        "signal.signal(signal.SIGINT, lambda *_: None)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"
        "child = os.fork()\n"
        "if child: os.write(1, b'ready\\n')\n"
        "signal.sigwait([signal.SIGINT])\n"
        "if child: os.wait()\n"
        "os.write(1, b'parent\\n' if child else b'child\\n')"
    )
    guarded = start(command, *python(script))
    assert guarded.line() == "ready"
    guarded.process.send_signal(signal.SIGINT)
    assert guarded.ends()[:2] == (0, b"child\nparent\n")


# -- the end of the host -----------------------------------------------------------------------------------------


def test_the_end_of_the_leash_ends_the_runtime(command: Sequence[str], start: Start, tmp_path: Path) -> None:
    """When the host is gone the runtime gets SIGTERM, and the folders are removed with all that is in them."""
    folder = tmp_path / "session"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "file").write_text("secret", encoding="utf-8")
    kept = tmp_path / "kept"
    kept.mkdir()
    guarded = start(
        command,
        *sh("trap 'echo told; exit 0' TERM; echo ready; while :; do read line || :; done"),
        remove=[folder],
    )
    assert guarded.line() == "ready"
    guarded.let_go()
    assert guarded.ends() == (0, b"told\n", b"")
    assert sorted(tmp_path.iterdir()) == [kept]


def test_a_runtime_that_ignores_sigterm_is_killed(command: Sequence[str], start: Start) -> None:
    """A second after SIGTERM comes SIGKILL."""
    for timed in tries(2.0):
        guarded = start(command, *sh("trap '' TERM HUP INT; echo ready; while :; do sleep 0.05; done"))
        assert guarded.line() == "ready"
        with timed:
            guarded.let_go()
            assert guarded.ends() == (128 + signal.SIGKILL, b"", b"")
        assert timed.took is not None
        assert timed.took > 0.9


def test_a_stopped_runtime_is_killed(command: Sequence[str], start: Start) -> None:
    """A runtime that is stopped, and so deaf to SIGTERM, does not outlive the host."""
    guarded = start(command, *sh("echo ready; kill -STOP $$; echo never"))
    assert guarded.line() == "ready"
    guarded.let_go()
    code, stdout, _ = guarded.ends()
    # A shell that was not yet stopped when SIGTERM came ends by that.
    assert (code, stdout) in {(128 + signal.SIGKILL, b""), (128 + signal.SIGTERM, b"")}


def test_what_the_runtime_started_ends_with_it(command: Sequence[str], start: Start) -> None:
    """A child in the runtime's group is ended even where the runtime ends first and the child ignores SIGTERM."""
    guarded = start(command, *sh("(trap '' TERM; echo ready; while :; do sleep 0.05; done) & wait"))
    assert guarded.line() == "ready"
    guarded.let_go()
    assert guarded.ends()[0] == 128 + signal.SIGTERM


DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {ignore}
        os.write(1, b"daemon\\n")
        while True: time.sleep(60)
    os._exit(0)
os.wait()
{then}
"""


@linux
@pytest.mark.parametrize("ignore", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"])
def test_what_moved_to_a_session_of_its_own_ends_with_the_host(start: Start, ignore: str) -> None:
    """A daemon of the runtime, in its own session and with its parent gone, is found and ended."""
    guarded = start(
        NATIVE, *python(DAEMON.format(ignore=ignore, then="os.write(1, b'ready\\n'); time.sleep(60)"))
    )
    assert {guarded.line(), guarded.line()} == {"daemon", "ready"}
    guarded.let_go()
    assert guarded.ends() == (128 + signal.SIGTERM, b"", b"")


@linux
@pytest.mark.parametrize("ignore", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"])
def test_what_a_runtime_leaves_behind_is_ended(start: Start, ignore: str) -> None:
    """A daemon does not outlive a runtime that exits by itself, whose exit code stands."""
    guarded = start(NATIVE, *python(DAEMON.format(ignore=ignore, then="input(); os._exit(5)")))
    assert guarded.line() == "daemon"
    assert guarded.ends(b"go\n") == (5, b"", b"")


@linux
def test_an_adopted_process_may_end_first(start: Start) -> None:
    """The end of an orphan is not taken for the end of the runtime."""
    script = (
        "import os\n"
        "r, w = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    if os.fork() == 0: os.setsid(); os._exit(1)\n"
        "    os._exit(2)\n"
        "os.wait(); os.close(w); os.read(r, 1); input(); os._exit(7)"
    )
    assert start(NATIVE, *python(script)).ends(b"\n")[0] == 7


def test_a_child_in_the_group_does_not_outlive_the_runtime(command: Sequence[str], start: Start) -> None:
    """What runs on in the runtime's group when it exits is ended; the exit code stands."""
    guarded = start(command, *sh("sleep 60 & exit 3"))
    assert guarded.ends() == (3, b"", b"")


def test_folders_stay_where_the_host_lives(command: Sequence[str], start: Start, tmp_path: Path) -> None:
    """A session outlives its runtime: its folder is the session's to remove."""
    guarded = start(command, *sh("exit 0"), remove=[tmp_path])
    assert guarded.ends()[0] == 0
    assert tmp_path.is_dir()


HOST = """
import os, subprocess, sys
leash, held = os.pipe()
folder, *command = sys.argv[1:]
guard = subprocess.Popen(
    [*command[:-1], "--leash", str(leash), "--remove", folder, "--", "/bin/sh", "-c", command[-1]],
    pass_fds=(leash,), stdin=subprocess.PIPE, start_new_session=True,
)
os.close(leash)
{more}
os.read(0, 1)
"""


@pytest.mark.parametrize(
    "script",
    [
        "echo ready; while :; do sleep 0.05; done",
        "trap '' TERM HUP; echo ready; while :; do sleep 0.05; done",
        "echo ready; exec cat",  # ends by itself, of the end of its input
    ],
)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_host_leaves_nothing(
    command: Sequence[str], tmp_path: Path, script: str, number: signal.Signals
) -> None:
    """However the host ends, runtime, guard and folder are gone within two seconds."""
    folder = tmp_path / "session"
    arguments = [sys.executable, "-c", HOST.format(more=""), str(folder), *command, script]
    for timed in tries(2.0):
        folder.mkdir()
        with subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as host:
            assert host.stdout is not None
            assert host.stderr is not None
            assert host.stdout.readline() == b"ready\n"
            with timed:
                host.send_signal(number)
                # Guard and runtime hold the host's own stderr: its end is theirs.
                assert host.stderr.read() == b""
        assert not folder.exists()


@linux
def test_a_fork_of_the_host_does_not_hold_the_leash(tmp_path: Path) -> None:
    """A process that the host forked has its end of the leash too; the host's own end is seen all the same."""
    fork = "if os.fork() == 0:\n    os.close(2); os.read(0, 1); os._exit(0)"
    folder = tmp_path / "session"
    folder.mkdir()
    script = "echo ready; while :; do sleep 0.05; done"
    arguments = [sys.executable, "-c", HOST.format(more=fork), str(folder), *NATIVE, script]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as host:
        assert host.stdout is not None
        assert host.stderr is not None
        assert host.stdout.readline() == b"ready\n"
        host.kill()
        assert host.stderr.read() == b""
    assert not folder.exists()


# -- wrong use ---------------------------------------------------------------------------------------------------


def test_a_missing_program_is_named(command: Sequence[str], start: Start, tmp_path: Path) -> None:
    """A program that is not there gives 127 and one line that names it."""
    missing = str(tmp_path / "missing")
    code, _, stderr = start(command, missing).ends()
    assert (code, stderr.decode()) == (
        127,
        f"opask guard: cannot start {missing}: No such file or directory\n",
    )


def test_a_file_that_is_no_program_is_named(command: Sequence[str], start: Start, tmp_path: Path) -> None:
    """A file that may not be executed gives 126 and one line that names it."""
    file = tmp_path / "file"
    file.write_text("text", encoding="utf-8")
    code, _, stderr = start(command, str(file)).ends()
    assert (code, stderr.decode()) == (126, f"opask guard: cannot start {file}: Permission denied\n")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--", "true"],
        ["--leash", "9"],
        ["--leash", "9", "--"],
        ["--leash", "one", "--", "true"],
        ["--leash", "0", "--", "true"],
        ["--leash", "9", "--remove", "", "--", "true"],
        ["--other", "9", "--", "true"],
    ],
)
def test_wrong_usage_is_told(arguments: list[str]) -> None:
    """A command line that is not the guard's gives 125 and the usage."""
    run = subprocess.run([*NATIVE, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert run.returncode == 125
    assert run.stderr.startswith("opask guard: usage: ")


def test_a_descriptor_that_is_not_open_is_no_leash() -> None:
    """Without a leash nothing is started."""
    run = subprocess.run(
        [*NATIVE, "--leash", "87", "--", "/bin/echo", "started"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (run.returncode, run.stdout) == (125, "")
    assert "87 is no leash" in run.stderr


def test_a_start_loads_nothing_that_takes_long() -> None:
    """None of the standard modules that cost more than the guard itself is imported before the runtime runs."""
    leash, held = os.pipe()
    run = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-X",
            "importtime",
            str(GUARD),
            "--leash",
            str(leash),
            "--",
            "/bin/echo",
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        pass_fds=(leash,),
    )
    os.close(leash)
    os.close(held)
    loaded = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines()}
    assert "select" in loaded
    assert not loaded & {
        "signal",
        "enum",
        "ctypes",
        "pathlib",
        "shutil",
        "subprocess",
        "re",
        "typing",
        "contextlib",
    }
