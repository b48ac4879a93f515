from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opask.launch import Endpoint, LaunchPlan, LaunchRequest


@pytest.mark.parametrize("command", ["claude -p hello", b"claude"])
@pytest.mark.parametrize(
    "make",
    [
        lambda argv: LaunchRequest(argv),
        lambda argv: LaunchPlan(argv, {}),
        lambda argv: Endpoint(argv, Path("folder"), None),
    ],
    ids=["request", "plan", "endpoint"],
)
def test_a_command_is_not_one_string(make: Any, command: object) -> None:
    """A whole command line in one string is refused, not taken apart into characters."""
    with pytest.raises(TypeError, match="one by one"):
        make(command)


def test_arguments_may_be_paths() -> None:
    """A program or an argument may be a path, and the whole any iterable."""
    assert LaunchRequest([Path("bin") / "claude", "-p"]).argv == (str(Path("bin") / "claude"), "-p")


def test_secrets_do_not_show() -> None:
    """Environments and tokens are not in what a value prints as."""
    shown = repr(
        [
            LaunchRequest(["x"], {"API_KEY": "secret"}),
            LaunchPlan(["x"], {"API_KEY": "secret"}),
            Endpoint(["x"], Path("folder"), None, token="secret"),
        ]
    )
    assert "secret" not in shown
