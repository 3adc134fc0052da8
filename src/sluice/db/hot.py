"""Statements that run on the way of every upload: compiled once, run by the bare driver. What they ask is in the repositories.

Building, compiling and running a statement through SQLAlchemy costs more CPU than all checks of a small file. Here a statement is still
written in SQLAlchemy's language, so that columns and types stay in one place, but its text, the order of its parameters and how values
are converted are worked out once for each kind of database (docs/performance.md).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sqlalchemy import ColumnElement, Delete, Dialect, Insert, Select, Update
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

Statement = Select[Any] | Insert | Update | Delete
Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One place in a statement: the name of its value, or a constant, and how the driver wants it."""

    name: str
    constant: Any
    convert: Convert | None


@dataclass(frozen=True, slots=True)
class Compiled:
    """One statement for one kind of database."""

    text: str
    parameters: tuple[Parameter, ...]
    converted: tuple[tuple[int, Convert], ...]
    """The places of those parameters that the driver does not take as they are."""
    columns: tuple[tuple[str, Convert | None], ...]

    def bind(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """Answer the parameters in the driver's order."""
        given = [values[one.name] if one.constant is None else one.constant for one in self.parameters]
        for place, convert in self.converted:
            given[place] = convert(given[place])
        return tuple(given)

    def row(self, found: Sequence[Any]) -> dict[str, Any]:
        """Answer one row by the names of its columns."""
        pairs = zip(self.columns, found, strict=True)
        return {name: value if convert is None else convert(value) for (name, convert), value in pairs}


@dataclass(frozen=True, slots=True)
class Together:
    """How several units of a kind are one statement on PostgreSQL: for those whose values agree but for `each`, which come as arrays.

    `statement` answers a row with the column `key`, which is one of `each`, for every unit that it did; a unit without one did nothing.
    """

    statement: Statement
    each: Mapping[str, TypeEngine[Any]]
    key: str


@dataclass(frozen=True, slots=True)
class CompiledTogether:
    """The statement of several units."""

    text: str
    parameters: tuple[Parameter, ...]
    each: Mapping[str, TypeEngine[Any]]
    key: str
    alike: tuple[str, ...]
    """The names of the values in which the units must agree."""

    def bind(self, units: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
        """Answer the parameters in the driver's order."""
        return tuple(self._given(one, units) for one in self.parameters)

    def _given(self, one: Parameter, units: Sequence[Mapping[str, Any]]) -> Any:
        if one.name in self.each:
            given = [values[one.name] for values in units]
            return given if one.convert is None else [one.convert(value) for value in given]
        value = units[0][one.name] if one.constant is None else one.constant
        return value if one.convert is None else one.convert(value)


class Hot:
    """A unit of work: one statement on PostgreSQL; on SQLite one or more, in one transaction.

    On SQLite each statement runs only if the one before it answered a row, and nothing is changed unless all did. On PostgreSQL the one
    statement says the same with common table expressions. Values are named by `bindparam`s that carry their type.

    One of the values is `tenant_id`, whose rows the unit is about, whether its statements use it or not; a unit of `nobody` has none.
    """

    def __init__(
        self, *, postgres: Statement, sqlite: Sequence[Statement], nobody: bool = False, together: Together | None = None
    ) -> None:
        """With `together`, units that wait for one of their kind may become one statement (`group_commit`)."""
        self._nobody = nobody
        self._postgres = postgres
        self._sqlite = tuple(sqlite)
        self._together = together
        self._compiled: dict[str, tuple[Compiled, ...]] = {}
        self._compiled_together: CompiledTogether | None = None

    def tenant_of(self, values: Mapping[str, Any]) -> str | None:
        """Answer whose rows a run with these values is about; raises `KeyError` when they do not say and have to."""
        return None if self._nobody else values["tenant_id"]

    def on(self, dialect: Dialect) -> tuple[Compiled, ...]:
        """Answer the statements for a kind of database."""
        known = self._compiled.get(dialect.name)
        if known is None:
            statements = (self._postgres,) if dialect.name == "postgresql" else self._sqlite
            known = self._compiled[dialect.name] = tuple(_compile(statement, dialect) for statement in statements)
        return known

    def together_on(self, dialect: Dialect) -> CompiledTogether | None:
        """Answer the statement of several units, None where there is none."""
        if self._compiled_together is None and self._together is not None and dialect.name == "postgresql":
            self._compiled_together = _compile_together(self._together, dialect)
        return self._compiled_together


def same(statement: Statement) -> Hot:
    """Answer a unit of one statement that reads alike on both kinds of database."""
    return Hot(postgres=statement, sqlite=[statement])


def _compile_together(together: Together, dialect: Dialect) -> CompiledTogether:
    compiled = _compiled(together.statement, dialect)
    parameters = _parameters(compiled, dialect, together.each)
    alike = tuple(one.name for one in parameters if one.constant is None and one.name not in together.each)
    return CompiledTogether(str(compiled), parameters, together.each, together.key, alike)


def _compiled(statement: Statement, dialect: Dialect) -> SQLCompiler:
    compiled = statement.compile(dialect=dialect)
    if not isinstance(compiled, SQLCompiler):
        raise TypeError("not a statement that holds values")
    return compiled


def _parameters(
    compiled: SQLCompiler, dialect: Dialect, each: Mapping[str, TypeEngine[Any]] = MappingProxyType({})
) -> tuple[Parameter, ...]:
    """Answer the places of a statement; those of `each` convert one value of their array."""
    kinds = {name: bind.type for name, bind in compiled.binds.items()} | dict(each)
    return tuple(Parameter(name, compiled.params[name], _binder(kinds[name], dialect)) for name in compiled.positiontup or ())


def _compile(statement: Statement, dialect: Dialect) -> Compiled:
    compiled = _compiled(statement, dialect)
    parameters = _parameters(compiled, dialect)
    converted = tuple((place, one.convert) for place, one in enumerate(parameters) if one.convert is not None)
    columns = tuple((column.key or "", _reader(column, dialect)) for column in statement.exported_columns)
    return Compiled(str(compiled), parameters, converted, columns)


def _binder(kind: TypeEngine[Any], dialect: Dialect) -> Convert | None:
    return kind.dialect_impl(dialect).bind_processor(dialect)


def _reader(column: ColumnElement[Any], dialect: Dialect) -> Convert | None:
    return column.type.dialect_impl(dialect).result_processor(dialect, None)
