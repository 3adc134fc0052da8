"""All queries of jobs. A worker claims a job for a lease; when the lease ends, any worker may continue the job."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Float,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    select,
    tuple_,
    update,
)

from sluice.db.schema import erased_files, jobs, tenants
from sluice.db.sql import AnyRow, Connection, load_page, now, now_plus, rows_of
from sluice.jobs.job import Job, JobKind, JobState
from sluice.kit.ids import first_id
from sluice.kit.paging import Page, PageRequest

MOST_LISTED = 10_000  # what a total counts to
SWEEP_AFTER: Final = timedelta(minutes=5)  # of an export that was cancelled or failed

_columns = jobs.c
_JOB = [_columns[name] for name in Job.__slots__]
_ACTIVE = ("waiting", "running")
_IS_DUE_TO_SWEEP = and_(_columns.kind == "export", _columns.state.not_in(_ACTIVE), _columns.due_at <= now())
ANY_EXPORT_TO_SWEEP = exists().where(_IS_DUE_TO_SWEEP)


async def add(connection: Connection, job: Job) -> None:
    """Insert a job, which is due at once."""
    values = {name: getattr(job, name) for name in Job.__slots__}
    await connection.execute(insert(jobs).values(**values, due_at=now()))


async def find(connection: Connection, tenant_id: str, job_id: str) -> Job | None:
    """Return one job, or None."""
    query = select(*_JOB).where(_columns.tenant_id == tenant_id, _columns.job_id == job_id)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else _job(row)


async def list_page(
    connection: Connection, tenant_id: str, state: JobState | None, kind: JobKind | None, request: PageRequest
) -> Page[Job]:
    """Return one page, newest first. The total counts to `MOST_LISTED`."""
    wanted: list[ColumnElement[bool]] = []
    if state is not None:
        wanted.append(_columns.state == state)
    if kind is not None:
        wanted.append(_columns.kind == kind)
    counted = select(_columns.job_id).where(_columns.tenant_id == tenant_id, *wanted).limit(MOST_LISTED).subquery()
    total = int((await connection.execute(select(func.count()).select_from(counted))).scalar_one())
    rows = await load_page(connection, tenant_id, _JOB, wanted, request, total=total)
    return Page(tuple(_job(row) for row in rows), request, total)


async def count_active(connection: Connection, tenant_id: str) -> int:
    """Return how many jobs of the tenant have not ended."""
    query = select(func.count()).where(_columns.tenant_id == tenant_id, _columns.state.in_(_ACTIVE))
    return int((await connection.execute(query.select_from(jobs))).scalar_one())


async def cancel(connection: Connection, tenant_id: str, job_id: str, at: datetime) -> Job | None:
    """End a job that has not ended; return it, None if it has, or does not exist."""
    statement = (
        update(jobs)
        .where(_columns.tenant_id == tenant_id, _columns.job_id == job_id, _columns.state.in_(_ACTIVE))
        .values(state="cancelled", ended_at=at, due_at=_sweep_at())
        .returning(*_JOB)
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else _job(row)


async def end_all(connection: Connection, tenant_id: str, at: datetime) -> None:
    """Cancel every job of a tenant that has not ended."""
    active = (_columns.tenant_id == tenant_id, _columns.state.in_(_ACTIVE))
    await connection.execute(update(jobs).where(*active).values(state="cancelled", ended_at=at, due_at=_sweep_at()))


def _sweep_at() -> ColumnElement[Any]:
    # A step that is under way may write an object yet, and deletes it then itself unless it is killed.
    return case((_columns.kind == "export", now_plus(SWEEP_AFTER)), else_=None)


async def expire_exports(connection: Connection, tenant_id: str) -> bool:
    """Let what a tenant's exports wrote be deleted now; return whether anything of it is still there."""
    waits = (_columns.tenant_id == tenant_id, _columns.kind == "export", _columns.due_at.is_not(None))
    await connection.execute(update(jobs).where(*waits, _columns.state == "done").values(due_at=now()))
    return (await connection.execute(select(_columns.job_id).where(*waits).limit(1))).one_or_none() is not None


async def end_exports(connection: Connection, tenant_id: str, last: str, at: datetime) -> bool:
    """End a tenant's exports with ids up to `last`: their output is no longer needed, and is deleted.

    Return whether any output is left. Jobs that have ended keep their state.
    """
    theirs = (_columns.tenant_id == tenant_id, _columns.kind == "export", _columns.job_id <= last)
    cancelled = {"state": "cancelled", "ended_at": at, "due_at": _sweep_at()}
    await connection.execute(update(jobs).where(*theirs, _columns.state.in_(_ACTIVE)).values(cancelled))
    is_offered = (_columns.state == "done", _columns.result.is_not(None))
    await connection.execute(update(jobs).where(*theirs, *is_offered).values(result=None, due_at=now()))
    left = select(_columns.job_id).where(*theirs, _columns.due_at.is_not(None)).limit(1)
    return (await connection.execute(left)).one_or_none() is not None


async def list_exports_to_sweep(connection: Connection, limit: int) -> Sequence[AnyRow]:
    """Return tenant and id of exports of all tenants that have ended and whose objects are due to be deleted."""
    query = select(_columns.tenant_id, _columns.job_id).where(_IS_DUE_TO_SWEEP)
    query = query.order_by(_columns.due_at).limit(limit)
    return (await connection.execute(query)).all()


async def note_swept(connection: Connection, tenant_id: str, job_id: str, again_after: timedelta | None) -> None:
    """Write that the objects of an export are deleted, or, with `again_after`, when to try it again."""
    own = (_columns.tenant_id == tenant_id, _columns.job_id == job_id, _columns.state.not_in(_ACTIVE))
    values = {"due_at": None, "result": None} if again_after is None else {"due_at": now_plus(again_after)}
    await connection.execute(update(jobs).where(*own).values(values))


async def find_export(connection: Connection, job_id: str) -> Job | None:
    """Return a finished export of any active tenant, for signed links, which name none."""
    is_active = exists().where(tenants.c.tenant_id == _columns.tenant_id, tenants.c.status == "active")
    query = select(*_JOB).where(
        _columns.job_id == job_id, _columns.kind == "export", _columns.state == "done", is_active
    )
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else _job(row)


async def find_due(connection: Connection) -> AnyRow | None:
    """Return tenant and id of the job that is due for the longest time; of two workers, each gets another."""
    query = select(_columns.tenant_id, _columns.job_id).where(_columns.state.in_(_ACTIVE), _columns.due_at <= now())
    return (
        await connection.execute(query.order_by(_columns.due_at).limit(1).with_for_update(skip_locked=True))
    ).one_or_none()


async def claim(connection: Connection, tenant_id: str, job_id: str, lease: timedelta, at: datetime) -> Job | None:
    """Claim a due job until `lease` is over; return it, None if another worker was faster."""
    statement = (
        update(jobs)
        .where(
            _columns.tenant_id == tenant_id,
            _columns.job_id == job_id,
            _columns.state.in_(_ACTIVE),
            _columns.due_at <= now(),
        )
        .values(
            state="running",
            due_at=now_plus(lease),
            generation=_columns.generation + 1,
            failures=_columns.failures + 1,
            started_at=func.coalesce(_columns.started_at, at),
        )
        .returning(*_JOB)
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else _job(row)


# Without values: the parameters name the columns.
_NOTE: Final = (
    update(jobs)
    .where(
        _columns.tenant_id == bindparam("its_tenant_id"),
        _columns.job_id == bindparam("its_job_id"),
        _columns.state == "running",
        _columns.generation == bindparam("its_generation"),
    )
    .returning(_columns.job_id)
)
_NOTE_AGAIN: Final = _NOTE.values(due_at=now_plus(bindparam("its_seconds", type_=Float)))


async def note(connection: Connection, job: Job, values: Mapping[str, Any], again_after: timedelta | None) -> bool:
    """Write the result of a claimed job, which is due again after a time.

    Of a job that has ended this is the time after which its objects are deleted; None: it wrote none.

    Return False if it was cancelled, or claimed by another worker.
    """
    its = {"its_tenant_id": job.tenant_id, "its_job_id": job.job_id, "its_generation": job.generation}
    if again_after is None:
        found = await connection.execute(_NOTE, {**values, **its, "due_at": None})
    else:
        found = await connection.execute(_NOTE_AGAIN, {**values, **its, "its_seconds": again_after.total_seconds()})
    return found.one_or_none() is not None


async def delete_old(connection: Connection, before: datetime, limit: int) -> int:
    """Delete jobs that were made before `before` and have ended, at most `limit`; return how many."""
    is_old = _columns.job_id < first_id("job", before)
    is_over = (_columns.state.not_in(_ACTIVE), _columns.due_at.is_(None))
    old = select(_columns.tenant_id, _columns.job_id).where(is_old, *is_over)
    found = (await connection.execute(old.order_by(_columns.job_id).limit(limit))).all()
    owned = [(row.tenant_id, row.job_id) for row in found]
    if owned:
        listed = erased_files.c
        await connection.execute(delete(erased_files).where(tuple_(listed.tenant_id, listed.job_id).in_(owned)))
    statement = delete(jobs).where(*rows_of(jobs, owned)).returning(_columns.job_id)
    return len((await connection.execute(statement)).all()) if owned else 0


def _job(row: AnyRow) -> Job:
    return Job(**{name: getattr(row, name) for name in Job.__slots__})
