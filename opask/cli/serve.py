"""`opask serve`: the page on which agents' questions wait for you."""

from __future__ import annotations

import argparse
import ipaddress
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio

from opask.cli import UsageError
from opask.cli.logs import logging_to
from opask.cli.output import Stream
from opask.cli.stopping import Stopping
from opask.cli.webpage import PORT, claimed, hosting
from opask.inert import inert_line

__all__ = ["configure", "run"]

HELP = "serve the page on which agents' questions wait for you"
EXAMPLE = "opask serve --port 9000"

_FILES: Final = 16_384
_PORTS: Final = 65_535


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--port", type=_port, default=PORT, help=f"the port; 0 for any that is free (default: {PORT})"
    )
    parser.add_argument("--inbox", type=Path, metavar="FILE", help="the inbox (default: your own)")
    parser.add_argument(
        "--allow-remote",
        action="store_true",
        help="also listen where other machines reach it; what is sent, the token included, is not encrypted",
    )
    parser.add_argument(
        "--new-token",
        action="store_true",
        help="make a new link; pages that are open have to be opened by it",
    )


def _port(value: str) -> int:
    if value.isdecimal() and int(value[:6]) <= _PORTS:
        return int(value)
    raise argparse.ArgumentTypeError(f"{value!r} is no port: a number from 0 to {_PORTS}")


def run(args: argparse.Namespace) -> int:
    """Serve until a signal comes.

    Returns:
        128+n where signal n ended it.

    Raises:
        OpaskError: it cannot be served.
    """
    addresses = _addresses(args.host)
    is_remote = not all(address.is_loopback for address in addresses)
    if is_remote and not args.allow_remote:
        raise UsageError(
            f"--host {args.host} is reached by other machines, and nothing on the way is encrypted, the token included; "
            "put a proxy that speaks TLS before a loopback address, or say --allow-remote"
        )
    _raise_file_limit()
    return anyio.run(
        _serve, args, is_remote, any(each.is_unspecified for each in addresses), backend="asyncio"
    )


def _addresses(host: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    try:
        if not host:
            raise UnicodeError
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UsageError(f"--host {host}: there is no such address; name one of this machine") from None
    return [ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found]


async def _serve(args: argparse.Namespace, is_remote: bool, is_everywhere: bool) -> int:
    from opask.inbox import SqliteStore, default_path
    from opask.surfaces.web.guards import ANY_ADDRESS, LOOPBACK

    def tell(text: str) -> None:
        print(f"opask serve: {inert_line(text)}", file=sys.stderr, flush=True)

    hosts = {*LOOPBACK, args.host, *((ANY_ADDRESS, socket.gethostname()) if is_everywhere else ())}
    stopping = Stopping()
    with logging_to(Stream(sys.stderr)):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stopping.watch)
            with stopping.scope:
                async with SqliteStore(args.inbox or default_path()) as store:
                    with claimed(store) as place:
                        async with hosting(
                            store, place, args.host, args.port, hosts=hosts, new_token=args.new_token
                        ) as link:
                            if is_remote:
                                tell("other machines can reach this, and nothing on the way is encrypted")
                            tell(f"for scripts, as long as this runs: {place.path}")
                            print(link, flush=True)
                            await anyio.sleep_forever()
            tasks.cancel_scope.cancel()
    assert stopping.by is not None
    tell(f"ended by {stopping.by.name}")
    return 128 + stopping.by


def _raise_file_limit() -> None:
    """Have room for many pages: each that is open is a file of this process."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
