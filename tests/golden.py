"""Golden recordings: what an adapter makes of a real runtime's recorded output, kept beside the tests.

Every recording under ``tests/adapters/golden`` and ``probes/recordings`` has a file of the events that its adapter
is to make of it. After a change that is meant, ``python tests/golden.py`` writes them anew; read the difference.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import opask
from opask.adapters import Adapter, Conversation, Message
from opask.events import Event, event_to_json
from opask.launch import Endpoint, LaunchPlan, LaunchRequest
from opask.recording import Recording, read_recording, replay

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "adapters" / "golden"
RECORDED = ROOT / "probes" / "recordings"
EVENTS = ".events.jsonl"
STAMPS = ("seq", "time", "session_id", "turn_id")  # the session's, not the adapter's


def recordings() -> list[Path]:
    """Give every recording, by its path from the root."""
    found = [path for folder in (GOLDEN, RECORDED) for path in folder.rglob("*.jsonl")]
    return sorted(path.relative_to(ROOT) for path in found if not path.name.endswith(EVENTS))


def events_file(recording: Path) -> Path:
    """Give the file of a recording's events: beside it, or for a probe's recording in the same place below ours."""
    path = ROOT / recording
    if path.is_relative_to(RECORDED):
        path = GOLDEN / "recorded" / path.relative_to(RECORDED)
    return path.with_name(path.name.removesuffix(".jsonl") + EVENTS)


def read(recording: Path) -> Recording:
    """Read a recording."""
    return read_recording((ROOT / recording).read_bytes())


class Retold(Adapter):
    """An adapter whose conversation is told each message in another form, and can be asked afterwards."""

    def __init__(self, adapter: Adapter, form: Callable[[Message], Message | str | bytes]) -> None:
        self.runtime = adapter.runtime
        self._adapter = adapter
        self._form = form
        self.told: Conversation | None = None

    def plan_launch(self, request: LaunchRequest, endpoint: Endpoint | None, /) -> LaunchPlan:
        """Plan as the adapter does."""
        return self._adapter.plan_launch(request, endpoint)

    def conversation(self, plan: LaunchPlan, /) -> Conversation:
        """Converse as the adapter does, with another form of message."""
        self.told = conversation = self._adapter.conversation(plan)
        receive, form = conversation.receive, self._form

        def retell(message: Message | str | bytes, /) -> Sequence[Event]:
            return receive(message if isinstance(message, str | bytes) else form(message))

        conversation.receive = retell  # type: ignore[method-assign] # the one difference that is wanted
        return conversation


def events(recording: Path, form: Callable[[Message], Message | str | bytes] = dict) -> list[dict[str, Any]]:
    """Replay a recording to its adapter; give the events as JSON, without the stamps of a session."""
    told = read(recording)
    adapter = Retold(opask.adapter(told.header.runtime), form)
    made = (event_to_json(event) for _, events in replay(adapter, told) for event in events)
    return [{key: value for key, value in event.items() if key not in STAMPS} for event in made]


def stored(recording: Path) -> list[dict[str, Any]]:
    """Give the events that are kept for a recording."""
    return [json.loads(line) for line in events_file(recording).read_text(encoding="utf-8").splitlines()]


def _write() -> Iterator[Path]:
    for recording in recordings():
        path = events_file(recording)
        lines = [json.dumps(event, ensure_ascii=False) for event in events(recording)]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        yield path


if __name__ == "__main__":
    for written in _write():
        sys.stdout.write(f"{written.relative_to(ROOT)}\n")
