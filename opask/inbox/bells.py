"""Doorbells between processes: a datagram to everybody who watches a store, once something is committed.

A datagram may say what that is, so that whoever hears it in order need not look.

Each watcher binds a unix datagram socket in the store's private folder. Where the folder's path is too long for a
socket's address (sun_path, 104 bytes on macOS and 108 on Linux), the socket lies in a temporary folder and a link to
it in the store's. A ring that is lost costs a second: whoever watches looks by itself, too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

__all__ = ["Bell", "Ringer"]

_SUFFIX: Final = ".bell"
_ELSEWHERE: Final = "opask-bell-"
_LONGEST: Final = 100
# A folder that is as old as this when it is listed is not changed unseen: the clocks of some file systems tick in seconds.
_SURE_NS: Final = 2_500_000_000
_LONGEST_RING: Final = 16 * 1024
_GONE = {errno.ECONNREFUSED, errno.ENOENT, errno.ENOTDIR, errno.ENOTSOCK}
_FULL = {errno.EAGAIN, errno.ENOBUFS}


class Bell:
    """A watcher's doorbell.

    Args:
        folder: the store's private folder.

    Attributes:
        name: its name there.
        socket: becomes readable when it is rung.
    """

    def __init__(self, folder: Path) -> None:
        self.name = f"{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}"
        self._path = folder / self.name
        self._elsewhere: Path | None = None
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self.socket.setblocking(False)
            self._bind()
        except BaseException:
            self.close()
            raise

    def _bind(self) -> None:
        if _fits(self._path):
            self.socket.bind(os.fspath(self._path))
            return
        for base in (None, "/tmp"):  # noqa: S108 - a private folder in it
            _sweep(Path(base or tempfile.gettempdir()))
            self._elsewhere = Path(tempfile.mkdtemp(prefix=_ELSEWHERE, dir=base))
            target = self._elsewhere / "bell"
            if _fits(target):
                self.socket.bind(os.fspath(target))
                self._path.symlink_to(target)
                return
            self._elsewhere.rmdir()
        raise OSError(errno.ENAMETOOLONG, "no folder with a path short enough for a socket", str(self._path))

    def heard(self) -> list[bytes]:
        """Take all rings that have come, and return what each of them says, in order; nothing where it only rings."""
        said: list[bytes] = []
        with contextlib.suppress(BlockingIOError):
            while True:
                said.append(self.socket.recv(_LONGEST_RING))
        return said

    def close(self) -> None:
        """Take it away."""
        self.socket.close()
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
        if self._elsewhere is not None:
            shutil.rmtree(self._elsewhere, ignore_errors=True)


class Ringer:
    """Rings every bell of a folder but one's own, and takes away those that nobody hears any more."""

    def __init__(self, folder: Path, own: str | None) -> None:
        self._folder = folder
        self._own = own
        self._socket = _sending()
        self._names: tuple[str, ...] = ()
        # When the folder last changed; None where it may have changed again since it was listed.
        self._changed_ns: int | None = None

    def ring(self, said: Callable[[], bytes] = bytes) -> None:
        """Ring; never waits, never fails.

        Args:
            said: gives what is to be said, where somebody hears it; what is too long is left out.
        """
        try:
            changed_ns = os.stat(self._folder).st_mtime_ns  # noqa: PTH116 - at each commit
            if changed_ns != self._changed_ns:
                self._changed_ns = changed_ns if time.time_ns() - changed_ns > _SURE_NS else None
                self._names = tuple(
                    name
                    for name in os.listdir(self._folder)  # noqa: PTH208
                    if name.endswith(_SUFFIX) and name != self._own
                )
        except OSError:
            return
        if not self._names:
            return
        data = said()
        if len(data) > _LONGEST_RING:
            data = b""
        for name in self._names:
            self._ring(name, data)

    def _ring(self, name: str, data: bytes) -> None:
        path = os.path.join(self._folder, name)  # noqa: PTH118 - at each commit
        target = path
        try:
            if not _fits(path):
                target = os.readlink(path)  # noqa: PTH115 - at each commit
            self._send(data, target)
        except OSError as error:
            # A full queue has rung already.
            if error.errno in _GONE:
                with contextlib.suppress(OSError):
                    os.unlink(path)  # noqa: PTH108 - at each commit
                folder = Path(target).parent
                if target != path and folder.name.startswith(_ELSEWHERE):
                    with contextlib.suppress(OSError):
                        Path(target).unlink()
                        folder.rmdir()

    def _send(self, data: bytes, target: str) -> None:
        try:
            self._socket.sendto(data, target)
        except OSError as error:
            if error.errno == errno.EMSGSIZE:  # macOS takes 2048 bytes unless it is told otherwise
                self._socket.sendto(b"", target)
            elif error.errno in _FULL:
                # The target's queue is, or this socket's own buffer with what lies in those of stopped processes.
                fresh = _sending()
                self._socket.close()
                self._socket = fresh
                fresh.sendto(data, target)
            else:
                raise

    def close(self) -> None:
        """Close it."""
        self._socket.close()


def _sending() -> socket.socket:
    sending = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sending.setblocking(False)
    return sending


def _sweep(base: Path) -> None:
    """Remove the folders of bells whose processes were killed."""
    for bell in base.glob(f"{_ELSEWHERE}*/bell"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
            if probe.connect_ex(os.fspath(bell)) == errno.ECONNREFUSED and bell.lstat().st_uid == os.getuid():
                bell.unlink()
                bell.parent.rmdir()


def _fits(path: str | os.PathLike[str]) -> bool:
    return len(os.fsencode(path)) <= _LONGEST
