"""All queries of the commit protocol: reserve, record, abandon, and the decision log. When each runs is in `stages.commit` and the worker.

The row of a file is `pending` from `reserve` to `record`; a lease ends it otherwise. Room in the quota and in the plan is claimed by
conditional updates, never by a look and a later write.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from sqlalchemy import BigInteger, cast, delete, insert, or_, select, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.ext.asyncio import AsyncConnection

from sluice.access import Principal
from sluice.buckets import Bucket
from sluice.buckets.repository import bucket_of
from sluice.contexts.context import BYTES_PER_MB
from sluice.contexts.repository import context_of
from sluice.db.database import Database
from sluice.db.moments import ahead, month, now
from sluice.db.schema import api_keys, contexts, decisions, files, plan_usage, tenants
from sluice.db.types import AnyRow
from sluice.files import FileRecord
from sluice.observe.stages import staged
from sluice.uploads.reasons import Reason
from sluice.uploads.statements import CLAIM_BY_KEY, CLAIM_BY_USER, LOG, LOOK, RECORD, SEEN_BY_KEY, SEEN_BY_USER
from sluice.uploads.values import Decision, Facts, Look, PendingFile, Rules

_RESCANNED: Final = {"clean": None, "incomplete": Reason.SCAN_INCOMPLETE.value, "infected": Reason.VIRUS_DETECTED.value}
"""The reason in the log, by the outcome of a later scan."""
_CONTEXT_COLUMNS = tuple(contexts.c.keys())


@staged("look")
async def look(database: Database, tenant_id: str, context_key: str, at: datetime) -> Look | None:
    """Answer a context with all that an upload into it must know, in one round trip, or None."""
    row = await database.fetch(LOOK, {"tenant_id": tenant_id, "context_key": context_key})
    if row is None:
        return None
    context = context_of({name: row[name] for name in _CONTEXT_COLUMNS})
    bucket = None if row["bucket.config_id"] is None else bucket_of({name: row[f"bucket.{name}"] for name in Bucket.__slots__})
    return Look(context, Rules.of(context), bucket, row["plan"], row["uploads"] or 0, row["present"], at)


async def claim_at_once(database: Database, file: PendingFile) -> bool:
    """Claim an upload's bytes and write its pending row in one round trip, if all is as it was seen; answer whether it was.

    False says nothing about why: the statements below, one by one, tell. Only for files that count in no plan.
    """
    unit = CLAIM_BY_USER if file.uploader.key_id is None else CLAIM_BY_KEY
    return await database.commit(unit, _pending_row(file) | _seen_row(file)) is not None


async def is_as_seen(database: Database, file: PendingFile) -> bool:
    """Answer whether the editions of tenant, key, context and bucket are still those that the upload was judged by."""
    unit = SEEN_BY_USER if file.uploader.key_id is None else SEEN_BY_KEY
    return await database.fetch(unit, _pending_row(file) | _seen_row(file)) is not None


async def record_at_once(database: Database, decision: Decision, file_id: str, life: timedelta | None) -> bool:
    """Make a pending file visible and log its decision in one round trip; False when its lease ran out and the worker was there first.

    After its `life`, if it has one, the worker deletes it.
    """
    life_seconds = None if life is None else life.total_seconds()
    return await database.commit(RECORD, _decision_row(decision) | {"stored_id": file_id, "life_seconds": life_seconds}) is not None


WorkQueue = Literal["leases", "purge", "test_files"]
_QUEUES = {
    "leases": (("pending",), files.c.lease_until),
    "purge": (("gone", "deleted"), files.c.due_at),
    "test_files": (("stored",), files.c.due_at),
}
"""What waits for the worker: in which states a row of each queue is, and since when it is due."""


async def still_welcome(connection: AsyncConnection, uploader: Principal) -> bool:
    """Answer whether the uploader's tenant and key are still active: a key revoked during the upload stores nothing."""
    query = select(tenants.c.tenant_id).where(tenants.c.tenant_id == uploader.tenant_id, tenants.c.status == "active")
    if uploader.key_id is not None:
        query = query.join(api_keys, api_keys.c.tenant_id == tenants.c.tenant_id).where(
            api_keys.c.api_key_id == uploader.key_id, api_keys.c.status == "active"
        )
    return (await connection.execute(query)).one_or_none() is not None


async def context_usage(connection: AsyncConnection, context_id: str) -> AnyRow | None:
    """Answer `storage_used_bytes` and `status` of a context, or None."""
    query = select(contexts.c.storage_used_bytes, contexts.c.status).where(contexts.c.context_id == context_id)
    return (await connection.execute(query)).one_or_none()


async def claim_bytes(connection: AsyncConnection, context_id: str, size_bytes: int) -> bool:
    """Claim room in an active context's quota; answer whether there was room."""
    after = contexts.c.storage_used_bytes + size_bytes
    quota = cast(contexts.c.storage_quota_mb, BigInteger) * BYTES_PER_MB  # 2 GB and more are beyond an integer of PostgreSQL
    statement = (
        update(contexts)
        .where(
            contexts.c.context_id == context_id,
            contexts.c.status == "active",
            or_(contexts.c.storage_quota_mb.is_(None), after <= quota),
        )
        .values(storage_used_bytes=after)
        .returning(contexts.c.context_id)
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def claim_plan(connection: AsyncConnection, tenant_id: str, limit: int) -> str | None:
    """Claim one upload of the present month's plan; answer the month that it counts in, None when there was none."""
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


async def add_pending(connection: AsyncConnection, file: PendingFile, plan_month: str | None) -> None:
    """Insert the row of a file whose object does not exist yet, and which counts in `plan_month`, if in any."""
    row = _pending_row(file) | {"plan_month": plan_month}
    row["lease_until"] = ahead(timedelta(seconds=row.pop("lease_seconds")))
    await connection.execute(insert(files).values(row))


async def abandon(connection: AsyncConnection, file_id: str, *, at_once: bool) -> bool:
    """Fence a pending file: it can never become stored, and all that it claimed is released.

    Its object is due to be purged at once, or when its lease would have ended: then no late write can bring it back.
    """
    statement = (
        update(files)
        .where(files.c.file_id == file_id, files.c.state == "pending")
        .values(state="gone", lease_until=None, due_at=now() if at_once else files.c.lease_until)
        .returning(files.c.tenant_id, files.c.context_id, files.c.size_bytes, files.c.plan_month)
    )
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        return False
    await connection.execute(
        update(contexts)
        .where(contexts.c.context_id == row.context_id)
        .values(storage_used_bytes=contexts.c.storage_used_bytes - row.size_bytes)
    )
    if row.plan_month is not None:
        await connection.execute(
            update(plan_usage)
            .where(plan_usage.c.tenant_id == row.tenant_id, plan_usage.c.month == row.plan_month)
            .values(uploads=plan_usage.c.uploads - 1)
        )
    return True


async def write_decision(database: Database, decision: Decision) -> None:
    """Append one row to the decision log, in a transaction of its own."""
    await database.commit(LOG, _decision_row(decision))


async def write_rescan(
    connection: AsyncConnection, file: FileRecord, facts: Facts, report_id: str, at: datetime, *, quarantined: bool
) -> None:
    """Append to the decision log what a later scan said of a stored file, and what became of it. It was judged by no rules of its context."""
    scanned = facts.scanned
    if scanned is None:
        raise ValueError("a scan without an answer is none")
    await connection.execute(
        insert(decisions).values(
            report_id=report_id,
            tenant_id=file.tenant_id,
            file_id=file.file_id,
            context_key=file.context_key,
            mode="rescan",
            rules={},
            rules_version=0,
            facts=facts.to_json(),
            engines={"scanner": scanned.engine, "signatures": scanned.signatures},
            outcome="quarantined" if quarantined else "kept",
            reason=_RESCANNED[scanned.outcome],
            detail=scanned.detail[:1000],
            actor={"id": "worker", "name": "worker", "via": "worker"},
            created_at=at,
        )
    )


async def expired_leases(connection: AsyncConnection, most: int) -> Sequence[str]:
    """Answer ids of pending files whose lease is over, oldest first."""
    query = select(files.c.file_id).where(files.c.state == "pending", files.c.lease_until <= now()).order_by(files.c.lease_until)
    return (await connection.execute(query.limit(most))).scalars().all()


async def claim_purges(connection: AsyncConnection, again_after: timedelta, most: int) -> Sequence[AnyRow]:
    """Claim files whose object is due to be removed; unless settled by `forget`, they are due again after `again_after`.

    Any number of workers may ask: each row is had by one of them.
    """
    due = (
        select(files.c.file_id)
        .where(files.c.state.in_(("gone", "deleted")), files.c.due_at <= now())
        .order_by(files.c.due_at)
        .limit(most)
        .with_for_update(skip_locked=True)
    )
    statement = (
        update(files)
        .where(files.c.file_id.in_(due))
        .values(due_at=ahead(again_after))
        .returning(files.c.file_id, files.c.tenant_id, files.c.storage_config_id, files.c.object_key)
    )
    return (await connection.execute(statement)).all()


async def forget(connection: AsyncConnection, file_ids: Sequence[str]) -> None:
    """Delete the rows of files whose objects are gone. What was decided of them stays in the decision log."""
    await connection.execute(delete(files).where(files.c.file_id.in_(file_ids), files.c.state.in_(("gone", "deleted"))))


async def expired_test_files(connection: AsyncConnection, most: int) -> Sequence[AnyRow]:
    """Answer tenant and id of stored files whose time is over, oldest first: only test keys' files have one."""
    query = select(files.c.tenant_id, files.c.file_id).where(files.c.state == "stored", files.c.due_at <= now())
    return (await connection.execute(query.order_by(files.c.due_at).limit(most))).all()


async def forget_decisions(connection: AsyncConnection, before: datetime, most: int) -> int:
    """Delete the oldest decisions written before `before`, at most `most`; answer how many."""
    old = select(decisions.c.report_id).where(decisions.c.created_at < before).limit(most)
    statement = delete(decisions).where(decisions.c.report_id.in_(old)).returning(decisions.c.report_id)
    return len((await connection.execute(statement)).all())


async def longest_waiting(connection: AsyncConnection, queue: WorkQueue, most: int) -> Sequence[timedelta]:
    """Answer for how long the rows of `queue` are due, the oldest first, at most `most`: the indexes of leases and due rows hold them."""
    states, since = _QUEUES[queue]
    query = select(since, now()).where(files.c.state.in_(states), since <= now()).order_by(since)
    return [present - due for due, present in (await connection.execute(query.limit(most))).all()]


def _seen_row(file: PendingFile) -> dict[str, Any]:
    return {
        "plan": file.seen.plan,
        "rules_version": file.seen.rules_version,
        "bucket_changed_at": file.seen.bucket_changed_at,
        "key_changed_at": file.seen.key_changed_at,
        "key_id": file.uploader.key_id,
    }


def _pending_row(file: PendingFile) -> dict[str, Any]:
    return {
        "file_id": file.file_id,
        "tenant_id": file.tenant_id,
        "context_id": file.context_id,
        "context_key": file.context_key,
        "state": "pending",
        "original_filename": file.name.original,
        "content_type": file.content_type,
        "size_bytes": file.size_bytes,
        "sha256": file.sha256,
        "storage_config_id": file.storage_config_id,
        "object_key": file.object_key,
        "uploaded_by": file.uploader.actor_id,
        "uploaded_by_name": file.uploader.actor_name,
        "metadata": dict(file.metadata),
        "download_count": 0,
        "plan_month": None,  # who claims at once counts in none; the others' was just claimed
        "report_id": file.report_id,
        "created_at": file.created_at,
        "lease_seconds": file.lease.total_seconds(),
        "scanned_with": file.scanned_with,
        "scanned_at": None if file.scanned_with is None else file.created_at,
    }


def _decision_row(decision: Decision) -> dict[str, Any]:
    rejection, scanned = decision.rejection, decision.facts.scanned
    return {
        "report_id": decision.report_id,
        "tenant_id": decision.tenant_id,
        "file_id": decision.file_id,
        "context_key": decision.context_key,
        "mode": decision.mode,
        "rules": decision.rules.to_json(),
        "rules_version": decision.rules.version,
        "facts": decision.facts.to_json(),
        "engines": {} if scanned is None else {"scanner": scanned.engine, "signatures": scanned.signatures},
        "outcome": "accepted" if rejection is None else "rejected",
        "reason": None if rejection is None else rejection.reason.value,
        "detail": "" if rejection is None else rejection.detail[:1000],
        "actor": {"id": decision.actor.actor_id, "name": decision.actor.actor_name, "via": decision.actor.via},
        "created_at": decision.created_at,
    }
