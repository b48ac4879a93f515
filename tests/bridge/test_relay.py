"""The relay: bytes through, and an end with either side."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import opask

RELAY = Path(opask.__file__).with_name("relay.py")


@pytest.fixture
def server() -> Iterator[tuple[str, socket.socket]]:
    """A listening socket, and its path."""
    with tempfile.TemporaryDirectory(prefix="o", dir="/tmp") as folder:
        path = os.path.join(folder, "s")  # noqa: PTH118 - a socket's address is a string
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            listener.settimeout(40)
            yield path, listener


def start(path: str, **streams: int) -> subprocess.Popen[bytes]:
    """Start a relay on it."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    return subprocess.Popen([sys.executable, "-I", "-S", str(RELAY), path], **pipes)  # type: ignore[call-overload, no-any-return]


def finish(relay: subprocess.Popen[bytes]) -> None:
    """Close the test's ends of an ended relay's pipes."""
    for stream in (relay.stdin, relay.stdout, relay.stderr):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def test_megabytes_go_through_both_ways_at_once(server: tuple[str, socket.socket]) -> None:
    """Neither direction waits for the other."""
    path, listener = server
    data = os.urandom(1 << 20) * 8
    relay = start(path)
    connection, _ = listener.accept()

    def echo() -> None:
        while received := connection.recv(65536):
            connection.sendall(received)

    thread = threading.Thread(target=echo)
    thread.start()
    assert relay.stdin
    assert relay.stdout
    writer = threading.Thread(target=lambda: (relay.stdin.write(data), relay.stdin.flush()))  # type: ignore[union-attr]
    writer.start()
    received = b""
    while len(received) < len(data):
        received += relay.stdout.read1(1 << 20)  # type: ignore[attr-defined]
    assert received == data
    writer.join()
    relay.stdin.close()
    assert relay.wait(40) == 0
    thread.join()
    connection.close()
    finish(relay)


@pytest.mark.parametrize("side", ["runtime", "host"])
def test_it_ends_with_either_side(server: tuple[str, socket.socket], side: str) -> None:
    """The end of one side is the end of the process, and the other side sees it."""
    path, listener = server
    relay = start(path)
    connection, _ = listener.accept()
    connection.settimeout(40)
    if side == "runtime":
        assert relay.stdin
        relay.stdin.close()
        assert connection.recv(1) == b""
    else:
        connection.close()
    assert relay.wait(40) == 0
    connection.close()
    finish(relay)


def test_a_missing_socket_is_told_and_has_its_exit_code() -> None:
    """The message names the socket and what to do."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(RELAY), "/nowhere/s"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 69
    assert done.stdout == ""
    assert "/nowhere/s" in done.stderr
    assert "start the runtime again" in done.stderr


def test_wrong_usage_is_told() -> None:
    """Without a socket it says how it is used."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(RELAY)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "SOCKET" in done.stderr


def test_an_interrupt_lets_the_cancel_through(server: tuple[str, socket.socket]) -> None:
    """SIGINT, which runtimes send before their cancel, does not end it."""
    path, listener = server
    relay = start(path)
    connection, _ = listener.accept()
    connection.settimeout(40)
    assert relay.stdin
    relay.stdin.write(b"a\n")
    relay.stdin.flush()
    assert connection.recv(10) == b"a\n"  # it runs, with its signals set
    relay.send_signal(signal.SIGINT)
    relay.stdin.write(b"cancel\n")
    relay.stdin.flush()
    assert connection.recv(10) == b"cancel\n"
    relay.send_signal(signal.SIGTERM)
    assert relay.wait(40) == -signal.SIGTERM
    connection.close()
    finish(relay)


def test_streams_that_do_not_block_are_waited_for(server: tuple[str, socket.socket]) -> None:
    """A runtime may hand down a socket pair that is set not to block."""
    path, listener = server
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    relay = start(path, stdin=theirs.fileno(), stdout=theirs.fileno())
    theirs.close()
    connection, _ = listener.accept()
    for end in (ours, connection):
        end.settimeout(40)
    ours.sendall(b"ping\n")
    assert connection.recv(10) == b"ping\n"
    big = b"x" * (1 << 21)
    sender = threading.Thread(target=connection.sendall, args=(big,))
    sender.start()
    received = b""
    while len(received) < len(big):
        received += ours.recv(1 << 20)
    assert received == big
    sender.join()
    ours.close()
    assert relay.wait(40) == 0
    connection.close()
    finish(relay)
