"""Operations on upload tokens: create, list, read, revoke, authenticate. Their text is in `api_keys.secret`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from sluice.access import KeyLimits, Principal, Scope
from sluice.api_keys.limits import require_context, take_request
from sluice.api_keys.secret import KeyMode, SecretKind, new_key, parse_key, same_secret
from sluice.audit import AuditAction
from sluice.audit.repository import append
from sluice.contexts import Context
from sluice.contexts.service import Contexts
from sluice.db.database import Database
from sluice.errors import (
    ContextInactive,
    Invalid,
    NotFound,
    TokenSpent,
    TooManyRequests,
    Unauthenticated,
    or_not_found,
)
from sluice.idempotency_keys import hash_of_key
from sluice.idempotency_keys import repository as key_rows
from sluice.kit.clock import Clock, utc_now
from sluice.kit.ids import new_id
from sluice.kit.paging import Page, PageRequest
from sluice.limiter import Limiter
from sluice.upload_tokens import repository
from sluice.upload_tokens.upload_token import Method, TokenUpload, TokenUse, UploadToken

_NO_END_USER: Final = "upload token"  # as files of a token without an end user are shown


@dataclass(frozen=True, slots=True)
class TokenDraft:
    """A token to be created."""

    context_key: str
    expires_in: int
    max_files: int
    max_file_size_bytes: int | None = None
    allowed_extensions: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    methods: tuple[Method, ...] = ("form", "tus")
    end_user: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    redirect_ok: str | None = None
    redirect_error: str | None = None
    page_sentence: str | None = None


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token just created, with the text that is shown once."""

    token: UploadToken
    text: str = field(repr=False)


class UploadTokens:
    """The upload tokens of all tenants, one tenant at a time."""

    def __init__(self, database: Database, contexts: Contexts, limiter: Limiter, clock: Clock = utc_now) -> None:
        self._database = database
        self._contexts = contexts
        self._limiter = limiter
        self._clock = clock

    def now(self) -> datetime:
        """Return the moment by which tokens expire."""
        return self._clock()

    async def create(self, by: AuditAction, draft: TokenDraft) -> IssuedToken:
        """Create an active token; one that a test key creates makes test files.

        Raise `NotFound` or `ContextInactive` for its context, `Invalid` if it allows more than the context does,
        `KeyLimited` if the key that makes it may not use the context.
        """
        require_context(by.principal, draft.context_key)
        context = await self._contexts.get(by.tenant_id, draft.context_key)
        if context.status != "active":
            raise ContextInactive
        _require_within(draft, context)
        mode = KeyMode.TEST if by.principal.is_test else KeyMode.LIVE
        issued, now = new_key(mode, SecretKind.UPLOAD_TOKEN), self._clock()
        token = UploadToken(
            token_id=new_id("utk"),
            tenant_id=by.tenant_id,
            token_prefix=issued.key_prefix,
            mode=mode.value,
            context_key=draft.context_key,
            max_files=draft.max_files,
            max_file_size_bytes=draft.max_file_size_bytes,
            allowed_extensions=draft.allowed_extensions,
            allowed_origins=draft.allowed_origins,
            methods=draft.methods,
            end_user=draft.end_user,
            metadata=draft.metadata,
            redirect_ok=draft.redirect_ok,
            redirect_error=draft.redirect_error,
            files_claimed=0,
            attempts=0,
            created_by=by.principal.actor_id,
            created_at=now,
            expires_at=now + timedelta(seconds=draft.expires_in),
            revoked_at=None,
            page_sentence=draft.page_sentence,
        )
        async with self._database.transaction(by.tenant_id) as connection:
            await repository.add(connection, token, issued.secret_hash)
            await append(connection, by, token.token_id, now)
        return IssuedToken(token, issued.text)

    async def find(self, text: str) -> UploadToken:
        """Return a presented token, whatever its status.

        Raise `NotFound` for one that was never made, or whose context the key that made it may no longer use.
        """
        return (await self._find(text))[0]

    async def _find(self, text: str) -> tuple[UploadToken, KeyLimits]:
        presented = parse_key(text, SecretKind.UPLOAD_TOKEN)
        found = None if presented is None else await repository.find_presented(self._database, presented.key_prefix)
        if presented is None or found is None:
            raise NotFound
        token, stored_hash, tenant_status, limits = found
        is_narrowed = limits.contexts and token.context_key not in limits.contexts
        if not same_secret(stored_hash, presented) or tenant_status != "active" or is_narrowed:
            raise NotFound
        return token, limits

    async def authenticate(self, text: str, method: Method, use: TokenUse, *, key: str | None = None) -> Principal:
        """Return the principal of a presented token; raise `Unauthenticated` for every cause alike, but `TokenSpent`.

        An upload that begins is counted as an attempt, and a spent token is refused; an expired one is good only to
        continue an upload. One whose idempotency `key` an earlier upload had is let in although no upload can begin,
        and is not counted (`UploadPermit.is_counted`), since it usually gets the recorded response. Raise
        `TooManyRequests` for an upload that begins if the key that made the token has no requests left.
        """
        try:
            token, limits = await self._find(text)
        except NotFound:
            raise Unauthenticated from None
        now = self._clock()
        is_over = token.revoked_at is not None or (token.expires_at <= now and use != "continue")
        if is_over or method not in token.methods:
            raise Unauthenticated
        permit = token.permit
        if use == "begin":
            if limits.rate_per_minute is not None:
                await self._take_request(token, limits)
            async with self._database.transaction(token.tenant_id) as connection:
                key_hash = None if key is None else hash_of_key("upload_token", token.token_id, key)
                if key_hash is not None and await key_rows.is_known(connection, token.tenant_id, key_hash):
                    permit = replace(permit, is_counted=False)
                elif not await repository.claim_attempt(connection, token.tenant_id, token.token_id, now):
                    raise TokenSpent
        return Principal(
            tenant_id=token.tenant_id,
            actor_id=token.token_id,
            actor_name=token.end_user or _NO_END_USER,
            scopes=frozenset({Scope.UPLOAD}),
            via="upload_token",
            is_test=token.mode == "test",
            permit=permit,
        )

    async def _take_request(self, token: UploadToken, limits: KeyLimits) -> None:
        try:
            await take_request(self._limiter, token.created_by, limits)
        except TooManyRequests as fault:
            raise TooManyRequests(retry_after=fault.retry_after) from fault  # strangers do not learn the limit

    async def get(self, tenant_id: str, token_id: str) -> UploadToken:
        """Return one token; raise `NotFound`."""
        async with self._database.reading(tenant_id) as connection:
            return or_not_found(await repository.find(connection, tenant_id, token_id))

    async def list_uploads(self, tenant_id: str, token_id: str) -> Sequence[TokenUpload]:
        """Return the outcomes of the uploads with a token, oldest first."""
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_uploads(connection, tenant_id, token_id)

    async def list_page(self, tenant_id: str, request: PageRequest) -> Page[UploadToken]:
        """Return one page, newest first."""
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_page(connection, tenant_id, request)

    async def revoke(self, by: AuditAction, token_id: str) -> None:
        """Revoke a token for good; a second time changes nothing. Raise `NotFound`."""
        now = self._clock()
        async with self._database.transaction(by.tenant_id) as connection:
            is_revoked = await repository.revoke(connection, by.tenant_id, token_id, now)
            if is_revoked:
                await append(connection, by, token_id, now)
        if not is_revoked:
            await self.get(by.tenant_id, token_id)


def _require_within(draft: TokenDraft, context: Context) -> None:
    """Raise `Invalid` with everything that the token allows and its context does not."""
    problems = []
    size = draft.max_file_size_bytes
    if size is not None and size > context.max_bytes:
        problems.append(f"max_file_size_bytes: expected at most the context's {context.max_bytes}, found {size}")
    allowed = {_plain(extension) for extension in context.allowed_extensions}
    others = [extension for extension in draft.allowed_extensions if _plain(extension) not in allowed]
    if allowed and others:
        problems.append(f"allowed_extensions: expected some of the context's, found {', '.join(others)[:100]}")
    if problems:
        raise Invalid(*problems)


def _plain(extension: str) -> str:
    return extension.removeprefix(".").lower()
