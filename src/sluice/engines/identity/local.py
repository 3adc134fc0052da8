"""Verifies tokens that this machine's own key signed. Making the key and the tokens lives in `local_keys`."""

from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sluice.engines.identity.claims import ClaimRules, read_claims
from sluice.engines.identity.jose import read_token, verify_signature
from sluice.engines.identity.local_keys import key_id_of
from sluice.engines.identity.protocol import Claims, InvalidToken
from sluice.kit.clock import Clock, utc_now
from sluice.kit.health import EngineHealth, EngineState

_ALGORITHM: Final = "EdDSA"


class LocalVerifier:
    """A `TokenVerifier` with one Ed25519 key and nothing to ask over a network."""

    def __init__(self, public: Ed25519PublicKey, rules: ClaimRules, *, clock: Clock = utc_now) -> None:
        self.issuer = rules.issuer
        self._public = public
        self._key_id = key_id_of(public)
        self._rules = rules
        self._clock = clock

    async def verify(self, token: str) -> Claims:
        """See `TokenVerifier.verify`."""
        unverified = read_token(token)
        if unverified.algorithm != _ALGORITHM:
            raise InvalidToken("the algorithm is not the issuer's")
        if unverified.key_id not in {None, self._key_id}:
            raise InvalidToken("the key is not the issuer's")
        verify_signature(unverified, self._public)
        return read_claims(unverified.claims, self._rules, now=self._clock().timestamp())

    async def health(self) -> EngineHealth:
        """See `TokenVerifier.health`."""
        return EngineHealth(kind="identity", name="local", state=EngineState.UP, detail=f"issuer {self.issuer}")

    async def aclose(self) -> None:
        """See `TokenVerifier.aclose`."""
