"""Requests of the commands: httpx with their timeouts, responses as the service sent them, and a `close` that ends all.

The commands print what the service says as it is, so that they need no models of it.
"""

# ruff: noqa: PLC0415  (certificates are loaded for https only)

import json
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import httpx

if TYPE_CHECKING:
    import ssl

# A large file is checked and scanned after its last byte: the response may take minutes.
TIMEOUT: Final = httpx.Timeout(connect=10, write=60, read=600, pool=None)
UNREACHABLE: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)
_UNUSABLE: Final = (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError, ImportError, ValueError)


class ConnectionRefused(Exception):
    """Nothing responds at the address: it is not known, nothing listens, or nothing accepts in time."""


class UnknownHost(ConnectionRefused):
    """The host name of the address cannot be resolved."""


class ConnectionBroken(Exception):
    """The connection broke before the whole response was read."""


class UnusableAddress(Exception):
    """The address or a header cannot be sent."""


@dataclass(frozen=True, slots=True)
class Response:
    """The response to a request, with its body."""

    status: int
    headers: httpx.Headers
    content: bytes

    def json(self) -> Any:
        """Return the parsed body; raise `ValueError`."""
        return json.loads(self.content)


@dataclass(frozen=True, slots=True)
class OpenResponse:
    """A response whose body is read in pieces."""

    status: int
    headers: httpx.Headers
    _response: httpx.Response

    def pieces(self) -> Iterator[bytes]:
        """Yield the body. Raise `ConnectionBroken` if it ends before its announced length."""
        with _translated():
            yield from self._response.iter_raw()

    def read(self) -> Response:
        """Return the response with all of its body."""
        return Response(self.status, self.headers, b"".join(self.pieces()))


class HttpClient:
    """Sends requests to one service, from any thread. `library` is the client of httpx by which it does."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None:
            raise UnusableAddress("expected an address such as https://files.example.com")
        if parts.query or parts.fragment or not url.isprintable():
            raise UnusableAddress("expected an address such as https://files.example.com")
        self._sockets: list[socket.socket] = []
        with _translated():
            self.library = httpx.Client(
                base_url=url,
                headers={"Accept-Encoding": "identity", **headers},
                timeout=TIMEOUT,
                limits=httpx.Limits(max_connections=None),
                verify=_tls_context() if parts.scheme == "https" else False,
                event_hooks={"request": [self._watch]},
            )

    def close(self) -> None:
        """End the connections of all threads; requests that are at work fail."""
        for opened in self._sockets:
            with suppress(OSError):  # closed meanwhile
                opened.shutdown(socket.SHUT_RDWR)
        self.library.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        content: Iterable[bytes] | None = None,
        length: int | None = None,
    ) -> Response:
        """Send a request and return its response.

        `body` is sent as JSON, `content` of `length` bytes as it is. Raise `ConnectionRefused`, `ConnectionBroken` or
        `UnusableAddress`; what `content` raises passes.
        """
        with self.stream(method, path, query=query, body=body, headers=headers, content=content, length=length) as one:
            return one.read()

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        content: Iterable[bytes] | None = None,
        length: int | None = None,
    ) -> Iterator[OpenResponse]:
        """Send a request and yield its response, whose body has not been read yet."""
        with _translated():
            request = self.library.build_request(
                method,
                path,
                params={name: value for name, value in (query or {}).items() if value is not None} or None,
                json=body,
                content=content,
                headers={**(headers or {}), **({} if length is None else {"Content-Length": str(length)})},
            )
            response = self.library.send(request, stream=True)
        try:
            yield OpenResponse(response.status_code, response.headers, response)
        finally:
            response.close()

    def _watch(self, request: httpx.Request) -> None:
        request.extensions["trace"] = self._trace

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Keep each socket that is opened, so that `close` can end a request in another thread."""
        if event in {"connection.connect_tcp.complete", "proxy_stream.start_tls.complete"}:
            self._sockets.append(info["return_value"].get_extra_info("socket"))


def _tls_context() -> "ssl.SSLContext":
    """Return the certificates that the system trusts, or those of certifi if it has none, as small images."""
    import ssl

    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509_ca"]:
        import certifi

        context.load_verify_locations(certifi.where())
    return context


def _is_unresolved(fault: BaseException) -> bool:
    cause: BaseException | None = fault
    while cause is not None and not isinstance(cause, socket.gaierror):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


@contextmanager
def _translated() -> Iterator[None]:
    """Turn faults of the connection into exceptions of this module."""
    try:
        yield
    except UNREACHABLE as fault:
        kind = UnknownHost if _is_unresolved(fault) else ConnectionRefused
        raise kind(str(fault) or type(fault).__name__) from fault
    except _UNUSABLE as fault:
        raise UnusableAddress(str(fault)) from fault
    except httpx.TransportError as fault:
        raise ConnectionBroken(str(fault) or type(fault).__name__) from fault
