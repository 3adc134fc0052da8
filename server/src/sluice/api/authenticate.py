"""From an Authorization header to a caller: an API key, bare or after `Bearer`, or a JWT after `Bearer`.

Where it uploads, it may also be an upload token after `Bearer`. Every failure looks the same to the caller.
"""

import time
from collections.abc import Collection
from typing import Final

from starlette.requests import Request

from sluice.access import Principal, known_scopes
from sluice.api_keys.limits import require_address
from sluice.api_keys.secret import SecretKind, has_key_form, parse_key
from sluice.api_keys.service import ApiKeys
from sluice.errors import KeyLimited, NotFound, ServiceUnavailable, TooManyRequests, Unauthenticated
from sluice.identity import Claims, InvalidToken, IssuerUnavailable
from sluice.identity.verifier_set import VerifierSet
from sluice.kit.read_through_cache import Cached, ReadThroughCache
from sluice.kit.throttle import FailureThrottle
from sluice.observe.log import log
from sluice.observe.stages import staged
from sluice.tenants.service import Tenants
from sluice.upload_tokens.service import UploadTokens
from sluice.upload_tokens.upload_token import Method, TokenUse, UploadToken

_BLANKS: Final = " \t"  # white space in HTTP (RFC 9110 section 5.6.3); Python strips more than that in latin-1


class Authenticator:
    """Verifies credentials."""

    def __init__(
        self,
        api_keys: ApiKeys,
        upload_tokens: UploadTokens,
        verifiers: VerifierSet,
        tenants: Tenants,
        throttle: FailureThrottle,
        *,
        default_scopes: Collection[str],
        provision: Collection[str],
        log_logins: bool = False,
    ) -> None:
        """`provision` names the issuers whose valid tokens make the tenant that they name.

        With `log_logins`, each request that was let in has a
        line of the log, as each that was refused always has.
        """
        self._active: ReadThroughCache[tuple[str, bool], None] = ReadThroughCache(self._require_active_tenant)
        self._api_keys = api_keys
        self._upload_tokens = upload_tokens
        self._verifiers = verifiers
        self._tenants = tenants
        self._throttle = throttle
        self._default_scopes = frozenset(default_scopes)
        self._provision = frozenset(provision)
        self._log_logins = log_logins

    @staged("authenticate")
    async def authenticate(
        self,
        request: Request,
        *,
        since: float | None = None,
        again: bool = False,
        takes_tokens: Method | None = None,
        continues: bool = False,
    ) -> Cached[Principal]:
        """Return who is asking; raise `Unauthenticated`, or `TooManyRequests` for an address that failed too often.

        A valid credential passes also from such an address: many people may share it. Raise `KeyLimited` for a key
        that may not be used from the client's address. Rows may be cached ones that were read at `since` (monotonic
        clock) or later; by default they are read now. `again`: the same request was authenticated before. An upload
        token is a credential only if the route `takes_tokens` for a method of sending, and an expired one only if the
        request `continues` an upload.
        """
        sent, address = request.headers.getlist("authorization"), request.client.host if request.client else ""
        try:
            token = _upload_token(sent)
            if token is None:
                authenticated = await self._verify(sent, since=since)
                if authenticated.value.limits.networks:
                    authenticated = await self._require_address(authenticated, sent, address, since=since)
            elif takes_tokens is not None:
                read_at = time.monotonic()
                use: TokenUse = "continue" if continues else "again" if again else "begin"
                key = request.headers.get("idempotency-key") if takes_tokens == "form" else None
                principal = await self._upload_tokens.authenticate(token, takes_tokens, use, key=key)
                authenticated = Cached(principal, read_at)
            else:
                raise Unauthenticated  # noqa: TRY301  (refused and logged as every bad credential)
        except Unauthenticated:
            self._refuse(address, sent)
            raise
        principal = authenticated.value
        if self._log_logins and not again:
            log.info(
                "credential_believed",
                address=address,
                tenant_id=principal.tenant_id,
                actor_id=principal.actor_id,
                via=principal.via,
            )
        return authenticated

    async def find_upload_token(self, request: Request, text: str) -> UploadToken:
        """Return the token in the path of an upload page, whatever its status.

        Raise `NotFound`, or `TooManyRequests` for an address that failed too often.
        """
        try:
            return await self._upload_tokens.find(text)
        except NotFound:
            self._refuse(request.client.host if request.client else "", [f"Bearer {text}"])
            raise

    def _refuse(self, address: str, sent: list[str]) -> None:
        """Log and count a refused credential; raise `TooManyRequests` for an address that failed too often."""
        log.info("credential_refused", address=address, **_loggable(sent))
        wait = self._throttle.blocked(address)
        if wait is not None:
            raise TooManyRequests(errors=["Too many failed credentials from this address"], retry_after=wait) from None
        self._throttle.failed(address)

    async def _require_address(
        self, cached: Cached[Principal], sent: list[str], address: str, *, since: float | None
    ) -> Cached[Principal]:
        try:
            require_address(cached.value.limits, address)
        except KeyLimited:
            # A refusal is never based on a cached row.
            fresh = cached if since is None else await self._verify(sent, since=None)
            try:
                require_address(fresh.value.limits, address)
            except KeyLimited:
                log.info("credential_refused", address=address, why="network", **_loggable(sent))
                raise
            return fresh
        return cached

    async def _verify(self, headers: list[str], *, since: float | None) -> Cached[Principal]:
        if len(headers) != 1:
            raise Unauthenticated
        credential, behind_bearer = _credential(headers[0])
        if has_key_form(credential):
            return await self._api_keys.authenticate(credential, since=since)
        if not behind_bearer:
            raise Unauthenticated
        return await self._verify_token(credential, since=since)

    async def _verify_token(self, token: str, *, since: float | None) -> Cached[Principal]:
        try:
            claims = await self._verifiers.verify(token)
        except InvalidToken as fault:
            log.info("token_refused", why=str(fault))
            raise Unauthenticated from fault
        except IssuerUnavailable as fault:
            raise ServiceUnavailable("identity provider") from fault
        return await self.caller_of(claims, since=since)

    async def caller_of(self, claims: Claims, *, since: float | None = None) -> Cached[Principal]:
        """Return the caller of verified claims; raise `Unauthenticated` unless their tenant is active."""
        key = claims.tenant_id, claims.issuer in self._provision
        read_at = time.monotonic()
        if since is None:
            await self._require_active_tenant(key)
        else:
            read_at = (await self._active.get(key, since=since)).read_at
        scopes = known_scopes(self._default_scopes if claims.scopes is None else claims.scopes)
        return Cached(Principal(claims.tenant_id, claims.user_id, claims.name, scopes, via="jwt"), read_at)

    async def _require_active_tenant(self, key: tuple[str, bool]) -> None:
        tenant_id, may_provision = key
        try:
            tenant = await self._tenants.get(tenant_id)
        except NotFound:
            if not may_provision:
                raise Unauthenticated from None
            tenant = await self._tenants.create(tenant_id, "free", tenant_id=tenant_id)
        if tenant.status != "active":
            raise Unauthenticated


def _credential(header: str) -> tuple[str, bool]:
    """Return the credential of a header, and whether it followed `Bearer`."""
    said = header.strip(_BLANKS)
    word, space, rest = said.partition(" ")
    behind_bearer = bool(space) and word.lower() == "bearer"
    return (rest.strip(_BLANKS) if behind_bearer else said), behind_bearer


def _upload_token(headers: list[str]) -> str | None:
    """Return what was meant as an upload token; None if something else was sent."""
    if len(headers) != 1:
        return None
    credential, behind_bearer = _credential(headers[0])
    return credential if behind_bearer and has_key_form(credential, SecretKind.UPLOAD_TOKEN) else None


def _loggable(headers: list[str]) -> dict[str, str]:
    """Return what may be logged of a refused credential: its kind, and the public part of a key."""
    if len(headers) != 1:
        return {"sent": "several" if headers else "none"}
    credential, behind_bearer = _credential(headers[0])
    if has_key_form(credential, SecretKind.UPLOAD_TOKEN):
        token = parse_key(credential, SecretKind.UPLOAD_TOKEN)
        return {"sent": "upload_token"} | ({} if token is None else {"token_prefix": token.key_prefix})
    if not has_key_form(credential):
        return {"sent": "jwt" if behind_bearer else "other"}
    presented = parse_key(credential)
    return {"sent": "api_key"} if presented is None else {"sent": "api_key", "key_prefix": presented.key_prefix}
