"""Asking the installed runtimes for their versions: bounded, and only what is safe to ask."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from opask.installed import installed_version, installed_versions, told_version
from opask.registry import Registry
from opask.registry_schema import RuntimeRow


def row(*command: str, pattern: str | None = None) -> RuntimeRow:
    """Give a runtime's row with a version command."""
    routes = [{"id": "mcp-stdio", "status": "untested"}]
    return RuntimeRow.model_validate(
        {"title": "Acme", "version_command": command or None, "version_pattern": pattern, "routes": routes}
    )


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give an empty folder that is the whole PATH, but for the system's own programs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return folder


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a program as long as a busy machine may take to start it, unless a test says how long it has."""
    for asks in (installed_version, installed_versions, told_version):
        defaults: Any = asks.__kwdefaults__
        monkeypatch.setitem(defaults, "timeout", 120.0)


def program(folder: Path, source: str, name: str = "acme") -> None:
    """Put a Python program on the PATH."""
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport os, subprocess, sys, time\n{source}\n")
    path.chmod(0o755)


def is_running(pid: int) -> bool:
    """Tell whether a process runs, a dead one that nobody waited for aside."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ask_in_vain(pids: Path) -> None:
    """Ask a program that does not end for its version; it has begun, and told which processes it is."""
    for seconds in (3, 10, 30):  # a busy machine may take long to start it
        assert installed_version(row("acme", "--version"), timeout=seconds) is None
        if pids.exists() and pids.read_text():
            return
    raise AssertionError("it was never begun")


def wait_for_end(pid: int) -> None:
    """Wait until a process has ended that is not this one's child."""
    deadline = time.monotonic() + 60
    while is_running(pid):
        assert time.monotonic() < deadline, f"{pid} still runs"
        time.sleep(0.01)


def test_a_program_says_its_version(path: Path) -> None:
    """The version is found in what the program prints for its version argument."""
    program(path, "print('acme', sys.argv[1:], '1.2.3 (Acme Code)')")
    assert installed_version(row("acme", "--version")) == "1.2.3"


def test_a_program_may_use_standard_error(path: Path) -> None:
    """A version that is printed on standard error counts too."""
    program(path, "sys.stderr.write('v1.2.3\\n')")
    assert installed_version(row("acme", "--version")) == "1.2.3"


def test_what_is_not_installed_is_left_out(path: Path) -> None:
    """A program that is not on the PATH is not there; one that does not say its version is there without one."""
    program(path, "print('hello')")
    rows = {"here": row("acme", "--version"), "gone": row("acme-that-is-not-there", "--version"), "no": row()}
    assert installed_versions(rows) == {"here": None}


def test_a_program_that_fails_says_nothing(path: Path) -> None:
    """What a program prints before it fails is no version."""
    program(path, "print('1.2.3'); sys.exit(3)")
    assert installed_versions({"acme": row("acme", "--version")}) == {"acme": None}


def test_another_product_of_the_name_is_not_this_one(path: Path) -> None:
    """A program whose output is a version, but not as the row's pattern has it, is another product."""
    program(path, "print('kimi, version 1.50.0')", "kimi")
    program(path, "print('kimi, version 1.50.0')", "kimi-cli")
    runtimes = Registry.shipped().runtimes
    found = installed_versions({id_: runtimes[id_] for id_ in ("kimi", "kimi-cli")})
    assert found == {"kimi-cli": "1.50.0"}
    program(path, "print('2.1.0')", "kimi")
    assert installed_version(runtimes["kimi"]) == "2.1.0"


def test_a_program_that_hangs_is_ended_with_its_children(path: Path, tmp_path: Path) -> None:
    """A program that does not end in time is ended, and so is what it started; the caller goes on."""
    pids = tmp_path / "pids"
    program(
        path,
        f"child = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "print('1.2.3', flush=True); time.sleep(600)",
    )
    ask_in_vain(pids)
    for pid in map(int, pids.read_text().split()):
        wait_for_end(pid)


def test_a_child_that_holds_the_output_holds_nobody_up(path: Path, tmp_path: Path) -> None:
    """A program that ends, and leaves a child with its output open, costs the timeout and leaves nothing running."""
    pids = tmp_path / "pids"
    program(path, f"open({str(pids)!r}, 'w').write(str(subprocess.Popen(['sleep', '600']).pid))")
    ask_in_vain(pids)
    wait_for_end(int(pids.read_text()))


def test_a_program_that_prints_without_end_is_cut_short(path: Path) -> None:
    """Endless output is not gathered; the program is ended at once and not only at the timeout."""
    program(path, "while True: sys.stdout.write('1.2.3 ' * 1000)")
    start = time.monotonic()
    assert installed_version(row("acme", "--version"), timeout=150) is None
    assert time.monotonic() - start < 75


def test_secrets_are_not_handed_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program gets what it needs to find itself, and neither keys nor the rest of the environment."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("NVM_DIR", "there")
    monkeypatch.setenv("ACME_TOKEN", "secret")
    program(
        path,
        "left = {'ANTHROPIC_API_KEY', 'ACME_TOKEN'} & set(os.environ)\n"
        "print('0.0.1' if left or os.environ.get('NVM_DIR') != 'there' else '1.0.0')",
    )
    assert installed_version(row("acme", "--version")) == "1.0.0"


def test_a_program_stands_in_an_empty_folder_without_input(path: Path) -> None:
    """A program reads nothing from the caller's input, and no project's settings."""
    program(path, "print('1.0.0' if not os.listdir('.') and sys.stdin.read() == '' else '0.0.1')")
    assert installed_version(row("acme", "--version")) == "1.0.0"


def test_no_shipped_command_is_bare() -> None:
    """Every version command of the shipped registry gives its program exactly one argument, --version."""
    commands = [row.version_command for row in Registry.shipped().runtimes.values() if row.version_command]
    assert commands
    assert all(len(command) == 2 and command[1] == "--version" for command in commands)


def test_a_program_is_asked_by_its_path_or_its_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of no row tells its version too, by a name on the PATH, a path, or a path from here."""
    program(path, "print('acme, version 1.2.3') if sys.argv[1:] == ['--version'] else sys.exit(3)")
    monkeypatch.chdir(path.parent)
    for name in ("acme", str(path / "acme"), "bin/acme"):
        assert told_version([name, "--version"]) == "1.2.3"
    assert told_version(["acme"]) is None
    assert told_version(["no-acme", "--version"]) is None
