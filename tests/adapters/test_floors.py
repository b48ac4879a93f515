"""A read-only floor where a runtime cannot hold one: refused at launch, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

import opask_acp
import opask_kimi
import opask_omp
from opask.adapters import Adapter
from opask.errors import LaunchError
from opask.launch import Endpoint, LaunchRequest

ENDPOINT = Endpoint(("python", "relay"), folder=Path("/run/opask"), wait=None)
PRINT = ("kimi", "-p", "x", "--output-format", "stream-json")


@pytest.mark.parametrize("endpoint", [ENDPOINT, None], ids=["operator", "nobody"])
@pytest.mark.parametrize(
    ("adapter", "argv", "why"),
    [
        (opask_acp.adapter, ("agent", "acp"), "nobody has seen"),
        (opask_kimi.adapter, ("kimi", "acp"), "auto and yolo"),
        (opask_kimi.adapter, PRINT, "for one prompt"),
        (opask_kimi.legacy_adapter, ("kimi", "acp"), "yolo"),
        (opask_omp.adapter, ("omp", "acp"), "MCP servers"),
    ],
    ids=["acp", "kimi", "kimi-print", "kimi-cli", "omp"],
)
def test_a_floor_that_a_runtime_cannot_hold_is_refused(
    adapter: Adapter, argv: tuple[str, ...], why: str, endpoint: Endpoint | None
) -> None:
    """Operator there or not, the launch is refused, and says what the runtime would change without asking."""
    request = LaunchRequest(
        argv, {"HOME": "/home/user"}, cwd=Path("/work"), folder=Path("/run/opask"), read_only=True
    )
    with pytest.raises(LaunchError, match="read-only floor") as caught:
        adapter.plan_launch(request, endpoint)
    assert why in str(caught.value)
    assert caught.value.what == "read_only"
