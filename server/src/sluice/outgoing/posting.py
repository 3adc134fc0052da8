"""One signed POST to a URL that a tenant named. Its address is judged each time, and no redirect is followed."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeVar

import httpcore
import httpx

from sluice import __version__
from sluice.buckets.endpoints import EndpointRefused, Resolve, addresses_of
from sluice.kit.bounded_answers import BoundedBackend, TooLongResponse
from sluice.outgoing.addresses import judged_addresses
from sluice.outgoing.signature import signed_headers

T = TypeVar("T")
_MOST_ADDRESSES: Final = 3
_CONNECTIONS: Final = 4
_RESPONSE_BYTES: Final = 64 * 1024
_WAITS: Final = ("connect", "read", "write", "pool")
_FAULTS: Final[Mapping[type[Exception], str]] = MappingProxyType(
    {
        TooLongResponse: f"a response of more than {_RESPONSE_BYTES // 1024} KiB",
        httpcore.ConnectError: "no connection: refused, or the certificate of the host is not trusted here",
        httpcore.NetworkError: "the connection was lost",
        httpcore.RemoteProtocolError: "the response is not valid HTTP",
        httpcore.LocalProtocolError: "the request cannot be sent to this URL",
        httpcore.TimeoutException: "no response in time",
        httpx.InvalidURL: "the URL is not valid",
        OSError: "the host cannot be reached",
        UnicodeError: "the URL is not valid",
    }
)
"""The descriptions of failed attempts, without texts of a library or the receiver."""


class NoResponse(Exception):
    """There was no response that can be read. `str()` is a sentence without texts of the receiver."""


class SignedPoster:
    """Sends signed requests to one URL. Close it in the end."""

    def __init__(
        self,
        url: str,
        secrets: Sequence[str],
        allowed: Collection[str],
        tls: ssl.SSLContext,
        *,
        resolve: Resolve = addresses_of,
        seconds: float,
    ) -> None:
        self._url = url
        self._secrets = secrets
        self._allowed = allowed
        self._resolve = resolve
        self._seconds = seconds
        # It uses no proxy of the environment, which would connect to an address that was not judged.
        self._connections = httpcore.AsyncConnectionPool(
            tls, max_connections=_CONNECTIONS, network_backend=BoundedBackend(_RESPONSE_BYTES)
        )

    async def aclose(self) -> None:
        """Close its connections."""
        await self._connections.aclose()

    async def post(self, message_id: str, body: bytes, read: Callable[[httpcore.Response], Awaitable[T]]) -> T:
        """Send `body` and return what `read` makes of the response. Raise `NoResponse`."""
        try:
            async with asyncio.timeout(self._seconds):
                addresses = await judged_addresses(self._url, self._allowed, self._resolve)
                return await self._post(addresses, message_id, body, read)
        except EndpointRefused as fault:
            raise NoResponse(str(fault)) from fault
        except TimeoutError as fault:
            raise NoResponse(f"no response within {self._seconds:g} s") from fault
        except Exception as fault:
            words = next((words for kind, words in _FAULTS.items() if isinstance(fault, kind)), None)
            if words is None:
                raise
            raise NoResponse(words) from fault

    async def _post(
        self,
        addresses: Sequence[str],
        message_id: str,
        body: bytes,
        read: Callable[[httpcore.Response], Awaitable[T]],
    ) -> T:
        url = httpx.URL(self._url)
        headers = [
            ("Host", url.netloc.decode("ascii")),
            ("Content-Type", "application/json"),
            ("User-Agent", f"Sluice/{__version__}"),
            ("Accept-Encoding", "identity"),
            ("Content-Length", str(len(body))),
            *signed_headers(self._secrets, message_id, int(time.time()), body).items(),
        ]
        tried = addresses[:_MOST_ADDRESSES]
        for address in tried:
            # To the judged address; the name stays in Host, and in SNI, by which the certificate is judged.
            target = httpcore.URL(scheme=url.raw_scheme, host=address.encode(), port=url.port, target=url.raw_path)
            extensions = {"sni_hostname": url.host, "timeout": dict.fromkeys(_WAITS, self._seconds)}
            try:
                async with self._connections.stream(
                    "POST", target, headers=headers, content=body, extensions=extensions
                ) as response:
                    return await read(response)
            except httpcore.ConnectError:
                if address == tried[-1]:
                    raise
        raise httpcore.ConnectError("no address")
