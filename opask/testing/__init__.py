"""What a host's own tests need: a scripted operator, and an agent without a process or a socket."""

from opask.testing.agents import Agent
from opask.testing.scripted import Scripted

__all__ = ["Agent", "Scripted"]
