"""All queries of resumable uploads and their parts; what a query means is decided in `service`.

The file of one is reserved by `uploads.repository`. All moments are those of the database's clock.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    CursorResult,
    Update,
    and_,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from sluice.db.database import Database
from sluice.db.schema import resumable_parts, resumable_uploads, tenants
from sluice.db.sql import AnyRow, Connection, Fields, now, now_plus
from sluice.db.statement import Statement, Values
from sluice.resumable.resumable_upload import NewUpload, ResumableUpload, UploadPart, UploadState

_UPLOADS: Final = resumable_uploads.c
_PARTS: Final = resumable_parts.c
_OF_TOKEN: Final = "upload_token"  # noqa: S105  (a way of calling, no secret)
_EMPTY_LIFE: Final = timedelta(minutes=10)  # of an upload of a token that has no byte
_WAITING: Final = tuple(state.value for state in UploadState if state.waits)
_IS_DUE: Final = _UPLOADS.due_at <= now()
ANY_DUE: Final = exists().where(_IS_DUE)
_SHOWN: Final = (
    *(column for column in _UPLOADS if column.name not in {"judging_until", "due_at"}),
    (_UPLOADS.expires_at <= now()).label("is_over"),
)

# The same on both kinds of database. Most requests of a resumable upload run nothing else that writes, so it bypasses
# SQLAlchemy.
_COUNT_BYTES: Final = """
UPDATE resumable_uploads
   SET received = received + :size, small_appends = small_appends + :small, generation = :generation
 WHERE tenant_id = :tenant_id AND upload_id = :upload_id AND state = 'open'
   AND generation = :generation_before AND received = :received_before
RETURNING upload_id
"""
_GROW: Final = Statement(postgres=_COUNT_BYTES, sqlite=[_COUNT_BYTES])


async def create(
    connection: Connection, upload: NewUpload, upload_id: str, life: timedelta, most_bytes: int
) -> ResumableUpload | None:
    """Insert an open upload; None if the tenant's uploads that wait would have more than `most_bytes` in all.

    The worker examines an upload of an upload token earlier, since one without a byte expires earlier (`expire`).
    """
    # The tenant's row is locked, so that two creations do not both find the same room. SQLite has one writer anyway.
    await connection.execute(
        select(tenants.c.tenant_id).where(tenants.c.tenant_id == upload.tenant_id).with_for_update()
    )
    query = select(func.coalesce(func.sum(_UPLOADS.length), 0)).where(
        _UPLOADS.tenant_id == upload.tenant_id, _UPLOADS.state.in_(_WAITING)
    )
    waiting = int((await connection.execute(query)).scalar_one())
    if waiting + upload.length > most_bytes:
        return None
    row: dict[str, Any] = {name: getattr(upload, name) for name in NewUpload.__slots__}
    values = row | {
        "upload_id": upload_id,
        "received": 0,
        "small_appends": 0,
        "generation": 0,
        "state": UploadState.OPEN.value,
        "created_at": now(),
        "expires_at": now_plus(life),
        "due_at": now_plus(min(life, _EMPTY_LIFE) if upload.via == _OF_TOKEN else life),
    }
    await connection.execute(insert(resumable_uploads).values(values))
    return await find(connection, upload.tenant_id, upload_id)


async def waiting_of_token(connection: Connection, tenant_id: str, token_id: str) -> tuple[int, int]:
    """Return how many uploads of a token wait for their bytes or their verdict, and how many bytes they announced."""
    query = select(func.count(), func.coalesce(func.sum(_UPLOADS.length), 0)).where(*_waiting_of(tenant_id, token_id))
    number, size = (await connection.execute(query)).one()
    return int(number), int(size)


async def cancel_empty_of_token(connection: Connection, tenant_id: str, token_id: str) -> bool:
    """Cancel the oldest upload of a token that has no byte yet; return whether there was one."""
    empty = (*_waiting_of(tenant_id, token_id), _UPLOADS.state == UploadState.OPEN.value, _UPLOADS.received == 0)
    oldest = select(_UPLOADS.upload_id).where(*empty).order_by(_UPLOADS.upload_id).limit(1)
    upload_id = (await connection.execute(oldest)).scalar_one_or_none()
    return upload_id is not None and await cancel(connection, tenant_id, upload_id)


def _waiting_of(tenant_id: str, token_id: str) -> tuple[ColumnElement[bool], ...]:
    return (
        _UPLOADS.tenant_id == tenant_id,
        _UPLOADS.actor_id == token_id,
        _UPLOADS.via == _OF_TOKEN,
        _UPLOADS.state.in_(_WAITING),
        _UPLOADS.expires_at > now(),
    )


async def find(connection: Connection, tenant_id: str, upload_id: str) -> ResumableUpload | None:
    """Return one upload, or None."""
    return _found(await connection.execute(select(*_SHOWN).where(*_one(tenant_id, upload_id))))


async def list_parts(connection: Connection, upload: ResumableUpload) -> Sequence[UploadPart]:
    """Return the parts of an upload in the order of their bytes.

    Each ends where the next one begins, the last one where the upload does: a file grows without a change of its row.
    """
    query = (
        select(_PARTS.start_byte, _PARTS.object_key)
        .where(_PARTS.tenant_id == upload.tenant_id, _PARTS.upload_id == upload.upload_id)
        .order_by(_PARTS.start_byte)
    )
    rows = (await connection.execute(query)).all()
    bounds = [*(start for start, _key in rows), upload.received]
    return [UploadPart(start, end - start, key) for (start, key), end in zip(rows, bounds[1:], strict=True)]


async def begin_append(connection: Connection, tenant_id: str, upload_id: str, offset: int) -> ResumableUpload | None:
    """Make this request the only one that may append, from `offset` on; None if the upload is not open there."""
    return _found(
        await connection.execute(
            _changed(
                tenant_id,
                upload_id,
                _UPLOADS.state == UploadState.OPEN.value,
                _UPLOADS.received == offset,
                _UPLOADS.expires_at > now(),
                generation=_UPLOADS.generation + 1,
            )
        )
    )


async def append(
    connection: Connection,
    upload: ResumableUpload,
    size: int,
    parts: Sequence[UploadPart],
    *,
    generation: int,
    small: int,
) -> ResumableUpload | None:
    """Count bytes that were stored, and add their parts; None if another request has taken the upload over.

    From then on the upload has the `generation` of this request, and as many `small` appends more.
    """
    values = _counted(upload, size, generation, small)
    if (await connection.execute(text(_COUNT_BYTES), values)).one_or_none() is None:
        return None
    rows = [
        {
            "upload_id": upload.upload_id,
            "start_byte": part.start,
            "tenant_id": upload.tenant_id,
            "size_bytes": part.size,
            "object_key": part.object_key,
        }
        for part in parts
    ]
    await connection.execute(insert(resumable_parts), rows)
    return _appended(upload, size, generation, small)


async def grow_last_part(
    database: Database, upload: ResumableUpload, size: int, *, generation: int, small: int
) -> ResumableUpload | None:
    """Count bytes by which the last part has grown, in a transaction of its own; see `append`."""
    row = await database.commit(_GROW, _counted(upload, size, generation, small))
    return None if row is None else _appended(upload, size, generation, small)


async def begin_judging(
    connection: Connection, tenant_id: str, upload_id: str, report_id: str, lease: timedelta
) -> ResumableUpload | None:
    """Begin an attempt to judge a complete upload; None if there is one already, or nothing to judge."""
    return _found(
        await connection.execute(
            _changed(
                tenant_id,
                upload_id,
                _UPLOADS.state == UploadState.OPEN.value,
                _UPLOADS.received == _UPLOADS.length,
                _UPLOADS.expires_at > now(),
                state=UploadState.JUDGING.value,
                report_id=report_id,
                file_id=None,
                judging_until=now_plus(lease),
                generation=_UPLOADS.generation + 1,
            )
        )
    )


async def count_judging(connection: Connection, tenant_id: str, actor_id: str) -> int:
    """Return how many uploads of an actor are being judged."""
    query = select(func.count()).where(
        _UPLOADS.tenant_id == tenant_id,
        _UPLOADS.actor_id == actor_id,
        _UPLOADS.state == UploadState.JUDGING.value,
    )
    return int((await connection.execute(query)).scalar_one())


async def extend_judging(connection: Connection, upload: ResumableUpload, lease: timedelta) -> bool:
    """Keep the lease of an attempt; return whether it still judges the upload."""
    extended = _found(
        await connection.execute(
            _changed(upload.tenant_id, upload.upload_id, *_judged_by(upload.report_id), judging_until=now_plus(lease))
        )
    )
    return extended is not None


async def end_lease(connection: Connection, tenant_id: str, upload_id: str) -> ResumableUpload | None:
    """Lock an upload whose attempt has let its lease run out; None if there is no such attempt."""
    return _found(
        await connection.execute(
            _changed(
                tenant_id,
                upload_id,
                _UPLOADS.state == UploadState.JUDGING.value,
                _UPLOADS.judging_until <= now(),
                judging_until=now(),
            )
        )
    )


async def lock_judging(connection: Connection, upload: ResumableUpload) -> ResumableUpload | None:
    """Lock an upload that this attempt judges; None if another has taken it over."""
    return _found(
        await connection.execute(
            _changed(upload.tenant_id, upload.upload_id, *_judged_by(upload.report_id), judging_until=now())
        )
    )


async def settle(
    connection: Connection, upload: ResumableUpload, state: UploadState, *, kept_for: timedelta | None
) -> ResumableUpload | None:
    """Record the outcome of an attempt. The upload's own time is over after `kept_for`, if that is sooner.

    The parts of one that has a verdict are due to be deleted at once.
    """
    values: dict[str, Any] = {"state": state.value, "judging_until": None}
    if state is UploadState.OPEN:
        values |= {"file_id": None, "report_id": None}
    else:
        values["due_at"] = now()
    if kept_for is not None:
        values["expires_at"] = now_plus(kept_for)
    return _found(
        await connection.execute(_changed(upload.tenant_id, upload.upload_id, *_judged_by(upload.report_id), **values))
    )


async def cancel(connection: Connection, tenant_id: str, upload_id: str) -> bool:
    """Cancel an open upload: nothing can be appended, and its parts are due to be deleted."""
    cancelled = _found(
        await connection.execute(
            _changed(
                tenant_id,
                upload_id,
                _UPLOADS.state == UploadState.OPEN.value,
                state=UploadState.CANCELLED.value,
                generation=_UPLOADS.generation + 1,
                due_at=now(),
            )
        )
    )
    return cancelled is not None


# For the worker


async def list_due(connection: Connection, limit: int, *, failed: Collection[str]) -> Sequence[AnyRow]:
    """Return tenant and id of uploads that the worker has something to do with, but those that have `failed`."""
    query = (
        select(_UPLOADS.tenant_id, _UPLOADS.upload_id)
        .where(_IS_DUE, _UPLOADS.upload_id.not_in(failed))
        .order_by(_UPLOADS.due_at)
        .limit(limit)
    )
    return (await connection.execute(query)).all()


async def expire(connection: Connection, tenant_id: str, upload_id: str) -> bool:
    """Cancel an open upload that has expired; return whether it was one.

    An upload of an upload token without a byte expires after some minutes, since its holder can create many.
    """
    is_empty = and_(_UPLOADS.via == _OF_TOKEN, _UPLOADS.received == 0, _UPLOADS.created_at <= now_plus(-_EMPTY_LIFE))
    expired = _found(
        await connection.execute(
            _changed(
                tenant_id,
                upload_id,
                _UPLOADS.state == UploadState.OPEN.value,
                or_(_UPLOADS.expires_at <= now(), is_empty),
                state=UploadState.CANCELLED.value,
                generation=_UPLOADS.generation + 1,
            )
        )
    )
    return expired is not None


async def delete_parts(connection: Connection, tenant_id: str, upload_id: str) -> None:
    """Delete the rows of parts whose objects were deleted, and look at the upload again when its time is over."""
    await connection.execute(
        delete(resumable_parts).where(_PARTS.tenant_id == tenant_id, _PARTS.upload_id == upload_id)
    )
    await connection.execute(_changed(tenant_id, upload_id, due_at=_UPLOADS.expires_at))


async def delete_over(connection: Connection, tenant_id: str, upload_id: str) -> None:
    """Delete the row of an upload that was cancelled, or that has its verdict and whose time is over."""
    is_over = or_(_UPLOADS.state == UploadState.CANCELLED.value, _UPLOADS.expires_at <= now())
    await connection.execute(
        delete(resumable_uploads).where(*_one(tenant_id, upload_id), _UPLOADS.state.not_in(_WAITING), is_over)
    )


async def postpone(connection: Connection, tenant_id: str, upload_id: str, pause: timedelta) -> None:
    """Look at an upload again after a while."""
    await connection.execute(_changed(tenant_id, upload_id, due_at=now_plus(pause)))


async def postpone_to_end(connection: Connection, tenant_id: str, upload_id: str) -> None:
    """Let the worker examine an upload again when it expires."""
    await connection.execute(_changed(tenant_id, upload_id, due_at=_UPLOADS.expires_at))


async def list_known(connection: Connection, upload_ids: Collection[str]) -> Collection[str]:
    """Return those of the ids that have a row."""
    query = select(_UPLOADS.upload_id).where(_UPLOADS.upload_id.in_(upload_ids))
    return set((await connection.execute(query)).scalars())


async def count_waiting(connection: Connection) -> tuple[int, int]:
    """Return how many uploads of all tenants wait for bytes or a verdict, and how many bytes they have."""
    query = select(func.count(), func.coalesce(func.sum(_UPLOADS.received), 0)).where(_UPLOADS.state.in_(_WAITING))
    uploads, size = (await connection.execute(query)).one()
    return int(uploads), int(size)


def _counted(upload: ResumableUpload, size: int, generation: int, small: int) -> Values:
    return {
        "tenant_id": upload.tenant_id,
        "upload_id": upload.upload_id,
        "size": size,
        "small": small,
        "generation": generation,
        "generation_before": upload.generation,
        "received_before": upload.received,
    }


def _appended(upload: ResumableUpload, size: int, generation: int, small: int) -> ResumableUpload:
    received, small_appends = upload.received + size, upload.small_appends + small
    return replace(upload, received=received, small_appends=small_appends, generation=generation)


def _one(tenant_id: str, upload_id: str) -> tuple[ColumnElement[bool], ...]:
    return _UPLOADS.tenant_id == tenant_id, _UPLOADS.upload_id == upload_id


def _judged_by(report_id: str | None) -> tuple[ColumnElement[bool], ...]:
    return _UPLOADS.state == UploadState.JUDGING.value, _UPLOADS.report_id == report_id


def _changed(tenant_id: str, upload_id: str, *conditions: ColumnElement[bool], **values: Any) -> Update:
    """Return the statement that changes an upload which meets the conditions."""
    return update(resumable_uploads).where(*_one(tenant_id, upload_id), *conditions).values(values).returning(*_SHOWN)


def _found(result: CursorResult[Any]) -> ResumableUpload | None:
    row = result.mappings().one_or_none()
    return None if row is None else _upload(row)


def _upload(row: Fields) -> ResumableUpload:
    return ResumableUpload(**{**row, "state": UploadState(row["state"]), "is_over": bool(row["is_over"])})
