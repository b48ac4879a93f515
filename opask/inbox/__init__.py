"""The inbox: where asks wait for an operator, whichever surface the operator comes by.

`InboxPrompter` puts asks into a `Store`, and a surface watches the store and resolves them there. `MemoryStore` is for
a host and its surfaces in one process; `SqliteStore` for several processes, and for what has to outlive them.
"""

from __future__ import annotations

from opask.inbox.conversation import Card, Conversation, Item, place
from opask.inbox.entries import (
    OPEN_STATES,
    Change,
    Entry,
    EntryChanged,
    InboxSession,
    Lease,
    LoggedEvent,
    OperatorReply,
    ReadsReply,
    SessionChanged,
    SessionCleared,
    Snapshot,
    State,
    Update,
)
from opask.inbox.forms import (
    answers_from_json,
    answers_to_json,
    entry_to_json,
    session_to_json,
    update_to_json,
)
from opask.inbox.late import follow_up
from opask.inbox.memory import MemoryStore
from opask.inbox.presence import attend
from opask.inbox.prompter import InboxPrompter, WhenAbsent
from opask.inbox.recorder import Recorder
from opask.inbox.refusals import (
    AlreadyResolvedError,
    AnswerMisfitError,
    InboxError,
    OpenAsksError,
    RefusedError,
    TooLateError,
    UnknownAskError,
    UnknownSessionError,
    WrongSessionError,
)
from opask.inbox.rules import outcome_of
from opask.inbox.showing import show
from opask.inbox.sqlite import SqliteStore, default_path
from opask.inbox.store import Host, Store

__all__ = [
    "OPEN_STATES",
    "AlreadyResolvedError",
    "AnswerMisfitError",
    "Card",
    "Change",
    "Conversation",
    "Entry",
    "EntryChanged",
    "Host",
    "InboxError",
    "InboxPrompter",
    "InboxSession",
    "Item",
    "Lease",
    "LoggedEvent",
    "MemoryStore",
    "OpenAsksError",
    "OperatorReply",
    "ReadsReply",
    "Recorder",
    "RefusedError",
    "SessionChanged",
    "SessionCleared",
    "Snapshot",
    "SqliteStore",
    "State",
    "Store",
    "TooLateError",
    "UnknownAskError",
    "UnknownSessionError",
    "Update",
    "WhenAbsent",
    "WrongSessionError",
    "answers_from_json",
    "answers_to_json",
    "attend",
    "default_path",
    "entry_to_json",
    "follow_up",
    "outcome_of",
    "place",
    "session_to_json",
    "show",
    "update_to_json",
]
