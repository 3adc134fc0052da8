"""All queries of contexts; what a query means is decided in `service`. The tenant comes first in every one."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, String, cast, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from sluice.contexts.context import Context, RateLimit
from sluice.contexts.external_checks import checks_of, checks_to_json
from sluice.contexts.policies import check_modes_of, policies_of
from sluice.contexts.sanitising import sanitise_of
from sluice.db import counts
from sluice.db.schema import contexts, storage_configs
from sluice.db.sql import Fields, load_page, now
from sluice.kit.paging import Page, PageRequest
from sluice_inspect.document_kinds import DocumentKind

# When files are looked through by their retention.
_FOR_THE_WORKER: Final = frozenset({"retention_due_at", "retention_after"})
# Columns that do not matter for an upload into the context.
UNUSED_BY_UPLOADS: Final = _FOR_THE_WORKER | {
    "retention_days",
    "retention_starts",
    "held_at",
    "held_by",
    "hold_reason",
    "page_name",
    "page_sentence",
    "page_color",
    "page_logo",
}
# No list shows logos and what examples have in common, which are large.
_LISTED: Final = [column for column in contexts.c if column.name not in {"page_logo", "document_kind"}]


async def find(
    connection: AsyncConnection, tenant_id: str, context_key: str, *, to_change: bool = False
) -> Context | None:
    """Return one context, or None; with `to_change` it is locked until the transaction ends."""
    query = select(contexts).where(contexts.c.tenant_id == tenant_id, contexts.c.context_key == context_key)
    if to_change:
        query = query.with_for_update(key_share=True)  # files that refer to it do not wait
    row = (await connection.execute(query)).mappings().one_or_none()
    return None if row is None else context_of(row)


async def list_page(
    connection: AsyncConnection, tenant_id: str, status: str | None, request: PageRequest, *, only: Sequence[str]
) -> Page[Context]:
    """Return one page, newest first, of those with `only` these keys if there are any."""
    wanted: list[ColumnElement[bool]] = [] if status is None else [contexts.c.status == status]
    if only:
        wanted.append(contexts.c.context_key.in_(only))
        counted = select(func.count()).select_from(contexts).where(contexts.c.tenant_id == tenant_id, *wanted)
        total = int((await connection.execute(counted)).scalar_one())
    else:
        total = await counts.total(connection, tenant_id, "contexts", status)
    rows = await load_page(connection, tenant_id, _LISTED, wanted, request, total=total)
    return Page(tuple(context_of(row._mapping) for row in rows), request, total)  # noqa: SLF001  (documented)


async def largest_scanned(connection: AsyncConnection, most: int) -> Sequence[Context]:
    """Return active contexts of all tenants that scan, at most `most`, by the files they accept, the largest first."""
    wanted = (contexts.c.status == "active", contexts.c.scan_for_viruses)
    query = (
        select(contexts).where(*wanted).order_by(contexts.c.max_file_size_mb.desc(), contexts.c.context_id).limit(most)
    )
    return [context_of(row) for row in (await connection.execute(query)).mappings().all()]


async def list_with_checks(connection: AsyncConnection, after: str, most: int) -> Sequence[Context]:
    """Return contexts of all tenants with external checks, at most `most`, in the order of their ids after `after`."""
    wanted = (contexts.c.context_id > after, cast(contexts.c.external_checks, String) != "[]")
    query = select(contexts).where(*wanted).order_by(contexts.c.context_id).limit(most)
    return [context_of(row) for row in (await connection.execute(query)).mappings().all()]


async def add(connection: AsyncConnection, context: Context) -> None:
    """Insert one context; a constraint refuses it (`Conflict`) if its key is taken or its bucket unknown."""
    await connection.execute(insert(contexts).values(**_columns(context)))


async def change(
    connection: AsyncConnection, tenant_id: str, context_key: str, values: Mapping[str, Any]
) -> Context | None:
    """Write `values` (column names) and a new rules version; return the changed context, or None.

    If its retention changes, the worker looks through its files at once.
    """
    if not values.keys().isdisjoint({"retention_days", "retention_starts"}):
        values = {**values, "retention_due_at": now(), "retention_after": None}
    statement = (
        update(contexts)
        .where(contexts.c.tenant_id == tenant_id, contexts.c.context_key == context_key)
        .values(**values, rules_version=contexts.c.rules_version + 1)
        .returning(contexts)
    )
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else context_of(row)


async def bucket_is_active(connection: AsyncConnection, tenant_id: str, config_id: str) -> bool | None:
    """Return whether the tenant's bucket is active, None when the tenant has no such bucket."""
    query = select(storage_configs.c.is_active).where(
        storage_configs.c.tenant_id == tenant_id, storage_configs.c.config_id == config_id
    )
    return (await connection.execute(query)).scalar_one_or_none()


def _columns(context: Context) -> dict[str, Any]:
    rate = context.upload_rate_limit
    return {
        "context_id": context.context_id,
        "tenant_id": context.tenant_id,
        "context_key": context.context_key,
        "display_name": context.display_name,
        "description": context.description,
        "allowed_extensions": list(context.allowed_extensions),
        "max_file_size_mb": context.max_file_size_mb,
        "storage_path_template": context.storage_path_template,
        "reject_blank_files": context.reject_blank_files,
        "reject_corrupt_files": context.reject_corrupt_files,
        "scan_for_viruses": context.scan_for_viruses,
        "rate_max_uploads": None if rate is None else rate.max_uploads,
        "rate_window_seconds": None if rate is None else rate.window_seconds,
        "storage_quota_mb": context.storage_quota_mb,
        "storage_used_bytes": context.storage_used_bytes,
        "status": context.status,
        "metadata": dict(context.metadata),
        "storage_config_id": context.storage_config_id,
        "rules_version": context.rules_version,
        "created_at": context.created_at,
        "updated_at": context.updated_at,
        "check_modes": context.check_modes.to_json(),
        "policies": context.policies.to_json(),
        "retention_days": context.retention_days,
        "retention_starts": context.retention_starts,
        "page_name": context.page_name,
        "page_sentence": context.page_sentence,
        "page_color": context.page_color,
        "page_logo": context.page_logo,
        "external_checks": checks_to_json(context.external_checks),
        "sanitise": None if context.sanitise is None else context.sanitise.to_json(),
        "retention_due_at": None if context.retention_days is None else context.created_at,
    }


def context_of(row: Fields) -> Context:
    """Return the context in a row of columns of `contexts`; those of `UNUSED_BY_UPLOADS` may be missing."""
    fields = {name: value for name, value in row.items() if name not in _FOR_THE_WORKER}
    most, window = fields.pop("rate_max_uploads"), fields.pop("rate_window_seconds")
    fields["upload_rate_limit"] = None if most is None else RateLimit(most, window)
    fields["allowed_extensions"] = tuple(fields["allowed_extensions"])
    fields["check_modes"] = check_modes_of(fields["check_modes"])
    fields["policies"] = policies_of(fields["policies"])
    fields["external_checks"] = checks_of(fields["external_checks"]) if fields["external_checks"] else ()
    fields["sanitise"] = sanitise_of(fields["sanitise"])
    kind = fields.pop("document_kind", None)
    fields["document_kind"] = None if kind is None else DocumentKind.from_json(kind)
    return Context(**fields)
