"""A port for a server that a test starts in a moment, perhaps in another process."""

import secrets
import socket
from pathlib import Path
from typing import Final

_FIRST: Final = 10_000
#: Linux' range of the ports that it gives clients' sockets, and its start where none is told.
_CLIENTS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST_OF_CLIENTS: Final = 32_768


def free_port() -> int:
    """A port on loopback that nothing listens on, and that the kernel gives no client's socket.

    One that the kernel itself names is of those that it gives to clients, so any connection made
    on a busy machine may take it before the server is there.
    """
    room = first_of_clients() - _FIRST
    while True:
        port = _FIRST + secrets.randbelow(room)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def first_of_clients() -> int:
    """The lowest port that the kernel gives clients' sockets."""
    try:
        first = int(_CLIENTS.read_text().split()[0])
    except OSError:
        return _FIRST_OF_CLIENTS
    return first if first > _FIRST + 1000 else _FIRST_OF_CLIENTS
