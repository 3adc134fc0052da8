"""Column and row types that mean the same on SQLite and on PostgreSQL. Tables live in `schema.py`."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, Dialect, Row, RowMapping, TypeDecorator
from sqlalchemy.ext.asyncio import AsyncConnection

Connection = AsyncConnection
"""An open unit of work, as services hand it from one repository call to the next. Only repositories know what it can do."""

Fields = Mapping[str, Any] | RowMapping
"""A row by the names of its columns, from whichever driver."""

AnyRow = Row[*tuple[Any, ...]]
"""A row whose columns are known to the query that made it."""


class Moment(TypeDecorator[datetime]):
    """An aware moment in UTC. SQLite keeps no zone, so it is put back on the way out."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Answer the moment in UTC; a naive one is a mistake of ours."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a moment without a zone")
        in_utc = value.astimezone(UTC)
        return in_utc if dialect.name == "postgresql" else in_utc.replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002  (SQLAlchemy's signature)
        """Answer the stored moment, aware."""
        if value is None or value.tzinfo is not None:
            return value
        return value.replace(tzinfo=UTC)


Document = JSON(none_as_null=True)
"""Free-form JSON. Plain `json`, not `jsonb`, on PostgreSQL: it keeps key order and takes an escaped NUL."""
