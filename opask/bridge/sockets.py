"""The private folders of a bridge, the sockets in them, and who may connect."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import socket
import stat
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from opask.errors import SocketPathError

__all__ = ["SOCKET_NAME", "BridgeFolder", "peer_uid", "sweep"]

SOCKET_NAME: Final = "s"
_PREFIX = "opask-"
_LOCK = "lock"
_PATH_MAX = 103  # sun_path is 104 bytes on macOS and the BSDs, 108 on Linux, its final NUL included
_SESSION_BYTES = 4
_YOUNG_S = 60.0  # a folder this young may belong to a bridge that has not locked it yet


class BridgeFolder:
    """A folder that only this process's user can look into, with one folder a session in it.

    Its lock file is held for as long as the process lives, so that another process can tell an abandoned one.

    Args:
        base: where to make it; by default the first of ``XDG_RUNTIME_DIR``, the temporary folder and ``/tmp`` that
            gives a short enough path.
        open_to_others: whether other users may connect (their ids are checked at each connection).

    Raises:
        SocketPathError: no folder can be had there, or its path is too long for a socket.
    """

    def __init__(self, base: Path | None = None, *, open_to_others: bool = False) -> None:
        self._mode = 0o711 if open_to_others else 0o700
        self.file_mode = 0o644 if open_to_others else 0o600
        self.socket_mode = 0o666 if open_to_others else 0o600
        self.path = _made(base)
        try:
            self.path.chmod(self._mode)
            self._lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        except OSError:
            shutil.rmtree(self.path, ignore_errors=True)
            raise

    def session(self) -> Path:
        """Make and return a new session's folder."""
        folder = self.path / secrets.token_hex(_SESSION_BYTES)
        folder.mkdir(mode=self._mode)
        folder.chmod(self._mode)  # whatever the umask was
        return folder

    def close(self) -> None:
        """Remove the folder and all in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.close(self._lock)


def _bases(base: Path | None) -> Iterator[Path]:
    if base is not None:
        yield base
        return
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        yield Path(runtime)
    yield Path(tempfile.gettempdir())
    yield Path("/tmp")  # noqa: S108 - the folder made in it is private


def _made(base: Path | None) -> Path:
    faults: list[str] = []
    # Absolute, since neither the runtime nor the guard works in this process's folder.
    for candidate in dict.fromkeys(path.absolute() for path in _bases(base)):
        length = len(
            os.fsencode(candidate / f"{_PREFIX}{'x' * 8}" / ("x" * 2 * _SESSION_BYTES) / SOCKET_NAME)
        )
        if length > _PATH_MAX:
            faults.append(f"{candidate}: a socket path there has {length} bytes, {_PATH_MAX} is the limit")
            continue
        try:
            return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=candidate))
        except OSError as error:
            faults.append(f"{candidate}: {error.strerror or error}")
    raise SocketPathError(
        "no private folder for the bridge's sockets could be made ("
        + "; ".join(faults)
        + "); give Bridge(folder=…) a short path that this user can write to"
    )


def sweep(base: Path) -> None:
    """Remove what bridges left in a folder whose processes were killed."""
    for folder in base.glob(f"{_PREFIX}????????"):
        with contextlib.suppress(OSError):
            _sweep_one(folder)


def _sweep_one(folder: Path) -> None:
    found = folder.lstat()
    if (
        not stat.S_ISDIR(found.st_mode)
        or found.st_uid != os.getuid()
        or time.time() - found.st_mtime < _YOUNG_S
    ):
        return
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held: its process lives
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def peer_uid(connection: socket.socket) -> int | None:
    """Return the user id of the process at the other end; None where the system does not tell.

    Linux tells by ``SO_PEERCRED`` (unix(7)), macOS and the BSDs by ``LOCAL_PEERCRED`` (unix(4)).
    """
    if hasattr(socket, "SO_PEERCRED"):
        _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(uid)
    if sys.platform == "darwin" or "bsd" in sys.platform:
        xucred = connection.getsockopt(0, 0x001, 76)  # SOL_LOCAL, LOCAL_PEERCRED: cr_version, cr_uid, …
        return int(struct.unpack_from("=II", xucred)[1])
    return None
