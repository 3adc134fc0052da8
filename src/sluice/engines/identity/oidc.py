"""Verifies tokens of an OIDC issuer with the keys that it publishes. Fetching and keeping those live in `jwks_client`, `key_cache`."""

import ssl
import time
from collections.abc import Callable, Iterable
from typing import Final

from sluice.engines.identity.claims import ClaimRules, read_claims
from sluice.engines.identity.jose import ALGORITHMS, read_token, verify_signature
from sluice.engines.identity.jwks import MIN_RSA_BITS, read_jwks
from sluice.engines.identity.jwks_client import JwksClient
from sluice.engines.identity.key_cache import DEFAULT_TIMES, CacheTimes, KeyCache
from sluice.engines.identity.protocol import Claims, InvalidToken, IssuerAway
from sluice.kit.clock import Clock, utc_now
from sluice.kit.health import EngineHealth, EngineState

_TIMEOUT_SECONDS: Final = 5.0


class OidcVerifier:
    """A `TokenVerifier` for one issuer whose keys stand at `jwks_url`."""

    def __init__(
        self,
        rules: ClaimRules,
        *,
        jwks_url: str,
        algorithms: Iterable[str],
        rsa_bits: int = MIN_RSA_BITS,
        times: CacheTimes = DEFAULT_TIMES,
        timeout_seconds: float = _TIMEOUT_SECONDS,
        tls: ssl.SSLContext | None = None,
        clock: Clock = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`algorithms` are the issuer's, of RS256, PS256, ES256 and EdDSA; raises `ValueError` for others or none.

        RSA keys of fewer than `rsa_bits` are left out.
        """
        self._algorithms = frozenset(algorithms)
        if not self._algorithms or not self._algorithms <= ALGORITHMS:
            raise ValueError(f"the algorithms of an issuer are some of {', '.join(sorted(ALGORITHMS))}")
        self.issuer = rules.issuer
        self._rules = rules
        self._clock = clock
        self._client = JwksClient(
            jwks_url, lambda raw: read_jwks(raw, self._algorithms, rsa_bits), timeout_seconds=timeout_seconds, tls=tls
        )
        self._keys = KeyCache(self._client.fetch, times, monotonic=monotonic)

    async def verify(self, token: str) -> Claims:
        """See `TokenVerifier.verify`. Claims are judged before keys are looked for: an expired token must not make us fetch any."""
        unverified = read_token(token)
        if unverified.algorithm not in self._algorithms:
            raise InvalidToken("the algorithm is not the issuer's")
        claims = read_claims(unverified.claims, self._rules, now=self._clock().timestamp())
        key = await self._keys.find(unverified.algorithm, unverified.key_id)
        if key is None:
            raise InvalidToken("the issuer has no key for this token")
        verify_signature(unverified, key.public)
        return claims

    async def health(self) -> EngineHealth:
        """See `TokenVerifier.health`."""
        try:
            keys = await self._keys.current()
        except IssuerAway as away:
            return self._health(EngineState.DOWN, str(away))
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
