"""The way from a namespace to a server out here: what goes over it, and how it ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from opask.errors import OpaskError
from opask_probes.model import Conversation, Reply, Scenario, Step
from opask_probes.passage import passage
from opask_probes.sandbox import NoNamespace, loopback_namespace
from opask_probes.stage import Stage, stage

HELLO = Scenario("hello", (Conversation("main", (Step(Reply("Hello.")),)),))
CLIENT = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    connection.sendall(b"hello")
    print(connection.recv(100).decode(), flush=True)
    try:
        print("ended" if connection.recv(100) == b"" else "more", flush=True)
    except ConnectionError:
        print("ended", flush=True)
"""


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio: probes run on nothing else."""
    return "asyncio"


@pytest.fixture
async def set_(tmp_path: Path) -> AsyncIterator[Stage]:
    """A stage in a namespace of its own."""
    isolation = loopback_namespace()
    if isinstance(isolation, NoNamespace):
        pytest.skip(isolation.reason)
    async with stage(HELLO, isolation) as set_:
        yield set_


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """The port of a server on this process's own loopback, which answers each piece with another."""

    async def answer(stream: SocketStream) -> None:
        async with stream:
            async for piece in stream:
                await stream.send(b"heard " + piece)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, answer)
        yield int(listener.extra(anyio.abc.SocketAttribute.local_port))
        tasks.cancel_scope.cancel()


async def test_a_program_in_a_namespace_reaches_a_port_out_here(set_: Stage, port: int) -> None:
    """What it sends arrives at the same port, so does the answer, and cutting the way is the connection's end."""
    with anyio.fail_after(40):
        async with passage(set_.enter, port, set_.sandbox.root / "h") as way:
            argv = [*set_.enter, sys.executable, "-c", CLIENT, str(port)]
            async with await anyio.open_process(argv, stderr=subprocess.DEVNULL) as client:
                assert client.stdout is not None
                said = BufferedByteReceiveStream(client.stdout)
                assert await said.receive_until(b"\n", 100) == b"heard hello"
                assert way.opened == 1
                assert way.cut() == 1
                assert await said.receive_until(b"\n", 100) == b"ended"
                await way.idle()
            assert way.cut() == 0


async def test_a_client_that_is_gone_is_gone_out_here(set_: Stage, port: int) -> None:
    """The end of its process ends the connection to the server."""
    with anyio.fail_after(40):
        async with passage(set_.enter, port, set_.sandbox.root / "h") as way:
            argv = [*set_.enter, sys.executable, "-c", CLIENT, str(port)]
            async with await anyio.open_process(argv, stderr=subprocess.DEVNULL) as client:
                assert client.stdout is not None
                await client.stdout.receive()
                client.kill()
            await way.idle()


async def test_a_port_that_cannot_be_opened_is_named(set_: Stage) -> None:
    """A port that is taken in the namespace, as the model's is, is an error, and nothing is left of the way."""
    taken = int(set_.url.rpartition(":")[2].strip("/"))
    with pytest.raises(OpaskError, match=f"port {taken} cannot be opened"):
        async with passage(set_.enter, taken, set_.sandbox.root / "h"):
            pass
