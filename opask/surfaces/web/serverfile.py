"""How the processes of one inbox agree on who serves its page, and how scripts find it.

In the inbox's private folder: ``web.lock``, locked by the process that serves, and let go by the system when it dies;
``web.json`` with mode 0600, ``{"url": …, "token": …, "pid": …}``, as long as it serves; and ``web.token``, with mode
0600, the token itself, which outlives it so that an open page is still let in when a server comes back. Whoever can
read that file can write the inbox beside it, so it gives nobody more than they have.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from attrs import frozen

from opask.tokens import new_token

__all__ = ["ServerFile", "Serving"]

_SHORTEST: Final = 32
_LONGEST: Final = 4096


@frozen
class Serving:
    """Who serves an inbox's page.

    Args:
        url: the page's address, ending with a slash.
        token: the token.
        pid: the process.
    """

    url: str
    token: str
    pid: int


class ServerFile:
    """The place of the one process that serves an inbox's page.

    Args:
        folder: the inbox's private folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = -1
        self.path = folder / "web.json"

    def claim(self) -> bool:
        """Take the place, until `release` or this process's end; False where another process has it."""
        lock = os.open(self._folder / "web.lock", os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock
        self.path.unlink(missing_ok=True)  # a killed one's
        return True

    def token(self, *, new: bool = False) -> str:
        """Return the inbox's token, made where there is none yet; for whoever has the place.

        Args:
            new: make another: pages that are open have to be opened anew.
        """
        kept = "" if new else _read(self._folder / "web.token").strip()
        if len(kept) < _SHORTEST or not kept.isascii():
            kept = new_token()
            _write(self._folder / "web.token", kept)
        return kept

    def announce(self, url: str, token: str) -> None:
        """Write where the page is; for whoever has the place."""
        _write(self.path, json.dumps({"url": url, "token": token, "pid": os.getpid()}))

    def found(self) -> Serving | None:
        """Return who has announced themselves; None where nobody has, or not yet."""
        try:
            kept = json.loads(_read(self.path))
            return Serving(str(kept["url"]), str(kept["token"]), int(kept["pid"]))
        except (ValueError, KeyError, TypeError):
            return None

    def release(self) -> None:
        """Give the place up."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)
            os.close(lock)


def _read(path: Path) -> str:
    try:
        with path.open(encoding="ascii") as file:
            return file.read(_LONGEST)
    except (OSError, UnicodeDecodeError):
        return ""


def _write(path: Path, text: str) -> None:
    """Write a file of mode 0600, whole or not at all."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh.unlink(missing_ok=True)
    file = os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    with os.fdopen(file, "w", encoding="ascii") as stream:
        stream.write(f"{text}\n")
    fresh.replace(path)
