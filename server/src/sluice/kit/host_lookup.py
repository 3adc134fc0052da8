"""Look up host names without holding up the end of the process.

An event loop looks names up in the four threads of libuv, and waits for them when it closes: a resolver that does not
respond, and takes ten seconds and more for each name, would delay every other lookup and the stop of the server.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Sequence
from typing import TypeAlias

AddressInfo: TypeAlias = tuple[
    socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
]
"""Family, type, protocol, canonical name and address, as `socket.getaddrinfo` returns them."""


async def look_up(host: str, port: int | None = None) -> Sequence[AddressInfo]:
    """Return the stream addresses of `host`. Raise `OSError`, or `UnicodeError` if it cannot be a host name.

    When cancelled, the lookup continues in its daemon thread and its result is dropped.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Sequence[AddressInfo]] = loop.create_future()

    def settle(result: Sequence[AddressInfo] | Exception) -> None:
        if found.done():
            return
        if isinstance(result, Exception):
            found.set_exception(result)
        else:
            found.set_result(result)

    def run() -> None:
        result: Sequence[AddressInfo] | Exception
        try:
            result = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except Exception as fault:  # noqa: BLE001  (whatever it is, it is raised where the caller waits)
            result = fault
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=run, name=f"look up {host}", daemon=True).start()
    return await found
