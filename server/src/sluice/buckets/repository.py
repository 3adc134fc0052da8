"""All queries of buckets; what a query means is decided in `service`."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, insert, or_, select, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.ext.asyncio import AsyncConnection

from sluice.buckets.bucket import Bucket, BucketProbe
from sluice.db import counts
from sluice.db.schema import bucket_outages, contexts, default_buckets, storage_configs
from sluice.db.sql import Fields, now
from sluice.storage import ProviderSettings, settings_of, values_of

_IS_DEFAULT = default_buckets.c.config_id.is_not(None).label("is_default")
_WITH_DEFAULT = storage_configs.outerjoin(
    default_buckets,
    and_(
        default_buckets.c.tenant_id == storage_configs.c.tenant_id,
        default_buckets.c.config_id == storage_configs.c.config_id,
    ),
)


async def find(connection: AsyncConnection, tenant_id: str, config_id: str) -> Bucket | None:
    """Return one bucket, or None."""
    query = _query(tenant_id).where(storage_configs.c.config_id == config_id)
    row = (await connection.execute(query)).mappings().one_or_none()
    return None if row is None else bucket_of(row)


async def find_default(connection: AsyncConnection, tenant_id: str) -> Bucket | None:
    """Return the tenant's default bucket, or None when it has no bucket."""
    row = (
        (await connection.execute(_query(tenant_id).where(default_buckets.c.config_id.is_not(None))))
        .mappings()
        .one_or_none()
    )
    return None if row is None else bucket_of(row)


async def list_all(connection: AsyncConnection, tenant_id: str) -> tuple[Bucket, ...]:
    """Return the tenant's buckets, oldest first."""
    rows = (await connection.execute(_query(tenant_id).order_by(storage_configs.c.config_id))).mappings().all()
    return tuple(bucket_of(row) for row in rows)


async def list_of_all_tenants(connection: AsyncConnection, after: str, most: int) -> tuple[Bucket, ...]:
    """Return buckets of all tenants by id, those after `after`: for the worker and the operator."""
    query = (
        select(storage_configs)
        .where(storage_configs.c.config_id > after)
        .order_by(storage_configs.c.config_id)
        .limit(most)
    )
    return tuple(bucket_of(row) for row in (await connection.execute(query)).mappings().all())


async def replace_secret(connection: AsyncConnection, bucket: Bucket, sealed: str) -> bool:
    """Write a secret that was sealed again.

    Return False, and change nothing, if it is no longer the one that was read.
    """
    statement = (
        update(storage_configs)
        .where(
            storage_configs.c.tenant_id == bucket.tenant_id,
            storage_configs.c.config_id == bucket.config_id,
            storage_configs.c.secret_sealed == bucket.secret_sealed,
        )
        .values(secret_sealed=sealed)
        .returning(storage_configs.c.config_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def add(connection: AsyncConnection, bucket: Bucket) -> None:
    """Insert one bucket; a constraint refuses it (`Conflict`) when its name is taken. The default is not changed."""
    values = {name: getattr(bucket, name) for name in Bucket.__slots__ if name != "is_default"}
    values |= settings_columns(bucket.settings)
    if bucket.last_probe is not None:
        values["last_probe"] = bucket.last_probe.to_json()
    await connection.execute(insert(storage_configs).values(**values))


async def point_default(connection: AsyncConnection, tenant_id: str, config_id: str, *, only_if_none: bool) -> None:
    """Make this bucket the tenant's default, or only when the tenant has none yet.

    One row, one lock, no gap between two defaults.
    """
    upsert = sqlite_insert if connection.dialect.name == "sqlite" else postgres_insert
    statement = upsert(default_buckets).values(tenant_id=tenant_id, config_id=config_id)
    if only_if_none:
        await connection.execute(statement.on_conflict_do_nothing(index_elements=["tenant_id"]))
        return
    await connection.execute(
        statement.on_conflict_do_update(index_elements=["tenant_id"], set_={"config_id": config_id})
    )


async def change(connection: AsyncConnection, tenant_id: str, config_id: str, values: Mapping[str, Any]) -> bool:
    """Write `values`; return whether the bucket was there.

    A constraint refuses it (`Conflict`) when a new name is taken.
    """
    statement = (
        update(storage_configs)
        .where(storage_configs.c.tenant_id == tenant_id, storage_configs.c.config_id == config_id)
        .values(**values)
        .returning(storage_configs.c.config_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def lock_row(connection: AsyncConnection, tenant_id: str, config_id: str) -> None:
    """Hold the bucket's row until the transaction ends, so that its default and its state are judged and changed
    together.
    """
    query = select(storage_configs.c.config_id).where(
        storage_configs.c.tenant_id == tenant_id, storage_configs.c.config_id == config_id
    )
    await connection.execute(query.with_for_update())


async def note_failure(connection: AsyncConnection, tenant_id: str, config_id: str) -> None:
    """List a bucket as failing since now, unless it is listed or was deleted."""
    row = select(
        storage_configs.c.config_id, storage_configs.c.tenant_id, now().label("failing_since"), now().label("check_at")
    ).where(storage_configs.c.tenant_id == tenant_id, storage_configs.c.config_id == config_id)
    upsert = (sqlite_insert if connection.dialect.name == "sqlite" else postgres_insert)(bucket_outages)
    statement = upsert.from_select(["config_id", "tenant_id", "failing_since", "check_at"], row)
    await connection.execute(statement.on_conflict_do_nothing(index_elements=["config_id"]))


async def remove(connection: AsyncConnection, tenant_id: str, config_id: str) -> None:
    """Delete the row; a constraint refuses it (`Conflict`) when a context or the default still points at it."""
    await connection.execute(
        delete(storage_configs).where(
            storage_configs.c.tenant_id == tenant_id, storage_configs.c.config_id == config_id
        )
    )


async def count_contexts(connection: AsyncConnection, bucket: Bucket) -> int:
    """Count the contexts that resolve to the bucket: bound ones, and for the default those bound to none."""
    bound: ColumnElement[bool] = contexts.c.storage_config_id == bucket.config_id
    if bucket.is_default:
        bound = or_(bound, contexts.c.storage_config_id.is_(None))
    query = select(func.count()).select_from(contexts).where(contexts.c.tenant_id == bucket.tenant_id, bound)
    return (await connection.execute(query)).scalar_one()


async def count_files(connection: AsyncConnection, bucket: Bucket) -> int:
    """Return how many live files are stored in the bucket, without counting them."""
    return await counts.total(connection, bucket.tenant_id, "bucket_files", bucket.config_id)


async def find_tenants_without_default(connection: AsyncConnection) -> Sequence[str]:
    """Return ids of tenants that have buckets and no default among them."""
    query = (
        select(storage_configs.c.tenant_id)
        .outerjoin(default_buckets, default_buckets.c.tenant_id == storage_configs.c.tenant_id)
        .where(default_buckets.c.config_id.is_(None))
        .distinct()
    )
    return (await connection.execute(query)).scalars().all()


def _query(tenant_id: str) -> Any:
    return (
        select(storage_configs, _IS_DEFAULT).select_from(_WITH_DEFAULT).where(storage_configs.c.tenant_id == tenant_id)
    )


def bucket_of(row: Fields) -> Bucket:
    """Return the bucket in a row of `is_default` and the columns of `storage_configs`, `last_probe` or not."""
    values = dict(row)
    probed = values.get("last_probe")
    values["settings"] = settings_of(values.pop("provider"), values["settings"])
    return Bucket(**values | {"last_probe": None if probed is None else BucketProbe.from_json(probed)})


def settings_columns(settings: ProviderSettings) -> Mapping[str, Any]:
    """Return the columns that hold the settings of a provider."""
    return {"provider": settings.provider, "settings": values_of(settings)}
