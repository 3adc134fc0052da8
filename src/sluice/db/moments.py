"""The database's own clock in SQL: leases, what is due and what month it is are told by it alone, however far servers' clocks are apart.

What a person reads (`created_at` and the like) is written by the process that did it.
"""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Float, String, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from sluice.db.types import Moment


class _Now(FunctionElement[Any]):
    """The moment at which the transaction began; PostgreSQL can look for it in an index, unlike for the moment of a row."""

    type = Moment()
    inherit_cache = True


class _Ahead(FunctionElement[Any]):
    """So many seconds after the moment at which the row is written, however long its statement waited for others."""

    type = Moment()
    inherit_cache = True


class _Month(FunctionElement[str]):
    """The calendar month of `_Now`."""

    type = String(7)
    inherit_cache = True


def now() -> ColumnElement[Any]:
    """Answer the present moment, to compare with what is due."""
    return _Now()


def ahead(after: timedelta | ColumnElement[float]) -> ColumnElement[Any]:
    """Answer the moment that lies `after` ahead (a time, or a parameter in seconds), to be written: it may also lie behind."""
    return _Ahead(literal(after.total_seconds(), Float) if isinstance(after, timedelta) else after)


def month() -> ColumnElement[str]:
    """Answer the present calendar month in UTC, as `2026-01`."""
    return _Month()


async def present(connection: AsyncConnection) -> datetime:
    """Ask for the present moment."""
    moment: datetime = (await connection.execute(select(now()))).scalar_one()
    return moment


@compiles(_Now, "postgresql")
def _now_postgresql(_element: _Now, _compiler: SQLCompiler, **_more: object) -> str:
    return "now()"


@compiles(_Now, "sqlite")
def _now_sqlite(_element: _Now, _compiler: SQLCompiler, **_more: object) -> str:
    return "strftime('%Y-%m-%d %H:%M:%f000', 'now')"  # as SQLAlchemy writes a moment; SQLite counts milliseconds


@compiles(_Ahead, "postgresql")
def _ahead_postgresql(element: _Ahead, compiler: SQLCompiler, **more: Any) -> str:
    return f"(clock_timestamp() + {compiler.process(element.clauses, **more)} * INTERVAL '1 second')"


@compiles(_Ahead, "sqlite")
def _ahead_sqlite(element: _Ahead, compiler: SQLCompiler, **more: Any) -> str:
    return f"strftime('%Y-%m-%d %H:%M:%f000', 'now', {compiler.process(element.clauses, **more)} || ' seconds')"


@compiles(_Month, "postgresql")
def _month_postgresql(_element: _Month, _compiler: SQLCompiler, **_more: object) -> str:
    return "to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM')"


@compiles(_Month, "sqlite")
def _month_sqlite(_element: _Month, _compiler: SQLCompiler, **_more: object) -> str:
    return "strftime('%Y-%m', 'now')"
