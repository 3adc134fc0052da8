"""Deltas and the sums that they are folded into: how both tables are written, whatever they count.

A trigger writes a delta in the transaction that changes what is counted, so no upload waits for another's sum; the
worker takes the oldest ones and adds them up (docs/decisions/0014).
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Executable,
    FromClause,
    Integer,
    Select,
    Table,
    bindparam,
    cast,
    delete,
    func,
    select,
)
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from sluice.db.sql import AnyRow, Connection

_MOST: Final = bindparam("most", type_=Integer)


class Deltas:
    """A table of deltas, whose columns `numbers` are summed up by those of `key`."""

    def __init__(self, table: Table, key: Sequence[str], numbers: Sequence[str]) -> None:
        self._key = key
        self._numbers = numbers
        delta_id = table.c.delta_id
        first = select(table).order_by(delta_id).limit(_MOST).subquery()
        self._oldest = self._summed(first, func.max(first.c.delta_id).label("last"))
        self._forget = delete(table).where(delta_id <= bindparam("last"))
        ids = select(delta_id).order_by(delta_id).limit(_MOST).with_for_update(skip_locked=True)
        taken = delete(table).where(delta_id.in_(ids)).returning(*(table.c[name] for name in (*key, *numbers)))
        self._take = self._summed(taken.cte("taken"))

    async def take(self, connection: Connection, limit: int) -> Sequence[AnyRow]:
        """Delete the oldest deltas, at most `limit`; return the sums of each key, with how many they were as `deltas`.

        Any number of workers may: each delta goes to one.
        """
        if connection.dialect.name == "sqlite":  # which has no DELETE inside a query, and one writer
            found: Sequence[AnyRow] = (await connection.execute(self._oldest, {"most": limit})).all()
            if found:
                await connection.execute(self._forget, {"last": max(row.last for row in found)})
        else:
            found = (await connection.execute(self._take, {"most": limit})).all()
        return found

    def _summed(self, deltas: FromClause, *more: ColumnElement[Any]) -> Select[Any]:
        key = [deltas.c[name] for name in self._key]
        # PostgreSQL's sum of large integers is no integer.
        sums = [cast(func.sum(deltas.c[name]), BigInteger).label(name) for name in self._numbers]
        return select(*key, *sums, func.count().label("deltas"), *more).group_by(*key)


async def add_up(
    connection: Connection, sums: Table, numbers: tuple[str, ...], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Add the `numbers` of the rows to the sums with their keys, which are made where there are none.

    The rows are in the order of their keys, so that two workers cannot deadlock.
    """
    await connection.execute(_adding(connection.dialect.name, sums, numbers), [*rows])


@cache
def _adding(dialect: str, sums: Table, numbers: tuple[str, ...]) -> Executable:
    upsert = (sqlite_insert if dialect == "sqlite" else postgres_insert)(sums)
    added = {name: sums.c[name] + upsert.excluded[name] for name in numbers}
    return upsert.on_conflict_do_update(index_elements=[*sums.primary_key.columns], set_=added)
