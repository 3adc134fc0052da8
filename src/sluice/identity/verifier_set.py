"""Choosing the verifier of a token by the issuer that it names. Nothing is verified here."""

from collections.abc import Iterable

from sluice.engines.identity.jose import read_token
from sluice.engines.identity.protocol import Claims, InvalidToken, TokenVerifier
from sluice.kit.health import EngineHealth


class VerifierSet:
    """The trusted issuers, each with its one verifier.

    The issuer that a token names is not believed: it only chooses who judges, and that verifier demands its own issuer again.
    """

    def __init__(self, verifiers: Iterable[TokenVerifier]) -> None:
        """Raises `ValueError` when two verifiers are of one issuer."""
        every = tuple(verifiers)
        self._by_issuer = {verifier.issuer: verifier for verifier in every}
        if len(self._by_issuer) != len(every):
            raise ValueError("an issuer has exactly one verifier")

    @property
    def issuers(self) -> frozenset[str]:
        """The issuers whose tokens are looked at."""
        return frozenset(self._by_issuer)

    async def verify(self, token: str) -> Claims:
        """Answer the claims of a valid token of a trusted issuer; raises `InvalidToken` or `IssuerAway`."""
        issuer = read_token(token).claims.get("iss")
        verifier = self._by_issuer.get(issuer) if isinstance(issuer, str) else None
        if verifier is None:
            raise InvalidToken("the issuer is not a trusted one")
        return await verifier.verify(token)

    async def health(self) -> tuple[EngineHealth, ...]:
        """Answer how each issuer is. Never raises."""
        return tuple([await verifier.health() for verifier in self._by_issuer.values()])

    async def aclose(self) -> None:
        """Let go of every verifier's connections. A second call is a no-op."""
        for verifier in self._by_issuer.values():
            await verifier.aclose()
