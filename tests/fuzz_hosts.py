"""What the fuzz and fault tests share: a host whose asks are counted, and what it must not leave behind."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

from bridge_peers import PlainAdapter, attach_sync
from fuzz_http import Posts
from fuzz_lines import PATIENCE_S, Lines
from opask import Answer, Answered, Ask, LaunchRequest, Outcome, Reply
from opask.bridge import Bridge, Session
from opask.bridge.desk import Link, OpenAsk
from opask.bridge.prompting import Prompting
from opask.bridge.server import RuntimeConnection
from opask.events import Event, QuestionAsked, QuestionResolved
from opask.launch import Endpoint

__all__ = ["FuzzedHost", "Operator", "fuzzed_host", "resident_kib"]

Transport: TypeAlias = Literal["stdio", "http"]
_LOGGERS = ("opask", "asyncio", "mcp", "uvicorn")


class Operator:
    """Answers at once what says "now", and the rest when told to or never; remembers how all ended."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.asked: list[Ask] = []
        self.settlements: Counter[str] = Counter()
        self.outcomes: dict[str, Outcome] = {}
        self._answering = threading.Event()

    def ask(self, ask: Ask, /) -> Reply:
        """Answer, in a thread of the bridge's."""
        with self.changed:
            self.asked.append(ask)
            self.changed.notify_all()
            if not any(question.text.startswith("now") for question in ask.questions):
                self.changed.wait_for(lambda: self._answering.is_set() or ask.id in self.outcomes, PATIENCE_S)
        return Answered(tuple(_answer(len(question.options)) for question in ask.questions), "fuzz")

    def settled(self, ask: Ask, outcome: Outcome, /) -> None:
        """Count it."""
        with self.changed:
            self.settlements[ask.id] += 1
            self.outcomes[ask.id] = outcome
            self.changed.notify_all()

    def available(self, session_id: str, /) -> bool:
        """Be there."""
        return True

    def answer_all(self) -> None:
        """Answer whatever waits and whatever comes."""
        with self.changed:
            self._answering.set()
            self.changed.notify_all()

    def wait_asked(self, count: int) -> None:
        """Wait until so many asks have come."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.asked) >= count, PATIENCE_S)

    def wait_settled(self) -> None:
        """Wait until every ask that has come has settled."""
        with self.changed:
            assert self.changed.wait_for(
                lambda: all(ask.id in self.settlements for ask in self.asked), PATIENCE_S
            ), f"not settled: {[ask.id for ask in self.asked if ask.id not in self.settlements]}"


def _answer(options: int) -> Answer:
    return Answer((0,)) if options else Answer((), "text")


class Errors(logging.Handler):
    """Collects what is logged as an error, which no peer's fault may cause."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.records.append(self.format(record))


class FuzzedHost:
    """A bridge, and a session of it at a time whose asks are followed from the first event to the last."""

    def __init__(self, bridge: Bridge, errors: Errors, transport: Transport, folder: Path) -> None:
        self.bridge = bridge
        self.errors = errors
        self.still_connected = False  # the test's clients, when the bridge closes
        self._transport = transport
        self._folder = folder
        self._before: dict[str, int] = {}
        self._numbers = iter(range(1 << 30))

    @contextmanager
    def session(self) -> Iterator[tuple[Session, str, Operator]]:
        """Give a session, its socket's path and its operator; at the end every ask has settled exactly once."""
        with self.served() as (session, endpoint, operator):
            yield session, endpoint.command[-1], operator

    @contextmanager
    def served(self) -> Iterator[tuple[Session, Endpoint, Operator]]:
        """Give a session, where it is served, and its operator; at the end every ask has settled exactly once."""
        operator = Operator()
        events: list[Event] = []
        with attach_sync(
            self.bridge,
            f"fuzz-{next(self._numbers)}",
            PlainAdapter(),
            operator,
            transport=self._transport,
        ) as session:
            session.subscribe(events.append)
            endpoint = session.plan_launch(LaunchRequest(["runtime"])).endpoint
            assert endpoint is not None
            yield session, endpoint, operator
        operator.wait_settled()
        asked = [event.question_id for event in events if isinstance(event, QuestionAsked)]
        resolved = [event.question_id for event in events if isinstance(event, QuestionResolved)]
        assert sorted(map(str, asked)) == sorted(map(str, resolved)), "an ask without its one outcome"
        assert set(operator.settlements) >= {ask.id for ask in operator.asked}
        assert set(operator.settlements.values()) <= {1}, "settled more than once"
        assert len({*asked}) == len(asked)
        assert session.pending == ()
        errors, self.errors.records = self.errors.records, []
        assert not errors, "\n".join(errors)

    def serve_one(self) -> None:
        """Serve a client that keeps to the protocol."""
        with self.served() as (_, endpoint, operator):
            if self._transport == "http":
                for era in ("handshake", "modern"):
                    posts = Posts(endpoint, era)
                    posts.shake_hands()
                    assert posts.call(f"now {era}")["result"]["isError"] is False
            else:
                with Lines(endpoint.command[-1]) as lines:
                    lines.shake_hands()
                    lines.call(1, "now")
                    assert lines.response(1)["result"]["isError"] is False
            operator.wait_settled()

    def begin(self) -> None:
        """Take what there is now for what has to be left."""
        self._before = self._left()

    def check_left(self) -> None:
        """Hold what is left to what there was; what still ends by itself has its grace."""
        ended = threading.Event()
        for _ in range(600):
            if self._is_as_before(self._left()):
                return
            ended.wait(0.05)
        left = self._left()
        assert self._is_as_before(left), f"{self._before} before, {left} afterwards"

    def _is_as_before(self, left: dict[str, int]) -> bool:
        return all(left[name] <= count for name, count in self._before.items())

    def _left(self) -> dict[str, int]:
        async def count() -> int:
            return len(asyncio.all_tasks())

        gc.collect()
        return {
            "descriptors": len(list(Path("/dev/fd").iterdir())),
            "tasks": self.bridge._thread.submit(count).result(),
            "files": len(list(self._folder.rglob("*"))),
        }


@contextmanager
def fuzzed_host(folder: Path, *, transport: Transport = "stdio", **settings: Any) -> Iterator[FuzzedHost]:
    """Open a bridge; at the end nothing of what was served is left: no descriptor, task, object, file or thread."""
    others = _alive()  # of other tests in this process
    errors = Errors()
    for name in _LOGGERS:
        logging.getLogger(name).addHandler(errors)
    try:
        with Bridge(folder=folder, **settings) as bridge:
            host = FuzzedHost(bridge, errors, transport, folder)
            host.serve_one()
            host.begin()
            yield host
            if not host.still_connected:
                host.check_left()
                alive = _alive() - others
                assert not alive, f"still alive: {alive}"
        assert not errors.records, "\n".join(errors.records)
    finally:
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(errors)
    assert list(folder.iterdir()) == []


def resident_kib() -> int:
    """Return how much memory this process has."""
    found = subprocess.run(["ps", "-o", "rss=", "-p", str(os.getpid())], capture_output=True, check=True)
    return int(found.stdout)


def _alive() -> Counter[str]:
    gc.collect()
    kinds = (Link, OpenAsk, Prompting, RuntimeConnection)
    return Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, kinds))
