"""Listen on a port of loopback, and pass every connection on to a unix socket.

Run as a file, ``python -I -S doorway.py PORT SOCKET``, in a network namespace that has no other way out: a unix socket
is found by its path, whatever the namespace. Says ``ready`` when it listens, and ends with its standard input. Needs
the standard library alone.
"""

import asyncio
import contextlib
import sys

__all__ = ["main", "serve"]

_CHUNK = 65536


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()


async def serve(port: int, path: str) -> None:
    """Pass connections on until standard input ends; where one side of a connection ends, the other does too."""

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            beyond, answer = await asyncio.open_unix_connection(path)
            copies = {
                asyncio.ensure_future(_copy(reader, answer)),
                asyncio.ensure_future(_copy(beyond, writer)),
            }
            try:
                await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for copy in copies:
                    copy.cancel()
                answer.close()
        writer.close()

    async with await asyncio.start_server(passed, "127.0.0.1", port):
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def main(argv: list[str]) -> int:
    """Serve what ``argv`` names; return the exit code."""
    if len(argv) != 2:
        print("usage: doorway.py PORT SOCKET", file=sys.stderr)
        return 2
    try:
        asyncio.run(serve(int(argv[0]), argv[1]))
    except OSError as error:
        print(f"doorway: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
