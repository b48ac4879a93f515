"""The runtimes that are probed: the version that is pinned, where it comes from, and what it needs around it."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from attrs import field, frozen

from opask.errors import OpaskError

__all__ = ["RUNTIMES", "NpmPackage", "ProbedRuntime", "UnknownPlatformError", "probed_runtime"]


class UnknownPlatformError(OpaskError):
    """The runtime is not published for this machine."""


@frozen
class NpmPackage:
    """A package of the npm registry that holds a program.

    Args:
        name: the package's name.
        program: the program's path inside the package.
    """

    name: str
    program: str


@frozen
class ProbedRuntime:
    """A runtime as it is probed.

    Args:
        name: opask's name of it.
        version: the version that is probed, exactly.
        package: gives the package for this machine.
        model: from the scripted model's address, the variables by which the runtime is sent to it and kept
            from everything else.
    """

    name: str
    version: str
    package: Callable[[], NpmPackage] = field(repr=False)
    model: Callable[[str], Mapping[str, str]] = field(repr=False)


def _claude_package() -> NpmPackage:
    system = {"linux": "linux", "darwin": "darwin"}.get(sys.platform)
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(
        platform.machine().lower()
    )
    if system is None or machine is None:
        raise UnknownPlatformError(f"claude is not published for {sys.platform} on {platform.machine()}")
    # glibc's own loader tells the two C libraries apart; `platform.libc_ver` reads only this interpreter's.
    musl = "-musl" if system == "linux" and any(Path("/lib").glob("ld-musl-*")) else ""
    return NpmPackage(f"@anthropic-ai/claude-code-{system}-{machine}{musl}", "claude")


def _claude_model(url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-test",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        # As root, which one is inside the namespace, claude bypasses permissions only in a sandbox.
        "IS_SANDBOX": "1",
    }


# The package with the native binary alone: no script runs when it is installed, and it needs no node.
RUNTIMES: Final[Mapping[str, ProbedRuntime]] = {
    runtime.name: runtime for runtime in (ProbedRuntime("claude", "2.1.332", _claude_package, _claude_model),)
}


def probed_runtime(name: str) -> ProbedRuntime:
    """Give the runtime of a name.

    Raises:
        OpaskError: none of that name is probed.
    """
    try:
        return RUNTIMES[name]
    except KeyError:
        raise OpaskError(
            f"no probe for runtime {name!r}; there is one for: {', '.join(sorted(RUNTIMES))}"
        ) from None
