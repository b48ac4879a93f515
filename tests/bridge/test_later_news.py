"""What a runtime says of a question that waits already: whose call it is, and that its sub-agent has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridge_peers import ONE, Held, PlainAdapter, PlainConversation, attach, connected
from opask import Answer, LaunchPlan
from opask.bridge import Bridge
from opask.events import AnswerRefused, Event, QuestionCorrelated, QuestionResolved, ToolFinished
from opask.outcomes import Abandoned, Answered


class LateConversation(PlainConversation):
    """Tells of a question's call, and of its end, only once it waits."""

    def receive(self, message: Any, /) -> Sequence[Event]:
        """Say whose it is, or that the call which started the sub-agent is over."""
        (ask,) = self.asks
        if message == "over":
            return [ToolFinished(tool="Agent", tool_call_id="outer", dropped=(ask.id,))]
        return [QuestionCorrelated(question_id=ask.id, tool_call_id="inner", agent_id="outer")]


class LateAdapter(PlainAdapter):
    """Has such a conversation."""

    def conversation(self, plan: LaunchPlan, /) -> LateConversation:
        """Begin."""
        return LateConversation()


async def test_what_becomes_of_a_question_names_the_call_that_became_known_later() -> None:
    """A refused answer and the outcome carry call and agent, also where the question was asked without them."""
    events: list[Event] = []
    operator = Held()
    async with Bridge() as bridge:
        session = await attach(bridge, "s", LateAdapter(), operator)
        session.subscribe(events.append)
        async with connected(session) as peer:
            call = await peer.call(ONE)
            ask = await operator.next()
            session.receive("call")
            operator.reply(ask, Answered((Answer((7,)),), "test"))  # there is no such option
            await peer.response(call)
    told = [event for event in events if isinstance(event, AnswerRefused | QuestionResolved)]
    assert [type(event) for event in told] == [AnswerRefused, QuestionResolved]
    assert [(event.tool_call_id, event.agent_id) for event in told] == [("inner", "outer")] * 2


async def test_the_questions_of_a_sub_agent_end_with_its_call() -> None:
    """A question that a finished call leaves behind is settled as abandoned."""
    operator = Held()
    async with Bridge() as bridge:
        session = await attach(bridge, "s", LateAdapter(), operator)
        async with connected(session) as peer:
            await peer.call(ONE)
            await operator.next()
            session.receive("over")
            assert await operator.outcome() == [Abandoned("turn_end")]
