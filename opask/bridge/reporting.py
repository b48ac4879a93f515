"""What becomes of a session's asks, told to everybody who has to know: adapter, prompter, listeners, trace."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from attrs import evolve

from opask.adapters import Conversation
from opask.bridge.publishing import Publisher
from opask.events import AnswerRefused, Event, QuestionAsked, QuestionCorrelated, QuestionResolved
from opask.outcomes import Answered, Outcome, reason_and_by
from opask.questions import Ask
from opask.trace import trace_asked, trace_settled
from opask.wire import answers_to_wire, questions_to_wire

__all__ = ["AskReporter"]

_logger = logging.getLogger("opask.bridge")


class AskReporter:
    """Reports the asks of one session; called on the bridge's loop.

    Args:
        publisher: the session's.
        conversation: gives the session's conversation, None before its launch is planned.
        publish: publishes events, with what follows from them.
        put: puts an ask to the prompter; returns what has to be told its outcome.
    """

    def __init__(
        self,
        publisher: Publisher,
        conversation: Callable[[], Conversation | None],
        publish: Callable[[Iterable[Event]], object],
        put: Callable[[Ask, Callable[[object], object]], Callable[[Outcome], object]],
    ) -> None:
        self.put = put
        self._publisher = publisher
        self._conversation = conversation
        self._publish = publish
        self._pending: dict[str, Ask] = {}

    @property
    def pending(self) -> tuple[Ask, ...]:
        """The asks that wait now, oldest first."""
        with self._publisher.lock:
            return tuple(self._pending.values())

    def arrived(self, ask: Ask) -> Ask:
        """Take in a new ask; return it with what is known of its call."""
        with self._publisher.lock:
            events = self._heard(ask, lambda conversation: conversation.ask_arrived(ask))
            asked = next((event for event in events if isinstance(event, QuestionAsked)), None)
            if asked is None:
                asked = QuestionAsked(
                    question_id=ask.id, questions=ask.questions, asked_at=ask.asked_at, deadline=ask.deadline
                )
                events.append(asked)
            ask = evolve(ask, tool_call_id=asked.tool_call_id, agent_id=asked.agent_id)
            self._pending[ask.id] = ask
            self._publisher.record(
                lambda: {
                    "ask": {
                        "question_id": ask.id,
                        "questions": questions_to_wire(ask.questions),
                        "meta": dict(ask.meta),
                    }
                }
            )
            trace_asked(ask)
            self._publish(events)
            return ask

    def correlated(self, event: QuestionCorrelated) -> None:
        """Take in which call a waiting ask is of, where that is known only now."""
        with self._publisher.lock:
            if event.question_id in self._pending:
                known = evolve(
                    self._pending[event.question_id],
                    tool_call_id=event.tool_call_id,
                    agent_id=event.agent_id,
                )
                self._pending[known.id] = known

    def refused(self, ask: Ask, reason: str, by: str | None) -> None:
        """Hear of an answer that was not taken."""
        with self._publisher.lock:
            ask = self._pending.get(ask.id, ask)
            refused = AnswerRefused(
                question_id=ask.id,
                tool_call_id=ask.tool_call_id,
                agent_id=ask.agent_id,
                reason=reason,
                by=by,
            )
            self._publish([refused])

    def settled(self, ask: Ask, outcome: Outcome, duration_ms: int) -> None:
        """Hear of an ask's one outcome."""
        with self._publisher.lock:
            ask = self._pending.pop(ask.id, ask)
            answers = (
                answers_to_wire(ask.questions, outcome.answers) if isinstance(outcome, Answered) else None
            )
            reason, by = reason_and_by(outcome)
            resolved = QuestionResolved(
                question_id=ask.id,
                tool_call_id=ask.tool_call_id,
                agent_id=ask.agent_id,
                outcome=outcome.kind,
                answers=answers,
                reason=reason,
                by=by,
                duration_ms=duration_ms,
            )
            self._publisher.record(
                lambda: {
                    "outcome": {
                        "question_id": ask.id,
                        "outcome": outcome.kind,
                        "answers": answers,
                        "reason": reason,
                        "by": by,
                    }
                }
            )
            trace_settled(ask, outcome, duration_ms)
            more = self._heard(ask, lambda conversation: conversation.ask_settled(ask, outcome))
            self._publish([resolved, *more])

    def _heard(self, ask: Ask, hear: Callable[[Conversation], Iterable[Event]]) -> list[Event]:
        conversation = self._conversation()
        if conversation is None:
            return []
        try:
            return list(hear(conversation))
        except Exception:
            _logger.exception("the adapter failed on ask %s", ask.id)
            return []
