"""Where a connection stands, from the handshake to the turns: a table.

`TABLE` says what a state becomes by a step; a step that has no place in a state leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

__all__ = ["TABLE", "State", "Step", "after"]


class State(Enum):
    """Where a connection stands."""

    NEW = "new"  # nothing was said
    INITIALIZING = "initializing"
    INITIALIZED = "initialized"
    AUTHENTICATING = "authenticating"
    AUTHENTICATED = "authenticated"
    OPENING = "opening"  # session/new, session/load or session/resume is on its way
    IDLE = "idle"  # there is a session, and no turn
    BUSY = "busy"  # a turn runs; no other prompt may be sent
    CANCELLING = "cancelling"  # a turn runs that was told to end
    FAILED = "failed"  # the agent gave no session
    EXITED = "exited"


class Step(Enum):
    """What can happen to a connection."""

    INITIALIZE = "initialize sent"
    INITIALIZED = "initialize answered"
    AUTHENTICATE = "authenticate sent"
    AUTHENTICATED = "authenticate answered"
    OPEN = "session/new, session/load or session/resume sent"
    OPENED = "its answer: the session is there"
    PROMPT = "session/prompt sent"
    CANCEL = "session/cancel sent"
    TURN_OVER = "session/prompt answered"
    FAIL = "a request of the handshake refused"
    EXIT = "the agent's process ended"


_S, _P = State, Step

TABLE: Final[Mapping[State, Mapping[Step, State]]] = {
    # A client of the host's own may have come this far by itself.
    _S.NEW: {
        _P.INITIALIZE: _S.INITIALIZING,
        _P.OPEN: _S.OPENING,
        _P.PROMPT: _S.BUSY,
        _P.EXIT: _S.EXITED,
    },
    _S.INITIALIZING: {_P.INITIALIZED: _S.INITIALIZED, _P.FAIL: _S.FAILED, _P.EXIT: _S.EXITED},
    _S.INITIALIZED: {
        _P.AUTHENTICATE: _S.AUTHENTICATING,
        _P.OPEN: _S.OPENING,
        _P.FAIL: _S.FAILED,
        _P.EXIT: _S.EXITED,
    },
    _S.AUTHENTICATING: {_P.AUTHENTICATED: _S.AUTHENTICATED, _P.FAIL: _S.FAILED, _P.EXIT: _S.EXITED},
    _S.AUTHENTICATED: {_P.OPEN: _S.OPENING, _P.FAIL: _S.FAILED, _P.EXIT: _S.EXITED},
    _S.OPENING: {_P.OPENED: _S.IDLE, _P.FAIL: _S.FAILED, _P.EXIT: _S.EXITED},
    _S.IDLE: {_P.PROMPT: _S.BUSY, _P.EXIT: _S.EXITED},
    _S.BUSY: {_P.CANCEL: _S.CANCELLING, _P.TURN_OVER: _S.IDLE, _P.EXIT: _S.EXITED},
    _S.CANCELLING: {_P.CANCEL: _S.CANCELLING, _P.TURN_OVER: _S.IDLE, _P.EXIT: _S.EXITED},
    # Somebody may log in and try again.
    _S.FAILED: {_P.AUTHENTICATE: _S.AUTHENTICATING, _P.OPEN: _S.OPENING, _P.EXIT: _S.EXITED},
    _S.EXITED: {},
}
"""What a state becomes by a step."""


def after(state: State, step: Step) -> State:
    """Return what a state becomes by a step; itself where the step has no place in it."""
    return TABLE[state].get(step, state)
