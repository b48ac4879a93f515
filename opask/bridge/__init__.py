"""The bridge between runtimes and the host: sessions whose agents can ask."""

from opask.bridge.bridge import Bridge
from opask.bridge.session import Session

__all__ = ["Bridge", "Session"]
