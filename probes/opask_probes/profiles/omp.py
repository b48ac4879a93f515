"""omp (oh-my-pi), as the scenarios play to it: with MCP tools on the model's list, and as devices that it writes to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve

from opask_omp.profile import DEVICE
from opask_probes.model import Call
from opask_probes.scripts import QUESTIONS

from .acp import launched_by, with_server
from .terms import Device, Launch, LongWait, Profile

__all__ = ["OMP", "OMP_DEVICE", "OMP_NATIVE"]


def _bypass(launch: Launch) -> Launch:
    return evolve(launch, argv=(*launch.argv, "--approval-mode=yolo"))


def _native(text: str) -> Call:
    question = dict(QUESTIONS[text])
    question["multi"] = question.pop("multiSelect")
    return Call("ask", {"questions": [{"id": "q", **question}]})


def _written(tool: str, arguments: Mapping[str, Any]) -> Call:
    phrase = "Asking the operator"  # what the model says it is about to do; a title, and no name
    return Call("write", {"i": phrase, "path": f"{DEVICE}{tool}", "content": json.dumps(arguments)})


OMP: Final = Profile(
    runtime="omp",
    route="mcp-stdio",
    launch=launched_by("acp", "--no-title", bypass=_bypass),
    native=_native,
    with_server=with_server,
    marks_errors=False,
    long_wait=LongWait(95, "a call of an MCP tool is given up after 30 s"),
    unrecorded=frozenset({"availableCommands", "configOptions", "modes", "models", "usage", "cost"}),
)

OMP_DEVICE: Final = evolve(
    OMP,
    route="mcp-stdio-device",
    refuse=frozenset({"direct-tools", "plain-titles"}),
    # A description stands behind the address in omp's own list; the clause names the address, too.
    device=Device(lambda tool: f"{DEVICE}{tool} — ", _written),
)

OMP_NATIVE: Final = evolve(OMP, route="native")
