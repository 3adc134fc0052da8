"""All queries of the decision log: append a row, find and list rows, and delete old ones.

The decision on an accepted upload is written by `uploads.repository`, in the statement that makes its file visible.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import ColumnElement, Text, cast, delete, func, insert, select

from sluice.db.database import Database
from sluice.db.schema import decisions
from sluice.db.sql import Connection, load_page, load_slice, rows_of
from sluice.db.statement import Statement
from sluice.decisions.record import DecisionFilter, DecisionRecord, DecisionSummary, PastDecision
from sluice.kit.ids import first_id
from sluice.kit.paging import Page, PageRequest, Slice, SliceRequest

MOST_LISTED: Final = 10_000  # what a total counts to, so that a list costs the same however long the log is

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
    """Return the decision on an upload, or None."""
    query = select(decisions).where(*_conditions(tenant_id, DecisionFilter()), decisions.c.report_id == report_id)
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


async def load_summaries(
    connection: Connection, tenant_id: str, wanted: DecisionFilter, limit: int
) -> Sequence[DecisionSummary]:
    """Return the newest decisions on uploads in short, at most `limit`, newest first."""
    columns = decisions.c
    query = (
        select(
            columns.report_id,
            columns.context_key,
            columns.outcome,
            columns.reason,
            columns.original_filename,
            columns.actor_id,
            columns.duration_ms,
            columns.created_at,
        )
        .where(*_conditions(tenant_id, wanted))
        .order_by(columns.report_id.desc())
        .limit(limit)
    )
    return [DecisionSummary(*row) for row in (await connection.execute(query)).all()]


async def load_past(
    connection: Connection, tenant_id: str, wanted: DecisionFilter, after: str, limit: int
) -> Sequence[PastDecision]:
    """Return decisions on uploads that were judged, oldest first, from behind the id `after` on, at most `limit`."""
    columns = decisions.c
    query = (
        # JSON as text: whoever asks for many rows reads them in a thread.
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
    """Return the id behind which the newest `most` rows begin; None if there are no more than that."""
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
    conditions = [columns.tenant_id == tenant_id, columns.mode != "rescan"]
    for column, value in (
        (columns.context_key, wanted.context_key),
        (columns.outcome, wanted.outcome),
        (columns.reason, wanted.reason),
        (columns.actor_id, wanted.actor_id),
    ):
        if value is not None:
            conditions.append(column == value)
    if wanted.only_failed:
        conditions.append(columns.reason.is_not(None))
    if wanted.filename is not None:
        conditions.append(func.lower(columns.original_filename).contains(wanted.filename.lower(), autoescape=True))
    # By the id, which begins with its moment: so the index that lists them also finds them.
    if wanted.since is not None:
        conditions.append(columns.report_id >= first_id("rep", wanted.since))
    if wanted.until is not None:
        conditions.append(columns.report_id < first_id("rep", wanted.until + timedelta(milliseconds=1)))
    return conditions
