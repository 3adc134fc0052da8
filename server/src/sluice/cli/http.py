"""The HTTP client of the commands: HTTP/1.1 over kept connections, TLS, proxies, and bodies that are streamed.

Written for its start: `http.client` loads in a tenth of the time that httpx takes (docs/decisions/0026).
"""

# ruff: noqa: PLC0415  (only what an address needs is loaded: TLS for https, proxies if the environment names one)

import base64
import http.client
import json
import os
import select
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

if TYPE_CHECKING:
    import ssl

_CONNECT_SECONDS: Final = 10.0
_WRITE_SECONDS: Final = 60.0
# A large file is checked and scanned after its last byte: the response may take minutes.
_READ_SECONDS: Final = 600.0
_CHUNK: Final = 65_536
_PORTS: Final = {"http": 80, "https": 443}


class ConnectionRefused(Exception):
    """Nothing responds at the address: it is not known, nothing listens, or nothing accepts in time."""


class ConnectionBroken(Exception):
    """The connection broke before the whole response was read."""


class UnusableAddress(Exception):
    """The address or a header cannot be sent."""


@dataclass(frozen=True, slots=True)
class Response:
    """The response to a request, with its body."""

    status: int
    headers: http.client.HTTPMessage
    content: bytes

    def json(self) -> Any:
        """Return the parsed body; raise `ValueError`."""
        return json.loads(self.content)


@dataclass(frozen=True, slots=True)
class OpenResponse:
    """A response whose body is read in pieces."""

    status: int
    headers: http.client.HTTPMessage
    _body: http.client.HTTPResponse

    def pieces(self) -> Iterator[bytes]:
        """Yield the body. Raise `ConnectionBroken` if it ends before its announced length."""
        with _translated():
            while piece := self._body.read(_CHUNK):
                yield piece
            if self._body.length:
                raise http.client.IncompleteRead(b"", self._body.length)

    def read(self) -> Response:
        """Return the response with all of its body."""
        return Response(self.status, self.headers, b"".join(self.pieces()))


class HttpClient:
    """Sends requests to one service. Every thread has a connection of its own, which is kept between requests."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._target = _parsed(url)
        self._headers = dict(headers)
        self._proxy = _proxy_of(self._target)
        self._own = threading.local()
        self._opened: list[http.client.HTTPConnection] = []
        self._tls: ssl.SSLContext | None = None

    def close(self) -> None:
        """End the connections of all threads; requests that are at work fail."""
        for connection in self._opened:
            with suppress(OSError, AttributeError):  # closed meanwhile
                connection.sock.shutdown(socket.SHUT_RDWR)
            connection.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        content: Iterable[bytes] = (),
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
        content: Iterable[bytes] = (),
        length: int | None = None,
    ) -> Iterator[OpenResponse]:
        """Send a request and yield its response, whose body has not been read yet."""
        sent = {**self._headers, **(headers or {})}
        if body is not None:
            content = (json.dumps(body).encode(),)
            length = len(content[0])
            sent["Content-Type"] = "application/json"
        if length is not None or method in {"POST", "PUT", "PATCH"}:
            sent["Content-Length"] = str(length or 0)
        connection = self._connection()
        try:
            with _translated():
                connection.putrequest(method, self._request_target(path, query), skip_accept_encoding=True)
                for name, value in sent.items():
                    connection.putheader(name, value)
            response = self._exchange(connection, content)
            yield OpenResponse(response.status, response.headers, response)
            if response.will_close or not response.isclosed():  # closed: all of its body was read
                connection.close()
        except BaseException:
            connection.close()
            raise

    def _exchange(self, connection: http.client.HTTPConnection, content: Iterable[bytes]) -> http.client.HTTPResponse:
        with _translated():
            connection.endheaders()
            self._time_limit(connection, _WRITE_SECONDS)
        for piece in content:
            try:
                connection.send(piece)
            except TimeoutError as fault:
                raise ConnectionBroken("the service takes no more bytes") from fault
            except OSError:
                # The service refuses a body by a response before its end, and reads no further.
                break
        with _translated():
            self._time_limit(connection, _READ_SECONDS)
            return connection.getresponse()

    def _request_target(self, path: str, query: Mapping[str, Any] | None) -> str:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target = self._target.path.rstrip("/") + path + (f"?{urlencode(given, doseq=True)}" if given else "")
        if self._proxy is not None and self._target.scheme == "http":
            return f"http://{self._target.netloc}{target}"
        return target

    def _connection(self) -> http.client.HTTPConnection:
        """Return the connection of this thread, made again if the service has closed it meanwhile."""
        kept: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if kept is not None and kept.sock is not None and not _is_closed(kept.sock):
            return kept
        if kept is not None:
            kept.close()
        self._own.connection = made = self._make_connection()
        self._opened.append(made)
        try:
            made.connect()
        except (OSError, http.client.HTTPException) as fault:
            made.close()
            raise ConnectionRefused(str(fault) or type(fault).__name__) from fault
        except ValueError as fault:  # a name that no resolver takes
            raise UnusableAddress(str(fault)) from fault
        return made

    def _make_connection(self) -> http.client.HTTPConnection:
        host, port = _place(self._target)
        by_tls = self._target.scheme == "https"
        if self._proxy is not None:
            near_host, near_port = _place(self._proxy)
        else:
            near_host, near_port = host, port
        if by_tls:
            self._tls = self._tls or _tls_context()
            made: http.client.HTTPConnection = http.client.HTTPSConnection(
                near_host, near_port, timeout=_CONNECT_SECONDS, context=self._tls
            )
            if self._proxy is not None:
                made.set_tunnel(host, port, headers=_proxy_credential(self._proxy))
            return made
        if self._proxy is not None:
            self._headers |= _proxy_credential(self._proxy)
        return http.client.HTTPConnection(near_host, near_port, timeout=_CONNECT_SECONDS)

    @staticmethod
    def _time_limit(connection: http.client.HTTPConnection, seconds: float) -> None:
        with suppress(OSError):  # a socket that is closed already says so when it is used
            connection.sock.settimeout(seconds)


def _parsed(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _PORTS and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError as fault:
        raise UnusableAddress(str(fault)) from fault
    if not usable or parts.username is not None or parts.query or parts.fragment or not url.isprintable():
        raise UnusableAddress("expected an address such as https://files.example.com")
    return parts


def _place(parts: SplitResult) -> tuple[str, int]:
    return parts.hostname or "", parts.port or _PORTS[parts.scheme]


def _is_closed(opened: socket.socket) -> bool:
    """Return whether the other end has closed an idle connection: nothing else makes it readable."""
    poll = select.poll()
    poll.register(opened, select.POLLIN)
    return bool(poll.poll(0))


def _proxy_of(target: SplitResult) -> SplitResult | None:
    """Return the proxy that the environment names for an address, None for none."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass

    found = getproxies()
    proxy = found.get(target.scheme) or found.get("all")
    if not proxy or proxy_bypass(target.netloc):
        return None
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if parts.scheme != "http" or not parts.hostname:
        raise UnusableAddress(f"the proxy {parts.scheme}://{parts.hostname} is none by http")
    return parts


def _proxy_credential(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _tls_context() -> "ssl.SSLContext":
    import ssl

    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509_ca"]:  # an image without the certificates of its distribution
        with suppress(ImportError, OSError):
            import certifi

            context.load_verify_locations(certifi.where())
    return context


@contextmanager
def _translated() -> Iterator[None]:
    """Turn faults of the connection into `ConnectionBroken`, and what cannot be sent into `UnusableAddress`."""
    try:
        yield
    except (OSError, http.client.HTTPException) as fault:
        if isinstance(fault, http.client.InvalidURL):
            raise UnusableAddress(str(fault)) from fault
        raise ConnectionBroken(str(fault) or type(fault).__name__) from fault
    except ValueError as fault:  # a header with a line break, or with characters beyond Latin-1
        raise UnusableAddress("a header has characters that no header can have") from fault
