"""What a work tree brings along must not run when git only reads: the guard, under the real git."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from opask_claude.floor import guarded_env

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


def hostile(root: Path) -> Path:
    """Make a folder of a work tree that is a repository itself, whose settings name a program; give that folder."""
    folder = root / "vendor"
    subprocess.run(["git", "init", "-q", "--bare", str(folder)], check=True, timeout=40)
    monitor = root / "monitor.sh"
    monitor.write_text(f"#!/bin/sh\ntouch {root}/ran\n")
    monitor.chmod(0o755)
    settings = folder / "config"
    settings.write_text(
        f"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = {root}\n\tfsmonitor = {monitor}\n"
    )
    return folder


@pytest.mark.parametrize("guarded", [False, True], ids=["plain", "guarded"])
@pytest.mark.parametrize("command", [["status"], ["diff"], ["ls-files", "-o"]], ids=" ".join)
def test_a_repository_in_the_work_tree_runs_nothing(
    tmp_path: Path, command: list[str], guarded: bool
) -> None:
    """In a folder that passes for a repository, git's reads run its monitor, unless they are guarded."""
    folder = hostile(tmp_path)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    env = guarded_env(env) if guarded else env
    subprocess.run(["git", *command], cwd=folder, env=env, capture_output=True, check=False, timeout=40)
    ran = (tmp_path / "ran").exists()
    if guarded:
        assert not ran
    elif command == ["status"]:
        assert ran, "the guard has nothing to guard from"
