"""The contract of a token verifier."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from sluice.kit.health import EngineHealth

_MAX_USER_ID: Final = 255


class InvalidToken(Exception):
    """The token is not trusted. `str()` says why, for the log only: callers get the same response for every cause."""


class IssuerUnavailable(Exception):
    """The issuer's keys could not be fetched and none are cached: not the caller's error (503)."""


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a verified token. `scopes` is None when the token has neither a `scope` nor a `scopes` claim."""

    issuer: str
    subject: str
    tenant_id: str
    name: str
    scopes: frozenset[str] | None

    @property
    def user_id(self) -> str:
        """The user as `<issuer>|<subject>`: the same subject at two issuers is two users.

        A bar in the issuer is written `%7C`, so that the first bar separates the two; no API key's id has one. An id of
        more than 255 characters is replaced by its SHA-256.
        """
        issuer = self.issuer.replace("%", "%25").replace("|", "%7C")
        user_id = f"{issuer}|{self.subject}"
        return user_id if len(user_id) <= _MAX_USER_ID else f"sha256|{hashlib.sha256(user_id.encode()).hexdigest()}"


class TokenVerifier(Protocol):
    """Verifies JWTs of one issuer with that issuer's fixed algorithms."""

    issuer: str

    async def verify(self, token: str) -> Claims:
        """Return the claims of a valid token; raise `InvalidToken` or `IssuerUnavailable`."""
        ...

    async def health(self) -> EngineHealth:
        """Return the state of the issuer. Never raises."""
        ...

    async def aclose(self) -> None:
        """Release connections. A second call is a no-op."""
        ...


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """The state that one browser keeps while it is at the issuer: no other browser can finish its sign-in."""

    state: str
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)


class SignInFlow(Protocol):
    """Signs people in at one issuer: they leave with an address of it and come back with a code."""

    async def address(self, attempt: SignInAttempt, redirect_uri: str) -> str:
        """Return where to send the browser; raise `IssuerUnavailable`."""
        ...

    async def finish(self, attempt: SignInAttempt, redirect_uri: str, response: Mapping[str, str]) -> Claims:
        """Return the claims of who came back with `response`, the query of the address.

        Raise `InvalidToken` for a response to another attempt or a refusal, or `IssuerUnavailable`.
        """
        ...

    async def aclose(self) -> None:
        """Release connections. A second call is a no-op."""
        ...
