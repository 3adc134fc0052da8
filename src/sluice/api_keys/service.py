"""What may be done with API keys: create, list, read, change, revoke, and believe or not. Their text lives in `secret`."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from sluice.access import Principal, Scope, known_scopes
from sluice.api_keys import repository
from sluice.api_keys.api_key import ApiKey
from sluice.api_keys.secret import KeyMode, new_key, parse_key, same_secret
from sluice.db.database import Database
from sluice.db.whose import EVERYBODY
from sluice.errors import KeyRevoked, NotFound, ScopeMissing, Unauthenticated
from sluice.kit.brief import Brief
from sluice.kit.clock import Clock, utc_now
from sluice.kit.ids import new_id
from sluice.kit.paging import Page, PageRequest
from sluice.trail import Deed
from sluice.trail.repository import note


@dataclass(frozen=True, slots=True)
class Issued:
    """A key just created, with the text that is shown once."""

    key: ApiKey
    text: str


class ApiKeys:
    """The API keys of all tenants, one tenant at a time."""

    def __init__(self, database: Database, clock: Clock = utc_now, *, remember_seconds: float = 0.0) -> None:
        self._database = database
        self._clock = clock
        self._believed: Brief[bytes, Principal] = Brief(remember_seconds)
        # Uses are collected here and written in batches by the worker: no write per request.
        self._used: dict[str, datetime] = {}

    async def create(
        self,
        deed: Deed,
        name: str,
        scopes: Sequence[str],
        *,
        mode: Literal["live", "test"] = "live",
        expires_in_days: int | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> Issued:
        """Create an active key. Whether its creator may grant `scopes` is judged by `require_grantable`."""
        issued = new_key(KeyMode(mode))
        now = self._clock()
        key = ApiKey(
            api_key_id=new_id("key"),
            tenant_id=deed.tenant_id,
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
        )
        async with self._database.transaction(deed.tenant_id) as connection:
            await repository.add(connection, key, issued.secret_hash)
            await note(connection, deed, key.api_key_id, now)
        return Issued(key, issued.text)

    async def presume(self, text: str) -> Principal:
        """Answer whom a presented key stood for a moment ago (then it is `remembered`), or stands for; raises `Unauthenticated`."""
        digest = hashlib.sha256(text.encode()).digest()
        known = self._believed.find(digest)
        if known is not None:
            return known
        principal = await self.authenticate(text)
        self._believed.keep(digest, replace(principal, remembered=True))
        return principal

    async def authenticate(self, text: str) -> Principal:
        """Answer whom a presented key stands for; raises `Unauthenticated` for every cause alike."""
        presented = parse_key(text)
        if presented is None:
            raise Unauthenticated
        found = await repository.find_presented(self._database, presented.key_prefix)
        if found is None:
            raise Unauthenticated
        key, stored_hash, tenant_status = found
        now = self._clock()
        expired = key.expires_at is not None and key.expires_at <= now
        if not same_secret(stored_hash, presented) or key.status != "active" or expired or tenant_status != "active":
            raise Unauthenticated
        self._used[key.api_key_id] = now
        return Principal(
            tenant_id=key.tenant_id,
            actor_id=key.api_key_id,
            actor_name=key.name,
            scopes=known_scopes(key.scopes),
            via="api_key",
            is_test=key.mode == "test",
            key_id=key.api_key_id,
            key_changed_at=key.updated_at,
        )

    async def get(self, tenant_id: str, api_key_id: str) -> ApiKey:
        """Answer one key; raises `NotFound`."""
        async with self._database.reading(tenant_id) as connection:
            key = await repository.find(connection, tenant_id, api_key_id)
        if key is None:
            raise NotFound
        return key

    async def list_page(self, tenant_id: str, status: str | None, request: PageRequest) -> Page[ApiKey]:
        """Answer one page, newest first, of all keys or those with `status`."""
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_page(connection, tenant_id, status, request)

    async def change(self, deed: Deed, api_key_id: str, changes: Mapping[str, Any]) -> ApiKey:
        """Change the named fields; raises `NotFound`, or `KeyRevoked` when something else than revoking is asked of a revoked key."""
        if not changes:
            return await self.get(deed.tenant_id, api_key_id)
        now = self._clock()
        values = dict(changes) | {"updated_at": now}
        if "scopes" in values:
            values["scopes"] = list(_in_order(values["scopes"]))
        async with self._database.transaction(deed.tenant_id) as connection:
            key = await repository.change(connection, deed.tenant_id, api_key_id, values)
            if key is not None:
                await note(connection, deed, api_key_id, now)
        self._believed.forget()
        if key is not None:
            return key
        revoked = await self.get(deed.tenant_id, api_key_id)
        if set(changes) - {"status"} or changes["status"] != "revoked":
            raise KeyRevoked
        return revoked

    async def revoke(self, deed: Deed, api_key_id: str) -> ApiKey:
        """Revoke a key for ever; a second time changes nothing. Raises `NotFound`."""
        return await self.change(deed, api_key_id, {"status": "revoked"})

    async def write_last_used(self) -> None:
        """Write the uses collected since the last call."""
        used, self._used = self._used, {}
        if used:
            async with self._database.transaction(EVERYBODY) as connection:
                await repository.write_last_used(connection, used)


def require_grantable(principal: Principal, scopes: Sequence[str]) -> None:
    """Raise `ScopeMissing` for the first scope that the caller would give away without having it."""
    for scope in sorted(known_scopes(scopes)):
        if not principal.allows(scope):
            raise ScopeMissing(scope.value)


def _in_order(scopes: Sequence[str]) -> tuple[str, ...]:
    return tuple(scope.value for scope in Scope if scope.value in set(scopes))
