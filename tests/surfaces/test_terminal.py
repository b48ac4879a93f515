"""The terminal prompter, key by key, on a terminal that understands what it writes."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import termios
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opask.errors import SurfaceError
from opask.outcomes import Abandoned, Answered, Cancelled, Outcome, Reply, Skipped, TimedOut, Unavailable
from opask.prompter import Prompter
from opask.questions import Answer, Ask, Option, Question
from opask.surfaces.card import Card
from opask.surfaces.terminal import TerminalPrompter
from surfaces.stage import DATABASE, NAME, PARTS, Stage, Typist, ask_of, terminal

ENTER, ESC, CTRL_C, UP, DOWN, LEFT = "\r", "\x1b", "\x03", "\x1b[A", "\x1b[B", "\x1b[D"
LONG = timedelta(hours=1)
HOSTILE = "\x1b]0;pwned\x07\x1b[2J\x1b[31mred\x9b31m\u202egnp\u200b\r\x08\x00 [b]"


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio, which prompt_toolkit needs."""
    return "asyncio"


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Set up a terminal of 80 by 24 on which a key counts as soon as its question is drawn."""
    with Stage() as stage:
        yield stage


class Asked:
    """An ask under way, and its reply."""

    reply: Reply | None = None
    done: anyio.Event

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.scope = anyio.CancelScope()


@asynccontextmanager
async def asking(prompter: TerminalPrompter, *asks: Ask) -> AsyncIterator[list[Asked]]:
    """Have asks under way, in this order; all have ended at the end."""
    under_way = [Asked() for _ in asks]

    async def run(ask: Ask, asked: Asked) -> None:
        with asked.scope:
            asked.reply = await prompter.ask(ask)
        asked.done.set()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for ask, asked in zip(asks, under_way, strict=True):
                tasks.start_soon(run, ask, asked)
            yield under_way


async def answer(stage: Stage, ask: Ask, *steps: tuple[str, str]) -> Reply | None:
    """Show an ask; for each step wait for a text, then press keys; give the reply."""
    async with asking(stage.prompter, ask) as (asked,):
        for text, keys in steps:
            await stage.until(text)
            stage.keys(keys)
    return asked.reply


def answered(*answers: Answer | None) -> Answered:
    """Give what the prompter returns for these answers."""
    return Answered(answers, "terminal")


# -- one option ------------------------------------------------------------------------------------------------


def test_it_is_a_prompter(stage: Stage) -> None:
    """The terminal prompter keeps the prompter's contract."""
    assert isinstance(stage.prompter, Prompter)


@pytest.mark.parametrize(
    ("keys", "position"),
    [
        ("2", 1),
        (ENTER, 0),
        (" ", 0),
        (DOWN + ENTER, 1),
        (DOWN + " ", 1),
        ("j" + ENTER, 1),
        ("\t" + ENTER, 1),
        (DOWN + UP + ENTER, 0),
        (DOWN + "\x1b[Z" + ENTER, 0),
    ],
)
async def test_an_option_is_chosen(stage: Stage, keys: str, position: int) -> None:
    """A number chooses an option at once; arrows move to one, and Enter or Space chooses it."""
    reply = await answer(stage, ask_of(DATABASE), ("t type", keys))
    assert reply == answered(Answer((position,)))


async def test_the_card_shows_the_question_and_what_keys_do(stage: Stage) -> None:
    """The open card shows header, asker, question, options with descriptions, other words and the keys."""
    async with asking(stage.prompter, ask_of(DATABASE, deadline=datetime.now(UTC) + LONG)):
        await stage.until("Ctrl-C cancel")
        shown = stage.tube.text
        stage.keys("1")
    assert shown.split("\n") == [
        shown.split("\n")[0],
        "│ Which database should the service use?",
        "│",
        "│ ❯ 1 PostgreSQL  A server to run",
        "│   2 SQLite      One file",
        "│   t Other: type your own answer",
        "│",
        "╰ 1-2 choose · t type · s skip · ↑↓ Enter · Ctrl-C cancel",
    ]
    assert re.fullmatch(r"╭ Database ─+ agent · (1:00:00|59:\d\d) left", shown.split("\n")[0])


async def test_the_answered_card_stays_as_a_block(stage: Stage) -> None:
    """Only the question and its answer stay, below what was there before and above what comes next."""
    stage.prompter.write("before\n")
    await answer(stage, ask_of(DATABASE), ("t type", "2"))
    stage.prompter.write("after\n")
    assert stage.tube.text.split("\n") == [
        "before",
        "│ Database  Which database should the service use?",
        "│ ✓ SQLite",
        "after",
    ]


async def test_a_number_of_no_option_answers_nothing(stage: Stage) -> None:
    """A number that no option has leaves the question open and says so."""
    reply = await answer(
        stage, ask_of(DATABASE), ("t type", "7"), ("There is no option 7.", "0"), ("option 0", "1")
    )
    assert reply == answered(Answer((0,)))


async def test_many_options_are_reached_by_their_numbers(stage: Stage) -> None:
    """With more than nine options, digits move the focus and Enter chooses."""
    many = Question("Which?", options=tuple(Option(f"Option {n}") for n in range(1, 31)))
    reply = await answer(stage, ask_of(many), ("1-30 go to", "2"), ("❯  2", "7"), ("❯ 27", ENTER))
    assert reply == answered(Answer((26,)))


# -- several options -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "positions"),
    [
        (" " + DOWN + DOWN + " " + ENTER, (0, 2)),
        ("31" + ENTER, (2, 0)),
        ("122" + ENTER, (0,)),
        (DOWN + " " + UP + "1" + ENTER, (1, 0)),
    ],
)
async def test_several_options_are_marked_then_sent(
    stage: Stage, keys: str, positions: tuple[int, ...]
) -> None:
    """Space and numbers mark and unmark, Enter sends what is marked in the order it was marked."""
    reply = await answer(stage, ask_of(PARTS), ("Enter done", keys))
    assert reply == answered(Answer(positions))


async def test_nothing_marked_is_no_answer(stage: Stage) -> None:
    """Enter with nothing marked tells so and leaves the question open, whatever is in focus."""
    reply = await answer(stage, ask_of(PARTS), ("Enter done", ENTER), ("Nothing is marked", " " + ENTER))
    assert reply == answered(Answer((0,)))


async def test_words_stand_beside_marked_options(stage: Stage) -> None:
    """Where several may be chosen, the operator's own words go along with the marked options."""
    steps = [("Enter done", "1t"), ("Enter keep", "and tests" + ENTER), ("[x] Other: and tests", ENTER)]
    reply = await answer(stage, ask_of(PARTS), *steps)
    assert reply == answered(Answer((0,), "and tests"))
    assert "│ ✓ API  ✓ “and tests”" in stage.tube.text


# -- words -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", ["t", DOWN + DOWN + ENTER, DOWN + DOWN + " "])
async def test_words_can_always_be_typed(stage: Stage, keys: str) -> None:
    """A key, and a row of its own, open a text field; Enter sends what is typed there."""
    reply = await answer(stage, ask_of(DATABASE), ("t type", keys), ("Enter send", "neither, 1 file" + ENTER))
    assert reply == answered(Answer((), "neither, 1 file"))
    assert "│ ✓ “neither, 1 file”" in stage.tube.text


async def test_a_question_without_options_takes_words_at_once(stage: Stage) -> None:
    """A free-text question opens with its text field, where letters are letters."""
    reply = await answer(stage, ask_of(NAME), ("Enter send", "tsj 1" + ENTER))
    assert reply == answered(Answer((), "tsj 1"))


async def test_blank_words_are_no_answer(stage: Stage) -> None:
    """Enter on an empty text field tells so and leaves the question open."""
    reply = await answer(
        stage, ask_of(NAME), ("Enter send", "  " + ENTER), ("Nothing is typed yet.", "x" + ENTER)
    )
    assert reply == answered(Answer((), "  x"))


async def test_words_are_kept_while_looking_back(stage: Stage) -> None:
    """Esc goes from the text back to the options; what was typed is there again later."""
    steps = [
        ("t type", "t"),
        ("Enter send", "half"),
        ("❯ half", ESC),
        ("Other: half", "t"),
        ("❯ half", " done" + ENTER),
    ]
    assert await answer(stage, ask_of(DATABASE), *steps) == answered(Answer((), "half done"))


async def test_words_may_have_lines(stage: Stage) -> None:
    """Alt-Enter starts a new line; a pasted newline is text and sends nothing."""
    paste = "\x1b[200~three\nfour\x1b[201~"
    reply = await answer(stage, ask_of(NAME), ("Enter send", f"one{ESC}{ENTER}two " + paste), ("four", ENTER))
    assert reply == answered(Answer((), "one\ntwo three\nfour"))


async def test_words_of_broken_bytes_can_be_sent_on(stage: Stage) -> None:
    """Bytes that are no UTF-8 become replacement characters and never lone surrogates."""
    async with asking(stage.prompter, ask_of(NAME)) as (asked,):
        await stage.until("Enter send")
        stage.input.send_bytes(b"caf\xe9!")
        await stage.until("!")
        stage.keys(ENTER)
    assert asked.reply == answered(Answer((), "caf\ufffd!"))


# -- skip and cancel -------------------------------------------------------------------------------------------


async def test_s_skips(stage: Stage) -> None:
    """One key skips, and the block says so."""
    assert await answer(stage, ask_of(DATABASE), ("s skip", "s")) == Skipped("terminal")
    assert "│ – skipped" in stage.tube.text


async def test_a_skipped_question_does_not_skip_the_others(stage: Stage) -> None:
    """Questions of an ask are skipped one by one."""
    reply = await answer(stage, ask_of(DATABASE, PARTS), ("1 of 2", "s"), ("2 of 2", "2" + ENTER))
    assert reply == answered(None, Answer((1,)))


@pytest.mark.parametrize("yes", ["y", "Y", ESC])
async def test_escape_skips_once_confirmed(stage: Stage, yes: str) -> None:
    """Esc asks whether to skip; y or Esc again does it."""
    reply = await answer(stage, ask_of(DATABASE), ("s skip", ESC), ("Skip this question?", yes))
    assert reply == Skipped("terminal")


@pytest.mark.parametrize("no", ["n", ENTER, "1", DOWN])
async def test_escape_can_be_taken_back(stage: Stage, no: str) -> None:
    """Any other key goes back to the question, and is not an answer to it."""
    async with asking(stage.prompter, ask_of(DATABASE)) as (asked,):
        await stage.until("s skip")
        stage.keys(ESC)
        await stage.until("Skip this question?")
        stage.keys(no)
        await stage.until("t type", without="Skip this question?")
        stage.keys("2")
    assert asked.reply == answered(Answer((1,)))


async def test_escape_from_words_alone_asks_to_skip(stage: Stage) -> None:
    """On a free-text question Esc asks whether to skip, and n keeps what was typed."""
    steps = [("Enter send", "half"), ("❯ half", ESC), ("Skip this question?", "n"), ("❯ half", "!" + ENTER)]
    assert await answer(stage, ask_of(NAME), *steps) == answered(Answer((), "half!"))


async def test_alt_with_a_key_is_not_escape_and_that_key(stage: Stage) -> None:
    """Alt-y neither skips nor confirms a skip."""
    reply = await answer(stage, ask_of(DATABASE), ("s skip", ESC + "y" + "2"))
    assert reply == answered(Answer((1,)))


async def test_ctrl_c_cancels_and_tells_the_host(caplog: pytest.LogCaptureFixture) -> None:
    """Ctrl-C cancels the ask and all that wait behind it, takes the card away, and calls the host once they know."""
    waiting: list[Asked] = []
    interrupts: list[list[Reply | None]] = []
    with Stage(on_interrupt=lambda: interrupts.append([each.reply for each in waiting])) as stage:
        asks = [ask_of(DATABASE), ask_of(PARTS, ask_id="ask-2")]
        async with asking(stage.prompter, *asks) as (first, second):
            waiting += [first, second]
            await stage.until("1 more waiting")
            stage.keys(CTRL_C)
        assert first.reply == second.reply == Cancelled("operator")
        await anyio.lowlevel.checkpoint()
        assert interrupts == [[Cancelled("operator")] * 2]
        assert stage.tube.text.split("\n") == [
            "│ Database  Which database should the service use?",
            "│ × cancelled",
        ]
        for ask, asked in zip(asks, (first, second), strict=True):
            assert asked.reply is not None
            stage.prompter.settled(ask, asked.reply)
        assert stage.tube.text.count("\n") == 1
    assert not caplog.records


async def test_ctrl_c_works_everywhere(stage: Stage) -> None:
    """Ctrl-C cancels while text is typed, while a skip is confirmed, and together with Esc."""
    assert await answer(stage, ask_of(DATABASE), ("s skip", ESC + CTRL_C)) == Cancelled("operator")
    assert await answer(stage, ask_of(NAME), ("Enter send", "x" + CTRL_C)) == Cancelled("operator")
    reply = await answer(stage, ask_of(DATABASE), ("s skip", ESC), ("Skip this", CTRL_C))
    assert reply == Cancelled("operator")


async def test_a_host_that_fails_on_an_interrupt_does_not_change_the_reply(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An exception in the host's callback is logged; the ask is cancelled all the same."""

    def fail() -> None:
        raise RuntimeError("the host is broken")

    with Stage(on_interrupt=fail) as stage:
        assert await answer(stage, ask_of(DATABASE), ("s skip", CTRL_C)) == Cancelled("operator")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


# -- typed ahead -----------------------------------------------------------------------------------------------


async def test_keys_from_before_the_card_never_answer(stage: Stage) -> None:
    """What was typed before the question was drawn is no answer to it."""
    stage.keys("1" + ENTER)
    assert await answer(stage, ask_of(DATABASE), ("t type", "2")) == answered(Answer((1,)))


async def test_a_key_right_after_the_card_appears_does_not_count() -> None:
    """Within the guard a key is ignored; Ctrl-C is not."""
    with Stage(guard=LONG) as stage:
        reply = await answer(stage, ask_of(DATABASE), ("SQLite", "1" + ENTER + "2" + CTRL_C))
    assert reply == Cancelled("operator")


async def test_keys_are_named_once_they_count() -> None:
    """The footer is empty while the guard holds, and names the keys from when they work."""
    with Stage(guard=timedelta(seconds=2)) as stage:  # much more than a busy machine takes to look
        async with asking(stage.prompter, ask_of(DATABASE)) as (asked,):
            await stage.until("SQLite")
            assert "choose" not in stage.tube.text
            stage.keys("1")
            await stage.until("1-2 choose")
            stage.keys("2")
    assert asked.reply == answered(Answer((1,)))


async def test_a_double_press_answers_one_question_only(stage: Stage) -> None:
    """A key that comes together with the answer to one question does not answer the next one."""
    reply = await answer(stage, ask_of(DATABASE, DATABASE), ("1 of 2", "11"), ("2 of 2", "2"))
    assert reply == answered(Answer((0,)), Answer((1,)))


async def test_keys_left_over_do_not_reach_the_next_ask(stage: Stage) -> None:
    """A key that comes together with the last answer is gone when the next ask is shown."""
    assert await answer(stage, ask_of(DATABASE), ("t type", "11" + ENTER)) == answered(Answer((0,)))
    reply = await answer(stage, ask_of(PARTS, ask_id="ask-2"), ("Enter done", "3" + ENTER))
    assert reply == answered(Answer((2,)))


# -- several questions, several asks ---------------------------------------------------------------------------


async def test_questions_come_one_after_the_other(stage: Stage) -> None:
    """An ask's questions are shown in turn, and their answers stay together at the end."""
    steps = [("1 of 3", "2"), ("2 of 3", "13" + ENTER), ("3 of 3", "opask" + ENTER)]
    reply = await answer(stage, ask_of(DATABASE, PARTS, NAME), *steps)
    assert reply == answered(Answer((1,)), Answer((0, 2)), Answer((), "opask"))
    assert stage.tube.text.split("\n") == [
        "│ Database  Which database should the service use?",
        "│ ✓ SQLite",
        "│ Parts  Which parts should be done first?",
        "│ ✓ API  ✓ Docs",
        "│ What should it be called?",
        "│ ✓ “opask”",
    ]


async def test_an_earlier_question_can_be_answered_anew(stage: Stage) -> None:
    """Left goes back to the question before."""
    steps = [("1 of 2", "2"), ("← back", LEFT), ("1 of 2", "1"), ("2 of 2", "2" + ENTER)]
    assert await answer(stage, ask_of(DATABASE, PARTS), *steps) == answered(Answer((0,)), Answer((1,)))


async def test_asks_are_shown_one_at_a_time(stage: Stage) -> None:
    """A second ask waits until the first is answered, and the first card says that one waits."""
    async with asking(stage.prompter, ask_of(DATABASE), ask_of(PARTS, ask_id="ask-2")) as (first, second):
        await stage.until("Which database", "1 more waiting")
        assert "Which parts" not in stage.tube.text
        stage.keys("1")
        await stage.until("Which parts", "Enter done")
        assert first.done.is_set()
        stage.keys("1" + ENTER)
    assert first.reply == second.reply == answered(Answer((0,)))


async def test_an_ask_that_ends_in_the_queue_is_never_shown(stage: Stage) -> None:
    """An ask that is cancelled while another is open leaves that one as it is."""
    async with asking(stage.prompter, ask_of(DATABASE), ask_of(PARTS, ask_id="ask-2")) as (first, second):
        await stage.until("1 more waiting")
        second.scope.cancel()
        await second.done.wait()
        stage.keys("2")
    assert (first.reply, second.reply) == (answered(Answer((1,))), None)
    assert "Which parts" not in stage.tube.text


async def test_who_asks_is_told(stage: Stage) -> None:
    """A sub-agent is named; the session is named once there are several."""
    async with asking(stage.prompter, ask_of(DATABASE, agent_id="reviewer")):
        await stage.until("─ sub-agent reviewer\n", "t type")
        stage.keys("1")
    async with asking(stage.prompter, ask_of(PARTS, ask_id="ask-2", session_id="session-2")):
        await stage.until("─ agent in session-2\n", "t type")
        stage.keys("1" + ENTER)


# -- an ask that ends otherwise --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (TimedOut(timedelta(seconds=300)), "Database: nobody answered within 5 min"),
        (Abandoned("agent"), "Database: the agent took the question back"),
        (Abandoned("disconnect"), "Database: the agent's connection ended"),
        (Abandoned("turn_end"), "Database: the agent's turn ended"),
        (Cancelled("host"), "Database: cancelled by the host"),
        (Cancelled("shutdown"), "Database: the host shuts down"),
        (
            Answered((Answer((1,), "or so"),), "web:alice"),
            "Database: answered by web:alice: SQLite + “or so”",
        ),
        (Skipped("web"), "Database: skipped by web"),
    ],
)
async def test_a_withdrawn_ask_takes_its_card_away(stage: Stage, outcome: Outcome, line: str) -> None:
    """The card of a cancelled ask goes, and a line says how the ask ended."""
    ask = ask_of(DATABASE)
    async with asking(stage.prompter, ask) as (asked,):
        await stage.until("t type")
        asked.scope.cancel()
        await asked.done.wait()
        assert stage.tube.text == ""
        stage.prompter.settled(ask, outcome)
    assert asked.reply is None
    assert stage.tube.text == line
    assert await answer(stage, ask_of(PARTS, ask_id="ask-2"), ("Enter done", "1" + ENTER)) == answered(
        Answer((0,))
    )


async def test_a_settled_ask_cannot_be_answered(stage: Stage) -> None:
    """The card goes as soon as the ask is known to have ended, before the wait is cancelled; no key answers it."""
    ask = ask_of(DATABASE)
    async with asking(stage.prompter, ask) as (asked,):
        await stage.until("t type")
        stage.keys("1")
        stage.prompter.settled(ask, TimedOut(timedelta(seconds=2)))
    assert asked.reply == Cancelled("host")
    assert stage.tube.text == "Database: nobody answered within 2 s"


async def test_the_native_cancellation_of_a_task_leaves_the_terminal_sane(stage: Stage) -> None:
    """An ask whose asyncio task is cancelled, even twice, takes its card away and stays cancelled."""
    task = asyncio.ensure_future(stage.prompter.ask(ask_of(DATABASE)))
    await stage.until("t type")
    task.cancel()
    asyncio.get_running_loop().call_soon(task.cancel)
    with anyio.fail_after(30), pytest.raises(asyncio.CancelledError):
        await task
    assert stage.tube.text == ""
    assert stage.tube.wraps


async def test_an_ask_cancelled_before_it_is_drawn_draws_nothing(stage: Stage) -> None:
    """An ask in a scope that is cancelled already ends without a card."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        await stage.prompter.ask(ask_of(DATABASE))
    assert stage.tube.written == ""


async def test_an_answer_that_came_too_late_is_told(stage: Stage) -> None:
    """An operator whose answer did not reach the agent is told so."""
    ask = ask_of(DATABASE)
    await answer(stage, ask, ("t type", "1"))
    stage.prompter.settled(ask, Abandoned("turn_end"))
    assert stage.tube.text.endswith("\nDatabase: your answer came too late, the agent's turn ended")


async def test_an_ask_that_ended_as_answered_here_needs_no_line(stage: Stage) -> None:
    """Nothing more is printed for an ask whose answer counted."""
    ask = ask_of(DATABASE)
    reply = await answer(stage, ask, ("t type", "1"))
    assert reply is not None
    before = stage.tube.text
    stage.prompter.settled(ask, reply)
    assert stage.tube.text == before


async def test_a_terminal_that_goes_away_makes_the_ask_unavailable(stage: Stage) -> None:
    """Where keys cannot come any more, the ask ends, and nobody is available from then on."""
    async with asking(stage.prompter, ask_of(DATABASE)) as (asked,):
        await stage.until("t type")
        stage.input.close()
    assert isinstance(asked.reply, Unavailable)
    assert not stage.prompter.available("session-1")


async def test_an_error_in_drawing_ends_the_ask(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken card raises out of the ask instead of leaving it open for ever."""

    def fail(*args: object, **more: object) -> None:
        raise ZeroDivisionError("broken")

    monkeypatch.setattr(Card, "render", fail)
    with anyio.fail_after(30), pytest.raises(ZeroDivisionError, match="broken"):
        await stage.prompter.ask(ask_of(DATABASE))


async def test_an_error_in_a_key_ends_the_ask(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key whose handling fails raises out of the ask."""

    def fail(*args: object) -> None:
        raise ZeroDivisionError("broken")

    monkeypatch.setattr(Card, "down", fail)
    with pytest.raises(ExceptionGroup) as caught:
        await answer(stage, ask_of(DATABASE), ("t type", DOWN))
    assert caught.group_contains(ZeroDivisionError, match="broken")
    assert stage.tube.text == ""


# -- the turn streams on ---------------------------------------------------------------------------------------


async def test_the_turn_streams_above_an_open_card(stage: Stage) -> None:
    """Text that is written while a card is open stands above it, whole and in order; the card stays the last."""
    async with asking(stage.prompter, ask_of(DATABASE)):
        await stage.until("t type")
        for number in range(200):
            stage.prompter.write(f"line {number}\n")
            if number % 7 == 0:
                await anyio.lowlevel.checkpoint()
        await stage.until("line 199\n╭ Database", "t type")
        lines = stage.tube.text.split("\n")
        assert lines[:200] == [f"line {number}" for number in range(200)]
        assert lines[200].startswith("╭ Database")
        assert lines[-1].startswith("╰")
        stage.keys("1")
    assert stage.tube.text.split("\n")[200:] == [
        "│ Database  Which database should the service use?",
        "│ ✓ PostgreSQL",
    ]


async def test_an_unfinished_line_is_shown_and_stays_whole(stage: Stage) -> None:
    """The start of a line stands above the card at once, and its end comes onto the same line, also after the card."""
    async with asking(stage.prompter, ask_of(DATABASE)):
        await stage.until("t type")
        stage.prompter.write("one ")
        await stage.until("one\n╭ Database")
        stage.prompter.write("two\nthree ")
        await stage.until("one two\nthree\n╭ Database")
        stage.keys("1")
    stage.prompter.write("four\n")
    assert stage.tube.text.split("\n") == [
        "one two",
        "│ Database  Which database should the service use?",
        "│ ✓ PostgreSQL",
        "three four",
    ]


async def test_a_card_starts_on_a_line_of_its_own(stage: Stage) -> None:
    """Where the turn stopped in the middle of a line, the card does not overwrite it."""
    stage.prompter.write("I have a question")
    await answer(stage, ask_of(DATABASE), ("t type", "1"))
    assert stage.tube.text.split("\n")[:2] == [
        "I have a question",
        "│ Database  Which database should the service use?",
    ]


async def test_lines_from_many_threads_are_all_there(stage: Stage) -> None:
    """Writing from any thread loses no line and tears none, before, while and after a card is open."""

    def write(name: str) -> None:
        for number in range(50):
            stage.prompter.write(f"{name} {number}\n")

    async with asking(stage.prompter, ask_of(DATABASE)):
        await stage.until("t type")
        async with anyio.create_task_group() as tasks:
            for name in "abcd":
                tasks.start_soon(anyio.to_thread.run_sync, write, name)
        stage.keys("1")
    lines = stage.tube.text.split("\n")
    for name in "abcd":
        assert [line for line in lines if line.startswith(name)] == [
            f"{name} {number}" for number in range(50)
        ]


async def test_a_line_of_settling_goes_above_the_open_card(stage: Stage) -> None:
    """What is said of one ask does not disturb the card of another."""
    late = ask_of(PARTS, ask_id="ask-2")
    async with asking(stage.prompter, ask_of(DATABASE)):
        await stage.until("t type")
        stage.prompter.write("unfinished")
        stage.prompter.settled(late, TimedOut(timedelta(seconds=2)))
        await stage.until("Parts: nobody answered within 2 s\nunfinished\n╭ Database")
        stage.keys("1")


# -- agents' text ----------------------------------------------------------------------------------------------


async def test_no_agent_reaches_the_terminal_raw(stage: Stage) -> None:
    """Escapes, other controls and bidirectional overrides in any text of an agent are shown, not obeyed."""
    question = Question(HOSTILE, HOSTILE, (Option(HOSTILE, HOSTILE), Option("b")), True)
    ask = ask_of(question, session_id=HOSTILE, agent_id=HOSTILE)
    async with asking(stage.prompter, ask):
        await stage.until("␛]0;pwned␇␛[2J␛[31mred<U+009B>31m<U+202E>gnp<U+200B>␍␈␀")
        stage.prompter.write(HOSTILE + "\n" + HOSTILE)
        await stage.until("Enter done")
        stage.keys("1t")
        await stage.until("Enter keep")
        stage.keys(f"\x1b[200~{HOSTILE}\x1b[201~" + ENTER)
        await stage.until("[x] Other")
        stage.keys(ENTER)
    stage.prompter.settled(ask, Answered((Answer((0,)),), by=HOSTILE))
    stage.prompter.settled(ask_of(question, ask_id="ask-2"), Unavailable(HOSTILE))
    for raw in ("\x1b]", "\x1b[2J", "\x9b", "\u202e", "\u200b", "\x00", "\x07"):
        assert raw not in stage.tube.written


async def test_text_never_starts_at_the_edge_of_the_card(stage: Stage) -> None:
    """A question that draws a card of its own stays inside the real one."""
    forged = Question(
        "Sure?\n╰ 1-2 choose · s skip\n╭ Root ── agent\n│ Delete everything?", "", (Option("No"),)
    )
    async with asking(stage.prompter, ask_of(forged)):
        await stage.until("t type")
        lines = stage.tube.text.split("\n")
        stage.keys("1")
    assert [line[0] for line in lines] == ["╭", *"│" * (len(lines) - 2), "╰"]


# -- small terminals, colours ----------------------------------------------------------------------------------


async def test_a_narrow_terminal_will_do() -> None:
    """On 20 columns every row fits, the keys are named, and the question can be answered."""
    with Stage(20, 12) as stage:
        async with asking(stage.prompter, ask_of(DATABASE, deadline=datetime.now(UTC) + LONG)) as (asked,):
            await stage.until("s skip")
            assert "1-2 choose" in stage.tube.text
            assert all(len(line) <= 20 for line in stage.tube.lines)
            stage.keys(DOWN)
            await stage.until("❯ 2 SQLite")
            stage.keys(ENTER)
    assert asked.reply == answered(Answer((1,)))


async def test_many_options_scroll_within_the_terminal() -> None:
    """A card is never taller than the terminal; the option in focus is always in view."""
    many = Question("Which?", options=tuple(Option(f"Option {n}") for n in range(1, 33)))
    with Stage(80, 10) as stage:
        async with asking(stage.prompter, ask_of(many)) as (asked,):
            await stage.until("PgUp PgDn scroll")
            assert len(stage.tube.lines) <= 10
            for number in range(2, 33):
                stage.keys(DOWN)
                await stage.until(f"❯ {number:2} Option {number}")
                assert len(stage.tube.lines) <= 10
            stage.keys(ENTER)
    assert asked.reply == answered(Answer((31,)))


async def test_an_option_out_of_view_is_not_chosen_blindly() -> None:
    """A number of an option that cannot be seen brings it into view; pressed again, it chooses."""
    tall = Question("Which?", options=tuple(Option(f"Option {n}", "more " * 40) for n in range(1, 10)))
    with Stage(40, 12) as stage:
        reply = await answer(stage, ask_of(tall), ("PgUp PgDn scroll", "9"), ("❯ 9 Option 9", "9"))
    assert reply == answered(Answer((8,)))


KEYS = st.lists(
    st.sampled_from(
        [UP, DOWN, LEFT, ENTER, ESC, "\x1b[5~", "\x1b[6~", "\t", " ", "t", "s", "y", "n", *"0123456789"]
    )
    | st.integers(0, 0x7F).filter(lambda code: code != 3).map(chr)
    | st.sampled_from(["é", "漢", "\x1b[200~pasted\n\x1b[201~", "\x1bOP", "\x1b[1;5C", "\x18\x05", "\x12a"]),
    max_size=40,
)


@settings(max_examples=20)
@given(KEYS, st.booleans())
async def test_no_keys_break_a_card(keys: list[str], at_once: bool) -> None:
    """Whatever is pressed, the ask ends by an answer, a skip or at last Ctrl-C, and the terminal is sane."""
    with Stage(50, 14) as stage:
        async with asking(stage.prompter, ask_of(DATABASE, PARTS, NAME)) as (asked,):
            await stage.until("choose")
            for part in ["".join(keys)] if at_once else keys:
                stage.keys(part)
                await anyio.wait_all_tasks_blocked()
            stage.keys(CTRL_C)
        assert isinstance(asked.reply, Answered | Skipped | Cancelled)
        assert stage.tube.wraps
        assert "╭" not in stage.tube.text


def colours(written: str) -> set[str]:
    """Give the colour codes in what was written."""
    codes = {code for codes in re.findall(r"\x1b\[([\d;]*)m", written) for code in codes.split(";")}
    return {code for code in codes if re.fullmatch(r"[349][0-8]|10[0-7]", code)}


@pytest.mark.parametrize(("setting", "coloured"), [("1", False), ("", True), (None, True)])
async def test_no_color_is_heeded(
    monkeypatch: pytest.MonkeyPatch, setting: str | None, coloured: bool
) -> None:
    """Where NO_COLOR is set and not empty, nothing is coloured; else something is."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    if setting is not None:
        monkeypatch.setenv("NO_COLOR", setting)
    with Stage() as stage:
        stage.prompter.write("careful\n", "warning")
        await answer(stage, ask_of(DATABASE), ("t type", "1"))
    assert bool(colours(stage.tube.written)) is coloured


# -- loops, threads, terminals ---------------------------------------------------------------------------------


def test_a_loop_in_another_thread_can_ask(stage: Stage) -> None:
    """The prompter works on an asyncio loop outside the main thread."""
    replies: list[Reply | None] = []
    thread = threading.Thread(
        target=lambda: replies.append(asyncio.run(answer(stage, ask_of(DATABASE), ("t type", "2"))))
    )
    thread.start()
    thread.join(60)
    assert replies == [answered(Answer((1,)))]


def test_without_asyncio_the_error_is_clear(stage: Stage) -> None:
    """On trio the prompter says what it needs."""
    with pytest.raises(SurfaceError, match="needs asyncio"):
        anyio.run(stage.prompter.ask, ask_of(DATABASE), backend="trio")


async def test_a_second_loop_is_refused(stage: Stage) -> None:
    """While asks of one loop are open, an ask from another loop is an error and leaves them alone."""

    def ask_elsewhere() -> Reply:
        return asyncio.run(stage.prompter.ask(ask_of(PARTS, ask_id="ask-2")))

    async with asking(stage.prompter, ask_of(DATABASE)) as (asked,):
        await stage.until("t type")
        with pytest.raises(SurfaceError, match="one event loop at a time"):
            await anyio.to_thread.run_sync(ask_elsewhere)
        stage.keys("1")
    assert asked.reply == answered(Answer((0,)))


@pytest.mark.parametrize("way", ["answered", "interrupted", "cancelled", "broken"])
async def test_the_terminal_is_left_as_it_was(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However an ask ends, the terminal's modes are what they were, with the cursor shown and lines wrapping."""
    with terminal() as (master, stdin, stdout), Typist(master) as typist:
        prompter = TerminalPrompter(stdin=stdin, stdout=stdout, guard=timedelta(0))
        before = termios.tcgetattr(stdin.fileno())
        broken = pytest.raises(ZeroDivisionError) if way == "broken" else None

        async def leave(asked: Asked) -> None:
            await typist.until("skip")
            assert termios.tcgetattr(stdin.fileno()) != before
            if way == "cancelled":
                asked.scope.cancel()
            elif way == "broken":
                monkeypatch.setattr(Card, "render", lambda *args, **more: 1 / 0)
                typist.type(DOWN)
            else:
                typist.type({"answered": "1", "interrupted": CTRL_C}[way])

        async def run() -> None:
            async with asking(prompter, ask_of(DATABASE)) as (asked,):
                await leave(asked)

        if broken is None:
            await run()
        else:
            with pytest.raises(ExceptionGroup) as caught:
                await run()
            assert caught.group_contains(ZeroDivisionError)
        assert termios.tcgetattr(stdin.fileno()) == before
        prompter.write("the end\n")
        await typist.until("the end")
        for mode, setting in ((b"25", b"h"), (b"7", b"h"), (b"2004", b"l")):
            assert re.findall(rb"\x1b\[\?(?:12l\x1b\[\?)?" + mode + rb"([hl])", typist.seen)[-1:] in (
                [],
                [setting],
            )


async def test_what_was_typed_ahead_on_a_terminal_is_dropped() -> None:
    """Whole lines and half ones that wait in the terminal when a card opens are no answer."""
    with terminal() as (master, stdin, stdout), Typist(master) as typist:
        prompter = TerminalPrompter(stdin=stdin, stdout=stdout, guard=timedelta(0))
        typist.type("1\n1\n11")
        await typist.until("11")  # the terminal has echoed it, so it is in its buffer
        async with asking(prompter, ask_of(DATABASE)) as (asked,):
            await typist.until("skip")
            typist.type("2")
    assert asked.reply == answered(Answer((1,)))


async def test_a_terminal_that_hangs_up_makes_the_ask_unavailable() -> None:
    """When the other end of the terminal is closed, the ask ends as unavailable and nothing hangs."""
    with terminal() as (master, stdin, stdout):
        prompter = TerminalPrompter(stdin=stdin, stdout=stdout, guard=timedelta(0))
        assert prompter.available("session-1")
        async with asking(prompter, ask_of(DATABASE)) as (asked,):
            with Typist(master) as typist:
                await typist.until("skip")
            master.close()
        assert isinstance(asked.reply, Unavailable)
        assert not prompter.available("session-1")
        prompter.write("to nobody\n")


async def test_an_operator_is_there_while_both_ends_are_terminals(tmp_path: object) -> None:
    """Available says whether there is a terminal to read from and one to draw on."""
    reader, writer = os.pipe()
    with terminal() as (_, stdin, stdout), os.fdopen(reader) as pipe, os.fdopen(writer, "w") as sink:
        assert TerminalPrompter(stdin=stdin, stdout=stdout).available("session-1")
        assert not TerminalPrompter(stdin=stdin, stdout=sink).available("session-1")
        with Stage() as stage:
            piped = TerminalPrompter(stdin=pipe, stdout=stdout, input=stage.input)
            assert not piped.available("session-1")
