"""Make the folders that stand in for the user's own, and bring back from them what a runtime put there."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Set
from pathlib import Path
from typing import Final

from opask.launch import Overlay, OverlayFile, OverlayRecord

__all__ = ["bring_back", "lay"]

_logger = logging.getLogger("opask.bridge")
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
# A byte that is no UTF-8 is kept as it is.
_ENCODING: Final = {"encoding": "utf-8", "errors": "surrogateescape"}


def lay(overlay: Overlay) -> None:
    """Make an overlay, in place of one that was made before. The user's files are read, never written.

    Raises:
        LaunchError: a file of the user's stands against the launch; nothing was made then.
        OSError: the user's folder cannot be read, or the overlay not be written.
    """
    original, path = overlay.original, overlay.path
    made = {file.name: file.make(_own(file, original)) for file in overlay.files}
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(mode=_FOLDER_MODE)
    path.chmod(_FOLDER_MODE)  # whatever the umask was
    if original is not None:
        _link(overlay, original, made.keys())
    for name, text in made.items():
        _write(path / name, text)


def _link(overlay: Overlay, original: Path, made: Set[str]) -> None:
    """Link to all that the user has, but for what is made anew, and to what the runtime will keep there."""
    if overlay.folders or overlay.records:
        original.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    for name in overlay.folders:
        (original / name).mkdir(mode=_FOLDER_MODE, exist_ok=True)
    names = {record.name for record in overlay.records}
    if original.is_dir():
        names |= {entry.name for entry in original.iterdir()}
    for name in sorted(names - made):
        (overlay.path / name).symlink_to(original / name)


def bring_back(overlay: Overlay) -> None:
    """Put what a runtime wrote in place of a link into the user's own file. Never raises: what cannot be is logged."""
    for record in overlay.records:
        try:
            _bring_back(overlay, record)
        except (OSError, ValueError) as error:
            _logger.warning("%s was not brought back to %s: %s", record.name, overlay.original, error)


def _bring_back(overlay: Overlay, record: OverlayRecord) -> None:
    written = overlay.path / record.name
    if overlay.original is None or written.is_symlink() or not written.is_file():
        return  # what was written through the link is there already
    target = (overlay.original / record.name).resolve()  # it may be a link of the user's own
    before = _text(target)
    after = record.join(before, _text(written) or "")
    if after == before:
        return
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{record.name}.")
    part = Path(name)
    try:
        os.close(handle)
        part.write_bytes(after.encode(**_ENCODING))
        part.chmod(_FILE_MODE if before is None else target.stat().st_mode & 0o777)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _own(file: OverlayFile, original: Path | None) -> str | None:
    """Return the text of the user's own file; None where there is none."""
    sources = file.sources
    if sources is None:
        sources = () if original is None else (original / file.name,)
    return next((text for source in sources if (text := _text(source)) is not None), None)


def _text(path: Path) -> str | None:
    """Return a file's text, line ends as they are; None where there is none."""
    try:
        return path.read_bytes().decode(**_ENCODING)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None


def _write(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _FILE_MODE), "wb") as file:
        os.fchmod(file.fileno(), _FILE_MODE)
        file.write(text.encode(**_ENCODING))
