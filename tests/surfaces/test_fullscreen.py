"""The inbox on a whole terminal: what is shown of it, and what keys do there."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve
from textual.pilot import Pilot

from inbox_peers import Clock, ask_of, first
from opask import Abandoned, Answer, Answered, Ask, Option, Question, Skipped
from opask.inbox import Entry, EntryChanged, InboxError, LoggedEvent, MemoryStore, Snapshot, State, place
from opask.surfaces.form import KeyGuard
from opask.surfaces.fullscreen import InboxApp
from opask.surfaces.fullscreen.board import Board
from opask.surfaces.fullscreen.transcript import transcript

GOLDEN = Path(__file__).parent / "golden"
DATABASE = Question(
    "Which database should the service use?",
    "Database",
    (Option("PostgreSQL", "A server of its own"), Option("SQLite", "A file beside the service")),
)
PARTS = Question(
    "Which parts should be done first?",
    "Parts",
    (
        Option("API", "What other services call"),
        Option("Web page", "What people see"),
        Option("Docs", "What both are told"),
    ),
    multi_select=True,
)
Shown = Pilot[None]


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio: Textual is made for it."""
    return "asyncio"


@pytest.fixture
def clock() -> Clock:
    """Give a clock in hand."""
    return Clock()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let keys count at once, except where a test is about those that come too early."""
    monkeypatch.setattr(KeyGuard, "counts", lambda self, now: self.is_shown)


class SlowToRead(MemoryStore):
    """Keeps what it read of a log to itself until it is told to go on."""

    def __init__(self, *, clock: Clock) -> None:
        super().__init__(clock=clock)
        self.has_read, self.goes_on = anyio.Event(), anyio.Event()

    async def events(
        self, session_id: str, *, after: int = 0, limit: int | None = None
    ) -> tuple[LoggedEvent, ...]:
        """Read, and wait."""
        found = await super().events(session_id, after=after, limit=limit)
        self.has_read.set()
        await self.goes_on.wait()
        return found


@pytest.fixture
async def store(clock: Clock) -> MemoryStore:
    """Give an inbox with two sessions in it."""
    store = MemoryStore(clock=clock)
    host = await store.join()
    await store.begin_session("s1", host.id, runtime="claude", title="Set up a database for this service")
    await store.begin_session("s2", host.id, runtime="kimi", title="Write the release notes")
    return store


async def put(store: MemoryStore, clock: Clock, id_: str, *questions: Question, **more: Any) -> Ask:
    """Ask, from the session of the first host."""
    ask = ask_of(id_, more.pop("session_id", "s1"), *questions, now=clock.now, **more)
    (session,) = [one for one in await store.sessions() if one.id == ask.session_id]
    await store.put(ask, session.host_id, latest=clock.now + timedelta(minutes=10))
    return ask


@asynccontextmanager
async def app(
    store: MemoryStore, clock: Clock, size: tuple[int, int] = (100, 30)
) -> AsyncIterator[tuple[InboxApp, Shown]]:
    """Run the application for the length of a block."""
    shown = InboxApp(store, now=clock)
    async with shown.run_test(size=size) as pilot:
        yield shown, pilot


def screen(shown: InboxApp) -> list[str]:
    """Give what is on the screen, row by row."""
    strips = shown.screen._compositor.render_strips()  # what the terminal would be sent
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


async def until(shown: InboxApp, pilot: Shown, *parts: str, lacks: str | None = None) -> list[str]:
    """Wait until the screen has all of these parts, and lacks another."""
    try:
        with anyio.fail_after(30):
            while True:
                rows = screen(shown)
                text = "\n".join(rows)
                if all(part in text for part in parts) and (lacks is None or lacks not in text):
                    return rows
                await pilot.pause()
    except TimeoutError:
        raise AssertionError(f"no {parts!r} without {lacks!r} in\n" + "\n".join(screen(shown))) from None


async def settled(store: MemoryStore, pilot: Shown, ask_id: str, state: State) -> Any:
    """Wait until an ask is in a state; give what was decided."""
    with anyio.fail_after(30):
        while (entry := await store.entry(ask_id)).state != state:
            await pilot.pause()
    return entry.reply


# -- answering -----------------------------------------------------------------------------------------------------


async def test_one_option(store: MemoryStore, clock: Clock) -> None:
    """A number answers the question that waits; afterwards its card says where it was answered."""
    await put(store, clock, "q1", DATABASE)
    async with app(store, clock) as (shown, pilot):
        await until(shown, pilot, "❯ 1 PostgreSQL", "1-2 choose", "1 question waits")
        assert shown.title == "(1) opask inbox"
        await pilot.press("2")
        assert await settled(store, pilot, "q1", "answered") == Answered((Answer((1,)),), "terminal")
        await until(shown, pilot, "✓ SQLite", "answered in terminal; on its way", "no questions wait")
        await store.settle("q1", Answered((Answer((1,)),), "terminal"))
        await until(shown, pilot, "answered in terminal; the agent has it")
        assert shown.title == "opask inbox"


async def test_several_options_and_own_words(store: MemoryStore, clock: Clock) -> None:
    """Options are marked, words of one's own are typed beside them, and Enter sends all of it."""
    await put(store, clock, "q1", PARTS)
    async with app(store, clock) as (shown, pilot):
        await until(shown, pilot, "[ ] API")
        await pilot.press("1", "down", "down", "space", "t")
        await until(shown, pilot, "Enter keep")
        await pilot.press(*"a q", "ctrl+j", "b", "enter")
        await until(shown, pilot, "[x] Other: a q b", "[x] API", "[x] Docs")
        await pilot.press("enter")
        reply = await settled(store, pilot, "q1", "answered")
    assert reply == Answered((Answer((0, 2), "a q\nb"),), "terminal")


async def test_a_skip_and_escape(store: MemoryStore, clock: Clock) -> None:
    """``s`` skips; Esc asks first, and any key but y takes that back."""
    await put(store, clock, "q1", DATABASE)
    await put(store, clock, "q2", DATABASE)
    async with app(store, clock) as (shown, pilot):
        await until(shown, pilot, "1-2 choose")
        await pilot.press("escape")
        await until(shown, pilot, "Skip this question?")
        await pilot.press("1")
        await until(shown, pilot, "1-2 choose", lacks="Skip this question?")
        assert (await store.entry("q1")).state == "pending"
        await pilot.press("escape", "y")
        assert await settled(store, pilot, "q1", "skipped") == Skipped("terminal")
        await until(shown, pilot, "1-2 choose", "1 question waits")
        await pilot.press("s")
        assert await settled(store, pilot, "q2", "skipped") == Skipped("terminal")


async def test_two_questions_of_one_ask(store: MemoryStore, clock: Clock) -> None:
    """They come one after the other; ← goes back, and both answers are sent at once."""
    await put(store, clock, "q1", DATABASE, PARTS)
    async with app(store, clock) as (shown, pilot):
        await until(shown, pilot, "1 of 2")
        await pilot.press("1")
        await until(shown, pilot, "2 of 2", "[ ] API")
        await pilot.press("left")
        await until(shown, pilot, "1 of 2", "PostgreSQL")
        await pilot.press("2")
        await until(shown, pilot, "2 of 2")
        await pilot.press("3", "enter")
        reply = await settled(store, pilot, "q1", "answered")
    assert reply == Answered((Answer((1,)), Answer((2,))), "terminal")


async def test_the_next_question_comes_up(store: MemoryStore, clock: Clock) -> None:
    """After an answer the one that has waited longest is up, and a key that was meant for the first is not for it."""
    await put(store, clock, "q1", DATABASE)
    await put(store, clock, "q2", PARTS, session_id="s2")
    async with app(store, clock) as (shown, pilot):
        await until(shown, pilot, "❯ 1 PostgreSQL", "2 questions wait")
        await pilot.press("1")
        await until(shown, pilot, "[ ] API", "1 question waits")
        assert (await store.entry("q2")).state == "pending"
        assert shown.focused is not None


async def test_early_keys_do_not_answer(
    store: MemoryStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is pressed before a question can have been read is dropped, and the card names no key until then."""
    monkeypatch.undo()
    early = True
    monkeypatch.setattr(KeyGuard, "counts", lambda self, now: not early)
    await put(store, clock, "q1", DATABASE)
    async with app(store, clock) as (shown, pilot):
        await until(shown, pilot, "❯ 1 PostgreSQL", lacks="1-2 choose")
        await pilot.press("1", "s", "enter", "down")
        assert (await store.entry("q1")).state == "pending"
        assert "❯ 1 PostgreSQL" in "\n".join(screen(shown))
        early = False
        await pilot.press("1")
        assert (await settled(store, pilot, "q1", "answered")).answers == (Answer((0,)),)


# -- other surfaces, and ends that are not answers -----------------------------------------------------------------------


async def test_an_answer_from_elsewhere(store: MemoryStore, clock: Clock) -> None:
    """The open card closes, says what was answered and where, and no key answers it again."""
    await put(store, clock, "q1", DATABASE)
    async with app(store, clock) as (shown, pilot):
        await until(shown, pilot, "1-2 choose")
        await store.resolve("q1", first("web:alice"))
        await until(shown, pilot, "✓ PostgreSQL", "answered in web:alice", lacks="1-2 choose")
        await pilot.press("2")
        assert (await store.entry("q1")).reply == first("web:alice")


async def test_a_decision_that_is_refused(store: MemoryStore, clock: Clock) -> None:
    """One that comes after the deadline is told, and the question is shown as it is."""
    await put(store, clock, "q1", DATABASE, wait=60)
    async with app(store, clock) as (shown, pilot):
        await until(shown, pilot, "1-2 choose")
        clock.forward(61)
        await pilot.press("1")
        await until(shown, pilot, "too late for ask q1")
        await store.settle("q1", Abandoned("turn_end"))
        await until(shown, pilot, "the agent's turn ended")


async def test_a_host_that_dies(store: MemoryStore, clock: Clock) -> None:
    """Its question is shown as nobody's, and takes no key."""
    host = await store.join()
    await store.put(ask_of("q1", "s3", DATABASE, now=clock.now), host.id)
    async with app(store, clock) as (shown, pilot):
        await until(shown, pilot, "1-2 choose")
        host.release()
        await until(shown, pilot, "its host is gone", lacks="1-2 choose")


async def test_typing_gives_time(store: MemoryStore, clock: Clock) -> None:
    """As long as the operator types, the wait does not run out under their hands, up to the route's limit."""
    ask = await put(store, clock, "q1", DATABASE, wait=20)
    async with app(store, clock) as (shown, pilot):
        await until(shown, pilot, "1-2 choose")
        await pilot.press("t", "a")
        with anyio.fail_after(30):
            while (deadline := (await store.entry("q1")).deadline) == ask.deadline:
                await pilot.pause()
        assert deadline == clock.now + timedelta(minutes=1)
        await until(shown, pilot, "1:00 left")


# -- looking around ------------------------------------------------------------------------------------------------


async def test_an_operator_is_there(store: MemoryStore, clock: Clock) -> None:
    """While it runs it holds a lease, which is gone afterwards."""
    async with app(store, clock) as (shown, pilot):
        await until(shown, pilot, "Nothing is asked.")
        assert [lease.surface for lease in await store.leases()] == ["terminal"]
        assert store.present_until("s1") is not None
    assert await store.leases() == ()


async def test_a_question_that_comes_later(store: MemoryStore, clock: Clock) -> None:
    """It appears by itself, with the conversation that it was asked in, and the turn goes on above it."""
    async with app(store, clock) as (shown, pilot):
        await until(shown, pilot, "Nothing is asked.")
        await store.append(
            "s1", [{"event": "text", "text": "I look "}, {"event": "text", "text": "around.\n"}]
        )
        await store.append(
            "s1", [{"event": "tool_announced", "tool": "Ask", "tool_call_id": "t1", "ask": "supplied"}]
        )
        await put(store, clock, "q1", DATABASE, call="t1")
        rows = await until(shown, pilot, "I look around.", "waits for an answer", "1-2 choose")
        await store.append("s1", [{"event": "text", "text": "Meanwhile."}])
        await until(shown, pilot, "Meanwhile.")
    said = next(at for at, row in enumerate(rows) if "I look around." in row)
    asked = next(at for at, row in enumerate(rows) if "waits for an answer" in row)
    assert said < asked


async def test_the_list(store: MemoryStore, clock: Clock) -> None:
    """Tab goes to the list, where arrows look at the others without answering anything; Tab goes back."""
    await put(store, clock, "q1", DATABASE)
    await put(store, clock, "q2", PARTS, session_id="s2")
    async with app(store, clock) as (shown, pilot):
        await until(shown, pilot, "❯ 1 PostgreSQL")
        await pilot.press("tab")
        await until(shown, pilot, "Tab answer it", lacks="1-2 choose")
        await pilot.press("down")
        await until(shown, pilot, "[ ] API")
        await pilot.press("s", "1", "y")
        assert {entry.state for entry in await store.entries()} == {"pending"}
        await pilot.press("enter")
        await until(shown, pilot, "1-3 mark")
        await pilot.press("n")
        await until(shown, pilot, "❯ 1 PostgreSQL", "1-2 choose")


async def test_a_cleared_conversation(store: MemoryStore, clock: Clock) -> None:
    """It goes from the screen with its cards."""
    await put(store, clock, "q1", DATABASE)
    await store.append("s1", [{"event": "text", "text": "I look around."}])
    async with app(store, clock) as (shown, pilot):
        await until(shown, pilot, "I look around.", "1-2 choose")
        await pilot.press("1")
        await store.settle("q1", Answered((Answer((0,)),), "terminal"))
        await store.clear_session("s1")
        await until(shown, pilot, "Nothing is asked.", lacks="I look around.")


async def test_a_conversation_is_cleared_while_it_is_read_and_goes_on(clock: Clock) -> None:
    """What was read of it before is not shown, what is said then is, and the session keeps its name."""
    store = SlowToRead(clock=clock)
    host = await store.join()
    await store.begin_session("s1", host.id, runtime="claude", title="Set up a database")
    await put(store, clock, "q1", DATABASE)
    await store.append("s1", [{"event": "text", "text": "First I look around."}])
    async with app(store, clock) as (shown, pilot):
        with anyio.fail_after(30):
            await store.has_read.wait()
        await pilot.press("1")
        await until(shown, pilot, "on its way to the agent")
        await store.settle("q1", Answered((Answer((0,)),), "terminal"))
        await store.clear_session("s1")
        await until(shown, pilot, "Nothing is asked.")
        await put(store, clock, "q2", PARTS)
        await store.append("s1", [{"event": "text", "text": "Then I go on."}])
        store.goes_on.set()
        await until(shown, pilot, "Then I go on.", "Set up a database", lacks="First I look around.")


async def test_quitting(store: MemoryStore, clock: Clock) -> None:
    """``q`` and Ctrl-C leave, and what waits goes on waiting."""
    for key in ("q", "ctrl+c"):
        await put(store, clock, key, DATABASE)
        async with app(store, clock) as (shown, pilot):
            await until(shown, pilot, "1-2 choose")
            await pilot.press(key)
            with anyio.fail_after(30):
                while shown.return_code is None:
                    await pilot.pause()
            assert shown.return_code == 0
        assert (await store.entry(key)).state == "pending"


async def test_hostile_texts(store: MemoryStore, clock: Clock) -> None:
    """Markup is shown as it was written, and nothing that a terminal obeys gets to the screen."""
    nasty = "[bold]x[/bold] \x1b[2J\x1b]0;t\x07 \u202egnp.exe [@click=app.quit]y[/]"
    question = Question(nasty, nasty, (Option(nasty, nasty), Option("b" * 3000)))
    await store.append(
        "s1", [{"event": "text", "text": nasty}, {"event": "tool_announced", "tool": nasty, "ask": None}]
    )
    await put(store, clock, "q1", question)
    async with app(store, clock) as (shown, pilot):
        rows = await until(shown, pilot, "[bold]x[/bold]", "1-2 choose")
        await pilot.press("t")
        await until(shown, pilot, "Enter send")
        rows += screen(shown)
    text = "".join(rows)
    assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert "[@click" in text


# -- what fails ----------------------------------------------------------------------------------------------------


async def test_a_decision_that_cannot_be_stored(
    store: MemoryStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The card comes back and says why; meanwhile the screen goes on, and nothing is decided twice."""
    await put(store, clock, "q1", DATABASE)
    held, calls, resolve = anyio.Event(), list[str](), store.resolve

    async def failing(ask_id: str, *args: Any, **more: Any) -> Any:
        calls.append(ask_id)
        if len(calls) > 1:
            return await resolve(ask_id, *args, **more)
        await held.wait()
        raise InboxError("the inbox cannot be written: disk is full")

    monkeypatch.setattr(store, "resolve", failing)
    async with app(store, clock) as (shown, pilot):
        await until(shown, pilot, "1-2 choose")
        await pilot.press("1", "1", "tab", "tab", "1")
        await put(store, clock, "q2", PARTS, session_id="s2")
        await until(shown, pilot, "2 questions wait")
        assert calls == ["q1"]
        held.set()
        await until(shown, pilot, "disk is full", "1-2 choose")
        await pilot.press("1")
        await settled(store, pilot, "q1", "answered")
    assert calls == ["q1", "q1"]


async def test_an_inbox_that_fails(
    store: MemoryStore, clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The screen ends and has the reason for whoever runs it; no traceback is printed."""

    async def failing() -> Any:
        raise InboxError("the inbox was removed")

    monkeypatch.setattr(store, "snapshot", failing)
    shown = InboxApp(store, now=clock)
    await shown.run_async(headless=True)
    fault = shown.fault
    while isinstance(fault, ExceptionGroup):
        (fault,) = fault.exceptions
    assert str(fault) == "the inbox was removed"
    assert shown.return_code == 1
    assert "Traceback" not in "".join(capsys.readouterr())
    assert await store.leases() == ()


async def test_a_screen_that_lagged(store: MemoryStore, clock: Clock) -> None:
    """What was over meanwhile does not stay in the list as waiting."""
    await put(store, clock, "q1", DATABASE)
    await put(store, clock, "q2", PARTS)
    async with app(store, clock) as (shown, pilot):
        await until(shown, pilot, "2 questions wait")
        snapshot, before = await store.snapshot(), shown._board.entries["q1"]
        await store.resolve("q1", Skipped("web"))
        await until(shown, pilot, "1 question waits")
        shown._board.entries["q1"] = before  # as where the change was missed
        shown._board.hear(snapshot)
        store._hub.restart(snapshot.seq + 1)
        store._hub._floor += 1  # no change is at hand for it
        shown._following.cancel()
        shown._following = shown.run_worker(shown._follow())
        await until(shown, pilot, "1 question waits")


def test_older_news_is_not_taken(clock: Clock) -> None:
    """What is known is younger than a snapshot or a change that comes late."""
    entry = Entry(ask_of(now=clock.now), "claude", "h", number=1, seq=5, state="delivered")
    board = Board({"q1": entry})
    late = evolve(entry, seq=3, state="pending")
    board.hear(Snapshot(3, (late,), ()))
    board.hear(EntryChanged(3, late))
    assert board.waiting == ()
    board.hear(EntryChanged(6, evolve(late, seq=6)))
    assert len(board.waiting) == 1


def test_what_is_long_over_is_forgotten(clock: Clock) -> None:
    """A screen that stays open keeps what waits and the last of what is over."""
    board = Board()
    for number in range(1, 26):
        state: State = "pending" if number == 1 else "skipped"
        entry = Entry(ask_of(f"q{number}", now=clock.now), "", "h", number=number, seq=number, state=state)
        board.hear(EntryChanged(number, entry))
        board.forget(5)
    assert [entry.id for entry in board.waiting] == ["q1"]
    assert 5 <= len(board.over) <= 10
    assert board.over[0].id == "q25"


async def test_a_long_conversation(store: MemoryStore, clock: Clock) -> None:
    """Its end is shown, and laid out once and not at every tick."""
    await store.append("s1", [{"event": "text", "text": "word " * 200_000 + "the end of it"}])
    await put(store, clock, "q1", DATABASE)
    async with app(store, clock) as (shown, pilot):
        await until(shown, pilot, "the end of it", "1-2 choose")
        drawn: list[object] = []
        shown._said.update = drawn.append  # type: ignore[method-assign, assignment]
        shown._draw()
        assert drawn == []
    lines = transcript(place(await store.events("s1"), await store.entries()))
    assert [text for line in lines for _, text in line if "what came before is not shown" in text]
    assert sum(len(text) for line in lines for _, text in line) < 50_000


async def test_what_was_typed_stays_while_another_is_looked_at(store: MemoryStore, clock: Clock) -> None:
    """Words that were begun are there again when the operator comes back."""
    await put(store, clock, "q1", DATABASE)
    await put(store, clock, "q2", PARTS, session_id="s2")
    async with app(store, clock) as (shown, pilot):
        await until(shown, pilot, "1-2 choose")
        await pilot.press("t", *"Maria")
        await until(shown, pilot, "Maria")
        await pilot.press("tab", "down")
        await until(shown, pilot, "Which parts", lacks="Maria")
        await pilot.press("up", "tab")
        await until(shown, pilot, "Maria")
        await pilot.press("t", "D", "B", "enter")
        assert await settled(store, pilot, "q1", "answered") == Answered((Answer((), "MariaDB"),), "terminal")


async def test_what_nobody_decided_is_not_called_skipped(store: MemoryStore, clock: Clock) -> None:
    """An ask whose host died, or whose agent gave up, says just that."""
    ask = await put(store, clock, "q1", DATABASE)
    await store.settle(ask.id, Abandoned("agent"))
    host = await store.join()
    await store.put(ask_of("q2", "s3", DATABASE, now=clock.now), host.id)
    host.release()
    async with app(store, clock) as (shown, pilot):
        rows = await until(shown, pilot, "the host that waited for the answer is gone")
        assert "skipped" not in "".join(rows)


@pytest.mark.parametrize("size", [(100, 30), (60, 24), (30, 12)])
async def test_how_it_looks(store: MemoryStore, clock: Clock, size: tuple[int, int]) -> None:
    """The screen is the one that was looked at. After a change that is meant, WRITE_GOLDEN=1 writes it anew."""
    await store.append(
        "s1",
        [
            {"event": "text", "text": "I set the service up. There is no database yet.\n"},
            {"event": "tool_announced", "tool": "Read", "tool_call_id": "t0", "ask": None},
            {"event": "tool_announced", "tool": "Ask", "tool_call_id": "t1", "ask": "supplied"},
        ],
    )
    await put(store, clock, "q0", DATABASE, session_id="s2")
    await store.resolve("q0", first("web:alice"))
    await store.settle("q0", first("web:alice"))
    clock.forward(100)
    await put(store, clock, "q1", DATABASE, call="t1", wait=300)
    await put(store, clock, "q2", PARTS, session_id="s2", wait=None)
    clock.forward(41)
    golden = GOLDEN / f"fullscreen-{size[0]}x{size[1]}.txt"
    async with app(store, clock, size) as (shown, pilot):
        await until(shown, pilot, "PostgreSQL", "waits for an answer" if size[1] > 12 else "PostgreSQL")
        if os.environ.get("WRITE_GOLDEN"):
            await pilot.pause()
            golden.parent.mkdir(exist_ok=True)
            golden.write_text("\n".join(screen(shown)) + "\n", encoding="utf-8")
        looks = golden.read_text(encoding="utf-8").splitlines()
        with anyio.move_on_after(30):
            while (rows := screen(shown)) != looks:  # all of it need not be drawn at once
                await pilot.pause()
    assert rows == looks
    assert all(len(row) <= size[0] for row in rows)
