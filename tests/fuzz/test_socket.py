"""Whatever bytes come over a session's socket: every ask settles once, and nobody else feels it."""

from __future__ import annotations

import json
import select
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz_hosts import FuzzedHost, fuzzed_host
from fuzz_lines import PATIENCE_S, Lines, ask, rpc

EXAMPLES = min(settings().max_examples, 2000)

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
def torn(draw: st.DrawFn) -> list[bytes]:
    """Give what one client sends, in pieces that may end anywhere."""
    data = b"".join(draw(st.lists(st.one_of(sound, sound, misfit, broken(), raw), max_size=12)))
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


clients = st.lists(
    st.tuples(torn(), st.sampled_from(["close", "half", "reset", "stay"])), min_size=1, max_size=3
)


@pytest.fixture(scope="module")
def host() -> Iterator[FuzzedHost]:
    """One bridge for all examples; at the end nothing of them is left."""
    with (
        tempfile.TemporaryDirectory(prefix="o", dir="/tmp") as folder,
        fuzzed_host(Path(folder), grace=timedelta(milliseconds=20), max_pending=6) as host,
    ):
        yield host


@settings(max_examples=EXAMPLES)
@given(clients=clients)
def test_no_bytes_hurt_the_session(host: FuzzedHost, clients: list[tuple[list[bytes], str]]) -> None:
    """Damaged, strange and interleaved lines over several connections: one that keeps to the protocol is served."""
    with host.session() as (_, path, _operator), ExitStack() as stack:
        sound = stack.enter_context(Lines(path))
        sound.shake_hands()
        sockets = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in clients]
        for connection in sockets:
            connection.connect(path)
            connection.settimeout(PATIENCE_S)
        for turn in range(max(len(pieces) for pieces, _ in clients)):
            for connection, (pieces, _ending) in zip(sockets, clients, strict=True):
                if turn < len(pieces):
                    with suppress(OSError):  # a connection that floods is closed
                        connection.sendall(pieces[turn])
        for connection, (_pieces, ending) in zip(sockets, clients, strict=True):
            if ending == "close":
                connection.close()
            elif ending == "half":
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
                    _drained(connection)
            elif ending == "reset":
                connection.shutdown(socket.SHUT_RDWR)
        sound.send(rpc("ping", None, "after"))
        assert sound.response("after")["result"] == {}
        sound.call("asked", "now sound")
        assert sound.response("asked")["result"]["isError"] in (False, True)


def _drained(connection: socket.socket) -> None:
    """Read what still comes until the server closes, which it has to."""
    while select.select([connection], [], [], PATIENCE_S)[0]:
        if not connection.recv(1 << 16):
            return
    raise AssertionError("the server keeps a connection whose client has ended")


@pytest.mark.parametrize("what", ["never says anything", "never reads", "ends in the middle"])
def test_clients_that_hang_cost_nobody_else(host: FuzzedHost, what: str) -> None:
    """Fifty of them stay connected while another is served, and the session closes all the same."""
    with host.session() as (_, path, operator), ExitStack() as stack:
        for number in range(50):
            connection = stack.enter_context(socket.socket(socket.AF_UNIX))
            connection.connect(path)
            connection.setblocking(False)
            data = {
                "never says anything": b"",
                "never reads": rpc("initialize", hello, 0)
                + b"".join(rpc("tools/list", None, i) for i in range(400)),
                "ends in the middle": rpc("initialize", hello, 0) + ask(1, f"later {number}")[:-20],
            }[what]
            with suppress(OSError):
                connection.sendall(data)
        sound = stack.enter_context(Lines(path))
        sound.shake_hands()
        sound.call(1, "now")
        assert sound.response(1)["result"]["isError"] is False
        assert len(operator.asked) == 1


def test_equal_ids_at_once_settle_each(host: FuzzedHost) -> None:
    """A client that uses one id for several calls that wait loses their responses, and no ask is left open."""
    with host.session() as (session, path, operator), Lines(path) as lines:
        lines.shake_hands()
        for number in range(3):
            lines.call("same", f"later {number}")
        operator.wait_asked(3)
        operator.answer_all()
        lines.response("same")
        lines.send(rpc("ping", None, "p"))
        lines.response("p")
        del session


def test_what_is_asked_is_not_what_is_sent(host: FuzzedHost) -> None:
    """Any arguments at all are answered, and what is put to the operator is within the bounds."""

    @settings(max_examples=EXAMPLES // 2)
    @given(arguments=values)
    def any_arguments(arguments: Any) -> None:
        operator.answer_all()
        lines.send(rpc("tools/call", {"name": "ask_user_question", "arguments": arguments}, "x"))
        answer = lines.response("x")
        assert ("result" in answer) != ("error" in answer)

    with host.session() as (_, path, operator), Lines(path) as lines:
        lines.shake_hands()
        any_arguments()
        assert all(1 <= len(ask.questions) <= 4 for ask in operator.asked)
