"""A pipe between a runtime and the bridge: copies bytes between stdio and a unix socket.

Run as ``python -I -S relay.py SOCKET`` by the runtime, as its stdio MCP server. It speaks no protocol, writes
nothing else and ends when either side closes. Standard library alone, and little of it: its start is what a
runtime waits for.

Exit codes: 0 a side closed; 2 wrong usage; 69 (EX_UNAVAILABLE) the socket cannot be reached.
"""

# The bare modules: `socket` and `signal` with their enums cost more than a whole start, and nothing of them is needed.
import _signal  # type: ignore[import-not-found]
import _socket
import _thread
import os
import select
import sys

CHUNK = 65536


def read_some(descriptor: int) -> bytes:
    """Return what there is to read, nothing at the end of it."""
    while True:
        try:
            return os.read(descriptor, CHUNK)
        except BlockingIOError:  # the runtime's end of a shared pipe may be non-blocking
            select.select([descriptor], [], [])


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of the data."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            select.select([], [descriptor], [])


def pump(source: int, target: int) -> None:
    """Copy until either side is gone, then end the process: the other direction has no use any more."""
    try:
        while data := read_some(source):
            write_all(target, data)
    except OSError:
        pass
    os._exit(0)


def main(arguments: list[str]) -> int:
    """Connect and copy; return the exit code where that is not possible."""
    if len(arguments) != 1:
        print("usage: relay.py SOCKET", file=sys.stderr)
        return 2
    # Runtimes send SIGINT to their servers before they send the cancel that it stands for: let it pass through.
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(arguments[0])
    except OSError as error:
        print(
            f"opask relay: cannot reach the host at {arguments[0]}: {error.strerror or error}. "
            "The session has closed or its host has ended; start the runtime again from its host.",
            file=sys.stderr,
        )
        return 69
    descriptor = connection.fileno()
    _thread.start_new_thread(pump, (0, descriptor))
    pump(descriptor, 1)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
