"""Whatever bytes come over a session's socket: every ask settles once, and nobody else feels it."""

from __future__ import annotations

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
from fuzz_lines import PATIENCE_S, Lines, ask, drained, rpc
from fuzz_messages import broken, cut, hello, misfit, raw, sound, values

EXAMPLES = min(settings().max_examples, 2000)


@st.composite
def torn(draw: st.DrawFn) -> list[bytes]:
    """Give what one client sends, in pieces."""
    data = b"".join(draw(st.lists(st.one_of(sound, sound, misfit, broken(), raw), max_size=12)))
    return draw(cut(data))


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
                    drained(connection)
            elif ending == "reset":
                connection.shutdown(socket.SHUT_RDWR)
        sound.send(rpc("ping", None, "after"))
        assert sound.response("after")["result"] == {}
        sound.call("asked", "now sound")
        assert sound.response("asked")["result"]["isError"] in (False, True)


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
