"""Operations on buckets: add, list, read, probe, change, make default, delete; and which bucket a file resolves to."""

from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sluice.audit import AuditAction
from sluice.audit.repository import append
from sluice.buckets import repository
from sluice.buckets.bucket import Bucket, BucketProbe, ProbedStep
from sluice.buckets.endpoints import EndpointRefused, require_allowed, require_public
from sluice.buckets.stores import Stores
from sluice.db.database import Conflict, Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.sql import Connection
from sluice.errors import BucketBound, BucketExists, BucketInactive, DefaultBucketNeeded, Invalid, NotFound
from sluice.kit.cipher import Sealer
from sluice.kit.clock import Clock, utc_now
from sluice.kit.ids import new_id
from sluice.storage import FieldRefused, MakesRemarks, ProviderSettings, StoreError

_BATCH: Final = 100
_OWN: Final = frozenset({"name", "is_active"})  # of what can be changed, that which is no credential


@dataclass(frozen=True, slots=True)
class NewBucket:
    """A bucket to be added, its secret still plain."""

    name: str
    settings: ProviderSettings
    secret: str
    default_bucket: str
    base_path: str
    set_as_default: bool


@dataclass(frozen=True, slots=True)
class DeletedBucket:
    """A deleted bucket, and how many live files now resolve to the default bucket."""

    config_id: str
    orphaned_files: int


class Buckets:
    """The buckets of all tenants, one tenant at a time."""

    def __init__(
        self,
        database: Database,
        stores: Stores,
        keyring: Sealer,
        *,
        allowed_endpoints: Collection[str],
        probe: bool,
        clock: Clock = utc_now,
    ) -> None:
        self._database = database
        self._stores = stores
        self._keyring = keyring
        self._allowed_endpoints = allowed_endpoints
        self._probe = probe
        self._clock = clock

    async def add(self, by: AuditAction, new: NewBucket) -> Bucket:
        """Try the bucket out and keep it; the tenant's first becomes its default.

        Raise `Invalid` when the endpoint is not allowed or the bucket does not work, `BucketExists` when the name is
        taken.
        """
        tenant_id = by.tenant_id
        bucket = self._bucket(tenant_id, new)
        async with self._database.reading(tenant_id) as connection:
            if any(other.name == new.name for other in await repository.list_all(connection, tenant_id)):
                raise BucketExists(new.name)
        await self._require_public(bucket)
        bucket = replace(bucket, last_probe=await self._require_working(bucket))
        try:
            async with self._database.transaction(tenant_id) as connection:
                await repository.add(connection, bucket)
                await repository.point_default(
                    connection, tenant_id, bucket.config_id, only_if_none=not new.set_as_default
                )
                kept = await repository.find(connection, tenant_id, bucket.config_id)
                await append(connection, by, bucket.config_id, bucket.created_at)
        except Conflict as fault:
            raise BucketExists(new.name) from fault
        return kept or bucket

    async def get(self, tenant_id: str, config_id: str) -> Bucket:
        """Return one bucket; raise `NotFound`."""
        async with self._database.reading(tenant_id) as connection:
            return await _require(connection, tenant_id, config_id)

    async def list_all(self, tenant_id: str) -> tuple[Bucket, ...]:
        """Return the tenant's buckets, oldest first."""
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_all(connection, tenant_id)

    async def of_all_tenants(self) -> AsyncIterator[Bucket]:
        """Yield the active buckets of all tenants, for the worker."""
        async for bucket in _every_bucket(self._database):
            if bucket.is_active:
                yield bucket

    async def not_allowed(self) -> AsyncIterator[Bucket]:
        """Yield the buckets of all tenants whose endpoint the operator does not list now, for the operator."""
        async for bucket in _every_bucket(self._database):
            try:
                if bucket.settings.endpoint_url is not None:
                    require_allowed(bucket.settings.endpoint_url, self._allowed_endpoints)
            except EndpointRefused:
                yield bucket

    async def set_default(self, by: AuditAction, config_id: str) -> Bucket:
        """Make the bucket the tenant's default; raise `NotFound` or `BucketInactive`."""
        tenant_id = by.tenant_id
        async with self._database.transaction(tenant_id) as connection:
            await repository.lock_row(connection, tenant_id, config_id)
            bucket = await _require(connection, tenant_id, config_id)
            if not bucket.is_active:
                raise BucketInactive
            await repository.point_default(connection, tenant_id, config_id, only_if_none=False)
            await append(connection, by, config_id, self._clock())
            return replace(bucket, is_default=True)

    async def change(self, by: AuditAction, config_id: str, changes: Mapping[str, Any]) -> Bucket:
        """Change `name`, `is_active`, or the credentials (all that is left of `changes`), which are tried out first.

        Raise `NotFound`, `BucketExists`, `DefaultBucketNeeded`, or `Invalid` if the credentials are none of the
        provider, or do not work.
        """
        tenant_id, now = by.tenant_id, self._clock()
        bucket = await self.get(tenant_id, config_id)
        if not changes:
            return bucket
        values = {name: changes[name] for name in changes if name in _OWN}
        credentials = {name: changes[name] for name in changes if name not in _OWN}
        if credentials:
            try:
                settings, secret = bucket.settings.rotated(credentials)
            except FieldRefused as fault:
                raise Invalid(f"{fault.field}: {fault}") from fault
            changed = replace(bucket, settings=settings, secret_sealed=self._seal(bucket, secret))
            probed = await self._require_working(changed)
            values |= {**repository.settings_columns(settings), "secret_sealed": changed.secret_sealed}
            values |= {} if probed is None else {"last_probe": probed.to_json()}
        try:
            async with self._database.transaction(tenant_id) as connection:
                await repository.lock_row(connection, tenant_id, config_id)
                if values.get("is_active") is False and (await _require(connection, tenant_id, config_id)).is_default:
                    raise DefaultBucketNeeded
                await repository.change(connection, tenant_id, config_id, values | {"updated_at": now})
                await append(connection, by, config_id, now)
                return await _require(connection, tenant_id, config_id)
        except Conflict as fault:
            raise BucketExists(values["name"]) from fault

    async def probe(self, by: AuditAction, config_id: str) -> Bucket:
        """Try the bucket out as it is now, keep what was found, and return it with that. Raise `NotFound`."""
        tenant_id = by.tenant_id
        probed = await self._probe_steps(await self.get(tenant_id, config_id))
        async with self._database.transaction(tenant_id) as connection:
            await repository.change(connection, tenant_id, config_id, {"last_probe": probed.to_json()})
            await append(connection, by, config_id, probed.at)
            return await _require(connection, tenant_id, config_id)

    async def delete(self, by: AuditAction, config_id: str) -> DeletedBucket:
        """Delete the bucket and its credentials, never its objects.

        Raise `NotFound`, or `BucketBound` while a context uses it.
        """
        tenant_id = by.tenant_id
        try:
            async with self._database.transaction(tenant_id) as connection:
                bucket = await _require(connection, tenant_id, config_id)
                bound = await repository.count_contexts(connection, bucket)
                if bucket.is_default or bound:
                    raise BucketBound(bound)
                orphaned = await repository.count_files(connection, bucket)
                await repository.remove(connection, tenant_id, config_id)
                await append(connection, by, config_id, self._clock())
        except Conflict as fault:
            # A context was bound, or the default moved here, since the check: the foreign keys refuse the delete.
            async with self._database.reading(tenant_id) as reading:
                bucket = await _require(reading, tenant_id, config_id)
                bound = await repository.count_contexts(reading, bucket)
            raise BucketBound(bound) from fault
        return DeletedBucket(config_id, orphaned)

    async def for_file(self, tenant_id: str, storage_config_id: str | None) -> Bucket | None:
        """Return the bucket that a stored file is in, None for the platform's store.

        A deleted bucket resolves to the default.
        """
        if storage_config_id is None:
            return None
        async with self._database.reading(tenant_id) as connection:
            found = await repository.find(connection, tenant_id, storage_config_id)
            return found or await repository.find_default(connection, tenant_id)

    async def _require_public(self, bucket: Bucket) -> None:
        if bucket.settings.endpoint_url is not None:
            try:
                await require_public(bucket.settings.endpoint_url, self._allowed_endpoints)
            except EndpointRefused as fault:
                raise Invalid(f"endpoint_url: {fault}") from fault

    def _bucket(self, tenant_id: str, new: NewBucket) -> Bucket:
        if new.settings.endpoint_url is not None:
            try:
                require_allowed(new.settings.endpoint_url, self._allowed_endpoints)
            except EndpointRefused as fault:
                raise Invalid(f"endpoint_url: {fault}") from fault
        bucket = Bucket(
            config_id=new_id("bkt"),
            tenant_id=tenant_id,
            name=new.name,
            settings=new.settings,
            secret_sealed="",
            default_bucket=new.default_bucket,
            base_path=new.base_path,
            is_active=True,
            created_at=self._clock(),
            updated_at=None,
        )
        return replace(bucket, secret_sealed=self._seal(bucket, new.secret))

    def _seal(self, bucket: Bucket, secret: str) -> str:
        return self._keyring.seal(secret, bound_to=secret_binding(bucket))

    async def _require_working(self, bucket: Bucket) -> BucketProbe | None:
        """Return what was found of a bucket that works; None if the operator turned probes off.

        Raise `Invalid` if it does not work, or, without probes, if it cannot be addressed.
        """
        probed = await self._probe_steps(bucket, sends_requests=self._probe)
        if probed.failed is not None:
            raise Invalid(f"default_bucket: the bucket could not be used: {probed.failed.error}")
        return probed if self._probe else None

    async def _probe_steps(self, bucket: Bucket, *, sends_requests: bool = True) -> BucketProbe:
        """Try a bucket out; the first step that fails is the last one."""
        begun: list[str] = []
        remarks: tuple[str, ...] = ()
        try:
            begun.append("endpoint")
            endpoint_url = bucket.settings.endpoint_url
            if sends_requests and endpoint_url is not None:
                require_allowed(endpoint_url, self._allowed_endpoints)
                await require_public(endpoint_url, self._allowed_endpoints)
            begun.append("credentials")
            store = self._stores.connect(bucket)
            try:
                if sends_requests:
                    await store.probe(begun.append)
                    remarks = tuple(store.remarks) if isinstance(store, MakesRemarks) else ()
            finally:
                await store.aclose()
        except EndpointRefused as fault:
            failed = ProbedStep(begun.pop(), f"The endpoint is refused: {fault}.")
        except StoreError as fault:
            failed = ProbedStep(begun.pop(), str(fault), fault.answer)
        else:
            return BucketProbe(self._clock(), tuple(map(ProbedStep, begun)), remarks)
        return BucketProbe(self._clock(), (*map(ProbedStep, begun), failed))


class Secrets:
    """The sealed secrets of all buckets, for the rotation of the keys that seal them.

    A call that was interrupted can be repeated.
    """

    def __init__(self, database: Database, keyring: Sealer) -> None:
        self._database = database
        self._keyring = keyring

    async def count_old(self) -> int:
        """Return how many secrets are sealed with a key that is not the current one."""
        return len([bucket async for bucket in self._sealed_with_old_keys()])

    async def seal_again(self) -> int:
        """Seal those again, one by one, and return how many.

        Credentials that change meanwhile are sealed with the new key anyway.
        """
        done = 0
        async for bucket in self._sealed_with_old_keys():
            plain = self._keyring.open(bucket.secret_sealed, bound_to=secret_binding(bucket))
            sealed = self._keyring.seal(plain, bound_to=secret_binding(bucket))
            async with self._database.transaction(bucket.tenant_id) as connection:
                done += await repository.replace_secret(connection, bucket, sealed)
        return done

    async def _sealed_with_old_keys(self) -> AsyncIterator[Bucket]:
        async for bucket in _every_bucket(self._database):
            if not self._keyring.is_current(bucket.secret_sealed):
                yield bucket


async def _every_bucket(database: Database) -> AsyncIterator[Bucket]:
    """Yield the buckets of all tenants. No connection is held while one is processed."""
    after = ""
    while True:
        async with database.reading(ALL_TENANTS) as connection:
            buckets = await repository.list_of_all_tenants(connection, after, _BATCH)
        for bucket in buckets:
            yield bucket
        if len(buckets) < _BATCH:
            return
        after = buckets[-1].config_id


def secret_binding(bucket: Bucket) -> tuple[str, ...]:
    """Return what a sealed secret is bound to: it cannot be opened in another row."""
    return (bucket.tenant_id, bucket.config_id, "secret_access_key")


async def _require(connection: Connection, tenant_id: str, config_id: str) -> Bucket:
    bucket = await repository.find(connection, tenant_id, config_id)
    if bucket is None:
        raise NotFound
    return bucket
