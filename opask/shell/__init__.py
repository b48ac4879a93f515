"""The read-only profile for shell commands: tells which command lines only read. Needs the extra ``gate``."""

from opask.shell.reading import classify, ready
from opask.shell.table import DEFAULT
from opask.shell.values import Command, Effect, Profile, ReadOnly, Verdict, Word, Write

__all__ = [
    "DEFAULT",
    "Command",
    "Effect",
    "Profile",
    "ReadOnly",
    "Verdict",
    "Word",
    "Write",
    "classify",
    "ready",
]
