"""Operations on API keys: create, list, read, change, rotate, revoke, authenticate.

Their text is in `secret`, what they are limited to in `limits`.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sluice.access import NO_LIMITS, KeyLimits, Principal, Scope, known_scopes
from sluice.api_keys import repository
from sluice.api_keys.api_key import ApiKey
from sluice.api_keys.limits import require_within
from sluice.api_keys.secret import KeyMode, PresentedKey, new_key, parse_key, same_secret
from sluice.audit import AuditAction
from sluice.audit.repository import append
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.sql import Connection
from sluice.errors import Invalid, KeyRevoked, NotFound, RotationOverlaps, ScopeMissing, Unauthenticated
from sluice.events import outbox
from sluice.events.catalogue import ApiKeyCreated, ApiKeyRevoked
from sluice.kit.clock import Clock, utc_now
from sluice.kit.ids import new_id
from sluice.kit.paging import Page, PageRequest
from sluice.kit.read_through_cache import Cached, ReadThroughCache


@dataclass(frozen=True, slots=True)
class Issued:
    """A key just created, with the text that is shown once."""

    key: ApiKey
    text: str


class ApiKeys:
    """The API keys of all tenants, one tenant at a time."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock
        self._found: ReadThroughCache[str, repository.Presented] = ReadThroughCache(self._find_presented)
        # Uses are collected here and written in batches by the worker: no write per request.
        self._used: dict[tuple[str, str], datetime] = {}  # by tenant and key
        self._changed_at = float("-inf")  # monotonic clock: by this process, whose next request sees it

    async def create(
        self,
        by: AuditAction,
        name: str,
        scopes: Sequence[str],
        *,
        mode: Literal["live", "test"] = "live",
        expires_in_days: int | None = None,
        metadata: Mapping[str, object] | None = None,
        limits: KeyLimits = NO_LIMITS,
    ) -> Issued:
        """Create an active key. Whether its creator may grant `scopes` is judged by `require_grantable`.

        Raise `KeyLimited` if its limits are beyond those of its creator, `Invalid` for contexts that do not exist.
        """
        issued = new_key(KeyMode(mode))
        now = self._clock()
        key = ApiKey(
            api_key_id=new_id("key"),
            tenant_id=by.tenant_id,
            key_prefix=issued.key_prefix,
            mode=mode,
            name=name,
            scopes=_in_order(scopes),
            status="active",
            metadata=metadata or {},
            created_at=now,
            updated_at=None,
            expires_at=None if expires_in_days is None else now + timedelta(days=expires_in_days),
            last_used_at=None,
            contexts=limits.contexts,
            allowed_networks=limits.networks,
            rate_per_minute=limits.rate_per_minute,
        )
        require_within(by.principal, key.limits)
        async with self._database.transaction(by.tenant_id) as connection:
            await _require_valid(connection, key)
            await repository.add(connection, key, issued.secret_hash)
            await append(connection, by, key.api_key_id, now)
            await outbox.add(connection, by.tenant_id, ApiKeyCreated(**_public_fields(key)), now)
        return Issued(key, issued.text)

    async def authenticate(self, text: str, *, since: float | None = None) -> Cached[Principal]:
        """Return the principal of a presented key; raise `Unauthenticated` for every cause alike.

        The key's row may be a cached one that was read at `since` (monotonic clock) or later; by default it is read
        now. A refusal is never based on a cached row.
        """
        presented = parse_key(text)
        if presented is None:
            raise Unauthenticated
        if since is not None:
            since = max(since, self._changed_at)
            cached = await self._found.get(presented.key_prefix, since=since)
            principal = self._principal_of(cached.value, presented)
            if principal is not None:
                return Cached(principal, cached.read_at)
        read_at = time.monotonic()
        principal = self._principal_of(await self._find_presented(presented.key_prefix), presented)
        if principal is None:
            raise Unauthenticated
        return Cached(principal, read_at)

    async def _find_presented(self, key_prefix: str) -> repository.Presented:
        found = await repository.find_presented(self._database, key_prefix)
        if found is None:
            raise Unauthenticated  # never cached: a key may be created in the next moment
        return found

    def _principal_of(self, found: repository.Presented, presented: PresentedKey) -> Principal | None:
        key, stored_hash, tenant_status = found
        now = self._clock()
        is_expired = key.expires_at is not None and key.expires_at <= now
        if not same_secret(stored_hash, presented) or key.status != "active" or is_expired or tenant_status != "active":
            return None
        self._used[key.tenant_id, key.api_key_id] = now
        return Principal(
            tenant_id=key.tenant_id,
            actor_id=key.api_key_id,
            actor_name=key.name,
            scopes=known_scopes(key.scopes),
            via="api_key",
            is_test=key.mode == "test",
            key_id=key.api_key_id,
            key_changed_at=key.updated_at,
            limits=key.limits,
        )

    async def get(self, tenant_id: str, api_key_id: str) -> ApiKey:
        """Return one key; raise `NotFound`."""
        async with self._database.reading(tenant_id) as connection:
            key = await repository.find(connection, tenant_id, api_key_id)
        if key is None:
            raise NotFound
        return key

    async def list_page(self, tenant_id: str, status: str | None, request: PageRequest) -> Page[ApiKey]:
        """Return one page, newest first, of all keys or those with `status`."""
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_page(connection, tenant_id, status, request)

    async def change(self, by: AuditAction, api_key_id: str, changes: Mapping[str, Any]) -> ApiKey:
        """Change the named fields.

        Raise `NotFound`, or `KeyRevoked` when something else than revoking is asked of a revoked key. A caller that is
        a key changes only keys that are limited as it is; raise `KeyLimited`, or `Invalid` as `create` does.
        """
        if not changes:
            return await self.get(by.tenant_id, api_key_id)
        now = self._clock()
        values = dict(changes) | {"updated_at": now}
        if "scopes" in values:
            values["scopes"] = list(_in_order(values["scopes"]))
        if "contexts" in values:
            values["context_keys"] = values.pop("contexts")
        async with self._database.transaction(by.tenant_id) as connection:
            before = await repository.find(connection, by.tenant_id, api_key_id)
            key = await repository.change(connection, by.tenant_id, api_key_id, values)
            if before is not None and key is not None:
                if key.status != "revoked":
                    require_within(by.principal, before.limits)
                    require_within(by.principal, key.limits)
                if not changes.keys().isdisjoint(("scopes", "contexts")):
                    await _require_valid(connection, key)
                await append(connection, by, api_key_id, now)
                if key.status == "revoked":  # a revoked key is never changed again
                    await outbox.add(connection, by.tenant_id, ApiKeyRevoked(**_public_fields(key)), now)
        if key is not None:
            self._changed_at = time.monotonic()
            return key
        revoked = await self.get(by.tenant_id, api_key_id)
        if set(changes) - {"status"} or changes["status"] != "revoked":
            raise KeyRevoked
        return revoked

    async def rotate(
        self, by: AuditAction, api_key_id: str, overlap: timedelta, *, expires_in_days: int | None = None
    ) -> Issued:
        """Give a key a new text; the present one is good for `overlap` more, and without an overlap for no time.

        Without an overlap, the text before the present one ends at once, too.

        Raise `NotFound`, `KeyRevoked`, `KeyLimited` as `change` does, `Invalid` for an expired key that gets no new
        time to expire, or `RotationOverlaps` while the text before the present one is still good.
        """
        now = self._clock()
        values: dict[str, Any] = {"updated_at": now}
        if expires_in_days is not None:
            values["expires_at"] = now + timedelta(days=expires_in_days)
        async with self._database.transaction(by.tenant_id) as connection:
            before = await repository.find(connection, by.tenant_id, api_key_id, locked=True)
            if before is None:
                raise NotFound
            require_within(by.principal, before.limits)
            if before.status == "revoked":
                raise KeyRevoked
            is_expired = before.expires_at is not None and before.expires_at <= now
            if is_expired and expires_in_days is None:
                raise Invalid("expires_in_days: expected a number of days, since the key has expired, found nothing")
            earlier = before.previous_expires_at
            if overlap and not is_expired and earlier is not None and earlier > now:
                until_then = f"{earlier:%Y-%m-%dT%H:%M:%SZ}, until when the text before the present one is good"
                problem = f"expected 0, which ends all earlier texts at once, or a rotation after {until_then}"
                raise RotationOverlaps(errors=[f"overlap_seconds: {problem}"])
            until = now + overlap
            issued = new_key(KeyMode(before.mode))
            key = await repository.rotate(
                connection,
                by.tenant_id,
                api_key_id,
                issued,
                previous_expires_at=min(until, before.expires_at or until) if overlap else None,
                values=values,
            )
            if key is None:
                raise KeyRevoked
            await append(connection, by, api_key_id, now)
        self._changed_at = time.monotonic()
        return Issued(key, issued.text)

    async def revoke(self, by: AuditAction, api_key_id: str) -> ApiKey:
        """Revoke a key for good; a second time changes nothing. Raise `NotFound`."""
        return await self.change(by, api_key_id, {"status": "revoked"})

    async def write_last_used(self) -> None:
        """Write the uses collected since the last call. They stay collected if the database is unavailable."""
        used, self._used = self._used, {}
        if not used:
            return
        try:
            async with self._database.transaction(ALL_TENANTS) as connection:
                await repository.write_last_used(connection, used)
        except BaseException:
            self._used = used | self._used
            raise


def require_grantable(principal: Principal, scopes: Sequence[str]) -> None:
    """Raise `ScopeMissing` for the first scope that the caller would give away without having it."""
    for scope in sorted(known_scopes(scopes)):
        if not principal.allows(scope):
            raise ScopeMissing(scope.value)


async def _require_valid(connection: Connection, key: ApiKey) -> None:
    """Raise `Invalid` for contexts that do not exist, or of a key that may change everything."""
    if key.contexts and Scope.ADMIN in key.scopes:
        raise Invalid(f"contexts: expected none for a key with the scope admin, found {', '.join(key.contexts)[:100]}")
    unknown = await repository.list_unknown_contexts(connection, key.tenant_id, key.contexts) if key.contexts else ()
    if unknown:
        raise Invalid(f"contexts: expected keys of contexts, found {', '.join(unknown)[:100]}")


def _public_fields(key: ApiKey) -> dict[str, Any]:
    return {name: getattr(key, name) for name in ("api_key_id", "name", "key_prefix", "scopes", "expires_at")}


def _in_order(scopes: Sequence[str]) -> tuple[str, ...]:
    return tuple(scope.value for scope in Scope if scope.value in set(scopes))
