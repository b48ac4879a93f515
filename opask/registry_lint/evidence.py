"""What the linter looks at beside the rows: recordings, probes, adapters, the day, this machine's names."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

from attrs import Factory, define, field, frozen

from opask.adapters import Adapter
from opask.errors import AdapterError, OpaskError, RecordingError
from opask.events import Event
from opask.recording import Entry, Recording, read_recording, replay
from opask.registry_schema import Document

__all__ = ["RECORDINGS", "Evidence", "RecordingFile", "texts"]

RECORDINGS = "probes/recordings"
"""Where recordings lie, below the registry's own folder."""


def texts(value: Any) -> Iterator[str]:
    """Give every string of a JSON value, keys included."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            waiting.extend(one.keys())
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)


@define(slots=False)  # a cached property needs a dictionary
class RecordingFile:
    """A recording's file, read once.

    Args:
        path: below the registry's folder, with / between names.
        data: its bytes; None where there is no such file.
    """

    path: str
    data: bytes | None = field(repr=False)
    _replays: dict[str, Any] = field(factory=dict, init=False, repr=False)

    @property
    def where(self) -> str:
        """The recording, as a finding names it."""
        return self.path

    @cached_property
    def sha256(self) -> str | None:
        """The digest of the file, as it is now."""
        return None if self.data is None else hashlib.sha256(self.data).hexdigest()

    @cached_property
    def content(self) -> Recording | RecordingError | None:
        """What it holds, or why it cannot be read; None where there is no such file."""
        if self.data is None:
            return None
        try:
            return read_recording(self.data)
        except RecordingError as error:
            return error

    @cached_property
    def lines(self) -> Sequence[str]:
        """Its lines, whatever they hold."""
        return (self.data or b"").decode(errors="replace").split("\n")

    def replayed(self, adapter: Adapter) -> Sequence[tuple[Entry, Sequence[Event]]] | OpaskError:
        """Play it to an adapter, once; give what came of it, or why that cannot be done."""
        if adapter.runtime not in self._replays:
            self._replays[adapter.runtime] = self._replay(adapter)
        found: Sequence[tuple[Entry, Sequence[Event]]] | OpaskError = self._replays[adapter.runtime]
        return found

    def _replay(self, adapter: Adapter) -> Sequence[tuple[Entry, Sequence[Event]]] | OpaskError:
        if not isinstance(self.content, Recording):
            return self.content or RecordingError(f"{self.path} is not there")
        try:
            return list(replay(adapter, self.content))
        except OpaskError as error:
            return error
        except Exception as error:
            return AdapterError(f"the adapter of {adapter.runtime} failed: {type(error).__name__}: {error}")


@frozen
class Evidence:
    """Everything that a rule may look at.

    Args:
        document: the registry.
        folder: the folder that it lies in, which its evidence lies below.
        today: the day, UTC.
        names: names of this machine and its user, which no recording may hold.
        installed: version by runtime id, of those that are installed here, where that was looked up.
        find_adapter: gives a runtime's adapter.
    """

    document: Document = field(repr=False)
    folder: Path
    today: date
    names: frozenset[str]
    installed: Mapping[str, str]
    find_adapter: Callable[[str], Adapter]
    _files: dict[str, RecordingFile] = field(default=Factory(dict), init=False, repr=False)

    def recording(self, path: str) -> RecordingFile:
        """Return a recording's file, there or not."""
        if path not in self._files:
            try:
                data = (self.folder / path).read_bytes()
            except OSError:
                data = None
            self._files[path] = RecordingFile(path, data)
        return self._files[path]

    def recordings(self) -> Iterator[RecordingFile]:
        """Give every recording that is there, named by a row or not, by path."""
        named = {
            observation.recording
            for row in self.document.runtimes.values()
            for route in row.routes
            for observation in route.observations
        }
        found = {
            path.relative_to(self.folder).as_posix() for path in (self.folder / RECORDINGS).rglob("*.jsonl")
        }
        for path in sorted(named | found):
            file = self.recording(path)
            if file.data is not None:
                yield file

    def exists(self, path: str) -> bool:
        """Tell whether a file of the evidence is there."""
        return (self.folder / path).is_file()

    def adapter(self, name: str | None) -> Adapter | None:
        """Return an adapter by name; None where it is not installed."""
        if name is None:
            return None
        try:
            return self.find_adapter(name)
        except OpaskError:
            return None
