"""Sending one webhook: the address is judged before it is dialled, and part of the response is kept."""

import asyncio
import ipaddress
import json
import ssl
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

import httpcore
import httpx

from sluice import __version__
from sluice.buckets.endpoints import (
    EndpointRefused,
    Resolve,
    addresses_of,
    require_allowed,
    require_allowed_addresses,
)
from sluice.kit.bounded_answers import BoundedBackend, TooLongResponse
from sluice.observe.log import log
from sluice.webhooks.signature import signed_headers

_SECONDS: Final = 15.0
_BODY_BYTES: Final = 2048
_MOST_HEADERS: Final = 50
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
_PORTS: Final = {"http": 80, "https": 443}


class NoAddress(EndpointRefused):
    """The host of an endpoint has no address now."""


@dataclass(frozen=True, slots=True)
class SendResult:
    """The result of one attempt. `status` None: there was no response, and `error` says why."""

    status: int | None
    headers: tuple[str, ...]
    body: str
    error: str | None
    retry_after: timedelta | None
    duration_ms: int

    @property
    def is_success(self) -> bool:
        """Whether the receiver took the event."""
        return self.status is not None and 200 <= self.status < 300  # noqa: PLR2004  (RFC 9110 section 15.3)

    @property
    def is_gone(self) -> bool:
        """Whether the receiver asks for no further events."""
        return self.status == httpx.codes.GONE


def require_usable(url: str, allowed: Collection[str]) -> None:
    """Raise `EndpointRefused` unless the URL is https, or names a host that the operator listed.

    An address in its place must be one that may be dialled.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        _ = httpx.URL(url).host  # decodes the name
        host.encode("idna")
    except (ValueError, httpx.InvalidURL) as fault:
        raise EndpointRefused("is no URL, or its host is no host name") from fault
    if parts.scheme not in _PORTS or not host or "@" in parts.netloc or parts.fragment or port == 0:
        raise EndpointRefused("expected https://host/path, without user, password and fragment")
    if _is_listed(url, allowed):
        return
    if parts.scheme != "https":
        raise EndpointRefused("expected https: the operator allows http to no other host")
    with suppress(ValueError):
        require_allowed_addresses([str(ipaddress.ip_address(host))], allowed)
    if host == "localhost" or host.endswith(".localhost"):
        raise EndpointRefused("this host leads to an address that the operator does not allow")


async def judged_addresses(url: str, allowed: Collection[str], resolve: Resolve = addresses_of) -> Sequence[str]:
    """Return the addresses that the host of `url` has now, all of which may be dialled.

    Raise `EndpointRefused` if one of them may not, and `NoAddress` if the host has none.
    """
    require_usable(url, allowed)
    host = urlsplit(url).hostname or ""
    is_address = _is_address(host)
    found = [host] if is_address else list(await resolve(host))
    if not found:
        raise NoAddress("this host has no address")
    if not (_is_listed(url, allowed) and (is_address or host == "localhost")):
        require_allowed_addresses(found, allowed)
    return sorted(found, key=lambda address: (":" in address, address))


class WebhookSender:
    """Sends webhooks to one endpoint. Close it in the end."""

    def __init__(
        self,
        url: str,
        secrets: Sequence[str],
        allowed: Collection[str],
        tls: ssl.SSLContext,
        *,
        resolve: Resolve = addresses_of,
        seconds: float = _SECONDS,
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

    async def send(self, event: dict[str, Any]) -> SendResult:
        """Send one event and return the result. Never raise for a fault of the receiver."""
        body = json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._seconds):
                addresses = await judged_addresses(self._url, self._allowed, self._resolve)
                return await self._post(addresses, event["id"], body, began)
        except EndpointRefused as fault:
            return _no_response(str(fault), began)
        except TimeoutError:
            return _no_response(f"no response within {self._seconds:g} s", began)
        except Exception as fault:  # noqa: BLE001  (an attempt that raises would be neither noted nor counted)
            error = next((words for kind, words in _FAULTS.items() if isinstance(fault, kind)), None)
            if error is None:
                log.exception("webhook_attempt_failed", host=urlsplit(self._url).hostname)
                error = "the attempt failed"
            return _no_response(error, began)

    async def _post(self, addresses: Sequence[str], event_id: str, body: bytes, began: float) -> SendResult:
        url = httpx.URL(self._url)
        headers = [
            ("Host", url.netloc.decode("ascii")),
            ("Content-Type", "application/json"),
            ("User-Agent", f"Sluice/{__version__}"),
            ("Accept-Encoding", "identity"),
            ("Content-Length", str(len(body))),
            *signed_headers(self._secrets, event_id, int(time.time()), body).items(),
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
                    return await _result_of(response, began)
            except httpcore.ConnectError:
                if address == tried[-1]:
                    raise
        raise httpcore.ConnectError("no address")


async def _result_of(response: httpcore.Response, began: float) -> SendResult:
    headers = httpx.Headers(response.headers)
    result = SendResult(
        status=response.status,
        headers=tuple(sorted({name.lower()[:100] for name in headers}))[:_MOST_HEADERS],
        body=await _beginning(response),
        error=None,
        retry_after=_retry_after(headers.get("retry-after")),
        duration_ms=_since(began),
    )
    return result if result.is_success else replace(result, error=f"status {result.status}")


async def _beginning(response: httpcore.Response) -> str:
    found = b""
    async for chunk in response.aiter_stream():
        found += chunk
        if len(found) >= _BODY_BYTES:
            break
    # PostgreSQL stores no NUL. A character has a byte at least, so the text is no longer than the bytes.
    return found[:_BODY_BYTES].decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


def _retry_after(text: str | None) -> timedelta | None:
    """Return the wait that a receiver asks for, in seconds or until a date (RFC 9110 section 10.2.3)."""
    if text is None:
        return None
    if text.isascii() and text.isdecimal():
        return timedelta(seconds=min(int(text[:9]), 86_400))
    try:
        moment = parsedate_to_datetime(text)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(timedelta(0), aware - datetime.now(UTC))
    except (ValueError, OverflowError):  # of a moment near the first or the last year, in another time zone
        return None


def _no_response(error: str, began: float) -> SendResult:
    storable = error.encode(errors="replace").decode().replace("\0", "")  # no database stores half a character
    return SendResult(None, (), "", storable[:255], None, _since(began))


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _is_listed(url: str, allowed: Collection[str]) -> bool:
    parts = urlsplit(url)
    try:
        require_allowed(f"{parts.scheme}://{parts.netloc}", allowed)
    except EndpointRefused:
        return False
    return True


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
