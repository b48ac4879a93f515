"""opask ("operator ask"): agents without a terminal ask their human operator, and wait for the answer."""

from opask.adapters import Adapter, Conversation, adapter
from opask.errors import OpaskError
from opask.events import Event
from opask.launch import LaunchPlan, LaunchRequest
from opask.outcomes import (
    Abandoned,
    Answered,
    Cancelled,
    Outcome,
    Reply,
    Sentences,
    Skipped,
    TimedOut,
    Unavailable,
)
from opask.permissions import Allow, Defer, Deny, PermissionRequested, Verdict
from opask.prompter import Prompter, use_prompter
from opask.questions import Answer, Ask, Option, Question

__all__ = [
    "Abandoned",
    "Adapter",
    "Allow",
    "Answer",
    "Answered",
    "Ask",
    "Cancelled",
    "Conversation",
    "Defer",
    "Deny",
    "Event",
    "LaunchPlan",
    "LaunchRequest",
    "OpaskError",
    "Option",
    "Outcome",
    "PermissionRequested",
    "Prompter",
    "Question",
    "Reply",
    "Sentences",
    "Skipped",
    "TimedOut",
    "Unavailable",
    "Verdict",
    "adapter",
    "use_prompter",
]
