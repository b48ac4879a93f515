"""opask ("operator ask"): agents without a terminal ask their human operator, and wait for the answer."""

TYPE_CHECKING = (
    False  # what type checkers take for true; `typing` alone would be half the cost of this import
)
if TYPE_CHECKING:
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

# Each name is loaded when it is first asked for: a host pays for what it uses.
_HOMES = {
    "adapters": ("Adapter", "Conversation", "adapter"),
    "errors": ("OpaskError",),
    "events": ("Event",),
    "launch": ("LaunchPlan", "LaunchRequest"),
    "outcomes": (
        "Abandoned",
        "Answered",
        "Cancelled",
        "Outcome",
        "Reply",
        "Sentences",
        "Skipped",
        "TimedOut",
        "Unavailable",
    ),
    "permissions": ("Allow", "Defer", "Deny", "PermissionRequested", "Verdict"),
    "prompter": ("Prompter", "use_prompter"),
    "questions": ("Answer", "Ask", "Option", "Question"),
}


if not TYPE_CHECKING:  # a checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        """Load a public name from its module."""
        from importlib import import_module

        for home, names in _HOMES.items():
            if name in names:
                value: object = getattr(import_module(f"opask.{home}"), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
