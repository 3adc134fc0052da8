"""Changes of state, and of what a file takes from the limits of its context, plan and token."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Float, bindparam, cast, delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import ReturningDelete, ReturningUpdate

from sluice.db.schema import contexts, files, plan_usage, upload_tokens
from sluice.db.sql import AnyRow, is_listed, now, now_plus, rows_listed
from sluice.files.repository.due import is_over
from sluice.files.repository.rows import (
    EVENT_COLUMNS,
    is_free,
    is_in,
    is_in_bucket,
    is_in_free_context,
    is_in_quarantine,
    stored_row,
)

_BYTES_PER_MB = 1_048_576
_ERASED = "erased"  # as in `erasures.subject`
_BLANK: dict[str, Any] = {
    "uploaded_by": _ERASED,
    "uploaded_by_name": _ERASED,
    "original_filename": _ERASED,
    "metadata": {},
}


@dataclass(frozen=True, slots=True)
class Ending:
    """How the life of files ends: from one of the states `sources` to `target`, but for those that it spares.

    `in_quarantine`: it is for files in quarantine alone, or (False) for others. `retention_starts`: for files alone
    whose time is over by a rule of that kind.
    """

    sources: frozenset[str]
    target: str
    spares_held: bool = False
    spares_held_contexts: bool = False
    in_quarantine: bool | None = None
    retention_starts: str | None = None


async def add_pending(connection: AsyncConnection, values: Mapping[str, Any], lease: timedelta) -> None:
    """Insert the row of a file whose object does not exist yet."""
    row = {**values, "state": "pending", "download_count": 0, "lease_until": now_plus(lease)}
    await connection.execute(insert(files).values(row))


async def end_life(
    connection: AsyncConnection,
    ending: Ending,
    tenant_id: str,
    file_ids: Collection[str],
    *,
    purge_after: timedelta | None,
    since: datetime | None = None,
) -> Sequence[AnyRow]:
    """End the life of those of the files that `ending` is for.

    They are to be purged after `purge_after`, None: when their lease ends. `since` is that of the retention rule.
    Return what they reserved and what events tell of them.
    """
    values: dict[str, Any] = {"its_tenant_id": tenant_id, "its_file_ids": [*file_ids]}
    if purge_after is not None:
        values["its_seconds"] = purge_after.total_seconds()
    if since is not None:
        values["since"] = since
    statement = _ending_life(ending, at_end_of_lease=purge_after is None)
    return (await connection.execute(statement, values)).all()


@cache
def _ending_life(ending: Ending, *, at_end_of_lease: bool) -> ReturningUpdate[*tuple[Any, ...]]:
    conditions: list[ColumnElement[bool]] = [
        files.c.tenant_id == bindparam("its_tenant_id"),
        is_listed(files.c.file_id, "its_file_ids"),
        is_in(ending.sources),
    ]
    if ending.spares_held:
        conditions.append(is_free())
    if ending.spares_held_contexts:
        conditions.append(is_in_free_context())
    if ending.in_quarantine is not None:
        conditions.append(is_in_quarantine() if ending.in_quarantine else ~is_in_quarantine())
    if ending.retention_starts is not None:
        conditions += is_over(ending.retention_starts)
    return (
        update(files)
        .where(*conditions)
        .values(
            state=ending.target,
            lease_until=None,
            due_at=files.c.lease_until if at_end_of_lease else now_plus(bindparam("its_seconds", type_=Float)),
            restored_due_at=files.c.due_at,
            deleted_at=None if at_end_of_lease else now(),
            review_decision=None,
            reviewed_by=None,
            reviewed_at=None,
        )
        .returning(files.c.context_id, files.c.plan_month, files.c.upload_token_id, *EVENT_COLUMNS)
    )


async def lock_states(connection: AsyncConnection, tenant_id: str, file_ids: Collection[str]) -> Sequence[AnyRow]:
    """Return state, context and size of those of the files that exist; until the commit none of them changes."""
    query = select(files.c.file_id, files.c.state, files.c.context_id, files.c.size_bytes)
    owned = (files.c.tenant_id == tenant_id, files.c.file_id.in_(file_ids))
    return (await connection.execute(query.where(*owned).order_by(files.c.file_id).with_for_update())).all()


async def restore(
    connection: AsyncConnection, tenant_id: str, file_ids: Collection[str], sources: Collection[str], target: str
) -> Sequence[AnyRow]:
    """Move those of the files that are in one of `sources` to `target`, with the end of life that each had before.

    Return what events tell of them, their contexts, and of which bytes and for which threat they were in quarantine.
    """
    statement = (
        update(files)
        .where(files.c.tenant_id == tenant_id, files.c.file_id.in_(file_ids), files.c.state.in_(sources))
        .values(state=target, due_at=files.c.restored_due_at, restored_due_at=None, deleted_at=None)
        .returning(files.c.context_id, files.c.sha256, files.c.threat, *EVENT_COLUMNS)
    )
    return (await connection.execute(statement)).all()


async def lock_room(connection: AsyncConnection, tenant_id: str, context_id: str) -> int:
    """Lock a context's quota until the commit; return how many bytes of it are free."""
    columns = contexts.c
    room = cast(columns.storage_quota_mb, BigInteger) * _BYTES_PER_MB - columns.storage_used_bytes
    query = select(room).where(columns.tenant_id == tenant_id, columns.context_id == context_id)
    return max(0, (await connection.execute(query.with_for_update())).scalar_one_or_none() or 0)


async def claim_quota(connection: AsyncConnection, tenant_id: str, context_id: str, size_bytes: int) -> bool:
    """Take bytes from a context's quota; return False if they do not fit."""
    columns = contexts.c
    room = cast(columns.storage_quota_mb, BigInteger) * _BYTES_PER_MB
    statement = (
        update(contexts)
        .where(
            columns.tenant_id == tenant_id,
            columns.context_id == context_id,
            or_(columns.storage_quota_mb.is_(None), columns.storage_used_bytes + size_bytes <= room),
        )
        .values(storage_used_bytes=columns.storage_used_bytes + size_bytes)
        .returning(columns.context_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def release_quota(
    connection: AsyncConnection,
    tenant_id: str,
    context_id: str,
    size_bytes: int,
    *,
    unless_held: bool = False,
    rules_version: int | None = None,
) -> bool:
    """Free bytes of a context's quota; return whether the context has no hold, if that matters, and this version."""
    values = {"its_tenant_id": tenant_id, "its_context_id": context_id, "its_size": size_bytes}
    if rules_version is not None:
        values["its_version"] = rules_version
    statement = _releasing_quota(unless_held=unless_held, has_version=rules_version is not None)
    return (await connection.execute(statement, values)).one_or_none() is not None


@cache
def _releasing_quota(*, unless_held: bool, has_version: bool) -> ReturningUpdate[*tuple[Any, ...]]:
    columns = contexts.c
    conditions: list[ColumnElement[bool]] = [
        columns.tenant_id == bindparam("its_tenant_id"),
        columns.context_id == bindparam("its_context_id"),
    ]
    if unless_held:
        conditions.append(columns.held_at.is_(None))
    if has_version:
        conditions.append(columns.rules_version == bindparam("its_version"))
    left = columns.storage_used_bytes - bindparam("its_size")
    return update(contexts).where(*conditions).values(storage_used_bytes=left).returning(columns.context_id)


async def release_plan(connection: AsyncConnection, tenant_id: str, month: str) -> None:
    """Free one upload of the plan in `month`."""
    await connection.execute(
        update(plan_usage)
        .where(plan_usage.c.tenant_id == tenant_id, plan_usage.c.month == month)
        .values(uploads=plan_usage.c.uploads - 1)
    )


async def release_token(connection: AsyncConnection, tenant_id: str, token_id: str) -> None:
    """Free one of the files that an upload token may store."""
    await connection.execute(
        update(upload_tokens)
        .where(upload_tokens.c.tenant_id == tenant_id, upload_tokens.c.token_id == token_id)
        .values(files_claimed=upload_tokens.c.files_claimed - 1)
    )


async def delete_rows(
    connection: AsyncConnection, owned: Collection[tuple[str, str]], sources: Collection[str]
) -> Sequence[AnyRow]:
    """Delete the rows of those of the files (each a tenant and an id) that are in one of `sources`, and return them."""
    return (await connection.execute(_deleting(frozenset(sources)), {"owned": [*owned]})).all()


@cache
def _deleting(sources: frozenset[str]) -> ReturningDelete[*tuple[Any, ...]]:
    returned = (files.c.tenant_id, files.c.state, *EVENT_COLUMNS)
    return delete(files).where(*rows_listed(files, "owned"), is_in(sources)).returning(*returned)


async def switch_bucket(
    connection: AsyncConnection, tenant_id: str, file_id: str, old: str | None, new: str | None, *, key: str
) -> bool:
    """Point a stored file at its copy in another bucket; return False if it was deleted or moved meanwhile."""
    statement = (
        update(files)
        .where(*stored_row(tenant_id, file_id), is_in_bucket(old))
        .values(storage_config_id=new, object_key=key)
        .returning(files.c.file_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def erase_filenames(
    connection: AsyncConnection, tenant_id: str, file_ids: Collection[str], states: Collection[str]
) -> None:
    """Blank the names of those of the files that are in one of `states` and not held."""
    free = (files.c.tenant_id == tenant_id, files.c.file_id.in_(file_ids), files.c.state.in_(states))
    statement = update(files).where(*free, is_free(), is_in_free_context())
    await connection.execute(statement.values(original_filename=_ERASED))


async def forget_names(
    connection: AsyncConnection, tenant_id: str, file_ids: Collection[str], states: Collection[str]
) -> None:
    """Blank the names and metadata of those files that are in one of `states`, whose objects are being purged."""
    waiting = (files.c.tenant_id == tenant_id, files.c.file_id.in_(file_ids), files.c.state.in_(states))
    await connection.execute(update(files).where(*waiting).values(_BLANK))


async def erase_names(
    connection: AsyncConnection, tenant_id: str, file_ids: Collection[str], sources: Collection[str], target: str
) -> Sequence[AnyRow]:
    """Move those of the files that are in one of `sources` and not held to `target`, due to be purged now, without
    names and metadata. Return their ids and contexts.
    """
    free = (files.c.tenant_id == tenant_id, files.c.file_id.in_(file_ids), files.c.state.in_(sources))
    # Not before: counts and search of stored files follow these columns as they were.
    statement = (
        update(files)
        .where(*free, is_free(), is_in_free_context())
        .values(**_BLANK, state=target, due_at=now())
        .returning(files.c.file_id, files.c.context_id)
    )
    return (await connection.execute(statement)).all()
