"""Connections to servers of strangers, which may send without an end and without a pause.

An HTTP client reads interim responses (RFC 9110 section 15.2) and fields of any number in a loop that does not end
before the last of those that it has received. Here it receives a few at a time, and not more than a response may have.
"""

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any, Final

import httpcore

_READ_BYTES: Final = 4096


class TooLongResponse(httpcore.ReadError):
    """More was sent as a response than may be received."""


class BoundedBackend(httpcore.AsyncNetworkBackend):
    """Opens connections on which at most `response_bytes` are received for a request. Beyond, `TooLongResponse`."""

    def __init__(self, response_bytes: int) -> None:
        self._backend = httpcore.AnyIOBackend()
        self._response_bytes = response_bytes

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  (the interface of the library)
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Return a connection."""
        stream = await self._backend.connect_tcp(host, port, timeout, local_address, socket_options)
        return _BoundedStream(stream, self._response_bytes)


class _BoundedStream(httpcore.AsyncNetworkStream):
    def __init__(self, stream: httpcore.AsyncNetworkStream, response_bytes: int) -> None:
        self._stream = stream
        self._response_bytes = self._left = response_bytes

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109  (see above)
        if self._left <= 0:
            raise TooLongResponse(f"more than {self._response_bytes} bytes")
        await asyncio.sleep(0)  # what was received already is returned without giving way
        data = await self._stream.read(min(max_bytes, _READ_BYTES), timeout)
        self._left -= len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109  (see above)
        self._left = self._response_bytes
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  (see above)
    ) -> httpcore.AsyncNetworkStream:
        stream = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return _BoundedStream(stream, self._response_bytes)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
