"""The contract of a token verifier. No engine lives here."""

import hashlib
from dataclasses import dataclass
from typing import Final, Protocol

from sluice.kit.health import EngineHealth

_MAX_USER_ID: Final = 255


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

    @property
    def user_id(self) -> str:
        """The user, who is (issuer, subject), as `<issuer>|<subject>`: two issuers that name one subject never name one user.

        A bar in the issuer is written `%7C`, so that the first bar parts the two; no API key's id has one. What is longer than 255
        characters stands as its SHA-256.
        """
        issuer = self.issuer.replace("%", "%25").replace("|", "%7C")
        user_id = f"{issuer}|{self.subject}"
        return user_id if len(user_id) <= _MAX_USER_ID else f"sha256|{hashlib.sha256(user_id.encode()).hexdigest()}"


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
