"""Where a clamd listens, and how a connection to it is made. What is said on it lives in `clamd_talk`."""

import asyncio
import errno
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

_BACKLOG_PAUSE: Final = 0.005
_MOST_PORT: Final = 65535

_Place = tuple[int, int, int, str, Any]
"""Family, type, protocol, canonical name and address, as getaddrinfo answers them; the address differs per family."""


class ClamdAway(Exception):
    """This clamd gave no answer that can be understood. `str()` is one sentence; another clamd may be asked the same again."""


@dataclass(frozen=True, slots=True)
class ClamdAddress:
    """A unix socket (`path`) or a TCP port (`host` and `port`)."""

    path: str = ""
    host: str = ""
    port: int = 0

    @property
    def is_local(self) -> bool:
        """Whether descriptors can be passed to it."""
        return bool(self.path)

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"tcp:[{self.host}]:{self.port}" if ":" in self.host else f"tcp:{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "ClamdAddress":
        """Read `unix:/path`, `tcp:host:port` or `tcp:[IPv6]:port`; raises `ValueError` with a sentence for anything else."""
        kind, _, rest = text.partition(":")
        host, _, port = rest.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if kind == "unix" and rest.startswith("/"):
            return cls(path=rest)
        if kind == "tcp" and host and port.isascii() and port.isdecimal() and 0 < int(port) <= _MOST_PORT:
            return cls(host=host, port=int(port))
        raise ValueError(f"an address of clamd is unix:/path or tcp:host:port, not {text!r}")


async def connect(address: ClamdAddress, seconds: float) -> socket.socket:
    """Answer a connected, non-blocking socket that the caller closes; raises `ClamdAway` when there is none within `seconds`."""
    try:
        if address.is_local and (connection := _connected_at_once(address.path)):
            return connection
        async with asyncio.timeout(seconds):
            return await (_connect_unix(address.path) if address.is_local else _connect_tcp(address.host, address.port))
    except TimeoutError as late:
        raise ClamdAway(f"no connection within {seconds:g} s") from late
    except OSError as fault:
        raise ClamdAway(f"no connection: {reason(fault)}") from fault


def reason(fault: OSError) -> str:
    """Answer the system's words for a fault, without paths or addresses."""
    return os.strerror(fault.errno) if fault.errno else type(fault).__name__


async def _connect_unix(path: str) -> socket.socket:
    while True:
        connection = _connected_at_once(path)
        if connection is not None:
            return connection
        await asyncio.sleep(_BACKLOG_PAUSE)


def _connected_at_once(path: str) -> socket.socket | None:
    """Answer a connection, None while the backlog is full: a unix socket says so at once, and cannot be waited for."""
    connection = _new_socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except BlockingIOError:
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    return connection


async def _connect_tcp(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    fault = OSError(errno.EHOSTUNREACH, "")
    for family, _, _, _, place in await _resolve(host, port):
        connection = _new_socket(family)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(connection, place)
        except OSError as refused:
            connection.close()
            fault = refused
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise fault


async def _resolve(host: str, port: int) -> Sequence[_Place]:
    try:
        # An address in digits needs no resolver, and so no thread.
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _new_socket(family: int) -> socket.socket:
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.setblocking(False)
    return connection
