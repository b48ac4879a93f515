"""The MCP surface: another agent, or any MCP client, drives runs and answers what their agents ask.

`McpSurface` is the server over a `Driver`, which runs the sessions, and an inbox, where their questions wait; whoever
else watches that inbox may answer too. `serve_stdio` and `serve_http` give it a transport.
"""

from __future__ import annotations

from opask.surfaces.mcp.driving import Driven, Driver, DrivingError, SessionState, TurnEnd
from opask.surfaces.mcp.http import HttpAddress, serve_http
from opask.surfaces.mcp.server import McpSurface
from opask.surfaces.mcp.stdio import serve_stdio

__all__ = [
    "Driven",
    "Driver",
    "DrivingError",
    "HttpAddress",
    "McpSurface",
    "SessionState",
    "TurnEnd",
    "serve_http",
    "serve_stdio",
]
