"""Requests over HTTP to one origin: no redirect is followed, and no proxy used except the relay."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final
from urllib.parse import urlsplit

import httpcore

from sluice.kit.bounded_answers import BoundedBackend
from sluice.storage.protocol import StoreUnavailable, Timeouts

_KIB: Final = 1024
_PIECE_BYTES: Final = 256 * _KIB  # encrypted at once, on the event loop
_READ_BYTES: Final = 64 * _KIB
_MAX_RESPONSE_BYTES: Final = 8 * _KIB * _KIB
_IDLE_SECONDS: Final = 20.0
_BROKEN: Final = "The connection to the store broke."
_TIMED_OUT: Final = "The store did not respond in time."


class NoResponse(StoreUnavailable):
    """The store did not respond. `may_have_arrived`: the request may have been carried out all the same."""

    def __init__(self, sentence: str, *, may_have_arrived: bool) -> None:
        super().__init__(sentence)
        self.may_have_arrived = may_have_arrived


@dataclass(frozen=True, slots=True)
class Response:
    """What a server sent; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """The connections to one origin, kept for `_IDLE_SECONDS` when they are idle; those through a relay are not."""

    def __init__(self, timeouts: Timeouts, relay_url: str | None = None, *, unknown_host: str) -> None:
        self._timeouts = timeouts
        self._relay_url = relay_url
        self._unknown_host = unknown_host
        self._pool: httpcore.AsyncConnectionPool | None = None

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> Response:
        """Return the response, whatever its status. Raise `NoResponse`."""
        pool = self._pool = self._pool or self._new_pool()
        limits = {"connect": self._timeouts.connect_seconds, "pool": self._timeouts.request_seconds}
        host = urlsplit(url).netloc
        sent = [("host", host), ("accept", "*/*"), *headers.items()]
        try:
            async with (
                asyncio.timeout(self._timeouts.request_seconds),
                pool.stream(
                    method, url, headers=sent, content=_pieces(body) if body else None, extensions={"timeout": limits}
                ) as response,
            ):
                parts = [part async for part in response.aiter_stream()]
        except TimeoutError:
            raise NoResponse(_TIMED_OUT, may_have_arrived=True) from None
        except (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.ProxyError, ssl.SSLError) as error:
            raise NoResponse(self._not_connected(error), may_have_arrived=False) from error
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
            raise NoResponse(_BROKEN, may_have_arrived=True) from error
        named = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        return Response(response.status, named, b"".join(parts))

    async def aclose(self) -> None:
        """Close all connections. A second call is a no-op."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.aclose()

    def _new_pool(self) -> httpcore.AsyncConnectionPool:
        return httpcore.AsyncConnectionPool(
            ssl_context=_tls_context(),
            max_connections=64,
            max_keepalive_connections=0 if self._relay_url else 32,
            keepalive_expiry=_IDLE_SECONDS,
            proxy=httpcore.Proxy(self._relay_url) if self._relay_url else None,
            network_backend=BoundedBackend(_MAX_RESPONSE_BYTES, read_bytes=_READ_BYTES),
        )

    def _not_connected(self, error: Exception) -> str:
        text = str(error)
        if "CERTIFICATE_VERIFY_FAILED" in text or isinstance(error, ssl.SSLError):
            return "The store's TLS certificate is not trusted."
        if isinstance(error.__cause__ or error.__context__, OSError) and _is_lookup(error):
            return self._unknown_host
        return "The store cannot be reached."


def _is_lookup(error: BaseException) -> bool:
    """Return whether an error comes from a host without an address."""
    seen: BaseException | None = error
    while seen is not None:
        if type(seen).__name__ == "gaierror":
            return True
        seen = seen.__cause__ or seen.__context__
    return False


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    view = memoryview(body)
    for at in range(0, len(body), _PIECE_BYTES):
        yield bytes(view[at : at + _PIECE_BYTES])


@cache
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()
