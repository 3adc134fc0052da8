"""Counts of lists, without counting their rows: sums, and the deltas that are not yet added to them.

A trigger writes a delta in the transaction in which a row comes onto a list or leaves it; the worker folds deltas into
sums. So a total is exact at every moment, no upload waits for another's sum, and no code that changes rows can forget
to count (docs/decisions/0014).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from sqlalchemy import (
    ColumnElement,
    String,
    Table,
    and_,
    bindparam,
    cast,
    delete,
    exists,
    func,
    insert,
    literal_column,
    select,
    text,
    true,
)

from sluice.db.deltas import Deltas, add_up
from sluice.db.schema import IS_STORED, audit_events, contexts, count_deltas, files, row_counts
from sluice.db.sql import Connection

ListName = Literal["files", "contexts", "audit_events", "bucket_files"]
Facets = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Counted:
    table: Table
    first: ColumnElement[str]
    second: ColumnElement[str]
    on_list: ColumnElement[bool]


_NO_FACET: Final = cast(literal_column("''"), String)  # bare, PostgreSQL would not group by it
_COUNTED: Final[Mapping[ListName, _Counted]] = {
    "files": _Counted(files, files.c.context_key, files.c.uploaded_by, IS_STORED),
    "contexts": _Counted(contexts, contexts.c.status, _NO_FACET, true()),
    "audit_events": _Counted(audit_events, audit_events.c.actor_id, audit_events.c.action, true()),
    # No endpoint lists the files of a bucket, but deleting a bucket reports how many it has.
    "bucket_files": _Counted(
        files, files.c.storage_config_id, _NO_FACET, and_(IS_STORED, files.c.storage_config_id.is_not(None))
    ),
}
ANY_DELTA: Final = exists(select(count_deltas.c.delta_id))
LISTS: Final[tuple[ListName, ...]] = tuple(_COUNTED)
_KEY: Final = ("tenant_id", "list", "facet_1", "facet_2")
_BOUND: Final = tuple(f"its_{name}" for name in _KEY)
_is_key: Final = and_(*(row_counts.c[name] == bindparam(bound) for name, bound in zip(_KEY, _BOUND, strict=True)))
_EMPTIED: Final = delete(row_counts).where(_is_key, row_counts.c.rows == 0)
_DELTAS: Final = Deltas(count_deltas, _KEY, ("change",))


async def total(
    connection: Connection, tenant_id: str, of: ListName, first: str | None = None, second: str | None = None
) -> int:
    """Return how many rows the list has with these facets (None: any), in one statement, so at one moment.

    The cost grows with the deltas that wait to be folded, not with the rows.
    """
    if "" in (first, second):
        return 0  # no row has an empty facet, and in `row_counts` it means all
    summed = select(row_counts.c.rows).where(
        row_counts.c.tenant_id == tenant_id,
        row_counts.c.list == of,
        row_counts.c.facet_1 == (first or ""),
        row_counts.c.facet_2 == (second or ""),
    )
    fresh = select(func.sum(count_deltas.c.change)).where(
        count_deltas.c.tenant_id == tenant_id, count_deltas.c.list == of
    )
    if first is not None:
        fresh = fresh.where(count_deltas.c.facet_1 == first)
    if second is not None:
        fresh = fresh.where(count_deltas.c.facet_2 == second)
    both = func.coalesce(summed.scalar_subquery(), 0) + func.coalesce(fresh.scalar_subquery(), 0)
    return int((await connection.execute(select(both))).scalar_one())


async def fold(connection: Connection, limit: int) -> int:
    """Move the oldest deltas, at most `limit`, into the sums; return how many. Any number of workers may."""
    deltas = await _DELTAS.take(connection, limit)
    sums: Counter[tuple[str, ...]] = Counter()
    for delta in deltas:
        for first, second in _levels(delta.facet_1, delta.facet_2):
            sums[delta.tenant_id, delta.list, first, second] += delta.change
    changed = [(key, change) for key, change in sorted(sums.items()) if change]
    if changed:
        added = [dict(zip(_KEY, key, strict=True), rows=change) for key, change in changed]
        await add_up(connection, row_counts, ("rows",), added)
    emptied = [dict(zip(_BOUND, key, strict=True)) for key, change in changed if change < 0]
    if emptied:
        await connection.execute(_EMPTIED, emptied)
    return sum(delta.deltas for delta in deltas)


async def find_wrong(connection: Connection, tenant_id: str, of: ListName) -> dict[Facets, tuple[int, int]]:
    """Return each wrong count of a list, as the kept and the actual number. Reads all rows of the list."""
    await _fix_snapshot(connection)
    actual, counted = await _actual(connection, tenant_id, of), await _counted(connection, tenant_id, of)
    return {
        facets: (counted[facets], actual[facets])
        for facets in actual.keys() | counted.keys()
        if actual[facets] != counted[facets]
    }


async def recount(connection: Connection, tenant_id: str, of: ListName) -> None:
    """Recount a list from its rows.

    Raise `DatabaseUnavailable` if a worker folded its counts meanwhile: a retry may succeed.
    """
    await _fix_snapshot(connection)
    for table in (count_deltas, row_counts):
        await connection.execute(delete(table).where(table.c.tenant_id == tenant_id, table.c.list == of))
    actual = await _actual(connection, tenant_id, of)
    rows = [
        dict(zip(_KEY, (tenant_id, of, *facets), strict=True), rows=number)
        for facets, number in sorted(actual.items())
        if number
    ]
    if rows:
        await connection.execute(insert(row_counts), rows)


def _levels(first: str, second: str) -> Iterator[Facets]:
    """Yield the facets of the counts that include such a row."""
    yield from {(first, second), (first, ""), ("", second), ("", "")}


async def _fix_snapshot(connection: Connection) -> None:
    """Let all further statements of this transaction see one snapshot; an open transaction of SQLite always does."""
    if connection.dialect.name == "postgresql":
        await connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))


async def _actual(connection: Connection, tenant_id: str, of: ListName) -> Counter[Facets]:
    counted = _COUNTED[of]
    first, second = counted.first.label("facet_1"), counted.second.label("facet_2")
    query = select(first, second, func.count().label("rows")).where(
        counted.table.c.tenant_id == tenant_id, counted.on_list
    )
    found: Counter[Facets] = Counter()
    for row in (await connection.execute(query.group_by(first, second))).all():
        for facets in _levels(row.facet_1, row.facet_2):
            found[facets] += row.rows
    return found


async def _counted(connection: Connection, tenant_id: str, of: ListName) -> Counter[Facets]:
    found: Counter[Facets] = Counter()
    summed = select(row_counts).where(row_counts.c.tenant_id == tenant_id, row_counts.c.list == of)
    for row in (await connection.execute(summed)).all():
        found[row.facet_1, row.facet_2] += row.rows
    fresh = select(count_deltas).where(count_deltas.c.tenant_id == tenant_id, count_deltas.c.list == of)
    for row in (await connection.execute(fresh)).all():
        for facets in _levels(row.facet_1, row.facet_2):
            found[facets] += row.change
    return found
