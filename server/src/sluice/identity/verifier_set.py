"""The trusted issuers: the verifier of a token is chosen by the issuer that the token names."""

from collections.abc import Iterable

from sluice.identity.protocol import Claims, InvalidToken, TokenVerifier
from sluice.identity.tokens import parse_token
from sluice.kit.health import EngineHealth


class VerifierSet:
    """One verifier for each trusted issuer.

    The issuer in an unverified token only selects the verifier, which then requires its own issuer.
    """

    def __init__(self, verifiers: Iterable[TokenVerifier]) -> None:
        """Raise `ValueError` when two verifiers have the same issuer."""
        every = tuple(verifiers)
        self._by_issuer = {verifier.issuer: verifier for verifier in every}
        if len(self._by_issuer) != len(every):
            raise ValueError("an issuer has exactly one verifier")

    @property
    def issuers(self) -> frozenset[str]:
        """The trusted issuers."""
        return frozenset(self._by_issuer)

    async def verify(self, token: str) -> Claims:
        """Return the claims of a valid token of a trusted issuer; raise `InvalidToken` or `IssuerUnavailable`."""
        issuer = parse_token(token).claims.get("iss")
        verifier = self._by_issuer.get(issuer) if isinstance(issuer, str) else None
        if verifier is None:
            raise InvalidToken("the issuer is not a trusted one")
        return await verifier.verify(token)

    async def health(self) -> tuple[EngineHealth, ...]:
        """Return the state of each issuer. Never raises."""
        return tuple([await verifier.health() for verifier in self._by_issuer.values()])

    async def aclose(self) -> None:
        """Release every verifier's connections. A second call is a no-op."""
        for verifier in self._by_issuer.values():
            await verifier.aclose()
