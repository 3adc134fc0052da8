"""All queries of the decision log: append a row, find and list rows, and delete old ones.

The decision on an accepted upload is written by `uploads.repository`, in the statement that makes its file visible.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import (
    ColumnElement,
    String,
    Text,
    and_,
    case,
    cast,
    delete,
    func,
    insert,
    literal,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from sluice.db.database import Database
from sluice.db.schema import audit_events, decisions, rejection_marks
from sluice.db.sql import Connection, load_page, load_slice, rows_of
from sluice.db.statement import Statement
from sluice.decisions.record import (
    LINK_UPLOADERS,
    NOT_UPLOADS,
    DecisionFilter,
    DecisionRecord,
    FailedSum,
    Mark,
    MarkState,
    PastDecision,
)
from sluice.kit.ids import first_id
from sluice.kit.paging import Page, PageRequest, Slice, SliceRequest

MOST_LISTED: Final = 10_000  # what a total counts to, so that a list costs the same however long the log is
NAMES_SEARCHED: Final = 10_000  # of the newest, which are searched for a part of a name
# The same on both kinds of database. Rejections are as frequent as uploads, so it bypasses SQLAlchemy.
_INSERT: Final = """
INSERT INTO decisions (report_id, tenant_id, file_id, context_key, mode, rules, rules_version, facts, engines, outcome,
                       reason, detail, actor, created_at, original_filename, actor_id, duration_ms, repeat_key)
VALUES (:report_id, :tenant_id, :file_id, :context_key, :mode, :rules, :rules_version, :facts, :engines, :outcome,
        :reason, :detail, :actor, :created_at, :original_filename, :actor_id, :duration_ms, :repeat_key)
RETURNING report_id
"""
_LOG: Final = Statement(postgres=_INSERT, sqlite=[_INSERT])
_FIND_REPEATED: Final = """
SELECT report_id FROM decisions
 WHERE tenant_id = :tenant_id AND repeat_key = :repeat_key AND report_id >= :since
 ORDER BY report_id DESC
 LIMIT 1
"""
_REPEATED: Final = Statement(postgres=_FIND_REPEATED, sqlite=[_FIND_REPEATED])


async def log_decision(database: Database, decision: DecisionRecord) -> None:
    """Append one row, in a transaction of its own."""
    await database.commit(_LOG, decision.row())


async def add(connection: Connection, decision: DecisionRecord) -> None:
    """Append one row, in the transaction that acts on the decision."""
    await connection.execute(insert(decisions).values(decision.row()))


async def find(connection: Connection, tenant_id: str, report_id: str) -> DecisionRecord | None:
    """Return the decision on an upload, or on what was sent of one that was sanitised; None if there is none."""
    columns = decisions.c
    query = select(decisions).where(
        columns.tenant_id == tenant_id, columns.report_id == report_id, columns.mode != "rescan"
    )
    row = (await connection.execute(query)).mappings().one_or_none()
    return None if row is None else DecisionRecord(**row)


async def find_repeated(database: Database, tenant_id: str, repeat_key: str, since: str) -> DecisionRecord | None:
    """Return the newest decision with this `repeat_key` and an id of `since` or later, or None."""
    # Whether there is one is asked of every rejection, so it bypasses SQLAlchemy too.
    row = await database.fetch(_REPEATED, {"tenant_id": tenant_id, "repeat_key": repeat_key, "since": since})
    if row is None:
        return None
    async with database.reading(tenant_id) as connection:
        return await find(connection, tenant_id, row["report_id"])


async def list_page(
    connection: Connection, tenant_id: str, wanted: DecisionFilter, request: PageRequest
) -> Page[DecisionRecord]:
    """Return one page of decisions on uploads, newest first. The total counts to `MOST_LISTED`."""
    conditions = _conditions(tenant_id, wanted)
    total = await count(connection, tenant_id, wanted)
    rows = await load_page(connection, tenant_id, list(decisions.c), conditions, request, total=total)
    return Page(tuple(DecisionRecord(**row._mapping) for row in rows), request, total)  # noqa: SLF001  (documented)


async def list_slice(
    connection: Connection, tenant_id: str, wanted: DecisionFilter, request: SliceRequest
) -> Slice[DecisionRecord]:
    """Return some decisions on uploads, newest first."""
    found = await load_slice(connection, tenant_id, list(decisions.c), _conditions(tenant_id, wanted), request)
    records = tuple(DecisionRecord(**row._mapping) for row in found.items)  # noqa: SLF001  (documented)
    return Slice(records, found.has_newer, found.has_older)


async def count(connection: Connection, tenant_id: str, wanted: DecisionFilter) -> int:
    """Return how many decisions on uploads meet `wanted`, counted to `MOST_LISTED`."""
    counted = select(decisions.c.report_id).where(*_conditions(tenant_id, wanted)).limit(MOST_LISTED).subquery()
    return int((await connection.execute(select(func.count()).select_from(counted))).scalar_one())


async def load_durations(connection: Connection, tenant_id: str, since: datetime, limit: int) -> Sequence[int]:
    """Return how many milliseconds the newest verdicts took, at most `limit` of them, in no order."""
    newest = select(decisions.c.duration_ms).where(*_conditions(tenant_id, DecisionFilter(since=since)))
    found = await connection.execute(newest.order_by(decisions.c.report_id.desc()).limit(limit))
    return [milliseconds for milliseconds in found.scalars().all() if milliseconds is not None]


async def sum_failed(
    connection: Connection, tenant_id: str, wanted: DecisionFilter, limit: int
) -> tuple[Sequence[FailedSum], int]:
    """Return the sums of the newest uploads with a reason, at most `limit` of them, and how many were examined.

    Of the newest of the tenant those of `wanted.context_key` are summed up; those of `wanted.reason` are searched
    separately.
    """
    columns = decisions.c
    name = func.rtrim(func.coalesce(columns.original_filename, ""), ". ")
    # As `uploads.names.extension_of`, but for the case: `rtrim` removes the text after the last dot.
    stem = func.rtrim(name, func.replace(name, ".", ""))
    has_extension = and_(name.like("%.%"), func.ltrim(stem, ". ") != "")
    is_postgres = connection.dialect.name == "postgresql"
    day = (
        func.to_char(func.timezone("UTC", columns.created_at), "YYYY-MM-DD", type_=String)
        if is_postgres
        else func.substr(cast(columns.created_at, Text), 1, 10, type_=String)
    )
    newest = select(
        columns.context_key,
        columns.reason,
        case((has_extension, func.substr(name, func.length(stem) + 1)), else_="").label("extension"),
        # Each upload token is another sender: as one group they are more telling than as thousands.
        case((columns.actor_id.like(r"utk\_%", escape="\\"), LINK_UPLOADERS), else_=columns.actor_id).label("actor"),
        day.label("day"),
        columns.created_at,
        columns.report_id,
    )
    newest = newest.order_by(columns.report_id.desc()).limit(limit)
    # One query for each outcome reads an index that has no accepted upload in it. All of these have a reason.
    parts = [
        newest.where(*_conditions(tenant_id, replace(wanted, context_key=None, outcome=outcome)))
        for outcome in ("rejected", "quarantined")
    ]
    both = union_all(*(select(part.subquery()) for part in parts)).subquery()
    each = select(both).order_by(both.c.report_id.desc()).limit(limit).subquery()
    group = (each.c.context_key, each.c.reason, each.c.extension, each.c.actor, each.c.day)
    sums = (func.count(), func.min(each.c.created_at), func.max(each.c.created_at), func.max(each.c.report_id))
    rows = (await connection.execute(select(*group, *sums).group_by(*group))).all()
    looked_at = sum(row[5] for row in rows)
    found = [FailedSum(*row) for row in rows]
    return [one for one in found if wanted.context_key in (None, one.context_key)], looked_at


async def load_names(connection: Connection, tenant_id: str, report_ids: Collection[str]) -> Mapping[str, str]:
    """Return the names of the files of some reports."""
    columns = decisions.c
    query = select(columns.report_id, columns.original_filename).where(
        columns.tenant_id == tenant_id, columns.report_id.in_(report_ids)
    )
    return {row.report_id: row.original_filename or "" for row in (await connection.execute(query)).all()}


async def load_marks(connection: Connection, tenant_id: str, group_ids: Collection[str]) -> Mapping[str, Mark]:
    """Return what was made of some groups of rejections, by their ids."""
    columns, event = rejection_marks.c, audit_events.c
    query = (
        select(columns.group_id, columns.state, columns.report_id, columns.marked_at, event.actor_name)
        .join_from(
            rejection_marks,
            audit_events,
            and_(event.event_id == columns.event_id, event.tenant_id == columns.tenant_id),
            isouter=True,
        )
        .where(columns.tenant_id == tenant_id, columns.group_id.in_(group_ids))
    )
    return {row[0]: Mark(*row[1:]) for row in (await connection.execute(query)).all()}


async def set_mark(
    connection: Connection,
    tenant_id: str,
    group_id: str,
    state: MarkState,
    *,
    report_id: str,
    event_id: str,
    at: datetime,
) -> None:
    """Mark a group of rejections, whatever it was before."""
    values = {"state": state, "report_id": report_id, "event_id": event_id, "marked_at": at}
    upsert = (sqlite_insert if connection.dialect.name == "sqlite" else postgres_insert)(rejection_marks)
    statement = upsert.values(tenant_id=tenant_id, group_id=group_id, **values)
    await connection.execute(statement.on_conflict_do_update(index_elements=["tenant_id", "group_id"], set_=values))


async def delete_mark(connection: Connection, tenant_id: str, group_id: str) -> None:
    """Delete the mark of a group of rejections, if it has one."""
    own = (rejection_marks.c.tenant_id == tenant_id, rejection_marks.c.group_id == group_id)
    await connection.execute(delete(rejection_marks).where(*own))


async def delete_old_marks(connection: Connection, before: datetime, limit: int) -> int:
    """Delete marks of reviewed groups that were made before `before`, at most `limit`; return how many."""
    columns = rejection_marks.c
    is_old = (columns.state == "reviewed", columns.marked_at < before)
    old = select(columns.tenant_id, columns.group_id).where(*is_old).limit(limit)
    owned = [(row.tenant_id, row.group_id) for row in (await connection.execute(old)).all()]
    statement = delete(rejection_marks).where(
        columns.group_id.in_([group_id for _tenant_id, group_id in owned]),
        tuple_(columns.tenant_id, columns.group_id).in_(owned),
    )
    return len((await connection.execute(statement.returning(columns.group_id))).all()) if owned else 0


async def load_past(
    connection: Connection, tenant_id: str, wanted: DecisionFilter, after: str, limit: int
) -> Sequence[PastDecision]:
    """Return decisions on uploads that were judged, oldest first, after the id `after`, at most `limit`."""
    columns = decisions.c
    query = (
        # JSON as text: a caller that asks for many rows parses it in a thread.
        select(
            columns.report_id,
            columns.outcome,
            columns.reason,
            cast(columns.rules, Text),
            cast(columns.facts, Text),
        )
        .where(*_conditions(tenant_id, wanted), columns.outcome != "undecided", columns.report_id > after)
        .order_by(columns.report_id)
        .limit(limit)
    )
    return [PastDecision(*row) for row in (await connection.execute(query)).all()]


async def skip_all_but(connection: Connection, tenant_id: str, wanted: DecisionFilter, most: int) -> str | None:
    """Return the id after which the newest `most` rows begin; None if there are no more than that."""
    ids = select(decisions.c.report_id).where(*_conditions(tenant_id, wanted))
    query = ids.order_by(decisions.c.report_id.desc())
    found: str | None = (await connection.execute(query.offset(most).limit(1))).scalar_one_or_none()
    return found


async def delete_expired(connection: Connection, before: datetime, limit: int) -> int:
    """Delete rows written before `before`, at most `limit`; return how many."""
    old = select(decisions.c.tenant_id, decisions.c.report_id).where(decisions.c.created_at < before).limit(limit)
    owned = [(row.tenant_id, row.report_id) for row in (await connection.execute(old)).all()]
    statement = delete(decisions).where(*rows_of(decisions, owned)).returning(decisions.c.report_id)
    return len((await connection.execute(statement)).all()) if owned else 0


def _conditions(tenant_id: str, wanted: DecisionFilter) -> list[ColumnElement[bool]]:
    columns = decisions.c
    conditions = [columns.tenant_id == tenant_id, columns.mode.not_in(NOT_UPLOADS)]
    for column, value in (
        (columns.context_key, wanted.context_key),
        (columns.reason, wanted.reason),
        (columns.actor_id, wanted.actor_id),
    ):
        if value is not None:
            conditions.append(column == value)
    if wanted.outcome is not None:
        # As literals: with parameters in their place, no planner would know that an index without accepted uploads
        # holds every such row.
        conditions.append(columns.outcome == literal(wanted.outcome, literal_execute=True))
        if wanted.outcome != "accepted":
            conditions.append(columns.outcome != literal("accepted", literal_execute=True))
    if wanted.only_failed:
        conditions.append(columns.reason.is_not(None))
    # By the id, which begins with its moment: so the index that lists them also finds them.
    if wanted.since is not None:
        conditions.append(columns.report_id >= first_id("rep", wanted.since))
    if wanted.until is not None:
        conditions.append(columns.report_id < first_id("rep", wanted.until + timedelta(milliseconds=1)))
    if wanted.among_newest is not None:
        ids = select(columns.report_id).where(columns.tenant_id == tenant_id).order_by(columns.report_id.desc())
        oldest = ids.offset(wanted.among_newest).limit(1).scalar_subquery()
        conditions.append(columns.report_id > func.coalesce(oldest, ""))
    if wanted.filename is not None:
        # Names are in no index: only this many of the newest reports are read.
        ids = select(columns.report_id).where(*conditions).order_by(columns.report_id.desc())
        newest = ids.offset(NAMES_SEARCHED).limit(1).scalar_subquery()
        name = func.lower(columns.original_filename)
        conditions += [
            columns.report_id > func.coalesce(newest, ""),
            name.contains(wanted.filename.lower(), autoescape=True),
        ]
    return conditions
