"""All queries of uploads: the snapshot, reserving, recording, releasing, and the decision log.

When each runs is in `reservation`.

The row of a file is `pending` from `reserve` to `record`; its lease ends it otherwise. Room in the quota and in the
plan is claimed by conditional updates, never by a read and a later write.
"""

from datetime import timedelta
from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, cast, or_, select, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.ext.asyncio import AsyncConnection

from sluice import __version__
from sluice.access import Principal
from sluice.buckets import Bucket
from sluice.buckets.repository import bucket_of
from sluice.contexts.context import BYTES_PER_MB
from sluice.contexts.repository import UNUSED_BY_UPLOADS, context_of
from sluice.db.database import Database
from sluice.db.schema import (
    IS_STORED,
    api_keys,
    contexts,
    files,
    plan_usage,
    resumable_uploads,
    storage_configs,
    tenants,
    upload_tokens,
)
from sluice.db.sql import AnyRow, Moment, month
from sluice.db.statement import BatchStatement, Statement
from sluice.decisions import DecisionRecord
from sluice.decisions.repository import log_decision
from sluice.events import outbox
from sluice.events.catalogue import FileQuarantined, FileRejectedEvent, FileStored, UploadTokenSpent
from sluice.files import repository as file_rows
from sluice.hash_lists.entry import ListedAlgorithms
from sluice.idempotency_keys import KeyClaim
from sluice.observe.stages import staged
from sluice.uploads import sql_postgres, sql_sqlite
from sluice.uploads.idempotency import CONTENT_REASONS, repeat_key
from sluice.uploads.reasons import WORDS
from sluice.uploads.values import Attempt, ContextSnapshot, Decision, PendingFile, Rejection, Rules, Usage

_BUCKET_COLUMNS: Final = ("provider", *(name for name in Bucket.__slots__ if name != "last_probe"))
_CONTEXT_COLUMNS: Final = tuple(column.name for column in contexts.c if column.name not in UNUSED_BY_UPLOADS)
_SNAPSHOT: Final = Statement(
    postgres=sql_postgres.SNAPSHOT,
    sqlite=[sql_sqlite.SNAPSHOT],
    types={
        **{column.name: column.type for column in contexts.c},
        **{f"bucket_{column.name}": column.type for column in storage_configs.c},
        "bucket_is_default": Boolean(),
        "present": Moment(),
    },
)
_FIND_DUPLICATE: Final = """
SELECT file_id FROM files
 WHERE tenant_id = :tenant_id AND sha256 = :sha256 AND context_key = :context_key AND state = 'stored'
 LIMIT 1
"""
_DUPLICATE: Final = Statement(postgres=_FIND_DUPLICATE, sqlite=[_FIND_DUPLICATE])
_RESERVE: Final = Statement(
    postgres=sql_postgres.RESERVE,
    sqlite=sql_sqlite.RESERVE,
    batch=BatchStatement(
        sql_postgres.RESERVE_BATCH,
        each=(
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
        ),
        key="file_id",
    ),
)
_RESERVE_WITH_KEY: Final = Statement(postgres=sql_postgres.RESERVE_WITH_KEY, sqlite=sql_sqlite.RESERVE_WITH_KEY)
_RECORD: Final = Statement(
    postgres=sql_postgres.RECORD,
    sqlite=sql_sqlite.RECORD,
    batch=BatchStatement(
        sql_postgres.RECORD_BATCH,
        each=(
            *(name for name in DecisionRecord.__slots__ if name != "tenant_id"),
            "stored_id",
            "life_seconds",
            "quarantined_at",
            "event_id",
            "event_type",
            "event_data",
        ),
        key="report_id",
    ),
)
_REJECT: Final = Statement(postgres=sql_postgres.REJECT, sqlite=sql_sqlite.REJECT)


@staged("look")
async def load_snapshot(database: Database, tenant_id: str, context_key: str) -> ContextSnapshot | None:
    """Return a context with all that an upload into it needs, in one round trip, or None."""
    row = await database.fetch(_SNAPSHOT, {"tenant_id": tenant_id, "context_key": context_key})
    if row is None:
        return None
    context = context_of({name: row[name] for name in _CONTEXT_COLUMNS})
    bucket = None
    if row["bucket_config_id"] is not None:
        bucket = bucket_of({name: row[f"bucket_{name}"] for name in _BUCKET_COLUMNS})
    usage = Usage(context.storage_used_bytes, row["uploads"] or 0, row["present"])
    algorithms = ListedAlgorithms.parse(row["hash_algorithms"] or "")
    return ContextSnapshot(context, Rules.of(context), bucket, row["plan"], usage, algorithms)


async def reserve(database: Database, file: PendingFile, claim: KeyClaim | None) -> bool:
    """Reserve an upload's bytes and write its pending row in one round trip, if its versions hold and there is room.

    With `claim`, the upload must also still have its idempotency key. False does not say why; the functions below do,
    one by one. Only for files that count in no plan.
    """
    values = _pending_row(file) | _versions_row(file) | {"lease_seconds": file.lease.total_seconds()}
    if claim is None:
        return await database.commit(_RESERVE, values) is not None
    values |= {"key_hash": claim.key_hash, "key_report_id": claim.report_id}
    values["key_lease_seconds"] = claim.lease.total_seconds()
    return await database.commit(_RESERVE_WITH_KEY, values) is not None


async def record(database: Database, decision: Decision, file: PendingFile, life: timedelta | None) -> bool:
    """Make a pending file visible, log its decision and write its event in one round trip; False if its lease was lost.

    The worker deletes the file when its `life`, if it has one, is over.
    """
    values = decision_record(decision).row() | {
        "stored_id": file.file_id,
        "life_seconds": None if life is None else life.total_seconds(),
        "quarantined_at": decision.created_at if decision.outcome == "quarantined" else None,
        **outbox.row_of(_stored_event(decision, file)),
    }
    return await database.commit(_RECORD, values) is not None


async def is_uploader_active(connection: AsyncConnection, uploader: Principal) -> bool:
    """Return whether the uploader's tenant and key are still active: a key revoked during the upload stores nothing."""
    query = select(tenants.c.tenant_id).where(tenants.c.tenant_id == uploader.tenant_id, tenants.c.status == "active")
    if uploader.key_id is not None:
        query = query.join(api_keys, api_keys.c.tenant_id == tenants.c.tenant_id).where(
            api_keys.c.api_key_id == uploader.key_id, api_keys.c.status == "active"
        )
    return (await connection.execute(query)).one_or_none() is not None


async def bucket_exists(connection: AsyncConnection, tenant_id: str, config_id: str | None) -> bool:
    """Return whether a bucket is still registered; the platform's own store, None, always is."""
    if config_id is None:
        return True
    query = select(storage_configs.c.config_id).where(
        storage_configs.c.tenant_id == tenant_id, storage_configs.c.config_id == config_id
    )
    return (await connection.execute(query)).one_or_none() is not None


async def context_usage(connection: AsyncConnection, tenant_id: str, context_id: str) -> AnyRow | None:
    """Return `storage_used_bytes` and `status` of a context, or None."""
    query = select(contexts.c.storage_used_bytes, contexts.c.status).where(
        contexts.c.tenant_id == tenant_id, contexts.c.context_id == context_id
    )
    return (await connection.execute(query)).one_or_none()


async def claim_bytes(connection: AsyncConnection, tenant_id: str, context_id: str, size_bytes: int) -> bool:
    """Claim room in an active context's quota; return whether there was room."""
    after = contexts.c.storage_used_bytes + size_bytes
    quota = cast(contexts.c.storage_quota_mb, BigInteger) * BYTES_PER_MB  # 2 GB are beyond PostgreSQL's integer
    statement = (
        update(contexts)
        .where(
            contexts.c.tenant_id == tenant_id,
            contexts.c.context_id == context_id,
            contexts.c.status == "active",
            or_(contexts.c.storage_quota_mb.is_(None), after <= quota),
        )
        .values(storage_used_bytes=after)
        .returning(contexts.c.context_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def find_twin(connection: AsyncConnection, file: PendingFile) -> str | None:
    """Return the state of another file of the context with the same bytes, or None."""
    same = (
        files.c.tenant_id == file.tenant_id,
        files.c.context_key == file.context_key,
        files.c.sha256 == file.sha256,
    )
    # Each by the condition of its index; the pending one first, since it may become stored in between.
    stored = select(files.c.state).where(*same, IS_STORED).limit(1)
    pending = select(files.c.state).where(*same, files.c.state == "pending", files.c.lease_until.is_not(None)).limit(1)
    for query in (pending, stored):
        state: str | None = (await connection.execute(query)).scalar_one_or_none()
        if state is not None:
            return state
    return None


async def claim_plan(connection: AsyncConnection, tenant_id: str, limit: int) -> str | None:
    """Claim one upload of the current month's plan; return that month, None if the limit is reached."""
    if limit < 1:
        return None
    upsert = sqlite_insert if connection.dialect.name == "sqlite" else postgres_insert
    statement = (
        upsert(plan_usage)
        .values(tenant_id=tenant_id, month=month(), uploads=1)
        .on_conflict_do_update(
            index_elements=["tenant_id", "month"],
            set_={"uploads": plan_usage.c.uploads + 1},
            where=plan_usage.c.uploads < limit,
        )
        .returning(plan_usage.c.month)
    )
    claimed: str | None = (await connection.execute(statement)).scalar_one_or_none()
    return claimed


async def claim_token_file(connection: AsyncConnection, tenant_id: str, token_id: str) -> bool:
    """Claim one of the files that an upload token may store; return whether one was left.

    Write an event with the last one.
    """
    columns = upload_tokens.c
    statement = (
        update(upload_tokens)
        .where(
            columns.tenant_id == tenant_id,
            columns.token_id == token_id,
            columns.files_claimed < columns.max_files,
            columns.revoked_at.is_(None),
        )
        .values(files_claimed=columns.files_claimed + 1)
        .returning(columns.files_claimed, columns.max_files, columns.context_key, columns.end_user)
    )
    row = (await connection.execute(statement)).one_or_none()
    if row is not None and row.files_claimed == row.max_files:
        spent = UploadTokenSpent(
            token_id=token_id, context_key=row.context_key, max_files=row.max_files, end_user=row.end_user
        )
        await outbox.add(connection, tenant_id, spent)
    return row is not None


async def claim_attempt(connection: AsyncConnection, tenant_id: str, attempt: Attempt, file_id: str) -> bool:
    """Make the file that of a resumable upload; return whether this attempt still judges it."""
    columns = resumable_uploads.c
    statement = (
        update(resumable_uploads)
        .where(
            columns.tenant_id == tenant_id,
            columns.upload_id == attempt.upload_id,
            columns.report_id == attempt.report_id,
            columns.state == "judging",
        )
        .values(file_id=file_id)
        .returning(columns.upload_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def add_pending(connection: AsyncConnection, file: PendingFile, plan_month: str | None) -> None:
    """Insert the row of a file whose object does not exist yet; it counts in `plan_month`, if in any."""
    permit = file.uploader.permit
    counted = {"plan_month": plan_month, "upload_token_id": None if permit is None else permit.token_id}
    counted["sanitised_file_id"] = file.sanitised_file_id
    await file_rows.add_pending(connection, _pending_row(file) | counted, file.lease)


async def write_decision(database: Database, decision: Decision) -> None:
    """Append one row to the decision log, in a transaction of its own."""
    await log_decision(database, decision_record(decision))


async def reject(database: Database, decision: Decision, rejection: Rejection) -> None:
    """Append the decision on a rejected upload to the decision log, and write its event."""
    event = FileRejectedEvent(
        **_reported(decision),
        original_filename=decision.facts.filename,
        size_bytes=decision.facts.size_bytes,
        reason=rejection.reason.value,
        retryable=WORDS[rejection.reason].retryable,
    )
    await database.commit(_REJECT, decision_record(decision).row() | outbox.row_of(event))


async def find_duplicate(database: Database, tenant_id: str, context_key: str, sha256: str) -> str | None:
    """Return the id of a stored file of the context with the same bytes, or None."""
    row = await database.fetch(_DUPLICATE, {"tenant_id": tenant_id, "context_key": context_key, "sha256": sha256})
    return None if row is None else row["file_id"]


def _stored_event(decision: Decision, file: PendingFile) -> FileStored | FileQuarantined:
    fields: dict[str, Any] = {
        **_reported(decision),
        "file_id": file.file_id,
        "original_filename": file.name.original,
        "content_type": file.content_type,
        "size_bytes": file.size_bytes,
        "checksum": f"sha256:{file.sha256}",
        "metadata": dict(file.metadata),
    }
    if decision.rejection is None:
        return FileStored(**fields)
    return FileQuarantined(**fields, reason=decision.rejection.reason.value)


def _reported(decision: Decision) -> dict[str, Any]:
    permit = decision.actor.permit
    return {
        "report_id": decision.report_id,
        "context_key": decision.context_key,
        "uploaded_by": decision.actor.actor_id,
        "end_user": None if permit is None else permit.end_user,
    }


def _versions_row(file: PendingFile) -> dict[str, Any]:
    return {
        "plan": file.versions.plan,
        "rules_version": file.versions.rules_version,
        "bucket_changed_at": file.versions.bucket_changed_at,
        "key_changed_at": file.versions.key_changed_at,
        "key_id": file.uploader.key_id,
        "hash_algorithms": str(file.versions.hash_algorithms),
    }


def _pending_row(file: PendingFile) -> dict[str, Any]:
    return {
        "file_id": file.file_id,
        "tenant_id": file.tenant_id,
        "context_id": file.context_id,
        "context_key": file.context_key,
        "original_filename": file.name.original,
        "content_type": file.content_type,
        "size_bytes": file.size_bytes,
        "sha256": file.sha256,
        "storage_config_id": file.storage_config_id,
        "object_key": file.object_key,
        "uploaded_by": file.uploader.actor_id,
        "uploaded_by_name": file.uploader.actor_name,
        "metadata": dict(file.metadata),
        "report_id": file.report_id,
        "created_at": file.created_at,
        "scanned_with": file.scanned_with,
        "scanned_at": None if file.scanned_with is None else file.created_at,
    }


def _mode_of(decision: Decision) -> str:
    sanitised = decision.facts.sanitised
    if sanitised is not None and sanitised.stored_file_id is not None:
        return "original"
    return "full" if decision.all_checks else "store"


def decision_record(decision: Decision) -> DecisionRecord:
    """Return the decision as it is logged."""
    rejection, scanned = decision.rejection, decision.facts.scanned
    engines = {"sluice": __version__}
    is_by_content = decision.outcome == "rejected" and rejection is not None and rejection.reason in CONTENT_REASONS
    if scanned is not None:
        engines |= {"scanner": scanned.engine, "signatures": scanned.signatures}
    return DecisionRecord(
        report_id=decision.report_id,
        tenant_id=decision.tenant_id,
        file_id=decision.file_id,
        context_key=decision.context_key,
        mode=_mode_of(decision),
        rules=decision.rules.to_json(),
        rules_version=decision.rules.version,
        facts=decision.facts.to_json(),
        engines=engines,
        outcome=decision.outcome,
        reason=None if rejection is None else rejection.reason.value,
        detail=decision.detail,
        actor={"id": decision.actor.actor_id, "name": decision.actor.actor_name, "via": decision.actor.via},
        created_at=decision.created_at,
        original_filename=decision.facts.filename,
        actor_id=decision.actor.actor_id,
        duration_ms=decision.duration_ms,
        repeat_key=repeat_key(decision) if is_by_content and decision.facts.sha256 is not None else None,
    )
