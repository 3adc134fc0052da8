"""The schema of a database as lines that can be compared: columns, constraints, indexes, triggers, functions, policies.

The order of a table's columns is no part of it, since a step adds a column behind all others.
"""

import re
from collections.abc import Iterator

from sqlalchemy import Connection

_COLUMNS = """
SELECT format('%s.%s %s not null %s default %s identity %s generated %s collation %s', c.relname, a.attname,
              format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid), a.attidentity,
              a.attgenerated, a.attcollation::regcollation)
  FROM pg_attribute a
  JOIN pg_class c ON c.oid = a.attrelid
  LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
 WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
"""
# Tables, indexes and sequences, with their options, row security and rights
_RELATIONS = """
SELECT format('%s of kind %s options %s row security %s forced %s rights %s', relname, relkind, reloptions,
              relrowsecurity, relforcerowsecurity, relacl)
  FROM pg_class WHERE relnamespace = current_schema()::regnamespace
"""
_CONSTRAINTS = """
SELECT format('%s constraint %s %s validated %s', conrelid::regclass, conname, pg_get_constraintdef(oid), convalidated)
  FROM pg_constraint WHERE connamespace = current_schema()::regnamespace
"""
_INDEXES = """
SELECT pg_get_indexdef(oid) FROM pg_class WHERE relkind = 'i' AND relnamespace = current_schema()::regnamespace
"""
_TRIGGERS = """
SELECT format('%s enabled %s', pg_get_triggerdef(oid), tgenabled) FROM pg_trigger WHERE NOT tgisinternal
"""
# With language, SECURITY DEFINER, search path and body; and who may call it
_FUNCTIONS = """
SELECT format('%s rights %s', pg_get_functiondef(oid), proacl)
  FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
"""
_POLICIES = """
SELECT format('%s policy %s %s %s %s using %s check %s', tablename, policyname, permissive, roles, cmd, qual, with_check)
  FROM pg_policies
"""
_POSTGRES = (_COLUMNS, _RELATIONS, _CONSTRAINTS, _INDEXES, _TRIGGERS, _FUNCTIONS, _POLICIES)


def described(connection: Connection) -> set[str]:
    """Return a line for each thing that the database has."""
    if connection.dialect.name == "postgresql":
        return {_on_one_line(line) for query in _POSTGRES for line in connection.exec_driver_sql(query).scalars()}
    statements = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").all()
    return {line for name, sql in statements for line in _lines(name, _on_one_line(sql))}


def _lines(name: str, sql: str) -> Iterator[str]:
    if not sql.startswith("CREATE TABLE"):
        yield sql
        return
    head, _, rest = sql.partition("(")
    body, _, tail = rest.rpartition(")")
    yield f"{head.strip()} {tail.strip()}"
    # Columns and constraints are separated by the commas that are in no further brackets.
    for each in re.split(r",(?![^()]*\))", body):
        yield f"{name} {each.strip()}"


def _on_one_line(sql: str) -> str:
    return " ".join(sql.split())
