"""Any interleaving of calls, cancels, drops, re-sent calls, replies, timeouts and ends, against a model of the desk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.from_thread import BlockingPortal, start_blocking_portal
from attrs import Factory, define
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)

from opask.bridge.desk import AskDesk, Link, OpenAsk
from opask.outcomes import (
    Abandoned,
    Answered,
    Cancelled,
    Outcome,
    Sentences,
    Skipped,
    TimedOut,
    Unavailable,
)
from opask.questions import Answer, Ask
from opask.wire import ToolResult, tool_result

WAIT, GRACE, MAX_PENDING = 60.0, 2.0, 4
QUESTIONS = [{"question": text, "options": ["a", "b"]} for text in ("Which?", "Who?")]
METAS: list[dict[str, Any]] = [{}, {"progressToken": 7}, {"call": "1"}, {"call": "2", "progressToken": 8}]
FITTING: list[object] = [
    Answered((Answer((0,)),), "op"),
    Answered((Answer((1,)),), "op"),
    Skipped("op"),
    Unavailable("away"),
    Cancelled("operator"),
]
# An option that there is not, an answer too many, and no reply at all.
REPLIES = [*FITTING, Answered((Answer((9,)),), "op"), Answered((Answer((0,)),) * 2, "op"), None]


class StillLoop(asyncio.SelectorEventLoop):
    """A loop whose clock stands until it is put forward."""

    now = 1024.0

    def time(self) -> float:
        """Return the time that it was put to."""
        return self.now


@define(eq=False)
class Known:
    """An ask as the model knows it."""

    ask: Ask
    reply: Callable[[object], object]
    links: set[Link]
    opened: float
    causes: set[str] = Factory(set)
    replies: list[object] = Factory(list)
    outcome: Outcome | None = None
    told: list[Outcome] = Factory(list)
    losses: int = 0
    lost_at: float | None = None
    untold: bool = False  # settled, and the result is on its way
    told_at: float | None = None  # when it was written, or lost with a connection

    def lose(self, link: Link, now: float) -> None:
        """Take in the end of a connection."""
        if link not in self.links:
            return
        self.links.remove(link)
        self.losses += 1
        if self.outcome is None:
            self.causes.add("disconnect")
            self.lost_at = now
        elif self.untold or (self.told_at is not None and now - self.told_at <= GRACE):
            self.untold, self.told_at = False, now


@define(eq=False)
class Sent:
    """One call of the tool."""

    link: Link
    question: Mapping[str, Any]
    meta: Mapping[str, Any]
    scope: anyio.CancelScope
    known: Known | None = None
    result: ToolResult | None = None
    entry: OpenAsk | None = None
    over: bool = False


class DeskMachine(RuleBasedStateMachine):
    """Drives a desk on asyncio, with the clock in hand; is its listener, and each of its connections."""

    links = Bundle("links")
    calls = Bundle("calls")

    @initialize()
    def open(self) -> None:
        """Make the desk."""
        self.stack = ExitStack()
        self.loop = StillLoop()
        self.portal: BlockingPortal = self.stack.enter_context(
            start_blocking_portal("asyncio", {"loop_factory": lambda: self.loop})
        )
        self.known: dict[str, Known] = {}
        self.sent: list[Sent] = []
        self.here: Link | None = None  # over which a call is being made
        self.delivering: OpenAsk | None = None
        self.closed = False
        self.refusals = 0
        self.faults: list[AssertionError] = []
        self.tasks = self.stack.enter_context(self.portal.wrap_async_context_manager(_cancelled_at_end()))
        self.desk: AskDesk = self.portal.call(self._made)
        self.tasks_before = self._count_tasks()

    def _made(self) -> AskDesk:
        return AskDesk(
            "s",
            self.tasks,
            self,
            wait=timedelta(seconds=WAIT),
            grace=timedelta(seconds=GRACE),
            heartbeat=timedelta(seconds=10),
            max_pending=MAX_PENDING,
            sentences=Sentences(),
        )

    def _count_tasks(self) -> int:
        return len(self.portal.call(asyncio.all_tasks, self.loop))

    def do(self, function: Callable[[], object]) -> None:
        """Do something on the loop, and let it come to rest."""

        async def doing() -> None:
            function()
            for _ in range(25):
                await asyncio.sleep(0)

        self.portal.call(doing)

    # -- the desk's listener ---------------------------------------------------------------------------------------

    def arrived(self, ask: Ask, /) -> Ask:
        """Take in a new ask."""
        return ask

    def put(self, ask: Ask, on_reply: Callable[[object], object], /) -> Callable[[Outcome], object]:
        """Remember how to reply."""
        assert ask.id not in self.known
        assert self.here is not None
        self.known[ask.id] = Known(ask, on_reply, {self.here}, self.loop.now)
        return self.known[ask.id].told.append

    def refused(self, ask: Ask, reason: str, by: str | None, /) -> None:
        """Count it."""
        self.refusals += 1

    def settled(self, ask: Ask, outcome: Outcome, duration_ms: int, /) -> None:
        """Hold the outcome to what has happened to the ask; a fault is raised where hypothesis sees it."""
        try:
            self._check_outcome(self.known[ask.id], outcome)
        except AssertionError as fault:
            self.faults.append(fault)

    def _check_outcome(self, known: Known, outcome: Outcome) -> None:
        assert known.outcome is None, f"settled twice: {known.outcome}, then {outcome}"
        known.outcome = outcome
        if not isinstance(outcome, Answered | Abandoned):
            known.untold = bool(known.links)
            known.told_at = None if known.links else self.loop.now
        match outcome:
            case Answered():
                assert self.delivering is not None
                assert self.delivering.ask.id == known.ask.id, "answered without a delivery"
                assert outcome == known.replies[0]
            case Cancelled(by="operator") | Skipped():
                assert outcome == known.replies[0]
            case Unavailable():
                assert outcome == known.replies[0] or known.replies[0] not in FITTING
            case TimedOut():
                assert self.loop.now - known.opened >= WAIT
            case Cancelled(by=by):
                assert by in known.causes
            case Abandoned(reason="disconnect") if not self.closed:
                assert known.lost_at is not None, "abandoned over a connection that stands"
                assert not known.links, "abandoned while another connection waits"
                assert self.loop.now - known.lost_at >= GRACE, "abandoned within the grace"
            case Abandoned(reason=reason):
                assert reason in known.causes

    # -- what happens ----------------------------------------------------------------------------------------------

    @rule(target=links)
    def connect(self) -> Link:
        """Let the runtime connect."""
        return Link()

    @rule(target=calls, link=links, question=st.sampled_from(QUESTIONS), meta=st.sampled_from(METAS))
    def call(self, link: Link, question: Mapping[str, Any], meta: Mapping[str, Any]) -> object:
        """Call the tool, and see whether it is a new ask, one that is joined, or none."""
        open_before = [known for known in self.known.values() if known.outcome is None]
        fitting = self._fitting(question["question"], meta, link)
        count = len(self.known)
        sent = Sent(link, question, meta, self.portal.call(anyio.CancelScope))

        async def serve() -> None:
            with sent.scope:
                sent.result, sent.entry = await self.desk.call({"questions": [question]}, meta, link)
                return
            sent.over = True

        self.here = link
        self.do(lambda: self.tasks.start_soon(serve))
        self.here = None
        if not fitting and not self.closed and len(open_before) < MAX_PENDING:
            assert len(self.known) == count + 1, "no ask was put to the operator"
            sent.known = list(self.known.values())[-1]
        else:
            assert len(self.known) == count, "the operator was asked again"
            if not fitting:
                assert sent.result is not None
                assert sent.result.is_error
                assert sent.entry is None
                sent.over = True
            else:
                # Of several that were lost nothing tells which one it is.
                joined = fitting[0] if sent.entry is None else self.known[sent.entry.ask.id]
                assert joined in fitting
                joined.links.add(link)
                sent.known = joined
                if joined.outcome is not None:
                    assert sent.result == tool_result(joined.ask.questions, joined.outcome, Sentences())
        self.sent.append(sent)
        if link.lost:  # the call was read together with the end of its connection
            if (known := sent.known) is not None and known.outcome is None:
                known.lose(link, self.loop.now)
            elif known is not None:
                known.links.discard(link)
            self._end_calls(link)
        return sent

    def _fitting(self, text: str, meta: Mapping[str, Any], link: Link) -> list[Known]:
        """Return the asks that a call may be joined to: of those that wait the first, else all that were lost."""
        call = meta.get("call")

        def fits(known: Known) -> bool:
            asked = known.ask.meta.get("call")
            return known.ask.questions[0].text == text and (asked is None or (call or asked) == asked)

        def is_sent_again(known: Known) -> bool:
            asked = known.ask.meta.get("call")
            return link not in known.links and (known.losses > 0 or (asked is not None and asked == call))

        fitting = [known for known in self.known.values() if fits(known)]
        waiting = [
            known for known in fitting if known.outcome is None and (not known.links or is_sent_again(known))
        ]
        if waiting:
            return [min(waiting, key=lambda known: len(known.links))]
        lost = [
            known
            for known in fitting
            if known.losses
            and link not in known.links
            and known.told_at is not None
            and self.loop.now - known.told_at <= GRACE
        ]
        fewest = min((len(known.links) for known in lost), default=0)
        return [known for known in lost if len(known.links) == fewest]

    @rule(target=calls, sent=calls)
    def call_again(self, sent: Sent) -> object:
        """Send a call again over a new connection, as a runtime does whose relay has gone."""
        return self.call(Link(), sent.question, sent.meta)

    @rule(sent=calls, reply=st.sampled_from(REPLIES))
    def reply(self, sent: Sent, reply: object) -> None:
        """Reply to an ask, in time or late."""
        if (known := sent.known) is None:
            return
        before = self.refusals
        late = known.outcome is not None or bool(known.replies)
        if not late:
            known.replies.append(reply)
        self.do(lambda: known.reply(reply))
        if late and isinstance(reply, Answered | Skipped):
            assert self.refusals == before + 1, "a late answer was not refused"

    @rule(sent=calls)
    def answer_and_write(self, sent: Sent) -> None:
        """Answer an ask and write the result at once."""
        self.reply(sent, FITTING[0])
        self.result_written(sent)

    @rule(target=calls, sent=calls)
    def call_and_be_gone(self, sent: Sent) -> object:
        """Send a call again and lose its connection before it is looked at."""
        return self.call(Link(lost=True), sent.question, sent.meta)

    @rule(target=calls, sent=calls)
    def call_again_twice(self, sent: Sent) -> object:
        """Lose a call's connection, and send the call again over two new ones at once."""
        self.drop_what_it_came_over(sent)
        self.call_again(sent)
        return self.call_again(sent)

    @rule(target=calls, sent=calls, reply=st.sampled_from(FITTING))
    def crash_with_the_reply(self, sent: Sent, reply: object) -> object:
        """Lose the connection before the operator's reply was written to it, and send the call again."""
        self.reply(sent, reply)
        self.drop_what_it_came_over(sent)
        return self.call_again(sent)

    @rule(target=calls, sent=calls)
    def crash_with_the_answer(self, sent: Sent) -> object:
        """Lose the connection right after an answer was written to it, and send the call again."""
        self.answer_and_write(sent)
        self.drop_what_it_came_over(sent)
        return self.call_again(sent)

    @rule(sent=calls)
    def agent_cancels(self, sent: Sent) -> None:
        """Cancel a call over its own connection."""
        if sent.over or sent.link.lost:
            return
        waited_for = False
        if (known := sent.known) is not None:
            known.causes.add("agent")
            known.links.discard(sent.link)
            known.untold = known.untold and bool(known.links)
            waited_for = known.outcome is None and bool(known.links)
        sent.over = True
        if sent.entry is not None:
            entry = sent.entry
            self.do(lambda: self.desk.undelivered(entry, sent.link))
        else:
            self.do(sent.scope.cancel)
        if known is not None and waited_for:
            assert known.outcome is None, "cancelled while another connection waits"

    @rule(sent=calls)
    def result_written(self, sent: Sent) -> None:
        """Write a call's result."""
        if sent.over or sent.link.lost or sent.entry is None:
            return
        sent.over = True
        self.delivering = entry = sent.entry
        self.do(lambda: self.desk.delivered(entry))
        self.delivering = None
        if (known := sent.known) is not None:
            known.untold = False
            is_kept = isinstance(known.outcome, Answered | Skipped) or known.outcome == Cancelled("operator")
            if known.losses or is_kept:
                known.told_at = self.loop.now

    @rule(link=consumes(links), at_once=st.booleans())
    def drop(self, link: Link, at_once: bool) -> None:
        """End a connection; its calls are cancelled with it, or only once they are noticed."""
        if link.lost:
            return
        now = self.loop.now
        for known in self.known.values():
            known.lose(link, now)
        self.do(lambda: self.desk.lost(link))
        if at_once:
            self._end_calls(link)

    @rule(sent=calls)
    def notice(self, sent: Sent) -> None:
        """Notice that a call's connection has ended."""
        if sent.link.lost:
            self._end_calls(sent.link)

    def _end_calls(self, link: Link) -> None:
        for sent in self.sent:
            if sent.link is link and not sent.over:
                sent.over = True
                entry = sent.entry
                if entry is None:
                    self.do(sent.scope.cancel)
                else:
                    self.do(lambda entry=entry: self.desk.undelivered(entry, link))  # type: ignore[misc]

    @rule(sent=calls)
    def drop_what_it_came_over(self, sent: Sent) -> None:
        """End the connection of a call."""
        if not sent.link.lost:
            self.drop(sent.link, at_once=True)

    @rule(sent=calls, every=st.booleans())
    def host_cancels(self, sent: Sent, every: bool) -> None:
        """Cancel one ask, or all, for the host."""
        if (known := sent.known) is None:
            return
        for each in self.known.values():
            if every or each is known:
                each.causes.add("host")
        self.do(lambda: self.desk.cancel(None if every else known.ask.id, "host"))

    @rule(sent=calls)
    def turn_ends(self, sent: Sent) -> None:
        """End the turn of an ask."""
        if (known := sent.known) is None:
            return
        known.causes.add("turn_end")
        self.do(lambda: self.desk.turn_ended((known.ask.id, "unknown")))
        assert known.outcome is not None

    @rule(seconds=st.sampled_from([0.125, GRACE - 0.0625, GRACE + 0.0625, WAIT]))
    def time_passes(self, seconds: float) -> None:
        """Put the clock forward."""

        def forward() -> None:
            self.loop.now += seconds

        self.do(forward)
        for known in self.known.values():
            if known.outcome is None and not known.links and known.lost_at is not None:
                assert self.loop.now - known.lost_at < GRACE, "an orphan outlived its grace"
            if known.outcome is None and not known.replies:
                assert self.loop.now - known.opened < WAIT, "an ask outlived its wait"

    @rule()
    def close(self) -> None:
        """Close the session's desk; calls that come now are told so."""
        self.closed = True
        for known in self.known.values():
            known.causes |= {"shutdown", "disconnect"}
        self.do(self.desk.close)

    @invariant()
    def what_is_open_is_what_has_not_settled(self) -> None:
        """The desk and the model know the same asks, and never more than may be open."""
        if not hasattr(self, "desk"):
            return
        if self.faults:
            raise self.faults[0]
        waiting = [ask_id for ask_id, known in self.known.items() if known.outcome is None]
        assert [ask.id for ask in self.desk.open_asks] == waiting
        assert len(waiting) <= MAX_PENDING
        for known in self.known.values():
            assert known.told == ([] if known.outcome is None else [known.outcome])

    def teardown(self) -> None:
        """End the session: everything has settled, once, and no task is left."""
        if not hasattr(self, "desk"):
            return
        try:
            self.close()
            for link in {sent.link for sent in self.sent}:
                self.drop(link, at_once=True)
            self.do(self.desk.settle_all)
            assert not self.desk.open_asks
            assert all(known.outcome is not None for known in self.known.values())
            self.what_is_open_is_what_has_not_settled()
            assert self._count_tasks() == self.tasks_before, "a task is left"
        finally:
            self.stack.close()


@asynccontextmanager
async def _cancelled_at_end() -> AsyncIterator[TaskGroup]:
    async with anyio.create_task_group() as tasks:
        yield tasks
        tasks.cancel_scope.cancel()


TestDesk = DeskMachine.TestCase
TestDesk.__doc__ = (
    "Each ask settles once, for a reason that has happened; a call that is sent again is never asked anew."
)
TestDesk.settings = settings(max_examples=min(settings().max_examples, 2000), stateful_step_count=60)
