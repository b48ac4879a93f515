"""What the fuzz tests send: messages that are sound, that do not fit, and that are none; in pieces that end anywhere."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from fuzz_lines import ask, rpc

__all__ = ["broken", "cut", "envelope", "hello", "ids", "misfit", "raw", "sound", "values"]

ids = st.sampled_from([1, 1, 2, "a", "", -1, 1.5, 2**70, True, [], {}]) | st.integers()
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
envelope = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "fuzz", "version": "0"},
}
hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "fuzz", "version": "0"}}
methods = st.sampled_from(
    [
        "initialize",
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/progress",
        "server/discover",
        "tools/list",
        "tools/call",
        "ping",
        "resources/list",
        "subscriptions/listen",
        "logging/setLevel",
        "no/such",
        "",
    ]
)
asking = st.builds(
    ask,
    ids,
    st.sampled_from(["now", "now 2", "later", "later 2", "x" * 3000]),
    st.none() | st.sampled_from([envelope, {"progressToken": 1}, {"progressToken": []}]) | values,
)
sound = st.one_of(
    asking,
    st.builds(rpc, st.just("initialize"), st.just(hello), ids),
    st.just(rpc("notifications/initialized")),
    st.builds(rpc, st.just("server/discover"), st.just({"_meta": envelope}), ids),
    st.builds(lambda i: rpc("notifications/cancelled", {"requestId": i}), ids),
    st.builds(rpc, st.sampled_from(["tools/list", "ping"]), st.none() | st.just({"_meta": envelope}), ids),
)
misfit = st.one_of(
    st.builds(rpc, methods, st.none() | values, st.none() | ids),
    st.builds(
        lambda arguments, i: rpc("tools/call", {"name": "ask_user_question", "arguments": arguments}, i),
        values,
        ids,
    ),
    st.builds(lambda value: json.dumps(value).encode() + b"\n", values),
    st.builds(lambda i: json.dumps({"jsonrpc": "2.0", "id": i, "result": {}}).encode() + b"\n", ids),
    st.builds(lambda i: json.dumps({"jsonrpc": "2.0", "id": i, "error": {}}).encode() + b"\n", ids),
)
raw = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([b"\n", b"\r\n", b"\x00\n", b"\xff\xfe\n", b"\xed\xa0\x80\n", b"{\n", b'"\\ud800"\n']),
    st.builds(
        lambda n, piece: piece * n + b"\n",
        st.integers(1, 20000),
        st.sampled_from([b"[", b'{"a":', b"1", b"[["]),
    ),
)


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """Damage a line that was sound: cut it, or put other bytes in its middle."""
    line: bytes = draw(sound)
    at = draw(st.integers(0, len(line)))
    tail: bytes = draw(st.one_of(st.just(b""), st.binary(max_size=5), st.just(line[at + 1 :])))
    return line[:at] + tail


@st.composite
def cut(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """Give bytes in pieces that may end anywhere."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
