"""Permission requests of a runtime, and the verdicts on them. No verb "approve" exists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

from attrs import Factory, field, frozen

from opask.events import Event

__all__ = ["Allow", "Defer", "Deny", "PermissionOption", "PermissionRequested", "Verdict"]


@frozen
class Allow:
    """The request is allowed.

    Args:
        rule: the rule that allows it, by name.
    """

    kind: ClassVar[Literal["allow"]] = "allow"
    rule: str


@frozen
class Deny:
    """The request is denied.

    Args:
        reason: told to the agent where the runtime passes reasons on.
        rule: the rule that denies it, by name.
    """

    kind: ClassVar[Literal["deny"]] = "deny"
    reason: str
    rule: str = "host"


@frozen
class Defer:
    """opask has no opinion; the host decides, and a host without one denies."""

    kind: ClassVar[Literal["defer"]] = "defer"


Verdict: TypeAlias = Allow | Deny | Defer


@frozen
class PermissionOption:
    """One way to answer a permission request, as the runtime offers it (ACP `PermissionOption`).

    Args:
        id: the runtime's own id, opaque.
        kind: ``allow_once``, ``allow_always``, ``reject_once``, ``reject_always``, or a runtime's own word.
        name: what a person would read.
    """

    id: str
    kind: str
    name: str = ""


@frozen(kw_only=True)
class PermissionRequested(Event):
    """The runtime asks whether a tool may run.

    Args:
        request_id: the runtime's id of the request.
        tool: the runtime's spelling of the tool, empty where it gives none.
        arguments: what the tool would be called with, where the runtime tells.
        ask: ``supplied`` or ``native`` where the adapter recognised an ask tool, in whatever disguise.
        options: the runtime's own options, in its order; empty where its protocol has none.
        raw: the message itself, for the adapter's `reply`. It, `ask` and `options` are not in the JSON form.
    """

    event: ClassVar[str] = "permission_requested"
    request_id: str
    tool: str
    arguments: Mapping[str, Any] | None = None
    ask: Literal["supplied", "native"] | None = field(default=None, metadata={"internal": True})
    options: tuple[PermissionOption, ...] = field(default=(), metadata={"internal": True})
    raw: Mapping[str, Any] = field(default=Factory(dict), repr=False, eq=False, metadata={"internal": True})
