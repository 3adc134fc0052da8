"""The statements that run on the way of every upload, each a single round trip. Their rows are made and read in `repository`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    CTE,
    BigInteger,
    BindParameter,
    Column,
    ColumnElement,
    Float,
    FromClause,
    Insert,
    String,
    Table,
    Text,
    and_,
    bindparam,
    cast,
    column,
    exists,
    func,
    insert,
    literal,
    null,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.sql.dml import ReturningUpdate
from sqlalchemy.types import TypeEngine

from sluice.buckets import Bucket
from sluice.contexts.context import BYTES_PER_MB
from sluice.db.hot import Hot, Together, same
from sluice.db.moments import ahead, month, now
from sluice.db.schema import api_keys, contexts, decisions, default_buckets, files, plan_usage, storage_configs, tenants
from sluice.db.types import Document


def _value(column: Column[Any], name: str | None = None) -> BindParameter[Any]:
    return bindparam(name or column.name, type_=column.type)


def _lease() -> ColumnElement[Any]:
    return ahead(bindparam("lease_seconds", type_=Float))


def _insert(table: Table, names: Sequence[str], given: CTE | None = None) -> Insert:
    """Insert one row; with `given`, only if that answered one."""
    row = select(*(_lease() if name == "lease_until" else _value(table.c[name]) for name in names))
    return insert(table).from_select(list(names), row if given is None else row.select_from(given)).returning(*table.primary_key)


def _arrays(kinds: Mapping[str, TypeEngine[Any]]) -> CTE:
    """Answer rows that come as one array for each of their columns."""
    # Without lengths: a cast to one cuts a text off in silence, where writing what is too long fails.
    plain = {name: String() if isinstance(kind, String) else Text() if kind is Document else kind for name, kind in kinds.items()}
    arrays = func.unnest(*(bindparam(name, type_=ARRAY(kind)) for name, kind in plain.items()))
    rows = arrays.table_valued(*(column(name, kind) for name, kind in plain.items()))
    return select(rows.render_derived(name="rows")).cte("given")


def _insert_each(table: Table, names: Sequence[str], given: CTE, join: FromClause) -> Insert:
    """Insert a row for each of `join`; what is not given for each is the same for all."""

    def value(name: str) -> ColumnElement[Any]:
        if name not in given.c:
            return _lease() if name == "lease_until" else _value(table.c[name])
        return cast(given.c[name], Document) if table.c[name].type is Document else given.c[name]

    rows = select(*(value(name) for name in names)).select_from(join)
    return insert(table).from_select(list(names), rows).returning(*table.primary_key)


PENDING: Final = [
    "file_id",
    "tenant_id",
    "context_id",
    "context_key",
    "state",
    "original_filename",
    "content_type",
    "size_bytes",
    "sha256",
    "storage_config_id",
    "object_key",
    "uploaded_by",
    "uploaded_by_name",
    "metadata",
    "download_count",
    "plan_month",
    "report_id",
    "created_at",
    "lease_until",
    "scanned_with",
    "scanned_at",
]
_OF_EACH_FILE: Final = (
    "file_id",
    "original_filename",
    "content_type",
    "size_bytes",
    "sha256",
    "object_key",
    "metadata",
    "report_id",
    "created_at",
    "scanned_with",
    "scanned_at",
)
"""The columns in which files differ that one uploader brings into one context."""
DECISION: Final = [
    "report_id",
    "tenant_id",
    "file_id",
    "context_key",
    "mode",
    "rules",
    "rules_version",
    "facts",
    "engines",
    "outcome",
    "reason",
    "detail",
    "actor",
    "created_at",
]

_bucket_of_context = and_(
    storage_configs.c.tenant_id == contexts.c.tenant_id,
    storage_configs.c.config_id == func.coalesce(contexts.c.storage_config_id, default_buckets.c.config_id),
)
_is_default: Final = (storage_configs.c.config_id == default_buckets.c.config_id).label("bucket.is_default")

LOOK: Final = same(
    select(
        *contexts.c,
        tenants.c.plan,
        plan_usage.c.uploads,
        now().label("present"),
        *(storage_configs.c[name].label(f"bucket.{name}") for name in Bucket.__slots__ if name != "is_default"),
        _is_default,
    )
    .join(tenants, tenants.c.tenant_id == contexts.c.tenant_id)
    .outerjoin(plan_usage, and_(plan_usage.c.tenant_id == contexts.c.tenant_id, plan_usage.c.month == month()))
    .outerjoin(default_buckets, default_buckets.c.tenant_id == contexts.c.tenant_id)
    .outerjoin(storage_configs, _bucket_of_context)
    .where(
        contexts.c.tenant_id == _value(contexts.c.tenant_id, "tenant_id"),
        contexts.c.context_key == _value(contexts.c.context_key, "context_key"),
    )
)
"""A context, its tenant's plan and use of it this month, and the bucket that its files go to."""


_AT: Final = _value(files.c.created_at, "created_at")


def _as_seen(*, by_key: bool, at: ColumnElement[Any] = _AT) -> list[ColumnElement[bool]]:
    """Tenant, key, context and bucket are active and of the editions that the upload was judged by, and the key has not expired `at`."""
    tenant_id, config_id = _value(files.c.tenant_id, "tenant_id"), _value(files.c.storage_config_id, "storage_config_id")
    default = select(default_buckets.c.config_id).where(default_buckets.c.tenant_id == tenant_id).scalar_subquery()
    changed_at = _value(storage_configs.c.updated_at, "bucket_changed_at")
    changed = exists().where(storage_configs.c.config_id == config_id, storage_configs.c.updated_at.is_distinct_from(changed_at))
    unchanged: list[ColumnElement[bool]] = [
        contexts.c.context_id == _value(contexts.c.context_id),
        contexts.c.status == "active",
        contexts.c.rules_version == _value(contexts.c.rules_version),
        func.coalesce(contexts.c.storage_config_id, default).is_not_distinct_from(config_id),
        ~changed,
        exists().where(tenants.c.tenant_id == tenant_id, tenants.c.status == "active", tenants.c.plan == _value(tenants.c.plan)),
    ]
    if by_key:
        key_id, key_changed_at = _value(api_keys.c.api_key_id, "key_id"), _value(api_keys.c.updated_at, "key_changed_at")
        active = exists().where(
            api_keys.c.api_key_id == key_id,
            api_keys.c.tenant_id == tenant_id,
            api_keys.c.status == "active",
            api_keys.c.updated_at.is_not_distinct_from(key_changed_at),
            or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > at),
        )
        unchanged.append(active)
    return unchanged


def _claim_bytes(size: ColumnElement[int], unchanged: Sequence[ColumnElement[bool]]) -> ReturningUpdate[tuple[str]]:
    """Take bytes from a context's quota if all is as it was seen and there is room for them."""
    after = contexts.c.storage_used_bytes + size
    room = or_(contexts.c.storage_quota_mb.is_(None), after <= contexts.c.storage_quota_mb * literal(BYTES_PER_MB, BigInteger))
    return update(contexts).where(*unchanged, room).values(storage_used_bytes=after).returning(contexts.c.context_id)


def _claim(*, by_key: bool) -> Hot:
    """Take an upload's bytes from the quota if all is as it was seen, and write the file's pending row. Of several together: all or none."""
    claim = _claim_bytes(bindparam("size_bytes", type_=BigInteger), _as_seen(by_key=by_key))
    kinds = {name: files.c[name].type for name in _OF_EACH_FILE}
    given = _arrays(kinds)
    sizes, latest = (select(found).scalar_subquery() for found in (func.sum(given.c.size_bytes), func.max(given.c.created_at)))
    all_of_them = _claim_bytes(cast(sizes, BigInteger), _as_seen(by_key=by_key, at=latest)).cte("claimed")
    return Hot(
        postgres=_insert(files, PENDING, claim.cte("claimed")),
        sqlite=[claim, _insert(files, PENDING)],
        together=Together(_insert_each(files, PENDING, given, given.join(all_of_them, true())), kinds, key="file_id"),
    )


CLAIM_BY_KEY: Final = _claim(by_key=True)
CLAIM_BY_USER: Final = _claim(by_key=False)
SEEN_BY_KEY: Final = same(select(contexts.c.context_id).where(*_as_seen(by_key=True)))
SEEN_BY_USER: Final = same(select(contexts.c.context_id).where(*_as_seen(by_key=False)))


def _keep(file_id: ColumnElement[str], life_seconds: ColumnElement[float]) -> ReturningUpdate[tuple[str]]:
    return (
        update(files)
        .where(files.c.file_id == file_id, files.c.state == "pending")
        .values(state="stored", lease_until=null(), due_at=ahead(life_seconds))
        .returning(files.c.file_id)
    )


def _record() -> Hot:
    stored: dict[str, TypeEngine[Any]] = {"stored_id": files.c.file_id.type, "life_seconds": Float()}
    kept = _keep(*(bindparam(name, type_=kind) for name, kind in stored.items()))
    kinds = {name: decisions.c[name].type for name in DECISION if name != "tenant_id"} | stored
    given = _arrays(kinds)
    all_kept = _keep(given.c.stored_id, given.c.life_seconds).cte("kept")
    join = given.join(all_kept, all_kept.c.file_id == given.c.stored_id)
    return Hot(
        postgres=_insert(decisions, DECISION, kept.cte("kept")),
        sqlite=[kept, _insert(decisions, DECISION)],
        together=Together(_insert_each(decisions, DECISION, given, join), kinds, key="report_id"),
    )


RECORD: Final = _record()
"""Make a pending file visible, until its `life_seconds` are over (null: for good), and log its decision."""

LOG: Final = same(_insert(decisions, DECISION))
"""Log a decision by itself."""
