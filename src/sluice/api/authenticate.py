"""From an Authorization header to a caller: an API key, bare or behind `Bearer`, or a JWT behind `Bearer`. Every failure looks the same."""

from collections.abc import Collection
from typing import Final

from starlette.requests import Request

from sluice.access import Principal, known_scopes
from sluice.api_keys.secret import looks_like_key, parse_key
from sluice.api_keys.service import ApiKeys
from sluice.engines.identity import Claims, InvalidToken, IssuerAway
from sluice.engines.identity.select import VerifierSet
from sluice.errors import NotFound, TooManyRequests, Unauthenticated, Unavailable
from sluice.kit.brief import Brief
from sluice.kit.throttle import FailureThrottle
from sluice.observe.log import log
from sluice.observe.stages import staged
from sluice.tenants.service import Tenants

_BLANKS: Final = " \t"
"""What HTTP means by white space (RFC 9110 section 5.6.3); Python's own is more than that in latin-1."""


class Authenticator:
    """Believes credentials or does not."""

    def __init__(
        self,
        api_keys: ApiKeys,
        verifiers: VerifierSet,
        tenants: Tenants,
        throttle: FailureThrottle,
        *,
        default_scopes: Collection[str],
        provision: Collection[str],
        remember_seconds: float = 0.0,
        log_logins: bool = False,
    ) -> None:
        """`provision` names the issuers whose valid tokens make the tenant that they name.

        `remember_seconds` is for how long a tenant that was let in is presumed to be. With `log_logins`, each request that was let in has a
        line of the log, as each that was refused always has.
        """
        self._welcome: Brief[str, bool] = Brief(remember_seconds)
        self._api_keys = api_keys
        self._verifiers = verifiers
        self._tenants = tenants
        self._throttle = throttle
        self._default_scopes = frozenset(default_scopes)
        self._provision = frozenset(provision)
        self._log_logins = log_logins

    @staged("authenticate")
    async def principal_of(self, request: Request, *, presume: bool = False) -> Principal:
        """Answer who is asking; raises `Unauthenticated`, or `TooManyRequests` for an address that failed too often.

        A valid credential passes also from such an address: many people may share it. With `presume`, who was believed a moment ago
        is believed again without asking the database, and marked as `remembered`.
        """
        sent, address = request.headers.getlist("authorization"), request.client.host if request.client else ""
        try:
            principal = await self._believe(sent, presume=presume)
        except Unauthenticated:
            log.info("credential_refused", address=address, **_told(sent))
            wait = self._throttle.blocked(address)
            if wait is not None:
                raise TooManyRequests(errors=["Too many failed credentials from this address"], retry_after=wait) from None
            self._throttle.failed(address)
            raise
        if self._log_logins:
            log.info(
                "credential_believed",
                address=address,
                tenant_id=principal.tenant_id,
                actor_id=principal.actor_id,
                via=principal.via,
            )
        return principal

    async def _believe(self, headers: list[str], *, presume: bool) -> Principal:
        if len(headers) != 1:
            raise Unauthenticated
        credential, behind_bearer = _credential(headers[0])
        if looks_like_key(credential):
            return await (self._api_keys.presume if presume else self._api_keys.authenticate)(credential)
        if not behind_bearer:
            raise Unauthenticated
        return await self._user(credential, presume=presume)

    async def _user(self, token: str, *, presume: bool) -> Principal:
        try:
            claims = await self._verifiers.verify(token)
        except InvalidToken as fault:
            log.info("token_refused", why=str(fault))
            raise Unauthenticated from fault
        except IssuerAway as fault:
            raise Unavailable("identity provider") from fault
        remembered = presume and self._welcome.find(claims.tenant_id) is not None
        if not remembered:
            await self._require_tenant(claims)
            self._welcome.keep(claims.tenant_id, value=True)
        said = self._default_scopes if claims.scopes is None else claims.scopes
        return Principal(claims.tenant_id, claims.user_id, claims.name, known_scopes(said), via="jwt", remembered=remembered)

    async def _require_tenant(self, claims: Claims) -> None:
        try:
            tenant = await self._tenants.get(claims.tenant_id)
        except NotFound:
            if claims.issuer not in self._provision:
                raise Unauthenticated from None
            tenant = await self._tenants.create(claims.tenant_id, "free", tenant_id=claims.tenant_id)
        if tenant.status != "active":
            raise Unauthenticated


def _credential(header: str) -> tuple[str, bool]:
    """Answer what a header presents, and whether the word `Bearer` stood before it."""
    said = header.strip(_BLANKS)
    word, space, rest = said.partition(" ")
    behind_bearer = bool(space) and word.lower() == "bearer"
    return (rest.strip(_BLANKS) if behind_bearer else said), behind_bearer


def _told(headers: list[str]) -> dict[str, str]:
    """Answer what may be said of a credential that was refused: what it was meant as, and the public part of a key."""
    if len(headers) != 1:
        return {"sent": "several" if headers else "none"}
    credential, behind_bearer = _credential(headers[0])
    if not looks_like_key(credential):
        return {"sent": "jwt" if behind_bearer else "other"}
    presented = parse_key(credential)
    return {"sent": "api_key"} if presented is None else {"sent": "api_key", "key_prefix": presented.key_prefix}
