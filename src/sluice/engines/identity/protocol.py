"""The contract of a token verifier. No engine lives here."""

from dataclasses import dataclass
from typing import Protocol

from sluice.engines.health import EngineHealth


class InvalidToken(Exception):
    """The token is not to be believed. `str()` says why, for the log only: every cause looks the same from outside."""


class IssuerAway(Exception):
    """The issuer's keys could not be fetched and none are cached: the fault is not the caller's (503)."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What a verified token says. `scopes` is None when the token has neither a `scope` nor a `scopes` claim."""

    issuer: str
    subject: str
    tenant_id: str
    name: str
    scopes: frozenset[str] | None


class TokenVerifier(Protocol):
    """Verifies JWTs of one issuer with that issuer's fixed algorithms."""

    issuer: str

    async def verify(self, token: str) -> Claims:
        """Answer the claims of a valid token; raises `InvalidToken` or `IssuerAway`."""
        ...

    async def health(self) -> EngineHealth:
        """Answer how the issuer is. Never raises."""
        ...

    async def aclose(self) -> None:
        """Let go of connections. A second call is a no-op."""
        ...
