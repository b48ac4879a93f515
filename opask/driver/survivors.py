"""What outlives a guard that was itself killed: the rest of its session, on Linux.

Whoever moved to a session of its own is out of reach then: only the guard could have known it for the runtime's.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["end_session"]

_ROUNDS = 5  # what is started between a look and its blow is seen at the next


def end_session(leader: int) -> None:
    """Kill every process of a session. Its id is no other one's for as long as it has a process.

    Args:
        leader: the session's id, which was the process id of its leader.
    """
    for _ in range(_ROUNDS):
        members = list(_members(leader))
        for member in members:
            _kill(member, leader)
        if not members:
            return


def _members(session: int) -> Iterator[int]:
    with suppress(OSError):
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and _session_of(int(folder.name)) == session:
                yield int(folder.name)


def _session_of(pid: int) -> int | None:
    """Read a process's session (proc(5)); None where there is no such process any more."""
    try:
        # The name in it, in brackets, may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return None if fields[0] in {b"Z", b"X"} else int(fields[3])
    except (OSError, ValueError, IndexError):
        return None


def _kill(pid: int, session: int) -> None:
    with suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if _session_of(pid) == session:  # and not another process that was given its id
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)
