"""Whatever comes over HTTP to a session: every ask settles once, and nobody else feels it."""

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

from fuzz_hosts import FuzzedHost, fuzzed_host, resident_kib
from fuzz_http import ENVELOPE, Era, Posts, Request, connected
from fuzz_lines import ask, drained, rpc
from fuzz_messages import broken, misfit, raw, sound, values
from opask.launch import Endpoint

EXAMPLES = min(settings().max_examples, 1000)
# Of an MCP session that a client ends while another request of it is read, the SDK leaves a stream to the collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"),
    pytest.mark.filterwarnings(
        "ignore:.*MemoryObject(Send|Receive)Stream.__del__:pytest.PytestUnraisableExceptionWarning"
    ),
]
ERAS: tuple[Era, ...] = ("handshake", "modern")

texts = st.sampled_from(["now", "now 2", "later", "later 2"])
numbers = st.integers(0, 3)
bodies = st.one_of(st.builds(ask, numbers, texts), sound, misfit, broken(), raw)
framings = st.sampled_from(["length", "length", "chunked"])
asking = st.one_of(
    st.builds(Request, st.builds(ask, numbers, texts, st.just({"progressToken": 1})), framing=framings),
    st.builds(
        Request, st.builds(ask, numbers, texts, st.just(ENVELOPE)), era=st.just("modern"), framing=framings
    ),
    st.builds(
        Request, st.builds(lambda number: rpc("notifications/cancelled", {"requestId": number}), numbers)
    ),
)
# Each wrong in its own way; most requests have none of them, or nothing but refusals would be tried.
wrong = st.sampled_from(
    [
        {"Authorization": None},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "bearer {token}"},
        {"Host": None},
        {"Host": "evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://{host}"},
        {"Accept": None},
        {"Accept": "text/html;q=\x7f"},
        {"Content-Type": "text/plain"},
        {"Content-Type": 'application/json; charset="\udcff'},
        {"Mcp-Session-Id": None},
        {"Mcp-Session-Id": "nobody's"},
        {"MCP-Protocol-Version": "1999-01-01"},
        {"Mcp-Method": "tools/list"},
        {"Last-Event-ID": "7"},
        {"Expect": "100-continue"},
        {"Connection": "close"},
        {"Connection": "upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "x"},
        {"Content-Encoding": "gzip"},
        {"Content-Length": "99999999999999999999"},
        {"Content-Length": "-1"},
        {"X-Long": "x" * 70_000},
    ]
)
requests = st.builds(
    Request,
    bodies,
    method=st.sampled_from(["POST"] * 9 + ["GET", "DELETE", "PUT", "OPTIONS", "BREW", ""]),
    path=st.sampled_from([None] * 9 + ["/", "/mcp", "/x/mcp", "*", "//%00/mcp", "http://elsewhere/mcp"]),
    headers=st.one_of(st.just({}), st.just({}), wrong),
    era=st.sampled_from([*ERAS, None]),
    framing=st.sampled_from(["length"] * 6 + ["chunked"] * 2 + ["short", "long", "bad chunk", "none"]),
)


@st.composite
def clients(draw: st.DrawFn) -> list[tuple[list[Request | bytes], list[float], str]]:
    """Give what several clients send, one request behind the other, where each is cut, and how it ends."""
    client = st.tuples(
        st.lists(
            st.one_of(asking, asking, requests, requests, st.binary(max_size=100)), min_size=1, max_size=5
        ),
        st.lists(st.floats(0, 1), max_size=4),
        st.sampled_from(["close", "half", "reset", "stay"]),
    )
    return draw(st.lists(client, min_size=1, max_size=4))


def pieces_of(data: bytes, cuts: list[float]) -> list[bytes]:
    """Cut bytes into pieces at the given parts of their length."""
    at = sorted(int(part * len(data)) for part in cuts)
    return [data[begin:end] for begin, end in zip([0, *at], [*at, len(data)], strict=True)]


@pytest.fixture(scope="module")
def host() -> Iterator[FuzzedHost]:
    """One bridge for all examples; at the end nothing of them is left."""
    with (
        tempfile.TemporaryDirectory(prefix="o", dir="/tmp") as folder,
        fuzzed_host(
            Path(folder),
            transport="http",
            grace=timedelta(milliseconds=20),
            heartbeat=timedelta(milliseconds=200),
            max_pending=6,
        ) as host,
    ):
        yield host


@settings(max_examples=EXAMPLES * 6 // 10)
@given(clients=clients(), era=st.sampled_from(ERAS))
def test_no_request_hurts_the_session(
    host: FuzzedHost, clients: list[tuple[list[Request | bytes], list[float], str]], era: Era
) -> None:
    """Damaged, strange, pipelined and interleaved requests: a client that keeps to the protocol is served."""
    with host.served() as (_, endpoint, _operator), ExitStack() as stack:
        sound = Posts(endpoint, era)
        sound.shake_hands()
        known = Posts(endpoint)
        known.shake_hands()
        sockets = [stack.enter_context(connected(endpoint)) for _ in clients]
        sent = [
            pieces_of(
                b"".join(
                    each if isinstance(each, bytes) else each.to_bytes(endpoint, known.mcp_session)
                    for each in wanted
                ),
                cuts,
            )
            for wanted, cuts, _ in clients
        ]
        for turn in range(max(map(len, sent))):
            for connection, pieces in zip(sockets, sent, strict=True):
                if turn < len(pieces):
                    with suppress(OSError):  # a connection that talks nonsense is closed
                        connection.sendall(pieces[turn])
        for connection, (_wanted, _cuts, ending) in zip(sockets, clients, strict=True):
            with suppress(OSError):
                if ending == "close":
                    connection.close()
                elif ending == "half":  # it may still have its answers
                    connection.shutdown(socket.SHUT_WR)
                elif ending == "reset":
                    connection.shutdown(socket.SHUT_RDWR)
        assert sound.request("tools/list")["result"]["tools"]
        assert sound.call("now sound")["result"]["isError"] in (False, True)


def hang(stack: ExitStack, endpoint: Endpoint, what: str, count: int) -> list[socket.socket]:
    """Connect clients that then leave the server to wait."""
    connections = []
    known = Posts(endpoint)
    known.shake_hands()
    for number in range(count):
        connection = stack.enter_context(connected(endpoint))
        connections.append(connection)
        connection.setblocking(False)
        asking = Request(ask(1, f"later {number}")).to_bytes(endpoint, known.mcp_session)
        listing = Request(rpc("tools/list", None, 1)).to_bytes(endpoint, known.mcp_session)
        data = {
            "never says anything": b"",
            "never reads": listing * 400,
            "waits": asking,
            "ends in its head": asking[:40],
            "ends in its body": asking[:-20],
        }[what]
        with suppress(OSError):
            connection.sendall(data)
    return connections


HANGING = ["never says anything", "never reads", "ends in its head", "ends in its body"]


@pytest.mark.parametrize("what", HANGING)
def test_clients_that_hang_cost_nobody_else(host: FuzzedHost, what: str) -> None:
    """Fifty of them stay connected while another is served; the session closes all the same, and cuts its own."""
    with ExitStack() as stack:
        with host.served() as (_, endpoint, operator):
            connections = hang(stack, endpoint, what, 50)
            sound = Posts(endpoint)
            sound.shake_hands()
            assert sound.call("now")["result"]["isError"] is False
            assert len(operator.asked) == 1
        for connection in connections if what in {"never reads", "ends in its body"} else ():
            with suppress(ConnectionResetError):
                drained(connection)


@pytest.mark.parametrize("what", [*HANGING, "waits"])
def test_clients_that_hang_do_not_hold_the_bridge(what: str) -> None:
    """It closes with them connected, leaves nothing open, and has no error to tell."""
    with (
        ExitStack() as stack,
        tempfile.TemporaryDirectory(prefix="o", dir="/tmp") as folder,
        fuzzed_host(Path(folder), transport="http") as host,
    ):
        with host.served() as (_, endpoint, _operator):
            hang(stack, endpoint, what, 5)
        host.still_connected = True


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("era", ERAS)
def test_what_is_too_much_is_refused(host: FuzzedHost, era: Era, framing: Any) -> None:
    """A body beyond the limit is not read to its end, and a session whose peers send such goes on."""
    with host.served() as (_, endpoint, operator):
        sound = Posts(endpoint, era)
        sound.shake_hands()
        huge = Request(b"[" * (9 << 20), era=era, framing=framing)
        with connected(endpoint) as connection:
            with suppress(OSError):  # refused before it is all sent
                connection.sendall(huge.to_bytes(endpoint, sound.mcp_session))
                connection.shutdown(socket.SHUT_WR)
            with suppress(OSError):
                assert drained(connection).startswith(b"HTTP/1.1 413 ")
        deep = Request(b'{"jsonrpc":"2.0","id":1,"method":' + b"[" * 200_000, era=era)
        assert sound.send(deep)[0] == 400
        assert sound.call("now")["result"]["isError"] is False
        assert len(operator.asked) == 1


def test_equal_ids_at_once_settle_each(host: FuzzedHost) -> None:
    """A client that uses one id for several calls that wait may lose responses, and no ask is left open."""
    with host.served() as (_, endpoint, operator), ExitStack() as stack:
        sound = Posts(endpoint)
        sound.shake_hands()
        for number in range(3):
            connection = stack.enter_context(connected(endpoint))
            request = Request(ask("same", f"later {number}"))
            connection.sendall(request.to_bytes(endpoint, sound.mcp_session))
        operator.wait_asked(3)
        operator.answer_all()
        assert sound.request("ping")["result"] == {}


@pytest.mark.parametrize("era", ERAS)
def test_a_client_that_is_gone_with_a_request_behind_is_noticed(host: FuzzedHost, era: Era) -> None:
    """Its connection is not read while a call waits, and the next progress that is written to it tells."""
    with host.served() as (_, endpoint, operator):
        sound = Posts(endpoint, era)
        sound.shake_hands()
        more = {"progressToken": 1} | (ENVELOPE if era == "modern" else {})
        waiting = Request(ask(1, "later", more), era=era).to_bytes(endpoint, sound.mcp_session)
        with connected(endpoint) as connection:
            connection.sendall(waiting * 2)
            operator.wait_asked(1)
        operator.wait_settled()
        assert {each.kind for each in operator.outcomes.values()} == {"abandoned"}


@pytest.mark.parametrize("era", ERAS)
def test_what_is_asked_is_not_what_is_sent(host: FuzzedHost, era: Era) -> None:
    """Any arguments at all are answered, and what is put to the operator is within the bounds."""

    @settings(max_examples=EXAMPLES // 2)
    @given(arguments=values)
    def any_arguments(arguments: Any) -> None:
        answer = client.request("tools/call", {"name": "ask_user_question", "arguments": arguments})
        assert ("result" in answer) != ("error" in answer)

    with host.served() as (_, endpoint, operator):
        operator.answer_all()
        client = Posts(endpoint, era)
        client.shake_hands()
        any_arguments()
        assert all(1 <= len(ask.questions) <= 4 for ask in operator.asked)


@pytest.mark.parametrize("era", ERAS)
def test_memory_is_flat(host: FuzzedHost, era: Era) -> None:
    """What many sessions with lost clients have used is used again by as many more."""

    def serve(times: int) -> None:
        for _ in range(times):
            with host.served() as (_, endpoint, operator):
                sound = Posts(endpoint, era)
                sound.shake_hands()
                request = Request(ask(1, "later", ENVELOPE if era == "modern" else None), era=era)
                with connected(endpoint) as connection:
                    connection.sendall(request.to_bytes(endpoint, sound.mcp_session))
                    operator.wait_asked(1)

    rounds = max(10, EXAMPLES // 10)
    serve(rounds)
    before = resident_kib()
    serve(rounds)
    grown = resident_kib() - before
    assert grown < 4096, f"{grown} KiB more after {rounds} sessions"
