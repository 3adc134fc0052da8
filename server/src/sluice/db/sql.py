"""Building blocks of the repositories' queries: column types, row types, the database's clock, and one page of a list.

Leases, due times and plan months are compared with the database's clock alone, so servers whose clocks differ agree on
them. Moments that people read (`created_at` and the like) are written by the process that did the work.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    DateTime,
    Dialect,
    Float,
    Row,
    RowMapping,
    String,
    Table,
    TableValuedAlias,
    TypeDecorator,
    bindparam,
    column,
    literal,
    select,
    tuple_,
)
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from sluice.kit.paging import PageRequest, Slice, SliceRequest

# An open unit of work, as services pass it from one repository call to the next. Only repositories use its methods.
Connection = AsyncConnection
# A row by the names of its columns, from either driver.
Fields = Mapping[str, Any] | RowMapping
# A row whose columns are known to the query that made it.
AnyRow = Row[*tuple[Any, ...]]


class Moment(TypeDecorator[datetime]):
    """A timezone-aware moment in UTC. SQLite stores no zone, so reading adds it."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return the moment in UTC. Raise `ValueError` for a naive one, which is always a defect of the caller."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a moment without a zone")
        in_utc = value.astimezone(UTC)
        return in_utc if dialect.name == "postgresql" else in_utc.replace(tzinfo=None)

    def process_result_value(
        self,
        value: datetime | None,
        dialect: Dialect,  # noqa: ARG002  (SQLAlchemy's signature)
    ) -> datetime | None:
        """Return the stored moment, aware."""
        if value is None or value.tzinfo is not None:
            return value
        return value.replace(tzinfo=UTC)


# Free-form JSON. Plain `json`, not `jsonb`, on PostgreSQL: it keeps the order of keys and accepts an escaped NUL.
Document = JSON(none_as_null=True)


class _Now(FunctionElement[Any]):
    type = Moment()
    inherit_cache = True


class _NowPlus(FunctionElement[Any]):
    type = Moment()
    inherit_cache = True


class _Month(FunctionElement[str]):
    type = String(7)
    inherit_cache = True


class _Texts(FunctionElement[str]):
    type = String()
    inherit_cache = True


class _Elements(FunctionElement[Any]):
    type = Document
    inherit_cache = True


def now() -> ColumnElement[Any]:
    """Return the moment at which the transaction began, for comparisons with due times."""
    return _Now()


def now_plus(after: timedelta | ColumnElement[float]) -> ColumnElement[Any]:
    """Return the moment `after` (a duration, or a parameter in seconds; may be negative) the row is written."""
    return _NowPlus(literal(after.total_seconds(), Float) if isinstance(after, timedelta) else after)


def month() -> ColumnElement[str]:
    """Return the current calendar month in UTC, such as `2026-01`."""
    return _Month()


async def load_now(connection: AsyncConnection) -> datetime:
    """Return the current moment by the database's clock."""
    moment: datetime = (await connection.execute(select(now()))).scalar_one()
    return moment


def rows_of(table: Table, owned: Collection[tuple[str, str]]) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for rows of several tenants, each named by its tenant and its primary key."""
    (key,) = table.primary_key
    # The key by itself too, since not every database looks up a pair in the index of one column.
    return key.in_([row_id for _tenant_id, row_id in owned]), tuple_(table.c.tenant_id, key).in_(list(owned))


# Statements that are built once take a list as one parameter, a JSON array: with a parameter for each of its elements,
# building, binding and reading them costs more than what they do.


def is_listed(one: ColumnElement[str], name: str) -> ColumnElement[bool]:
    """Return the condition that a column is one of the texts in the list `name`."""
    texts = _Texts(bindparam(name, type_=Document)).table_valued(column("value", String), name="listed")
    return one.in_(select(texts.c.value))


def elements(name: str) -> TableValuedAlias:
    """Return the list `name`, of any JSON, as rows with the column `value`."""
    return _Elements(bindparam(name, type_=Document)).table_valued(column("value", Document), name="listed")


def rows_listed(table: Table, name: str) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions of `rows_of` for the rows in the list `name`, each a pair of texts."""
    (key,) = table.primary_key
    pair = elements(name).c.value
    tenant, row_id = pair[0].as_string(), pair[1].as_string()
    return key.in_(select(row_id)), tuple_(table.c.tenant_id, key).in_(select(tenant, row_id))


async def load_page(
    connection: Connection,
    tenant_id: str,
    columns: Sequence[Column[Any]],
    conditions: Sequence[ColumnElement[bool]],
    request: PageRequest,
    *,
    total: int,
) -> Sequence[AnyRow]:
    """Return one page of the tenant's `total` rows that meet `conditions`, newest first by their primary key.

    Rows before the page are skipped in an index that holds only keys, from the nearer end of the list; then the page's
    rows are read.
    """
    (key,) = columns[0].table.primary_key
    size = min(request.page_size, total - request.offset)
    if size <= 0:
        return ()
    after = total - request.offset - size
    from_newest = request.offset <= after
    is_own = columns[0].table.c.tenant_id == tenant_id
    ids = select(key).where(is_own, *conditions).order_by(key.desc() if from_newest else key.asc()).limit(size)
    page = ids.offset(request.offset if from_newest else after).subquery()
    query = select(*columns).join(page, page.c[key.name] == key).where(is_own).order_by(key.desc())
    return (await connection.execute(query)).all()


async def load_slice(
    connection: Connection,
    tenant_id: str,
    columns: Sequence[Column[Any]],
    conditions: Sequence[ColumnElement[bool]],
    request: SliceRequest,
) -> Slice[AnyRow]:
    """Return the requested rows of the tenant that meet `conditions`, newest first by their primary key."""
    (key,) = columns[0].table.primary_key
    ids = select(key).where(columns[0].table.c.tenant_id == tenant_id, *conditions).limit(request.size + 1)
    if request.after is not None:
        ids = ids.where(key > request.after).order_by(key)
    else:
        ids = (ids if request.before is None else ids.where(key < request.before)).order_by(key.desc())
    page = ids.subquery()
    query = select(*columns).join(page, page.c[key.name] == key).where(columns[0].table.c.tenant_id == tenant_id)
    rows = list((await connection.execute(query.order_by(key.desc()))).all())
    has_more = len(rows) > request.size
    if request.after is not None:
        return Slice(tuple(rows[1:] if has_more else rows), has_newer=has_more, has_older=True)
    return Slice(tuple(rows[: request.size]), has_newer=request.before is not None, has_older=has_more)


@compiles(_Now, "postgresql")
def _now_postgresql(_element: _Now, _compiler: SQLCompiler, **_more: object) -> str:
    # The moment of the transaction, not of the row: PostgreSQL can look it up in an index.
    return "now()"


@compiles(_Now, "sqlite")
def _now_sqlite(_element: _Now, _compiler: SQLCompiler, **_more: object) -> str:
    return "strftime('%Y-%m-%d %H:%M:%f000', 'now')"  # SQLAlchemy's text form of a moment; SQLite counts milliseconds


@compiles(_NowPlus, "postgresql")
def _now_plus_postgresql(element: _NowPlus, compiler: SQLCompiler, **more: Any) -> str:
    # The moment of the row, however long its statement waited for locks: a lease has its whole length.
    return f"(clock_timestamp() + {compiler.process(element.clauses, **more)} * INTERVAL '1 second')"


@compiles(_NowPlus, "sqlite")
def _now_plus_sqlite(element: _NowPlus, compiler: SQLCompiler, **more: Any) -> str:
    return f"strftime('%Y-%m-%d %H:%M:%f000', 'now', {compiler.process(element.clauses, **more)} || ' seconds')"


@compiles(_Texts, "postgresql")
def _texts_postgresql(element: _Texts, compiler: SQLCompiler, **more: Any) -> str:
    return f"json_array_elements_text({compiler.process(element.clauses, **more)})"


@compiles(_Elements, "postgresql")
def _elements_postgresql(element: _Elements, compiler: SQLCompiler, **more: Any) -> str:
    return f"json_array_elements({compiler.process(element.clauses, **more)})"


@compiles(_Texts, "sqlite")
@compiles(_Elements, "sqlite")
def _elements_sqlite(element: _Texts | _Elements, compiler: SQLCompiler, **more: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **more)})"


@compiles(_Month, "postgresql")
def _month_postgresql(_element: _Month, _compiler: SQLCompiler, **_more: object) -> str:
    return "to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM')"


@compiles(_Month, "sqlite")
def _month_sqlite(_element: _Month, _compiler: SQLCompiler, **_more: object) -> str:
    return "strftime('%Y-%m', 'now')"
