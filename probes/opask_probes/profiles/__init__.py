"""The runtimes that are probed, each on a route: one module a family of runtimes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from opask.errors import OpaskError

from .claude import CLAUDE, CLAUDE_HTTP, CLAUDE_NATIVE
from .kimi import KIMI, KIMI_CLI, KIMI_NATIVE, KIMI_NATIVE_PRINT, KIMI_PRINT
from .omp import OMP, OMP_DEVICE, OMP_NATIVE
from .terms import Device, Launch, LongWait, Mode, Profile

__all__ = ["PROFILES", "Device", "Launch", "LongWait", "Mode", "Profile", "profile"]

PROFILES: Final[Mapping[tuple[str, str], Profile]] = {
    (one.runtime, one.route): one
    for one in (
        *(CLAUDE, CLAUDE_HTTP, CLAUDE_NATIVE),
        *(KIMI, KIMI_PRINT, KIMI_NATIVE, KIMI_NATIVE_PRINT),
        KIMI_CLI,
        *(OMP, OMP_DEVICE, OMP_NATIVE),
    )
}


def profile(runtime: str, route: str | None = None) -> Profile:
    """Give the profile of a runtime's route, by default of the first that is probed.

    Raises:
        OpaskError: it is not probed.
    """
    found = [one for one in PROFILES.values() if one.runtime == runtime and route in (None, one.route)]
    if found:
        return found[0]
    known = ", ".join(f"{one.runtime} ({one.route})" for one in PROFILES.values())
    what = runtime if route is None else f"{runtime} by {route}"
    raise OpaskError(f"there is no probe for {what}; there is one for {known}")
