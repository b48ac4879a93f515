"""What is looked at before a launch is used, and the files that it needs."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from opask.bridge.overlays import lay
from opask.errors import BridgeError, LaunchError, UnverifiedRouteError, WaitTooLongError
from opask.launch import LaunchPlan
from opask.registry import Support

__all__ = ["WAIT_MARGIN", "check_floor", "check_route", "check_wait", "lay_overlays", "write_files"]

WAIT_MARGIN: Final = timedelta(seconds=5)
"""How much earlier than the route's own ceiling a question ends."""


def check_floor(plan: LaunchPlan, runtime: str) -> None:
    """Raise a `LaunchError` where a launch that has to be read-only is not."""
    if not plan.read_only:
        raise LaunchError(
            f"{runtime}: its adapter does not say that it can hold a read-only floor; launch without one",
            runtime=runtime,
            what="read_only",
        )


def check_route(known: Support, runtime: str) -> None:
    """Raise an `UnverifiedRouteError` where nobody has seen the route work."""
    if not known.questions:
        raise UnverifiedRouteError(
            f"{known.summary}: nobody has seen an agent ask on it; attach with allow_unverified=True "
            "(--allow-unverified) to use it all the same",
            runtime=runtime,
            what="route",
        )


def check_wait(plan: LaunchPlan, runtime: str, wait: timedelta | None) -> None:
    """Raise a `WaitTooLongError` where the launch cannot hold a question for so long."""
    if plan.ceiling is None:
        return
    longest = plan.ceiling - WAIT_MARGIN
    if wait is None or wait > longest:
        asked = "an unbounded wait" if wait is None else f"a wait of {wait.total_seconds():g} s"
        raise WaitTooLongError(
            f"{asked} cannot be had on {runtime}: this launch holds a question for "
            f"{plan.ceiling.total_seconds():g} s at most; attach with wait={longest.total_seconds():g} s or less, "
            "or do not refuse the change that lifts the limit",
            runtime=runtime,
            what="wait",
        )


def write_files(plan: LaunchPlan, mode: int) -> None:
    """Write a launch's files.

    Args:
        plan: the launch.
        mode: the files' permission bits.

    Raises:
        BridgeError: one cannot be written.
    """
    for file in plan.files:
        try:
            file.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file.path.write_text(file.content, encoding="utf-8")
            file.path.chmod(mode)
        except OSError as error:
            raise BridgeError(
                f"cannot write {file.path}: {error.strerror or error}; is the session closed?"
            ) from error


def lay_overlays(plan: LaunchPlan) -> None:
    """Make the folders that stand in for the user's own.

    Raises:
        BridgeError: one cannot be made.
    """
    for overlay in plan.overlays:
        try:
            lay(overlay)
        except OSError as error:
            raise BridgeError(
                f"no folder could be made that stands in for {overlay.original or overlay.path}: {error.strerror or error} "
                f"({error.filename}); is the session closed, and that folder this user's own?"
            ) from error
