"""Which product a version is of: two of them share the name of their command, and what they say of themselves.

No program is started without an argument to find out: a version is what ``--version`` prints, or what is answered to
``initialize``. The last release of the older product prints a notice to every argument, and given none it fetches and
runs an installer.
"""

from __future__ import annotations

from typing import Final

from opask.errors import LaunchError
from opask.versions import compare_versions

__all__ = ["GONE", "LEGACY", "RUNTIME", "check", "other_product"]

RUNTIME: Final = "kimi"
"""opask's name of Kimi Code, versions 0 and from 2 on."""

LEGACY: Final = "kimi-cli"
"""opask's name of the older Kimi CLI, versions up to 1."""

_CODE_AGAIN: Final = "2.0.0"
_ENDED: Final = "1.52.0"
_INSTALL_CODE: Final = "npm install -g @moonshot-ai/kimi-code"
_INSTALL_LEGACY: Final = "pip install kimi-cli==1.50.0, on Python 3.13"

GONE: Final = (
    f"`--version` tells which Kimi it is: Kimi Code ({_INSTALL_CODE}), or the older Kimi CLI, whose release {_ENDED} "
    f"runs no agent ({_INSTALL_LEGACY})"
)
"""What to look at where the program ends at once."""


def other_product(runtime: str, version: str | None) -> str | None:
    """Tell why a version is none that a runtime's adapter is for, and what to do; None where it may be one."""
    if version is None:
        return None
    if runtime == RUNTIME:
        if not _is_between(version, "1.0.0", _CODE_AGAIN):
            return None
        return f"version {version} is the older Kimi CLI: run it as {LEGACY!r}, or install Kimi Code: {_INSTALL_CODE}"
    if _is_between(version, _CODE_AGAIN, None):
        return f"version {version} is Kimi Code: run it as {RUNTIME!r}"
    if _is_between(version, _ENDED, None):
        return (
            f"version {version} only says that it is the last, and runs no agent: install Kimi Code, {_INSTALL_CODE}, "
            f"and run it as {RUNTIME!r}; or the last release that works, {_INSTALL_LEGACY}"
        )
    return None


def check(runtime: str, version: str | None) -> None:
    """Hold that a version, where it is known, is one that a runtime's adapter is for.

    Raises:
        LaunchError: it is not; the message says what to install.
    """
    why = other_product(runtime, version)
    if why is not None:
        raise LaunchError(f"{runtime}: {why}", runtime=runtime, what="version")


def _is_between(version: str, first: str, end: str | None) -> bool:
    is_behind = compare_versions(version, first) in (0, 1)
    return is_behind and (end is None or compare_versions(version, end) == -1)
