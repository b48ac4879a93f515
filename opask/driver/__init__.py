"""Runs a runtime that speaks newline-delimited JSON over its stdin and stdout, and lets a session converse with it.

The driver knows no protocol: what a line means, and what to send, the session's conversation says. It moves lines,
answers permission requests, and sees to it that the runtime, and all that it started, ends.
"""

from opask.driver.launching import run, start
from opask.driver.lines import LineCutter
from opask.driver.process import RunningRuntime
from opask.driver.terms import Bounds, DrivenSession, Pace, Policy, RunResult, Tee

__all__ = [
    "Bounds",
    "DrivenSession",
    "LineCutter",
    "Pace",
    "Policy",
    "RunResult",
    "RunningRuntime",
    "Tee",
    "run",
    "start",
]
