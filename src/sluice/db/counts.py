"""How long the lists are, without counting their rows: sums, and the deltas that are not in them yet. What a list shows is its repository's.

A trigger writes a delta in the transaction in which a row comes onto a list or leaves it; the worker folds deltas into sums. So a total
is exact at every moment, no upload waits for another's sum, and no place that changes rows can forget to count (docs/decisions/0014).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import (
    ColumnElement,
    Executable,
    Integer,
    String,
    Table,
    and_,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal_column,
    select,
    text,
    true,
)
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from sluice.db.schema import IS_STORED, audit_events, contexts, count_deltas, files, row_counts
from sluice.db.types import Connection

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
    # Nobody lists the files of a bucket, but who deletes it is told how many there are.
    "bucket_files": _Counted(files, files.c.storage_config_id, _NO_FACET, and_(IS_STORED, files.c.storage_config_id.is_not(None))),
}
LISTS: Final[tuple[ListName, ...]] = tuple(_COUNTED)
_KEY: Final = ("tenant_id", "list", "facet_1", "facet_2")
_BOUND: Final = tuple(f"its_{name}" for name in _KEY)
_is_bound: Final = and_(*(row_counts.c[name] == bindparam(bound) for name, bound in zip(_KEY, _BOUND, strict=True)))


async def total(connection: Connection, tenant_id: str, of: ListName, first: str | None = None, second: str | None = None) -> int:
    """Answer how many rows the list has where its facets are these (None: whichever), in one statement, so at one moment.

    Its cost grows with the deltas that wait to be folded, not with the rows.
    """
    if "" in (first, second):
        return 0  # nothing has an empty facet, and in `row_counts` it stands for all
    rolled = select(row_counts.c.rows).where(
        row_counts.c.tenant_id == tenant_id,
        row_counts.c.list == of,
        row_counts.c.facet_1 == (first or ""),
        row_counts.c.facet_2 == (second or ""),
    )
    fresh = select(func.sum(count_deltas.c.change)).where(count_deltas.c.tenant_id == tenant_id, count_deltas.c.list == of)
    if first is not None:
        fresh = fresh.where(count_deltas.c.facet_1 == first)
    if second is not None:
        fresh = fresh.where(count_deltas.c.facet_2 == second)
    both = func.coalesce(rolled.scalar_subquery(), 0) + func.coalesce(fresh.scalar_subquery(), 0)
    return int((await connection.execute(select(both))).scalar_one())


async def fold(connection: Connection, most: int) -> int:
    """Move the oldest deltas, at most `most`, into the sums; answer how many. Any number of workers may: each delta is had by one."""
    deltas = (await connection.execute(_taken(connection.dialect.name, most))).all()
    sums: Counter[tuple[str, ...]] = Counter()
    for delta in deltas:
        for first, second in _levels(delta.facet_1, delta.facet_2):
            sums[delta.tenant_id, delta.list, first, second] += delta.change
    # In one order, so that two workers wait for each other and never in a circle.
    changed = [(key, change) for key, change in sorted(sums.items()) if change]
    if changed:
        await _add(connection, [dict(zip(_KEY, key, strict=True), rows=change) for key, change in changed])
    emptied = [dict(zip(_BOUND, key, strict=True)) for key, change in changed if change < 0]
    if emptied:
        await connection.execute(delete(row_counts).where(_is_bound, row_counts.c.rows == 0), emptied)
    return sum(delta.number for delta in deltas)


async def wrong(connection: Connection, tenant_id: str, of: ListName) -> dict[Facets, tuple[int, int]]:
    """Answer each count of a list that is not what its rows are, as what is counted and what there is. Reads all rows of the list."""
    await _hold_still(connection)
    there, counted = await _there(connection, tenant_id, of), await _counted(connection, tenant_id, of)
    return {
        facets: (counted[facets], there[facets]) for facets in there.keys() | counted.keys() if there[facets] != counted[facets]
    }


async def recount(connection: Connection, tenant_id: str, of: ListName) -> None:
    """Make the counts of a list anew from its rows. Raises `DatabaseAway` where a worker folded them meanwhile: then it may be tried again."""
    await _hold_still(connection)
    for table in (count_deltas, row_counts):
        await connection.execute(delete(table).where(table.c.tenant_id == tenant_id, table.c.list == of))
    there = await _there(connection, tenant_id, of)
    rows = [
        dict(zip(_KEY, (tenant_id, of, *facets), strict=True), rows=number) for facets, number in sorted(there.items()) if number
    ]
    if rows:
        await connection.execute(insert(row_counts), rows)


def _taken(dialect: str, most: int) -> Executable:
    """Answer what deletes the oldest deltas and answers them: on PostgreSQL those alike as one, with their number."""
    oldest = select(count_deltas.c.delta_id).order_by(count_deltas.c.delta_id).limit(most).with_for_update(skip_locked=True)
    alike = [count_deltas.c[name] for name in _KEY]
    taken = delete(count_deltas).where(count_deltas.c.delta_id.in_(oldest)).returning(*alike, count_deltas.c.change)
    if dialect == "sqlite":  # which knows no deletion inside a query
        return taken.returning(literal_column("1", Integer).label("number"))
    each = taken.cte("taken")
    kinds = [each.c[name] for name in _KEY]
    return select(*kinds, func.sum(each.c.change).label("change"), func.count().label("number")).group_by(*kinds)


def _levels(first: str, second: str) -> Iterator[Facets]:
    """Answer the counts that a row with these facets is in."""
    yield from {(first, second), (first, ""), ("", second), ("", "")}


async def _add(connection: Connection, changes: list[dict[str, Any]]) -> None:
    upsert = (sqlite_insert if connection.dialect.name == "sqlite" else postgres_insert)(row_counts)
    add_up = {"rows": row_counts.c.rows + upsert.excluded.rows}
    await connection.execute(upsert.on_conflict_do_update(index_elements=list(_KEY), set_=add_up), changes)


async def _hold_still(connection: Connection) -> None:
    """Let all further statements of this transaction see one moment; on SQLite a transaction that is open does that by itself."""
    if connection.dialect.name == "postgresql":
        await connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))


async def _there(connection: Connection, tenant_id: str, of: ListName) -> Counter[Facets]:
    counted = _COUNTED[of]
    first, second = counted.first.label("facet_1"), counted.second.label("facet_2")
    query = select(first, second, func.count().label("rows")).where(counted.table.c.tenant_id == tenant_id, counted.on_list)
    found: Counter[Facets] = Counter()
    for row in (await connection.execute(query.group_by(first, second))).all():
        for facets in _levels(row.facet_1, row.facet_2):
            found[facets] += row.rows
    return found


async def _counted(connection: Connection, tenant_id: str, of: ListName) -> Counter[Facets]:
    found: Counter[Facets] = Counter()
    rolled = select(row_counts).where(row_counts.c.tenant_id == tenant_id, row_counts.c.list == of)
    for row in (await connection.execute(rolled)).all():
        found[row.facet_1, row.facet_2] += row.rows
    fresh = select(count_deltas).where(count_deltas.c.tenant_id == tenant_id, count_deltas.c.list == of)
    for row in (await connection.execute(fresh)).all():
        for facets in _levels(row.facet_1, row.facet_2):
            found[facets] += row.change
    return found
