"""An ask, from the call to its one outcome."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import anyio
import pytest

from bridge_peers import ONE, OTHER, Held, Peer, PlainAdapter, attach, connected, opened, text_of
from opask import (
    Abandoned,
    Answer,
    Answered,
    Ask,
    Cancelled,
    Event,
    LaunchRequest,
    Outcome,
    Reply,
    Sentences,
    Skipped,
    TimedOut,
    Unavailable,
    use_prompter,
)
from opask.bridge import Bridge, Session
from opask.events import AnswerRefused, QuestionAsked, QuestionResolved
from opask.testing import Agent, Scripted

GRACE = timedelta(milliseconds=200)


@pytest.fixture
async def bridge(anyio_backend: Any) -> AsyncIterator[Bridge]:
    """A bridge with a short grace, on the backend that the test runs on."""
    async with Bridge(grace=GRACE, heartbeat=timedelta(milliseconds=20), max_pending=3) as bridge:
        yield bridge


@pytest.fixture
def held() -> Held:
    """An operator who answers when the test says so."""
    return Held()


@pytest.fixture
async def session(bridge: Bridge, held: Held) -> AsyncIterator[Session]:
    """A session whose launch is planned."""
    async with await attach(bridge, "s", PlainAdapter(), held) as session:
        session.plan_launch(LaunchRequest(["runtime"]))
        yield session


@pytest.fixture
async def patient(anyio_backend: Any, held: Held) -> AsyncIterator[Session]:
    """The same, with a grace that no load makes too short."""
    async with (
        Bridge(grace=timedelta(seconds=20)) as bridge,
        await attach(bridge, "s", PlainAdapter(), held) as session,
    ):
        session.plan_launch(LaunchRequest(["runtime"]))
        yield session


def listen(session: Session) -> list[Event]:
    """Collect the session's events from here on."""
    events: list[Event] = []
    session.subscribe(events.append)
    return events


async def test_an_answer_reaches_the_agent_as_text_and_as_structure(session: Session, held: Held) -> None:
    """The label the operator chose comes back in both forms, and is settled as answered once it was written."""
    events = listen(session)
    async with connected(session) as peer:
        call = await peer.call(ONE, meta={"test/call": "toolu_1"})
        ask = await held.next()
        assert ask.tool_call_id == "toolu_1"
        assert [waiting.id for waiting in session.pending] == [ask.id]
        held.reply(ask)
        response = await peer.response(call)
        assert response["result"]["structuredContent"] == {"answers": {"Which?": "a"}}
        assert json.loads(text_of(response)) == {"answers": {"Which?": "a"}}
        assert response["result"]["isError"] is False
        assert await held.outcome() == [Answered((Answer((0,)),), "test")]
    assert not session.pending
    asked, resolved = events
    assert isinstance(asked, QuestionAsked)
    assert isinstance(resolved, QuestionResolved)
    assert (asked.seq, resolved.seq) == (1, 2)
    assert (resolved.question_id, resolved.tool_call_id) == (ask.id, "toolu_1")
    assert (resolved.outcome, resolved.answers, resolved.by) == ("answered", {"Which?": "a"}, "test")


@pytest.mark.parametrize(
    ("reply", "is_error"),
    [(Skipped("test"), False), (Unavailable("gone home"), True), (Cancelled("operator"), True)],
)
async def test_a_reply_without_an_answer_is_told_by_its_sentence(
    session: Session, held: Held, reply: Reply, is_error: bool
) -> None:
    """Skip is no error, the others are, and each has its sentence."""
    async with connected(session) as peer:
        call = await peer.call(ONE)
        held.reply(await held.next(), reply)
        response = await peer.response(call)
        assert response["result"]["isError"] is is_error
        assert text_of(response) == Sentences().for_outcome(reply)
        assert await held.outcome() == [reply]


async def test_a_host_sets_its_own_sentence(bridge: Bridge, held: Held) -> None:
    """The agent is told what the host chose for an outcome."""
    sentences = Sentences(skipped="Ask again in prose.")
    session = await attach(bridge, "s", PlainAdapter(), held, sentences=sentences)
    async with session, connected(session) as peer:
        call = await peer.call(ONE)
        held.reply(await held.next(), Skipped("test"))
        assert text_of(await peer.response(call)) == "Ask again in prose."


async def test_a_wait_that_runs_out_is_timed_out_and_a_late_answer_refused(bridge: Bridge) -> None:
    """The agent goes on; whoever answers later is told that it was too late."""
    wait = timedelta(milliseconds=50)
    late = anyio.Event()

    class Late(Held):
        async def ask(self, ask: Ask, /) -> Reply:
            with anyio.CancelScope(shield=True):
                await late.wait()
            return Answered((Answer((0,)),), "late")

    held = Late()
    async with await attach(bridge, "s", PlainAdapter(), held, wait=wait) as session:
        events = listen(session)
        async with connected(session) as peer:
            response = await peer.response(await peer.call(ONE))
            assert response["result"]["isError"] is True
            assert text_of(response) == Sentences().timed_out
            late.set()
            assert await held.outcome() == [TimedOut(wait)]
    refused = [event for event in events if isinstance(event, AnswerRefused)]
    assert [(event.reason, event.by) for event in refused] in ([("too late: timed_out", "late")], [])


async def test_nobody_there_is_unavailable_at_once(session: Session, held: Held) -> None:
    """Presence is asked at each ask."""
    held.there = False
    async with connected(session) as peer:
        response = await peer.response(await peer.call(ONE))
        assert response["result"]["isError"] is True
        assert await held.outcome() == [Unavailable("no operator is there now")]


class Faulty(Held):
    """A prompter that does what it must not."""

    def __init__(self, fault: object) -> None:
        super().__init__()
        self.fault = fault

    async def ask(self, ask: Ask, /) -> Reply:
        if isinstance(self.fault, Exception):
            raise self.fault
        return self.fault  # type: ignore[return-value]


@pytest.mark.parametrize(
    "fault",
    [
        ValueError("boom"),
        None,
        "yes",
        Answered((Answer((7,)),), "t"),
        Answered((Answer((0,)), Answer((0,))), "t"),
        TimedOut(timedelta(1)),
    ],
)
async def test_a_faulty_prompter_becomes_unavailable(
    bridge: Bridge, fault: object, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception, no reply, or an answer that does not fit never reaches the agent as an answer."""
    faulty = Faulty(fault)
    async with await attach(bridge, "s", PlainAdapter(), faulty) as session:
        result = await Agent(session).ask(ONE)
        assert result.is_error
        (outcome,) = await faulty.outcome()
        assert isinstance(outcome, Unavailable)
    caplog.clear()


async def test_a_settled_that_raises_is_logged_and_harmless(
    bridge: Bridge, caplog: pytest.LogCaptureFixture
) -> None:
    """The prompter's own fault after the outcome changes nothing."""

    class Raising(Scripted):
        def settled(self, ask: Ask, outcome: Outcome, /) -> None:
            super().settled(ask, outcome)
            raise RuntimeError("mine")

    async with await attach(bridge, "s", PlainAdapter(), Raising({"Which?": "a"})) as session:
        for _ in range(2):
            assert not (await Agent(session).ask(ONE)).is_error
    assert "prompter.settled failed" in caplog.text


async def test_a_plain_function_asks_in_a_worker_thread(bridge: Bridge) -> None:
    """A prompter without a coroutine may block; neither loop does."""

    class Blocking:
        def ask(self, ask: Ask, /) -> Reply:
            self.thread = threading.current_thread()
            return Answered((Answer(text="typed"),), "blocking")

        def settled(self, ask: Ask, outcome: Outcome, /) -> None:
            self.settled_in = threading.current_thread()

        def available(self, session_id: str, /) -> bool:
            return True

    blocking = Blocking()
    async with await attach(bridge, "s", PlainAdapter(), blocking) as session:
        result = await Agent(session).ask(ONE)
    assert result.structured == {"answers": {"Which?": "typed"}}
    assert blocking.thread is not threading.main_thread()
    assert blocking.settled_in is threading.main_thread()


async def test_the_prompter_is_taken_from_the_context(bridge: Bridge) -> None:
    """A host that dispatches deep in a call stack names no prompter."""
    scripted = Scripted({"Which?": "b"})
    with use_prompter(scripted):
        async with await attach(bridge, "s", PlainAdapter()) as session:
            result = await Agent(session).ask(ONE)
    assert result.structured == {"answers": {"Which?": "b"}}


async def test_without_a_prompter_nothing_is_attached(bridge: Bridge) -> None:
    """The plan says why, and an ask that comes all the same is unavailable."""
    async with await attach(bridge, "s", PlainAdapter()) as session:
        plan = session.plan_launch(LaunchRequest(["runtime"]))
        assert not plan.questions
        assert plan.endpoint is None
        assert "no prompter" in (plan.reason or "")
        assert (await Agent(session).ask(ONE)).is_error


async def test_with_nobody_there_at_launch_nothing_is_attached(bridge: Bridge, held: Held) -> None:
    """A prompter without an operator is as good as none."""
    held.there = False
    async with await attach(bridge, "s", PlainAdapter(), held) as session:
        plan = session.plan_launch(LaunchRequest(["runtime"]))
        assert (plan.questions, plan.endpoint, plan.reason) == (False, None, "no operator is there")


async def test_the_host_cancels(session: Session, held: Held) -> None:
    """The agent is told, the prompter's call ends, and the outcome names the host."""
    async with connected(session) as peer:
        call = await peer.call(ONE)
        await held.next()
        session.cancel()
        response = await peer.response(call)
        assert response["result"]["isError"] is True
        assert await held.outcome() == [Cancelled("host")]
        assert held.cancelled == 1


async def test_the_host_cancels_one_of_two(session: Session, held: Held) -> None:
    """The other goes on waiting."""
    async with connected(session) as peer:
        first, second = await peer.call(ONE), await peer.call(OTHER)
        asks = {ask.questions[0].text: ask for ask in [await held.next(), await held.next()]}
        session.cancel(asks["Which?"].id)
        assert (await peer.response(first))["result"]["isError"] is True
        held.reply(asks["Who?"])
        assert (await peer.response(second))["result"]["structuredContent"] == {"answers": {"Who?": "c"}}


async def test_the_agent_cancels_without_grace(session: Session, held: Held) -> None:
    """A cancel notification ends the ask at once; the call gets no response, as the protocol wants."""
    async with connected(session) as peer:
        call = await peer.call(ONE)
        await held.next()
        await peer.notify("notifications/cancelled", {"requestId": call, "reason": "changed its mind"})
        assert await held.outcome() == [Abandoned("agent")]
        assert (await peer.request("ping"))["result"] == {}


async def test_late_and_spurious_cancels_are_ignored(session: Session, held: Held) -> None:
    """A cancel of an answered call, of an unknown one, or of nothing changes nothing."""
    async with connected(session) as peer:
        call = await peer.call(ONE)
        held.reply(await held.next())
        await peer.response(call)
        spurious: tuple[Any, ...] = (call, 999, "x", None, [], {})
        for request_id in spurious:
            await peer.notify("notifications/cancelled", {"requestId": request_id})
        await peer.notify("notifications/cancelled")
        second = await peer.call(OTHER)
        held.reply(await held.next())
        assert (await peer.response(second))["result"]["isError"] is False
        assert [outcome.kind for outcome in await held.outcome(2)] == ["answered", "answered"]


async def test_a_ping_is_answered_while_an_ask_waits(session: Session, held: Held) -> None:
    """The connection is not blocked by the question."""
    async with connected(session) as peer:
        call = await peer.call(ONE)
        ask = await held.next()
        assert (await peer.request("ping"))["result"] == {}
        assert (await peer.request("tools/list"))["result"]["tools"][0]["name"] == "ask_user_question"
        held.reply(ask)
        await peer.response(call)


async def test_progress_is_sent_where_the_call_has_a_token(session: Session, held: Held) -> None:
    """A heartbeat keeps clients waiting whose timeout it resets."""
    async with connected(session) as peer:
        call = await peer.call(ONE, meta={"progressToken": "p1"})
        ask = await held.next()
        progress = await peer.notified("notifications/progress")
        assert progress["params"]["progressToken"] == "p1"
        assert progress["params"]["progress"] > 0
        held.reply(ask)
        await peer.response(call)


async def test_a_dropped_connection_abandons_after_the_grace(session: Session, held: Held) -> None:
    """The operator keeps the question for the grace, then it goes."""
    async with anyio.create_task_group() as tasks:
        peer = await opened(session, tasks)
        await peer.shake_hands()
        await peer.call(ONE)
        await held.next()
        await peer.close()
        assert await held.outcome() == [Abandoned("disconnect")]
        assert held.cancelled == 1


async def test_a_call_that_is_sent_again_is_joined(patient: Session, held: Held) -> None:
    """A runtime that respawns the relay gets its answer, and the operator sees one question."""
    events = listen(patient)
    async with anyio.create_task_group() as tasks:
        first = await opened(patient, tasks)
        await first.shake_hands()
        await first.call(ONE, meta={"test/call": "c1", "progressToken": 1})
        ask = await held.next()
        await first.close()
        second = await opened(patient, tasks)
        await second.shake_hands()
        call = await second.call(ONE, meta={"test/call": "c1", "progressToken": 9})
        await second.request("ping")
        held.reply(ask)
        response = await second.response(call)
        assert response["result"]["structuredContent"] == {"answers": {"Which?": "a"}}
        assert [outcome.kind for outcome in await held.outcome()] == ["answered"]
        await second.close()
    assert [type(event) for event in events] == [QuestionAsked, QuestionResolved]


async def test_an_answer_lost_with_its_relay_is_given_again(patient: Session, held: Held) -> None:
    """An answer that was given while nobody listened waits for the call to come again."""
    async with anyio.create_task_group() as tasks:
        first = await opened(patient, tasks)
        await first.shake_hands()
        call = await first.call(ONE)
        ask = await held.next()
        held.reply(ask)
        await first.response(call)  # written, but the runtime behind a dead relay never sees it
        await first.close()
        second = await opened(patient, tasks)
        await second.shake_hands()
        response = await second.response(await second.call(ONE))
        assert response["result"]["structuredContent"] == {"answers": {"Which?": "a"}}
        third = await second.call(ONE)  # asked anew on the same connection: a question of its own
        held.reply(await held.next())
        await second.response(third)
        assert len(await held.outcome(2)) == 2
        await second.close()


async def test_an_answer_lost_again_and_again_is_given_again(patient: Session, held: Held) -> None:
    """However often the relay dies with the answer in its hands, the operator is asked once."""
    async with anyio.create_task_group() as tasks:
        for attempt in range(4):
            peer = await opened(patient, tasks)
            await peer.shake_hands()
            call = await peer.call(ONE)
            if not attempt:
                held.reply(await held.next())
            response = await peer.response(call)
            assert response["result"]["structuredContent"] == {"answers": {"Which?": "a"}}
            await peer.close()
    assert not held.asked
    assert len(await held.outcome()) == 1


@pytest.mark.parametrize("reply", [Skipped("test"), Cancelled("operator")], ids=["skip", "cancel"])
@pytest.mark.parametrize("loss", ["before the reply", "with the reply"])
async def test_what_the_operator_decided_is_not_asked_again(
    patient: Session, held: Held, reply: Skipped | Cancelled, loss: str
) -> None:
    """A skip or a cancel that was lost with its relay is told to the call that is sent again."""
    async with anyio.create_task_group() as tasks:
        first = await opened(patient, tasks)
        await first.shake_hands()
        call = await first.call(ONE)
        ask = await held.next()
        if loss == "with the reply":
            held.reply(ask, reply)
            await first.response(call)
        await first.close()
        if loss == "before the reply":
            held.reply(ask, reply)
            assert await held.outcome() == [reply]
        second = await opened(patient, tasks)
        await second.shake_hands()
        told = await second.response(await second.call(ONE))
        assert text_of(told) == Sentences().for_outcome(reply)
        assert await held.outcome() == [reply]
        assert not held.asked
        await second.close()


@pytest.mark.parametrize("when", ["it waits", "it is answered"])
async def test_a_call_that_is_sent_again_twice_is_joined_twice(
    patient: Session, held: Held, when: str
) -> None:
    """A runtime that re-sends a lost call over two connections at once has one question, and the answer over both."""
    async with anyio.create_task_group() as tasks:
        first = await opened(patient, tasks)
        await first.shake_hands()
        lost = await first.call(ONE)
        ask = await held.next()
        if when == "it is answered":
            held.reply(ask)
            await first.response(lost)
        await first.close()
        peers = [await opened(patient, tasks) for _ in range(2)]
        for peer in peers:
            await peer.shake_hands()
        calls = [await peer.call(ONE) for peer in peers]
        for peer in peers:
            await peer.request("ping")  # the calls have been taken
        if when == "it waits":
            held.reply(ask)
        for peer, call in zip(peers, calls, strict=True):
            response = await peer.response(call)
            assert response["result"]["structuredContent"] == {"answers": {"Which?": "a"}}
        assert [outcome.kind for outcome in await held.outcome()] == ["answered"]
        assert not held.asked
        for peer in peers:
            await peer.close()


async def test_a_call_with_an_id_is_joined_while_its_connection_hangs(patient: Session, held: Held) -> None:
    """Sent again by its id before the loss is noticed, it is one question still, and one cancel does not end it."""
    async with connected(patient) as first, connected(patient) as second:
        meta = {"test/call": "c1"}
        hanging = await first.call(ONE, meta=meta)
        ask = await held.next()
        again = await second.call(ONE, meta=meta)
        await second.request("ping")
        await first.notify("notifications/cancelled", {"requestId": hanging})
        await first.request("ping")
        held.reply(ask)
        response = await second.response(again)
        assert response["result"]["structuredContent"] == {"answers": {"Which?": "a"}}
        assert [outcome.kind for outcome in await held.outcome()] == ["answered"]
        assert not held.asked


async def test_equal_calls_of_two_agents_are_two_questions(patient: Session, held: Held) -> None:
    """Without an id, equal calls over two connections that stand are not taken for one that was sent again."""
    async with connected(patient) as first, connected(patient) as second:
        calls = [(peer, await peer.call(ONE)) for peer in (first, second)]
        for _ in calls:
            held.reply(await held.next())
        for peer, call in calls:
            await peer.response(call)
        assert len(await held.outcome(2)) == 2


async def test_another_question_is_not_joined(session: Session, held: Held) -> None:
    """Only the same questions with the same ids are the same call."""
    async with anyio.create_task_group() as tasks:
        first = await opened(session, tasks)
        await first.shake_hands()
        await first.call(ONE, meta={"test/call": "c1"})
        await held.next()
        await first.close()
        second = await opened(session, tasks)
        await second.shake_hands()
        other = await second.call(OTHER, meta={"test/call": "c1"})
        same_text = await second.call(ONE, meta={"test/call": "c2"})
        asks = {ask.questions[0].text: ask for ask in [await held.next(), await held.next()]}
        for ask in asks.values():
            held.reply(ask)
        await second.response(other)
        await second.response(same_text)
        outcomes = await held.outcome(3)
        assert sorted(outcome.kind for outcome in outcomes) == ["abandoned", "answered", "answered"]
        await second.close()


async def test_parallel_asks_are_kept_apart(session: Session, held: Held) -> None:
    """Two equal asks on one connection are two questions, each with its own answer."""
    async with connected(session) as peer:
        calls = {key: await peer.call(ONE, meta={"test/call": key}) for key in ("x", "y")}
        asks = {ask.tool_call_id: ask for ask in [await held.next(), await held.next()]}
        held.reply(asks["y"], Answered((Answer((1,)),), "t"))
        held.reply(asks["x"], Answered((Answer((0,)),), "t"))
        assert text_of(await peer.response(calls["x"])) == '{"answers": {"Which?": "a"}}'
        assert text_of(await peer.response(calls["y"])) == '{"answers": {"Which?": "b"}}'


async def test_too_many_open_asks_are_refused(session: Session, held: Held) -> None:
    """The message tells the model what to do; the open ones are untouched."""
    async with connected(session) as peer:
        calls = [await peer.call(ONE) for _ in range(3)]
        asks = [await held.next() for _ in range(3)]
        response = await peer.response(await peer.call(ONE))
        assert response["result"]["isError"] is True
        assert "3 questions wait" in text_of(response)
        for ask in asks:
            held.reply(ask)
        for call in calls:
            assert (await peer.response(call))["result"]["isError"] is False


async def test_arguments_that_are_no_ask_are_refused_with_an_example(session: Session, held: Held) -> None:
    """Nothing is asked, and the model can act on the message."""
    events = listen(session)
    async with connected(session) as peer:
        wrong: tuple[Any, ...] = (
            {},
            {"questions": []},
            {"questions": [{}]},
            {"questions": 7},
            None,
            "x" * 5000,
            [],
        )
        for arguments in wrong:
            response = await peer.response(await peer.call(arguments))
            assert response["result"]["isError"] is True
            assert '"questions"' in text_of(response)
    assert events == []


async def test_a_json_string_for_arguments_is_read(session: Session, held: Held) -> None:
    """What the SDK would refuse, the generous parser reads."""
    async with connected(session) as peer:
        call = await peer.call(json.dumps(ONE))
        ask = await held.next()
        assert [option.label for option in ask.questions[0].options] == ["a", "b"]
        held.reply(ask)
        await peer.response(call)


async def test_the_end_of_the_turn_abandons(session: Session, held: Held) -> None:
    """An ask whose turn is over is not left before the operator."""
    async with connected(session) as peer:
        await peer.call(ONE)
        await held.next()
        session.receive("end")
        assert await held.outcome() == [Abandoned("turn_end")]


async def test_closing_the_session_cancels_and_tells_the_agent(bridge: Bridge, held: Held) -> None:
    """The outcome names the shutdown, and the agent's call ends with its sentence before the connection does."""
    session = await attach(bridge, "s", PlainAdapter(), held)
    async with anyio.create_task_group() as tasks:
        peer = await opened(session, tasks)
        await peer.shake_hands()
        call = await peer.call(ONE)
        await held.next()
        await session.aclose()
        assert text_of(await peer.response(call)) == Sentences().cancelled
        assert await held.outcome() == [Cancelled("shutdown")]
        await peer.ended.wait()


async def test_a_prompter_that_passes_attributes_on_runs_on_the_hosts_loop(bridge: Bridge) -> None:
    """What the one inside says of itself does not hold for what is around it."""

    class Anywhere(Held):
        any_loop = True

    class Around:
        def __init__(self, inside: Held) -> None:
            self._inside = inside
            self.threads: list[threading.Thread] = []

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inside, name)

        async def ask(self, ask: Ask, /) -> Reply:
            self.threads.append(threading.current_thread())
            return Skipped("test")

    around: Any = Around(Anywhere())
    async with await attach(bridge, "s", PlainAdapter(), around) as session:
        session.plan_launch(LaunchRequest(["runtime"]))
        await Agent(session).ask(ONE)
    assert around.any_loop
    assert around.threads == [threading.current_thread()]


async def test_closing_the_session_waits_for_a_prompter_on_the_bridges_loop(bridge: Bridge) -> None:
    """It has heard how its asks ended by then, even where its end takes a while."""

    class Slow(Held):
        any_loop = True

        async def ask(self, ask: Ask, /) -> Reply:
            asked.set()
            try:
                return await super().ask(ask)
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(0.1)  # longer than the host takes to hear that the session is closed

    slow, asked = Slow(), threading.Event()
    session = await attach(bridge, "s", PlainAdapter(), slow)
    call = session.call(ONE, {})
    assert await anyio.to_thread.run_sync(asked.wait, 30)
    await session.aclose()
    assert [outcome for _, outcome in slow.settlements] == [Cancelled("shutdown")]
    assert call.result().structured is None


async def test_an_adapter_that_fails_costs_no_question(
    bridge: Bridge, held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    """The ask is put to the operator all the same, and an unreadable message ends nothing."""

    class Failing(PlainAdapter):
        def conversation(self, plan: Any, /) -> Any:
            conversation = super().conversation(plan)
            conversation.ask_arrived = conversation.ask_settled = None  # type: ignore[method-assign, assignment]
            return conversation

    async with await attach(bridge, "s", Failing(), held) as session:
        session.plan_launch(LaunchRequest(["runtime"]))
        assert session.receive("raise") == []
        events = listen(session)
        async with connected(session) as peer:
            call = await peer.call(ONE)
            held.reply(await held.next())
            assert (await peer.response(call))["result"]["isError"] is False
            await held.outcome()
    assert [type(event) for event in events] == [QuestionAsked, QuestionResolved]
    assert "adapter failed" in caplog.text


async def test_each_ask_leaves_two_trace_records(
    session: Session, held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    """Asked, and answered or unanswered, with the same ids and the outcome."""
    with caplog.at_level(logging.INFO, logger="opask.trace"):
        async with connected(session) as peer:
            for reply in (None, Skipped("t")):
                call = await peer.call(ONE)
                ask = await held.next()
                held.reply(ask, reply)
                await peer.response(call)
            await held.outcome(2)
    records = [record for record in caplog.records if record.name == "opask.trace"]
    assert [(record.message, record.__dict__["outcome"]) for record in records] == [
        ("operator.question.asked", None),
        ("operator.question.answered", "answered"),
        ("operator.question.asked", None),
        ("operator.question.unanswered", "skipped"),
    ]
    assert records[0].__dict__["question_id"] == records[1].__dict__["question_id"]


async def test_an_agent_without_a_process_cancels_its_ask(session: Session, held: Held) -> None:
    """Cancelling the testing agent's call is the agent's own cancel."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Agent(session).ask, ONE)
        await held.next()
        tasks.cancel_scope.cancel()
    assert await held.outcome() == [Abandoned("agent")]


async def test_the_modern_era_asks_without_a_handshake(session: Session, held: Held) -> None:
    """A client of revision 2026-07-28 discovers, lists and calls with its envelope in each request."""
    envelope = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "peer", "version": "0"},
    }
    async with anyio.create_task_group() as tasks:
        peer = await opened(session, tasks)
        discovered = await peer.request("server/discover", meta=envelope)
        assert "2026-07-28" in discovered["result"]["supportedVersions"]
        assert discovered["result"]["instructions"]
        await peer.request("tools/list", meta=envelope)
        call = await peer.call(ONE, meta=envelope | {"progressToken": 4, "test/call": "m1"})
        ask = await held.next()
        assert ask.tool_call_id == "m1"
        await peer.notified("notifications/progress")
        held.reply(ask)
        response = await peer.response(call)
        assert response["result"]["structuredContent"] == {"answers": {"Which?": "a"}}
        cancelled = await peer.call(OTHER, meta=envelope)
        await held.next()
        await peer.notify("notifications/cancelled", {"requestId": cancelled, "_meta": envelope})
        assert [outcome.kind for outcome in await held.outcome(2)] == ["answered", "abandoned"]
        await peer.close()


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_every_handshake_revision_is_served(session: Session, held: Held, version: str) -> None:
    """The revision that the client asks for is the one it gets."""
    async with anyio.create_task_group() as tasks:
        peer = await opened(session, tasks)
        assert (await peer.shake_hands(version))["result"]["protocolVersion"] == version
        call = await peer.call(ONE)
        held.reply(await held.next())
        assert (await peer.response(call))["result"]["isError"] is False
        await peer.close()


async def test_what_is_no_message_is_answered_and_survived(session: Session, held: Held) -> None:
    """Garbage gets a JSON-RPC error, so that no client waits for ever; the connection goes on."""
    async with connected(session) as peer:
        for line, code in [
            (b"{", -32700),
            (b"\xff\xfe", -32700),
            (b"[" * 5000, -32700),
            (b"[]", -32600),
            (b'"x"', -32600),
            (b'{"jsonrpc":"1.0","id":"mine"}', -32600),
        ]:
            await peer.send_raw(line + b"\n")
            wanted = "mine" if b"mine" in line else None
            assert (await peer.response(wanted))["error"]["code"] == code, line
        await peer.send_raw(b"\n  \n")
        assert (await peer.request("no/such/method"))["error"]["code"] == -32601
        assert (await peer.request("tools/call", {"name": "other"}))["error"]["code"] == -32602
        assert (await peer.request("tools/call", {}))["error"]["code"] == -32602
        call = await peer.call(ONE)
        held.reply(await held.next())
        assert (await peer.response(call))["result"]["isError"] is False


async def test_a_message_in_pieces_is_put_together(session: Session, held: Held) -> None:
    """A request may come byte by byte, and two may come at once."""
    async with connected(session) as peer:
        ping = b'{"jsonrpc":"2.0","id":"slow","method":"ping"}\n'
        for byte in ping:
            await peer.send_raw(bytes([byte]))
        assert (await peer.response("slow"))["result"] == {}
        await peer.send_raw(ping.replace(b"slow", b"one") + ping.replace(b"slow", b"two"))
        await peer.response("one")
        await peer.response("two")


async def test_a_client_that_floods_loses_its_connection_alone(
    session: Session, held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    """A message without end, or requests without end, close that connection; the session goes on."""
    async with anyio.create_task_group() as tasks:
        huge = await opened(session, tasks)
        with pytest.raises((OSError, anyio.ClosedResourceError)):
            await huge.send_raw(b"x" * (32 << 20))
        await huge.ended.wait()
        await huge.close()
        peer: Peer = await opened(session, tasks)
        await peer.shake_hands()
        assert (await peer.request("ping"))["result"] == {}
        await peer.close()
    assert "more than" in caplog.text
