"""Tokens of an OIDC issuer, verified with the keys that it publishes.

How long keys are kept is decided in `key_cache`.
"""

import asyncio
import ipaddress
import ssl
import time
from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import urlsplit

import httpx

from sluice.identity.jwks import MIN_RSA_BITS, NotJwks, TrustedKey, parse_jwks
from sluice.identity.key_cache import DEFAULT_TIMES, CacheTimes, FetchFailed, KeyCache
from sluice.identity.protocol import Claims, InvalidToken, IssuerUnavailable
from sluice.identity.tokens import (
    ALGORITHMS,
    MAX_TOKEN_LENGTH,
    ClaimRules,
    parse_token,
    validate_claims,
    verify_signature,
)
from sluice.kit.clock import Clock, utc_now
from sluice.kit.health import EngineHealth, EngineState

_TIMEOUT_SECONDS: Final = 5.0
_MAX_BYTES: Final = 64 * 1024
_HEADERS: Final = {
    "Accept": "application/jwk-set+json, application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "sluice",
}


class OidcVerifier:
    """A `TokenVerifier` for one issuer that publishes its keys at `jwks_url`."""

    def __init__(
        self,
        rules: ClaimRules,
        *,
        jwks_url: str,
        algorithms: Iterable[str],
        rsa_bits: int = MIN_RSA_BITS,
        max_length: int = MAX_TOKEN_LENGTH,
        times: CacheTimes = DEFAULT_TIMES,
        timeout_seconds: float = _TIMEOUT_SECONDS,
        tls: ssl.SSLContext | None = None,
        clock: Clock = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`algorithms` are the issuer's, of `ALGORITHMS`; raise `ValueError` for others or none.

        RSA keys of fewer than `rsa_bits` are ignored, tokens of more than `max_length` characters are refused. `tls` is
        for issuers with a private certificate authority.
        """
        self._algorithms = frozenset(algorithms)
        if not self._algorithms or not self._algorithms <= ALGORITHMS:
            raise ValueError(f"the algorithms of an issuer are some of {', '.join(sorted(ALGORITHMS))}")
        self.issuer = rules.issuer
        self._rules = rules
        self._max_length = max_length
        self._clock = clock
        self._client = _JwksClient(
            jwks_url, lambda raw: parse_jwks(raw, self._algorithms, rsa_bits), timeout_seconds=timeout_seconds, tls=tls
        )
        self._keys = KeyCache(self._client.fetch, times, monotonic=monotonic)

    async def verify(self, token: str) -> Claims:
        """See `TokenVerifier.verify`."""
        unverified = parse_token(token, self._max_length)
        if unverified.algorithm not in self._algorithms:
            raise InvalidToken("the algorithm is not the issuer's")
        # Claims are checked before the key: an expired token must not cause a fetch of keys.
        claims = validate_claims(unverified.claims, self._rules, now=self._clock().timestamp())
        key = await self._keys.find(unverified.algorithm, unverified.key_id)
        if key is None:
            raise InvalidToken("the issuer has no key for this token")
        verify_signature(unverified, key.public)
        return claims

    async def health(self) -> EngineHealth:
        """See `TokenVerifier.health`."""
        try:
            keys = await self._keys.current()
        except IssuerUnavailable as error:
            return self._health(EngineState.DOWN, str(error))
        if self._keys.failure is not None:
            return self._health(EngineState.DEGRADED, f"using kept keys: {self._keys.failure}", len(keys))
        if not keys:
            return self._health(EngineState.DEGRADED, "the issuer publishes no key for its algorithms")
        return self._health(EngineState.UP, f"issuer {self.issuer}", len(keys))

    async def aclose(self) -> None:
        """See `TokenVerifier.aclose`."""
        await self._keys.aclose()
        await self._client.aclose()

    def _health(self, state: EngineState, detail: str, keys: int = 0) -> EngineHealth:
        return EngineHealth(kind="identity", name="oidc", state=state, detail=detail, limits={"keys": keys})


class _JwksClient:
    """Fetches one JWK set.

    No redirects, no proxies or credentials from the environment, no compression, at most 64 KiB.
    """

    def __init__(
        self,
        url: str,
        parse: Callable[[bytes], tuple[TrustedKey, ...]],
        *,
        timeout_seconds: float,
        tls: ssl.SSLContext | None,
    ) -> None:
        """`parse` raises `NotJwks`; `timeout_seconds` limits the whole fetch. Raise `ValueError` for a refused URL."""
        check_url(url)
        self._url = url
        self._parse = parse
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
        """Return the issuer's keys; raise `FetchFailed`."""
        try:
            async with asyncio.timeout(self._timeout):
                raw = await self._read()
            return self._parse(raw)
        except (httpx.HTTPError, TimeoutError) as error:
            raise FetchFailed(f"{self._url} could not be read ({type(error).__name__})") from error
        except NotJwks as error:
            raise FetchFailed(f"{self._url} returned no key set: {error}") from error

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _read(self) -> bytes:
        async with self._http.stream("GET", self._url) as response:
            if response.status_code != httpx.codes.OK:
                raise FetchFailed(f"{self._url} responded with {response.status_code}")
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise FetchFailed(f"{self._url} sent a compressed response, which was not requested")
            raw = bytearray()
            async for chunk in response.aiter_raw():
                raw += chunk
                if len(raw) > _MAX_BYTES:
                    raise FetchFailed(f"{self._url} sent more than {_MAX_BYTES} bytes")
            return bytes(raw)


def check_url(url: str) -> None:
    """Raise `ValueError` for an address of an issuer that is neither https nor on this machine."""
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
