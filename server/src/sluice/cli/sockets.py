"""The socket that a server listens on. Loads nothing of the server: the supervisor opens it before."""

import contextlib
import socket
from typing import Final

from sluice_client.cli.output import CommandRefused, Exit

_KERNEL_UNSENT_BYTES: Final = 64 * 1024


def bound(host: str, port: int, setting: str) -> contextlib.closing[socket.socket]:
    """Return a bound socket that does not listen yet. Raise `CommandRefused`, which names the port's `setting`."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _name, address = found[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Accepted connections inherit it: of a response that is not read, the kernel keeps this much and no more.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _KERNEL_UNSENT_BYTES)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except OSError as fault:
        raise CommandRefused(
            f"Sluice cannot listen on {host}:{port}: {fault.strerror}. Choose another SLUICE_HOST or {setting}.",
            Exit.ERROR,
        ) from fault
    return contextlib.closing(listener)
