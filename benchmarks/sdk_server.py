"""The ask tool as a stdio server of the Python SDK: what the relay is held against."""

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from opask.wire import INSTRUCTIONS, SERVER_NAME, TOOL_DESCRIPTION, TOOL_NAME, input_schema

ANSWER = {"answers": {"Which database should the service use?": "PostgreSQL"}}


async def list_tools(ctx: object, params: object) -> types.ListToolsResult:
    """List the one tool."""
    return types.ListToolsResult(
        tools=[types.Tool(name=TOOL_NAME, description=TOOL_DESCRIPTION, input_schema=input_schema())]
    )


async def call_tool(ctx: object, params: object) -> types.CallToolResult:
    """Answer at once."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=str(ANSWER))], structured_content=ANSWER
    )


async def main() -> None:
    """Serve until the input ends."""
    server = Server(SERVER_NAME, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


anyio.run(main)
