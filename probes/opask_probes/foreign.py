"""A stdio MCP server that is none of opask's, with one tool, to be told from the ask tool.

Run as ``python -I -S foreign.py TOOL``. Standard library alone. Every call is answered with `ANSWER`.
"""

import json
import sys

__all__ = ["ANSWER", "main"]

ANSWER = "The foreign server answered."


def reply(request: "dict[str, object]", tool: str) -> "dict[str, object]":
    """Give what a request is answered with: a result or an error."""
    method = request.get("method")
    results: dict[object, dict[str, object]] = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "foreign", "version": "1"},
        },
        "ping": {},
        "tools/list": {
            "tools": [
                {"name": tool, "description": "Answers.", "inputSchema": {"type": "object", "properties": {}}}
            ]
        },
        "tools/call": {"content": [{"type": "text", "text": ANSWER}]},
    }
    if method in results:
        return {"result": results[method]}
    return {"error": {"code": -32601, "message": f"there is no method {method}"}}


def main(arguments: "list[str]") -> int:
    """Serve until stdin ends."""
    if len(arguments) != 1:
        print("usage: foreign.py TOOL", file=sys.stderr)
        return 2
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            answer = {"jsonrpc": "2.0", "id": request["id"], **reply(request, arguments[0])}
            print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
