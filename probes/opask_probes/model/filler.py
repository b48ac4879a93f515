"""What no scenario says: where a streamed text is cut, how many tokens it counts, what a demanded form holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["instance", "pieces", "tokens"]

# Characters a streamed piece: few and odd, so that readers meet pieces that end anywhere.
_PIECE: Final = 17


def pieces(text: str) -> list[str]:
    """Cut a text into the pieces that it is streamed in."""
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


def tokens(value: object) -> int:
    """Give a plausible count of tokens, at least one."""
    return max(1, len(json.dumps(value, default=str)) // 4)


def instance(schema: Mapping[str, Any]) -> Any:
    """Make the smallest value that a plain JSON schema admits, for side calls that demand a form."""
    if choices := schema.get("enum"):
        return choices[0]
    if "const" in schema:
        return schema["const"]
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return instance(schema[union][0])
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0]
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: instance(properties.get(name, {})) for name in schema.get("required", [])}
    if kind == "array":
        return [instance(schema.get("items", {}))] * schema.get("minItems", 0)
    return {"boolean": False, "integer": 0, "number": 0, "null": None}.get(str(kind), "ok")
