"""The inbox on a whole terminal: every session's questions, and each in the conversation where it was asked.

Needs Textual (the extra ``tui``) and an asyncio loop.
"""

from __future__ import annotations

from opask.surfaces.fullscreen.app import InboxApp

__all__ = ["InboxApp"]
