"""Bring the loopback interface up and become another program.

Run as a file, ``python -I -S loopback.py COMMAND…``, in a fresh network namespace, where loopback is down. Needs
the standard library alone, and no ``ip`` program.
"""

import fcntl
import os
import socket
import struct
import sys

__all__ = ["bring_up", "interfaces", "main"]

# netdevice(7), and the kernel's if.h: the flags are a short after a name of 16 bytes.
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_REQUEST = struct.Struct("16sH22x")


def bring_up(name: str = "lo") -> None:
    """Bring an interface up.

    Raises:
        OSError: it is not there, or this process may not.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = _REQUEST.pack(name.encode(), 0)
        flags = _REQUEST.unpack(fcntl.ioctl(control, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, _REQUEST.pack(name.encode(), flags | _IFF_UP))


def interfaces(table: str) -> set[str]:
    """Give the names of the interfaces in a text like ``/proc/net/dev``."""
    return {line.split(":", 1)[0].strip() for line in table.splitlines() if ":" in line}


def main(argv: list[str]) -> int:
    """Bring loopback up and become the program of ``argv``; return only if that is not possible."""
    if not argv:
        print("usage: loopback.py COMMAND [ARGUMENT...]", file=sys.stderr)
        return 2
    try:
        bring_up()
        os.execvp(argv[0], argv)  # noqa: S606 -- becoming the program is the point
    except OSError as error:
        print(f"loopback: {argv[0]}: {error}", file=sys.stderr)
    return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
