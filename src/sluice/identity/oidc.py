"""Fetching an issuer's keys over HTTP, with bounds on everything. When to fetch is decided in `key_cache`."""

import asyncio
import ipaddress
import ssl
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import httpx

from sluice.engines.identity.jwks import NotJwks, TrustedKey
from sluice.engines.identity.key_cache import FetchFailed

ReadJwks = Callable[[bytes], tuple[TrustedKey, ...]]

_MAX_BYTES: Final = 64 * 1024
_HEADERS: Final = {"Accept": "application/jwk-set+json, application/json", "Accept-Encoding": "identity", "User-Agent": "sluice"}


class JwksClient:
    """Reads one JWK set. No redirects, no proxies or credentials from the environment, no compression, at most 64 KiB."""

    def __init__(self, url: str, read: ReadJwks, *, timeout_seconds: float, tls: ssl.SSLContext | None) -> None:
        """`read` makes keys of an answer or raises `NotJwks`; `timeout_seconds` bounds the whole fetch.

        `tls` is for issuers with a private authority. Raises `ValueError`.
        """
        _refuse_url(url)
        self._url = url
        self._read_jwks = read
        self._timeout = timeout_seconds
        self._http = httpx.AsyncClient(
            headers=_HEADERS,
            timeout=timeout_seconds,
            follow_redirects=False,
            trust_env=False,
            verify=True if tls is None else tls,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=0),
        )

    async def fetch(self) -> tuple[TrustedKey, ...]:
        """Answer the issuer's keys; raises `FetchFailed`."""
        try:
            async with asyncio.timeout(self._timeout):
                raw = await self._read()
            return self._read_jwks(raw)
        except (httpx.HTTPError, TimeoutError) as error:
            raise FetchFailed(f"{self._url} could not be read ({type(error).__name__})") from error
        except NotJwks as error:
            raise FetchFailed(f"{self._url} answered no key set: {error}") from error

    async def aclose(self) -> None:
        """Close the connection. A second call is a no-op."""
        await self._http.aclose()

    async def _read(self) -> bytes:
        async with self._http.stream("GET", self._url) as response:
            if response.status_code != httpx.codes.OK:
                raise FetchFailed(f"{self._url} answered {response.status_code}")
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise FetchFailed(f"{self._url} answered compressed, which was not asked for")
            raw = bytearray()
            async for chunk in response.aiter_raw():
                raw += chunk
                if len(raw) > _MAX_BYTES:
                    raise FetchFailed(f"{self._url} answered more than {_MAX_BYTES} bytes")
            return bytes(raw)


def _refuse_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        raise ValueError("the address of an issuer's keys is a full https URL")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError("the address of an issuer's keys holds no credentials and no fragment")
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise ValueError("the address of an issuer's keys begins with https, unless it is on this machine")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
