"""What may be done with buckets: add, list, read, change, make default, delete; and which bucket an upload or a file resolves to."""

from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sluice.buckets import repository
from sluice.buckets.bucket import Bucket
from sluice.buckets.endpoints import EndpointRefused, require_allowed, require_public
from sluice.buckets.stores import Stores
from sluice.db.database import Conflict, Database
from sluice.db.types import Connection
from sluice.db.whose import EVERYBODY
from sluice.engines.storage import StoreFault
from sluice.errors import BucketBound, BucketExists, BucketInactive, DefaultBucketNeeded, Invalid, NotFound
from sluice.kit.cipher import Sealer
from sluice.kit.clock import Clock, utc_now
from sluice.kit.ids import new_id
from sluice.trail import Deed
from sluice.trail.repository import note

_BATCH: Final = 100


@dataclass(frozen=True, slots=True)
class NewBucket:
    """A bucket to be added, its secret still plain."""

    name: str
    access_key_id: str
    secret_access_key: str
    region: str
    default_bucket: str
    base_path: str
    endpoint_url: str | None
    set_as_default: bool


@dataclass(frozen=True, slots=True)
class Deleted:
    """What deleting a bucket left behind: live files that now resolve to the default bucket."""

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

    async def add(self, deed: Deed, new: NewBucket) -> Bucket:
        """Try the bucket out and keep it; the tenant's first becomes its default.

        Raises `Invalid` when the endpoint is not allowed or the bucket does not work, `BucketExists` when the name is taken.
        """
        tenant_id = deed.tenant_id
        bucket = self._bucket(tenant_id, new)
        async with self._database.reading(tenant_id) as connection:
            if any(other.name == new.name for other in await repository.list_all(connection, tenant_id)):
                raise BucketExists(new.name)
        await self._require_public(bucket)
        await self._try_out(bucket)
        try:
            async with self._database.transaction(tenant_id) as connection:
                await repository.add(connection, bucket)
                await repository.point_default(connection, tenant_id, bucket.config_id, only_if_none=not new.set_as_default)
                kept = await repository.find(connection, tenant_id, bucket.config_id)
                await note(connection, deed, bucket.config_id, bucket.created_at)
        except Conflict as fault:
            raise BucketExists(new.name) from fault
        return kept or bucket

    async def get(self, tenant_id: str, config_id: str) -> Bucket:
        """Answer one bucket; raises `NotFound`."""
        async with self._database.reading(tenant_id) as connection:
            return await _require(connection, tenant_id, config_id)

    async def list_all(self, tenant_id: str) -> tuple[Bucket, ...]:
        """Answer the tenant's buckets, oldest first."""
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_all(connection, tenant_id)

    async def of_everybody(self) -> AsyncIterator[Bucket]:
        """Answer the active buckets of all tenants, for the worker."""
        async for bucket in _every_bucket(self._database):
            if bucket.is_active:
                yield bucket

    async def set_default(self, deed: Deed, config_id: str) -> Bucket:
        """Make the bucket the tenant's default; raises `NotFound` or `BucketInactive`."""
        tenant_id = deed.tenant_id
        async with self._database.transaction(tenant_id) as connection:
            await repository.lock_row(connection, tenant_id, config_id)
            bucket = await _require(connection, tenant_id, config_id)
            if not bucket.is_active:
                raise BucketInactive
            await repository.point_default(connection, tenant_id, config_id, only_if_none=False)
            await note(connection, deed, config_id, self._clock())
            return replace(bucket, is_default=True)

    async def change(self, deed: Deed, config_id: str, changes: Mapping[str, Any]) -> Bucket:
        """Change `name`, `is_active`, or both credentials together (tried out first).

        Raises `NotFound`, `BucketExists`, `DefaultBucketNeeded`, or `Invalid` when the new credentials do not work.
        """
        tenant_id, now = deed.tenant_id, self._clock()
        bucket = await self.get(tenant_id, config_id)
        if not changes:
            return bucket
        values = dict(changes)
        if "secret_access_key" in values:
            values["secret_sealed"] = self._seal(bucket, values.pop("secret_access_key"))
            await self._try_out(replace(bucket, access_key_id=values["access_key_id"], secret_sealed=values["secret_sealed"]))
        try:
            async with self._database.transaction(tenant_id) as connection:
                await repository.lock_row(connection, tenant_id, config_id)
                if values.get("is_active") is False and (await _require(connection, tenant_id, config_id)).is_default:
                    raise DefaultBucketNeeded
                await repository.change(connection, tenant_id, config_id, values | {"updated_at": now})
                await note(connection, deed, config_id, now)
                return await _require(connection, tenant_id, config_id)
        except Conflict as fault:
            raise BucketExists(values["name"]) from fault

    async def delete(self, deed: Deed, config_id: str) -> Deleted:
        """Forget the bucket and its credentials, never its objects; raises `NotFound`, or `BucketBound` while anything resolves to it."""
        tenant_id = deed.tenant_id
        try:
            async with self._database.transaction(tenant_id) as connection:
                bucket = await _require(connection, tenant_id, config_id)
                bound = await repository.count_contexts(connection, bucket)
                if bucket.is_default or bound:
                    raise BucketBound(bound)
                orphaned = await repository.count_files(connection, bucket)
                await repository.remove(connection, tenant_id, config_id)
                await note(connection, deed, config_id, self._clock())
        except Conflict as fault:
            # A context was bound, or the default moved here, between the look and the delete: the foreign keys hold.
            raise BucketBound(await self._count_bound(tenant_id, config_id)) from fault
        return Deleted(config_id, orphaned)

    async def for_file(self, tenant_id: str, storage_config_id: str | None) -> Bucket | None:
        """Answer the bucket that a stored file is in, None for the platform's store. A forgotten bucket resolves to the default."""
        if storage_config_id is None:
            return None
        async with self._database.reading(tenant_id) as connection:
            return await _resolve(connection, tenant_id, storage_config_id)

    async def _require_public(self, bucket: Bucket) -> None:
        if bucket.endpoint_url is not None:
            try:
                await require_public(bucket.endpoint_url, self._allowed_endpoints)
            except EndpointRefused as fault:
                raise Invalid(f"endpoint_url: {fault}") from fault

    def _bucket(self, tenant_id: str, new: NewBucket) -> Bucket:
        if new.endpoint_url is not None:
            try:
                require_allowed(new.endpoint_url, self._allowed_endpoints)
            except EndpointRefused as fault:
                raise Invalid(f"endpoint_url: {fault}") from fault
        bucket = Bucket(
            config_id=new_id("bkt"),
            tenant_id=tenant_id,
            name=new.name,
            access_key_id=new.access_key_id,
            secret_sealed="",
            region=new.region,
            default_bucket=new.default_bucket,
            base_path=new.base_path,
            endpoint_url=new.endpoint_url,
            is_active=True,
            created_at=self._clock(),
            updated_at=None,
        )
        return replace(bucket, secret_sealed=self._seal(bucket, new.secret_access_key))

    def _seal(self, bucket: Bucket, secret: str) -> str:
        return self._keyring.seal(secret, bound_to=secret_binding(bucket))

    async def _try_out(self, bucket: Bucket) -> None:
        if not self._probe:
            return
        store = self._stores.connect(bucket)
        try:
            await store.probe()
        except StoreFault as fault:
            raise Invalid(f"default_bucket: the bucket could not be used: {fault}") from fault
        finally:
            await store.aclose()

    async def _count_bound(self, tenant_id: str, config_id: str) -> int:
        async with self._database.reading(tenant_id) as connection:
            return await repository.count_contexts(connection, await _require(connection, tenant_id, config_id))


class Secrets:
    """The sealed secrets of all tenants' buckets, for the rotation of the keys that seal them. Each call may be cut off and repeated."""

    def __init__(self, database: Database, keyring: Sealer) -> None:
        self._database = database
        self._keyring = keyring

    async def old(self) -> int:
        """Answer how many secrets another key than the one that seals now has sealed."""
        return len([bucket async for bucket in self._sealed_by_others()])

    async def seal_again(self) -> int:
        """Seal those anew, one by one, and answer how many. Credentials that change meanwhile are sealed with the new key already."""
        done = 0
        async for bucket in self._sealed_by_others():
            plain = self._keyring.open(bucket.secret_sealed, bound_to=secret_binding(bucket))
            sealed = self._keyring.seal(plain, bound_to=secret_binding(bucket))
            async with self._database.transaction(bucket.tenant_id) as connection:
                done += await repository.replace_secret(connection, bucket, sealed)
        return done

    async def _sealed_by_others(self) -> AsyncIterator[Bucket]:
        async for bucket in _every_bucket(self._database):
            if not self._keyring.is_current(bucket.secret_sealed):
                yield bucket


async def _every_bucket(database: Database) -> AsyncIterator[Bucket]:
    """Answer the buckets of all tenants. No connection is held while one is worked on."""
    after = ""
    while True:
        async with database.reading(EVERYBODY) as connection:
            buckets = await repository.list_of_everybody(connection, after, _BATCH)
        for bucket in buckets:
            yield bucket
        if len(buckets) < _BATCH:
            return
        after = buckets[-1].config_id


def secret_binding(bucket: Bucket) -> tuple[str, ...]:
    """Answer what a sealed secret is bound to: moved to another row, it does not open."""
    return (bucket.tenant_id, bucket.config_id, "secret_access_key")


async def _require(connection: Connection, tenant_id: str, config_id: str) -> Bucket:
    bucket = await repository.find(connection, tenant_id, config_id)
    if bucket is None:
        raise NotFound
    return bucket


async def _resolve(connection: Connection, tenant_id: str, config_id: str | None) -> Bucket | None:
    bucket = None if config_id is None else await repository.find(connection, tenant_id, config_id)
    return bucket or await repository.find_default(connection, tenant_id)
