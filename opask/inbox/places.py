"""Who holds a host's place: a lock on a file, which the system lets go when the process dies, however it does."""

from __future__ import annotations

import fcntl
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

__all__ = ["Place", "forget_place", "is_held"]


class Place:
    """A held place; `opask.inbox.store.Host` of stores that are files.

    Args:
        folder: the private folder of the store.
        host_id: the host's id.
        released: called once it is given up.
    """

    def __init__(self, folder: Path, host_id: str, released: Callable[[], object]) -> None:
        self.id = host_id
        self._path = _path(folder, host_id)
        self._released = released
        self._file = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(self._file)
            self._path.unlink(missing_ok=True)
            raise
        _places.add(self)

    def release(self) -> None:
        """Give the place up; see `opask.inbox.Host.release`."""
        if self._file >= 0:
            self.let_go()
            self._released()

    def let_go(self) -> None:
        """Drop the lock and tell nobody, as the death of the process does."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


def is_held(folder: Path, host_id: str) -> bool:
    """Tell whether a host's process still has its place. It is asked with a shared lock, so that many can at once.

    A host of whom that cannot be found out, since this process has no descriptor left, say, counts as alive.
    """
    try:
        file = os.open(_path(folder, host_id), os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def forget_place(folder: Path, host_id: str) -> None:
    """Remove what a host that is gone has left."""
    with suppress(OSError):
        _path(folder, host_id).unlink(missing_ok=True)


def _path(folder: Path, host_id: str) -> Path:
    return folder / f"{host_id}.lock"


_places: weakref.WeakSet[Place] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """Close a fork's copies, which would keep the parent's places held after its death."""
    for place in list(_places):
        place.let_go()


os.register_at_fork(after_in_child=_leave_to_parent)
