"""The sandbox of a runtime under probe."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from opask_probes import loopback
from opask_probes.runtimes import RUNTIMES
from opask_probes.sandbox import Namespace, NoNamespace, fresh_sandbox, is_loopback_only, loopback_namespace


def test_the_environment_is_bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of this process's environment gets in; every place that a runtime writes to is the sandbox's own."""
    for name in ("HOME", "TMPDIR", "XDG_CONFIG_HOME", "ANTHROPIC_API_KEY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "from-outside")
    with fresh_sandbox(tmp_path) as sandbox:
        environment = sandbox.environment()
        assert "from-outside" not in environment.values()
        places = {name: value for name, value in environment.items() if name not in {"PATH", "LANG"}}
        assert set(places) == {
            "HOME",
            "TMPDIR",
            *(
                f"XDG_{kind}"
                for kind in ("CACHE_HOME", "CONFIG_HOME", "DATA_HOME", "RUNTIME_DIR", "STATE_HOME")
            ),
        }
        assert all(Path(value).is_relative_to(sandbox.root) for value in places.values())
        added = sandbox.environment({"A": "1", "B": "1"}, {"B": "2"}, path="/bin")
        assert (added["A"], added["B"], added["PATH"]) == ("1", "2", "/bin")


def test_a_sandbox_is_fresh_and_goes_away(tmp_path: Path) -> None:
    """Each sandbox has empty private folders of its own, and nothing of them is left."""
    with fresh_sandbox(tmp_path) as one, fresh_sandbox(tmp_path) as other:
        assert one.root != other.root
        for place in (one.home, one.tmp, one.work):
            assert list(place.iterdir()) == []
            assert place.stat().st_mode & 0o777 == 0o700
        (one.home / "left").write_text("x")
    assert list(tmp_path.iterdir()) == []


def test_claude_is_sent_to_the_model_and_nowhere_else() -> None:
    """Claude's variables have the model's address, a made-up key, and every switch against traffic of its own."""
    assert RUNTIMES["claude"].model("http://127.0.0.1:1") == {
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
        "ANTHROPIC_API_KEY": "sk-test",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "IS_SANDBOX": "1",
    }


# Runs in the namespace: loopback carries a byte, the rest of the world is not to be reached.
INSIDE = """
import os, socket, sys
from opask_probes.sandbox import is_loopback_only
assert is_loopback_only()
assert os.getpid() == int(sys.stdin.readline()), "the command runs in the process that was started"
with socket.create_server(("127.0.0.1", 0)) as server:
    with socket.create_connection(server.getsockname(), timeout=5) as client:
        client.sendall(b"x")
        assert server.accept()[0].recv(1) == b"x"
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5)
except OSError as error:
    print(error.errno)
"""


def test_the_namespace_has_loopback_alone() -> None:
    """A wrapped command reaches 127.0.0.1, nothing else, and is the process that was started."""
    namespace = loopback_namespace()
    if isinstance(namespace, NoNamespace):
        plain = shutil.which("unshare") and subprocess.run(
            ["unshare", "-rn", "true"], check=False, timeout=120
        )
        assert not plain or plain.returncode, (
            f"the system gives a namespace and it was not had: {namespace.reason}"
        )
        pytest.skip(namespace.reason)
    argv = namespace.wrap([sys.executable, "-c", INSIDE])
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        output, errors = process.communicate(f"{process.pid}\n", timeout=120)
    assert errors == ""
    assert os.strerror(int(output)) == "Network is unreachable"


def test_a_wrapped_command_that_is_not_there_is_named() -> None:
    """A command that cannot be started ends with 127 and its name on stderr."""
    argv = [sys.executable, "-I", "-S", str(Path(loopback.__file__))]
    done = subprocess.run(
        [*argv, "no-such-command"], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 127
    assert done.stderr.startswith("loopback: no-such-command: ")
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's")
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "the program unshare is not there"),
        (
            "echo 'unshare failed: Operation not permitted' >&2; exit 1",
            "unshare failed: Operation not permitted",
        ),
        ("exit 3", "unshare ended with exit code 3"),
        ("printf '  lo: 0\\neth0: 0\\n'", "the namespace has more than loopback: eth0"),
        ("exec sleep 60", "unshare did not answer within 0.5 s"),
    ],
)
def test_a_system_without_namespaces_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str | None, reason: str
) -> None:
    """Where no such namespace can be had, the reason is what the system said, and no prefix is given."""
    monkeypatch.setenv("PATH", str(tmp_path) if script is None else f"{tmp_path}:/usr/bin:/bin")
    if script is not None:
        unshare = tmp_path / "unshare"
        unshare.write_text(f"#!/bin/sh\n{script}\n")
        unshare.chmod(0o755)
    found = loopback_namespace(timeout=0.5 if script and "sleep" in script else 10)
    assert isinstance(found, NoNamespace)
    assert found.reason.startswith(reason)


def test_a_namespace_prefix_goes_before_the_command() -> None:
    """A wrapped command is the prefix and then the command, argument by argument."""
    assert Namespace(("a", "b")).wrap(["c", "d e"]) == ["a", "b", "c", "d e"]


def test_interfaces_are_read_from_the_kernels_table() -> None:
    """The names are those before the colons, headings aside."""
    table = "Inter-|   Receive\n face |bytes\n    lo:  1 2\nenp0s1: 3 4\n"
    assert loopback.interfaces(table) == {"lo", "enp0s1"}


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's table")
def test_a_machine_with_a_network_is_not_loopback_only() -> None:
    """The answer for this process is what the kernel's table says."""
    names = {path.name for path in Path("/sys/class/net").iterdir() if path.is_dir()}
    assert is_loopback_only() == (names == {"lo"})
