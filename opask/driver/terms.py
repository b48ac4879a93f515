"""What the driver asks of a session and a host, and what it gives back."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from attrs import frozen

from opask.adapters import Adapter, Message
from opask.events import Event
from opask.permissions import Allow, Deny, PermissionRequested, Verdict

__all__ = ["Bounds", "DrivenSession", "Pace", "Policy", "RunResult", "Tee"]

Policy: TypeAlias = Callable[[PermissionRequested], Awaitable[Verdict] | Verdict]
"""A host's own decision on a permission request that opask has no opinion on; a plain function runs in a thread."""

Tee: TypeAlias = Callable[[Literal["runtime", "host"], str], object]
"""Sees every line that crosses the runtime's stdio, without its end; must not block."""

Pace: TypeAlias = Callable[[], Awaitable[object]]
"""Awaited before more of a running runtime's output is read, so that a host which cannot keep up holds it back."""


class DrivenSession(Protocol):
    """What the driver asks of a session; `opask.bridge.Session` has it all."""

    @property
    def adapter(self) -> Adapter:
        """The runtime's adapter."""
        ...

    @property
    def folders(self) -> Sequence[Path]:
        """Folders that have to go if this process is killed."""
        ...

    def receive(self, message: str, /) -> Sequence[Event]:
        """Take in one line of the runtime's output; never raises for what it says."""
        ...

    def prompt(self, text: str, /) -> Sequence[Message]:
        """Return the messages that give the agent its next prompt; none where it is in the argv."""
        ...

    def interrupt(self) -> Sequence[Message]:
        """Return the messages that end the running turn; none where only a signal does."""
        ...

    def outgoing(self) -> Sequence[Message]:
        """Return what the protocol itself has to send now; none in most protocols."""
        ...

    def end_turn(self, reason: Literal["ended", "interrupted", "exited"], /) -> Sequence[Event]:
        """Take in that the turn is over in a way that the runtime did not say itself."""
        ...

    def decide(self, request: PermissionRequested, /) -> Verdict:
        """Return opask's own verdict on a permission request, and publish it."""
        ...

    def host_decided(self, request: PermissionRequested, verdict: Allow | Deny, by: str) -> None:
        """Publish the verdict on a request that was deferred."""
        ...

    def reply(self, request: PermissionRequested, verdict: Verdict, /) -> Message:
        """Return a verdict in the runtime's own form; `Defer` is written as a denial."""
        ...

    async def listed(self, timeout: timedelta, /) -> Any:  # noqa: ASYNC109 - the session says that it ran out
        """Wait until the runtime has taken the tool list, for so long at most."""
        ...

    def cancel(self) -> object:
        """Cancel all that is asked, for the host; does not block."""
        ...


@frozen(kw_only=True)
class Bounds:
    """How long the driver waits, and how much it keeps.

    Args:
        listed: for the runtime to list the ask tool, where the first prompt has to wait for it; then the prompt
            is sent all the same.
        interrupt: for a turn to end once it was interrupted, and again for the runtime to exit once its input is
            closed, before the driver goes on to signals.
        sigint: for the runtime to exit after SIGINT. After SIGTERM it has a second (`opask.guard`).
        silence: for the runtime to exit after it closed its output.
        linger: for the runtime to exit after its last turn ended and its input was closed; None for as long as it
            takes, since background work of an agent may outlive its turn. A server of a protocol, which may not
            mind its input, has the time of `interrupt` at most.
        line: bytes of one line; a longer one is passed over as unreadable.
        stderr: bytes of the runtime's stderr that are kept, the last ones.
        permissions: requests that may wait for the host's policy at once; more are denied.
    """

    listed: timedelta = timedelta(seconds=30)
    interrupt: timedelta = timedelta(seconds=3)
    sigint: timedelta = timedelta(seconds=3)
    silence: timedelta = timedelta(seconds=5)
    linger: timedelta | None = None
    line: int = 32 * 1024 * 1024
    stderr: int = 16 * 1024
    permissions: int = 64


@frozen(kw_only=True)
class RunResult:
    """How a runtime's process ended.

    Args:
        exit_code: its exit code; 128+n where signal n ended it, as a shell gives it.
        stop_reason: how its last turn ended, in the runtime's own word; None where nothing says.
        is_error: whether that turn ended in an error.
        text: what the agent said last, after its last tool call; as it was, not inert.
        stderr: the end of what the runtime wrote to stderr, made inert.
        exit_counts: whether the exit code says how the work went; not that of a server of a protocol, which ends
            when it is told to.
    """

    exit_code: int
    stop_reason: str | None = None
    is_error: bool = False
    text: str = ""
    stderr: str = ""
    exit_counts: bool = True

    @property
    def signal(self) -> signal.Signals | None:
        """The signal that ended the process, None where none did."""
        try:
            return signal.Signals(self.exit_code - 128)
        except ValueError:
            return None

    @property
    def ok(self) -> bool:
        """Whether the last turn ended, not in an error, and the process exited with 0 where that counts."""
        exited_well = self.exit_code == 0 or not self.exit_counts
        return exited_well and self.stop_reason is not None and not self.is_error
