"""Statements of the upload path: SQL text per dialect with `:named` values, and the protocol of their drivers.

Building and compiling a statement through SQLAlchemy costs more CPU than all checks of a small file
(docs/performance.md), so the few statements that every upload runs are written as text, prepared once per connection
and run by the bare driver.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from pydantic_core import to_json
from sqlalchemy.dialects import sqlite as sqlalchemy_sqlite
from sqlalchemy.types import TypeEngine

Row = Mapping[str, Any]
Values = Mapping[str, Any]

_PARAMETER: Final = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")  # `::type` is a cast
_SQLITE: Final = sqlalchemy_sqlite.dialect()


class NoConnection(Exception):
    """No connection: all are in use, the server is unreachable or refuses, or its certificate is not trusted.

    Nothing was sent.
    """


class PostgresQuery:
    """SQL text in asyncpg's form, with `$1` for the first of `names`."""

    def __init__(self, sql: str) -> None:
        self.names: tuple[str, ...] = tuple(dict.fromkeys(_PARAMETER.findall(sql)))
        places = {name: f"${number}" for number, name in enumerate(self.names, 1)}
        self.text = _PARAMETER.sub(lambda match: places[match[1]], sql)

    def bind(self, values: Values) -> tuple[Any, ...]:
        """Return the parameters in order."""
        return tuple(_postgres_value(values[name]) for name in self.names)


class BatchStatement:
    """Several units of work as one statement, on PostgreSQL.

    Values named in `each` are arrays with one element per unit; in all `shared` values the units must agree. The
    statement returns a row for every unit that it carried out, identified by the column `key`, which is one of `each`.
    """

    def __init__(self, sql: str, *, each: Collection[str], key: str) -> None:
        self.key = key
        self._query = PostgresQuery(sql)
        self._each = frozenset(each)
        self.text = self._query.text
        self.shared = tuple(name for name in self._query.names if name not in self._each)

    def bind(self, units: Sequence[Values]) -> tuple[Any, ...]:
        """Return the parameters in order."""
        return tuple(
            [_postgres_value(values[name]) for values in units]
            if name in self._each
            else _postgres_value(units[0][name])
            for name in self._query.names
        )


class Statement:
    """A unit of work that returns at most one row: one statement on PostgreSQL, one or more on SQLite.

    On SQLite the statements are one transaction; each runs only if the one before it returned a row, and nothing is
    changed unless all did. The PostgreSQL text has the same effect, with common table expressions. One of the values
    is `tenant_id`, the row-level-security scope of the unit.
    """

    def __init__(
        self,
        *,
        postgres: str,
        sqlite: Sequence[str],
        types: Mapping[str, TypeEngine[Any]] | None = None,
        batch: BatchStatement | None = None,
        needs_tenant: bool = True,
    ) -> None:
        """`types` are those of returned columns that SQLite stores in another form: moments, JSON, booleans.

        With `batch`, concurrent units may share one statement (`group_commit`). A statement with `needs_tenant=False`
        runs in no scope.
        """
        self.postgres = PostgresQuery(postgres)
        self.sqlite = tuple(sqlite)
        self.batch = batch
        self._needs_tenant = needs_tenant
        readers = {
            name: kind.dialect_impl(_SQLITE).result_processor(_SQLITE, None) for name, kind in (types or {}).items()
        }
        self._sqlite_readers = {name: reader for name, reader in readers.items() if reader is not None}

    def tenant_of(self, values: Values) -> str | None:
        """Return the tenant whose rows a run with these values sees.

        Raise `KeyError` if the values lack a tenant that is needed.
        """
        return values["tenant_id"] if self._needs_tenant else None

    def sqlite_row(self, columns: Sequence[str], found: Sequence[Any]) -> Row:
        """Return one row of SQLite by the names of its columns."""
        readers = self._sqlite_readers
        return {
            name: readers[name](value) if name in readers else value for name, value in zip(columns, found, strict=True)
        }


class Driver(Protocol):
    """Runs statements, each in a transaction of its own."""

    @property
    def size(self) -> int:
        """The number of statements that run at once; further ones wait."""

    @property
    def requested(self) -> int:
        """The number of statements that run or wait."""

    async def fetch(self, statement: Statement, values: Values, *, writes: bool) -> Row | None:
        """Return the row of the (last) statement, or None if there is none: then nothing was changed."""
        ...

    async def aclose(self) -> None:
        """Close every connection. A second call is a no-op."""
        ...


class BatchDriver(Driver, Protocol):
    """A driver that can run several units as one statement."""

    async def fetch_batch(
        self, batch: BatchStatement, units: Sequence[Values], *, tenant_id: str | None
    ) -> Sequence[Row]:
        """Return the rows of the units that were carried out."""
        ...


def sqlite_values(values: Values) -> Values:
    """Return the values as SQLite stores them: moments as text in UTC, documents as JSON."""
    return {
        name: _sqlite_value(value) if isinstance(value, dict | datetime) else value for name, value in values.items()
    }


def _postgres_value(value: Any) -> Any:
    if isinstance(value, dict):
        return to_json(value).decode()
    if isinstance(value, datetime) and value.tzinfo is None:
        raise ValueError("a moment without a zone")  # asyncpg would read it in the server's zone
    return value


def _sqlite_value(value: dict[str, Any] | datetime) -> str:
    if isinstance(value, dict):
        return to_json(value).decode()
    if value.tzinfo is None:
        raise ValueError("a moment without a zone")
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
